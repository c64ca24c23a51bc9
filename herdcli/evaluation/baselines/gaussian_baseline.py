"""A Gaussian baseline for densities of real columns, with reliable variances even if it is fitted to few rows.

The covariance is shrunk towards its diagonal, so that it is positive definite even with fewer rows than columns.  Its variances are
predictive, so that a handful of rows is not taken for the whole distribution.  With many rows both corrections vanish.  Variances have
the same floors as the model that is compared with the baseline.
"""

from __future__ import annotations

import numpy as np

from herdcli.em.correlation_shrinkage import correlation_shrinkage_factor, off_diagonal_correlations
from herdcli.em.variance_floors import apply_variance_floor
from herdcli.numerics import exact_arithmetic, symmetric_matrices
from herdcli.schema import Array

LOG_TAU = exact_arithmetic.LOG_TAU


def predictive_variances(variance: Array, rows: int, floors: Array) -> Array:
    """Return the variances (D,) of a new row under independent columns: (n + 1)/(n − 1) times those of n rows (divisor n).

    floors  (D,) floors.
    """
    factor = (rows + 1.0) / (rows - 1.0) if rows > 1 else 1.0
    return np.asarray(np.maximum(variance * factor, floors))


def predictive_covariance(covariance: Array, rows: int, floor: float, scale: Array, *, shrunk: bool = True) -> Array:
    """Return the covariance (D, D) of a new row under one Gaussian, from that of `rows` rows (divisor n).

    If `shrunk`, correlations are shrunk, see `correlation_shrinkage`.  No variance is
    below `floor` in any direction of the space where column d is divided by scale_d (D,).
    """
    variance = np.maximum(np.diagonal(covariance), 0.0)
    kept, r = correlation_shrinkage_factor(covariance, rows) if shrunk else 1.0, off_diagonal_correlations(covariance)
    made = np.sqrt(predictive_variances(variance, rows, floor * np.square(scale)))
    found: Array = kept * r * made[:, None] * made
    np.fill_diagonal(found, np.square(made))
    return apply_variance_floor(found, floor, scale, diagonal=False)[0]


def log_densities(X: Array, mean: Array, covariance: Array) -> Array:
    """Return (n,) log densities of rows (n, D) under a Gaussian; covariance (D, D), or (D,) for independent columns.

    NaN is a missing value.
    """
    Z = np.asarray(X, dtype=np.float64) - mean
    absent = np.isnan(Z)
    if covariance.ndim == 1:
        terms = np.square(np.where(absent, 0.0, Z)) / covariance + (exact_arithmetic.log(covariance) + LOG_TAU) * ~absent
        return np.asarray(-0.5 * terms.sum(axis=1))
    if not absent.any():
        return _complete_row_log_densities(Z, covariance)
    found = np.zeros(len(Z))
    patterns, which = np.unique(absent, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        rows, there = np.flatnonzero(which.ravel() == number), np.flatnonzero(~pattern)
        if len(there):
            found[rows] = _complete_row_log_densities(Z[np.ix_(rows, there)], covariance[np.ix_(there, there)])
    return found


def _complete_row_log_densities(Z: Array, covariance: Array) -> Array:
    """Return the log densities of centred rows without missing values, computed in units of the columns' deviations to keep precision."""
    deviation = np.sqrt(np.diagonal(covariance))
    L = symmetric_matrices.cholesky(covariance / deviation[:, None] / deviation)
    white = symmetric_matrices.solve_lower(L, np.ascontiguousarray((Z / deviation).T))
    logs = float(exact_arithmetic.log(np.diagonal(L)).sum() + exact_arithmetic.log(deviation).sum())
    return np.asarray(-0.5 * np.square(white).sum(axis=0) - logs - 0.5 * len(deviation) * LOG_TAU)
