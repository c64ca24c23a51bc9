"""The compiled tile sums against the definition, against their NumPy twin, and for every shape of tile."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from herdcli import fast
from herdcli.fast import numpy_embedding

TOLERANCE = {np.float64: 1e-14, np.float32: 2e-6}


@pytest.fixture(params=["compiled", "numpy"])
def loops(request):
    if request.param == "numpy":
        return numpy_embedding
    return pytest.importorskip("herdcli.fast._embedding")


def points(d, n, dtype, seed=0, scale=0.7):
    return (scale * np.random.default_rng(seed).standard_normal((d, n))).astype(dtype)


@pytest.mark.parametrize(("dtype", "low", "bound"), [(np.float64, -1020.0, 1e-14), (np.float32, -124.0, 3e-7)])
def test_exponential_is_accurate_over_its_whole_range(loops, dtype, low, bound):
    x = np.concatenate([np.linspace(low, 60, 1 << 16), np.random.default_rng(0).uniform(-30, 1, 1 << 16)]).astype(dtype)
    found = x.copy()
    loops.exp2_each(found)
    exact = np.exp2(x.astype(np.longdouble))
    assert float(np.max(np.abs(found / exact - 1))) <= bound


def test_exponential_is_exact_at_whole_numbers_and_zero_far_below(loops):
    x = np.array([0.0, 1.0, -1.0, 10.0, -1000.0, -1500.0, -1e9, -np.inf] * 2)
    loops.exp2_each(x)
    np.testing.assert_array_equal(x, [1.0, 2.0, 0.5, 1024.0, 2.0**-1000, 0.0, 0.0, 0.0] * 2)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("differences", [False, True])
@pytest.mark.parametrize(("d", "na", "nb"), [(1, 1, 16), (3, 7, 32), (10, 9, 48), (17, 4, 16), (40, 2, 1040)])
def test_tile_sums_are_those_of_the_kernel_matrix(loops, dtype, differences, d, na, nb):
    a, b = points(d, na, dtype, 1), points(d, nb, dtype, 2)
    wa, wb = np.random.default_rng(3).random(na).astype(dtype), np.random.default_rng(4).random(nb).astype(dtype)
    before = np.random.default_rng(5).random(nb).astype(dtype)
    exponent = a.T.astype(float) @ b if not differences else -0.5 * np.square(a.T[:, None].astype(float) - b.T).sum(axis=2)
    K = np.exp2(exponent)
    rows, columns = np.empty(na), before.copy()
    loops.gaussian_tile(a, wa, b, wb, differences, rows, columns)
    np.testing.assert_allclose(rows, K @ wb, rtol=TOLERANCE[dtype] * 10)
    np.testing.assert_allclose(columns, before + wa @ K, rtol=TOLERANCE[dtype] * 10)
    alone = np.empty(na)
    loops.gaussian_tile(a, wa, b, wb, differences, alone, None)
    np.testing.assert_array_equal(alone, rows)
    if not differences:
        rows_of_products, columns = np.empty(na), before.copy()
        loops.gaussian_finish(np.ascontiguousarray(a.T @ b), wa, wb, rows_of_products, columns)
        np.testing.assert_allclose(rows_of_products, K @ wb, rtol=TOLERANCE[dtype] * 10)
        np.testing.assert_allclose(columns, before + wa @ K, rtol=TOLERANCE[dtype] * 10)


def test_values_of_one_row(loops):
    b = points(5, 64, np.float64)
    out = np.empty(64)
    loops.gaussian_values(np.ascontiguousarray(b[:, 3]), b, out)
    np.testing.assert_allclose(out, np.exp2(-0.5 * np.square(b - b[:, 3:4]).sum(axis=0)), rtol=1e-14)
    assert out[3] == 1.0


@pytest.fixture
def compiled():
    """The compiled loops, with the instruction set they had before."""
    loops = pytest.importorskip("herdcli.fast._embedding")
    before = loops.instruction_set()
    yield loops
    loops.use_instruction_set(before)


def tile_sums(loops, kind, dtype, d=5, na=7, nb=1040):
    """Everything a kind of kernel gives: both sums, values of one row, sums of products that are there."""
    a, b = (np.random.default_rng(seed).integers(0, 9, (d, n)).astype(dtype) / dtype(8) for seed, n in ((1, na), (2, nb)))
    if kind != 9:  # of unequal columns: in general position
        a, b = (np.random.default_rng(seed).random((d, n)).astype(dtype) for seed, n in ((1, na), (2, nb)))
    wa, wb = np.random.default_rng(3).random(na).astype(dtype), np.random.default_rng(4).random(nb).astype(dtype)
    rows, columns, alone, out = np.empty(na), np.ones(nb, dtype), np.empty(na), np.zeros(nb, dtype)
    loops.kernel_tile(kind, a, wa, b, wb, rows, columns)
    loops.kernel_tile(kind, a, wa, b, wb, alone, None)
    if kind:
        loops.kernel_values(kind, np.ascontiguousarray(a[:, 0]), b, out)
    else:
        products = np.ascontiguousarray((np.random.default_rng(5).random((na, nb)) * 9 - 4).astype(dtype))
        loops.gaussian_finish(products, wa, wb, alone, columns)
    return np.concatenate([rows, columns, alone, out])


CASES = [(kind, np.float64) for kind in range(len(numpy_embedding.KINDS))] + [(0, np.float32), (1, np.float32)]


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_every_instruction_set_gives_the_bits_of_the_twin(compiled, kind, dtype):
    expected = tile_sums(numpy_embedding, kind, dtype)
    for name in compiled.instruction_sets():
        compiled.use_instruction_set(name)
        found = tile_sums(compiled, kind, dtype)
        if name == "avx2+fma":
            np.testing.assert_allclose(found, expected, rtol=2e-14 if dtype is np.float64 else 2e-6, atol=1e-15)
        else:
            np.testing.assert_array_equal(found, expected, err_msg=name)


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("metric", [False, True])
def test_steins_columns_are_the_same_bits_on_every_instruction_set(compiled, gaussian, metric):
    a, own, b = points(3, 5, np.float64, 1).T.copy(), np.array([0.3, -0.2, 0.9, 1.4]), points(6 + 2 + metric, 1040, np.float64, 2)
    expected, found = np.empty(1040), np.empty(1040)
    numpy_embedding.stein_values(gaussian, metric, a, own, b, expected)
    assert np.isfinite(expected).all()
    for name in compiled.instruction_sets():
        compiled.use_instruction_set(name)
        compiled.stein_values(gaussian, metric, a, own, b, found)
        if name == "avx2+fma":
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
        else:
            np.testing.assert_array_equal(found, expected, err_msg=name)
    with pytest.raises(ValueError, match="expected"):
        compiled.stein_values(gaussian, metric, a, own, b[1:], found)


def test_what_rounds_differently_is_never_taken_unasked(compiled):
    assert "+" not in compiled.instruction_sets()[0]
    with pytest.raises(ValueError, match=r"this machine runs .*, not mmx"):
        compiled.use_instruction_set("mmx")
    with pytest.raises(ValueError, match="no kernel of this precision"):
        tile_sums(compiled, 2, np.float32)


@pytest.mark.parametrize("name", ["sse2", "avx2", "mmx"])
def test_the_environment_decides(compiled, name, tmp_path):
    script = "from herdcli import fast; fast.kernel_tile; print(fast.instruction_set())"
    environment = os.environ | {"HERD_SIMD": name, "HERD_KERNELS": "cython"}
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    if name in compiled.instruction_sets():
        assert ended.stdout.strip() == name
    else:
        assert "HERD_SIMD" in ended.stderr or f"not {name}" in ended.stderr


def test_tile_does_not_depend_on_where_its_rows_begin():
    """A tile's sums are the same bits whether its rows come four at a time or alone."""
    compiled = pytest.importorskip("herdcli.fast._embedding")
    a, b, w = points(6, 9, np.float64, 1), points(6, 160, np.float64, 2), np.ones(160)
    whole = np.empty(9)
    compiled.gaussian_tile(a, np.ones(9), b, w, False, whole, None)
    for i in range(9):
        alone = np.empty(1)
        compiled.gaussian_tile(a[:, i : i + 1], np.ones(1), b, w, False, alone, None)
        assert alone[0] == whole[i]


def test_wrong_lengths_are_refused():
    compiled = pytest.importorskip("herdcli.fast._embedding")
    a, b = points(2, 4, np.float64), points(2, 17, np.float64)
    with pytest.raises(ValueError, match="multiple of 16"):
        compiled.gaussian_tile(a, np.ones(4), b, np.ones(17), False, np.empty(4), None)
    with pytest.raises(ValueError, match="expected"):
        compiled.gaussian_tile(a, np.ones(3), points(2, 16, np.float64), np.ones(16), False, np.empty(4), None)


def test_public_names_follow_the_kernels_in_use():
    used = fast.loops_in_use()
    expected = numpy_embedding if used == "python" else pytest.importorskip("herdcli.fast._embedding")
    assert fast.gaussian_tile is expected.gaussian_tile
