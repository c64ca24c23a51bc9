"""Variance floors: the least variances of the columns, and the maximum-likelihood covariance above them.

A floor that is a share of the mean variance of all columns suits pixels and counts, whose rare columns hardly vary.  With a share of
their own variance alone, a component could give the few rows that differ there no probability at all.  For columns in different
units, such as seconds and micrometres, the mean variance is meaningless.  So each column's floor also stays between two shares of its
own variance.  In the space where column d is divided by scale_d the floor is the same in all directions.
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import DataError
from herdcli.schema import Array

FLOOR = 1e-6  # a floor is this share of the mean variance of varying columns, and at least this share of the column's own
MOST = 1e-2  # largest share of the column's own variance
AT_FLOOR = 1.001  # a variance up to this multiple of the floor was raised to it
SHARE = 0.1  # least share of a column in the directions at the floor, relative to the column with the largest
LEAST = 1e-12  # floor if no column varies


def floor_and_column_scales(variance: Array, mean: Array, floor: float | None) -> tuple[float, Array]:
    """Return the floor, and scale (D,): no variance of column d is below floor · scale_d².

    By default that is FLOOR times the mean variance of all varying columns.  It is at least FLOOR and at most MOST times the column's own
    variance (D,) where the column varies.  A given `floor` is the same in all directions.
    """
    if floor is not None:
        return floor, np.ones(len(variance))
    varies = variance > 0
    if not varies.any():
        return LEAST * (1.0 + float(np.square(mean).max())), np.ones(len(variance))
    average = float(variance[varies].mean())
    return FLOOR * average, np.sqrt(np.where(variance > 0, np.clip(1.0, variance / average, MOST / FLOOR * (variance / average)), 1.0))


def floor_scale(variance: Array, mean: Array, floor: float) -> Array:
    """Return the scale (D,) for the floor of a fitted model: that of `floor_and_column_scales` if the floor is the default, else 1."""
    own, scale = floor_and_column_scales(variance, mean, None)
    return scale if np.isclose(own, floor, rtol=1e-6, atol=0.0) else np.ones(len(variance))


def columns_at_floor(covariance: Array, variance: Array, scale: Array, floor: float) -> list[int]:
    """Return the columns that make up the directions in which covariances (…, D, D) are at their floor, those with the largest share first.

    variance  of the training rows, (D,); constant columns do not count.   scale  (D,) as in `floor_and_column_scales`.
    """
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    terms = np.square(vectors * (np.sqrt(variance) / scale)[:, None])  # of Σ_d v_d y_d/scale_d, which hardly varies
    total = terms.sum(axis=-2, keepdims=True)
    counts = (values[..., None, :] <= AT_FLOOR * floor) & (total > 0)
    share = np.divide(terms, total, out=np.zeros_like(terms), where=counts).sum(axis=-1).reshape(-1, len(scale)).sum(axis=0)
    order = np.argsort(-share, kind="stable")
    return [int(column) for column in order if share[column] > max(0.0, SHARE * share.max())]


def apply_variance_floor(S: Array, floor: float, scale: Array, diagonal: bool) -> tuple[Array, int]:
    """Return the maximum-likelihood covariance for S with variances of at least `floor` · scale² in all directions.

    The second result is the number of variances that were below.
    The likelihood −½(log |Σ| + tr Σ⁻¹S) separates in the eigenvectors of S, so eigenvalues below the bound are raised to it.
    """
    if diagonal:
        values = np.diag(S)
        bound = floor * scale**2
        return np.diag(np.maximum(values, bound)), int((values < bound).sum())
    both = np.outer(scale, scale)
    values, vectors = np.linalg.eigh(S / both)
    low = int((values < floor).sum())
    if not low:
        return S, 0
    found = (vectors * np.maximum(values, floor)) @ vectors.T * both
    return 0.5 * (found + found.T), low


def are_positive_definite(S: Array) -> bool:
    """Return whether all covariances (…, D, D) are positive definite, tested on correlations so that units do not matter."""
    variance = np.diagonal(S, axis1=-2, axis2=-1)
    if not (variance > 0).all():
        return False
    scale = np.sqrt(variance)
    return bool(np.linalg.eigvalsh(S / scale[..., :, None] / scale[..., None, :]).min(initial=1.0) > 0)


def require_consistent_moments(facts: object, columns: int) -> None:
    """Raise DataError unless the training moments in `facts` are finite and have D columns.

    These are base_mean (D,), base_step (D,) and base_full (D, D); each may be missing.
    """
    for name, shape in (("base_mean", (columns,)), ("base_step", (columns,)), ("base_full", (columns, columns))):
        item = getattr(facts, name, None)
        if item is not None and (item.shape != shape or not np.isfinite(item).all()):
            raise DataError(f"/known/{name} must hold finite moments of {columns} columns")
