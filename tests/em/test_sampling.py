"""New rows of mixtures and factors beside the moments and densities of their models."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from herdcli.em import sampling

MEAN = np.array([[0.0, 0.0], [4.0, -4.0]])
COVARIANCE = np.array([[[1.0, 0.6], [0.6, 2.0]], [[0.5, 0.0], [0.0, 0.3]]])


def mixture(**further: Any) -> Any:
    return SimpleNamespace(**({"weight": np.array([0.3, 0.7]), "mean": MEAN, "covariance": COVARIANCE} | further))


@pytest.mark.parametrize("bayes", [False, True])
def test_rows_of_each_component_have_its_moments(bayes: bool) -> None:
    nu, beta = np.array([30.0, 12.0]), np.array([20.0, 5.0])
    posterior = {"freedom": nu, "precision": beta} if bayes else {"freedom": None, "precision": None}
    X, which = sampling.sample_mixture(mixture(**posterior), 40_000, 1)
    # Cov of St(m, S, f) is f/(f − 2) S, with S = ν (1 + β)/(β f) Σ, f = ν − 1
    scale = nu * (1 + beta) / (beta * (nu - 3)) if bayes else np.ones(2)
    assert np.mean(which) == pytest.approx(0.7, abs=0.01)
    for k in range(2):
        own = X[which == k]
        np.testing.assert_allclose(own.mean(axis=0), MEAN[k], atol=0.05)
        np.testing.assert_allclose(np.cov(own.T), scale[k] * COVARIANCE[k], atol=0.1)


def test_means_in_place_of_rows() -> None:
    X, which = sampling.sample_mixture(mixture(freedom=None, precision=None), 50, 1, means=True)
    assert np.array_equal(X, MEAN[which])
    assert set(which.tolist()) == {0, 1}


def test_rows_of_factors_have_their_covariance() -> None:
    C, noise = np.array([[1.0], [2.0], [-1.0]]), np.array([0.1, 0.2, 0.3])
    model: Any = SimpleNamespace(parameters={"loading": C, "mean": np.array([1.0, 2.0, 3.0]), "noise": noise})
    X = sampling.sample_factors(model, 40_000, 2)
    np.testing.assert_allclose(X.mean(axis=0), [1, 2, 3], atol=0.05)
    np.testing.assert_allclose(np.cov(X.T), C @ C.T + np.diag(noise), atol=0.1)
    plane = sampling.sample_factors(model, 100, 2, means=True) - model.parameters["mean"]
    assert np.linalg.matrix_rank(plane) == 1
