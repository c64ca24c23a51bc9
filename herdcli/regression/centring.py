"""Columns far from 0, less a centre: beside the intercept they are all but constant, and their squares hold no digit of how they vary."""

from __future__ import annotations

import numpy as np

from herdcli.numerics.block_statistics import BLOCK
from herdcli.schema import Array

FAR = 1e4  # standard deviations that the mean of a column is from 0; the square of this is what the sums of squares lose of their 16 digits
CONSTANT = 1e-10  # of the mean, below which a column varies by its rounding alone


def find_centre(X: Array, chosen: Array) -> Array | None:
    """The centre (D,) of those rows X (n, D) that are chosen (n,): the means of columns far from 0, 0 for others; None where none is."""
    count = max(int(chosen.sum()), 1)
    # Two passes over a few rows at a time: of columns far from 0 the squares say nothing, and a copy of all rows is large.
    parts = [slice(start, start + BLOCK) for start in range(0, len(X), BLOCK)]
    mean = sum(X[part][chosen[part]].sum(axis=0) for part in parts) / count
    deviation = np.sqrt(sum(np.square(X[part][chosen[part]] - mean).sum(axis=0) for part in parts) / count)
    away = (np.abs(mean) > FAR * deviation) & (deviation > CONSTANT * np.abs(mean))
    return np.where(away, mean, 0.0) if away.any() else None


def centre_coefficients(theta: Array, centre: Array) -> Array:
    """θ (K, p) at the centre, the intercept last, as that of the columns as they are: α = a − c'β."""
    found = theta.copy()
    found[:, -1] -= theta[:, :-1] @ centre
    return found


def uncentring_matrix(outputs: int, centre: Array) -> Array:
    """(K p, K p): what `centre_coefficients` multiplies θ by."""
    one = np.eye(len(centre) + 1)
    one[-1, :-1] = -centre
    return np.kron(np.eye(outputs), one)
