"""Generalised least squares against its closed form, brute-force likelihoods and statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from herdcli.algorithm import run_algorithm
from herdcli.errors import DataError
from herdcli.regression import covariance, fit, model

SEQUENCE = np.repeat([0, 1, 2], [30, 1, 29])
STEP = np.concatenate([np.arange(30), [0], np.arange(29)])


def rows(n=60, correlation=0.6, seed=0):
    """Columns of n rows, 3 features, whose errors are an AR(1)."""
    rng = np.random.default_rng(seed)
    X, noise = rng.normal(size=(n, 3)), rng.normal(size=n)
    for t in range(1, n):
        noise[t] += correlation * noise[t - 1]
    return covariance.LeastSquaresColumns(X, np.ones(n), X @ np.array([0.5, -0.3, 0.0]) + 0.4 + noise)


def fitted(found, name="given"):
    problem = found.columns.problem()
    ended = run_algorithm(fit.NewtonDescent(problem, model.initial_coefficients(problem)))
    return model.assemble_regression(problem, ended, names=None, classes=None, target="y", seed=0, whitened=(name, found))


def ar1(correlation, sequence, step):
    """Ω (n, n) of errors in time."""
    same = sequence[:, None] == sequence
    return np.where(same, float(correlation) ** np.abs(np.subtract.outer(step, step)), 0.0)


def dense_likelihood(columns, omega):
    """log p(y) with β and σ² at their best, by a dense normal density."""
    Z = np.column_stack([columns.X, columns.one])
    inverse = np.linalg.inv(omega)
    theta = np.linalg.solve(Z.T @ inverse @ Z, Z.T @ inverse @ columns.y)
    rest = columns.y - Z @ theta
    return multivariate_normal(Z @ theta, omega * (rest @ inverse @ rest) / len(rest)).logpdf(columns.y)


def restricted(columns, omega):
    """−½ ((n − p) log RSS + log|Ω| + log|Z'Ω⁻¹Z|): the likelihood of the residuals, σ² at its best."""
    Z, inverse = np.column_stack([columns.X, columns.one]), np.linalg.inv(omega)
    gram = Z.T @ inverse @ Z
    rest = columns.y - Z @ np.linalg.solve(gram, Z.T @ inverse @ columns.y)
    n, p = Z.shape
    return -0.5 * ((n - p) * np.log(rest @ inverse @ rest) + np.linalg.slogdet(omega)[1] + np.linalg.slogdet(gram)[1])


def random_covariance(n, seed=1):
    root = np.random.default_rng(seed).normal(size=(n, n))
    return root @ root.T / n + 0.1 * np.eye(n)


def test_a_given_covariance_has_the_closed_form_and_statsmodels_figures():
    sm = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")
    columns, omega = rows(), random_covariance(60)
    value = fitted(covariance.whiten_by_covariance(columns, omega))
    Z = np.column_stack([columns.X, columns.one])
    inverse = np.linalg.inv(omega)
    theta = np.linalg.solve(Z.T @ inverse @ Z, Z.T @ inverse @ columns.y)
    np.testing.assert_allclose(np.append(value.coefficients[0], value.intercept), theta, rtol=1e-9)
    peer = sm.GLS(columns.y, Z, sigma=omega).fit()
    np.testing.assert_allclose(value.standard_error[0], peer.bse, rtol=1e-8)
    assert value.dispersion == pytest.approx(peer.scale, rel=1e-8)
    assert value.log_likelihood == pytest.approx(peer.llf, abs=1e-8)
    np.testing.assert_allclose([row["p"] for row in value.table()], peer.pvalues, rtol=1e-7)
    np.testing.assert_allclose([(row["low"], row["high"]) for row in value.table()], peer.conf_int(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("correlation", [-0.7, 0.0, 0.4, 0.95])
def test_rows_in_time_are_those_of_the_dense_covariance(correlation):
    """Sequences of 30, 1 and 29 steps, of which every third row is left out."""
    columns, kept = rows(), np.arange(60) % 3 != 1
    some = covariance.LeastSquaresColumns(columns.X[kept], columns.one[kept], columns.y[kept])
    steps = covariance.TimeSteps(SEQUENCE, STEP).select_rows(kept)
    found = covariance.whiten_ar1(some, steps, correlation)
    omega = ar1(correlation, SEQUENCE[kept], STEP[kept])
    Z, white = np.column_stack([some.X, some.one]), np.column_stack([found.columns.X, found.columns.one])
    np.testing.assert_allclose(white.T @ white, Z.T @ np.linalg.solve(omega, Z), rtol=1e-9, atol=1e-9)
    assert found.log_determinant == pytest.approx(np.linalg.slogdet(omega)[1], abs=1e-9)
    assert fitted(found, "ar1").log_likelihood == pytest.approx(dense_likelihood(some, omega), abs=1e-8)


def test_the_order_of_the_rows_of_a_file_does_not_matter():
    columns, order = rows(), np.random.default_rng(2).permutation(60)
    mixed = covariance.LeastSquaresColumns(columns.X[order], columns.one[order], columns.y[order])
    one = covariance.whiten_ar1(columns, covariance.TimeSteps(SEQUENCE, STEP), 0.5)
    other = covariance.whiten_ar1(mixed, covariance.TimeSteps(SEQUENCE[order], STEP[order]), 0.5)
    np.testing.assert_array_equal(one.columns.X, other.columns.X)


def test_without_its_first_row_it_is_statsmodels_glsar():
    sm = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")
    columns, time = rows(), np.arange(60)
    found = covariance.whiten_ar1(columns, covariance.TimeSteps(0 * time, time), 0.6).columns
    later = covariance.LeastSquaresColumns(found.X[1:], found.one[1:], found.y[1:])
    value = fitted(covariance.WhitenedRows(later, 0.0), "ar1")
    peer = sm.GLSAR(columns.y, np.column_stack([columns.X, columns.one]), rho=[0.6]).fit()
    np.testing.assert_allclose(np.append(value.coefficients[0], value.intercept), peer.params, rtol=1e-8)
    np.testing.assert_allclose(value.standard_error[0], peer.bse, rtol=1e-8)


@pytest.mark.parametrize("correlation", [-0.5, 0.6, 0.97])
def test_the_correlation_is_that_of_largest_restricted_likelihood(correlation):
    columns, time = rows(correlation=correlation, seed=3), np.arange(60)
    found = covariance.fit_ar1(columns, covariance.TimeSteps(0 * time, time))
    best = restricted(columns, ar1(found.correlation, 0 * time, time))
    others = [restricted(columns, ar1(value, 0 * time, time)) for value in np.linspace(-0.98, 0.98, 99)]
    assert best >= max(others)
    h = 1e-4
    slope = (
        restricted(columns, ar1(found.correlation + h, 0 * time, time)) - restricted(columns, ar1(found.correlation - h, 0 * time, time))
    ) / (2 * h)
    # next to a random walk the likelihood is flat in artanh ρ, and the best is at the end of what is tried
    assert abs(slope) < 1e-3 or (found.correlation > 0.998 and slope > 0)
    assert fitted(found, "ar1").log_likelihood == pytest.approx(dense_likelihood(columns, ar1(found.correlation, 0 * time, time)), abs=1e-8)
    assert found.parameters == 1


def test_a_column_that_repeats_others_changes_no_correlation():
    columns, steps = rows(), covariance.TimeSteps(SEQUENCE, STEP)
    wide = covariance.LeastSquaresColumns(np.column_stack([columns.X, columns.X[:, 0] - 2 * columns.X[:, 1]]), columns.one, columns.y)
    one, other = covariance.fit_ar1(columns, steps), covariance.fit_ar1(wide, steps)
    assert other.correlation == pytest.approx(one.correlation, abs=1e-7)
    np.testing.assert_allclose(fitted(other, "ar1").standard_error[0, [2, 4]], fitted(one, "ar1").standard_error[0, [2, 3]], rtol=1e-5)


def by_differences(columns, omega_of, parameters, spread):
    """2Λ σ² and degrees of freedom (p,) of dense matrices Ω(γ), by differences of every parameter, W (k, k) being given."""
    Z, h = np.column_stack([columns.X, columns.one]), 1e-4
    omega = omega_of(parameters)
    inverse = np.linalg.inv(omega)
    bread = np.linalg.inv(Z.T @ inverse @ Z)
    steps = h * np.eye(len(parameters))
    slopes = [(omega_of(parameters + step) - omega_of(parameters - step)) / (2 * h) for step in steps]
    P = [Z.T @ inverse @ slope @ inverse @ Z for slope in slopes]
    middle = sum(
        spread[i, j] * (Z.T @ inverse @ slopes[i] @ inverse @ slopes[j] @ inverse @ Z - P[i] @ bread @ P[j])
        for i in range(len(P))
        for j in range(len(P))
    )
    return bread, 2 * bread @ middle @ bread


def test_errors_know_that_the_correlation_was_estimated():
    columns, steps = rows(), covariance.TimeSteps(SEQUENCE, STEP)
    found = covariance.fit_ar1(columns, steps)
    z, own = np.arctanh(found.correlation), found.uncertainty
    h = 1e-3
    at = [restricted(columns, ar1(np.tanh(z + step), SEQUENCE, STEP)) for step in (-h, 0, h)]
    assert own.spread[0, 0] == pytest.approx(-(h**2) / (at[0] - 2 * at[1] + at[2]), rel=1e-2)
    bread, more = by_differences(columns, lambda at: ar1(np.tanh(at[0]), SEQUENCE, STEP), np.array([z]), own.spread)
    np.testing.assert_allclose(own.excess, more, rtol=1e-4, atol=1e-9)
    value = fitted(found, "ar1")
    np.testing.assert_allclose(value.standard_error[0] ** 2, value.dispersion * np.diag(bread + more), rtol=1e-5)

    def level(z):
        Z, inverse = np.column_stack([columns.X, columns.one]), np.linalg.inv(ar1(np.tanh(z), SEQUENCE, STEP))
        rest = columns.y - Z @ np.linalg.solve(Z.T @ inverse @ Z, Z.T @ inverse @ columns.y)
        return np.log(rest @ inverse @ rest * np.diag(np.linalg.inv(Z.T @ inverse @ Z)))

    gain = (level(z + h) - level(z - h)) / (2 * h)
    np.testing.assert_allclose(value.freedom, np.minimum(2 / (2 / 56 + gain**2 * own.spread[0, 0]), 56), rtol=1e-3)
    rows_of = value.table()
    from scipy import stats

    for row, error, freedom in zip(rows_of, value.standard_error[0], value.freedom, strict=True):
        assert row["high"] - row["estimate"] == pytest.approx(error * stats.t(freedom).ppf(0.975))


def test_errors_know_that_the_variances_were_estimated():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(80, 2))
    columns = covariance.LeastSquaresColumns(X, np.ones(80), X @ [2.0, -1.0] + 1 + rng.normal(size=80) * np.exp(0.5 * X[:, 0] + 0.2))
    found = covariance.fit_variance_model(columns, X)
    Z = np.column_stack([X, np.ones(80)])
    own, white = found.uncertainty, Z * np.exp(-0.5 * (Z @ found.gamma))[:, None]
    M = np.eye(80) - white @ np.linalg.solve(white.T @ white, white.T)
    # ½ tr(MΩ_iMΩ_j), Ω_i = diag(z_i) of rows made independent
    information = 0.5 * np.array([[np.trace(M @ np.diag(a) @ M @ np.diag(b)) for b in Z.T] for a in Z.T])
    np.testing.assert_allclose(own.spread, np.linalg.inv(information), rtol=1e-8)
    bread, more = by_differences(columns, lambda gamma: np.diag(np.exp(Z @ gamma)), found.gamma, own.spread)
    np.testing.assert_allclose(own.excess, more, rtol=1e-5, atol=1e-9)
    value = fitted(found, "variance")
    assert value.dispersion == pytest.approx(1.0, abs=1e-6)  # the constant of γ has it
    np.testing.assert_allclose(value.standard_error[0] ** 2, np.diag(bread + more), rtol=1e-5)
    assert (value.freedom > 10).all()
    assert (value.freedom <= 77).all()


def test_a_known_covariance_takes_no_degrees_of_freedom():
    columns, time = rows(), np.arange(60)
    value = fitted(covariance.whiten_ar1(columns, covariance.TimeSteps(0 * time, time), 0.6), "ar1")
    assert value.freedom is None
    one_variance = covariance.LeastSquaresColumns(columns.X, columns.one, columns.y)
    flat = covariance._variance_model_uncertainty(one_variance, np.zeros((60, 0)), map)
    np.testing.assert_allclose(flat.excess, 0, atol=1e-12)
    Z = np.column_stack([columns.X, columns.one])
    np.testing.assert_allclose(flat.degrees_of_freedom(np.linalg.inv(Z.T @ Z)), 56)


def test_the_correlation_is_found_again():
    n, time = 4000, np.arange(4000)
    found = covariance.fit_ar1(rows(n, 0.6), covariance.TimeSteps(0 * time, time))
    assert found.correlation == pytest.approx(0.6, abs=3 * np.sqrt((1 - 0.36) / n))


def test_variances_and_means_are_each_at_their_maximum_for_the_other():
    """Statsmodels' weighted least squares with the weights found, and its gamma regression of the squared residuals."""
    sm = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")
    rng = np.random.default_rng(4)
    X = rng.normal(size=(500, 2))
    columns = covariance.LeastSquaresColumns(X, np.ones(500), X @ [2.0, -1.0] + 1 + rng.normal(size=500) * np.exp(0.5 * X[:, 0] + 0.2))
    found = covariance.fit_variance_model(columns, X)
    value = fitted(found, "variance")
    Z = np.column_stack([X, np.ones(500)])
    variance = np.exp(Z @ found.gamma)
    peer = sm.WLS(columns.y, Z, weights=1 / variance).fit()
    np.testing.assert_allclose(np.append(value.coefficients[0], value.intercept), peer.params, rtol=1e-8)
    np.testing.assert_allclose(value.standard_error[0], peer.bse, rtol=0.02)  # which are not of estimated variances
    assert value.log_likelihood == pytest.approx(peer.llf, abs=1e-8)
    white = Z / np.sqrt(variance)[:, None]
    left = 1 - ((white @ np.linalg.inv(white.T @ white)) * white).sum(axis=1)
    squared = (columns.y - Z @ peer.params) ** 2 / left
    spread = sm.GLM(squared, Z, family=sm.families.Gamma(sm.families.links.Log()), var_weights=left).fit(tol=1e-14)
    np.testing.assert_allclose(found.gamma, spread.params, atol=1e-6)
    np.testing.assert_allclose(found.gamma, [1.0, 0.0, 0.4], atol=3 * np.sqrt(2 / 500))


def test_a_restricted_likelihood_of_both_falls_beside_what_was_found():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 1))
    columns = covariance.LeastSquaresColumns(X, np.ones(200), X[:, 0] + rng.normal(size=200) * np.exp(0.4 * X[:, 0]))
    gamma = covariance.fit_variance_model(columns, X).gamma

    def likelihood(slope):
        return restricted(columns, np.diag(np.exp(X[:, 0] * slope)))

    assert likelihood(gamma[0]) > max(likelihood(gamma[0] + step) for step in (-1e-3, 1e-3))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "the covariance of the errors is not positive definite"),
        (np.array([[1.0, 0.5], [0.4, 1.0]]), "the covariance of the errors is not symmetric"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "the covariance of the errors has values that are not finite"),
    ],
)
def test_what_is_no_covariance_is_refused(matrix, message):
    with pytest.raises(DataError, match=message):
        covariance.whiten_by_covariance(covariance.LeastSquaresColumns(np.ones((2, 1)), np.ones(2), np.ones(2)), matrix)


