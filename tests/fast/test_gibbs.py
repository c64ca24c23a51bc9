"""The Gibbs loops: the compiled ones give the bits of the NumPy ones, and both give what they say."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import numpy as np
import pytest
from scipy.special import expit

from herdcli import fast
from herdcli.errors import BadUsage
from herdcli.fast import numpy_gibbs

SHAPES = [(1, 1), (1, 2), (3, 1), (2, 15), (5, 16), (4, 17), (7, 63), (3, 64), (6, 65), (9, 130), (0, 5)]


@pytest.fixture
def compiled() -> ModuleType:
    return pytest.importorskip("herdcli.fast._gibbs", reason="the compiled loops are not built")


@pytest.fixture(params=["python", "cython"])
def loops(request: pytest.FixtureRequest) -> ModuleType:
    if request.param == "python":
        return numpy_gibbs
    return pytest.importorskip("herdcli.fast._gibbs", reason="the compiled loops are not built")


def layer_arrays(shape: tuple[int, int], seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng([seed, *shape])
    return {
        "natural": random.normal(0, 4, shape).astype(np.float32),
        "bias": random.normal(0, 2, shape[1]).astype(np.float32),
        "words": random.integers(0, 2**16, (shape[0], shape[1] + 1), dtype=np.uint16),
        "states": np.full(shape, np.nan, dtype=np.float32),
    }


def scratch_for(loops: ModuleType, rows: int, inner: int) -> np.ndarray:
    return np.empty(loops.sparse_scratch(rows, inner), dtype=np.int32)


def test_logistic_is_within_four_units_in_ten_million(loops: ModuleType) -> None:
    x = np.concatenate([np.linspace(-87, 87, 400_001), np.geomspace(1e-30, 87, 1000), -np.geomspace(1e-30, 87, 1000)]).astype(np.float32)
    value = x.copy()
    loops.logistic(value)
    assert np.abs(value / expit(x.astype(np.float64)) - 1).max() < 4e-7
    assert value.min() > 0
    assert value.max() <= 1
    assert value[x == 0].tolist() == [0.5] * int((x == 0).sum())


def test_logistic_beyond_its_range_is_the_value_at_the_end_and_nan_stays_nan(loops: ModuleType) -> None:
    x = np.array([-np.inf, -1e30, -87, 87, 1e30, np.inf, np.nan], dtype=np.float32)
    loops.logistic(x)
    assert x[0] == x[1] == x[2] < 1e-37
    assert x[3] == x[4] == x[5] == 1
    assert np.isnan(x[6])


def test_logistic_takes_any_shape(loops: ModuleType) -> None:
    x = np.zeros((2, 3, 4), dtype=np.float32)
    loops.logistic(x)
    assert (x == 0.5).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0)])
def test_twins_give_the_same_bits(compiled: ModuleType, shape: tuple[int, int], low: float, high: float) -> None:
    results = []
    for loops in (numpy_gibbs, compiled):
        given = layer_arrays(shape)
        means = given["natural"].copy()
        loops.two_state_sample(
            given["natural"], given["bias"], high - low, low / 7, (high - low) / 7, given["words"], low, high, given["states"]
        )
        loops.two_state_means(means, given["bias"], high - low, low / 7, (high - low) / 7)
        results.append((given["natural"], given["states"], means))
    for mine, other in zip(*results, strict=True):
        assert np.array_equal(mine, other)
    assert np.array_equal(results[0][0], results[0][2])


def test_twin_logistics_give_the_same_bits(compiled: ModuleType) -> None:
    x = np.random.default_rng(1).normal(0, 30, 100_003).astype(np.float32)
    mine, other = x.copy(), x.copy()
    numpy_gibbs.logistic(mine)
    compiled.logistic(other)
    assert np.array_equal(mine, other)


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (8, 33), (21, 65), (0, 4)])
def test_running_sums_add_one_number_after_the_other(loops: ModuleType, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(shape[0]).normal(0, 1, shape).astype(np.float32)
    out = np.full(shape, np.nan)
    loops.running_sums(x, out)
    for row, sums in zip(x.tolist(), out.tolist(), strict=True):
        total = 0.0
        for number, found in zip(row, sums, strict=True):
            total += number
            assert found == total


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (17, 33), (64, 65)])
def test_twin_momentum_steps_give_the_same_bits(compiled: ModuleType, shape: tuple[int, int]) -> None:
    random = np.random.default_rng(shape[0])
    arrays = [random.normal(0, 1, shape).astype(np.float32) for _ in range(3)]
    mine, other = [part.copy() for part in arrays], [part.copy() for part in arrays]
    largest = numpy_gibbs.momentum_step(*mine, 0.1, 0.9, 1e-3), compiled.momentum_step(*other, 0.1, 0.9, 1e-3)
    assert largest[0] == largest[1] == np.abs(mine[0]).max()
    for one, two in zip(mine, other, strict=True):
        assert np.array_equal(one, two)


@pytest.mark.parametrize("width", [1, 2, 3, 63, 64, 65, 200])
@pytest.mark.parametrize(("rows", "inner"), [(1, 1), (5, 9), (30, 101)])
@pytest.mark.parametrize("density", [0.0, 0.2, 1.0])
def test_twin_sparse_products_give_the_same_bits(compiled: ModuleType, rows: int, inner: int, width: int, density: float) -> None:
    random = np.random.default_rng([rows, width])
    sparse = (random.normal(size=(inner, rows)) * (random.random((inner, rows)) < density)).astype(np.float32).T
    dense, out = random.normal(size=(inner, width)).astype(np.float32), random.normal(size=(rows, width)).astype(np.float32)
    mine, other = out.copy(), out.copy()
    numpy_gibbs.add_sparse_product(sparse, dense, mine, scratch_for(numpy_gibbs, rows, inner))
    compiled.add_sparse_product(sparse, dense, other, scratch_for(compiled, rows, inner))
    assert np.array_equal(mine, other)


@pytest.mark.parametrize("density", [0.0, 0.01, 0.05, 0.1, 0.4, 1.0])
def test_how_a_sparse_matrix_lies_changes_no_bit_of_its_product(loops: ModuleType, density: float) -> None:
    random = np.random.default_rng(11)
    sparse = (random.normal(size=(37, 90)) * (random.random((37, 90)) < density)).astype(np.float32)
    sparse[3, :50] = -0.0
    dense = random.normal(size=(90, 70)).astype(np.float32)
    spread = np.zeros((37, 180), dtype=np.float32)
    spread[:, ::2] = sparse
    products = [np.zeros((37, 70), dtype=np.float32) for _ in range(3)]
    for lying, out in zip((sparse, np.asfortranarray(sparse), spread[:, ::2]), products, strict=True):
        loops.add_sparse_product(lying, dense, out, scratch_for(loops, 37, 90))
    np.testing.assert_allclose(products[0], sparse @ dense, rtol=0, atol=1e-4)
    assert np.array_equal(products[0], products[1])
    assert np.array_equal(products[0], products[2])


def test_sparse_product_is_the_product_and_leaves_the_operands(loops: ModuleType) -> None:
    random = np.random.default_rng(3)
    sparse = np.where(random.random((40, 70)) < 0.1, random.choice([-1.0, 1.0], (40, 70)), 0).astype(np.float32)
    dense, out = random.normal(size=(70, 130)).astype(np.float32), random.normal(size=(40, 130)).astype(np.float32)
    before = [part.copy() for part in (sparse, dense, out)]
    loops.add_sparse_product(sparse, dense, out, scratch_for(loops, 40, 70))
    expected = before[2].astype(np.float64) + before[0].astype(np.float64) @ before[1]
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-5)
    assert np.array_equal(sparse, before[0])
    assert np.array_equal(dense, before[1])


def test_sparse_product_never_reads_rows_that_meet_zeros(loops: ModuleType) -> None:
    dense = np.array([[1, 2], [np.nan, np.inf]], dtype=np.float32)
    out = np.zeros((1, 2), dtype=np.float32)
    loops.add_sparse_product(np.array([[3, 0]], dtype=np.float32), dense, out, scratch_for(loops, 1, 2))
    assert out.tolist() == [[3, 6]]


@pytest.mark.parametrize("p", [0.5, 0.3, 1e-3, 0.999, 7e-6])
def test_a_unit_is_on_for_a_share_p_of_all_words_and_dithers(loops: ModuleType, p: float) -> None:
    """All 2^16 words of a unit against 64 evenly spaced dithers: the count is the probability's to one part in 2^22."""
    log_odds = np.log(p) - np.log1p(-p)
    words = np.empty((64, 2**16 + 1), dtype=np.uint16)
    words[:, :-1] = np.arange(2**16, dtype=np.uint16)
    words[:, -1] = np.arange(64) * 1024 + 512
    natural, states = np.zeros((64, 2**16), dtype=np.float32), np.empty((64, 2**16), dtype=np.float32)
    loops.two_state_sample(natural, np.full(2**16, log_odds, dtype=np.float32), 1.0, 0.0, 1.0, words, 0.0, 1.0, states)
    assert states.mean(dtype=np.float64) == pytest.approx(p, abs=2**-22 + 1e-6 * p)


