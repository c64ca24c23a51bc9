"""Rules against known answers: equispaced points, van der Corput, independent draws, bounds, prefixes, weights."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.errors import BadUsage, DataError
from herdcli.quadrature import input_preparation, sobol_sequence
from herdcli.quadrature.kernels.kernel_functions import BernoulliKernel, FeatureKernel, GaussianKernel, LaplaceKernel, PolynomialKernel
from herdcli.quadrature.rules import sequential_rules
from herdcli.quadrature.rules.candidate_space import prefix_mmds
from herdcli.quadrature.targets import MomentTarget, RowTarget, TrigonometricTarget

SEQUENCES = ("herding", "line-search", "open-loop", "step", "random")


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 2, 5, 16])
def test_equispaced_points_have_the_known_error(space_of, interval, order, n):
    points, target = interval(n)
    kernel = BernoulliKernel(order)
    space = space_of(kernel, target, points)
    found = prefix_mmds(space, points, space.embedding)[-1]
    assert found == pytest.approx(np.sqrt(kernel.diagonal(points)[0]) / n**order, rel=1e-6 if order == 3 else 1e-9)


def test_herding_of_the_uniform_law_is_the_van_der_corput_sequence(space_of, interval, run_rule):
    """ν = 1: 0, 1/2, 1/4, 3/4, 1/8, 5/8, …, each of the best MMD at powers of two."""
    points, target = interval(1024)
    state = run_rule(space_of(BernoulliKernel(1), target, points), target, 64, init="zero")
    natural = np.array([int(f"{i:06b}"[::-1], 2) / 64 for i in range(64)])
    levels = [(0, 1), (1, 2), (2, 4), (4, 8), (8, 16), (16, 32), (32, 64)]
    for low, high in levels:
        np.testing.assert_array_equal(np.sort(state.atoms[low:high, 0]), np.sort(natural[low:high]))
    np.testing.assert_array_equal(state.atoms[:32, 0], natural[:32])
    powers = 2 ** np.arange(7)
    np.testing.assert_allclose(state.mmd[powers - 1], np.sqrt(1 / 12) / powers, rtol=1e-9)


def test_sobol_in_one_column_has_the_known_error_at_powers_of_two(space_of, interval, run_rule):
    points, target = interval(4)
    state = run_rule(space_of(BernoulliKernel(2), target, points), target, 64, rule="sobol")
    np.testing.assert_array_equal(state.atoms[:, 0], sobol_sequence.sobol_points(64, 1)[:, 0])
    assert (state.index == -1).all()
    assert state.mmd[63] == pytest.approx(np.sqrt(1 / 720) / 64**2, rel=1e-6)


def test_independent_draws_have_the_known_mean_square(space_of, interval, run_rule):
    """E MMD² = k(0, 0)/m, here over 200 seeds: the mean of m·MMD²/k(0,0) is 1 within 4 standard errors."""
    points, target = interval(1)
    space = space_of(BernoulliKernel(1), target, points)
    found = [10 * run_rule(space, target, 10, rule="random", seed=seed).mmd[-1] ** 2 * 12 for seed in range(200)]
    assert abs(np.mean(found) - 1.0) < 4 * np.std(found) / np.sqrt(200)


@pytest.mark.parametrize("rule", SEQUENCES)
def test_traces_and_weights_are_those_of_the_matrices(rows, space_of, run_rule, mmd, rule):
    target = RowTarget(rows, np.random.default_rng(1).dirichlet(np.ones(200)))
    kernel = GaussianKernel(1.2)
    space = space_of(kernel, target, rows)
    for t in (1, 2, 17):
        state = run_rule(space, target, t, rule=rule, rates=(0.3, 0.2))
        w = sequential_rules.sequence_weights(state)
        assert w.sum() == pytest.approx(1.0, abs=1e-14)
        np.testing.assert_array_equal(state.atoms, rows[state.index])
        assert state.mmd[-1] == pytest.approx(mmd(kernel, rows, target.weights, state.atoms, w), abs=1e-12)
        if rule not in ("random",):
            slope = kernel.matrix(rows, state.atoms) @ w - space.embedding
            w_all = np.bincount(state.index, weights=w, minlength=200)
            assert state.gap[-1] == pytest.approx(slope @ w_all - slope.min(), abs=1e-12)
            assert 0.5 * state.mmd[-1] ** 2 <= state.gap[-1] + 1e-14


def test_weights_of_given_step_sizes_are_the_corrected_formula(space_of, rows, run_rule):
    """w_u = ρ_{u−1} Π_{v=u}^{t−1} (1 − ρ_v), ρ_0 = 1."""
    target = RowTarget(rows, np.full(200, 1 / 200))
    state = run_rule(space_of(GaussianKernel(1.0), target, rows), target, 4, rule="step", rates=(0.5, 0.25, 0.1))
    np.testing.assert_allclose(sequential_rules.sequence_weights(state), [0.5 * 0.75 * 0.9, 0.5 * 0.75 * 0.9, 0.25 * 0.9, 0.1], rtol=1e-15)


@pytest.mark.parametrize("rule", SEQUENCES)
def test_fewer_atoms_are_the_first_of_more(rows, space_of, run_rule, rule):
    target = RowTarget(rows, np.full(200, 1 / 200))
    space = space_of(GaussianKernel(1.0), target, rows)
    few, many = (run_rule(space, target, m, rule=rule, rates=(0.1,)) for m in (9, 30))
    np.testing.assert_array_equal(few.index, many.index[:9])
    np.testing.assert_array_equal(few.mmd, many.mmd[:9])


def test_going_on_equals_an_uninterrupted_run(rows, space_of, run_rule):
    target = RowTarget(rows, np.full(200, 1 / 200))
    space = space_of(GaussianKernel(1.0), target, rows)
    problem = sequential_rules.SequenceProblem(space, target, sequential_rules.RuleSettings())
    state = sequential_rules.extend_state(problem, run_rule(space, target, 9), 30)
    while state.step < 30:
        state = sequential_rules.greedy_step(problem, state)
    whole = run_rule(space, target, 30)
    for name in ("index", "mmd", "gap", "running"):
        np.testing.assert_array_equal(getattr(state, name), getattr(whole, name))
    with pytest.raises(BadUsage, match="already has 30 atoms, more than the requested 10"):
        sequential_rules.extend_state(problem, whole, 10)


@pytest.mark.parametrize("init", ["nearest", "zero"])
@pytest.mark.parametrize("kernel", [GaussianKernel(0.8), LaplaceKernel(1.0)])
def test_herding_error_obeys_the_bound_that_can_be_checked(rows, space_of, run_rule, kernel, init):
    """t² MMD_t² ≤ Σ_i ‖μ − Φ(x_i)‖² for w_0 = 0 and μ in the hull of the candidates."""
    target = RowTarget(rows, np.full(200, 1 / 200))
    space = space_of(kernel, target, rows)
    state = run_rule(space, target, 150, init=init)
    squares = np.cumsum(space.norm - 2 * state.embedding + kernel.diagonal(state.atoms))
    t = np.arange(1, 151)
    assert (t**2 * state.mmd**2 <= squares * (1 + 1e-12)).all()


def test_init_mean_begins_at_the_largest_embedding(rows, space_of, run_rule):
    target = RowTarget(rows, np.full(200, 1 / 200))
    space = space_of(GaussianKernel(1.0), target, rows)
    first, zero = run_rule(space, target, 5, init="mean"), run_rule(space, target, 5, init="zero")
    assert first.index[0] == np.argmax(space.embedding)
    assert zero.index[0] == 0
    scores = 4 * space.embedding - GaussianKernel(1.0).matrix(rows, first.atoms[:3]).sum(axis=1)
    assert first.index[3] == np.argmax(scores)


def test_ties_go_to_the_lowest_index(space_of, run_rule):
    X = np.repeat(np.array([[0.3], [0.7]]), 3, axis=0)
    target = RowTarget(X, np.full(6, 1 / 6))
    space = space_of(GaussianKernel(0.2), target, X)
    np.testing.assert_array_equal(run_rule(space, target, 4).index, [0, 3, 0, 3])
    np.testing.assert_array_equal(np.sort(run_rule(space, target, 6, unique=True).index), np.arange(6))
    with pytest.raises(DataError, match="--unique needs 7 different atoms, but there are only 6"):
        run_rule(space, target, 7, unique=True)


@pytest.mark.parametrize("rule", ["herding", "line-search", "open-loop"])
def test_permuting_rows_permutes_the_choice(rows, select, rule):
    order = np.random.default_rng(5).permutation(200)
    plain, moved = select(rows, 40, rule=rule), select(rows[order], 40, rule=rule)
    np.testing.assert_array_equal(order[moved.index], plain.index)


@pytest.mark.parametrize("rule", ["herding", "line-search", "open-loop"])
def test_an_outlier_in_the_first_row_is_no_atom(rows, select, rule):
    rows = np.concatenate([[[40.0, 40.0, 40.0]], rows])
    found = {init: select(rows, 20, rule=rule, init=init) for init in ("auto", "nearest", "zero")}
    assert found["zero"].index[0] == 0
    assert 0 not in found["nearest"].index
    np.testing.assert_array_equal(found["auto"].index, found["nearest"].index)
    if rule != "open-loop":  # whose later atoms weigh most
        assert found["zero"].mmd[-1] > 1.1 * found["nearest"].mmd[-1]


def test_the_first_atom_is_the_candidate_nearest_to_the_target(rows, space_of, run_rule):
    target = RowTarget(rows, np.random.default_rng(1).dirichlet(np.ones(200)))
    kernel = PolynomialKernel(2, 1.0)  # k(x, x) varies
    distances = kernel.diagonal(rows) - 2.0 * kernel.matrix(rows, rows) @ target.weights
    assert run_rule(space_of(kernel, target, rows), target, 3).index[0] == np.argmin(distances)


def test_translating_the_circle_translates_the_choice(space_of, interval, run_rule):
    points, target = interval(256)
    plain = run_rule(space_of(BernoulliKernel(2), target, points), target, 40)
    moved = run_rule(space_of(BernoulliKernel(2), target, (points + 0.25) % 1.0), target, 40)
    np.testing.assert_array_equal(moved.index, plain.index)
    np.testing.assert_allclose(moved.mmd, plain.mmd, atol=1e-12)


def test_every_row_once_meets_the_target(rows, select):
    result = select(rows, 200, unique=True)
    assert result.mmd[-1] < 2e-8
    np.testing.assert_array_equal(np.sort(result.index), np.arange(200))


def test_cube_states_match_the_moments_at_the_fast_rate(space_of, run_rule):
    """Finite dimension: MMD falls as 1/t, and the moments' error is the MMD itself."""
    mean = np.array([0.3, -0.5, 0.1])
    target = MomentTarget(mean, None)
    space = space_of(FeatureKernel(), target, input_preparation.all_hypercube_states(3))
    state = run_rule(space, target, 2000)
    errors = np.linalg.norm(np.cumsum(state.atoms, axis=0) / np.arange(1, 2001)[:, None] - mean, axis=1)
    np.testing.assert_allclose(state.mmd, errors, atol=1e-7)  # MMD² cancels to float64 rounding, so MMD to its root
    assert (np.arange(1, 2001) * state.mmd).max() < 3.5


