"""log Z that is kept along the updates of a fit, beside sums over all states."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage
from herdcli.rbm.learning import parallel_fits
from herdcli.rbm.learning.learning_problem import LearningProblem
from herdcli.rbm.learning.learning_state import LearningState
from herdcli.rbm.likelihood import likelihood_tracking
from herdcli.rbm.likelihood.enumeration import exact_log_partition
from herdcli.rbm.likelihood.log_z_estimates import STUDENT
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import unit_family

MODES = np.array([[1, 0] * 6, [0, 1] * 6, [1, 1, 1, 0, 0, 0] * 2])
SEEDS = 12


def bits(seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (MODES[random.integers(0, 3, 120)] ^ (random.random((120, 12)) < 0.1)).astype(np.int8)


def rows(units: str) -> np.ndarray:
    """Rows of three modes in the values of a family."""
    on, random = bits(), np.random.default_rng(1)
    if units == "spin":
        return (2 * on - 1).astype(np.int8)
    if units == "rate:3":
        return random.binomial(3, 0.2 + 0.6 * on).astype(np.float32)
    if units == "gaussian":
        return (1.5 * on + random.normal(size=on.shape)).astype(np.float32)
    if units == "poisson":
        return random.poisson(0.5 + 2 * on).astype(np.float32)
    if units == "softmax:3":
        return np.eye(3, dtype=np.float32)[2 * on[:, :4] - on[:, :4] * on[:, 4:8]].reshape(len(on), 12)
    return on


def fitted(
    seed: int, /, visible: str = "binary", above: str = "binary", map: Any = map, **more: Any
) -> tuple[LearningState, Harmonium, parallel_fits.RBMLearning]:
    given = {"hidden": 8, "epochs": 25, "learning_rate": 0.05, "batch_size": 20} | more
    layers = {"visible_units": visible, "hidden_units": above}
    settings = parallel_fits.Settings(seed=seed, track_likelihood=True, **layers, **given)
    algorithm = parallel_fits.RBMLearning(LearningProblem([rows(visible)], settings), map)
    state = run_algorithm(algorithm)
    W, b, c = (part[0].astype(np.float64) for part in (state.W, state.b, state.c))
    return state, Harmonium(W, b, c, unit_family(visible), unit_family(above)), algorithm


@pytest.mark.parametrize(
    ("layers", "more"),
    [
        (("binary", "binary"), {}),
        (("binary", "binary"), {"algorithm": "pcd", "learning_rate": 0.02}),
        (("binary", "binary"), {"average": 10}),
        (("spin", "spin"), {"learning_rate": 0.01}),
        (("rate:3", "binary"), {}),
        (("gaussian", "binary"), {"learning_rate": 0.01}),
        (("poisson", "binary"), {"learning_rate": 0.01}),
        (("softmax:3", "binary"), {}),
        (("binary", "gaussian"), {"learning_rate": 0.005, "hidden": 3}),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else "-".join(value),
)
def test_the_stated_interval_holds_the_sum_over_all_states(layers: tuple[str, str], more: dict[str, Any]) -> None:
    errors, reach = [], []
    for seed in range(SEEDS):
        state, h, _ = fitted(seed, *layers, **more)
        assert state.track is not None
        found, error = state.track.figures[-1, 0, :2]
        errors.append(abs(found - exact_log_partition(h)))
        reach.append(STUDENT * error)
    assert np.sum(np.array(errors) <= reach) >= SEEDS - 1, (errors, reach)
    assert np.median(reach) < 0.5


def test_the_likelihood_of_rows_is_that_of_the_log_z_beside_it() -> None:
    state, h, algorithm = fitted(3)
    log_z, _, training, validation = state.track.figures[-1, 0]
    assert training == pytest.approx(-h.free_energy(algorithm.problem.rows[0]).mean() - log_z, abs=1e-9)
    assert np.isnan(validation)


def test_tracking_changes_no_model() -> None:
    state, _, algorithm = fitted(0)
    plain = run_algorithm(
        parallel_fits.RBMLearning(replace(algorithm.problem, settings=replace(algorithm.problem.settings, track_likelihood=False)))
    )
    for name in ("W", "b", "c"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(state, name))


@pytest.mark.parametrize(("epochs", "expected"), [(3, [1, 2, 3]), (60, [*range(3, 61, 3)]), (100, [*range(4, 101, 4)])])
def test_log_z_is_known_after_epochs_evenly_spread(epochs: int, expected: list[int]) -> None:
    state, _, _ = fitted(0, epochs=epochs)
    np.testing.assert_array_equal(np.flatnonzero(np.isfinite(state.track.figures[:, 0, 0])) + 1, expected)


def test_threads_that_take_the_populations_of_a_large_model_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likelihood_tracking, "LARGE", 1)
    with ThreadPoolExecutor(2) as threads:
        one, two = (fitted(0, epochs=3, map=way)[0].track for way in (map, threads.map))
    for name in ("values", "log_weights", "log_means", "figures"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_where_rows_are_looked_at_log_z_is_known() -> None:
    settings = parallel_fits.Settings(hidden=8, epochs=9, validate_every=3, track_likelihood=True, visible_units="binary")
    (first, held) = bits(0), bits(5)
    whole = LearningProblem([first], settings, valid=[parallel_fits.SelectedRows(held, np.arange(len(held)))])
    state = run_algorithm(parallel_fits.RBMLearning(whole))
    assert np.isfinite(state.track.figures[[2, 5, 8], 0]).all()


def test_an_estimate_that_one_population_makes_says_so() -> None:
    state, _, _ = fitted(0, epochs=2)
    track = state.track
    track.log_means[0] = np.arange(8) * 10.0
    track.log_weights[0] = 0.0
    found, error = likelihood_tracking.tracked_log_partition(track, 0)
    assert found == pytest.approx(70.0 - np.log(8), abs=0.01)
    assert error > 100.0


def test_rows_of_a_large_model_take_as_many_products_as_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five a row of an update, three a row of a step; a place for every epoch, or for every fourth of a hundred."""
    settings = parallel_fits.Settings(hidden=8, epochs=5, batch_size=20, steps=40)
    assert likelihood_tracking.tracking_step_budget(LearningProblem([bits()], settings), 0) == round(5 * 120 * 40 / (3 * 256))
    assert likelihood_tracking.tracking_step_budget(LearningProblem([bits()], replace(settings, epochs=100)), 0) == round(
        4 * 5 * 120 * 40 / (3 * 256)
    )
    assert (
        likelihood_tracking.tracking_step_budget(LearningProblem([bits()], replace(settings, steps=1)), 0)
        == likelihood_tracking.FEWEST_STEPS
    )
    monkeypatch.setattr(likelihood_tracking, "LARGE", 1)
    monkeypatch.setattr(likelihood_tracking, "FEWEST_STEPS", 4)
    swept: list[int] = []
    sweep = likelihood_tracking._gibbs_sweep
    monkeypatch.setattr(likelihood_tracking, "_gibbs_sweep", lambda *given: (swept.append(1), sweep(*given)))
    state, _, _ = fitted(0, epochs=3, learning_rate=0.3)
    assert 3 * 2 * 2 <= len(swept) - 2 <= 3 * 2 * 4  # two parts; two sweeps of both lead to where learning begins
    assert state.track.lost[0] >= 0.0


