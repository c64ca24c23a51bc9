"""Points in a Hilbert space: settling, weights, projections, polishing, closed forms of sums; exact numbers by hand."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.errors import BadUsage
from herdcli.quadrature import atom_weights, simplex
from herdcli.quadrature.embeddings import closed_form_embeddings
from herdcli.quadrature.kernels import kernel_parsing
from herdcli.quadrature.kernels.kernel_functions import FeatureKernel, GaussianKernel, PolynomialKernel
from herdcli.quadrature.kernels.point_sums import make_point_evaluator
from herdcli.quadrature.rules import active_set, local_search, min_norm_point
from herdcli.quadrature.rules.candidate_space import CandidateSpace, prefix_mmds
from herdcli.quadrature.targets import UniformTarget

KERNEL = GaussianKernel(1.2)


def wolfe(K: np.ndarray, z: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Wolfe's minor cycles in plain terms: to the affine minimum, or as far as the first weight that reaches 0, which goes."""
    weight, kept = weight.copy(), list(range(len(z)))
    while True:
        n = len(kept)
        system = np.block([[K[np.ix_(kept, kept)], np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
        target = np.linalg.solve(system, [*z[kept], 1.0])[:n]
        if (target > 0).all():
            weight[:] = 0
            weight[kept] = target
            return weight
        ratios = [weight[i] / (weight[i] - t) if t <= 0 else np.inf for i, t in zip(kept, target, strict=True)]
        gone = int(np.argmin(ratios))
        weight[kept] += ratios[gone] * (target - weight[kept])
        del kept[gone]


def test_settling_drops_the_points_that_wolfe_drops() -> None:
    dropped = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        points, to = random.standard_normal((7, 8)), random.standard_normal(8) * 1.5
        K, z, start = points @ points.T, points @ to, random.dirichlet(np.ones(7))
        hull = simplex.allocate_hull(7, 3.0)
        for i in range(7):
            assert simplex.add_point(hull, i, K[i, :i], K[i, i], z[i])
        assert hull.weight.tolist() == [1.0, *[0.0] * 6]
        hull.weight[:] = start
        simplex.move_to_hull_minimum(hull)
        expected = wolfe(K, z, start)
        found = np.zeros(7)
        found[hull.ids[: hull.size]] = hull.weight[: hull.size]
        np.testing.assert_allclose(found, expected, atol=1e-9)
        assert simplex.quadratic_and_linear_terms(hull) == pytest.approx((expected @ K @ expected, expected @ z), abs=1e-9)
        dropped.append(7 - hull.size)
    assert np.mean(np.array(dropped) > 1) > 0.3


def test_points_in_the_affine_hull_do_not_enter() -> None:
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.25]])
    K, hull = points @ points.T, simplex.allocate_hull(4, 1.0)
    assert [simplex.add_point(hull, i, K[i, : min(i, 3)], K[i, i], 0.0) for i in range(4)] == [True, True, True, False]
    assert hull.size == 3
    full = simplex.allocate_hull(1, 1.0)
    assert simplex.add_point(full, 5, np.zeros(0), 1.0, 2.0)
    assert not simplex.add_point(full, 6, np.zeros(1), 1.0, 0.0)
    wider = simplex.enlarge_hull(full, 3)
    assert (wider.size, len(wider.ids), wider.ids[0], wider.linear[0], wider.weight[0], wider.gram[0, 0], wider.shift) == (
        1,
        3,
        5,
        2.0,
        1.0,
        1.0,
        1.0,
    )
    np.testing.assert_array_equal(wider.factor[0, 0], np.sqrt(2.0))
    assert len(simplex.enlarge_hull(wider, 0).ids) == 1


def line(atoms: np.ndarray, z: np.ndarray, kernel: object = KERNEL) -> CandidateSpace:
    """A space of the atoms alone."""
    return CandidateSpace(kernel, atoms, z, 1.0, kernel.diagonal(atoms), make_point_evaluator(kernel, atoms), lambda x: np.zeros(len(x)))