def test_sobol_of_rows_goes_through_their_distribution(space_of, run_rule):
    X = np.random.default_rng(0).random((50, 1))
    target = RowTarget(X, np.full(50, 0.02))
    state = run_rule(space_of(GaussianKernel(0.1), target, X), target, 50, rule="sobol")
    assert len(np.unique(state.index[:32])) == 32
    with pytest.raises(BadUsage, match="several columns"):
        run_rule(
            space_of(GaussianKernel(0.1), RowTarget(np.ones((4, 2)), np.ones(4)), np.ones((4, 2))),
            RowTarget(np.ones((4, 2)), np.ones(4)),
            2,
            rule="sobol",
        )


def test_polish_finds_the_point_between_candidates(space_of, interval):
    """A coarse grid with local search is as good as a fine grid."""
    target = TrigonometricTarget(np.array([0.4, -1.0]), np.array([0.7, 0.2]))
    coarse, fine = (interval(n)[0] for n in (5, 4096))
    found = []
    for points, polish in ((coarse, True), (coarse, False), (fine, False)):
        space = space_of(BernoulliKernel(2), target, points)
        problem = sequential_rules.SequenceProblem(
            space, target, sequential_rules.RuleSettings(init="mean"), input_preparation.make_search_box(target, points) if polish else None
        )
        state = sequential_rules.initial_state(problem, 24)
        while state.step < 24:
            state = sequential_rules.greedy_step(problem, state)
        found.append(state.mmd[-1])
        assert (state.index.min() == -1) == polish  # points between the candidates
    assert found[0] < 1.2 * found[2]
    assert found[1] > 2 * found[2]


