"""Baselines of densities of real columns, and standard errors of gains: against closed forms and simulations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from herdcli.evaluation.baselines.gaussian_baseline import log_densities, predictive_covariance, predictive_variances
from herdcli.evaluation.baselines.series_baselines import SeriesMoments, baseline_log_densities, persistence_log_densities
from herdcli.evaluation.metrics import standard_errors


def test_densities_are_those_of_gaussians_and_leave_out_what_is_missing():
    random = np.random.default_rng(0)
    A = random.normal(size=(3, 3))
    mean, S = random.normal(size=3), A @ A.T + np.eye(3)
    units = np.array([1e-9, 1.0, 1e9])
    X = random.normal(size=(20, 3))
    expected = multivariate_normal(mean, S).logpdf(X)
    assert log_densities(X * units, mean * units, S * np.outer(units, units)) == pytest.approx(expected, abs=1e-9)
    assert log_densities(X, mean, np.diag(S)) == pytest.approx(norm(mean, np.sqrt(np.diag(S))).logpdf(X).sum(axis=1))
    X[3, 1] = X[5, :] = np.nan
    left = [0, 2]
    found = log_densities(X, mean, S)
    assert found[3] == pytest.approx(multivariate_normal(mean[left], S[np.ix_(left, left)]).logpdf(X[3, left]))
    assert found[5] == log_densities(X, mean, np.diag(S))[5] == 0.0


@pytest.mark.parametrize(("rows", "columns"), [(7, 10), (12, 40), (4, 2)])
def test_one_gaussian_holds_with_fewer_rows_than_columns(rows, columns):
    """A new row has about the density that independent columns give it, and less than a nat a column below the truth and its estimate."""
    random = np.random.default_rng(1)
    train, test = (random.normal(300, 80, size=(n, columns)) for n in (rows, 200))
    mean, S = train.mean(axis=0), np.cov(train.T, ddof=0)
    scale = np.sqrt(np.diag(S))
    narrow = log_densities(test, mean, predictive_variances(np.diag(S), rows, 1e-6 * scale**2)).mean()
    full = log_densities(test, mean, predictive_covariance(S, rows, 1e-6, scale)).mean()
    truth = norm(300, 80).logpdf(test).sum(axis=1).mean()
    assert full > truth - columns
    assert abs(full - narrow) < 0.3 * columns


def test_with_many_rows_one_gaussian_is_the_likeliest():
    random = np.random.default_rng(2)
    X = random.multivariate_normal([0, 0, 5], [[1, 0.9, 0], [0.9, 1, 0.3], [0, 0.3, 4]], size=20_000)
    S = np.cov(X.T, ddof=0)
    assert predictive_covariance(S, len(X), 1e-6, np.ones(3)) == pytest.approx(S, rel=2e-3, abs=2e-3)


def test_a_constant_column_has_the_floor_and_nothing_else():
    S = np.array([[2.0, 0.0], [0.0, 0.0]])
    assert predictive_covariance(S, 100, 1e-6, np.array([1.0, 3.0]))[1] == pytest.approx([0.0, 9e-6])


def test_persistence_is_a_step_from_the_last_value_seen():
    X = np.array([[1.0, 10.0], [1.5, np.nan], [np.nan, 12.0], [3.0, 11.0]])
    found = persistence_log_densities(X, np.array([0, 4]), np.array([0.0, 9.0]), np.array([4.0, 4.0]), np.array([0.25, 1.0]))
    expected = [
        norm(0, 2).logpdf(1.0) + norm(9, 2).logpdf(10.0),
        norm(1.0, 0.5).logpdf(1.5),
        norm(10.0, np.sqrt(2.0)).logpdf(12.0),
        norm(1.5, np.sqrt(0.5)).logpdf(3.0) + norm(12.0, 1.0).logpdf(11.0),
    ]
    assert found == pytest.approx(expected)
    moments = SeriesMoments(50, np.zeros(2), np.eye(2), np.ones(2), 1e-6, np.ones(2))
    assert set(baseline_log_densities(moments, np.zeros((3, 2)), np.array([0, 3]))) == {"independent", "gaussian", "persistence"}


def test_errors_of_means_are_those_of_repetitions():
    """AR(1) with coefficient .6: the standard error of a mean of n rows is 1/(1 − .6)/√n, not .8 times that of independent rows."""
    random, n, made = np.random.default_rng(3), 2000, []
    for _ in range(60):
        noise = random.normal(size=n + 50)
        rows = np.zeros(n + 50)
        for t in range(1, n + 50):
            rows[t] = 0.6 * rows[t - 1] + noise[t]
        made.append(standard_errors.autocorrelated_standard_error(rows[50:], np.array([0, n])))
    assert np.median(made) == pytest.approx(2.5 / np.sqrt(n), rel=0.2)
    one = random.normal(size=400)
    assert standard_errors.independent_standard_error(400, one.sum(), one @ one) == pytest.approx(one.std(ddof=1) / 20)
    several = np.arange(0, 401, 10)
    assert standard_errors.autocorrelated_standard_error(one, several) == pytest.approx(one.std() / 20, rel=0.3)
    assert standard_errors.autocorrelated_standard_error(one[:1], np.array([0, 1])) is None


def test_a_gaussian_rbm_is_held_against_one_gaussian():
    """Its `gaussian` is the likeliest Gaussian's density of the same rows, in the units that they came in."""
    from dataclasses import replace

    from herdcli.evaluation.evaluation_settings import EvaluationSettings
    from herdcli.evaluation.figures import rbm
    from herdcli.evaluation.verdicts import verdict_text
    from herdcli.rbm.likelihood.gaussian_moments import GaussianMoments, row_moments
    from herdcli.rbm.model import RBM, StoredHeldoutRows

    random = np.random.default_rng(4)
    A = np.array([[1.0, 0.9, 0.0], [0.0, 0.4, 0.0], [0.3, 0.0, 2.0]])
    train, test = random.normal(size=(3000, 3)) @ A, random.normal(size=(500, 3)) @ A
    mean, S = row_moments(train)
    np.testing.assert_allclose(S, np.cov(train.T, ddof=0), atol=1e-12)
    value = RBM(
        W=random.normal(scale=0.01, size=(1, 3, 2)),
        b=np.zeros((1, 3)),
        c=np.zeros((1, 2)),
        visible_units="gaussian",
        hidden_units="binary",
        algorithm="cd",
        steps=1,
        epochs=1,
        batch_size=1,
        learning_rate=0.1,
        momentum=0.0,
        weight_decay=0.0,
        chains=0,
        seed=0,
        holdout=StoredHeldoutRows(test, np.full(500, 2, dtype=np.uint8)),
        base_rates=mean[None],
        gaussian=GaussianMoments(np.array([3000]), mean[None], S[None]),
    )
    found = rbm.metrics(value, EvaluationSettings())
    expected = multivariate_normal(mean, S).logpdf(test)
    assert found["gaussian"] == pytest.approx(expected.mean(), abs=2e-3)
    assert verdict_text("rbm", found, value).startswith("worse than one Gaussian")
    scaled = rbm.metrics(
        replace(value, column_mean=np.zeros(3, np.float32), column_scale=np.full(3, 2.0, np.float32)), EvaluationSettings()
    )
    assert scaled["gaussian"] == pytest.approx(found["gaussian"] - 3 * np.log(2.0))


