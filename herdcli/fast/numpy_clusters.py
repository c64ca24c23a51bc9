"""The two nearest of many centres, and products of pairs of columns, in NumPy.  The twin of `_clusters.pyx`.

Each number needs only comparisons, one addition and one product, so both twins give the same bits.
"""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array


def nearest_two(scores: Array, offsets: Array, best: Array, first: Array, second: Array) -> None:
    """For scores (K, m) plus offsets (K,), find the least and second least value of each column and the index of the least.

    Among equal values the lowest index is taken.
    best, first, second  (m,) float64, outputs: the index (a whole number), the least and the second least, infinite for K = 1.
    """
    best[:], first[:], second[:] = 0.0, np.inf, np.inf
    for k, (row, offset) in enumerate(zip(scores, offsets, strict=True)):
        score = row + offset
        lower = score < first
        np.minimum(second, np.where(lower, first, score), out=second)
        best[lower] = k
        np.minimum(first, score, out=first)


def pair_products(columns: Array, found: Array) -> None:
    """Write the products of columns (D, m) for pairs i ≤ j into found (D (D + 1)/2, m), one row per pair.

    A single call does not block other threads, whereas one call per column would make them take turns.
    """
    at = 0
    for i in range(len(columns)):
        np.multiply(columns[i:], columns[i], out=found[at : at + len(columns) - i])
        at += len(columns) - i
