"""Regressions on sparse rows: the same minimum as on dense rows, where the gradient vanishes, without a dense copy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from herdcli.algorithm import run_algorithm
from herdcli.errors import DataError
from herdcli.numerics.block_statistics import BLOCK, ArrayRows
from herdcli.regression import families, fit, model, newton_cg
from herdcli.regression.sparse_rows import SparseRows, regression_blocks

N, D, L2 = BLOCK + 300, 700, 0.01  # two blocks; softmax has 3 · 701 coefficients
RANDOM = np.random.default_rng(5)
X = sparse.random_array((N, D), density=0.01, format="csr", random_state=RANDOM)
OFFSET, WEIGHT = 0.3 * RANDOM.normal(size=N), RANDOM.uniform(0.5, 2.0, N)
ETA = X @ RANDOM.normal(size=D) + 0.2
TARGETS = {
    "gaussian": ETA + RANDOM.normal(size=N),
    "bernoulli": (RANDOM.random(N) < 1 / (1 + np.exp(-ETA))).astype(float),
    "poisson": RANDOM.poisson(np.exp(ETA)).astype(float),
    "softmax": RANDOM.integers(0, 3, N).astype(float),
}


def problem_of(name, rows):
    family = families.family_by_name(name, classes=3, symmetric=True)
    return fit.RegressionProblem(rows, family, getattr(family, "free", 1), D, l2=L2)


def fitted(problem):
    start = model.initial_coefficients(problem)
    algorithm = newton_cg.make_large_problem_descent(problem, start, 100, map, regression_blocks(problem.rows))
    assert isinstance(algorithm, newton_cg.TrustRegion)
    found = run_algorithm(algorithm)
    return found, model.assemble_regression(problem, found, names=None, classes=list("abc"), target="y", seed=0)


@pytest.mark.parametrize("name", TARGETS)
def test_the_gradient_vanishes_at_the_fit_and_figures_are_those_of_dense_rows(name):
    y = TARGETS[name]
    found, artifact = fitted(problem_of(name, SparseRows.from_columns(X, y, OFFSET, WEIGHT)))
    assert found.converged
    eta = X @ found.theta[:, :-1].T + found.theta[:, -1] + OFFSET[:, None]
    if name == "softmax":
        mean = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)
        residual = mean - np.eye(3)[y.astype(int)]
    else:
        mean = {"gaussian": eta, "bernoulli": 1 / (1 + np.exp(-eta)), "poisson": np.exp(eta)}[name]
        residual = mean - y[:, None]
    weighted = residual * WEIGHT[:, None] / WEIGHT.sum()
    np.testing.assert_allclose(weighted.sum(axis=0), 0, atol=1e-7)
    np.testing.assert_allclose(weighted.T @ X.toarray() + L2 * found.theta[:, :-1], 0, atol=1e-7)
    dense = problem_of(name, ArrayRows(np.column_stack([X.toarray(), y, OFFSET]), weight=WEIGHT))
    other = run_algorithm(newton_cg.TrustRegion(dense, model.initial_coefficients(dense)))
    np.testing.assert_allclose(found.theta, other.theta, atol=1e-5)
    compared = model.assemble_regression(dense, other, names=None, classes=list("abc"), target="y", seed=0)
    for figure in ("deviance", "null_deviance", "log_likelihood", "dispersion"):
        assert getattr(artifact, figure) == pytest.approx(getattr(compared, figure), rel=1e-6), figure
    np.testing.assert_allclose(artifact.predictor(X, OFFSET), artifact.predictor(X.toarray(), OFFSET), atol=1e-12)


def test_infinite_values_are_refused():
    wrong = X.copy()
    wrong.data[3] = np.inf
    with pytest.raises(DataError, match="there are infinite values"):
        SparseRows.from_columns(wrong, TARGETS["gaussian"], OFFSET, None)
