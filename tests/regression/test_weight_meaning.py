"""Kinds of weights against figures of statsmodels 0.15, against copies of rows, and weight 0 as absence."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import DataError
from herdcli.evaluation.figures.regression import metrics
from herdcli.numerics.block_statistics import ArrayRows
from herdcli.regression import families, fit, model, weight_meaning

N = np.arange(40)
X = np.column_stack([np.sin(1.3 * N), np.cos(0.7 * N * N)])
WEIGHT = 1.0 + N % 4
NUMBERS = np.round(1 + 2 * X[:, 0] - X[:, 1] + np.sin(5.1 * N), 3)
POSITIVE = np.round(np.exp(0.5 * X[:, 0]) * (1.2 + np.sin(4.3 * N)), 3)
HITS = np.floor((WEIGHT + 1) * (0.5 + 0.4 * np.sin(1.3 * N + 0.8))).clip(0, WEIGHT)
EVENTS = np.floor(WEIGHT * np.exp(0.6 * X[:, 0]) * (1 + 0.9 * np.sin(3.7 * N))).clip(0)
TARGETS = {"gaussian": NUMBERS, "gamma": POSITIVE, "poisson": EVENTS, "trials": HITS / WEIGHT, "exposure": EVENTS / WEIGHT}


def fitted(family, kind, y, weight=WEIGHT, X=X, **options):
    rows = np.column_stack([X, y, np.zeros(len(y))])
    problem = fit.RegressionProblem(ArrayRows(rows, weight=weight), families.family_by_name(family), 1, X.shape[1], weights=kind)
    found = run_algorithm(fit.NewtonDescent(problem, model.initial_coefficients(problem)))
    return model.assemble_regression(problem, found, names=None, classes=None, target="y", seed=0, **options)


# Coefficients, standard errors, log-likelihood and n of statsmodels 0.15.0.  Its calls are WLS for gaussian rows of some precision,
# and GLM with var_weights, freq_weights, an endog of hits and misses, or an exposure for the others.
PEER = {
    ("gaussian", "precision"): (
        [2.3087582344, -0.8022537554, 0.892274907],
        [0.1711691739, 0.1593498273, 0.1136937393],
        -43.23820675493842,
        40,
    ),
    ("gaussian", "frequency"): (
        [2.3087582344, -0.8022537554, 0.892274907],
        [0.105715958, 0.0984162, 0.0702184996],
        -102.0066531729876,
        100,
    ),
    ("gamma", "precision"): (
        [0.5670392885, 0.2765035936, 0.1080018569],
        [0.1517077797, 0.1412322555, 0.1007671204],
        -43.159380142387484,
        40,
    ),
    ("gamma", "frequency"): (
        [0.5670392885, 0.2765035936, 0.1080018569],
        [0.0936963876, 0.087226589, 0.062234878],
        -104.32624206424285,
        100,
    ),
    ("poisson", "precision"): (
        [0.6276960004, -0.1831455897, 0.9205075661],
        [0.1015915452, 0.0805334339, 0.0690742585],
        -223.53669867489316,
        40,
    ),
    ("poisson", "frequency"): (
        [0.6276960004, -0.1831455897, 0.9205075661],
        [0.1015915452, 0.0805334339, 0.0690742585],
        -223.53669867489316,
        100,
    ),
    ("bernoulli", "trials"): (
        [1.7687067354, 0.2058235038, -0.0344895757],
        [0.4003995249, 0.3461698158, 0.2385497465],
        -40.684477179772244,
        40,
    ),
    ("poisson", "exposure"): (
        [0.5903477999, -0.1230271129, -0.1995168501],
        [0.1762522699, 0.1420146991, 0.1198591053],
        -71.6536482527444,
        40,
    ),
}


@pytest.mark.parametrize(("family", "kind"), PEER)
def test_figures_of_each_kind_are_those_of_statsmodels(family, kind):
    value = fitted(family, kind, TARGETS.get(kind, TARGETS.get(family)))
    coefficients, errors, log_likelihood, n = PEER[family, kind]
    np.testing.assert_allclose([*value.coefficients[0], value.intercept[0]], coefficients, rtol=1e-7)
    np.testing.assert_allclose(value.standard_error[0], errors, rtol=1e-6)
    assert value.log_likelihood == pytest.approx(log_likelihood, rel=1e-9)
    assert value.size == n
    parameters = 4 if family in ("gaussian", "gamma") else 3  # the dispersion is one
    row = metrics(value, None)
    assert row["bic"] == pytest.approx(parameters * np.log(n) - 2 * log_likelihood)
    assert row["aic"] == pytest.approx(2 * parameters - 2 * log_likelihood)


def test_pearsons_dispersion_multiplies_errors_as_quasi_families_do():
    """GLM(…, Poisson(), exposure=w).fit(scale="X2") of statsmodels 0.15, and of shares X² by hand, with R's degrees of freedom."""
    value = fitted("poisson", "exposure", TARGETS["exposure"], pearson=True)
    np.testing.assert_allclose(value.standard_error[0], [0.2085196236, 0.1680140156, 0.1418022901], rtol=1e-6)
    assert metrics(value, None)["dispersion"] == value.dispersion
    value = fitted("bernoulli", "trials", TARGETS["trials"], pearson=True)
    assert value.dispersion == pytest.approx(48.66487160726954 / 37, rel=1e-7)
    np.testing.assert_allclose(value.standard_error[0], [0.4591985229, 0.3970051367, 0.2735809721], rtol=1e-6)


