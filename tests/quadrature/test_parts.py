"""What a run is put together from: groups, sums in steps, states, and the artifact's figures; exact numbers by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage, DataError
from herdcli.quadrature import input_preparation, result_assembly, row_groups, selection, selection_problem, simplex
from herdcli.quadrature.kernels import kernel_parsing, kernel_sums
from herdcli.quadrature.kernels.kernel_functions import BernoulliKernel, FeatureKernel, GaussianKernel, PolynomialKernel
from herdcli.quadrature.kernels.point_sums import depends_on_moments
from herdcli.quadrature.rules import active_set, min_norm_point, sequential_rules, swap_refinement
from herdcli.quadrature.samples import Continuation, Samples
from herdcli.quadrature.targets import MomentTarget, RowTarget, UniformTarget
from herdcli.rng import Stream, generator

X = np.random.default_rng(3).standard_normal((60, 2))
KERNEL = GaussianKernel(1.2)


def equal(X: np.ndarray) -> RowTarget:
    return RowTarget(X, np.full(len(X), 1 / len(X)))


def made(
    *groups: selection_problem.SelectionGroup, kernel: object = KERNEL, refine: int = 0, norm: int = 0, **rule: object
) -> selection_problem.SelectionProblem:
    return selection_problem.SelectionProblem(
        kernel, groups, selection_problem.SelectionSettings(sequential_rules.RuleSettings(**rule), refine, norm=norm)
    )


def test_weights_of_rows_sum_to_one_and_bad_ones_are_refused() -> None:
    np.testing.assert_array_equal(row_groups.normalise_row_weights(X, None, None, None).weights, np.full(60, 1 / 60))
    found = row_groups.normalise_row_weights(X[:2], np.array([0, 4]), None, None)
    assert found.weights.tolist() == [0.0, 1.0]
    with pytest.raises(DataError, match="has only one row, but at least two are needed"):
        row_groups.normalise_row_weights(X[:1], None, None, None)
    for bad in ([-1.0, 2.0], [0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]):
        with pytest.raises(DataError, match="the weights of rows must be finite, not negative and not all 0"):
            row_groups.normalise_row_weights(X[:2], np.array(bad), None, None)


def test_labels_are_numbered_in_order_and_named() -> None:
    group, names = row_groups.number_groups(np.array([2.5, -1.0, 2.5]), None)
    assert (group.tolist(), names) == ([1, 0, 1], ["-1", "2.5"])
    group, names = row_groups.number_groups(np.array([2, 0, 2]), ["a", "b", "c"])
    assert (group.tolist(), names) == ([1, 0, 1], ["a", "c"])


@pytest.mark.parametrize("scattered", [False, True])
def test_groups_of_labels_are_distributions_of_their_own(scattered: bool) -> None:
    group = np.array([0, 1, 0, 1, 1, 0]) if scattered else np.array([0, 0, 0, 1, 1, 1])
    given = row_groups.normalise_row_weights(X[:6].copy(), np.arange(6.0), group, ["a", "b"])
    found, rows = row_groups.make_row_groups(given, None, np.array([2.0, 4.0]), 5, polish=True)
    for g in range(2):
        own = np.flatnonzero(group == g)
        np.testing.assert_array_equal(rows[g], own)
        np.testing.assert_array_equal(found[g].target.X, X[own] / [2.0, 4.0])
        np.testing.assert_allclose(found[g].target.weights, own / own.sum())
        assert (found[g].count, found[g].candidates) == (5, None)
        assert np.shares_memory(found[g].target.X, given.X) == (not scattered)
        low, high = (X[own] / [2.0, 4.0]).min(axis=0), (X[own] / [2.0, 4.0]).max(axis=0)
        np.testing.assert_array_equal(found[g].polish.low, low)
        np.testing.assert_array_equal(found[g].polish.high, high)
        np.testing.assert_allclose(found[g].polish.spacing, (high - low) / np.sqrt(3))
    with pytest.raises(DataError, match="all rows of group a have weight 0"):
        row_groups.make_row_groups(replace(given, weights=(group == 1) / 3.0), None, np.ones(2), 1, polish=False)


def test_rows_with_other_candidates_are_one_group() -> None:
    given = row_groups.normalise_row_weights(X[:7].copy(), np.array([1.0, 1, 0, 0, 2, 2, 4]), None, None)
    np.testing.assert_array_equal(given.given, [1.0, 1, 0, 0, 2, 2, 4])
    points = np.zeros((4, 2))
    (whole,), none = row_groups.make_row_groups(given, points, np.ones(2), 3, polish=True)
    assert (none, whole.candidates is points, len(whole.target.X)) == ([None], True, 7)
    np.testing.assert_allclose(whole.polish.spacing, np.ptp(X[:7], axis=0) / 2)


def test_closed_forms_have_their_own_columns() -> None:
    target = UniformTarget(np.zeros(1), np.full(1, 3.0))
    with pytest.raises(BadUsage, match="--scale works only with --distribution rows"):
        row_groups.make_closed_form_group(target, None, np.array([2.0]), 4, polish=False)
    plain = row_groups.make_closed_form_group(target, None, np.ones(1), 4, polish=True)
    assert (plain.polish, plain.points.shape, plain.count) == (None, (0, 1), 4)
    searched = row_groups.make_closed_form_group(target, np.zeros((6, 1)), np.ones(1), 4, polish=True)
    assert (searched.polish.low, searched.polish.high, searched.polish.spacing) == (0.0, 3.0, 0.5)


@pytest.mark.parametrize("norm", [0, 12])
def test_a_run_has_the_steps_that_it_says(norm: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With candidates apart from the rows: sums at these, sums at rows or draws, then atoms; small tiles make several steps."""
    monkeypatch.setattr(kernel_sums.GaussianTiles, "size", (16, 16))
    monkeypatch.setattr(kernel_sums, "TILES_PER_STEP", 4)
    problem = made(selection_problem.SelectionGroup(equal(X), X[:20].copy(), 7), norm=norm)
    chosen = selection.AtomSelection(problem)
    expected = 2 + (4 if not norm else 1)  # strips of 16 points, one a step
    assert selection_problem.phase_lengths(problem, problem.groups[0]) == (expected, 7, 0)
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


