"""Baselines for densities of series: one Gaussian (full or per column), and persistence, a Gaussian step from the last observed value."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from herdcli.evaluation.baselines.gaussian_baseline import LOG_TAU, log_densities, predictive_covariance, predictive_variances
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class SeriesMoments:
    """Moments of `rows` training rows: mean (D,), covariance (D, D), mean squared steps (D,).

    floor · scale² (D,) are the variance floors of a model.
    """

    rows: int
    mean: Array
    covariance: Array
    step: Array
    floor: float
    scale: Array


def baseline_log_densities(moments: SeriesMoments, X: Array, offsets: Array) -> dict[str, Array]:
    """Return (n,) log densities of rows (n, D) of sequences with offsets (S + 1,): `independent`, `gaussian` and
    `persistence_log_densities`.

    NaN is a missing value.  The full Gaussian is shrunk or not, whichever gives the rows the higher density.
    """
    least = moments.floor * np.square(moments.scale)
    variance = predictive_variances(np.diagonal(moments.covariance), moments.rows, least)
    found = {"independent": log_densities(X, moments.mean, variance)}
    both = [
        log_densities(X, moments.mean, predictive_covariance(moments.covariance, moments.rows, moments.floor, moments.scale, shrunk=shrunk))
        for shrunk in (True, False)
    ]
    found["gaussian"] = max(both, key=lambda each: float(each.sum()))
    return found | {"persistence": persistence_log_densities(X, offsets, moments.mean, variance, np.maximum(moments.step, least))}


def persistence_log_densities(X: Array, offsets: Array, mean: Array, variance: Array, step: Array) -> Array:
    """Return (n,) log densities of rows given earlier rows: N(last observed value, step (D,) per row since), at first N(mean, variance)."""
    result = np.zeros(len(X))
    for begin, end in pairwise(offsets.tolist()):
        centre, age = mean.copy(), np.full(X.shape[1], math.inf)
        for t in range(begin, end):
            spread = np.where(np.isinf(age), variance, step * np.where(np.isinf(age), 1.0, age))
            there = ~np.isnan(X[t])
            terms = np.square(np.where(there, X[t] - centre, 0.0)) / spread + np.log(spread) + LOG_TAU
            result[t] = -0.5 * float(terms[there].sum())
            centre, age = np.where(there, X[t], centre), np.where(there, 1.0, age + 1.0)
    return result
