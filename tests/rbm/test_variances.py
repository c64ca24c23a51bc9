"""Standard deviations of Gaussian units that are learned: their slope, and where it leads."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.algorithm import solve
from herdcli.rbm import enumeration, learning, variances
from herdcli.rbm.gibbs import Sweeper, layer
from herdcli.rbm.learning import Problem, Settings
from herdcli.rbm.likelihood import log_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import family
from herdcli.rng import Stream, generator


@pytest.mark.parametrize("hidden", ["binary", "spin", "rate:3", "softmax:3", "gaussian"])
def test_the_gradient_is_the_slope_of_the_mean_log_likelihood(hidden):
    random = np.random.default_rng(0)
    W, b, c = random.normal(0, 0.3, (4, 3)), random.normal(0, 0.5, 4), random.normal(0, 0.5, 3)
    h = Harmonium(W, b, c, family("gaussian"), family(hidden))
    v, s, step = random.normal(1, 2, (11, 4)), random.normal(0, 0.3, 4), 1e-5
    log_z = enumeration.log_partition_exact(h)

    def objective(log_scale):
        return (log_likelihood(h, v * np.exp(-log_scale), log_z) - log_scale.sum()).mean()

    parts = (part.astype(np.float32) for part in (W, b, c))
    one = Sweeper(*parts, layer(h.visible), layer(h.hidden), generator(0, Stream.GIBBS))
    found = variances.slope(one, (v * np.exp(-s)).astype(np.float32))
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
    state = solve(learning.Learning(Problem([rows], settings)))
    np.testing.assert_allclose(np.exp(state.log_scale[0]), noise, rtol=0.15)


def test_steps_are_bounded():
    log_scale = np.zeros(2, dtype=np.float32)
    variances.move(log_scale, np.array([1e6, -0.5], dtype=np.float32), 0.1)
    np.testing.assert_allclose(log_scale, [variances.FARTHEST, -0.05])
