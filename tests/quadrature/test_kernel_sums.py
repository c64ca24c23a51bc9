"""The mean embedding against the kernel matrix, its steps, workers and precision."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from herdcli import fast, iterate
from herdcli.quadrature.kernels import kernel_parsing, kernel_sums, point_sums
from herdcli.quadrature.kernels.kernel_functions import GaussianKernel
from herdcli.quadrature.kernels.point_sums import embedding_from_moments, make_point_evaluator, radial_profile


def sums(kernel, points, rows, weights, *, map=map, precision="float64"):
    problem = kernel_sums.make_embedding_problem(kernel, points, rows, weights, precision=precision)
    state = kernel_sums.initial_state(problem)
    return iterate.run_steps(
        lambda now: kernel_sums.embedding_step(problem, now, map=map), state, steps=kernel_sums.total_steps(problem)
    ).sums


@pytest.mark.parametrize("scale", [0.05, 1.0, 5.0])
@pytest.mark.parametrize("d", [1, 4, 40])
def test_gaussian_sums_are_those_of_the_matrix(d, scale):
    random = np.random.default_rng(0)
    X, w = random.standard_normal((531, d)) + 30.0, random.random(531)
    K = GaussianKernel(scale).matrix(X, X)
    np.testing.assert_allclose(sums(GaussianKernel(scale), X, X, w), K @ w, rtol=3e-13)
    np.testing.assert_allclose(sums(GaussianKernel(scale), X[:50].copy(), X, w), K[:50] @ w, rtol=3e-13)
    np.testing.assert_allclose(sums(GaussianKernel(scale), X, X, w, precision="float32"), K @ w, rtol=3e-5)


@pytest.fixture
def both_loops():
    """Run something with the compiled and with the NumPy loops."""
    before = fast.loops_in_use()
    if before != "cython":
        pytest.skip("the compiled loops are not in use")

    def run(something):
        found = []
        for name in ("cython", "python"):
            fast.use_loops(name)
            found.append(something())
        return found

    yield run
    fast.use_loops(before)


@pytest.mark.parametrize("d", [3, 40])
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("text", ["gaussian:2", "gaussian:0.2", "matern52:1", "bernoulli:2"])
def test_compiled_and_numpy_loops_give_the_same_bits(both_loops, text, precision, d):
    X, w = np.random.default_rng(0).random((600, d)), np.random.default_rng(1).random(600)
    kernel = kernel_parsing.parse_kernel(text)
    np.testing.assert_array_equal(*both_loops(lambda: sums(kernel, X, X, w, precision=precision)))
    np.testing.assert_array_equal(*both_loops(lambda: make_point_evaluator(kernel, X).values(X[4])))
    np.testing.assert_array_equal(*both_loops(lambda: make_point_evaluator(kernel, X).weighted_kernel_sums(X[:9], w[:9])))


RADIAL = ["laplace:2.5", "matern12:2", "matern32:1", "matern52:0.3", "inverse-multiquadric:2", "rational-quadratic:1", "energy", "hamming"]
RADIAL += ["bernoulli:1", "bernoulli:2", "bernoulli:3"]


@pytest.mark.parametrize("text", RADIAL)
def test_radial_kernels_are_those_of_the_matrix(text):
    random = np.random.default_rng(0)
    X, w = random.random((8500, 3))[:900], random.random(900)
    X[5], X[6, 0] = X[4], 1.0
    if text == "hamming":
        X = np.round(3 * X)
    kernel = kernel_parsing.parse_kernel(text)
    assert radial_profile(kernel, 3) is not None
    kernel = kernel_parsing.choose_length_scales(kernel, X, "median", 0)
    K = kernel.matrix(X, X)
    np.testing.assert_allclose(sums(kernel, X, X, w), K @ w, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(sums(kernel, X[:70].copy(), X, w), K[:70] @ w, rtol=1e-11, atol=1e-11)
    points = make_point_evaluator(kernel, X)
    np.testing.assert_allclose(points.values(X[4]), K[4], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(points.weighted_kernel_sums(X[:6], np.arange(6.0)), K[:, :6] @ np.arange(6.0), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("text", ["laplace:1", "matern32:1", "energy", "gaussian:1*laplace:2", "polynomial:3"])
def test_other_kernels_take_the_same_tiles(text):
    random = np.random.default_rng(0)
    X, w = random.standard_normal((700, 2)), random.random(700)
    kernel = kernel_parsing.parse_kernel(text)
    np.testing.assert_allclose(sums(kernel, X, X, w), kernel.matrix(X, X) @ w, rtol=1e-11, atol=1e-11)


def test_any_number_of_workers_gives_the_same_bits():
    X = np.random.default_rng(0).standard_normal((9000, 3))
    alone = sums(GaussianKernel(1.0), X, X, np.ones(9000))
    with ThreadPoolExecutor(3) as pool:
        np.testing.assert_array_equal(sums(GaussianKernel(1.0), X, X, np.ones(9000), map=pool.map), alone)


def test_rows_far_apart_do_not_spoil_near_ones():
    """Exponents beyond the range of the cheap form: the differences themselves are taken."""
    X = np.array([[0.0], [1e-3], [1e6], [1e6 + 1e-3]])
    np.testing.assert_allclose(sums(GaussianKernel(1e-3), X, X, np.ones(4)), 1 + np.exp(-0.5), rtol=1e-6)


@pytest.mark.parametrize("d", [3, 40])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_one_far_row_costs_its_own_differences_alone(d, precision, monkeypatch):
    """Kernel values from differences: the far row against all others, not whole tiles."""
    random = np.random.default_rng(0)
    X, w = random.standard_normal((1000, d)), random.random(1000)
    X[333] = 100.0
    done = []
    tile = fast.gaussian_tile

    def counted(a, wa, b, wb, differences, rows, columns):
        done.append(a.shape[1] * b.shape[1] if differences else 0)
        tile(a, wa, b, wb, differences, rows, columns)

    monkeypatch.setattr(fast, "gaussian_tile", counted)
    kernel = GaussianKernel(np.sqrt(d))
    tolerance = 3e-13 if precision == "float64" else 3e-5
    np.testing.assert_allclose(sums(kernel, X, X, w, precision=precision), kernel.matrix(X, X) @ w, rtol=tolerance)
    assert 1000 <= sum(done) <= 16 * 1000  # padded to lanes; nearly n² without parts
    np.testing.assert_allclose(sums(kernel, X[:400].copy(), X, w, precision=precision), kernel.matrix(X[:400], X) @ w, rtol=tolerance)


def test_combine_and_values_are_rows_of_the_matrix():
    X = np.random.default_rng(0).standard_normal((37, 5)) + 3.0
    for kernel in (GaussianKernel(0.9), *map(kernel_parsing.parse_kernel, ("matern52:1", "features:x+xx", "gaussian:1+linear"))):
        found = make_point_evaluator(kernel, X)
        K = kernel.matrix(X, X)
        np.testing.assert_allclose(found.values(X[4]), K[:, 4], rtol=1e-13)
        np.testing.assert_allclose(found.weighted_kernel_sums(X[:6], np.arange(6.0)), K[:, :6] @ np.arange(6.0), rtol=1e-13)


@pytest.mark.parametrize("text", ["linear", "polynomial:2,0.5", "features:x", "features:x+xx", "features:x+linear+2"])
def test_moments_stand_for_pairs(text):
    random = np.random.default_rng(0)
    X, w = random.standard_normal((60, 4)), np.full(60, 1 / 60)
    kernel = kernel_parsing.parse_kernel(text)
    mean, norm = embedding_from_moments(kernel, X, w @ X, X.T @ X / 60)
    K = kernel.matrix(X, X)
    np.testing.assert_allclose(mean, K @ w, atol=1e-13)
    assert norm == pytest.approx(w @ K @ w, abs=1e-13)


@pytest.mark.parametrize("text", [text for text in RADIAL if text[:5] not in ("berno", "hammi", "energ")])
def test_columns_far_from_zero_lose_no_digits(text):
    X, w = np.random.default_rng(0).standard_normal((70, 3)) + 1e6, np.random.default_rng(1).random(70)
    kernel = kernel_parsing.parse_kernel(text)
    K = kernel.matrix(X, X)
    np.testing.assert_allclose(sums(kernel, X, X, w), K @ w, rtol=1e-12)
    np.testing.assert_allclose(sums(kernel, X[:9].copy(), X, w), K[:9] @ w, rtol=1e-12)
    np.testing.assert_allclose(make_point_evaluator(kernel, X).values(X[3]), K[3], rtol=1e-12)


def test_rows_count_as_far_where_their_exponentials_leave_the_precision():
    """|x|² log₂ e / 2ℓ² of more than 60 in float64 and 28 in float32."""
    scale = np.sqrt(np.log2(np.e))
    rows = np.sqrt(2 * np.array([27.9, 28.1, 59.9, 60.1])) / scale
    X = np.concatenate([rows, -rows])[:, None]
    for precision, expected in (("float64", [False, False, False, True]), ("float32", [False, True, True, True])):
        plan = kernel_sums.make_embedding_problem(GaussianKernel(1.0), X, X, np.ones(8), precision=precision).plan
        np.testing.assert_array_equal(plan.far[0][:8], expected * 2)
        assert not plan.far[1][8:].any()


@pytest.mark.parametrize("name", ["gaussian:0.7", "laplace:1.5", "energy", "bernoulli:1"])
def test_points_packed_in_blocks_are_those_packed_at_once(monkeypatch, name):
    points = np.random.default_rng(0).standard_normal((100, 1 if name.startswith("bernoulli") else 3))
    kernel = kernel_parsing.parse_kernel(name)
    whole = make_point_evaluator(kernel, points).pack_columns(points)
    monkeypatch.setattr(point_sums, "PACKED_BLOCK", 21)
    assert make_point_evaluator(kernel, points).pack_columns(points).tobytes() == whole.tobytes()


@pytest.mark.parametrize("d", [1, 3, 40])
def test_squares_in_blocks_are_those_at_once(monkeypatch, d):
    columns = np.random.default_rng(0).standard_normal((d, 1600))
    whole = 0.5 * np.square(columns).sum(axis=0)
    monkeypatch.setattr(kernel_sums, "GENERIC_BLOCK", 500)
    assert kernel_sums._half_squares(columns).tobytes() == whole.tobytes()
    single = columns.astype(np.float32)
    assert kernel_sums._half_squares(single).tobytes() == (0.5 * np.square(single, dtype=np.float64).sum(axis=0)).tobytes()
