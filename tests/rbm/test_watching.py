"""Validation, patience, averaging and going on: what learning looks at, keeps, and begins from."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from herdcli.algorithm import solve
from herdcli.errors import BadUsage, DataError
from herdcli.rbm import classes, learning, validation
from herdcli.rbm.enumeration import log_partition_exact
from herdcli.rbm.groups import Groups, group
from herdcli.rbm.likelihood import log_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.problem import Problem
from herdcli.rbm.units import family

ROWS = (np.random.default_rng(1).random((90, 6)) < np.repeat([[0.9, 0.1] * 3, [0.2, 0.8] * 3], 45, axis=0)).astype(np.int8)
SPLIT = np.arange(90) % 3
CONSTANT = {"learning_rate": 0.05, "rate_decay": "none", "batch_size": 7}


def groups(names: int = 1) -> Groups:
    return group(ROWS.copy(), np.arange(90) // 45 % names, SPLIT, ["a", "b"][:names], folds=0, seed=0)


def problem(settings: learning.Settings, given: Groups, begun: object = None) -> Problem:
    valid = given.validation_rows() if settings.every else None
    return Problem(given.training_rows(), settings, valid=valid, begun=begun)


def fitted(settings: learning.Settings, names: int = 1, begun: object = None, keep: bool = False) -> object:
    """The artifact of a whole fit."""
    given = groups(names)
    state = solve(learning.Learning(problem(settings, given, begun)))
    models = classes.learned(given, state, settings, range(names), scored=names > 1, keep=keep)
    return classes.assemble(models, classes.frame(given, settings, scored=names > 1))


def test_the_trace_of_validation_rows_is_what_the_model_says_of_them() -> None:
    model = fitted(learning.Settings(hidden=3, epochs=7, validate_every=3, **CONSTANT))
    np.testing.assert_array_equal(model.trace.validated, [3, 6, 7])
    h, held = model.harmonium(), ROWS[SPLIT == 1]
    expected = log_likelihood(h, held, log_partition_exact(h)).mean()
    assert model.trace.log_likelihood[-1, 0] == pytest.approx(expected, abs=1e-9)
    assert np.isfinite(model.trace.pseudo_likelihood).all()
    assert model.trace.free_energy_gap[-1, 0] == pytest.approx(
        h.free_energy(held).mean() - h.free_energy(ROWS[SPLIT == 0]).mean(), abs=1e-9
    )


def test_an_annealed_look_is_near_the_exact_one() -> None:
    random = np.random.default_rng(0)
    h = Harmonium(random.normal(0, 0.3, (14, 14)), np.zeros(14), np.zeros(14), family("binary"), family("binary"))
    rows = random.integers(0, 2, (50, 14))
    exact = log_likelihood(h, rows, log_partition_exact(h)).mean()
    found = validation.figures(h, rows, rows, np.zeros(14), 0, 0)
    assert found[0] == pytest.approx(exact, abs=0.2)
    assert found[2] == 0.0


@pytest.mark.parametrize("names", [1, 2])
def test_patience_keeps_the_best_model_and_stops(names: int) -> None:
    long = {**CONSTANT, "learning_rate": 0.4, "momentum": 0.0}  # overfits thirty rows
    watched = fitted(learning.Settings(hidden=12, epochs=200, patience=3, **long), names)
    for m in range(names):
        figures = watched.trace.log_likelihood[:, m]
        ended = int(np.isfinite(figures).sum())
        best = int(watched.best_epoch[m])
        assert best == np.nanargmax(figures) + 1
        assert ended == best + 3 < 200
        assert np.isnan(watched.trace.reconstruction[ended:, m]).all()
        held = ROWS[(SPLIT == 1) & (np.arange(90) // 45 % names == m)]
        h = watched.harmonium(m)
        assert log_likelihood(h, held, log_partition_exact(h)).mean() == pytest.approx(np.nanmax(figures), abs=1e-9)


def test_looking_changes_no_model() -> None:
    plain = fitted(learning.Settings(hidden=3, epochs=6, **CONSTANT))
    watched = fitted(learning.Settings(hidden=3, epochs=6, validate_every=2, **CONSTANT))
    for name in ("W", "b", "c"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(watched, name))


def test_the_average_is_that_of_the_last_updates() -> None:
    settings = learning.Settings(hidden=3, epochs=4, average=6, **CONSTANT)
    given = problem(settings, groups())
    algorithm, seen = learning.Learning(given), []
    state = algorithm.init()
    while not algorithm.done(state):
        state = algorithm.step(state)
        seen.append(state.W.copy())
    np.testing.assert_allclose(algorithm.result(state).W, np.mean(seen[-6:], axis=0), atol=1e-6)


@pytest.mark.parametrize("names", [1, 2])
@pytest.mark.parametrize("more", [{}, {"algorithm": "pcd"}, {"algorithm": "fpcd", "sparsity_target": 0.2}, {"centering": True}])
def test_a_run_in_two_parts_is_one_run(names: int, more: dict[str, object]) -> None:
    whole, part = (learning.Settings(hidden=3, epochs=epochs, **CONSTANT, **more) for epochs in (9, 4))
    long = fitted(whole, names, keep=True)
    gone_on = fitted(whole, names, begun=classes.begun(fitted(part, names, keep=True)), keep=True)
    for name in ("W", "b", "c", "epochs"):
        np.testing.assert_array_equal(getattr(long, name), getattr(gone_on, name))
    np.testing.assert_array_equal(long.trace.reconstruction, gone_on.trace.reconstruction)
    for each in fields(long.kept):
        np.testing.assert_array_equal(getattr(long.kept, each.name), getattr(gone_on.kept, each.name))


def test_without_a_state_parameters_alone_are_gone_on_from() -> None:
    settings = learning.Settings(hidden=3, epochs=3, **CONSTANT)
    first = fitted(settings)
    assert first.kept is None
    begun = classes.begun(first)
    assert begun.epochs == 0
    state = learning.Learning(problem(settings, groups(), begun)).init()
    np.testing.assert_array_equal(state.W, first.W)
    assert not state.W_velocity.any()


def test_bad_requests_are_refused() -> None:
    with pytest.raises(BadUsage, match="patience and average exclude each other"):
        learning.Settings(patience=1, average=1)
    with pytest.raises(BadUsage, match="there are no rows to validate with"):
        Problem([ROWS], learning.Settings(patience=1))
    with pytest.raises(DataError, match="there are no validation rows"):
        Problem([ROWS], learning.Settings(patience=1), valid=[learning.Selected(ROWS, np.array([], dtype=int))])
