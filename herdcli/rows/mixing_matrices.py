"""Mixing matrices A (d, s) of instantaneous mixtures, x = A s: random, regular, or estimated from sources and mixtures."""

from __future__ import annotations

import numpy as np

from herdcli.errors import DataError
from herdcli.numerics import symmetric_matrices
from herdcli.rng import Stream, generator
from herdcli.schema import Array


def random_mixing_matrix(sources: int, *, seed: int) -> Array:
    """Return a square matrix of independent standard normal entries."""
    return generator(seed, Stream.MIXING).standard_normal((sources, sources))


def instamix_matrix(sources: int, b: float) -> Array:
    """Return a matrix with 1 on the diagonal and ((1 − b)/(1 + b))² off it: for b = ½ the 1/9 of Teh (2003), sec. 4.6, the only b there.

    0 < b ≤ 1.  The matrix is symmetric and positive definite, so that ZCA whitening alone nearly inverts it.
    """
    off = ((1.0 - b) / (1.0 + b)) ** 2
    return np.full((sources, sources), off) + (1.0 - off) * np.eye(sources)


def mix_sources(S: Array, A: Array) -> Array:
    """Return mixtures (m, d) float64 of sources S (m, s)."""
    result: Array = S.astype(np.float64) @ A.T
    return result


def scale_to_unit_variance(S: Array) -> Array:
    """Return sources (m, s) divided by their standard deviations, so that a mixing matrix determines the scale.

    Constant sources stay 0 or become huge.
    """
    result: Array = S / np.maximum(S.std(axis=0), 1e-300)
    return result


def estimate_mixing_matrix(S: Array, X: Array) -> Array:
    """Return the matrix A (d, s) that best explains mixtures X (m, d) by sources S (m, s) up to means; exact where X = S Aᵀ + const.

    Raises DataError if the sources do not determine it: another number of rows, or linearly dependent sources.
    """
    if len(S) != len(X):
        raise DataError(f"the sources have {len(S)} rows, but the mixtures have {len(X)}")
    S, X = S - S.mean(axis=0, dtype=np.float64), X - X.mean(axis=0, dtype=np.float64)
    solution, rank = symmetric_matrices.least_squares(S, X)
    if rank < S.shape[1]:
        raise DataError(f"the {S.shape[1]} sources are linearly dependent: the mixing matrix cannot be determined")
    return np.ascontiguousarray(solution.T)