def test_weights_of_two_atoms_by_hand() -> None:
    """K = (1, c; c, 1): free K⁻¹z, affine ½ + (z₀ − z₁)/(2 (1 − c))."""
    atoms, z = np.array([[0.0], [1.0]]), np.array([0.7, 0.4])
    c = np.exp(-1 / (2 * 1.44))
    space = line(atoms, z)
    np.testing.assert_allclose(
        atom_weights.compute_atom_weights("free", space, atoms, z), np.array([0.7 - c * 0.4, 0.4 - c * 0.7]) / (1 - c**2)
    )
    share = 0.5 + 0.3 / (2 * (1 - c))
    assert share > 1
    np.testing.assert_allclose(atom_weights.compute_atom_weights("affine", space, atoms, z), [share, 1 - share])
    np.testing.assert_allclose(atom_weights.compute_atom_weights("simplex", space, atoms, z), [1.0, 0.0])
    np.testing.assert_allclose(atom_weights.compute_atom_weights("uniform", space, atoms, z), [0.5, 0.5])
    w = np.array([0.8, 0.4])
    found = atom_weights.make_weight_report(space, atoms, z, w)
    assert found.condition == pytest.approx((1 + c) / (1 - c))
    assert (found.smallest, found.effective) == (0.4, pytest.approx(1.44 / 0.8))
    assert found.mmd == pytest.approx(np.sqrt(0.8 + 2 * 0.32 * c - 2 * (0.56 + 0.16) + 1))
    np.testing.assert_allclose(prefix_mmds(space, atoms, z), [np.sqrt(2 - 1.4), np.sqrt(0.5 + 0.5 * c - 1.1 + 1)])
    assert np.isnan(prefix_mmds(space, atoms, z, np.zeros(2))).all()


def test_equal_atoms_are_found_in_the_order_they_come() -> None:
    first, place, counts = atom_weights._group_equal_atoms(np.array([[5.0], [1.0], [5.0], [3.0], [1.0], [5.0]]))
    assert (first.tolist(), place.tolist(), counts.tolist()) == ([0, 1, 3], [0, 1, 0, 2, 1, 0], [3, 2, 1])
    doubled = np.array([[0.0], [0.0], [1.0]])
    space = line(doubled, np.array([0.7, 0.7, 0.4]))
    report = atom_weights.make_weight_report(space, doubled, space.embedding, np.array([0.5, 0.3, 0.4]))
    alone = atom_weights.make_weight_report(line(doubled[1:], space.embedding[1:]), doubled[1:], space.embedding[1:], np.array([0.8, 0.4]))
    assert (report.mmd, report.condition) == (pytest.approx(alone.mmd), pytest.approx(alone.condition))
    assert atom_weights._condition_number(np.diag([0.0, 1.0])) == np.inf


def test_counts_of_a_projected_trace_are_spread_over_decades() -> None:
    atoms = np.arange(100.0)[:, None] / 100
    space = line(atoms, np.linspace(0.5, 0.4, 100))
    counts, _ = atom_weights.simplex_mmd_trace(space, atoms, space.embedding)
    assert counts.tolist() == [1, 2, 3, 4, 6, 7, 10, 13, 18, 24, 32, 42, 56, 75, 100]
    assert atom_weights.simplex_mmd_trace(space, atoms[:1], space.embedding[:1])[0].tolist() == [1]