def test_runs_without_candidates_have_even_steps() -> None:
    problem = made(
        selection_problem.SelectionGroup(UniformTarget(np.zeros(1), np.ones(1)), None, 4), kernel=BernoulliKernel(1), rule="sobol"
    )
    chosen = selection.AtomSelection(problem)
    state, shares = chosen.init(), []
    while not chosen.done(state):
        shares.append(chosen.progress(state).share)
        state = chosen.step(state)
    np.testing.assert_allclose(shares, [0, 0.25, 0.5, 0.75])
    assert (state.done[0].index == -1).all()
    value = result_assembly.assemble_samples(problem, state, [None], kind="rule", projected=False, scale=np.ones(1))
    assert value.summary.rows.tolist() == [0]
    assert value.summary.floor[0] == pytest.approx(np.sqrt(1 / 12 / 4))  # of four draws; k(x, x) = 1/12, ‖μ‖² = 0
    assert (
        sequential_rules.initial_state(
            sequential_rules.SequenceProblem(
                chosen.space(problem.groups[0], chosen.init()), problem.groups[0].target, problem.settings.rule
            ),
            3,
        ).index
        == -1
    ).all()


def test_draws_of_rows_are_those_of_their_stream_and_unit() -> None:
    groups = tuple(selection_problem.SelectionGroup(equal(X[:30] + g), None, 5) for g in range(2))
    state = run_algorithm(selection.AtomSelection(made(*groups, rule="random", seed=4)))
    for g, result in enumerate(state.done):
        expected = [groups[g].target.draw(generator(4, Stream.ATOMS, unit=g, step=t), 1)[0] for t in range(5)]
        np.testing.assert_array_equal(result.index, expected)
        np.testing.assert_array_equal(result.atoms, X[:30][expected] + g)
        np.testing.assert_allclose(result.weight, 0.2)
    drawn = run_algorithm(
        selection.AtomSelection(made(selection_problem.SelectionGroup(equal(X), X[:4].copy(), 3), rule="random", seed=4))
    ).done[0]
    assert (drawn.index == -1).all()
    np.testing.assert_array_equal(drawn.atoms[2], X[equal(X).draw(generator(4, Stream.ATOMS, step=2), 1)[0]])


