"""The two nearest of many centres, and products of columns, in NumPy.  The twin of `_clusters.pyx`.

Comparisons, one addition and one product a number, so the same bits.
"""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array


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


def pair_products(columns: Array, found: Array) -> None:
    """Products of columns (D, m) in pairs i ≤ j, pair after pair, into found (D (D + 1)/2, m).

    One call, which other threads need not wait for, where one for each column would have them take turns.
    """
    at = 0
    for i in range(len(columns)):
        np.multiply(columns[i:], columns[i], out=found[at : at + len(columns) - i])
        at += len(columns) - i