def test_polishing_finds_the_minimum_near_a_candidate() -> None:
    """μ(x) = Gaussian bump at (0.3, −0.2): from the origin within ±½ it is reached, within ±0.1 the nearest corner, in a box its edge."""

    def mean(x: np.ndarray) -> np.ndarray:
        return np.exp(-((x - [0.3, -0.2]) ** 2).sum(axis=1))

    space = CandidateSpace(KERNEL, np.zeros((1, 2)), np.zeros(1), 1.0, np.ones(1), make_point_evaluator(KERNEL, np.zeros((1, 2))), mean)
    none, start = (np.zeros((0, 2)), np.zeros(0)), np.zeros(2)

    def found(spacing: float, bound: float = 1.0) -> np.ndarray:
        return local_search.polish_atom(
            local_search.SearchBox(np.full(2, -bound), np.full(2, bound), np.full(2, spacing)), space, *none, 1.0, start
        )

    np.testing.assert_allclose(found(0.5), [0.3, -0.2], atol=1e-6)
    np.testing.assert_allclose(found(0.05, 0.1), [0.1, -0.1], atol=1e-6)
    assert (
        local_search.polish_atom(local_search.SearchBox(np.full(2, -1), np.full(2, 1), np.full(2, 0.5)), space, *none, -0.0, start) is None
    )
    at = np.array([[0.1, 0.0]])
    pulled = local_search.polish_atom(
        local_search.SearchBox(np.full(2, -1.0), np.ones(2), np.full(2, 0.2)), space, at, np.array([0.5]), 2.0, start
    )
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 401)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    value = 0.5 * KERNEL.matrix(grid, at)[:, 0] - 2 * mean(grid)
    np.testing.assert_allclose(pulled, grid[value.argmin()], atol=0.006)


def test_sums_and_products_of_kernels_in_closed_form() -> None:
    box = UniformTarget(np.zeros(1), np.ones(1))
    x = np.array([[0.2], [0.9]])
    inner, norm = closed_form_embeddings.closed_form_embedding(kernel_parsing.parse_kernel("gaussian:0.5"), box)
    other, more = closed_form_embeddings.closed_form_embedding(kernel_parsing.parse_kernel("laplace:1"), box)
    for text, mean, expected in (
        ("3*gaussian:0.5", 3 * inner(x), 3 * norm),
        ("gaussian:0.5+2*laplace:1", inner(x) + 2 * other(x), norm + 2 * more),
        ("gaussian:0.5+4", inner(x) + 4, norm + 4),
        ("2*3", np.full(2, 6.0), 6.0),
        ("7", np.full(2, 7.0), 7.0),
    ):
        found, square = closed_form_embeddings.closed_form_embedding(kernel_parsing.parse_kernel(text), box)
        np.testing.assert_allclose(found(x), mean, rtol=1e-14)
        assert square == pytest.approx(expected, rel=1e-14)
    zero, nothing = closed_form_embeddings.closed_form_embedding(kernel_parsing.parse_kernel("bernoulli:1"), box)
    assert (zero(x).tolist(), nothing) == ([0.0, 0.0], 0.0)
    with pytest.raises(BadUsage, match="no closed form"):
        closed_form_embeddings.closed_form_embedding(
            kernel_parsing.parse_kernel("bernoulli:1"), UniformTarget(np.zeros(1), np.full(1, 2.0))
        )


def test_polishing_follows_a_steep_side_to_the_last_digit() -> None:
    """The minimum, 100 times as steep to its right as to its left, lies next to the probe beyond the best one."""
    minimum = (3 + 0.95) / 16

    def mean(x: np.ndarray) -> np.ndarray:
        return -np.where(x[:, 0] < minimum, minimum - x[:, 0], 100 * (x[:, 0] - minimum))

    none = np.zeros((0, 1)), np.zeros(0)
    space = CandidateSpace(KERNEL, np.zeros((1, 1)), np.zeros(1), 1.0, np.ones(1), make_point_evaluator(KERNEL, np.zeros((1, 1))), mean)
    for start in (0.0, 0.4):
        box = local_search.SearchBox(np.full(1, -1.0), np.ones(1), np.full(1, 0.5))
        found = local_search.polish_atom(box, space, *none, 1.0, np.full(1, start))
        np.testing.assert_allclose(found, minimum, atol=1e-8)


def along(K: np.ndarray, z: np.ndarray, weight: np.ndarray, direction: np.ndarray, most: float) -> np.ndarray:
    """Weights after an exact line search: minimum of ½ w'Kw − w'z along a direction, at most so far."""
    slope, curvature = direction @ (K @ weight - z), direction @ K @ direction
    return weight + direction * min(most, max(0.0, -slope / curvature))


