"""Binarization of grey values or real numbers, at random or by a threshold for each column."""

from __future__ import annotations

import numpy as np

from herdcli.rng import Stream, generator
from herdcli.schema import Array

BLOCK = 1024  # rows sampled together; their bits are a function of (seed, block index)


def sample_binary_rows(X: Array, limits: tuple[float, float], seed: int) -> Array:
    """Sample uint8 (n, D), 1 with probability (x − low)/(high − low), from rows X (n, D) with values within the limits (low, high).

    Source: Salakhutdinov & Murray (2008), sec. 5.2, who binarize the digits once and keep them.
    """
    low, high = limits
    on = np.empty(X.shape, dtype=np.uint8)
    for number, start in enumerate(range(0, len(X), BLOCK)):
        rows = slice(start, start + BLOCK)
        shares = (X[rows].astype(np.float64) - low) / (high - low)
        on[rows] = generator(seed, Stream.BINARIZED, step=number).random(shares.shape) < shares
    return on


def balanced_thresholds(X: Array) -> Array:
    """Return thresholds (D,) that divide each column of X (n, D) most evenly: about as many rows are at or above one as below it.

    A column's threshold is one of its values.  It is the upper median, or the next larger value if the share of rows at or above that
    is closer to a half and not zero.  So a column of zeros and ones has the threshold 1.
    """
    found = np.empty(X.shape[1], dtype=X.dtype)
    for number, column in enumerate(X.T):
        values = np.sort(column)
        found[number] = median = values[len(values) // 2]
        first, after = np.searchsorted(values, median, "left"), np.searchsorted(values, median, "right")
        if after < len(values) and (first == 0 or abs(len(values) - 2 * after) < abs(len(values) - 2 * first)):
            found[number] = values[after]
    return found


def threshold_rows(X: Array, thresholds: Array) -> Array:
    """Return uint8 (n, D), 1 where a value of X (n, D) is at or above the threshold of its column in least (D,)."""
    return np.greater_equal(X, thresholds).astype(np.uint8)
