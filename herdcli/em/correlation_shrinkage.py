"""Correlations of columns: those of copies, and their shrinkage towards 0 by the share of their squares that is noise.

Source: Schäfer & Strimmer (2005), target D, with the variance of a correlation by normal theory.
"""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array

EXACT = 1e-12  # two columns are copies if their correlation differs from ±1 by less than this


def off_diagonal_correlations(covariance: Array) -> Array:
    """Return the correlations (D, D) of a covariance (D, D), 0 on the diagonal and for columns without variance."""
    deviation = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    inverse = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
    r = np.clip(covariance * inverse[:, None] * inverse, -1.0, 1.0)
    np.fill_diagonal(r, 0.0)
    return np.asarray(r)


def correlation_shrinkage_factor(covariance: Array, rows: float) -> float:
    """Return 1 − λ for correlations r of `rows` rows: λ = Σ (1 − r²)²/(n − 1) / Σ r² over all pairs, at most 1.

    The result is 0 without any correlation.
    """
    squares, varies = np.square(off_diagonal_correlations(covariance)), np.diagonal(covariance) > 0
    pairs = np.outer(varies, varies) & ~np.eye(len(varies), dtype=bool)
    noise, total = float((np.square(1.0 - squares) * pairs).sum()) / max(rows - 1.0, 1.0), float(squares.sum())
    return 1.0 - min(1.0, noise / total) if total > 0 else 0.0


def find_perfectly_correlated_columns(covariance: Array) -> list[tuple[int, int]]:
    """Return pairs (i, j), i < j, of columns whose correlation is 1 or −1 but for rounding; each column is at most once second."""
    first, second = np.nonzero(np.triu(np.abs(off_diagonal_correlations(covariance)) > 1.0 - EXACT))
    return [(i, j) for i, j in zip(first.tolist(), second.tolist(), strict=True) if i == first[second == j].min()]
