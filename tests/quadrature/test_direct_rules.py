"""Thinning, Cholesky's pivots, support points and facility location, against definitions, enumeration and bounds."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from herdcli.quadrature.kernels.kernel_blocks import KernelColumns, kernel_matrix
from herdcli.quadrature.kernels.kernel_functions import GaussianKernel, MaternKernel, PolynomialKernel
from herdcli.quadrature.kernels.point_sums import make_point_evaluator
from herdcli.quadrature.rules import facility_location, kernel_halving, kernel_thinning, pivoted_cholesky, support_points

X = np.random.default_rng(5).standard_normal((64, 3))
KERNEL = GaussianKernel(1.5)
K = KERNEL.matrix(X, X)
EVEN = np.full(64, 1 / 64)


def space_of(kernel, rows, weights=None):
    w = np.full(len(rows), 1 / len(rows)) if weights is None else weights
    gram = kernel.matrix(rows, rows)
    return SimpleNamespace(
        kernel=kernel,
        candidates=rows,
        embedding=gram @ w,
        norm=float(w @ gram @ w),
        diagonal=np.diag(gram).copy(),
        points=make_point_evaluator(kernel, rows),
    )


def thinned(rule="kernel-thinning", count=8, seed=0, rows=X, weights=None):
    """The problem, its first state, and the state after all rounds."""
    w = np.full(len(rows), 1 / len(rows)) if weights is None else weights
    problem = kernel_thinning.ThinningProblem(space_of(KERNEL, rows, w), w, rule, count, seed)
    first, state = kernel_thinning.initial_state(problem), kernel_thinning.initial_state(problem)
    while state.round < len(problem.rounds):
        state = kernel_thinning.thinning_step(problem, state)
    return problem, first, state


def by_definition(gram, order, uniforms, level):
    """The first half of the rows of an order as the paper's algorithm makes it, and the largest b and σ: α from sums over S and S'."""
    half, variance, largest = [], 0.0, 0.0
    for p in range(len(order) // 2):
        x, other = order[2 * p], order[2 * p + 1]
        square = gram[x, x] + gram[other, other] - 2 * gram[x, other]
        a = max(math.sqrt(square * variance * level), square)
        before = order[: 2 * p]
        alpha = (gram[before, x] - gram[before, other]).sum() - 2 * (gram[half, x] - gram[half, other]).sum()
        half.append(other if uniforms[p] < min(1, max(0, 0.5 * (1 - alpha / a))) else x)
        variance += square * max(0.0, 1 + (square - 2 * a) * variance / a**2)
        largest = max(largest, math.sqrt(square))
    return half, math.sqrt(variance), largest


@pytest.mark.parametrize("seed", range(4))
def test_the_first_round_is_the_papers_halving(seed, monkeypatch):
    """By blocks of 16 rows, whose differences come from tiles, and as the definition has it."""
    monkeypatch.setattr(kernel_halving, "BLOCK", 16)
    problem, first, _ = thinned(seed=seed)
    state = kernel_thinning.initial_state(problem)
    while state.round == 0:
        state = kernel_thinning.thinning_step(problem, state)
    half, deviation, largest = by_definition(K, first.order, problem.draw_round_uniforms(0, 32), problem.rounds[0].level)
    np.testing.assert_array_equal(state.order[:32], half)
    slope = math.sqrt(problem.rounds[0].level)
    assert 0 < deviation <= 0.5 * largest * (slope + 1 / slope)


def test_an_exchange_has_the_papers_probability_and_expectation():
    assert [kernel_halving.exchange_probability(alpha, 2.0) for alpha in (-3.0, -2.0, 0.0, 1.0, 2.0, 5.0)] == [
        1.0,
        1.0,
        0.5,
        0.25,
        0.0,
        0.0,
    ]
    assert kernel_halving.exchange_threshold(0.25, 0.0, 8.0) == 0.25
    assert kernel_halving.exchange_threshold(0.25, 4.0, 9.0) == 3.0
    assert kernel_halving.update_variance(0.25, 0.0, 0.25) == 0.25
    assert kernel_halving.update_variance(1.0, 4.0, 8.0) == pytest.approx(4 + 1 + (1 - 16) * 4 / 64)
    assert kernel_halving.update_variance(1.0, 16.0, 8.0) == 16.0  # would fall, and never does
    assert kernel_halving.squared_failure_level(0.5) == pytest.approx(2 * math.log(4))
    # Four rows: the second pair's expected sign is −α/a towards the side that lowers the difference, whatever the first pair did.
    gram = K[:4, :4]
    for first in (0.0, 1.0):
        levels = (np.arange(1000) + 0.5) / 1000
        found = np.array([kernel_halving.choose_pair_signs(gram, np.zeros(4), np.array([first, u]), 0.0, 6.0)[0] for u in levels])
        f = found[0, 0] * gram[0] + found[0, 1] * gram[1]
        square = gram[0, 0] + gram[1, 1] - 2 * gram[0, 1]
        other = gram[2, 2] + gram[3, 3] - 2 * gram[2, 3]
        a = max(math.sqrt(other * square * 6.0), other)
        assert found[:, 2].mean() == pytest.approx(-(f[2] - f[3]) / a, abs=2e-3)
        assert (found[:, 2] == -found[:, 3]).all()


def test_equal_rows_part_and_change_nothing():
    signs, variance = kernel_halving.choose_pair_signs(np.ones((4, 4)), np.zeros(4), np.zeros(2), 0.0, 6.0)
    assert signs.tolist() == [-1.0, 1.0, -1.0, 1.0]
    assert variance == 0.0


def test_halves_are_nearer_than_those_of_coins():
    """The difference of the halves in the kernel's space, against that of a fair coin for each pair, mean of 20 seeds."""
    kept, plain = [], []
    for seed in range(20):
        _, first, state = thinned(count=32, seed=seed)
        signs = np.repeat([-1.0, 1.0], 32)
        kept.append(signs @ K[np.ix_(state.order, state.order)] @ signs)
        coins = np.random.default_rng(seed).integers(2, size=32) * 2.0 - 1
        fair = np.stack([coins, -coins], axis=1).ravel()
        plain.append(fair @ K[np.ix_(first.order, first.order)] @ fair)
    assert np.mean(kept) < 0.6 * np.mean(plain)