def test_independent_columns_have_their_own_variances_where_a_model_learned_others():
    """Learned variances are what hidden units leave over: columns by themselves would have far too small ones.

    The figures at the end of training are the same, for log Z is summed there too.
    """
    from herdcli.evaluation.evaluation_settings import EvaluationSettings
    from herdcli.evaluation.figures import rbm
    from herdcli.evaluation.metrics.quick_metrics import quick_rbm_metrics
    from herdcli.evaluation.verdicts import verdict_text
    from herdcli.rbm.likelihood.gaussian_moments import GaussianMoments, row_moments
    from herdcli.rbm.model import RBM, StoredHeldoutRows

    random, D, K = np.random.default_rng(7), 6, 17
    centre = np.where(random.random((2500, 1)) < 0.5, 3.0, -3.0)
    rows = (centre + 0.5 * random.normal(size=(2500, D))) / 0.5  # in units of the deviations that were learned
    train, test = rows[:2000], rows[2000:]
    mean, S = row_moments(train)
    value = RBM(
        W=random.normal(scale=0.3, size=(1, D, K)),
        b=mean[None],
        c=np.zeros((1, K)),
        visible_units="gaussian",
        hidden_units="binary",
        algorithm="cd",
        steps=1,
        epochs=1,
        batch_size=1,
        learning_rate=0.1,
        momentum=0.0,
        weight_decay=0.0,
        chains=0,
        seed=0,
        holdout=StoredHeldoutRows(test, np.full(500, 2, dtype=np.uint8)),
        base_rates=mean[None],
        column_mean=np.zeros(D, np.float32),
        column_scale=np.full(D, 0.5, np.float32),
        learn_variances=True,
        gaussian=GaussianMoments(np.array([2000]), mean[None], S[None]),
    )
    found, quick = rbm.metrics(value, EvaluationSettings()), quick_rbm_metrics(value)
    expected = multivariate_normal(0.5 * mean, 0.25 * np.diag(np.diag(S))).logpdf(0.5 * test).mean()
    assert found["independent"] == pytest.approx(expected, abs=2e-3)
    assert (found["log_z_method"], verdict_text("rbm", found, value)) == ("exact", "worse than independent")
    for name in ("log_likelihood", "independent", "gaussian"):
        assert quick[name] == pytest.approx(found[name])
