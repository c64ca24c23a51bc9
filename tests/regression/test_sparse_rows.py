"""Regressions on sparse rows: the same minimum as on dense rows, where the gradient vanishes, without a dense copy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from herdcli.algorithm import run_algorithm
from herdcli.errors import DataError
from herdcli.numerics.block_statistics import BLOCK, ArrayRows, sum_statistics
from herdcli.regression import families, fit, model, newton_cg
from herdcli.regression.sparse_rows import SparseBlocks, SparseRows, compress_blocks, regression_blocks

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


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_dense_rows_of_few_nonzero_entries_are_compressed_and_fitted_the_same(weight):
    rows = ArrayRows(np.column_stack([X.toarray(), TARGETS["softmax"], OFFSET]), weight=weight)
    problem = problem_of("softmax", rows)
    start, blocks = model.initial_coefficients(problem), compress_blocks(regression_blocks(rows))
    assert isinstance(blocks, SparseBlocks)
    plain, compressed = (run_algorithm(newton_cg.TrustRegion(problem, start, elsewhere=source)) for source in (None, blocks))
    assert compressed.converged
    np.testing.assert_allclose(compressed.theta, plain.theta, atol=1e-7)
    assert compressed.trace[-1] == pytest.approx(plain.trace[-1], abs=1e-13)
    chosen = newton_cg.make_large_problem_descent(problem, start, 100, map, regression_blocks(rows))
    assert isinstance(chosen.source, SparseBlocks)


@pytest.mark.parametrize(("share", "rows"), [(0.3, N), (0.01, 2)])
def test_rows_that_are_dense_or_few_are_left_as_they_are(share, rows):
    dense = sparse.random_array((rows, D), density=share, random_state=np.random.default_rng(2)).toarray()
    source = regression_blocks(ArrayRows(np.column_stack([dense, np.zeros((rows, 2))])))
    assert compress_blocks(source) is source


def test_correlations_of_compressed_rows_are_those_of_dense_rows():
    rows = ArrayRows(np.column_stack([X.toarray(), TARGETS["softmax"], OFFSET]), weight=WEIGHT)
    statistics = newton_cg.ColumnProducts(problem_of("softmax", rows))
    dense = regression_blocks(rows)
    found, other = (sum_statistics(source, statistics)["products"] for source in (compress_blocks(dense), dense))
    np.testing.assert_allclose(found, other, rtol=1e-12, atol=1e-12)
    Z = np.column_stack([X.toarray(), np.ones(N)])
    np.testing.assert_allclose(other, Z.T @ (WEIGHT[:, None] * Z), rtol=1e-10, atol=1e-10)