def test_strips_and_steps_of_sums_by_hand() -> None:
    assert [kernel_sums.strips_per_step((256, 8192), rows) for rows in (1, 8192, 8193, 8192 * 64, 8192 * 65)] == [64, 64, 32, 1, 1]
    assert [kernel_sums.count_steps(KERNEL, points, 100) for points in (1, 256 * 64, 256 * 64 + 1)] == [1, 1, 2]
    assert kernel_sums.count_steps(PolynomialKernel(3, 1.0), 256, 4096 * 64) == 1
    assert kernel_sums.count_steps(PolynomialKernel(3, 1.0), 257, 4096 * 64) == 2


def test_lengths_of_the_phases_of_every_rule() -> None:
    group = selection_problem.SelectionGroup(equal(X), None, 6)
    for rule, steps in (("herding", 6), ("random", 6), ("min-norm-point", 160), ("away", 300), ("bpcg", 300)):
        assert selection_problem.phase_lengths(made(group, rule=rule, refine=3), group) == (1, steps, 18)
    features = made(group, kernel=FeatureKernel())
    assert selection_problem.phase_lengths(features, group)[0] == 0
    assert depends_on_moments(PolynomialKernel(2, 1.0))
    assert not depends_on_moments(PolynomialKernel(3, 1.0))
    assert depends_on_moments(kernel_parsing.parse_kernel("linear+2"))
    assert not depends_on_moments(kernel_parsing.parse_kernel("linear+gaussian:1"))
    assert not depends_on_moments(kernel_parsing.parse_kernel("linear*linear"))
    started = replace(group, start=Continuation(np.zeros(60)))
    assert selection_problem.kernel_sum_sizes(made(started), started) == []
    apart = selection_problem.SelectionGroup(equal(X), X[:9].copy(), 6)
    assert selection_problem.kernel_sum_sizes(made(apart), apart) == [(9, 60), (60, 60)]
    assert selection_problem.kernel_sum_sizes(made(apart, norm=5), apart) == [(9, 60), (5, 60)]
    assert selection_problem.kernel_sum_sizes(made(group, norm=5), group) == [(60, 60)]
    told = [
        selection_problem.is_norm_estimated(each, norm)
        for each, norm in ((apart, 0), (apart, 1), (group, 5), (replace(apart, target=box()), 5))
    ]
    assert told == [False, True, False, False]


def box() -> UniformTarget:
    return UniformTarget(np.zeros(2), np.ones(2))


def test_a_run_goes_on_among_the_candidates_it_chose_from() -> None:
    """Candidate 0, the first atom, is looked at as all others are."""
    problem = made(selection_problem.SelectionGroup(equal(X), None, 4), init="zero")
    state = run_algorithm(selection.AtomSelection(problem))
    assert state.done[0].index[0] == 0
    value = result_assembly.assemble_samples(problem, state, [None], kind="rule", projected=False, scale=np.ones(2))
    given = value, "herding", value.kernel, np.ones(2)
    assert selection_problem.resume_groups(list(problem.groups), *given)[0].start is value.state[0]
    other = X.copy()
    other[0] += 1.0
    with pytest.raises(BadUsage, match="not among the candidates"):
        selection_problem.resume_groups([selection_problem.SelectionGroup(equal(other), None, 4)], *given)


def test_parts_of_groups_and_their_numbers() -> None:
    groups = tuple(selection_problem.SelectionGroup(equal(X[part]), None, 3) for part in (slice(0, 20), slice(20, 40), slice(40, 60)))
    problem = made(*groups, rule="random")
    assert problem.group_count == 3
    assert problem.part([0, 1, 2]) is problem
    part = problem.part([2, 0]).part([0])
    assert (part.global_number(0), part.groups[0].target.X is groups[2].target.X) == (2, True)
    whole = run_algorithm(selection.AtomSelection(problem)).done[2]
    np.testing.assert_array_equal(run_algorithm(selection.AtomSelection(part)).done[0].index, whole.index)


