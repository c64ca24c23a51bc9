"""What a run is put together from: groups, scales, sums in steps, figures of each group; exact numbers by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from herdcli.algorithm import solve
from herdcli.errors import BadUsage, DataError
from herdcli.numerics import kernel_names
from herdcli.numerics.kernels import Features, Gaussian, Polynomial
from herdcli.quadrature import (
    active_set,
    assemble,
    closed_form,
    embedding,
    grouping,
    min_norm_point,
    polish,
    preparation,
    problems,
    rules,
    selection,
    simplex,
    swap,
    weights,
)
from herdcli.quadrature.points import by_moments, evaluator
from herdcli.quadrature.samples import Continuation, Samples
from herdcli.quadrature.space import Space, prefix_distances
from herdcli.quadrature.targets import Mixture, Moments, Rows, Trigonometric, Uniform, signs

X = np.random.default_rng(3).standard_normal((60, 2))
KERNEL = Gaussian(1.2)


def equal(X: np.ndarray) -> Rows:
    return Rows(X, np.full(len(X), 1 / len(X)))


def made(
    *groups: problems.Group, kernel: object = KERNEL, reduce: int = 0, refine: int = 0, norm: int = 0, **rule: object
) -> problems.Problem:
    return problems.Problem(kernel, groups, problems.Settings(rules.Settings(**rule), refine, norm=norm), reduce)


# groups -------------------------------------------------------------------------------------------


def test_weights_of_rows_sum_to_one_and_bad_ones_are_refused() -> None:
    np.testing.assert_array_equal(grouping.weighted(X, None, None, None).weights, np.full(60, 1 / 60))
    found = grouping.weighted(X[:2], np.array([0, 4]), None, None)
    assert found.weights.tolist() == [0.0, 1.0]
    with pytest.raises(DataError, match="needs at least two rows and has one"):
        grouping.weighted(X[:1], None, None, None)
    for bad in ([-1.0, 2.0], [0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]):
        with pytest.raises(DataError, match="weights of rows must be finite, not negative and not all 0"):
            grouping.weighted(X[:2], np.array(bad), None, None)


def test_labels_are_numbered_in_order_and_named() -> None:
    group, names = grouping.labels(np.array([2.5, -1.0, 2.5]), None)
    assert (group.tolist(), names) == ([1, 0, 1], ["-1", "2.5"])
    group, names = grouping.labels(np.array([2, 0, 2]), ["a", "b", "c"])
    assert (group.tolist(), names) == ([1, 0, 1], ["a", "c"])


@pytest.mark.parametrize("scattered", [False, True])
def test_groups_of_labels_are_distributions_of_their_own(scattered: bool) -> None:
    group = np.array([0, 1, 0, 1, 1, 0]) if scattered else np.array([0, 0, 0, 1, 1, 1])
    given = grouping.weighted(X[:6].copy(), np.arange(6.0), group, ["a", "b"])
    found, rows = grouping.of_rows(given, None, np.array([2.0, 4.0]), 5, block=None, polish=True)
    for g in range(2):
        own = np.flatnonzero(group == g)
        np.testing.assert_array_equal(rows[g], own)
        np.testing.assert_array_equal(found[g].target.X, X[own] / [2.0, 4.0])
        np.testing.assert_allclose(found[g].target.weights, own / own.sum())
        assert (found[g].count, found[g].candidates) == (5, None)
        low, high = (X[own] / [2.0, 4.0]).min(axis=0), (X[own] / [2.0, 4.0]).max(axis=0)
        np.testing.assert_array_equal(found[g].polish.low, low)
        np.testing.assert_array_equal(found[g].polish.high, high)
        np.testing.assert_allclose(found[g].polish.spacing, (high - low) / np.sqrt(3))
    with pytest.raises(DataError, match="the rows of group a have no weight"):
        grouping.of_rows(replace(given, weights=(group == 1) / 3.0), None, np.ones(2), 1, block=None, polish=False)


def test_blocks_keep_their_share_and_those_without_weight_are_left_out() -> None:
    weight = np.array([1.0, 1, 0, 0, 2, 2, 4])
    given = grouping.weighted(X[:7].copy(), weight, None, None)
    found, rows = grouping.of_rows(given, None, np.ones(2), 3, block=2, polish=False)
    assert [part.tolist() for part in rows] == [[0, 1], [4, 5], [6]]
    for group, part in zip(found, rows, strict=True):
        np.testing.assert_allclose(group.target.weights, weight[part] / 10)
        np.testing.assert_array_equal(group.target.X, X[part])
        assert group.polish is None
    points = np.zeros((4, 2))
    (whole,), none = grouping.of_rows(given, points, np.ones(2), 3, block=None, polish=True)
    assert (none, whole.candidates is points, len(whole.target.X)) == ([None], True, 7)
    np.testing.assert_allclose(whole.polish.spacing, np.ptp(X[:7], axis=0) / 2)


def test_closed_forms_have_their_own_columns() -> None:
    target = Uniform(np.zeros(1), np.full(1, 3.0))
    with pytest.raises(BadUsage, match="--scale goes with --target rows"):
        grouping.of_closed_form(target, None, np.array([2.0]), 4, polish=False)
    plain = grouping.of_closed_form(target, None, np.ones(1), 4, polish=True)
    assert (plain.polish, plain.points.shape, plain.count) == (None, (0, 1), 4)
    searched = grouping.of_closed_form(target, np.zeros((6, 1)), np.ones(1), 4, polish=True)
    assert (searched.polish.low, searched.polish.high, searched.polish.spacing) == (0.0, 3.0, 0.5)


# what people give ---------------------------------------------------------------------------------


def test_scales_of_columns_by_hand() -> None:
    table = np.array([[1.0, 5.0, 0.0], [3.0, 5.0, 4.0], [2.0, 5.0, 2.0], [2.0, 5.0, 2.0]])
    for rule, expected in (("none", [1, 1, 1]), ("range", [2, 1, 4]), ("std", [np.sqrt(0.5), 1, np.sqrt(2)])):
        found, constant = preparation.column_scales(table, rule)
        np.testing.assert_allclose(found, expected)
        assert constant == ([] if rule == "none" else [1])
    found, constant = preparation.column_scales(table, (2.0, 3.0, 4.0))
    assert (found.tolist(), constant) == ([2.0, 3.0, 4.0], [])
    with pytest.raises(BadUsage, match="--scale gives 2 numbers for 3 columns"):
        preparation.column_scales(table, (2.0, 3.0))
    long = np.random.default_rng(0).random((40_000, 1)) + 5
    np.testing.assert_allclose(preparation.column_scales(long, "std")[0], long.std(axis=0), rtol=1e-12)


def test_cubes_have_from_1_to_20_units() -> None:
    assert preparation.cube(1).tolist() == [[-1.0], [1.0]]
    for wrong in (0, 21):
        with pytest.raises(BadUsage, match=f"cube:{wrong}: D is one of 1 … 20"):
            preparation.cube(wrong)
    found = preparation.candidates("cube", 3, Moments(np.zeros(3), None), 0)
    np.testing.assert_array_equal(found @ [1, 2, 4], np.arange(8) * 2 - 7)


def test_tables_of_targets_by_hand() -> None:
    named = preparation.mixture(np.array([[0.5, 2.0, -1.0, 3.0]]), ["mean1", "sd1", "mean2", "sd2"])
    np.testing.assert_array_equal(named.means, [[0.5, -1.0]])
    np.testing.assert_array_equal(named.covariances, [np.diag([4.0, 9.0])])
    np.testing.assert_array_equal(named.weights, [1.0])
    for table, names in (
        (np.ones((1, 4)), None),
        (np.ones((1, 1)), None),
        (np.ones((1, 2)), ["weight", "sd1"]),
        (np.ones((1, 3)), ["weight", "mean1", "mean2"]),
        (np.ones((1, 4)), ["weight", "weight2", "mean1", "sd1"]),
        (np.ones((1, 4)), ["weight", "mean1", "mean2", "cov11"]),
    ):
        with pytest.raises(DataError, match="a mixture has columns weight, mean…"):
            preparation.mixture(table, names)
    for row in ([-1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 0.0, -1.0], [1.0, 0.0, 0.0]):
        with pytest.raises(DataError, match="weights of a mixture are not negative"):
            preparation.mixture(np.array([row]), None)
    two = preparation.mixture(np.array([[1.0, 0.5, -0.5, 2.0, 3.0], [3.0, 0.0, 0.0, 1.0, 1.0]]), None)
    np.testing.assert_array_equal(two.means, [[0.5, -0.5], [0.0, 0.0]])
    np.testing.assert_array_equal(two.covariances, [np.diag([4.0, 9.0]), np.eye(2)])
    np.testing.assert_array_equal(two.weights, [0.25, 0.75])
    normal = preparation.gaussian(1.5, 0.5, 2)
    np.testing.assert_array_equal(normal.covariances, [np.eye(2) / 4])
    np.testing.assert_array_equal(normal.means, [[1.5, 1.5]])
    box = preparation.uniform(-1.0, 2.0, 2)
    np.testing.assert_array_equal([box.low, box.high], [[-1, -1], [2, 2]])
    with pytest.raises(BadUsage, match="low < high"):
        preparation.uniform(1.0, 1.0, 1)
    with pytest.raises(BadUsage, match="above 0"):
        preparation.gaussian(0.0, 0.0, 1)
    assert isinstance(preparation.from_table("gaussian", np.array([[1.0, 0.0, 1.0]]), None), Mixture)
    with pytest.raises(DataError, match="a gaussian has one row, not 2"):
        preparation.from_table("gaussian", np.array([[1.0, 0.0, 1.0]] * 2), None)
    waves = preparation.from_table("trigonometric", np.array([[1.0, 2.0], [3.0, 4.0]]), None)
    assert (waves.a.tolist(), waves.b.tolist()) == ([1.0, 3.0], [2.0, 4.0])
    moments = preparation.from_table("moments", np.array([[0.5, 0.0], [1.0, 0.1], [0.1, 1.0]]), None)
    assert (moments.mean.tolist(), moments.second.tolist()) == ([0.5, 0.0], [[1.0, 0.1], [0.1, 1.0]])
    assert preparation.from_table("moments", np.array([[0.5, 0.0]]), None).second is None
    for kind, table, says in (
        ("trigonometric", np.ones((2, 3)), "two columns a and b, not 3"),
        ("signs", np.ones((2, 3)), "square covariance matrix, not 2×3"),
        ("moments", np.ones((2, 2)), "not 2×2"),
        ("moments", np.ones((4, 2)), "not 4×2"),
    ):
        with pytest.raises(DataError, match=says):
            preparation.from_table(kind, table, None)


# targets ------------------------------------------------------------------------------------------


def test_moments_boxes_and_draws_of_targets() -> None:
    w = np.array([0.1, 0.2, 0.7])
    mean, second = Rows(X[:3], w).moments()
    np.testing.assert_allclose(mean, sum(w[i] * X[i] for i in range(3)))
    np.testing.assert_allclose(second, sum(w[i] * np.outer(X[i], X[i]) for i in range(3)))
    box = Uniform(np.array([1.0, -1.0]), np.array([3.0, 0.0]))
    mean, second = box.moments()
    np.testing.assert_allclose(mean, [2.0, -0.5])
    np.testing.assert_allclose(second, [[4 + 4 / 12, -1.0], [-1.0, 0.25 + 1 / 12]])
    np.testing.assert_array_equal(box.quantile(np.array([[0.25, 0.5]])), [[1.5, -0.5]])
    mixed = Mixture(
        np.array([0.25, 0.75]), np.array([[1.0, 0.0], [-1.0, 2.0]]), np.stack([np.diag([4.0, 1.0]), np.array([[1.0, 0.5], [0.5, 9.0]])])
    )
    mean, second = mixed.moments()
    np.testing.assert_allclose(mean, [-0.5, 1.5])
    np.testing.assert_allclose(second, [[0.25 * 5 + 0.75 * 2, 0.75 * (0.5 - 2)], [0.75 * (0.5 - 2), 0.25 + 0.75 * 13]])
    low, high = mixed.box()
    np.testing.assert_allclose([low, high], [[-11.0, -16.0], [13.0, 20.0]])
    drawn = mixed.sample(np.random.default_rng(0), 40_000)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.06)
    np.testing.assert_allclose(drawn.T @ drawn / len(drawn), second, rtol=0.05, atol=0.1)
    assert (drawn[:, 0] > 4).mean() == pytest.approx(0.25 * 0.0668, abs=0.004)  # P(N > 1.5), of one component alone


def test_levels_and_draws_of_weighted_rows() -> None:
    target = Rows(np.array([[3.0], [1.0], [2.0]]), np.array([0.5, 0.0, 0.5]))
    np.testing.assert_array_equal(target.positions(np.array([[0.0], [0.499], [0.5], [1.0]])), [2, 2, 0, 0])
    drawn = target.draw(np.random.default_rng(0), 4000)
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / 4000, [0.5, 0.0, 0.5], atol=0.04)
    unscaled = Rows(target.X, target.weights * 8)
    np.testing.assert_array_equal(unscaled.draw(np.random.default_rng(0), 4000), drawn)
    np.testing.assert_array_equal(unscaled.positions(np.array([[0.499], [0.5]])), [2, 0])


def test_quantiles_of_gaussians_and_mixtures() -> None:
    square = np.array([[4.0, 1.2], [1.2, 1.0]])
    one = Mixture(np.ones(1), np.array([[1.0, -1.0]]), square[None])
    u, normal = np.array([[0.3, 0.8], [0.5, 0.5]]), np.array([[-0.5244005127080407, 0.8416212335729143], [0.0, 0.0]])
    np.testing.assert_allclose(one.quantile(u), [1.0, -1.0] + normal @ np.linalg.cholesky(square).T, atol=1e-12)
    assert np.isfinite(one.quantile(np.zeros((1, 2)))).all()
    far = Mixture(np.array([1e-12, 1.0]), np.array([[-20.0], [0.0]]), np.ones((2, 1, 1)))
    np.testing.assert_allclose(far.quantile(np.array([[0.975], [0.5]])), [[1.959964], [0.0]], atol=1e-5)
    assert far.quantile(np.array([[0.0]]))[0, 0] < -20
    with pytest.raises(BadUsage, match="a mixture of several columns does not have"):
        Mixture(np.full(2, 0.5), np.zeros((2, 2)), np.stack([np.eye(2)] * 2)).quantile(u)


def test_signs_that_are_none() -> None:
    for bad in ([[0.0, 0.0], [0.0, 1.0]], [[1.0, 0.2], [0.1, 1.0]]):
        with pytest.raises(DataError, match="symmetric with a positive diagonal"):
            signs(np.array(bad))
    law = signs(np.array([[4.0, -4.0], [-4.0, 4.0]]))
    np.testing.assert_allclose(law.second, [[1.0, -1.0], [-1.0, 1.0]])
    np.testing.assert_allclose(np.diag(law.correlation), 1.0)
    drawn = law.sample(np.random.default_rng(0), 50)
    np.testing.assert_array_equal(drawn[:, 0], -drawn[:, 1])
    with pytest.raises(BadUsage, match="moments alone cannot be drawn from"):
        Moments(np.zeros(2), None).sample(np.random.default_rng(0), 1)
    with pytest.raises(DataError, match="all coefficients"):
        Trigonometric(np.zeros(2), np.zeros(2))


# runs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", [0, 12])
def test_a_run_has_the_steps_that_it_says(norm: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With candidates apart from the rows: sums at these, sums at rows or draws, then atoms; small tiles make several steps."""
    monkeypatch.setattr(embedding.GaussianPlan, "size", (16, 16))
    monkeypatch.setattr(embedding, "TILES_PER_STEP", 4)
    problem = made(problems.Group(equal(X), X[:20].copy(), 7), norm=norm)
    chosen = selection.Selection(problem)
    expected = 2 + (4 if not norm else 1)  # strips of 16 points, one a step
    assert problems.lengths(problem, problem.groups[0]) == (expected, 7, 0)
    assert chosen.steps == expected + 7
    state, steps, shares = chosen.init(), 0, []
    while not chosen.done(state):
        shares.append(chosen.progress(state).share)
        state, steps = chosen.step(state), steps + 1
        assert state.step == steps
    assert steps == chosen.steps
    pairs = 20 * 60 + (60 if not norm else 12) * 60
    work = np.interp(np.arange(steps), [0, expected, steps], [0, pairs, pairs + 7 * 20]) / (pairs + 140)
    np.testing.assert_allclose(shares, work, atol=1e-12)
    exact = KERNEL.matrix(X[:20], X).mean(axis=1)
    np.testing.assert_allclose(state.done[0].embedding, exact[state.done[0].index], rtol=1e-12)


