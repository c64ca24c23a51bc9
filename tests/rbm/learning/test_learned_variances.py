"""Standard deviations of Gaussian units that are learned: their slope, and where it leads."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.rbm.classification_rbm import append_one_hot_labels
from herdcli.rbm.learning import learned_variances, parallel_fits
from herdcli.rbm.learning.parallel_fits import LearningProblem, Settings
from herdcli.rbm.likelihood import enumeration
from herdcli.rbm.likelihood.row_likelihood import row_log_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.rbm.units import unit_family
from herdcli.rng import Stream, generator


@pytest.mark.parametrize("hidden", ["binary", "spin", "rate:3", "softmax:3", "gaussian"])
def test_the_gradient_is_the_slope_of_the_mean_log_likelihood(hidden):
    random = np.random.default_rng(0)
    W, b, c = random.normal(0, 0.3, (4, 3)), random.normal(0, 0.5, 4), random.normal(0, 0.5, 3)
    h = Harmonium(W, b, c, unit_family("gaussian"), unit_family(hidden))
    v, s, step = random.normal(1, 2, (11, 4)), random.normal(0, 0.3, 4), 1e-5
    log_z = enumeration.exact_log_partition(h)

    def objective(log_scale):
        return (row_log_likelihood(h, v * np.exp(-log_scale), log_z) - log_scale.sum()).mean()

    parts = (part.astype(np.float32) for part in (W, b, c))
    one = GibbsSweeper(*parts, h.visible.layer(), h.hidden.layer(), generator(0, Stream.GIBBS))
    found = learned_variances.log_deviation_gradient(one, (v * np.exp(-s)).astype(np.float32))
    for j in range(4):
        change = step * (np.arange(4) == j)
        assert found[j] == pytest.approx((objective(s + change) - objective(s - change)) / (2 * step), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("options", [{}, {"centering": True, "sparsity_target": 0.3}, {"algorithm": "exact", "optimizer": "adam"}])
def test_deviations_around_two_means_are_found(options):
    """Columns that are one of two values with noise of known deviations, which one binary unit tells apart."""
    random = np.random.default_rng(1)
    noise = np.array([0.3, 0.6, 0.4], dtype=np.float32)
    on = random.random((2000, 1)) < 0.5
    rows = (np.where(on, 1.0, -1.0) + noise * random.normal(size=(2000, 3))).astype(np.float32)
    settings = Settings(2, visible_units="gaussian", learn_variances=True, epochs=30, learning_rate=0.02, weight_decay=0.0, **options)
    state = run_algorithm(parallel_fits.RBMLearning(LearningProblem([rows], settings)))
    np.testing.assert_allclose(np.exp(state.log_scale[0]), noise, rtol=0.15)


def test_steps_are_bounded():
    log_scale = np.zeros(2, dtype=np.float32)
    learned_variances.update_log_deviations(log_scale, np.array([1e6, -0.5], dtype=np.float32), 0.1)
    np.testing.assert_allclose(log_scale, [learned_variances.FARTHEST, -0.05])


def test_deviations_beside_labels_are_learned_by_the_slope_of_the_joint_likelihood():
    """One update without momentum moves the log deviations by the rate times the slope of Σ log p(v, y), and no label's."""
    random = np.random.default_rng(2)
    v, y = random.normal(1, 2, (12, 3)).astype(np.float32), np.arange(12) % 2
    rows = append_one_hot_labels(v, y, 2)
    settings = Settings(
        2, "exact", epochs=1, batch_size=0, learning_rate=0.01, rate_decay="none", visible_units="gaussian+softmax:2",
        joint="generative", learn_variances=True, initial_scale=0.5,
    )  # fmt: skip
    run = parallel_fits.RBMLearning(LearningProblem([rows], settings))
    state = run.init()
    h = Harmonium(*(part[0].astype(np.float64) for part in (state.W, state.b, state.c)), run.problem.visible, run.problem.hidden)
    # log p(v, y) of z = v e^{−s}: Z of z is that of s = 0 and cancels from differences, and is finite: hidden units have a range.

    def objective(log_scale):
        z = np.concatenate([v * np.exp(-log_scale), rows[:, 3:]], axis=1)
        return row_log_likelihood(h, z, 0.0).mean() - log_scale.sum()

    steps = 1e-5 * np.eye(3)
    slopes = [(objective(step) - objective(-step)) / 2e-5 for step in steps]
    moved = run.step(state).log_scale[0]
    np.testing.assert_allclose(
        moved[:3], np.clip(0.01 * np.array(slopes), -learned_variances.FARTHEST, learned_variances.FARTHEST), rtol=2e-3, atol=1e-6
    )
    assert np.abs(moved[:3]).max() < learned_variances.FARTHEST
    assert (moved[3:] == 0).all()