@pytest.mark.parametrize("family", ["gaussian", "gamma", "poisson", "bernoulli"])
def test_weights_of_frequency_are_copies_and_the_others_are_not(family):
    y = TARGETS.get(family, (np.sin(5.1 * N) > 0) * 1.0)
    copies = np.repeat(N, WEIGHT.astype(int))
    whole = fitted(family, "precision", y[copies], None, X[copies])
    for kind, same in (("frequency", True), ("precision", False)):
        value = fitted(family, kind, y)
        for name in (
            "coefficients",
            "standard_error",
            "robust_error",
            "dispersion",
            "null_dispersion",
            "log_likelihood",
            "deviance",
            "size",
        ):
            close = np.allclose(getattr(value, name), getattr(whole, name), rtol=1e-8)
            assert close or not same, name
        assert np.allclose(value.coefficients, whole.coefficients, rtol=1e-8)
        assert (metrics(value, None)["bic"] == pytest.approx(metrics(whole, None)["bic"])) == same


@pytest.mark.parametrize(("family", "kind"), PEER)
def test_a_weight_of_0_is_no_row(family, kind):
    y = TARGETS.get(kind, TARGETS.get(family))
    weight = np.where(N % 3 == 0, 0.0, WEIGHT)
    there = weight > 0
    ours, alone = fitted(family, kind, y, weight), fitted(family, kind, y[there], weight[there], X[there])
    for name in (
        "coefficients",
        "standard_error",
        "robust_error",
        "dispersion",
        "null_dispersion",
        "log_likelihood",
        "deviance",
        "rows",
        "mass",
    ):
        np.testing.assert_allclose(getattr(ours, name), getattr(alone, name), rtol=1e-9, err_msg=name)
    assert metrics(ours, None)["bic"] == pytest.approx(metrics(alone, None)["bic"])


def test_targets_that_a_kind_does_not_have_are_refused():
    for family, kind, bad, why in (
        ("bernoulli", "trials", 1.5, "shares of trials are from 0 to 1"),
        ("poisson", "exposure", -1.0, "rates are not negative"),
        ("bernoulli", "frequency", 0.5, "--family bernoulli needs 0 and 1"),
    ):
        with pytest.raises(DataError, match=f"in row 1; {why}"):
            weight_meaning.require_targets(families.family_by_name(family), kind, np.array([1.0, bad]))
