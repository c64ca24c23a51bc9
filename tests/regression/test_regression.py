"""Generalised linear models against closed forms, finite differences, scikit-learn and statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from herdcli.algorithm import run_algorithm
from herdcli.errors import DataError
from herdcli.numerics.block_statistics import ArrayRows, sum_statistics
from herdcli.regression import families, fit, model

NAMES = ("gaussian", "bernoulli", "poisson", "gamma", "gamma-shape")


def rows(name, n=5000, seed=0):
    """X (n, 4), target and offset of a family, from known coefficients."""
    rng = np.random.default_rng(seed)
    X, offset = rng.normal(size=(n, 4)), 0.2 * rng.normal(size=n)
    eta = X @ np.array([0.5, -0.3, 0.2, 0.0]) + 0.4 + offset
    drawn = {
        "gaussian": lambda: eta + rng.normal(size=n),
        "bernoulli": lambda: (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float),
        "poisson": lambda: rng.poisson(np.exp(eta)).astype(float),
        "gamma": lambda: rng.gamma(2, np.exp(eta) / 2),
        "gamma-shape": lambda: rng.gamma(np.exp(eta), 1.5),
        "softmax": lambda: np.argmax(X[:, :3] + rng.gumbel(size=(n, 3)), axis=1).astype(float),
    }
    return X, drawn[name](), offset


def problem_of(X, y, offset, name, weight=None, **penalties):
    penalised = any(penalties.values())
    chosen = families.family_by_name(name, classes=3, symmetric=penalised, scale=1.5)
    outputs = getattr(chosen, "free", 1)
    return fit.RegressionProblem(ArrayRows(np.column_stack([X, y, offset]), weight=weight), chosen, outputs, X.shape[1], **penalties)


def fitted(problem, map=map):
    found = run_algorithm(fit.NewtonDescent(problem, model.initial_coefficients(problem), map=map))
    classes = list("abc"[: problem.family.classes]) if problem.family.name == "softmax" else None
    return found, model.assemble_regression(problem, found, names=None, classes=classes, target="y", seed=0)


@pytest.mark.parametrize("name", [*NAMES, "softmax"])
def test_slope_is_that_of_the_loss_and_expected_curvature_that_of_the_slope(name):
    _, y, _ = rows(name, n=7)
    family = families.family_by_name(name, classes=3, scale=1.5)
    K, h = getattr(family, "free", 1), 1e-6
    eta = np.random.default_rng(1).normal(size=(7, K))
    _, slope, _ = family.loss_and_derivatives(eta, y)
    for k in range(K):
        step = h * np.eye(K)[k]
        numeric = (family.loss_and_derivatives(eta + step, y)[0] - family.loss_and_derivatives(eta - step, y)[0]) / (2 * h)
        np.testing.assert_allclose(slope[:, k], numeric, rtol=1e-6, atol=1e-8)
    if name in ("gaussian", "bernoulli", "poisson"):  # canonical links: observed and expected curvature agree
        numeric = (family.loss_and_derivatives(eta + h, y)[1] - family.loss_and_derivatives(eta - h, y)[1]) / (2 * h)
        np.testing.assert_allclose(family.loss_and_derivatives(eta, y)[2], numeric, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("name", "most"), [("gamma", 0.05), ("gamma-shape", 0.05)])
def test_curvature_is_the_variance_of_the_slope(name, most):
    """Fisher's information, eq. 5.15 of Makin for the shape."""
    rng, eta = np.random.default_rng(0), np.full((400_000, 1), 0.7)
    y = rng.gamma(1.0, np.exp(0.7), 400_000) if name == "gamma" else rng.gamma(np.exp(0.7), 1.5, 400_000)
    family = families.family_by_name(name, scale=1.5)
    _, slope, curve = family.loss_and_derivatives(eta, y)
    assert abs(slope.mean()) < 0.01
    assert slope.var() == pytest.approx(curve[0, 0], rel=most)


def test_least_squares_has_its_closed_form():
    X, y, offset = rows("gaussian")
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    found, value = fitted(problem_of(X, y, offset, "gaussian", weight))
    Z = np.column_stack([X, np.ones(len(y))])
    gram = (Z * weight[:, None]).T @ Z
    theta = np.linalg.solve(gram, (Z * weight[:, None]).T @ (y - offset))
    np.testing.assert_allclose(found.theta[0], theta, rtol=1e-10)
    rest = y - offset - Z @ theta
    variance = weight @ rest**2 / (len(y) - 5)
    np.testing.assert_allclose(value.standard_error[0], np.sqrt(variance * np.diag(np.linalg.inv(gram))), rtol=1e-10)
    meat = (Z * (weight * rest)[:, None]).T @ (Z * (weight * rest)[:, None])
    sandwich = np.linalg.inv(gram) @ meat @ np.linalg.inv(gram)
    np.testing.assert_allclose(value.robust_error[0], np.sqrt(np.diag(sandwich)), rtol=1e-10)
    assert len(found.trace) == 2  # Newton's step is exact


