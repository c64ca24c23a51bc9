"""What `eval` says of a regression: how it predicts rows that it did not see, beside the model of intercepts alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from herdcli.evaluation.table import Value
from herdcli.regression.model import GeneralisedLinear
from herdcli.schema import Array
from herdcli.splits import TEST, VALID

LITTLE = 0.05  # of the training deviance that the test may explain less before a fit is said to overfit, at least


def metrics(
    value: GeneralisedLinear, settings: Any, *, map: Any = map, progress: Callable[[int, int], None] | None = None
) -> dict[str, Value]:
    """Held-out log-likelihood (nats a row), share of the deviance explained, error or root mean square error, AIC and BIC, verdict.

    independent  the log-likelihood of the training rows' mean response alone.  Of rows in time (--gls ar1) these are of forecasts by the
                 last row before, with the same correlation, and `_alone` is what a row's own columns say.
    """
    freedom = int(np.count_nonzero(value.coefficients)) + len(value.intercept) + int(value.distribution().dispersed)
    freedom += value.covariance_parameters
    found: dict[str, Value] = {
        "family": value.family,
        "train_explained": _explained(value.deviance, value.null_deviance),
        "aic": 2 * freedom - 2 * value.log_likelihood,
        "bic": float(np.log(value.rows)) * freedom - 2 * value.log_likelihood,
        "converged": int(value.converged),
    }
    if value.gls:
        found |= {"gls": value.gls} | ({"correlation": value.correlation} if value.gls == "ar1" else {})
    held = value.holdout
    if held is None:
        return found | {"verdict": verdict(value, None)}
    chosen = held.split == (TEST if (held.split == TEST).any() else VALID)
    eta, y = held.predictor[chosen], held.y[chosen]
    weight = np.ones(len(y)) if held.weight is None else held.weight[chosen]
    family, null = value.distribution(), value.null_intercept + held.offset[chosen][:, None]
    share = weight / weight.sum()
    variance = np.ones(len(y)) if held.variance is None else held.variance[chosen]
    alone: dict[str, Value] = {}
    if held.before is not None and held.gap is not None:
        alone = {"log_likelihood_alone": float(share @ _log_likelihood(value, eta, y, value.dispersion, variance))}
        alone["rmse_alone"] = float(np.sqrt(share @ (eta[:, 0] - y) ** 2))
        error, variance = value.foretold(held.before[chosen], held.gap[chosen], variance)
        eta, null = eta + error[:, :1], null + error[:, 1:]
    precision = weight / variance
    explained = _explained(float(precision @ family.deviance(eta, y)), float(precision @ family.deviance(null, y)))
    found |= {
        "rows": len(y),
        "log_likelihood": float(share @ _log_likelihood(value, eta, y, value.dispersion, variance)),
        "independent": float(share @ _log_likelihood(value, null, y, value.null_dispersion, variance)),
        "explained": explained,
    }
    if value.gls == "given" and held.variance is None:
        found |= {"log_likelihood": None, "independent": None}  # the file said nothing of these rows
    mean = family.mean(eta)
    if value.family in ("bernoulli", "softmax"):
        guess = mean.argmax(axis=1) if value.family == "softmax" else mean[:, 0] >= 0.5
        common = np.bincount(y.astype(np.int64), weights=weight).max() / weight.sum()
        found |= {"error": float(share @ (guess != y)), "error_majority": float(1 - common)}
    else:
        found["rmse"] = float(np.sqrt(share @ (mean[:, 0] - y) ** 2))
    return found | alone | {"verdict": verdict(value, explained)}


def _log_likelihood(value: GeneralisedLinear, eta: Array, y: Array, dispersion: float, variance: Array) -> Array:
    """Of rows each for itself (h,), with errors whose variances are the dispersion's multiples: N(y; η, φv) = N((y − η)/√v; 0, φ)/√v."""
    family = value.distribution()
    if not value.gls:
        return family.log_likelihood(eta, y, dispersion)
    scale = np.sqrt(variance)
    return family.log_likelihood(np.zeros_like(eta), (y - eta[:, 0]) / scale, dispersion) - np.log(scale)


def _explained(deviance: float, null: float) -> float | None:
    return 1 - deviance / null if null > 0 else None


def verdict(value: GeneralisedLinear, explained: float | None) -> str:
    """`ok`, or what is wrong in a few words."""
    if value.separated:
        return "separated"
    if not value.converged:
        return "not converged"
    trained = _explained(value.deviance, value.null_deviance)
    if explained is not None and explained <= 0:
        return "worse than the mean"
    if explained is not None and trained is not None and explained < trained - max(LITTLE, 0.5 * trained):
        return "overfits"
    return "ok"