def test_strips_and_steps_of_sums_by_hand() -> None:
    assert [embedding.strips_per_step((256, 8192), rows) for rows in (1, 8192, 8193, 8192 * 64, 8192 * 65)] == [64, 64, 32, 1, 1]
    assert [embedding.count_steps(KERNEL, points, 100) for points in (1, 256 * 64, 256 * 64 + 1)] == [1, 1, 2]
    assert embedding.count_steps(Polynomial(3, 1.0), 256, 4096 * 64) == 1
    assert embedding.count_steps(Polynomial(3, 1.0), 257, 4096 * 64) == 2


def test_lengths_of_the_phases_of_every_rule() -> None:
    group = problems.Group(equal(X), None, 6)
    for rule, steps in (("herding", 6), ("random", 6), ("min-norm-point", 160), ("away", 300), ("bpcg", 300)):
        assert problems.lengths(made(group, rule=rule, refine=3), group) == (1, steps, 18)
    features = made(group, kernel=Features())
    assert problems.lengths(features, group)[0] == 0
    assert by_moments(Polynomial(2, 1.0))
    assert not by_moments(Polynomial(3, 1.0))
    assert by_moments(kernel_names.parse("linear+2"))
    assert not by_moments(kernel_names.parse("linear+gaussian:1"))
    assert not by_moments(kernel_names.parse("linear*linear"))
    started = replace(group, start=Continuation(np.zeros(60)))
    assert problems.norm_sizes(made(started), started) == []
    apart = problems.Group(equal(X), X[:9].copy(), 6)
    assert problems.norm_sizes(made(apart), apart) == [(9, 60), (60, 60)]
    assert problems.norm_sizes(made(apart, norm=5), apart) == [(9, 60), (5, 60)]
    assert problems.norm_sizes(made(group, norm=5), group) == [(60, 60)]