@pytest.mark.parametrize(
    ("state", "place", "good", "bad"),
    [
        (
            sequential_rules.SequenceState(1, 0, 0, 0, *np.zeros((1, 2), int), np.zeros((2, 1)), *np.zeros((4, 2)), np.zeros(3)),
            "index",
            (-1, 2),
            (-2, 3),
        ),
        (
            swap_refinement.SwapState(0, 0, 0, 0, 0, np.zeros(2, int), np.zeros((2, 1)), np.zeros(2), np.zeros(3), np.zeros(1)),
            "index",
            (-1, 2),
            (-2, 3),
        ),
        (active_set.ActiveSetState(0, 2, "", np.zeros(2, int), *np.zeros((3, 2)), np.zeros(3)), "index", (0, 2), (-1, 3)),
        (
            min_norm_point.MinNormPointState(0, simplex.allocate_hull(2, 1.0), "", 0, *np.zeros((2, 2)), np.zeros(3), np.zeros(1, int)),
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
    base = sequential_rules.SequenceState(0, 0, 0, -1, *np.zeros((1, 2), int), np.zeros((2, 1)), *np.zeros((4, 2)), np.zeros(3))
    for step, best in ((0, -1), (2, 2), (1, 0)):
        replace(base, step=step, best=best).validate()
    replace(base, running=np.zeros(0), index=np.full(2, -1), best=0).validate()
    for step, best in ((-1, 0), (3, 0), (0, -2), (0, 3)):
        with pytest.raises(DataError, match="is damaged: the run is at atom"):
            replace(base, step=step, best=best).validate()
    active = active_set.ActiveSetState(0, 1, "", np.zeros(2, int), *np.zeros((3, 2)), np.zeros(3))
    for size in (1, 2):
        replace(active, size=size).validate()
    for size in (0, 3):
        with pytest.raises(DataError, match="atoms, but has space for 2"):
            replace(active, size=size).validate()
    hull = simplex.allocate_hull(3, 1.0)
    held = min_norm_point.MinNormPointState(0, hull, "", 0, *np.zeros((2, 2)), np.zeros(3), np.zeros(0, int))
    for size, good in ((0, False), (1, True), (2, True), (3, False)):
        hull.size = size
        if good:
            held.validate()
        else:
            with pytest.raises(DataError, match="atoms, but has space for 2"):
                held.validate()
    at = selection_problem.SelectionState(3, 0, "rule", 1, [], None, None, None, None, [])
    at.validate()
    replace(at, begun=3).validate()
    replace(at, begun=0).validate()
    for wrong in ({"phase": "other"}, {"group": -1}, {"begun": 4}, {"begun": -1}):
        with pytest.raises(DataError, match="is damaged: phase"):
            replace(at, **wrong).validate()


def test_figures_of_every_group_are_its_own(mmd: object) -> None:
    parts = [np.arange(0, 25), np.arange(25, 60)]
    problem = made(*(selection_problem.SelectionGroup(equal(X[part]), None, 5 + 2 * g) for g, part in enumerate(parts)))
    state, scale = run_algorithm(selection.AtomSelection(problem)), np.array([2.0, 3.0])
    made_with = {"kind": "simplex", "projected": True, "scale": scale, "feature_names": ["u", "v"]}
    value = result_assembly.assemble_samples(problem, state, parts, names=["a", "b"], **made_with)
    value.validate()
    assert (value.groups, value.group.tolist()) == (2, [0] * 5 + [1] * 7)
    np.testing.assert_array_equal(value.x, X[value.index] * scale)
    for g, part in enumerate(parts):
        own, K = value.group_positions(g), KERNEL.matrix(X[part], X[part])
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
    apart = result_assembly.join_group_samples(result_assembly.assemble_group_samples(problem, state, parts, ["a", "b"], **made_with))
    for name in ("x", "index", "weight", "mmd", "group", "group_names", "feature_names"):
        np.testing.assert_array_equal(getattr(apart, name), getattr(value, name))
    for name in ("group", "count", "mmd"):
        np.testing.assert_array_equal(getattr(apart.projected, name), getattr(value.projected, name))
    for name in ("mmd", "floor", "rows"):
        np.testing.assert_array_equal(getattr(apart.summary, name), getattr(value.summary, name))
    assert len(apart.state) == len(value.state) == 2
    np.testing.assert_array_equal(value.scale, scale)
    assert result_assembly.assemble_samples(problem, state, parts, names=["a", "b"], **(made_with | {"scale": np.ones(2)})).scale is None
    bare = result_assembly.assemble_samples(
        problem, state, parts, names=["a", "b"], keep_state=False, **(made_with | {"kind": "rule", "projected": False})
    )
    assert (bare.state, bare.projected) == (None, None)
    np.testing.assert_allclose(bare.weight, np.repeat([1 / 5, 1 / 7], [5, 7]))


@pytest.mark.parametrize("pairs", [False, True])
def test_moments_are_kept_of_one_group_of_few_columns(pairs: bool) -> None:
    units = input_preparation.all_hypercube_states(3)
    target = RowTarget(units, np.arange(8) / 28)
    problem = made(selection_problem.SelectionGroup(target, None, 3), kernel=FeatureKernel(pairs))
    value = result_assembly.assemble_samples(
        problem, run_algorithm(selection.AtomSelection(problem)), [None], kind="rule", projected=False, scale=np.ones(3)
    )
    mean = target.weights @ units
    second = [target.weights @ (units[:, i] * units[:, j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    np.testing.assert_allclose(value.moment, [*mean, *second] if pairs else mean, atol=1e-15)
    assert result_assembly._mean_features(replace(problem, groups=problem.groups * 2)) is None
    assert result_assembly._mean_features(replace(problem, kernel=KERNEL)) is None
    for units_of, kept in ((20, True), (21, False)):
        wide = made(selection_problem.SelectionGroup(MomentTarget(np.zeros(units_of), None), None, 3), kernel=FeatureKernel())
        assert (result_assembly._mean_features(wide) is not None) == kept


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"x": np.zeros((0, 2)), "index": np.zeros(0, int)}, "/x is empty"),
        ({"group_names": ["one", "two"], "group": np.ones(3, int)}, "group 0 has no atoms in /group"),
        ({"scale": np.array([1.0, 0.0])}, "/scale has a value 0"),
        ({"feature_names": ["a"]}, "/feature_names has 1 names, but /x has 2 columns"),
        ({"group": np.array([0, 1, 2]), "group_names": ["a", "b"]}, "/group must hold 0 … 1, a group"),
        ({"state": [Continuation(np.zeros(1))] * 2}, "/state has 2 groups, but the file has 1"),
    ],
)
def test_samples_whose_parts_do_not_belong_together(wrong: dict[str, object], says: str) -> None:
    plain = Samples(np.zeros((3, 2)), np.zeros(3, int), np.ones(3) / 3, np.zeros(3), np.zeros(3))
    plain.validate()
    replace(plain, group=np.array([0, 1, 1]), group_names=["a", "b"], scale=np.ones(2), feature_names=["a", "b"]).validate()
    with pytest.raises(DataError, match=says):
        replace(plain, **wrong).validate()


def test_scaled_rows_are_restored_bit_for_bit():
    from herdcli.quadrature.input_preparation import restore_rows, scale_in_place

    random = np.random.default_rng(5)
    rows = random.normal(size=(5000, 3)) * 10.0 ** random.integers(-12, 12, size=(5000, 3))
    for extreme in (0.0, -0.0, 5e-324, 1e300):
        given, scale = np.vstack([rows, np.full((1, 3), extreme)]), np.array([0.3, 7.7, 1.0])
        scaled = given.copy()
        lost = scale_in_place(scaled, scale)
        np.testing.assert_array_equal(scaled, given / scale)
        assert (scaled * scale != given).any()  # without the correction some differ
        assert restore_rows(scaled, scale, lost).tobytes() == given.tobytes()
    assert scale_in_place(rows, np.ones(3)) is None
