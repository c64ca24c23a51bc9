"""Centred units: the gradient's own formula, and that the rows' hidden means are not computed a second time."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.rbm.learning import gradients, parallel_fits
from herdcli.rbm.learning.parallel_fits import LearningProblem, Settings
from herdcli.rbm.units import unit_family

ROWS = (np.random.default_rng(0).random((700, 9)) < 0.3).astype(np.int8)


@pytest.mark.parametrize("shape", [(7, 4), (700, 300)])
def test_outer_products_are_taken_away_in_place(shape):
    """In one block, and in two, the last of them short."""
    random = np.random.default_rng(0)
    W, left, right = (random.normal(size=size).astype(np.float32) for size in (shape, (shape[0], 2), (2, shape[1])))
    expected = W - np.outer(left[:, 0], right[0]) - np.outer(left[:, 1], right[1])
    kept = W
    gradients.subtract_matrix_product(W, left, right)
    np.testing.assert_allclose(kept, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("algorithm", ["cd", "pcd", "exact", "pseudo-likelihood"])
@pytest.mark.parametrize("batch", [0, 20])
def test_running_means_are_those_of_the_rows_under_the_weights_before_the_step(algorithm, batch):
    """Of one block of rows and of several (700 are two), however the phases compute them."""
    problem = LearningProblem([ROWS], Settings(5, algorithm, epochs=1, batch_size=batch, centering=True, initial_scale=0.5))
    state = parallel_fits.RBMLearning(problem).init()
    W, c, before = state.W[0].copy(), state.c[0].copy(), state.hidden_mean[0].copy()
    rows = ROWS[problem.order(0, 0)[: batch or len(ROWS)]]
    parallel_fits.RBMLearning(problem).step(state)
    expected = unit_family("binary").mean(rows @ W.astype(np.float64) + c).mean(axis=0)
    np.testing.assert_allclose(state.hidden_mean[0], before + 0.01 * (expected - before), atol=1e-6)


def test_a_step_multiplies_the_rows_with_the_weights_once(monkeypatch):
    """The families' own means, over float64 copies, are not asked for in sampled learning."""
    problem = LearningProblem([ROWS], Settings(5, centering=True, epochs=1))
    state = parallel_fits.RBMLearning(problem).init()
    monkeypatch.setattr(type(unit_family("binary")), "mean", lambda *_: pytest.fail("a second mean"))
    parallel_fits.RBMLearning(problem).step(state)
