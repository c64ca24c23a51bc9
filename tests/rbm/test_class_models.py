"""One model per class, with folds: which rows each learns from, and what is put together from them, row by row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import DataError
from herdcli.rbm import class_models
from herdcli.rbm.learning import parallel_fits
from herdcli.rbm.learning.class_rows import ClassGroups, assign_class_folds, largest_class_size
from herdcli.rbm.units import unit_family

N = 48
RANDOM = np.random.default_rng(5)
Y = np.array([0, 1, 2, 1] * 12)
X = (RANDOM.random((N, 6)) < np.array([[0.9, 0.1] * 3, [0.2, 0.7] * 3, [0.5, 0.9] * 3])[Y]).astype(np.int8)
SPLIT = np.repeat([0, 0, 1, 2, 0, 0], 8)
SETTINGS = parallel_fits.Settings(hidden=3, epochs=5, batch_size=5, learning_rate=0.3)
NAMES = ["a", "b", "c"]


def groups(folds: int = 2, rows: np.ndarray = X) -> ClassGroups:
    return assign_class_folds(rows.copy(), Y, SPLIT, NAMES, folds=folds, seed=3)


def learned(given: ClassGroups, units: list[int], settings: parallel_fits.Settings = SETTINGS) -> list[class_models.LearnedClassModel]:
    problem = parallel_fits.LearningProblem(
        given.training_rows(),
        settings,
        scored=given.X[given.heldout_indices] if settings.average_scores else None,
        valid=given.validation_rows() if settings.epochs_per_evaluation else None,
    )
    part = problem.select_models(units)
    return class_models.collect_models(given, run_algorithm(parallel_fits.RBMLearning(part)), settings, units, scored=True)


def free_energy(model: class_models.LearnedClassModel, rows: np.ndarray) -> np.ndarray:
    """−b·v − Σ log(1 + e^x) of binary units."""
    v = rows.astype(np.float64)
    return -(v @ model.b.astype(float)) - np.logaddexp(0, v @ model.W.astype(float) + model.c.astype(float)).sum(axis=1)


def test_rows_of_every_model_and_part() -> None:
    given = groups()
    rows = given.training_rows()
    assert len(rows) == 9
    for unit, chosen in enumerate(rows):
        fold, label = unit // 3 - 1, unit % 3
        expected = [i for i in range(N) if SPLIT[i] == 0 and Y[i] == label and (fold < 0 or given.fold[i] != fold)]
        np.testing.assert_array_equal(chosen.index, expected)
        assert chosen.index.dtype == np.int32
    assert set(given.fold[SPLIT == 0]) == {0, 1}
    assert set(given.fold[SPLIT != 0]) == {-1}
    np.testing.assert_array_equal(given.heldout_indices, np.flatnonzero(SPLIT > 0))
    np.testing.assert_array_equal(given.validation_indices, np.flatnonzero(SPLIT == 1))
    valid = given.validation_rows()
    assert len(valid) == 9
    for unit, chosen in enumerate(valid):
        np.testing.assert_array_equal(chosen.index, np.flatnonzero((SPLIT == 1) & (unit % 3 == Y)))
    assert largest_class_size(Y, SPLIT) == 16
    assert largest_class_size(Y, np.ones(N)) == 1


@pytest.mark.parametrize(
    ("names", "split", "folds", "says"),
    [
        (NAMES, np.where(Y == 2, 1, SPLIT), 0, "class 'c' has no training rows"),
        (NAMES, np.where((Y == 2) & (np.arange(N) > 7), 1, SPLIT), 3, "class 'c' has 2 training rows, fewer than 3 folds"),
        (["all"], np.ones(N, dtype=int), 0, "the split has no training rows"),
    ],
)
def test_classes_of_too_few_rows_are_refused(names: list[str], split: np.ndarray, folds: int, says: str) -> None:
    with pytest.raises(DataError) as found:
        assign_class_folds(X, Y if len(names) > 1 else np.zeros(N, dtype=int), split, names, folds=folds, seed=0)
    assert found.value.message == says
    one = np.where((Y == 2) & (np.arange(N) != 2), 1, SPLIT)
    assert len(assign_class_folds(X, Y, one, NAMES, folds=0, seed=0).training_rows()[2]) == 1
    without = replace(groups(0), split=np.where(Y == 1, 2, SPLIT))
    with pytest.raises(DataError, match="class 'b' has no validation rows"):
        without.validation_rows()
    with pytest.raises(DataError, match="the split has no validation rows"):
        ClassGroups(X, np.zeros(N, dtype=int), np.zeros(N), np.full(N, -1), ["all"], 0).validation_rows()


@pytest.mark.parametrize("kind", [np.int8, np.float32])
def test_energies_of_folds_are_moved_to_the_scale_of_the_final_models(kind: type) -> None:
    given = groups(rows=X.astype(kind))
    models = [*learned(given, [0, 1]), *learned(given, [2, 3, 4, 5, 6, 7, 8])]
    found = class_models.assemble_rbm(models, class_models.collect_shared_parts(given, SETTINGS, scored=True))
    assert found.scores is not None
    assert found.count == 3
    np.testing.assert_array_equal(found.W, [model.W for model in models[:3]])
    np.testing.assert_array_equal(found.b, [model.b for model in models[:3]])
    np.testing.assert_array_equal(found.c, [model.c for model in models[:3]])
    np.testing.assert_array_equal(found.trace.reconstruction, np.stack([model.trace for model in models[:3]], axis=1))
    held, valid = np.flatnonzero(SPLIT > 0), np.flatnonzero(SPLIT == 1)
    order, energy, nearest = [*held], [np.stack([free_energy(model, X[held]) for model in models[:3]], axis=1)], []
    for fold in range(2):
        own = np.flatnonzero(given.fold == fold)
        parts = models[3 * fold + 3 : 3 * fold + 6]
        moved = [
            free_energy(part, X[own]) + (free_energy(final, X[valid]) - free_energy(part, X[valid])).mean()
            for part, final in zip(parts, models[:3], strict=True)
        ]
        energy.append(np.stack(moved, axis=1))
        order += [*own]
    np.testing.assert_allclose(found.scores.energy, np.concatenate(energy), atol=1e-9)
    np.testing.assert_array_equal(found.scores.y, Y[order])
    np.testing.assert_array_equal(found.scores.split, SPLIT[order])
    for row in order:
        others = np.flatnonzero((SPLIT == 0) & ((given.fold != given.fold[row]) | (given.fold[row] < 0)))
        distance = np.abs(X[others].astype(int) - X[row]).sum(axis=1)
        nearest.append(Y[others[distance.argmin()]])
    np.testing.assert_array_equal(found.scores.nearest, nearest)
    assert found.scores.majority == 1
    for m in range(3):
        rows = X[(SPLIT == 0) & (m == Y)]
        assert found.training_energy[m] == pytest.approx(free_energy(models[m], rows).mean(), abs=1e-9)
        np.testing.assert_allclose(found.base_rates[m], unit_family("binary").base_rate_parameters(rows))
    assert found.best_epoch is None
    assert found.kept is None
    np.testing.assert_array_equal(found.holdout.X, X[held])
    np.testing.assert_array_equal(found.holdout.y, Y[held])
    np.testing.assert_array_equal(found.holdout.split, SPLIT[held])


def test_the_most_frequent_class_is_that_of_the_training_rows() -> None:
    split = np.where(Y == 1, 0, 1)
    split[0] = split[2] = 0  # class 1 trains, the others are held out but for a row
    assert class_models._scored_row_labels(replace(groups(0), split=split)).majority == 1
    assert class_models._scored_row_labels(replace(groups(0), split=1 - split)).majority == 0


def test_without_validation_rows_energies_of_folds_stay_as_they_are() -> None:
    split = np.where(SPLIT == 1, 2, SPLIT)
    given = replace(groups(), split=split)
    models = learned(given, list(range(9)))
    found = class_models.assemble_rbm(models, class_models.collect_shared_parts(given, SETTINGS, scored=True))
    own = np.flatnonzero(given.fold == 0)
    held = int((split > 0).sum())
    expected = np.stack([free_energy(model, X[own]) for model in models[3:6]], axis=1)
    np.testing.assert_allclose(found.scores.energy[held : held + len(own)], expected, atol=1e-9)


def test_averaged_energies_are_the_states_sums_over_their_number() -> None:
    settings = replace(SETTINGS, average_scores=4)
    given = groups(0)
    problem = parallel_fits.LearningProblem(given.training_rows(), settings, scored=X[given.heldout_indices])
    state = run_algorithm(parallel_fits.RBMLearning(problem))
    models = class_models.collect_models(given, state, settings, [0, 1, 2], scored=True)
    np.testing.assert_allclose(np.stack([model.energy for model in models], axis=1), state.energy / 4)
    assert all(model.reference is None for model in models)
    unscored = class_models.collect_models(given, state, settings, [0], scored=False)[0]
    assert (unscored.energy, unscored.nearest, unscored.kept) == (None, None, None)


def test_learning_goes_on_from_the_final_models_alone() -> None:
    given = groups()
    problem = parallel_fits.LearningProblem(given.training_rows(), SETTINGS)
    models = class_models.collect_models(
        given, run_algorithm(parallel_fits.RBMLearning(problem)), SETTINGS, list(range(9)), scored=False, keep=True
    )
    for part in ("kept", "training_energy", "base_rates"):
        assert [getattr(model, part) is not None for model in models] == [True] * 3 + [False] * 6


def test_looks_are_after_every_so_many_epochs_and_the_last() -> None:
    for every, epochs in ((2, [2, 4, 5]), (5, [5]), (1, [1, 2, 3, 4, 5])):
        settings = replace(SETTINGS, validate_every=every)
        assert settings.evaluation_count == len(epochs)
        given = groups(0)
        found = class_models.assemble_rbm(
            learned(given, [0, 1, 2], settings), class_models.collect_shared_parts(given, settings, scored=True)
        )
        np.testing.assert_array_equal(found.trace.validated, epochs)
        assert found.trace.log_likelihood.shape == found.trace.free_energy_gap.shape == (len(epochs), 3)


def test_rows_that_are_kept_take_the_place_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = np.array([0, 3, 4, 9, 20, 21, 22, 40])
    for moved in (1 << 20, 18, 6, 1):
        monkeypatch.setattr(class_models, "MOVED", moved)
        rows = X.copy()
        found = class_models._select_rows_in_place(rows, chosen)
        np.testing.assert_array_equal(found, X[chosen])
        assert np.shares_memory(found, rows)
    rows = X.copy()
    rows.flags.writeable = False
    found = class_models._select_rows_in_place(rows, chosen)
    np.testing.assert_array_equal(found, X[chosen])
    np.testing.assert_array_equal(rows, X)


def test_other_rows_take_the_place_of_a_models_own() -> None:
    given = groups(0)
    model = class_models.assemble_rbm(learned(given, [0, 1, 2]), class_models.collect_shared_parts(given, SETTINGS, scored=True))
    rows, split = 1 - X, np.roll(SPLIT, 5)
    found = class_models.replace_evaluation_rows(model, rows, split, Y)
    for m in range(3):
        own = rows[(split == 0) & (m == Y)].astype(float)
        h = model.harmonium(m)
        expected = -(own @ h.b) - np.logaddexp(0, own @ h.W + h.c).sum(axis=1)
        assert found.training_energy[m] == pytest.approx(expected.mean(), abs=1e-9)
    assert found.scores is None
    for name, expected in (("X", rows), ("split", split), ("y", Y)):
        np.testing.assert_array_equal(getattr(found.holdout, name), expected[split > 0])
    assert class_models.replace_evaluation_rows(model, rows, np.where(Y == 1, 1, split), Y).training_energy is None
    assert class_models.replace_evaluation_rows(model, rows, np.ones(N), Y).training_energy is None
    single = replace(model, W=model.W[:1], b=model.b[:1], c=model.c[:1], classes=None)
    alone = class_models.replace_evaluation_rows(single, rows, split, None)
    assert alone.holdout.y is None
    assert alone.training_energy.shape == (1,)
    assert alone.training_energy[0] == pytest.approx(model.harmonium().free_energy(rows[split == 0]).mean(), abs=1e-9)