def test_parts_of_groups_and_their_numbers() -> None:
    groups = tuple(problems.Group(equal(X[part]), None, 3) for part in (slice(0, 20), slice(20, 40), slice(40, 60)))
    problem = made(*groups, rule="random")
    assert (problem.runs, replace(problem, reduce=2).runs) == (3, 4)
    assert problem.part([0, 1, 2]) is problem
    part = problem.part([2, 0]).part([0])
    assert (part.number(0), part.groups[0].target.X is groups[2].target.X) == (2, True)
    whole = solve(selection.Selection(problem)).done[2]
    np.testing.assert_array_equal(solve(selection.Selection(part)).done[0].index, whole.index)


@pytest.mark.parametrize(
    ("state", "place", "good", "bad"),
    [
        (rules.State(1, 0, 0, 0, *np.zeros((1, 2), int), np.zeros((2, 1)), *np.zeros((4, 2)), np.zeros(3)), "index", (-1, 2), (-2, 3)),
        (swap.State(0, 0, 0, 0, 0, np.zeros(2, int), np.zeros((2, 1)), np.zeros(2), np.zeros(3), np.zeros(1)), "index", (-1, 2), (-2, 3)),
        (active_set.State(0, 2, "", np.zeros(2, int), *np.zeros((3, 2)), np.zeros(3)), "index", (0, 2), (-1, 3)),
        (
            min_norm_point.State(0, simplex.empty(2, 1.0), "", 0, *np.zeros((2, 2)), np.zeros(3), np.zeros(1, int)),
            "refused",
            (0, 2),
            (-1, 3),
        ),
    ],
    ids=["rules", "swap", "active", "hull"],
)
def test_atoms_of_a_state_are_candidates(state: object, place: str, good: tuple[int, int], bad: tuple[int, int]) -> None:
    if place == "refused":
        state.hull.size = 1
    for value in good:
        getattr(state, place)[0] = value
        state.validate()
    for value in bad:
        getattr(state, place)[0] = value
        with pytest.raises(DataError):
            state.validate()


