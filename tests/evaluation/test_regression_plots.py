"""What pictures of regressions show, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from herdcli.evaluation.plots import regression_plots
from herdcli.regression import families


def held(eta, y, variance=None):
    return SimpleNamespace(predictor=np.array(eta)[:, None], y=np.array(y), variance=variance)


def test_standardised_residuals_are_by_the_standard_deviation_of_each_row():
    value = SimpleNamespace(distribution=families.Gaussian, dispersion=4.0)
    np.testing.assert_allclose(regression_plots.standardised_residuals(value, held([1.0, 1.0], [3.0, 0.0])), [1.0, -0.5])
    np.testing.assert_allclose(
        regression_plots.standardised_residuals(value, held([1.0, 1.0], [3.0, 0.0], np.array([4.0, 0.25]))), [0.5, -1.0]
    )
    counts = SimpleNamespace(distribution=families.Poisson, dispersion=1.0)
    np.testing.assert_allclose(regression_plots.standardised_residuals(counts, held([np.log(4.0)], [6.0])), [1.0])
    times = SimpleNamespace(distribution=families.Gamma, dispersion=0.25)
    np.testing.assert_allclose(regression_plots.standardised_residuals(times, held([np.log(2.0)], [3.0])), [1.0])


def test_residuals_of_classes_are_means_of_groups():
    pytest.importorskip("matplotlib")
    predicted, observed = np.repeat([0.2, 0.8], 50), np.r_[np.ones(10), np.zeros(40), np.ones(45), np.zeros(5)]
    value = SimpleNamespace(
        family="bernoulli",
        holdout=SimpleNamespace(predictor=np.log(predicted / (1 - predicted))[:, None], y=observed, split=np.repeat([1, 2, 2, 2, 2], 20)),
        distribution=families.Bernoulli,
    )
    (axes,) = regression_plots.residuals(value, None).axes
    drawn = axes.lines[0].get_ydata()
    assert len(drawn) == 10
    assert axes.get_title() == "observed less predicted, 20 validation and 80 test rows in 10 groups"
    assert drawn[:5].mean() == pytest.approx(0.0, abs=1e-12)
    assert drawn[5:].mean() == pytest.approx(0.1)