@pytest.mark.parametrize("rule", ["kernel-thinning", "compress++"])
@pytest.mark.parametrize(("n", "count"), [(64, 8), (1797, 100), (1797, 1000), (5000, 7), (60_000, 30), (60_000, 1000), (10, 10), (5, 9)])
def test_rounds_leave_the_count_and_share_half_of_the_failure(rule, n, count):
    rounds, total = kernel_thinning.plan_thinning_rounds(rule, n, count)
    power = total // count
    assert total == count * power
    assert power & (power - 1) == 0
    assert abs(math.log2(total / n)) <= 0.5 or power == 1
    size, path = total, 0.0
    for one in rounds:
        assert size % one.length == 0
        assert one.length % 2 == 0
        failure = 2 * math.exp(-one.level / 2)  # of a pair, from L² = 2 log(2/δ')
        nodes = size // one.length if one.single else 1  # all of a tree, one coreset's of what is thinned
        path += nodes * one.length / 2 * failure
        size //= 2 if one.single else 1
    left = size if not rounds or rounds[-1].single else rounds[-1].length // 2
    assert left == count
    assert path == pytest.approx(kernel_thinning.FAILURE / 2 if rounds else 0.0)
    assert kernel_thinning.total_steps(rule, n, count) >= len(rounds) + 1


def test_compression_is_near_linear():
    """Kernel values of 4 times the rows: 16 times for thinning, far fewer for compress++."""
    growth = {
        rule: kernel_thinning.estimate_kernel_evaluations(rule, 1 << 20, 64)
        / kernel_thinning.estimate_kernel_evaluations(rule, 1 << 18, 64)
        for rule in ("kernel-thinning", "compress++")
    }
    assert growth["kernel-thinning"] == pytest.approx(16, rel=0.01)
    assert growth["compress++"] < 5


def test_coresets_of_thinning_are_all_rows_and_the_best_is_chosen():
    problem, first, state = thinned()
    assert sorted(state.order) == sorted(first.order) == list(range(64))
    done = kernel_thinning.thinning_step(problem, state)
    mu, norm = K.mean(axis=0), K.mean()
    sets = [*state.order.reshape(-1, 8), first.order[::8]]
    mmd = [K[np.ix_(s, s)].mean() - 2 * mu[s].mean() + norm for s in sets]
    np.testing.assert_array_equal(done.index, sets[int(np.argmin(mmd))])
    assert done.ended == "count"