@pytest.mark.parametrize("seed", range(12))
def test_steps_of_active_sets_are_exact_line_searches(seed: int) -> None:
    """Towards a candidate, away from an atom and from one to another, under a kernel whose diagonal varies."""
    random = np.random.default_rng(seed)
    X, kernel = random.standard_normal((7, 3)), PolynomialKernel(2, 1.0)
    K = kernel.matrix(X, X)
    z = K @ random.dirichlet(np.full(7, 0.3)) + 0.3 * random.standard_normal(7)
    space = CandidateSpace(kernel, X, z, 1.0, np.diag(K).copy(), make_point_evaluator(kernel, X), lambda x: np.zeros(len(x)))
    problem, weight = active_set.ActiveSetProblem(space, "away", 6), np.array([0.0, 0.2, 0.5, 0.3, 0, 0, 0])

    def state() -> active_set.ActiveSetState:
        index = np.array([2, 1, 3, -1, -1, -1])
        used = np.where(index >= 0, weight[index], 0.0)
        return active_set.ActiveSetState(0, 3, "", index, used, *np.full((2, 6), np.nan), K @ weight)

    unit = np.eye(7)
    for move, direction, most in (
        (lambda now: active_set._forward_step(problem, now, 5), unit[5] - weight, 1.0),
        (lambda now: active_set._forward_step(problem, now, 1), unit[1] - weight, 1.0),
        (lambda now: active_set._away_step(problem, now, 0), weight - unit[2], 0.5 / 0.5),
        (lambda now: active_set._away_step(problem, now, 2), weight - unit[3], 0.3 / 0.7),
        (lambda now: active_set._pairwise_step(problem, now, 1, 6), unit[6] - unit[1], 0.2),
        (lambda now: active_set._pairwise_step(problem, now, 2, 2), unit[2] - unit[3], 0.3),
    ):
        now, expected = state(), along(K, z, weight, direction, most)
        assert move(now) == (not np.allclose(expected, weight))
        found = np.zeros(7)
        found[now.index[: now.size]] = now.weight[: now.size]
        np.testing.assert_allclose(found, expected, atol=1e-12)
        np.testing.assert_allclose(now.running, K @ expected, atol=1e-9)
        assert (now.weight[: now.size] > 0).all()
        assert (now.index[now.size :] == -1).all()
        active_set._record_trace(problem, now)
        square, linear = expected @ K @ expected, expected @ z
        assert now.mmd[now.size - 1] == pytest.approx(np.sqrt(max(0, square - 2 * linear + 1)), abs=1e-9)
        assert now.gap[now.size - 1] == pytest.approx(max(0, square - linear - (K @ expected - z).min()), abs=1e-9)


def test_a_line_without_curvature_is_not_followed() -> None:
    assert active_set._clipped_line_search(1.0, 0.0, 5.0) == 0.0
    assert [active_set._clipped_line_search(slope, 2.0, 5.0) for slope in (-1.0, 1.0, 30.0)] == [0.0, 0.5, 5.0]


def test_longer_runs_have_room_for_their_atoms_alone() -> None:
    points = np.random.default_rng(0).standard_normal((30, 3))
    space = line(points, np.full(30, 0.4))
    few, many = active_set.ActiveSetProblem(space, "away", 4), active_set.ActiveSetProblem(space, "away", 9)
    state = active_set.initial_state(few)
    state.ended = "count"
    longer = active_set.extend_state(many, state)
    assert [len(part) for part in (longer.index, longer.weight, longer.mmd, longer.gap)] == [9] * 4
    assert (longer.index[4:].tolist(), longer.weight[4:].tolist(), longer.ended) == ([-1] * 5, [0.0] * 5, "")
    longer.ended = "gap"
    assert (active_set.extend_state(many, longer).ended, len(longer.mmd)) == ("gap", 9)
    longer.ended = "count"
    assert active_set.extend_state(many, longer).ended == "count"
    hull = min_norm_point.initial_state(min_norm_point.MinNormPointProblem(space, 4))
    hull.ended = "cap"
    grown = min_norm_point.extend_state(min_norm_point.MinNormPointProblem(space, 9), hull)
    assert (len(grown.mmd), len(grown.gap), len(grown.hull.ids), grown.ended) == (9, 9, 9, "")
    assert (active_set.total_steps(many), min_norm_point.total_steps(min_norm_point.MinNormPointProblem(space, 9))) == (450, 190)