def centred_arguments(shape: tuple[int, int]) -> list[np.ndarray]:
    """Weights, velocity, gradient, and the vectors of the visible and hidden units."""
    random = np.random.default_rng(5)
    d, u = shape
    return [random.normal(size=part).astype(np.float32) for part in (shape, shape, shape, d, d, u, u)]


@pytest.mark.parametrize("shape", [(1, 1), (3, 15), (7, 16), (5, 17), (40, 100)])
def test_twin_centred_steps_give_the_same_bits(compiled: ModuleType, shape: tuple[int, int]) -> None:
    mine, other = centred_arguments(shape), centred_arguments(shape)
    follows = np.ones((2, shape[1]), dtype=np.float32)
    largest = (
        numpy_gibbs.centred_momentum_step(*mine, 0.7, 0.1, 0.9, 1e-3, follows[0]),
        compiled.centred_momentum_step(*other, 0.7, 0.1, 0.9, 1e-3, follows[1]),
    )
    assert largest[0] == largest[1]
    for a, b in zip([*mine, follows[0]], [*other, follows[1]], strict=True):
        assert a.tobytes() == b.tobytes()


def test_a_centred_step_is_its_formula(loops: ModuleType) -> None:
    arguments = centred_arguments((6, 19))
    W, V, G, b, mu, lam, c = (part.astype(float) for part in arguments)
    follows = np.full(19, 0.5, dtype=np.float32)
    largest = loops.centred_momentum_step(*arguments, 0.7, 0.1, 0.9, 0.01, follows)
    G -= np.outer(b, lam) + np.outer(mu, c)
    V = 0.9 * V + 0.1 * (G - 0.01 * W)
    for found, expected in zip(arguments[:4], (W + V, V, G, b - 0.7 * G @ lam), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(follows, 0.5 + mu @ G, rtol=2e-5, atol=2e-6)
    assert largest == np.abs(arguments[0]).max()


def test_a_centred_step_refuses_arrays_of_other_shapes(compiled: ModuleType) -> None:
    arguments = centred_arguments((6, 19))
    with pytest.raises(ValueError, match="an array has length 6 where 19 is expected"):
        compiled.centred_momentum_step(*arguments[:6], arguments[3], 0.7, 0.1, 0.9, 0.01, np.zeros(19, np.float32))


def test_momentum_step_is_its_formula(loops: ModuleType) -> None:
    random = np.random.default_rng(5)
    weights, velocity, gradient = (random.normal(0, 1, (20, 31)).astype(np.float32) for _ in range(3))
    w, v, g = (part.astype(np.float64) for part in (weights, velocity, gradient))
    v = 0.9 * v + 0.05 * (g - 0.01 * w)
    largest = loops.momentum_step(weights, velocity, gradient, 0.05, 0.9, 0.01)
    np.testing.assert_allclose(velocity, v, atol=1e-6)
    np.testing.assert_allclose(weights, w + v, atol=1e-6)
    assert largest == np.abs(weights).max()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_momentum_step_reports_what_is_not_finite(loops: ModuleType, bad: float) -> None:
    weights, velocity, gradient = np.ones(50, np.float32), np.zeros(50, np.float32), np.zeros(50, np.float32)
    gradient[17] = bad
    assert not np.isfinite(loops.momentum_step(weights, velocity, gradient, 1.0, 0.0, 0.0))


def test_shapes_that_do_not_fit_are_refused(loops: ModuleType) -> None:
    given = layer_arrays((4, 6))
    with pytest.raises(ValueError):
        loops.two_state_means(given["natural"], given["bias"][:-1], 1.0, 0.0, 1.0)
    with pytest.raises(ValueError):
        loops.two_state_sample(given["natural"], given["bias"], 1.0, 0.0, 1.0, given["words"], 0.0, 1.0, given["states"][:3])


def test_use_switches_every_loop() -> None:
    before = fast.loops_in_use()
    try:
        fast.use_loops("python")
        assert fast.loops_in_use() == "python"
        assert fast.logistic is numpy_gibbs.logistic
        pytest.importorskip("herdcli.fast._gibbs", reason="the compiled loops are not built")
        fast.use_loops("cython")
        assert fast.loops_in_use() == "cython"
        assert fast.logistic is import_module("herdcli.fast._gibbs").logistic
    finally:
        fast.use_loops(before)


def test_unknown_kernels_are_refused_and_change_nothing() -> None:
    before = fast.loops_in_use(), fast.logistic
    with pytest.raises(BadUsage, match="unknown kernels 'fortran'"):
        fast.use_loops("fortran")
    assert (fast.loops_in_use(), fast.logistic) == before