def test_counts_of_a_state_are_within_its_room() -> None:
    base = rules.State(0, 0, 0, -1, *np.zeros((1, 2), int), np.zeros((2, 1)), *np.zeros((4, 2)), np.zeros(3))
    for step, best in ((0, -1), (2, 2), (1, 0)):
        replace(base, step=step, best=best).validate()
    replace(base, running=np.zeros(0), index=np.full(2, -1), best=0).validate()
    for step, best in ((-1, 0), (3, 0), (0, -2), (0, 3)):
        with pytest.raises(DataError, match="atoms and candidate"):
            replace(base, step=step, best=best).validate()
    active = active_set.State(0, 1, "", np.zeros(2, int), *np.zeros((3, 2)), np.zeros(3))
    for size in (1, 2):
        replace(active, size=size).validate()
    for size in (0, 3):
        with pytest.raises(DataError, match="atoms in use and room for 2"):
            replace(active, size=size).validate()
    hull = simplex.empty(3, 1.0)
    held = min_norm_point.State(0, hull, "", 0, *np.zeros((2, 2)), np.zeros(3), np.zeros(0, int))
    for size, good in ((0, False), (1, True), (2, True), (3, False)):
        hull.size = size
        if good:
            held.validate()
        else:
            with pytest.raises(DataError, match="atoms in use and room for 2"):
                held.validate()
    at = problems.State(3, 0, "rule", 1, [], None, None, None, None, [])
    at.validate()
    replace(at, begun=3).validate()
    replace(at, begun=0).validate()
    for wrong in ({"phase": "other"}, {"group": -1}, {"begun": 4}, {"begun": -1}):
        with pytest.raises(DataError, match="is in phase"):
            replace(at, **wrong).validate()


