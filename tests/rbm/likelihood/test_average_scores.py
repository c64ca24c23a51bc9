"""Energies averaged along learning, Welling's protocol for models that learn."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage
from herdcli.rbm.learning import parallel_fits
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import unit_family

ROWS = [(np.random.default_rng(m).random((n, 9)) < 0.4).astype(np.int8) * 2 - 1 for m, n in enumerate((30, 21))]
SCORED = (np.random.default_rng(7).random((13, 9)) < 0.5).astype(np.int8) * 2 - 1


def problem_of(**changes) -> parallel_fits.LearningProblem:
    settings = {"hidden": 5, "epochs": 4, "batch_size": 10, "average_scores": 6, "visible_units": "spin", "hidden_units": "spin"}
    return parallel_fits.LearningProblem(ROWS, parallel_fits.Settings(**settings | changes), SCORED)


def test_energies_are_the_mean_of_standardised_energies_over_each_models_last_updates():
    problem = problem_of()
    spin, state = unit_family("spin"), parallel_fits.RBMLearning(problem).init()
    expected = np.zeros((13, 2))
    while state.step < parallel_fits.RBMLearning(problem).steps:
        before = state.step
        state = parallel_fits.RBMLearning(problem).step(state)
        for m in range(2):  # 30 and 21 rows: both have 3 minibatches an epoch
            if before >= 12 - 6:
                model = Harmonium(*(part[m].astype(np.float64) for part in (state.W, state.b, state.c)), spin, spin)
                training = model.free_energy(ROWS[m])
                expected[:, m] += (model.free_energy(SCORED) - training.mean()) / training.std()
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(state.energy, expected, atol=1e-4)  # learning scores in float32


def test_averaging_does_not_change_what_is_learned():
    def learned(problem: parallel_fits.LearningProblem) -> parallel_fits.LearningState:
        return run_algorithm(parallel_fits.RBMLearning(problem))

    plain = parallel_fits.LearningProblem(ROWS, problem_of().settings)
    np.testing.assert_array_equal(learned(problem_of()).W, learned(plain).W)


@pytest.mark.parametrize("updates", [0, 13])
def test_there_must_be_so_many_updates(updates):
    with pytest.raises(BadUsage, match="--average-scores must be from 1 to the number of updates, not"):
        problem_of(average_scores=updates)


def test_a_constant_rate_goes_on_learning_to_the_end():
    moved = {}
    for decay in ("linear", "none"):
        problem = problem_of(rate_decay=decay, momentum=0.0, average_scores=1)
        state = run_algorithm(parallel_fits.RBMLearning(problem))
        moved[decay] = np.abs(state.W_velocity).max()
    assert moved["linear"] < 0.2 * moved["none"]
