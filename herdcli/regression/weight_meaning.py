"""The meaning of a row's weight w, which determines the number of observations and the likelihood.

    kind        a row is                                 n          log-likelihood of a row
    precision   one row of variance φ V(μ)/w             rows       log p(y; η, φ/w); without a dispersion w log p(y; η)
    frequency   w equal rows                             Σ w        w log p(y; η, φ)
    trials      the share y of successes in w trials     rows       log Binomial(w y; w, μ)
    exposure    the rate y of w y events in time w       rows       log Poisson(w y; w μ)

Estimates are the same under all of them.  The degrees of freedom of the residuals are n less the number of coefficients, an estimated
dispersion is Pearson's Σ w (y − μ)²/V(μ) divided by these, and BIC has log n.  Rows of weight 0 do not count under any kind.
Source: McCullagh & Nelder (1989), sec. 2.2; `var_weights` and `freq_weights` of statsmodels' GLM are the first two.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, xlogy

from herdcli.errors import DataError
from herdcli.regression.families import Family
from herdcli.schema import Array

KINDS = ("precision", "frequency", "trials", "exposure")
WHOLE = 1e-3  # tolerance for w y being whole, relative to √(1 + w y), or in the last digits of a text


def observation_count(kind: str, rows: int, total_weight: float) -> float:
    """Return n, the number of observations."""
    return total_weight if kind == "frequency" else float(rows)


def require_targets(family: Family, kind: str, y: Array) -> None:
    """Raise DataError for targets (n,) that a family does not allow under a kind of weights."""
    if kind == "trials":
        bad, what = ~((y >= 0) & (y <= 1)), "shares of trials are from 0 to 1"
    elif kind == "exposure":
        bad, what = ~((y >= 0) & np.isfinite(y)), "rates are not negative"
    else:
        family.require_valid_response(y)
        return
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(f"the target has {y[row]:g} in row {row}; {what}")


def row_log_likelihoods(family: Family, kind: str, eta: Array, y: Array, weight: Array, dispersion: float) -> Array:
    """Return the log-likelihood (m,) of rows, weights included, in nats."""
    if kind == "precision" and family.dispersed:
        # A mean of w observations with variance φ V has variance φ V/w.
        return family.log_likelihood(eta, y, dispersion / weight)
    if kind == "trials":
        hits = weight * y
        ways = gammaln(weight + 1) - gammaln(hits + 1) - gammaln(weight - hits + 1)
        return np.asarray(ways - weight * family.loss_and_derivatives(eta, y)[0])
    if kind == "exposure":
        hits = weight * y
        return np.asarray(xlogy(hits, weight) - gammaln(hits + 1) - weight * family.loss_and_derivatives(eta, y)[0])
    return weight * family.log_likelihood(eta, y, dispersion)


def are_whole_counts(y: Array, weight: Array) -> bool:
    """Return whether products of shares or rates with their weights are whole numbers, up to the digits of a text."""
    product = y * weight
    return bool((np.abs(product - np.rint(product)) <= WHOLE * np.sqrt(1 + product)).all())