# the artifact -------------------------------------------------------------------------------------


def test_figures_of_every_group_are_its_own(mmd: object) -> None:
    parts = [np.arange(0, 25), np.arange(25, 60)]
    problem = made(*(problems.Group(equal(X[part]), None, 5 + 2 * g) for g, part in enumerate(parts)))
    state, scale = solve(selection.Selection(problem)), np.array([2.0, 3.0])
    made_with = {"kind": "simplex", "projected": True, "scale": scale, "feature_names": ["u", "v"]}
    value = assemble.samples(problem, state, parts, names=["a", "b"], **made_with)
    value.validate()
    assert (value.groups, value.group.tolist()) == (2, [0] * 5 + [1] * 7)
    np.testing.assert_array_equal(value.x, X[value.index] * scale)
    for g, part in enumerate(parts):
        own, K = value.members(g), KERNEL.matrix(X[part], X[part])
        w, n = value.weight[own], len(part)
        result = state.done[g]
        np.testing.assert_array_equal(value.index[own], part[result.index])
        np.testing.assert_array_equal(value.mmd[own], result.mmd)
        np.testing.assert_array_equal(value.gap[own], result.gap)
        np.testing.assert_allclose(value.rate[own], 1 / np.arange(1, len(own) + 1))
        atoms = X[value.index[own]]
        summary = value.summary
        assert summary.mmd[g] == pytest.approx(mmd(KERNEL, X[part], np.full(n, 1 / n), atoms, w), abs=1e-9)
        assert summary.norm[g] == pytest.approx(K.mean(), rel=1e-12)
        assert summary.floor[g] == pytest.approx(np.sqrt((1 - K.mean()) / n), rel=1e-12)
        assert summary.rows[g] == n
        assert summary.smallest[g] == w.min()
        assert summary.effective[g] == pytest.approx(w.sum() ** 2 / (w**2).sum())
        assert summary.condition[g] == pytest.approx(np.linalg.cond(KERNEL.matrix(atoms, atoms)), rel=1e-6)
        kept = value.projected.group == g
        assert value.projected.count[kept][[0, -1]].tolist() == [1, 5 + 2 * g]
        assert value.projected.mmd[kept][-1] == pytest.approx(summary.mmd[g], abs=1e-9)
    assert (summary.extra, summary.norm_error, value.passes) == (None, None, None)
    apart = assemble.together(assemble.one_by_one(problem, state, parts, ["a", "b"], **made_with))
    for name in ("x", "index", "weight", "mmd", "group", "group_names", "feature_names"):
        np.testing.assert_array_equal(getattr(apart, name), getattr(value, name))
    for name in ("group", "count", "mmd"):
        np.testing.assert_array_equal(getattr(apart.projected, name), getattr(value.projected, name))
    for name in ("mmd", "floor", "rows"):
        np.testing.assert_array_equal(getattr(apart.summary, name), getattr(value.summary, name))
    assert len(apart.state) == len(value.state) == 2


