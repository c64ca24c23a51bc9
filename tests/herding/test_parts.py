"""What stands in the artifacts of herding, figure by figure; entropies; and what is refused at the boundary."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from herdcli.algorithm import RunProgress, run_algorithm
from herdcli.errors import BadUsage, DataError
from herdcli.herding import binary_features, class_runs, dynamics, maximisers, model, sample_entropy, visible_herding
from herdcli.herding.binary_features import pack_bits, pack_rows, to_unit_values
from herdcli.numerics.scores import Scores
from herdcli.rng import Stream, generator

ON = np.random.default_rng(1).random((36, 11)) < 0.4
ON[:, 4] = True  # a constant unit
Y = np.arange(36) % 3
SPLIT = np.repeat([0, 0, 1, 2], 9)
NAMES = ["a", "b", "c"]

TOLD = (  # what an artifact says of its settings
    *("model", "features", "representation", "variant", "flip", "hidden_bias"),
    *("sweeps", "iterations", "burn_in", "energy_every", "seed"),
)


def hidden(groups: class_runs.ClassGroups, **options: Any) -> tuple[dynamics.HiddenHerdingProblem, dynamics.HiddenHerdingState]:
    problem = class_runs.make_hidden_problem(
        groups, dynamics.HiddenHerdingSettings(**{"hidden": 4, "iterations": 30, "burn_in": 12, **options})
    )
    return problem, run_algorithm(dynamics.HiddenHerding(problem))


# rows ---------------------------------------------------------------------------------------------


def test_groups_have_their_rows_units_and_rows_to_score() -> None:
    groups = class_runs.prepare_class_groups(ON, Y, SPLIT, NAMES, per_class=True)
    kept = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10]
    labels = groups.labels
    assert (labels.units.tolist(), labels.all_units) == (kept, 11)
    np.testing.assert_array_equal(labels.scored, np.flatnonzero(SPLIT > 0))
    np.testing.assert_array_equal(groups.scored_rows(), ON[SPLIT > 0][:, kept])
    for label in range(3):
        np.testing.assert_array_equal(groups.training_rows(label), ON[(SPLIT == 0) & (label == Y)][:, kept])
    np.testing.assert_array_equal(
        class_runs.prepare_class_groups(ON, Y, SPLIT, NAMES, per_class=True, score_training=True).labels.scored, np.arange(36)
    )
    assert len(class_runs.prepare_class_groups(ON, Y * 0, SPLIT, ["all"], per_class=False, score_training=True).labels.scored) == 0
    assert (
        class_runs.make_hidden_problem(
            class_runs.prepare_class_groups(ON, Y * 0, SPLIT, ["all"], per_class=False), dynamics.HiddenHerdingSettings()
        ).queries
        is None
    )


def test_the_baseline_is_the_nearest_training_row_of_any_class() -> None:
    groups = class_runs.prepare_class_groups(ON, Y, SPLIT, NAMES, per_class=True)
    training, expected = np.flatnonzero(SPLIT == 0), []
    for row in groups.labels.scored:
        expected.append(Y[training[(ON[training] ^ ON[row]).sum(axis=1).argmin()]])
    np.testing.assert_array_equal(class_runs.nearest_training_classes(groups, range(3)), expected)
    shares = np.array_split(np.arange(18), 3)
    found = class_runs.nearest_training_classes(groups, [1])
    np.testing.assert_array_equal(found[shares[1]], np.array(expected)[shares[1]])
    assert (np.delete(found, shares[1]) == -1).all()


def test_runs_apart_are_the_runs_together() -> None:
    groups = class_runs.prepare_class_groups(ON, Y, np.where((Y == 1) & (SPLIT == 1), 0, SPLIT), NAMES, per_class=True)
    problem, state = hidden(groups)
    whole = class_runs.assemble_hidden_herding(problem, state)
    nearest = class_runs.nearest_training_classes(groups, range(3))
    scores = class_runs.assemble_class_scores(groups.labels, nearest, state)
    np.testing.assert_array_equal(scores.energy, np.stack([run.energy / 18 for run in state.runs], axis=1))
    np.testing.assert_array_equal(scores.y, Y[groups.labels.scored])
    np.testing.assert_array_equal(scores.split, groups.labels.split[groups.labels.scored])
    assert scores.majority == 1
    parts = class_runs.split_into_artifacts(problem, state, class_runs.assemble_hidden_herding)
    with_scores = [
        replace(part, scores=replace(scores, energy=scores.energy[:, [u]], nearest=class_runs.nearest_training_classes(groups, [u])))
        for u, part in enumerate(parts)
    ]
    for joined in (class_runs.combine_run_artifacts(parts), class_runs.combine_run_artifacts(with_scores)):
        for name in ("M", "b", "c", "n", "states", "weight_norm", "ascent_sweeps"):
            np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))
    assert class_runs.combine_run_artifacts(parts).scores is None
    np.testing.assert_array_equal(class_runs.combine_run_artifacts(with_scores).scores.nearest, nearest)
    np.testing.assert_array_equal(class_runs.combine_run_artifacts(with_scores).scores.energy, scores.energy)


def test_parts_of_runs_keep_their_random_numbers() -> None:
    problem, state = hidden(class_runs.prepare_class_groups(ON, Y, SPLIT, NAMES, per_class=True))
    part = problem.part([2, 0]).part([0])
    assert part.global_number(0) == 2
    alone = run_algorithm(dynamics.HiddenHerding(part)).runs[0]
    np.testing.assert_array_equal(alone.M, state.runs[2].M)


# artifacts ----------------------------------------------------------------------------------------


def test_the_artifact_with_hidden_units_holds_what_its_runs_did() -> None:
    groups = class_runs.prepare_class_groups(ON, Y, SPLIT, NAMES, per_class=True)
    problem, state = hidden(groups, hidden_bias="full", keep=7, seed=9)
    value = class_runs.assemble_hidden_herding(problem, state)
    value.validate()
    for u, run in enumerate(state.runs):
        rows = to_unit_values(groups.training_rows(u), "spin").astype(int)
        assert value.n[u] == len(rows)
        for name in ("M", "b", "c", "x", "z", "states"):
            np.testing.assert_array_equal(getattr(value, name)[u], getattr(run, name))
        np.testing.assert_array_equal(value.weight_norm[:, u], run.weight_norm)
        np.testing.assert_array_equal(value.visible_norm[:, u], run.visible_norm)
        assert run.visible_norm[-1] == pytest.approx(np.sqrt((run.b.astype(float) ** 2).sum()) / len(rows))
        norm = (run.M.astype(float) ** 2).sum() + (run.b.astype(float) ** 2).sum() + (run.c.astype(float) ** 2).sum()
        assert run.weight_norm[-1] == pytest.approx(np.sqrt(norm) / len(rows))
        moments, rates, scale = value.moments, value.rates, 30 * len(rows)
        assert rates.scale[u] == scale
        for sampled, driving, gap in (
            (moments.visible[u], rates.visible[u], value.gap.largest_visible[u]),
            (moments.pair[u], rates.pair[u], value.gap.largest_pair[u]),
            (moments.hidden[u], rates.hidden[u], value.gap.largest_hidden[u]),
        ):
            assert gap == pytest.approx(np.abs(sampled / 30 - driving / scale).max(), abs=1e-15)
        np.testing.assert_array_equal(rates.visible[u], 30 * rows.sum(axis=0))
        np.testing.assert_array_equal(run.b, rates.visible[u] - len(rows) * moments.visible[u])
        np.testing.assert_array_equal(run.c, rates.hidden[u] - len(rows) * moments.hidden[u])
        assert value.ascent_sweeps[u] == run.sweeps / 30 > 1
        x, z = value.kept_samples(u)
        assert (x.shape, z.shape) == ((7, 10), (7, 4))
    assert value.M.dtype == value.rates.pair.dtype == np.int32
    assert [getattr(value, name) for name in TOLD] == ["rbm", "xz", "spin", "local", True, "full", 0, 30, 12, 1, 9]
    assert (value.step_sizes, value.wide_from.tolist(), value.decoupled, value.J) == ([1, 1, 1], [0, 0, 0], False, None)


@pytest.mark.parametrize("kind", ["x", "x,xx", "rows", "moments"])
def test_the_artifact_without_hidden_units_holds_what_its_runs_did(kind: str) -> None:
    rows = [to_unit_values(ON[label == Y][:, [0, 1, 2, 3]], "spin") for label in range(2)]
    paired, real = kind == "x,xx", kind == "rows"
    if real:
        sources = tuple(visible_herding.source_from_vectors(part * [1.0, 2.5, 0.5, -1.0]) for part in rows)
    elif kind == "moments":
        sources = tuple(visible_herding.source_from_moments(part.mean(axis=0), 4, "x", "spin") for part in rows)
    else:
        sources = tuple(visible_herding.source_from_rows(part, kind) for part in rows)
    maximiser = {"x,xx": "enumerate", "rows": "rows"}.get(kind, "exact")
    settings = visible_herding.VisibleHerdingSettings(
        features="x" if kind == "moments" else kind, maximiser=maximiser, iterations=40, burn_in=25, keep=9
    )
    problem = visible_herding.VisibleHerdingProblem(sources, settings)
    state = run_algorithm(visible_herding.VisibleHerding(problem))
    value = class_runs.assemble_visible_herding(problem, state)
    value.validate()
    i, j = np.triu_indices(4, 1)
    for u, (source, run) in enumerate(zip(sources, state.runs, strict=True)):
        n = len(rows[u]) if kind in ("x", "x,xx") else 1
        table = (source.candidates if real else rows[u]).astype(float)
        pair = table[:, i] * table[:, j]
        sampled = run.counts @ table if real else run.counts
        assert (value.n[u], value.rates.scale[u]) == (n, 40 * n)
        np.testing.assert_allclose(value.rates.visible[u], 40 * n * table.mean(axis=0))
        np.testing.assert_allclose(value.moments.visible[u], sampled[:4])
        np.testing.assert_allclose(value.b[u], 40 * n * table.mean(axis=0) - n * sampled[:4], atol=1e-9)
        assert value.gap.largest_visible[u] == pytest.approx(np.abs(sampled[:4] / 40 - table.mean(axis=0)).max())
        assert run.weight_norm[-1] * n == pytest.approx(np.sqrt((value.b[u] ** 2).sum() + (0 if not paired else (value.J[u] ** 2).sum())))
        np.testing.assert_array_equal(value.x[u], source.candidates[run.chosen] if real else run.x)
        if paired:
            np.testing.assert_allclose(value.J[u], 40 * pair.sum(axis=0) - n * sampled[4:])
            np.testing.assert_allclose(value.rates.visible_pair[u], 40 * pair.sum(axis=0))
            np.testing.assert_array_equal(value.moments.visible_pair[u], run.counts[4:])
            assert value.gap.largest_pair[u] == pytest.approx(np.abs(run.counts[4:] / 40 - pair.mean(axis=0)).max())
        x, z = value.kept_samples(u)
        assert (len(x), z) == (9, None)
    assert paired or (value.J, value.gap.largest_pair, value.moments.visible_pair, value.rates.visible_pair) == (None,) * 4
    expected = ["rows" if real else "mrf", settings.features, "real" if real else "spin", maximiser, False, "none", 0, 40, 25, 1, 0]
    assert [getattr(value, name) for name in TOLD] == expected


def test_integers_take_32_bits_where_they_fit() -> None:
    for number, fits in (((1 << 31) - 1, True), (1 << 31, False), (-(1 << 31), True), (-(1 << 31) - 1, False)):
        found = class_runs._narrow_integers(np.array([0, number]))
        assert found.dtype == (np.int32 if fits else np.int64)
        assert found.tolist() == [0, number]
    assert class_runs._narrow_integers(np.zeros(0, dtype=np.int64)).dtype == np.int32


def finished() -> model.Herding:
    return class_runs.assemble_hidden_herding(*hidden(class_runs.prepare_class_groups(ON, Y, SPLIT, NAMES, per_class=True)))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda v: {"features": "xy"}, "features are 'xy' of 10 units, but must be one of xz, x, x,xx, rows, of 1 unit or more"),
        (lambda v: {"b": v.b[:, :0]}, "features are 'xz' of 0 units"),
        (lambda v: {"features": "x"}, "features are 'x', but hidden units are there"),
        (lambda v: {"z": None}, "features are 'xz', but hidden units are missing"),
        (lambda v: {"iterations": 0}, "/iterations is 0 and /burn_in 12, but must be at least 1 and 0"),
        (lambda v: {"burn_in": -1}, "/iterations is 30 and /burn_in -1, but must be at least 1 and 0"),
        (lambda v: {"representation": "real1"}, "representation is 'real1', but must be spin, binary or real"),
        (lambda v: {"x": v.x * 2}, "/x has values outside -1 to 1"),
        (lambda v: {"x": np.where(v.x < 0, -2, 0)}, "/x has values outside -1 to 1"),
        (lambda v: {"states": v.states[:, :, :2]}, "/states has 2 bytes of type uint8 for each sample, but must have 3 of type uint8"),
        (lambda v: {"states": v.states.astype(np.uint16)}, "/states has 3 bytes of type uint16"),
        (
            lambda v: {"moments": replace(v.moments, visible=v.moments.visible[:, :9])},
            r"/moments/visible has the shape \(3, 9\), but its weights have \(3, 10\)",
        ),
        (
            lambda v: {"rates": replace(v.rates, hidden=v.rates.hidden[:, :3])},
            r"/rates/hidden has the shape \(3, 3\), but its weights have \(3, 4\)",
        ),
        (lambda v: {"moments": replace(v.moments, pair=v.moments.pair[:2])}, "/moments/pair has the shape"),
        (lambda v: {"gap": replace(v.gap, largest_visible=np.zeros(2))}, "/gap is for 2 runs, but there are 3"),
        (lambda v: {"units": np.arange(1, 11), "all_units": 10}, "/units must hold 0 … 9, a unit"),
        (lambda v: {"classes": ["a", "b"]}, "/classes has 2 names, but there are 3 runs"),
        (
            lambda v: {"classes": NAMES, "scores": Scores(np.zeros((1, 2)), np.zeros(1, int), np.zeros(1, int), np.zeros(1, int))},
            "/scores/energy has 2 columns, but there are 3 models",
        ),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(wrong: Any, says: str) -> None:
    value = finished()
    replace(value, classes=NAMES, units=np.arange(10), all_units=10).validate()
    with pytest.raises(DataError, match=says):
        replace(value, **wrong(value)).validate()


def test_constant_rates_drive_a_run_as_often_as_it_goes_on() -> None:
    random = np.random.default_rng(2)
    M, b, c = random.integers(-9, 9, (5, 3)), random.integers(-9, 9, 5), random.integers(-9, 9, 3)
    start = np.zeros((5, 3), np.int64), np.zeros(5, np.int64), np.zeros(3, np.int64), np.ones(5, np.int8), np.ones(3, np.int8)
    problem = dynamics.HiddenHerdingProblem(
        (dynamics.DrivingTerms(M, b, c, 10, start),), dynamics.HiddenHerdingSettings(hidden=3, iterations=25, burn_in=0, hidden_bias="full")
    )
    state = run_algorithm(dynamics.HiddenHerding(problem))
    value = class_runs.assemble_hidden_herding(problem, state)
    assert (value.rates.scale.tolist(), value.n.tolist(), value.decoupled) == ([250], [10], True)
    for name, part, weights in (("pair", M, value.M), ("visible", b, value.b), ("hidden", c, value.c)):
        np.testing.assert_array_equal(getattr(value.rates, name)[0], 25 * part)
        np.testing.assert_array_equal(weights[0], 25 * part - 10 * getattr(value.moments, name)[0])


def test_scores_without_an_energy_are_0_and_of_one_alone_it() -> None:
    groups = class_runs.prepare_class_groups(ON, Y, SPLIT, NAMES, per_class=True)
    _, state = hidden(groups)
    for averaged in (0, 1, 5):
        for run in state.runs:
            run.averaged, run.energy = averaged, np.full(18, 10.0)
        np.testing.assert_array_equal(
            class_runs.assemble_class_scores(groups.labels, np.zeros(18, int), state).energy, 10.0 / max(averaged, 1)
        )


@pytest.mark.parametrize("representation", ["spin", "binary"])
def test_coordinates_turn_over_the_unit_that_gains_most(representation: str) -> None:
    """Every flip of a plain program in floats, whose fields are made anew each time."""
    low = -1 if representation == "spin" else 0
    for seed in range(30):
        random = np.random.default_rng(seed)
        w, x = random.normal(size=21), np.where(random.random(6) < 0.5, 1, low)
        b, J = w[:6], np.zeros((6, 6))
        J[np.triu_indices(6, 1)] = w[6:]
        J += J.T
        found = maximisers.maximise_by_coordinates(w, x.astype(np.int8), "x,xx", representation)
        while True:
            gain = (low + 1 - 2 * x) * (b + J @ x)
            if gain.max() <= 0:
                break
            x[gain.argmax()] = low + 1 - x[gain.argmax()]
        np.testing.assert_array_equal(found, x)


def test_growth_is_that_of_the_second_half() -> None:
    norm = np.array([[1.0, 5], [2, 0], [9, 1], [3, 1], [8, 7]])
    assert model.late_norm_growth(norm) == 8 / 2
    assert model.late_norm_growth(norm[:, 1:]) == 1.0  # 0 at T/2
    assert model.late_norm_growth(norm[:4]) == 1.5
    assert model.late_norm_growth(norm[:3]) == 1.0
    value = finished()
    assert value.growth == model.late_norm_growth(value.weight_norm)
    assert value.visible_growth == model.late_norm_growth(value.visible_norm)
    assert replace(value, visible_norm=None).visible_growth == 0.0


# runs ---------------------------------------------------------------------------------------------


def test_progress_shows_the_largest_norm_of_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visible_herding, "BLOCK", 7)
    rows = to_unit_values(ON[:, :3], "spin")
    problem = visible_herding.VisibleHerdingProblem(
        tuple(visible_herding.source_from_rows(part, "x") for part in (rows[:9], rows[9:])),
        visible_herding.VisibleHerdingSettings(iterations=20, burn_in=0),
    )
    algorithm = visible_herding.VisibleHerding(problem)
    assert algorithm.steps == 3
    state, told = algorithm.init(), []
    while not algorithm.done(state):
        told.append(algorithm.progress(state))
        state = algorithm.step(state)
    told.append(algorithm.progress(state))
    norms = [0.0, *(max(run.weight_norm[t - 1] for run in state.runs) for t in (7, 14, 20))]
    assert told == [RunProgress(step, 3, f"‖w‖ {norm:.3g}") for step, norm in enumerate(norms)]
    assert state.iteration == 20


@pytest.mark.parametrize("kind", ["x", "x,xx"])
@pytest.mark.parametrize("representation", ["spin", "binary"])
def test_energies_of_visible_models_are_averaged_by_their_definition(kind: str, representation: str) -> None:
    rows, queries = to_unit_values(ON[:20, :4], representation), to_unit_values(ON[20:, :4], representation)
    settings = visible_herding.VisibleHerdingSettings(
        kind, "coordinates", iterations=30, burn_in=11, energy_every=4, representation=representation
    )
    run = run_algorithm(
        visible_herding.VisibleHerding(
            visible_herding.VisibleHerdingProblem((visible_herding.source_from_rows(rows, kind),), settings, queries)
        )
    ).runs[0]
    i, j = np.triu_indices(4, 1)

    def phi(x: np.ndarray) -> np.ndarray:
        x = x.astype(int)
        return x if kind == "x" else np.concatenate([x, x[:, i] * x[:, j]], axis=1)

    chosen = to_unit_values(np.unpackbits(run.states, axis=1, count=4, bitorder="little") == 1, representation)
    assert len(chosen) == 19
    w, total, count = 20 * run.counts * 0, np.zeros(16), 0
    other = run_algorithm(
        visible_herding.VisibleHerding(
            visible_herding.VisibleHerdingProblem((visible_herding.source_from_rows(rows, kind),), replace(settings, burn_in=0), queries)
        )
    ).runs[0]
    chosen = to_unit_values(np.unpackbits(other.states, axis=1, count=4, bitorder="little") == 1, representation)
    for t in range(1, 31):
        if t > 11 and (t - 12) % 4 == 0:
            energy, own = -phi(queries) @ w, -phi(rows) @ w
            total, count = total + (energy - own.mean()) / own.std(), count + 1
        w = w + phi(rows).sum(axis=0) - 20 * phi(chosen[t - 1 : t])[0]
    assert run.averaged == count == 5
    np.testing.assert_allclose(run.energy, total, atol=1e-9)
    np.testing.assert_array_equal(visible_herding.current_weights(visible_herding.source_from_rows(rows, kind), run, 30, kind), w)


def test_blocks_of_iterations_are_worth_their_step() -> None:
    def block(D: int, n: int, queries: int, runs: int, hidden: int) -> int:
        unit = pack_rows(np.zeros((n, D), dtype=bool), "spin")
        queried = pack_bits(np.zeros((queries, D), dtype=bool)) if queries else None
        return dynamics.HiddenHerdingProblem((unit,) * runs, dynamics.HiddenHerdingSettings(hidden=hidden), queried).block

    assert block(10, 100, 0, 1, 5) == 200
    assert block(1000, 800, 0, 1, 1000) == 40  # 4e10 / (1000 · 1000 · 1000)
    assert block(1000, 800, 1000, 2, 1000) == 10
    seen = visible_herding.VisibleHerdingProblem(
        (visible_herding.MomentSource(20, 0, np.zeros(210), np.zeros((0, 20), np.int8)),),
        visible_herding.VisibleHerdingSettings("x,xx", "enumerate"),
    )
    assert seen.block == int(2e7 // (210 + 4 * 2**20)) == 4
    rows = visible_herding.MomentSource(100, 0, np.zeros(100), np.zeros((5000, 100), np.int8))
    assert visible_herding.VisibleHerdingProblem((rows, rows), visible_herding.VisibleHerdingSettings("x", "rows")).block == int(
        2e7 // (2 * (100 + 4 + 500_000))
    )
    assert visible_herding.VisibleHerdingProblem(
        (rows,), visible_herding.VisibleHerdingSettings("x", "rows"), np.zeros((5000, 100))
    ).block == int(2e7 // (100 + 4 + 1_000_000))
    assert (
        visible_herding.VisibleHerdingProblem(
            (visible_herding.source_from_moments(np.zeros(3), 3, "x", "spin"),), visible_herding.VisibleHerdingSettings()
        ).block
        == 200
    )


def test_first_weights_are_even_and_drawn_from_their_stream() -> None:
    for rows, spread in ((36, 2.0), (600, 30.0)):
        on = np.random.default_rng(0).random((rows, 11)) < 0.5
        problem = dynamics.HiddenHerdingProblem((pack_rows(on, "spin"),), dynamics.HiddenHerdingSettings(hidden=6, seed=3), numbers=[4])
        M, b, c, x, z = dynamics.initial_weights(problem, 0)
        draws = generator(3, Stream.HERDING, unit=4)
        np.testing.assert_array_equal(M, 2 * np.rint(draws.normal(0.0, spread, (11, 6))))
        np.testing.assert_array_equal(x, to_unit_values(on, "spin")[int(draws.integers(rows))])
        assert (b.any(), c.any(), z.tolist()) == (False, False, [1] * 6)


def test_settings_say_what_is_kept_and_whether_spins_turn_over() -> None:
    for kind in (dynamics.HiddenHerdingSettings, visible_herding.VisibleHerdingSettings):
        assert [kind(iterations=10, burn_in=4, keep=keep).kept_state_count for keep in (None, 0, 5, 6, 9)] == [6, 0, 5, 6, 6]
        kind(iterations=1, burn_in=0)
        for wrong in ({"iterations": 0, "burn_in": 0}, {"energy_every": 0}, {"burn_in": -1}, {"iterations": 5, "burn_in": 5}):
            with pytest.raises(BadUsage):
                kind(**wrong)
    flips = [
        dynamics.HiddenHerdingSettings(variant=v, flip=f, representation=r).can_flip_spins
        for v in ("local", "safe")
        for f in (True, False)
        for r in ("spin", "binary")
    ]
    assert flips == [True] + [False] * 7
    dynamics.HiddenHerdingSettings(hidden=1, sweeps=0, step_sizes=(1, 1, 1))
    for wrong in ({"sweeps": -1}, {"step_sizes": (0, 1, 1)}, {"step_sizes": (1, 1, 0)}):
        with pytest.raises(BadUsage, match="must be at least 1"):
            dynamics.HiddenHerdingSettings(**wrong)


def test_states_are_within_their_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, state = hidden(class_runs.prepare_class_groups(ON, Y, SPLIT, NAMES, per_class=True))
    shown = visible_herding.VisibleHerdingProblem(
        (visible_herding.source_from_rows(to_unit_values(ON[:, :3], "spin"), "x"),),
        visible_herding.VisibleHerdingSettings(iterations=30, burn_in=0),
    )
    for each in (state, visible_herding.VisibleHerding(shown).init()):
        for iteration, good in ((0, True), (30, True), (31, False), (-1, False)):
            if good:
                replace(each, iteration=iteration).validate()
            else:
                with pytest.raises(DataError, match="but its traces have fewer"):
                    replace(each, iteration=iteration).validate()
    monkeypatch.setattr("herdcli.herding.problem.MOST_ROWS", 6)
    replace(problem)
    monkeypatch.setattr("herdcli.herding.problem.MOST_ROWS", 5)
    with pytest.raises(DataError, match="there are 6 rows in one run, but herding handles at most 5"):
        replace(problem)


def guarded(M: np.ndarray, b: int = 0, c: int = 0, **more: Any) -> dynamics.HiddenRunState:
    D, K = M.shape
    zeros = np.zeros(0)
    run = dynamics.HiddenRunState(M, np.full(D, b), np.full(K, c), *np.zeros((2, 1), int), *[zeros] * 8)
    column, row = np.abs(M).sum(axis=0, dtype=np.int64), np.abs(M).sum(axis=1, dtype=np.int64)
    dynamics._check_overflow(run, column, row, iteration=7, **more)
    return run


def test_types_grow_where_their_sums_would_not_fit() -> None:
    """2^24 for float32, 2^28 or a product of 2^62 for 32 bits, with the bias at either layer in the sum."""
    ones = np.ones((4, 4), dtype=np.int32)
    for b, c, wide, dtype in (
        ((1 << 24) - 5, 0, 0, np.int32),
        ((1 << 24) - 4, 0, 7, np.int32),
        (0, 4 - (1 << 24), 7, np.int32),
        ((1 << 28) - 5, 0, 7, np.int32),
        ((1 << 28) - 4, 0, 7, np.int64),
        (0, (1 << 28) - 4, 7, np.int64),
    ):
        run = guarded(ones, b, c)
        assert (run.wide_from, run.M.dtype) == (wide, dtype)
    assert guarded(ones, too_large=True).M.dtype == np.int64
    many = np.zeros((64, 64), dtype=np.int32)  # bound² · 64 reaches 2^62 at a bound of 2^28
    assert guarded(many, (1 << 28) - 1).M.dtype == np.int32
    more = np.zeros((65, 70), dtype=np.int32)
    assert guarded(more, (1 << 28) - 1).M.dtype == np.int64
    assert guarded(more[:64], (1 << 28) - 1).M.dtype == np.int32


def test_updates_that_could_leave_32_bits_begin_in_64() -> None:
    """One moves a sum of 20 weights by at most 2 · 20 · 60 times the step size, of which 2³⁰ are too many."""
    unit = pack_rows(np.random.default_rng(0).random((60, 20)) < 0.5, "spin")
    for size, dtype in ((447_392, np.int32), (447_393, np.int64)):
        for sizes in ((size, 1, 1), (1, 1, size)):
            problem = dynamics.HiddenHerdingProblem((unit,), dynamics.HiddenHerdingSettings(hidden=5, step_sizes=sizes))
            assert dynamics.HiddenHerding(problem).init().runs[0].M.dtype == dtype
    start = np.zeros((20, 5), dtype=np.int32), *np.zeros((2, 1), int), np.ones(20, np.int8), np.ones(5, np.int8)
    for n, dtype in ((26_843_545, np.int32), (26_843_546, np.int64)):
        drive = dynamics.DrivingTerms(np.zeros((20, 5), int), np.zeros(20, int), np.zeros(5, int), n, start)
        assert (
            dynamics.HiddenHerding(dynamics.HiddenHerdingProblem((drive,), dynamics.HiddenHerdingSettings(hidden=5))).init().runs[0].M.dtype
            == dtype
        )


# features and entropies ---------------------------------------------------------------------------


def test_lengths_of_feature_vectors() -> None:
    assert [binary_features.feature_count(D, "x,xx") for D in (1, 2, 3, 10)] == [1, 3, 6, 55]
    for D in (1, 2, 3, 50, 1000):
        assert binary_features.units_from_feature_count(D * (D + 1) // 2, "x,xx") == D
        assert binary_features.units_from_feature_count(D, "x") == D
    for wrong in (2, 4, 1224, 1226):
        with pytest.raises(DataError, match=f"the number of moments is {wrong}, which is not"):
            binary_features.units_from_feature_count(wrong, "x,xx")
    b, J = binary_features.split_pairwise_weights(np.array([1, 2, 3, 12, 13, 23]), 3)
    assert (b.tolist(), J.tolist()) == ([1, 2, 3], [[0, 12, 13], [12, 0, 23], [13, 23, 0]])
    assert maximisers.maximise_by_sign(np.array([-1.0, 0.0, 1.0]), "binary").tolist() == [0, 1, 1]


def test_moments_at_the_ends_of_their_range() -> None:
    for representation, low in (("spin", -1.0), ("binary", 0.0)):
        visible_herding.source_from_moments(np.array([low, 1.0]), 2, "x", representation)
        for wrong in (low - 1e-9, 1.0 + 1e-9, np.nan):
            with pytest.raises(DataError, match="moment 1 is"):
                visible_herding.source_from_moments(np.array([0.5, wrong]), 2, "x", representation)
    enough = visible_herding.MomentSource(20, 0, np.zeros(20), np.zeros((0, 20), np.int8))
    visible_herding.VisibleHerdingProblem((enough,), visible_herding.VisibleHerdingSettings("x", "enumerate"))


def test_ties_go_to_the_high_value_and_the_first_state() -> None:
    weights = np.zeros(3, dtype=np.int64)
    assert maximisers.maximise_by_enumeration(weights, 2, "x,xx", "spin").tolist() == [-1, -1]
    started = visible_herding.VisibleHerding(
        visible_herding.VisibleHerdingProblem(
            (visible_herding.source_from_moments(np.zeros(2), 2, "x", "binary"),),
            visible_herding.VisibleHerdingSettings(representation="binary"),
        )
    )
    assert started.init().runs[0].x.tolist() == [0, 0]
    spins = visible_herding.VisibleHerding(
        visible_herding.VisibleHerdingProblem(
            (visible_herding.source_from_moments(np.zeros(2), 2, "x", "spin"),), visible_herding.VisibleHerdingSettings()
        )
    )
    assert spins.init().runs[0].x.tolist() == [-1, -1]
    assert maximisers.maximise_by_coordinates(np.array([0.0, 0.0, 0.0]), np.array([-1, 1]), "x,xx", "spin").tolist() == [-1, 1]


def test_entropies_by_hand() -> None:
    np.testing.assert_allclose(
        sample_entropy.unit_entropy_bits(np.array([-1.0, 0.0, 1.0, 0.5]), "spin"), [0, 1, 0, 0.8112781244591328], atol=1e-15
    )
    np.testing.assert_allclose(
        sample_entropy.unit_entropy_bits(np.array([0.0, 0.5, 1.0, 0.25]), "binary"), [0, 1, 0, 0.8112781244591328], atol=1e-15
    )
    states = np.array([[1, 0], [1, 0], [0, 1], [3, 3]])
    assert sample_entropy.effective_state_count(states) == pytest.approx(np.exp(0.5 * np.log(2) + 0.5 * np.log(4)))
    assert sample_entropy.effective_state_count(states[:0]) == 0.0
    assert sample_entropy.effective_state_count(np.arange(5)[:, None]) == pytest.approx(5)
    for low in (-1, 0):
        x = np.where(np.array([[1, 0], [1, 0], [1, 1], [0, 0]]) > 0, 1, low)
        assert sample_entropy.state_frequencies(x).tolist() == [0.25, 0.5, 0.0, 0.25]


@pytest.mark.parametrize("representation", ["spin", "binary"])
def test_the_distribution_of_maximum_entropy_is_an_exponential_family_with_the_means(representation: str) -> None:
    """For pairs log p is linear in the features, and no other distribution with these means has more entropy."""
    low = -1 if representation == "spin" else 0
    table = np.array(list(itertools.product((low, 1), repeat=3)))[:, ::-1]  # the first unit runs fastest
    pairs = table[:, [0, 0, 1]] * table[:, [1, 2, 2]]
    phi = np.concatenate([table, pairs], axis=1)
    truth = np.random.default_rng(0).dirichlet(np.ones(8))
    found = sample_entropy.fit_max_entropy(truth @ phi, 3, "x,xx", representation)
    np.testing.assert_allclose(found @ phi, truth @ phi, atol=1e-9)
    solution, *_ = np.linalg.lstsq(np.column_stack([np.ones(8), phi]), np.log(found), rcond=None)
    np.testing.assert_allclose(np.column_stack([np.ones(8), phi]) @ solution, np.log(found), atol=1e-7)
    assert -(found @ np.log(found)) > -(truth @ np.log(truth))
    single = sample_entropy.fit_max_entropy(truth @ table, 3, "x", representation)
    on = (truth @ table - low) / (1 - low)
    np.testing.assert_allclose(single, [np.prod(np.where(row > 0, on, 1 - on)) for row in table])


def test_means_near_the_edge_of_what_is_possible_are_fitted_too() -> None:
    """Three spins that nearly always agree, and others that are in few states, where Newton's steps have to be halved on the way."""
    table = maximisers.enumerate_states(3, "spin").astype(int)
    phi = np.concatenate([table, table[:, [0, 0, 1]] * table[:, [1, 2, 2]]], axis=1)
    few = 0.999 * np.random.default_rng(0).dirichlet(np.full(8, 0.03), 6) + 0.001 / 8
    for p in (np.array([0.4997, *6 * [1e-4], 0.4997]), *few):
        found = sample_entropy.fit_max_entropy(p @ phi, 3, "x,xx", "spin")
        np.testing.assert_allclose(found @ phi, p @ phi, atol=1e-9)
    impossible = np.array([0.0, 0, 0, -0.9, -0.9, -0.9])  # of three spins two agree
    assert sample_entropy.fit_max_entropy(impossible, 3, "x,xx", "spin") is None


def test_a_fit_ends_where_rounding_hides_the_fall_of_its_dual() -> None:
    """The last Newton step from moments that are 2·10⁻¹⁰ off would bring a fall of 10⁻¹⁶."""
    on = maximisers.enumerate_states(3, "binary").astype(int)
    phi = np.concatenate([on, on[:, [0, 0, 1]] * on[:, [1, 2, 2]]], axis=1)
    for p in 0.999 * np.random.default_rng(19).dirichlet(np.full(8, 0.1), 60) + 0.001 / 8:
        found = sample_entropy.fit_max_entropy(p @ phi, 3, "x,xx", "binary")
        assert found is not None
        assert np.abs(found @ phi - p @ phi).max() < 1e-9
