"""Covariances of mixtures of few rows: the maximum of a posterior, by its formula, and where it is the default."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from herdcli.em import driver
from herdcli.em.mixture import gmm
from herdcli.em.mixture.covariance_prior import CovariancePrior, default_prior_rows, prior_target_covariance
from herdcli.numerics import block_statistics


def rows_of(n: int, columns: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    centre, root = random.normal(size=(3, columns)) * 2.0, random.normal(size=(columns, columns))
    return centre[random.integers(3, size=n)] + random.normal(size=(n, columns)) @ root


def fitted(X: np.ndarray, K: int, rows: float | None, weight: np.ndarray | None = None):
    source = block_statistics.RowBlocks(block_statistics.ArrayRows(X, None, weight))
    model = gmm.prepare_gmm(source, K).with_shrinkage(rows)
    return driver.run_em(driver.EM(model, source, driver.EMSettings(2000, 1e-13))), model


def log_posterior(X: np.ndarray, parameters: dict, prior: CovariancePrior) -> float:
    """Log-likelihood and log prior but for constants, one component at a time."""
    joint, found = [], 0.0
    for share, mean, covariance in zip(parameters["weight"], parameters["mean"], parameters["covariance"], strict=True):
        z, determinant = X - mean, np.linalg.slogdet(covariance)[1]
        squares = np.einsum("nd,dn->n", z, np.linalg.solve(covariance, z.T))
        joint.append(np.log(share) - 0.5 * (squares + determinant + len(mean) * np.log(2 * np.pi)))
        found -= 0.5 * prior.rows * (determinant + np.trace(np.linalg.solve(covariance, prior.target)))
    return float(logsumexp(joint, axis=0).sum() + found)


def test_em_ends_at_a_maximum_of_the_posterior():
    X = rows_of(40, 4)
    fit, model = fitted(X, 3, None)
    prior = model.shrinkage
    assert prior is not None
    assert prior.rows == pytest.approx(2.5 * 4 / (40 / 12))
    best = log_posterior(X, fit.parameters, prior)
    assert best == pytest.approx(-fit.ledger.free_energy[-1] * 40)
    assert fit.ledger.largest_rise < 1e-12
    random = np.random.default_rng(1)
    for _ in range(20):
        other = {name: value.copy() for name, value in fit.parameters.items()}
        step = random.normal(size=(3, 4, 4)) * 0.01
        other["covariance"] += step + step.transpose(0, 2, 1)
        other["mean"] += random.normal(size=(3, 4)) * 0.01
        assert log_posterior(X, other, prior) < best


def test_the_target_is_the_pooled_covariance_with_weaker_correlations():
    X = rows_of(40, 4)
    _, model = fitted(X, 3, None)
    start = model.start(0)
    pooled = np.tensordot(start["weight"], start["covariance"], axes=1)
    target = prior_target_covariance(start, 40.0)
    np.testing.assert_allclose(np.diagonal(target), np.diagonal(pooled))
    share = (target / pooled)[~np.eye(4, dtype=bool)]
    assert np.ptp(share) < 1e-12
    assert 0.5 < share[0] < 1.0


@pytest.mark.parametrize(
    ("rows", "columns", "components", "expected"),
    [(100, 5, 4, 0.0), (99, 5, 4, 2.5 * 5 / 4.95), (40, 5, 4, 6.25), (20, 5, 4, 12.5), (10, 50, 1, 0.0), (0.5, 1, 2, 10.0)],
)
def test_few_rows_for_each_column_and_component_have_a_prior(rows, columns, components, expected):
    assert default_prior_rows(rows, columns, components) == pytest.approx(expected)


def test_enough_rows_and_a_wish_for_none_are_maximum_likelihood():
    enough, few = rows_of(90, 4), rows_of(40, 4)
    assert fitted(enough, 3, None)[1].shrinkage is None
    assert fitted(few, 3, 0.0)[1].shrinkage is None
    assert fitted(few, 1, 5.0)[1].shrinkage is None
    assert fitted(few, 3, 5.0)[1].shrinkage.rows == 5.0
    assert fitted(few, 3, 0.0)[0].log_likelihood > fitted(few, 3, None)[0].log_likelihood


def test_units_change_nothing_and_light_rows_are_as_many():
    X, unit = rows_of(40, 4), 10.0 ** np.array([-6, 0, 3, 6])
    (plain, model), scaled = fitted(X, 3, None), fitted(X * unit, 3, None)[0]
    np.testing.assert_allclose(scaled.parameters["covariance"], plain.parameters["covariance"] * np.outer(unit, unit), rtol=1e-4)
    assert fitted(X, 3, None, np.full(40, 1e-3))[1].shrinkage.rows == pytest.approx(model.shrinkage.rows * 1e-3)
    assert fitted(X, 3, None, np.full(40, 2.0))[1].shrinkage is None  # as if each row occurred twice