def test_blocks_put_together_have_their_bound() -> None:
    parts = [np.arange(0, 20), np.arange(20, 60)]
    for refine in (0, 2):
        problem = made(*(problems.Group(Rows(X[part], np.full(len(part), 1 / 60)), None, 4) for part in parts), reduce=3, refine=refine)
        state = solve(selection.Selection(problem))
        value = assemble.samples(problem, state, parts, kind="rule", projected=False, scale=np.ones(2))
        ends = [result.passes[-1] if refine else result.mmd[-1] for result in state.done[:2]]
        assert value.summary.extra.tolist() == pytest.approx([(ends[0] + 2 * ends[1]) / 3])
        assert (value.summary.rows.tolist(), value.scale, value.state, value.group) == ([60], None, None, None)
        np.testing.assert_array_equal(value.x, X[value.index])
        assert len(value.index) == 3


@pytest.mark.parametrize("pairs", [False, True])
def test_moments_are_kept_of_one_group_of_few_columns(pairs: bool) -> None:
    units = preparation.cube(3)
    target = Rows(units, np.arange(8) / 28)
    problem = made(problems.Group(target, None, 3), kernel=Features(pairs))
    value = assemble.samples(problem, solve(selection.Selection(problem)), [None], kind="rule", projected=False, scale=np.ones(3))
    mean = target.weights @ units
    second = [target.weights @ (units[:, i] * units[:, j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    np.testing.assert_allclose(value.moment, [*mean, *second] if pairs else mean, atol=1e-15)
    assert assemble._moment(replace(problem, groups=problem.groups * 2)) is None
    assert assemble._moment(replace(problem, kernel=KERNEL)) is None
    for units_of, kept in ((20, True), (21, False)):
        wide = made(problems.Group(Moments(np.zeros(units_of), None), None, 3), kernel=Features())
        assert (assemble._moment(wide) is not None) == kept


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"x": np.zeros((0, 2)), "index": np.zeros(0, int)}, "/x holds no atoms"),
        ({"scale": np.array([1.0, 0.0])}, "/scale has a 0"),
        ({"feature_names": ["a"]}, "/feature_names has 1 names, /x has 2 columns"),
        ({"group": np.array([0, 1, 2]), "group_names": ["a", "b"]}, "/group must hold 0 … 1, a group"),
        ({"state": [Continuation(np.zeros(1))] * 2}, "/state has 2 groups, there are 1"),
    ],
)
def test_samples_whose_parts_do_not_belong_together(wrong: dict[str, object], says: str) -> None:
    plain = Samples(np.zeros((3, 2)), np.zeros(3, int), np.ones(3) / 3, np.zeros(3), np.zeros(3))
    plain.validate()
    replace(plain, group=np.array([0, 1, 1]), group_names=["a", "b"], scale=np.ones(2), feature_names=["a", "b"]).validate()
    with pytest.raises(DataError, match=says):
        replace(plain, **wrong).validate()