def test_compression_keeps_rows_once_and_seeds_differ():
    orders = []
    for seed in (0, 1):
        _, _, state = thinned("compress++", count=1, seed=seed)
        assert len(state.order) == 16
        assert len(set(state.order.tolist())) == 16
        orders.append(state.order.tolist())
    assert orders[0] != orders[1]


def test_a_systematic_sample_has_each_row_as_often_as_its_weight():
    random = np.random.default_rng(0)
    weights = random.random(30)
    weights /= weights.sum()
    counts = np.array([np.bincount(kernel_thinning.draw_systematic_sample(weights, 80, random), minlength=30) for _ in range(400)])
    assert (np.abs(counts - 80 * weights) < 1).all()
    np.testing.assert_allclose(counts.mean(axis=0), 80 * weights, atol=0.15)


def chosen(pivots, monkeypatch, rows=X, kernel=KERNEL, weights=None):
    """The state after these pivots."""
    taken = iter(pivots)
    monkeypatch.setattr(pivoted_cholesky, "sample_pivot", lambda *_: next(taken))
    w = np.full(len(rows), 1 / len(rows)) if weights is None else weights
    problem = pivoted_cholesky.CholeskyProblem(space_of(kernel, rows, w), w, len(pivots))
    state = pivoted_cholesky.initial_state(problem)
    for _ in pivots:
        state = pivoted_cholesky.cholesky_step(problem, state)
    return state


def test_residuals_are_the_schur_complements(monkeypatch):
    pivots = [9, 30, 2, 51]
    state = chosen(pivots, monkeypatch)
    inner = K[:, pivots] @ np.linalg.solve(K[np.ix_(pivots, pivots)], K[pivots])
    np.testing.assert_allclose(state.residual, np.diag(K - inner), atol=1e-13)
    np.testing.assert_allclose(state.factor.T @ state.factor, inner, atol=1e-13)


def test_weights_are_optimal_and_the_trace_their_distance(monkeypatch):
    weights = np.random.default_rng(1).random(64)
    weights /= weights.sum()
    pivots = [9, 30, 2, 51, 17]
    state = chosen(pivots, monkeypatch, weights=weights)
    for t in range(1, 6):
        S = pivots[:t]
        best = np.linalg.solve(K[np.ix_(S, S)], K[S] @ weights)
        distance = best @ K[np.ix_(S, S)] @ best - 2 * best @ K[S] @ weights + weights @ K @ weights
        assert state.mmd[t - 1] == pytest.approx(math.sqrt(distance), abs=1e-13)
    np.testing.assert_allclose(pivoted_cholesky.best_atom_weights(state), best, atol=1e-12)


def test_the_first_pivot_leaves_the_expected_trace(monkeypatch):
    """Over all pivots with their probability k(s, s)/tr K the trace left is tr K − tr K²/tr K (Chen et al. 2025)."""
    kernel = PolynomialKernel(2, 1.0)
    rows = X[:12]
    gram = kernel.matrix(rows, rows)
    left = [chosen([s], monkeypatch, rows, kernel).residual.sum() for s in range(12)]
    expected = np.trace(gram) - np.square(gram).sum() / np.trace(gram)
    assert np.diag(gram) / np.trace(gram) @ left == pytest.approx(expected, rel=1e-12)


def test_pivots_have_the_residuals_distribution():
    weights, residual = np.array([1.0, 2.0, 0.0, 1.0, 3.0]), np.array([2.0, 0.5, 9.0, 0.0, 1.0])
    levels = (np.arange(600) + 0.5) / 600
    counts = np.bincount([pivoted_cholesky.sample_pivot(weights, residual, level) for level in levels], minlength=5)
    np.testing.assert_array_equal(counts, [200, 100, 0, 0, 300])
    assert pivoted_cholesky.sample_pivot(weights, residual, math.nextafter(1.0, 0.0)) == 4
    assert pivoted_cholesky.sample_pivot(weights[:4], residual[:4], math.nextafter(1.0, 0.0)) == 1
    assert pivoted_cholesky.sample_pivot(weights, np.zeros(5), 0.5) == -1


