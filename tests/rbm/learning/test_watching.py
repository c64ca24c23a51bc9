"""Validation, patience, averaging and going on: what learning looks at, keeps, and begins from."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage, DataError
from herdcli.rbm import class_models
from herdcli.rbm.classification_rbm import append_one_hot_labels, label_log_posterior
from herdcli.rbm.learning import parallel_fits, validation
from herdcli.rbm.learning.class_rows import ClassGroups, assign_class_folds
from herdcli.rbm.learning.learning_problem import LearningProblem
from herdcli.rbm.likelihood.enumeration import exact_log_partition
from herdcli.rbm.likelihood.row_likelihood import row_log_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import unit_family

ROWS = (np.random.default_rng(1).random((90, 6)) < np.repeat([[0.9, 0.1] * 3, [0.2, 0.8] * 3], 45, axis=0)).astype(np.int8)
SPLIT = np.arange(90) % 3
CONSTANT = {"learning_rate": 0.05, "rate_decay": "none", "batch_size": 7}


def groups(names: int = 1) -> ClassGroups:
    return assign_class_folds(ROWS.copy(), np.arange(90) // 45 % names, SPLIT, ["a", "b"][:names], folds=0, seed=0)


def problem(settings: parallel_fits.Settings, given: ClassGroups, begun: object = None) -> LearningProblem:
    valid = given.validation_rows() if settings.epochs_per_evaluation else None
    return LearningProblem(
        given.training_rows(),
        settings,
        valid=valid,
        begun=begun,
        told=given.evenly_spaced_validation_rows(validation.MOST) if valid else None,
    )


def fitted(settings: parallel_fits.Settings, names: int = 1, begun: object = None, keep: bool = False) -> object:
    """The artifact of a whole fit."""
    given = groups(names)
    state = run_algorithm(parallel_fits.RBMLearning(problem(settings, given, begun)))
    models = class_models.collect_models(given, state, settings, range(names), scored=names > 1, keep=keep)
    return class_models.assemble_rbm(models, class_models.collect_shared_parts(given, settings, scored=names > 1))


def test_the_trace_of_validation_rows_is_what_the_model_says_of_them() -> None:
    model = fitted(parallel_fits.Settings(hidden=3, epochs=7, validate_every=3, **CONSTANT))
    np.testing.assert_array_equal(model.trace.validated, [3, 6, 7])
    h, held = model.harmonium(), ROWS[SPLIT == 1]
    expected = row_log_likelihood(h, held, exact_log_partition(h)).mean()
    assert model.trace.log_likelihood[-1, 0] == pytest.approx(expected, abs=1e-9)
    assert np.isfinite(model.trace.pseudo_likelihood).all()
    assert model.trace.free_energy_gap[-1, 0] == pytest.approx(
        h.free_energy(held).mean() - h.free_energy(ROWS[SPLIT == 0]).mean(), abs=1e-9
    )


def test_an_annealed_look_is_near_the_exact_one() -> None:
    random = np.random.default_rng(0)
    h = Harmonium(random.normal(0, 0.3, (14, 14)), np.zeros(14), np.zeros(14), unit_family("binary"), unit_family("binary"))
    rows = random.integers(0, 2, (50, 14))
    exact = row_log_likelihood(h, rows, exact_log_partition(h)).mean()
    found = validation.validation_figures(h, rows, rows, validation.validation_log_partition(h, np.zeros(14), 0, None))
    assert found[0] == pytest.approx(exact, abs=0.2)
    assert found[2] == 0.0


@pytest.mark.parametrize("names", [1, 2])
def test_patience_keeps_the_best_model_and_stops(names: int) -> None:
    long = {**CONSTANT, "learning_rate": 0.4, "momentum": 0.0}  # overfits thirty rows
    watched = fitted(parallel_fits.Settings(hidden=12, epochs=200, patience=3, **long), names)
    for m in range(names):
        figures = watched.trace.log_likelihood[:, m]
        ended = int(np.isfinite(figures).sum())
        best = int(watched.best_epoch[m])
        assert best == np.nanargmax(figures) + 1
        assert ended == best + 3 < 200
        assert np.isnan(watched.trace.reconstruction[ended:, m]).all()
        held = ROWS[(SPLIT == 1) & (np.arange(90) // 45 % names == m)]
        h = watched.harmonium(m)
        assert row_log_likelihood(h, held, exact_log_partition(h)).mean() == pytest.approx(np.nanmax(figures), abs=1e-9)


def wrong(model: object, y: np.ndarray) -> float:
    """Of all validation rows, by Bayes' rule with exact log Z and the classes' shares of the training rows."""
    held, shares = ROWS[SPLIT == 1], np.bincount(y[SPLIT == 0])
    joint = [
        row_log_likelihood(h, held, exact_log_partition(h)) + np.log(share) for h, share in zip(model.harmoniums(), shares, strict=True)
    ]
    return float((np.argmax(joint, axis=0) != y[SPLIT == 1]).mean())


@pytest.mark.parametrize("more", [{"validate_every": 2}, {"patience": 2, "learning_rate": 0.4, "momentum": 0.0}])
def test_the_trace_has_the_error_of_classes(more: dict[str, float]) -> None:
    y = (np.arange(90) // 45 + (np.random.default_rng(5).random(90) < 0.2)) % 2  # some rows are of the other class
    given = assign_class_folds(ROWS.copy(), y, SPLIT, ["a", "b"], folds=0, seed=0)
    settings = parallel_fits.Settings(hidden=8, epochs=60 if "patience" in more else 5, **CONSTANT | more)
    state = run_algorithm(parallel_fits.RBMLearning(problem(settings, given)))
    model = class_models.assemble_rbm(
        class_models.collect_models(given, state, settings, range(2), scored=True),
        class_models.collect_shared_parts(given, settings, scored=True),
    )
    error = model.trace.error
    assert error.shape == model.trace.validated.shape
    # At the last look all that stopped are as they were kept, and the others have just been looked at.
    assert error[-1] == pytest.approx(wrong(model, y))
    assert 0 < error[-1] < 0.45
    if "patience" in more:
        assert (state.best.stopped > 0).all()
        assert not np.isnan(error).any()


def test_the_trace_has_the_error_of_labels() -> None:
    y = np.arange(90) // 45
    joined = append_one_hot_labels(ROWS, y, 2)
    settings = parallel_fits.Settings(
        hidden=3, epochs=6, validate_every=3, visible_units="binary+softmax:2", joint="generative", **CONSTANT | {"learning_rate": 0.01}
    )
    given = assign_class_folds(joined, np.broadcast_to(np.int64(0), 90), SPLIT, ["all"], folds=0, seed=0)
    run = problem(settings, given)
    assert run.told is None
    state = run_algorithm(parallel_fits.RBMLearning(run))
    model = class_models.assemble_rbm(
        class_models.collect_models(given, state, settings, [0], scored=False),
        class_models.collect_shared_parts(given, settings, scored=False, label_names=["a", "b"]),
    )
    found = label_log_posterior(model.harmonium(), ROWS[SPLIT == 1]).argmax(axis=1)
    assert model.trace.error.shape == (2,)
    assert model.trace.error[-1] == (found != y[SPLIT == 1]).mean()
    assert model.trace.error[0] > 0


def test_looking_changes_no_model() -> None:
    plain = fitted(parallel_fits.Settings(hidden=3, epochs=6, **CONSTANT))
    watched = fitted(parallel_fits.Settings(hidden=3, epochs=6, validate_every=2, **CONSTANT))
    for name in ("W", "b", "c"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(watched, name))


def test_the_average_is_that_of_the_last_updates() -> None:
    settings = parallel_fits.Settings(hidden=3, epochs=4, average=6, **CONSTANT)
    given = problem(settings, groups())
    algorithm, seen = parallel_fits.RBMLearning(given), []
    state = algorithm.init()
    while not algorithm.done(state):
        state = algorithm.step(state)
        seen.append(state.W.copy())
    np.testing.assert_allclose(algorithm.result(state).W, np.mean(seen[-6:], axis=0), atol=1e-6)


@pytest.mark.parametrize("names", [1, 2])
@pytest.mark.parametrize(
    "more", [{}, {"algorithm": "pcd"}, {"algorithm": "rpcd"}, {"algorithm": "fpcd", "sparsity_target": 0.2}, {"centering": True}]
)
def test_a_run_in_two_parts_is_one_run(names: int, more: dict[str, object]) -> None:
    whole, part = (parallel_fits.Settings(hidden=3, epochs=epochs, **CONSTANT, **more) for epochs in (9, 4))
    long = fitted(whole, names, keep=True)
    gone_on = fitted(whole, names, begun=class_models.find_resume_point(fitted(part, names, keep=True)), keep=True)
    for name in ("W", "b", "c", "epochs"):
        np.testing.assert_array_equal(getattr(long, name), getattr(gone_on, name))
    np.testing.assert_array_equal(long.trace.reconstruction, gone_on.trace.reconstruction)
    for each in fields(long.kept):
        np.testing.assert_array_equal(getattr(long.kept, each.name), getattr(gone_on.kept, each.name))


def test_without_a_state_parameters_alone_are_gone_on_from() -> None:
    settings = parallel_fits.Settings(hidden=3, epochs=3, **CONSTANT)
    first = fitted(settings)
    assert first.kept is None
    begun = class_models.find_resume_point(first)
    assert begun.epochs == 0
    state = parallel_fits.RBMLearning(problem(settings, groups(), begun)).init()
    np.testing.assert_array_equal(state.W, first.W)
    assert not state.W_velocity.any()


def test_bad_requests_are_refused() -> None:
    with pytest.raises(BadUsage, match="--patience and --average exclude each other"):
        parallel_fits.Settings(patience=1, average=1)
    with pytest.raises(BadUsage, match="validation during learning needs validation rows, but there are none"):
        LearningProblem([ROWS], parallel_fits.Settings(patience=1))
    with pytest.raises(DataError, match="there are no validation rows"):
        LearningProblem([ROWS], parallel_fits.Settings(patience=1), valid=[parallel_fits.SelectedRows(ROWS, np.array([], dtype=int))])
