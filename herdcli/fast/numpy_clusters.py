"""The two nearest of many centres, and products of pairs of columns, in NumPy.  The twin of `_clusters.pyx`.

Each number needs only comparisons, one addition and one product, so both twins give the same bits.
"""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array

LANES = 8  # partial sums of a row


def nearest_two(scores: Array, offsets: Array, best: Array, first: Array, second: Array) -> None:
    """For scores (K, m) plus offsets (K,), find the least and second least value of each column and the index of the least.

    Among equal values the lowest index is taken.  All are float64, or all float32 for up to 2^24 centres.
    best, first, second  (m,), outputs: the index (a whole number), the least and the second least, infinite for K = 1.
    """
    best[:], first[:], second[:] = 0.0, np.inf, np.inf
    for k, (row, offset) in enumerate(zip(scores, offsets, strict=True)):
        score = row + offset
        lower = score < first
        np.minimum(second, np.where(lower, first, score), out=second)
        best[lower] = k
        np.minimum(first, score, out=first)


def add_cluster_rows(rows: Array, nearest: Array, weights: Array, count: Array, total: Array) -> float:
    """Add the weight w of each row z of cluster k to count[k], and w z to total[k], row after row.  Returns Σ w |z|².

    rows  (n, D) float64.   nearest  (n,) int64, 0 … K − 1.   weights  (n,) float64.   count  (K,), total  (K, D) float64.
    |z|² is summed in 8 lanes, which are added one after the other.
    """
    if not len(rows):
        return 0.0
    np.add.at(count, nearest, weights)
    np.add.at(total, nearest, weights[:, None] * rows)
    n, D = rows.shape
    squares = np.zeros((n, -(-D // LANES) * LANES))
    np.square(rows, out=squares[:, :D])
    lanes = np.add.reduce(squares.reshape(n, -1, LANES), axis=1)
    return float(np.add.accumulate(weights * np.add.accumulate(lanes, axis=1)[:, -1])[-1])


def candidate_costs(
    blocks: Array, candidates: Array, own: Array, norms: Array, limits: Array, weights: Array, margin: float, closer: Array, costs: Array
) -> None:
    """Add to costs (T,) the sums of weights times min(|x − candidate|², limit) over rows x, from float32 distances.

    blocks   (B, D, 32) float32 rows, 32 side by side.   norms, limits  (B, 32) float32: |x|², and the limits.   weights  (B, 32) float64.
    candidates  (T, D) float32.   own  (T,) float32: their |·|².   closer  (T, B, 32) uint8, output: whether a distance is below the
    limit plus margin·(|x|² + |candidate|²).   costs  (T,) float64.
    """
    two, edge = np.float32(2), np.float32(margin)
    for t, (candidate, square) in enumerate(zip(candidates, own, strict=True)):
        sums = np.zeros_like(norms)
        for d, c in enumerate(candidate):
            sums += c * blocks[:, d]
        both = norms + square
        distance = both - two * sums
        closer[t] = distance < limits + edge * both
        terms = np.where(distance < limits, distance, limits).astype(np.float64) * weights
        lanes = np.add.reduce(terms.reshape(len(blocks), -1, LANES), axis=1)
        for part in np.add.accumulate(lanes, axis=1)[:, -1].tolist():
            costs[t] += part


def pair_products(columns: Array, found: Array) -> None:
    """Write the products of columns (D, m) for pairs i ≤ j into found (D (D + 1)/2, m), one row per pair.

    A single call does not block other threads, whereas one call per column would make them take turns.
    """
    at = 0
    for i in range(len(columns)):
        np.multiply(columns[i:], columns[i], out=found[at : at + len(columns) - i])
        at += len(columns) - i