def test_a_target_without_errors_has_no_covariance_of_them():
    columns = rows()
    exact = covariance.LeastSquaresColumns(columns.X, columns.one, columns.X @ np.array([1.0, 2.0, 3.0]) + 1)
    with pytest.raises(DataError, match="there are no errors whose covariance could be estimated"):
        covariance.fit_ar1(exact, covariance.TimeSteps(SEQUENCE, STEP))
    with pytest.raises(DataError, match="there are no errors whose covariance could be estimated"):
        covariance.fit_variance_model(exact, columns.X)
    with pytest.raises(DataError, match="no sequence has a second row"):
        covariance.fit_ar1(columns, covariance.TimeSteps(np.arange(60), np.zeros(60, dtype=np.int64)))


def test_threads_change_no_bit():
    from concurrent.futures import ThreadPoolExecutor

    columns, time = rows(9000), np.arange(9000)
    steps = covariance.TimeSteps(0 * time, time)
    with ThreadPoolExecutor(2) as pool:
        assert covariance.fit_ar1(columns, steps).correlation == covariance.fit_ar1(columns, steps, pool.map).correlation


def test_forecasts_are_the_dense_conditional_ones():
    """Given all known rows before it, an error of Ω_st = ρ^|s − t| depends on the last one alone."""
    random = np.random.default_rng(0)
    known = random.random(60) < 0.7
    steps, errors = covariance.TimeSteps(SEQUENCE, STEP), random.normal(size=60)
    before, gap = covariance.last_observed_before(steps, errors[:, None], known)
    omega = ar1(0.6, SEQUENCE, STEP)
    for n in range(60):
        past = known & (SEQUENCE[n] == SEQUENCE) & (STEP[n] > STEP)
        weights = np.linalg.solve(omega[np.ix_(past, past)], omega[past, n])
        mean, left = weights @ errors[past], 1 - weights @ omega[past, n]
        power = 0.6 ** gap[n] if gap[n] else 0.0
        assert (gap[n] > 0) == past.any()
        assert power * before[n, 0] == pytest.approx(mean, abs=1e-12)
        assert 1 - power**2 == pytest.approx(left, abs=1e-12)