def test_without_candidates_only_draws_work(space_of, interval, run_rule):
    _, target = interval(1)
    space = space_of(BernoulliKernel(1), target, np.zeros((0, 1)))
    assert run_rule(space, target, 8, rule="sobol").mmd[-1] == pytest.approx(np.sqrt(1 / 12) / 8, rel=1e-9)
    with pytest.raises(BadUsage, match="no candidates"):
        run_rule(space, target, 8)


def test_line_search_stops_at_the_atom_it_heads_for(space_of, run_rule):
    """μ = 2 beyond the candidates 1 and 1.5 of k(x, y) = xy: from g = 1 the line's minimum is at ρ = 2, of which 1 is allowed."""
    target = RowTarget(np.array([[1.0], [1.5], [3.5]]), np.full(3, 1 / 3))
    space = space_of(PolynomialKernel(1, 0.0), target, target.X[:2])
    state = run_rule(space, target, 2, rule="line-search", init="zero")
    np.testing.assert_array_equal(state.index, [0, 1])
    assert state.rate[1] == 1.0
    np.testing.assert_array_equal(sequential_rules.sequence_weights(state), [0.0, 1.0])
    assert state.mmd[1] == pytest.approx(0.5, abs=1e-12)


def test_line_search_goes_to_the_least_distance_on_each_segment(rows, space_of, run_rule):
    """Of (1 − ρ) g + ρ Φ(x), ρ from 0 to 1: none of a thousand steps is nearer to the target than the one that was taken."""
    target, kernel = RowTarget(rows, np.full(200, 1 / 200)), GaussianKernel(1.2)
    state = run_rule(space_of(kernel, target, rows), target, 12, rule="line-search")
    K, mean = kernel.matrix(state.atoms, state.atoms), kernel.matrix(state.atoms, rows).mean(axis=1)
    norm, weight = kernel.matrix(rows, rows).mean(), np.eye(12)[0]
    for t in range(1, 12):
        steps = np.linspace(0.0, 1.0, 1001)[:, None]
        tried = (1.0 - steps) * weight + steps * np.eye(12)[t]
        squares = np.einsum("si,ij,sj->s", tried, K, tried) - 2.0 * tried @ mean + norm
        assert state.mmd[t] ** 2 <= squares.min() + 1e-12
        assert state.mmd[t] ** 2 == pytest.approx(squares.min(), abs=1e-6)
        weight = (1.0 - state.rate[t]) * weight + state.rate[t] * np.eye(12)[t]


