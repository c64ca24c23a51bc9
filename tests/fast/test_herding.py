"""The packed herding loops: against dense products, and compiled against NumPy, at sizes around every block edge."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from herdcli.fast import numpy_herding
from herdcli.herding.binary_features import LANES, pack_bits, to_unit_values, unpack_bits

try:
    from herdcli.fast import _herding
except ImportError:
    _herding = None

KERNELS: list[ModuleType] = [numpy_herding] + ([_herding] if _herding else [])
SHAPES = [(1, 1, 1), (3, 7, 5), (64, 64, 32), (65, 65, 33), (127, 63, 31), (129, 130, 64), (200, 256, 70), (2100, 20, 12)]


def setting(shape, spin, size, seed=0):
    """Random rows, weights, biases and what the loops are handed."""
    n, D, K = shape
    draws = np.random.default_rng([seed, n, D, K, size])
    on = draws.random((n, D)) < 0.5
    M = draws.integers(-size, size + 1, (D, K)).astype(np.int32)
    b, c = draws.integers(-size, size + 1, D), draws.integers(-size, size + 1, K)
    return on, to_unit_values(on, "spin" if spin else "binary").astype(np.int64), M, b, c


def padded(n, K):
    return np.zeros((-(-n // 64), -(-K // LANES) * LANES), dtype=np.uint64)


def hidden(module, on, M, b, c, spin):
    """(energy, signs) of a module's pass."""
    energy, signs = np.empty(len(on), dtype=np.int64), padded(len(on), M.shape[1])
    scratch = module.herding_scratch(-(-on.shape[1] // 64), *M.shape)
    module.hidden_pass(pack_bits(on), M, b, c, spin, energy, signs, scratch)
    again = np.empty(len(on), dtype=np.int64)
    module.hidden_pass(pack_bits(on), M, b, c, spin, again, None, scratch)
    np.testing.assert_array_equal(again, energy)
    return energy, signs


@pytest.mark.parametrize("module", KERNELS)
@pytest.mark.parametrize("spin", [True, False])
@pytest.mark.parametrize("size", [0, 3, 900, 30_000])  # ties; small; within 16 bits; beyond
@pytest.mark.parametrize("shape", SHAPES)
def test_hidden_pass_equals_dense_products(module, spin, size, shape):
    on, X, M, b, c = setting(shape, spin, size)
    energy, signs = hidden(module, on, M, b, c, spin)
    a = X @ M + c
    np.testing.assert_array_equal(energy, -(X @ b + (np.abs(a) if spin else np.maximum(a, 0)).sum(axis=1)))
    np.testing.assert_array_equal(unpack_bits(np.ascontiguousarray(signs.T), shape[0])[: shape[2]].T, a >= 0)
    assert not signs[:, shape[2] :].any()


@pytest.mark.parametrize("module", KERNELS)
def test_hidden_pass_is_exact_up_to_its_bound(module):
    """Sums just below 2^28, far beyond what float32 holds."""
    on, X, M, b, c = setting((130, 64, 40), True, (1 << 28) // 65)
    a = X @ M + c
    assert 1 << 24 < np.abs(a).max() < 1 << 28
    energy, signs = hidden(module, on, M, b, c, True)
    np.testing.assert_array_equal(energy, -(X @ b + np.abs(a).sum(axis=1)))
    np.testing.assert_array_equal(unpack_bits(np.ascontiguousarray(signs.T), 130)[:40].T, a >= 0)
    wide = hidden(module, on, M.astype(np.int64) << 20, b << 20, c << 20, True)
    np.testing.assert_array_equal(wide[0], energy << 20)
    np.testing.assert_array_equal(wide[1], signs)


@pytest.mark.parametrize("module", KERNELS)
@pytest.mark.parametrize("spin", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_update_equals_dense_products(module, spin, shape):
    n, D, K = shape
    on, X, M, _, c = setting(shape, spin, 50)
    a = X @ M + c
    Z = to_unit_values(a >= 0, "spin" if spin else "binary").astype(np.int64)
    signs = padded(n, K)
    signs[:, :K] = pack_bits(np.ascontiguousarray((a >= 0).T)).T
    x, z = X[0].astype(np.int8), Z[-1].astype(np.int8)
    weights, sample = M.copy(), np.full((D, K), 3, dtype=np.int32)
    hidden_sum, column, row = np.full(K, 9), np.full(K, 9), np.full(D, 9)
    squares = module.herding_update(
        weights, sample, pack_bits(np.ascontiguousarray(on.T)), signs, n, spin, 2, x, z, hidden_sum, column, row
    )
    expected = M + 2 * (X.T @ Z - n * np.outer(X[0], Z[-1]))
    np.testing.assert_array_equal(weights, expected)
    np.testing.assert_array_equal(sample, 3 + np.outer(X[0], Z[-1]))
    np.testing.assert_array_equal(hidden_sum, Z.sum(axis=0))
    np.testing.assert_array_equal(column, np.abs(expected).sum(axis=0))
    np.testing.assert_array_equal(row, np.abs(expected).sum(axis=1))
    assert squares == (expected**2).sum()


@pytest.mark.parametrize("module", KERNELS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("spin", [True, False])
@pytest.mark.parametrize("flip", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_ascent_ends_at_a_fixpoint_no_lower_than_its_start(module, dtype, spin, flip, shape):
    _, X, M, b, c = setting(shape, spin, 20)
    M, low, flip = M.astype(dtype), -1 if spin else 0, flip and spin
    x, z = X[0].astype(np.int8), np.ones(shape[2], dtype=np.int8)
    scratch = module.herding_scratch(-(-shape[1] // 64), shape[1], shape[2])
    sweeps = module.ascend(M, b, c, x, z, spin, flip, 0, scratch)
    assert sweeps >= 1
    np.testing.assert_array_equal(z, np.where(c + x.astype(np.int64) @ M >= 0, 1, low))
    np.testing.assert_array_equal(x, np.where(b + M @ z.astype(np.int64) >= 0, 1, low))
    first = np.where(c + X[0] @ M >= 0, 1, low)

    def score(x, z):
        return int(b @ x + c @ z + x @ M.astype(np.int64) @ z)

    assert score(x.astype(np.int64), z.astype(np.int64)) >= score(X[0], first)
    if flip:
        assert int(b @ x + c @ z) >= 0


@pytest.mark.parametrize("module", KERNELS)
def test_ascent_stops_after_its_sweeps(module):
    _, X, M, b, c = setting((4, 130, 64), True, 500)
    scratch = module.herding_scratch(3, 130, 64)
    x, z = X[0].astype(np.int8), np.ones(64, dtype=np.int8)
    assert module.ascend(M, b, c, x, z, True, False, 1, scratch) == 1
    np.testing.assert_array_equal(z, np.where(c + X[0] @ M >= 0, 1, -1))
    np.testing.assert_array_equal(x, np.where(b + M @ z.astype(np.int64) >= 0, 1, -1))


@pytest.mark.skipif(_herding is None, reason="the compiled loops are not built")
@pytest.mark.parametrize("seed", range(30))
def test_compiled_ascent_takes_the_same_path(seed):
    draws = np.random.default_rng(seed)
    shape = tuple(int(size) for size in draws.integers(1, 200, 3))
    spin, flip, limit = bool(draws.integers(2)), bool(draws.integers(2)), int(draws.integers(4))
    _, X, M, b, c = setting(shape, spin, int(draws.integers(1, 2000)), seed)
    found = []
    for module in KERNELS:
        x, z = X[0].astype(np.int8), np.ones(shape[2], dtype=np.int8)
        sweeps = module.ascend(M, b, c, x, z, spin, flip and spin, limit, module.herding_scratch(-(-shape[1] // 64), shape[1], shape[2]))
        found.append((sweeps, x.tolist(), z.tolist()))
    assert found[0] == found[1]


def test_no_rows_leave_everything_alone():
    for module in KERNELS:
        energy = np.empty(0, dtype=np.int64)
        scratch = module.herding_scratch(1, 8, 4)
        M, b, c = np.ones((8, 4), dtype=np.int32), np.zeros(8, dtype=np.int64), np.zeros(4, dtype=np.int64)
        module.hidden_pass(np.empty((0, 1), dtype=np.uint64), M, b, c, True, energy, None, scratch)