def test_ridge_has_its_closed_form_with_a_free_intercept():
    X, y, offset = rows("gaussian")
    found, value = fitted(problem_of(X, y, offset, "gaussian", l2=0.3))
    Z = np.column_stack([X, np.ones(len(y))])
    theta = np.linalg.solve(Z.T @ Z / len(y) + 0.3 * np.diag([1, 1, 1, 1, 0]), Z.T @ (y - offset) / len(y))
    np.testing.assert_allclose(found.theta[0], theta, rtol=1e-10)
    assert np.isnan(value.standard_error).all()


@pytest.mark.parametrize("name", NAMES[:4])
def test_coefficients_and_errors_are_those_of_statsmodels(name):
    sm = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")
    X, y, offset = rows(name)
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    kinds = {
        "gaussian": sm.families.Gaussian(),
        "bernoulli": sm.families.Binomial(),
        "poisson": sm.families.Poisson(),
        "gamma": sm.families.Gamma(sm.families.links.Log()),
    }
    peer = sm.GLM(y, np.column_stack([X, np.ones(len(y))]), family=kinds[name], offset=offset, var_weights=weight).fit(tol=1e-14)
    found, value = fitted(problem_of(X, y, offset, name, weight))
    np.testing.assert_allclose(found.theta[0], peer.params, atol=1e-8)
    np.testing.assert_allclose(value.standard_error[0], peer.bse, rtol=1e-7)
    assert value.deviance == pytest.approx(peer.deviance, rel=1e-10)
    assert value.null_deviance == pytest.approx(peer.null_deviance, rel=1e-8)


