"""The two nearest of many centres, in NumPy.  The twin of `_clusters.pyx`: comparisons and one addition, so the same bits."""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array

__all__ = ["nearest_two"]


def nearest_two(scores: Array, offsets: Array, best: Array, first: Array, second: Array) -> None:
    """Of scores (K, m) plus offsets (K,): the least of each column, the next, and where the least is, the lowest of equals.

    best, first, second  (m,) float64, outputs; `best` holds whole numbers, `second` is infinite for K = 1.
    """
    best[:], first[:], second[:] = 0.0, np.inf, np.inf
    for k, (row, offset) in enumerate(zip(scores, offsets, strict=True)):
        score = row + offset
        lower = score < first
        np.minimum(second, np.where(lower, first, score), out=second)
        best[lower] = k
        np.minimum(first, score, out=first)