def test_the_weights_of_open_loop_steps_grow_with_the_atom(rows, space_of, run_rule):
    """ρ_t = 2/(t + 2), ρ_0 = 1: the u-th of m atoms has weight 2u/(m (m + 1))."""
    target = RowTarget(rows, np.full(200, 1 / 200))
    state = run_rule(space_of(GaussianKernel(1.0), target, rows), target, 7, rule="open-loop")
    np.testing.assert_allclose(sequential_rules.sequence_weights(state), np.arange(1, 8) / 28, rtol=1e-12)


@pytest.mark.parametrize(("rule", "init"), [("herding", "zero"), ("herding", "mean"), ("line-search", "zero"), ("open-loop", "mean")])
def test_polished_atoms_are_the_best_points_around_their_candidates(space_of, interval, rule, init):
    """Of Σ_u k(x_u, x) − t μ(x), of herding from the mean − (t + 1) μ(x), of unequal weights ⟨g, Φ(x)⟩ − μ(x), on a fine grid."""
    target, points = TrigonometricTarget(np.array([0.4, -1.0]), np.array([0.7, 0.2])), interval(9)[0]
    space = space_of(BernoulliKernel(2), target, points)
    problem = sequential_rules.SequenceProblem(
        space, target, sequential_rules.RuleSettings(rule, init=init), input_preparation.make_search_box(target, points)
    )
    state = sequential_rules.initial_state(problem, 8)
    for t in range(8):
        start, w = points[state.best, 0], sequential_rules.sequence_weights(state) if rule != "herding" else np.ones(t)
        state = sequential_rules.greedy_step(problem, state)
        fine = np.clip(np.linspace(start - 1 / 9, start + 1 / 9, 4001), 0, 1)[:, None]
        pull = (t + (init == "mean")) if rule == "herding" else float(t > 0 or init == "mean")
        at = np.vstack([fine, state.atoms[t : t + 1]])
        value = BernoulliKernel(2).matrix(at, state.atoms[:t]) @ w - pull * space.mean(at)
        assert value[-1] <= value[:-1].min() + 1e-9
        assert abs(state.atoms[t, 0] - start) <= 1 / 9 + 1e-12
        assert state.index[t] == (-1 if state.atoms[t, 0] != start else np.flatnonzero(points[:, 0] == start)[0])
        assert state.embedding[t] == pytest.approx(space.mean(state.atoms[t : t + 1])[0], abs=1e-12)
    w = sequential_rules.sequence_weights(state) if rule != "herding" else np.full(8, 1 / 8)
    square = w @ BernoulliKernel(2).matrix(state.atoms, state.atoms) @ w
    assert state.mmd[-1] == pytest.approx(np.sqrt(square - 2 * w @ state.embedding + space.norm), rel=1e-6)