# geometry -----------------------------------------------------------------------------------------


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
        hull = simplex.empty(7, 3.0)
        for i in range(7):
            assert simplex.enter(hull, i, K[i, :i], K[i, i], z[i])
        assert hull.weight.tolist() == [1.0, *[0.0] * 6]
        hull.weight[:] = start
        simplex.settle(hull)
        expected = wolfe(K, z, start)
        found = np.zeros(7)
        found[hull.ids[: hull.size]] = hull.weight[: hull.size]
        np.testing.assert_allclose(found, expected, atol=1e-9)
        assert simplex.objective(hull) == pytest.approx((expected @ K @ expected, expected @ z), abs=1e-9)
        dropped.append(7 - hull.size)
    assert np.mean(np.array(dropped) > 1) > 0.3


def test_points_in_the_affine_hull_do_not_enter() -> None:
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.25]])
    K, hull = points @ points.T, simplex.empty(4, 1.0)
    assert [simplex.enter(hull, i, K[i, : min(i, 3)], K[i, i], 0.0) for i in range(4)] == [True, True, True, False]
    assert hull.size == 3
    full = simplex.empty(1, 1.0)
    assert simplex.enter(full, 5, np.zeros(0), 1.0, 2.0)
    assert not simplex.enter(full, 6, np.zeros(1), 1.0, 0.0)
    wider = simplex.grown(full, 3)
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
    assert len(simplex.grown(wider, 0).ids) == 1


def line(atoms: np.ndarray, z: np.ndarray, kernel: object = KERNEL) -> Space:
    """A space of the atoms alone."""
    return Space(kernel, atoms, z, 1.0, kernel.diagonal(atoms), evaluator(kernel, atoms), lambda x: np.zeros(len(x)))


def test_weights_of_two_atoms_by_hand() -> None:
    """K = (1, c; c, 1): free K⁻¹z, affine ½ + (z₀ − z₁)/(2 (1 − c))."""
    atoms, z = np.array([[0.0], [1.0]]), np.array([0.7, 0.4])
    c = np.exp(-1 / (2 * 1.44))
    space = line(atoms, z)
    np.testing.assert_allclose(weights.weights("free", space, atoms, z), np.array([0.7 - c * 0.4, 0.4 - c * 0.7]) / (1 - c**2))
    share = 0.5 + 0.3 / (2 * (1 - c))
    assert share > 1
    np.testing.assert_allclose(weights.weights("affine", space, atoms, z), [share, 1 - share])
    np.testing.assert_allclose(weights.weights("simplex", space, atoms, z), [1.0, 0.0])
    np.testing.assert_allclose(weights.weights("uniform", space, atoms, z), [0.5, 0.5])
    w = np.array([0.8, 0.4])
    found = weights.report(space, atoms, z, w)
    assert found.condition == pytest.approx((1 + c) / (1 - c))
    assert (found.smallest, found.effective) == (0.4, pytest.approx(1.44 / 0.8))
    assert found.mmd == pytest.approx(np.sqrt(0.8 + 2 * 0.32 * c - 2 * (0.56 + 0.16) + 1))
    np.testing.assert_allclose(prefix_distances(space, atoms, z), [np.sqrt(2 - 1.4), np.sqrt(0.5 + 0.5 * c - 1.1 + 1)])
    assert np.isnan(prefix_distances(space, atoms, z, np.zeros(2))).all()