def test_steps_that_few_rows_survive_are_told_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where learning leaps, and one step has to be enough, the interval is as wide as what may be missed."""
    monkeypatch.setattr(likelihood_tracking, "MOST_STEPS", 1)
    state, h, _ = fitted(1, epochs=3, learning_rate=0.3, batch_size=10)
    found, error = state.track.figures[-1, 0, :2]
    assert state.track.lost[0] > 0.5
    assert error > state.track.lost[0]
    assert abs(found - exact_log_partition(h)) < STUDENT * error
    without = likelihood_tracking.tracked_log_partition(replace(state.track, lost=np.zeros(1)), 0)
    assert without == pytest.approx((found, error - state.track.lost[0]))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"visible_units": "gaussian", "hidden_units": "gaussian"},
            "--track-likelihood needs a layer with a bounded range: log Z of gaussian and gaussian units can diverge while they "
            "are learned",
        ),
        (
            {"visible_units": "poisson", "hidden_units": "poisson"},
            "--track-likelihood needs a layer with a bounded range: log Z of poisson and poisson units can diverge while they are learned",
        ),
        ({"visible_units": "words"}, "--track-likelihood does not work with words units, because rows of each length have their own log Z"),
        (
            {"visible_units": "binary+softmax:3", "joint": "discriminative"},
            "--track-likelihood does not work with --labels discriminative, which does not learn the likelihood of rows",
        ),
    ],
)
def test_models_without_a_log_z_to_keep_are_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(BadUsage) as refused:
        parallel_fits.Settings(track_likelihood=True, **settings)
    assert refused.value.message == said