def test_five_useless_atoms_in_a_row_are_the_limit_of_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.random.default_rng(0).standard_normal((60, 3))
    z = KERNEL.matrix(points, points).mean(axis=1)
    problem = min_norm_point.MinNormPointProblem(line(points, z), 40)
    monkeypatch.setattr(min_norm_point, "_hull_objective", lambda hull: 0.0)
    state, stalled = min_norm_point.initial_state(problem), []
    while not state.ended:
        state = min_norm_point.major_cycle(problem, state)
        stalled.append(state.stalled)
    assert (state.ended, stalled) == ("rounding", [1, 2, 3, 4, 5, 5])


def test_candidates_within_the_hull_are_refused_until_an_atom_helps() -> None:
    """Of the middle of two atoms (2) nothing is to be had, at any level; the third corner is beyond their line."""
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.0], [0.5, 1.0]])
    K = points @ points.T
    z = points @ [0.5, 0.3]
    space = CandidateSpace(
        FeatureKernel(), points, z, 0.34, np.diag(K).copy(), make_point_evaluator(FeatureKernel(), points), lambda x: np.zeros(len(x))
    )
    state = min_norm_point.initial_state(min_norm_point.MinNormPointProblem(space, 4))
    assert state.hull.ids[0] == 2  # k(x, x) − 2z is least: 0.25 − 0.5
    while not state.ended:
        state = min_norm_point.major_cycle(min_norm_point.MinNormPointProblem(space, 4), state)
    n = state.hull.size
    found = np.zeros(4)
    found[state.hull.ids[:n]] = state.hull.weight[:n]
    np.testing.assert_allclose(found @ points, [0.5, 0.3], atol=1e-12)
    assert state.ended == "gap"


def plain_rule(rule: str, K: np.ndarray, z: np.ndarray, steps: int) -> list[np.ndarray]:
    """Guélat & Marcotte (1986), Lacoste-Julien & Jaggi (2015) and Tsuji et al. (2022) with weights (N,) of all candidates."""
    unit, w, found = np.eye(len(z)), np.eye(len(z))[np.argmin(0.5 * np.diag(K) - z)], []
    for _ in range(steps):
        slope, used = K @ w - z, np.flatnonzero(w > 0)
        best, worst, least = np.argmin(slope), used[np.argmax(slope[used])], used[np.argmin(slope[used])]
        towards, away = slope @ w - slope[best], slope[worst] - slope @ w
        if rule == "pairwise" or (rule == "bpcg" and slope[worst] - slope[least] >= towards):
            direction, most = unit[best if rule == "pairwise" else least] - unit[worst], w[worst]
        elif rule == "away" and away > towards and len(used) > 1:
            direction, most = w - unit[worst], w[worst] / (1 - w[worst])
        else:
            direction, most = unit[best] - w, 1.0
        w = along(K, z, w, direction, most)
        w[np.abs(w) < 1e-12] = 0.0
        found.append(w)
    return found


@pytest.mark.parametrize("rule", ["away", "pairwise", "bpcg"])
def test_rules_of_active_sets_follow_a_plain_program(rule: str) -> None:
    X, kernel = np.random.default_rng(5).standard_normal((15, 3)), PolynomialKernel(2, 1.0)
    K = kernel.matrix(X, X)
    z = K @ np.random.default_rng(5).dirichlet(np.full(15, 0.4))
    space = CandidateSpace(kernel, X, z, 1.0, np.diag(K).copy(), make_point_evaluator(kernel, X), lambda x: np.zeros(len(x)))
    problem = active_set.ActiveSetProblem(space, rule, 15)
    state = active_set.initial_state(problem)
    for t, expected in enumerate(plain_rule(rule, K, z, 25)):
        state = active_set.active_set_step(problem, state)
        found = np.zeros(15)
        found[state.index[: state.size]] = state.weight[: state.size]
        np.testing.assert_allclose(found, expected, atol=1e-9)
        assert (state.step, state.ended) == (t + 1, "")
