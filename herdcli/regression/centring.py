"""Centring of columns far from 0: next to the intercept they are almost constant, and their squares lose the digits of their variation."""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array

FAR = 1e4  # distance of a column's mean from 0, in standard deviations; sums of squares lose the square of this from their 16 digits
FEW = 256  # rows read at a time, whose deviations stay in the cache
CONSTANT = 1e-10  # a column whose standard deviation is below this share of its mean varies by rounding alone


def find_centre(X: Array, row_mask: Array) -> Array | None:
    """Return the centre (D,) of the chosen (n,) rows X (n, D): means of columns far from 0, 0 for others; None if no column is far."""
    count = max(int(row_mask.sum()), 1)
    # Two passes over a few rows at a time: squares of columns far from 0 are useless, and a copy of all rows is large.
    parts = [slice(start, start + FEW) for start in range(0, len(X), FEW)]
    mean = sum(_chosen_rows(X, row_mask, part).sum(axis=0) for part in parts) / count
    deviation = np.sqrt(sum(np.square(_chosen_rows(X, row_mask, part) - mean).sum(axis=0) for part in parts) / count)
    away = (np.abs(mean) > FAR * deviation) & (deviation > CONSTANT * np.abs(mean))
    return np.where(away, mean, 0.0) if away.any() else None


def _chosen_rows(X: Array, row_mask: Array, part: slice) -> Array:
    here = row_mask[part]
    found: Array = X[part] if here.all() else X[part][here]
    return found


def uncentre_coefficients(theta: Array, centre: Array) -> Array:
    """Return coefficients θ (K, p) at the centre, the intercept last, as those of the original columns: α = a − c'β."""
    found = theta.copy()
    found[:, -1] -= theta[:, :-1] @ centre
    return found


def uncentring_matrix(outputs: int, centre: Array) -> Array:
    """Return the matrix (K p, K p) by which `uncentre_coefficients` multiplies θ."""
    one = np.eye(len(centre) + 1)
    one[-1, :-1] = -centre
    return np.kron(np.eye(outputs), one)