def test_few_distinct_rows_end_the_factor():
    rows = np.repeat(X[:5], 4, axis=0)
    problem = pivoted_cholesky.CholeskyProblem(space_of(KERNEL, rows), np.full(20, 0.05), 9)
    state = pivoted_cholesky.initial_state(problem)
    while not state.ended:
        state = pivoted_cholesky.cholesky_step(problem, state)
    assert (state.step, state.ended) == (5, "rounding")
    assert len({i // 4 for i in state.index[:5].tolist()}) == 5
    assert state.mmd[4] < 1e-7


def energy(points, rows, weights):
    def apart(A, B):
        return np.sqrt(np.square(A[:, None] - B).sum(axis=2))

    m = len(points)
    return 2 / m * (apart(points, rows) @ weights).sum() - apart(points, points).sum() / m**2


@pytest.mark.parametrize("seed", range(3))
def test_every_movement_lowers_the_energy_distance(seed):
    weights = np.random.default_rng(seed).random(64)
    problem = support_points.SupportProblem(X, weights / weights.sum(), 7, seed)
    points, found = support_points.initial_state(problem).points, []
    for _ in range(12):
        moved, stated = support_points.compute_moved_points(problem, points)
        assert stated == pytest.approx(energy(points, X, problem.weights), abs=1e-10)
        found.append(stated)
        points = moved
    assert (np.diff(found) < 0).all()


def test_one_support_point_is_the_median():
    rows = np.array([[0.0], [1.0], [10.0], [11.0], [2.0]])
    problem = support_points.SupportProblem(rows, np.full(5, 0.2), 1)
    state = support_points.initial_state(problem)
    while not state.ended:
        state = support_points.support_step(problem, state)
    assert state.index.tolist() == [4]
    assert len(state.energy) == state.step <= support_points.ITERATIONS


def test_nearest_rows_are_taken_once():
    rows = np.array([[0.0], [1.0], [5.0]])
    found = support_points.assign_nearest_rows(support_points.SupportProblem(rows, np.full(3, 1 / 3), 3), np.array([[0.2], [0.1], [0.4]]))
    assert found.tolist() == [0, 1, 2]


def located(count, rows=X, weights=None, kernel=KERNEL):
    w = np.full(len(rows), 1 / len(rows)) if weights is None else weights
    problem = facility_location.FacilityProblem(KernelColumns(kernel, rows, make_point_evaluator(kernel, rows)), w, count)
    state = facility_location.initial_state(problem)
    while not state.ended:
        state = facility_location.facility_step(problem, state)
    return state


def covered(gram, weights, S):
    return float(weights @ np.maximum(gram[:, list(S)], 0).max(axis=1))


@pytest.mark.parametrize("kernel", [KERNEL, MaternKernel(3, 1.0), PolynomialKernel()])
def test_lazy_bounds_choose_what_all_gains_would(kernel, monkeypatch):
    monkeypatch.setattr(facility_location, "BLOCK", 3 * 64)
    weights = np.random.default_rng(2).random(64)
    weights /= weights.sum()
    gram, plain = kernel.matrix(X, X), []
    for _ in range(8):
        plain.append(max((i for i in range(64) if i not in plain), key=lambda i: covered(gram, weights, [*plain, i])))
    state = located(8, weights=weights, kernel=kernel)
    np.testing.assert_array_equal(state.index, plain)
    np.testing.assert_allclose(state.value, [covered(gram, weights, plain[: t + 1]) for t in range(8)], rtol=1e-12)


def test_the_greedy_choice_is_within_its_bound_of_the_best():
    rows, weights = X[:14], np.full(14, 1 / 14)
    gram = KERNEL.matrix(rows, rows)
    best = max(covered(gram, weights, S) for S in itertools.combinations(range(14), 3))
    assert (1 - 1 / math.e) * best <= located(3, rows).value[-1] <= best + 1e-12


def test_blocks_of_many_columns_are_the_kernel_values():
    rows = np.random.default_rng(0).standard_normal((20, 40))
    kernel = GaussianKernel(5.0)
    np.testing.assert_allclose(kernel_matrix(kernel, rows[:7], rows), kernel.matrix(rows[:7], rows), rtol=1e-12)
    np.testing.assert_allclose(
        KernelColumns(kernel, rows, make_point_evaluator(kernel, rows)).compute(rows[:7]), kernel.matrix(rows[:7], rows), rtol=1e-12
    )
    assert kernel_matrix(kernel, rows, rows).max() <= 1.0
