"""Firth's penalised likelihood against a generic optimiser, closed forms and invariances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from herdcli.algorithm import run_algorithm
from herdcli.numerics.block_statistics import ArrayRows
from herdcli.regression import families, fit, model, newton_cg


def fitted(name, X, y, weight=None, offset=None, iterations=100):
    rows = np.column_stack([X, y, np.zeros(len(y)) if offset is None else offset])
    problem = fit.RegressionProblem(ArrayRows(rows, weight=weight), families.family_by_name(name), 1, X.shape[1], firth=True)
    found = run_algorithm(newton_cg.make_large_problem_descent(problem, model.initial_coefficients(problem), iterations, map, None))
    return found, model.assemble_regression(problem, found, names=None, classes=None, target="y", seed=0)


def maximum(name, X, y, weight, offset):
    """θ (p,) by BFGS on the penalised likelihood."""
    Z = np.column_stack([X, np.ones(len(X))])

    def loss(theta):
        eta = Z @ theta + offset
        mu = 1 / (1 + np.exp(-eta)) if name == "bernoulli" else np.exp(eta)
        curve = mu * (1 - mu) if name == "bernoulli" else mu
        own = np.logaddexp(0, eta) - y * eta if name == "bernoulli" else mu - y * eta
        return weight @ own - 0.5 * np.linalg.slogdet((Z * (weight * curve)[:, None]).T @ Z)[1]

    return minimize(loss, np.zeros(Z.shape[1]), method="BFGS", options={"gtol": 1e-9}).x


@pytest.mark.parametrize("name", ["bernoulli", "poisson"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_maximum_is_that_of_a_generic_optimiser(name, weighted):
    random = np.random.default_rng(1)
    X, offset = random.normal(size=(60, 3)), 0.3 * random.normal(size=60)
    eta = X @ [1.0, -0.5, 0.0]
    y = (random.random(60) < 1 / (1 + np.exp(-eta))) * 1.0 if name == "bernoulli" else random.poisson(np.exp(0.5 * eta)) * 1.0
    X[:, 2] = (np.arange(60) % 7 == 0) & (y == 0)  # separates quasi-completely
    weight = random.integers(0, 4, 60) * 1.0 if weighted else np.ones(60)
    found, value = fitted(name, X, y, weight, offset)
    assert found.converged
    assert len(found.trace) < 40
    np.testing.assert_allclose(found.theta[0], maximum(name, X, y, weight, offset), atol=2e-5)
    assert not value.separated
    assert np.isfinite(value.standard_error).all()
    assert np.isnan(value.robust_error).all()


def test_an_intercept_alone_has_half_an_outcome_of_each_class():
    """Of k in n Jeffreys' prior makes the estimate (k + ½)/(n + 1); of a count that is always 0 it is ½/n."""
    X = np.zeros((12, 1))
    found, _ = fitted("bernoulli", X, np.r_[np.ones(2), np.zeros(10)])
    assert found.theta[0, -1] == pytest.approx(np.log(2.5 / 10.5))
    found, _ = fitted("poisson", X, np.r_[np.ones(1), np.zeros(11)])
    assert found.theta[0, -1] == pytest.approx(np.log(1.5 / 12))


def test_a_table_of_four_cells_has_half_a_count_in_each():
    """The log odds ratio of a 2 × 2 table is that of its counts with ½ added, also where one of them is 0."""
    x = np.r_[np.zeros(20), np.ones(15)][:, None]
    y = np.r_[np.ones(8), np.zeros(12), np.ones(15)]
    found, value = fitted("bernoulli", x, y)
    assert found.theta[0, 0] == pytest.approx(np.log(15.5 / 0.5) - np.log(8.5 / 12.5))
    mu = np.array([8.5 / 21, 15.5 / 16])
    assert value.standard_error[0, 0] == pytest.approx(np.sqrt(1 / (20 * mu[0] * (1 - mu[0])) + 1 / (15 * mu[1] * (1 - mu[1]))))


def test_units_of_columns_and_columns_that_repeat_others_change_no_prediction():
    random = np.random.default_rng(4)
    X, y = random.normal(size=(40, 2)), (np.arange(40) > 19) * 1.0
    plain, _ = fitted("bernoulli", X, y)
    scaled, _ = fitted("bernoulli", X * [1e6, 1e-6], y)
    np.testing.assert_allclose(scaled.theta[0] * [1e6, 1e-6, 1], plain.theta[0], rtol=1e-6)
    wide, value = fitted("bernoulli", np.column_stack([X, X[:, 0] - X[:, 1]]), y)
    assert value.aliased.all()
    predicted = np.column_stack([X, X[:, 0] - X[:, 1], np.ones(40)]) @ wide.theta[0]
    np.testing.assert_allclose(predicted, np.column_stack([X, np.ones(40)]) @ plain.theta[0], atol=1e-6)


def test_a_checkpoint_goes_on_to_the_same_bits():
    random = np.random.default_rng(0)
    rows = np.column_stack([random.normal(size=(50, 2)), random.integers(0, 2, 50), np.zeros(50)])
    problem = fit.RegressionProblem(ArrayRows(rows), families.family_by_name("bernoulli"), 1, 2, firth=True)
    run = newton_cg.make_large_problem_descent(problem, model.initial_coefficients(problem), 100, map, None)
    state = run.init()
    for _ in range(3):
        state = run.step(state)
    assert run.progress(state).step == 3
    again = run_algorithm(run, state)
    assert np.array_equal(again.theta, run_algorithm(run).theta)
    assert run.memory() > 0