def test_equal_atoms_are_found_in_the_order_they_come() -> None:
    first, place, counts = weights._distinct(np.array([[5.0], [1.0], [5.0], [3.0], [1.0], [5.0]]))
    assert (first.tolist(), place.tolist(), counts.tolist()) == ([0, 1, 3], [0, 1, 0, 2, 1, 0], [3, 2, 1])
    doubled = np.array([[0.0], [0.0], [1.0]])
    space = line(doubled, np.array([0.7, 0.7, 0.4]))
    report = weights.report(space, doubled, space.embedding, np.array([0.5, 0.3, 0.4]))
    alone = weights.report(line(doubled[1:], space.embedding[1:]), doubled[1:], space.embedding[1:], np.array([0.8, 0.4]))
    assert (report.mmd, report.condition) == (pytest.approx(alone.mmd), pytest.approx(alone.condition))
    assert weights._condition(np.diag([0.0, 1.0])) == np.inf


def test_counts_of_a_projected_trace_are_spread_over_decades() -> None:
    atoms = np.arange(100.0)[:, None] / 100
    space = line(atoms, np.linspace(0.5, 0.4, 100))
    counts, _ = weights.projected_trace(space, atoms, space.embedding)
    assert counts.tolist() == [1, 2, 3, 4, 6, 7, 10, 13, 18, 24, 32, 42, 56, 75, 100]
    assert weights.projected_trace(space, atoms[:1], space.embedding[:1])[0].tolist() == [1]


def test_polishing_finds_the_minimum_near_a_candidate() -> None:
    """μ(x) = Gaussian bump at (0.3, −0.2): from the origin within ±½ it is reached, within ±0.1 the nearest corner, in a box its edge."""

    def mean(x: np.ndarray) -> np.ndarray:
        return np.exp(-((x - [0.3, -0.2]) ** 2).sum(axis=1))

    space = Space(KERNEL, np.zeros((1, 2)), np.zeros(1), 1.0, np.ones(1), evaluator(KERNEL, np.zeros((1, 2))), mean)
    none, start = (np.zeros((0, 2)), np.zeros(0)), np.zeros(2)

    def found(spacing: float, bound: float = 1.0) -> np.ndarray:
        return polish.polished(polish.Polish(np.full(2, -bound), np.full(2, bound), np.full(2, spacing)), space, *none, 1.0, start)

    np.testing.assert_allclose(found(0.5), [0.3, -0.2], atol=1e-6)
    np.testing.assert_allclose(found(0.05, 0.1), [0.1, -0.1], atol=1e-6)
    assert polish.polished(polish.Polish(np.full(2, -1), np.full(2, 1), np.full(2, 0.5)), space, *none, -0.0, start) is None
    at = np.array([[0.1, 0.0]])
    pulled = polish.polished(polish.Polish(np.full(2, -1.0), np.ones(2), np.full(2, 0.2)), space, at, np.array([0.5]), 2.0, start)
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 401)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    value = 0.5 * KERNEL.matrix(grid, at)[:, 0] - 2 * mean(grid)
    np.testing.assert_allclose(pulled, grid[value.argmin()], atol=0.006)


def test_sums_and_products_of_kernels_in_closed_form() -> None:
    box = Uniform(np.zeros(1), np.ones(1))
    x = np.array([[0.2], [0.9]])
    inner, norm = closed_form.embedding(kernel_names.parse("gaussian:0.5"), box)
    other, more = closed_form.embedding(kernel_names.parse("laplace:1"), box)
    for text, mean, expected in (
        ("3*gaussian:0.5", 3 * inner(x), 3 * norm),
        ("gaussian:0.5+2*laplace:1", inner(x) + 2 * other(x), norm + 2 * more),
        ("gaussian:0.5+4", inner(x) + 4, norm + 4),
        ("2*3", np.full(2, 6.0), 6.0),
        ("7", np.full(2, 7.0), 7.0),
    ):
        found, square = closed_form.embedding(kernel_names.parse(text), box)
        np.testing.assert_allclose(found(x), mean, rtol=1e-14)
        assert square == pytest.approx(expected, rel=1e-14)
    zero, nothing = closed_form.embedding(kernel_names.parse("bernoulli:1"), box)
    assert (zero(x).tolist(), nothing) == ([0.0, 0.0], 0.0)
    with pytest.raises(BadUsage, match="no closed form"):
        closed_form.embedding(kernel_names.parse("bernoulli:1"), Uniform(np.zeros(1), np.full(1, 2.0)))