def test_softmax_is_scikit_learns():
    linear_model = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")
    X, y, _ = rows("softmax", n=600)
    found, value = fitted(problem_of(X, y, np.zeros(600), "softmax", l2=0.01))
    peer = linear_model.LogisticRegression(C=1 / (0.01 * 600), tol=1e-12, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(found.theta[:, :-1] - found.theta[:, :-1].mean(axis=0), peer.coef_ - peer.coef_.mean(axis=0), atol=2e-5)
    np.testing.assert_allclose(value.distribution().mean(value.predictor(X)), peer.predict_proba(X), atol=2e-5)


def test_softmax_of_two_classes_is_logistic_regression_to_its_errors():
    X, y, offset = rows("bernoulli", n=300)
    columns = ArrayRows(np.column_stack([X, y, offset]))
    two = fit.RegressionProblem(columns, families.family_by_name("softmax", classes=2), 1, X.shape[1])
    (found, value), (_, simple) = fitted(two), fitted(problem_of(X, y, offset, "bernoulli"))
    assert found.converged
    np.testing.assert_allclose(value.coefficients, simple.coefficients, atol=1e-9)
    np.testing.assert_allclose(value.standard_error, simple.standard_error, rtol=1e-6)
    np.testing.assert_allclose(value.robust_error, simple.robust_error, rtol=1e-6)


def test_reference_coding_leaves_probabilities_as_they_are():
    """With no penalty the C − 1 predictors and the C symmetric ones have the same maximum."""
    X, y, _ = rows("softmax", n=600)
    reference = problem_of(X, y, np.zeros(600), "softmax")
    symmetric = fit.RegressionProblem(reference.rows, families.family_by_name("softmax", classes=3, symmetric=True), 3, 4)
    one, other = (run_algorithm(fit.NewtonDescent(each, model.initial_coefficients(each))).theta for each in (reference, symmetric))
    np.testing.assert_allclose(one, other[1:] - other[0], atol=1e-7)


@pytest.mark.parametrize("name", ["gaussian", "bernoulli", "poisson"])
def test_lasso_meets_its_conditions_of_optimality(name):
    """|slope_j| ≤ λ where β_j = 0, slope_j = −λ sign β_j elsewhere; the intercept's slope is 0."""
    X, y, offset = rows(name)
    problem = problem_of(X, y, offset, name, l1=0.05)
    theta = run_algorithm(fit.NewtonDescent(problem, model.initial_coefficients(problem))).theta
    sums = sum_statistics(fit.NewtonDescent(problem, theta).source, fit.derivative_sums(problem, theta))
    slope, beta = sums["gradient"] / sums["mass"], theta[0, :-1]
    assert 0 < np.count_nonzero(beta == 0) < 4
    np.testing.assert_allclose(slope[:-1][beta != 0], -0.05 * np.sign(beta[beta != 0]), atol=1e-8)
    assert (np.abs(slope[:-1][beta == 0]) < 0.05).all()
    assert abs(slope[-1]) < 1e-8


@pytest.mark.parametrize("l1", [0.001, 0.02])
def test_lasso_of_columns_that_nearly_repeat_each_other_converges_in_a_few_passes(l1):
    """Coordinate descent alone moves along such columns for ever; the classes' intercepts are free to shift besides."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 12)) + 0.02 * rng.normal(size=(300, 12))
    y = (X[:, :3] + rng.gumbel(size=(300, 3))).argmax(axis=1).astype(float)
    problem = problem_of(X, y, np.zeros(300), "softmax", l1=l1)
    found = run_algorithm(fit.NewtonDescent(problem, model.initial_coefficients(problem)))
    assert found.converged
    assert len(found.trace) < 15
    sums = sum_statistics(fit.NewtonDescent(problem, found.theta).source, fit.derivative_sums(problem, found.theta))
    slope, beta = (sums["gradient"] / sums["mass"]).reshape(found.theta.shape)[:, :-1], found.theta[:, :-1]
    assert 0 < np.count_nonzero(beta) < beta.size
    np.testing.assert_allclose(slope[beta != 0], -l1 * np.sign(beta[beta != 0]), atol=1e-9)
    assert (np.abs(slope[beta == 0]) <= l1).all()


def test_the_objective_never_rises_where_undamped_steps_would():
    rng = np.random.default_rng(3)
    X = 2 * rng.normal(size=(200, 3))
    y = rng.poisson(np.exp(np.minimum(X @ np.array([1.0, -1.0, 0.5]), 8))).astype(float)
    problem = problem_of(X, y, np.zeros(200), "poisson")
    run = fit.NewtonDescent(problem, np.zeros((1, 4)))
    state, halved = run.init(), 0
    while not run.done(state):
        state = run.step(state)
        halved += state.rate < 1
    assert halved > 0
    assert (np.diff(state.trace) <= 1e-12).all()
    np.testing.assert_allclose(state.gradient, 0, atol=1e-7 * abs(state.objective))


@pytest.mark.parametrize("quasi", [False, True], ids=["separable", "all but one row"])
def test_classes_that_can_be_told_apart_are_told(quasi):
    X, *_ = rows("bernoulli", n=300)
    y = (X[:, 0] > 0).astype(float)
    if quasi:
        y[np.abs(X[:, 0]).argmax()] = 1 - y[np.abs(X[:, 0]).argmax()]
    found, value = fitted(problem_of(X, y, np.zeros(300), "bernoulli"))
    assert found.separated is not quasi
    assert found.converged is quasi
    assert np.isnan(value.standard_error).all() == (not quasi)


def test_slow_steps_alone_are_no_separation():
    """A rare feature that only one class has: its coefficient grows for ever, and rows without it are still told wrongly."""
    X, y, offset = rows("bernoulli", n=400)
    X[:, 3] = (y == 1) & (np.arange(400) < 20)
    for weight in (None, np.full(400, 1e-4)):  # light rows lose little together, which proves nothing of each
        found, _ = fitted(problem_of(X, y, offset, "bernoulli", weight))
        assert not found.separated


@pytest.mark.parametrize("weight", [1e-4, 1e4])
def test_separation_is_told_whatever_the_weights_and_rows_of_weight_0_do_not_count(weight):
    X, *_ = rows("bernoulli", n=300)
    y = (X[:, 0] > 0).astype(float)
    y[np.abs(X[:, 0]).argmax()] = 1 - y[np.abs(X[:, 0]).argmax()]
    weights = np.full(300, weight)
    weights[np.abs(X[:, 0]).argmax()] = 0.0
    assert fitted(problem_of(X, y, np.zeros(300), "bernoulli", weights))[0].separated


def test_three_classes_that_can_be_told_apart_are_told():
    X = np.random.default_rng(2).normal(size=(150, 2))
    y = (X[:, 0] > -0.5).astype(float) + (X[:, 0] > 0.5)
    assert fitted(problem_of(X, y, np.zeros(150), "softmax"))[0].separated


def test_repeated_and_constant_columns_are_named_and_change_no_prediction():
    X, y, offset = rows("poisson")
    wide = np.column_stack([X, X[:, 0] + X[:, 1], np.ones(len(y))])
    plain, _ = fitted(problem_of(X, y, offset, "poisson"))
    found, value = fitted(problem_of(wide, y, offset, "poisson"))
    assert value.aliased.tolist() == [True, True, False, False, True, True]
    np.testing.assert_allclose(wide @ found.theta[0, :-1] + found.theta[0, -1], X @ plain.theta[0, :-1] + plain.theta[0, -1], atol=1e-6)


def test_threads_and_reading_change_no_bit():
    from concurrent.futures import ThreadPoolExecutor

    X, y, offset = rows("bernoulli", n=20_000)
    problem = problem_of(X, y, offset, "bernoulli")
    with ThreadPoolExecutor(2) as pool:
        one, two = fitted(problem)[0], fitted(problem, pool.map)[0]
    assert np.array_equal(one.theta, two.theta)


@pytest.mark.parametrize("name", [*NAMES, "softmax"])
def test_deviance_is_twice_what_the_likelihood_falls_short(name):
    _, y, _ = rows(name, n=50)
    family = families.family_by_name(name, classes=3, scale=1.5)
    eta = np.random.default_rng(0).normal(size=(2, 50, getattr(family, "free", 1)))
    gap = family.log_likelihood(eta[0], y, 1.0) - family.log_likelihood(eta[1], y, 1.0)
    np.testing.assert_allclose(family.deviance(eta[1], y) - family.deviance(eta[0], y), 2 * gap, atol=1e-9)
    assert (family.deviance(eta[0], y) > -1e-12).all()


def test_targets_outside_a_family_are_refused():
    for name, bad in (("bernoulli", 0.5), ("poisson", -1.0), ("poisson", 1.5), ("gamma", 0.0), ("gamma-shape", -2.0), ("gaussian", np.nan)):
        with pytest.raises(DataError, match="in row 1"):
            families.family_by_name(name).require_valid_response(np.array([1.0, bad]))


@pytest.mark.parametrize("name", ["gaussian", "poisson", "softmax"])
def test_the_table_of_coefficients_has_the_tests_of_its_family(name):
    K = 2 if name == "softmax" else 1
    value, error = np.array([[1.5, -2.0, 0.3], [0.0, 4.0, 1.0]])[:K], np.array([[0.5, 1.0, 0.0], [2.0, 3.0, 4.0]])[:K]
    found = model.GeneralisedLinear(
        coefficients=value[:, :2],
        intercept=value[:, 2],
        standard_error=error,
        robust_error=error + 1,
        null_intercept=np.zeros(K),
        aliased=np.zeros(2, dtype=bool),
        trace=np.zeros(1),
        family=name,
        **dict.fromkeys(("l1", "l2", "dispersion", "null_dispersion", "log_likelihood", "deviance", "null_deviance", "mass"), 1.0),
        scale=1.0,
        rows=8,
        converged=True,
        separated=False,
        seed=0,
        target="y",
        feature_names=["a", "b"],
        classes=["x", "y", "z"] if name == "softmax" else None,
    )
    found.validate()
    table = found.table()
    law = stats.t(8 - 3) if name == "gaussian" else stats.norm()
    assert [row["term"] for row in table] == ["a", "b", "intercept"] * K
    assert [row.get("class") for row in table] == (["y"] * 3 + ["z"] * 3 if name == "softmax" else [None] * 3)
    for row, one, its in zip(table, value.ravel(), error.ravel(), strict=True):
        assert (row["estimate"], row["standard_error"], row["robust_error"]) == (one, its, its + 1)
        if its == 0:
            assert np.isnan(row["t" if name == "gaussian" else "z"])
            continue
        assert row["t" if name == "gaussian" else "z"] == pytest.approx(one / its)
        assert row["p"] == pytest.approx(2 * law.sf(abs(one / its)))
        assert (row["low"], row["high"]) == pytest.approx((one - its * law.ppf(0.975), one + its * law.ppf(0.975)))


def test_fits_begin_at_the_intercept_of_the_mean_response():
    X = np.zeros((10, 4))
    counts = np.array([0.0, 1, 1, 2, 2, 2, 2, 2, 2, 2])
    weight = np.arange(1.0, 11.0)
    mean = weight @ counts / weight.sum()
    for name, expected in (("gaussian", mean), ("poisson", np.log(mean)), ("gamma", np.log(mean)), ("gamma-shape", np.log(mean / 1.5))):
        begun = model.initial_coefficients(problem_of(X, counts, np.zeros(10), name, weight))
        np.testing.assert_allclose(begun, [[0, 0, 0, 0, expected]], rtol=1e-12, err_msg=name)
    on = counts > 0
    share = (weight[on].sum() + 0.5) / (weight[~on].sum() + 0.5)
    np.testing.assert_allclose(model.initial_coefficients(problem_of(X, on * 1.0, np.zeros(10), "bernoulli", weight))[0, -1], np.log(share))
    logs = np.log([weight[counts == z].sum() for z in range(3)])
    np.testing.assert_allclose(
        model.initial_coefficients(problem_of(X, counts, np.zeros(10), "softmax", weight))[:, -1], logs[1:] - logs[0]
    )
    np.testing.assert_allclose(
        model.initial_coefficients(problem_of(X, counts, np.zeros(10), "softmax", weight, l2=1.0))[:, -1], logs - logs.mean()
    )
