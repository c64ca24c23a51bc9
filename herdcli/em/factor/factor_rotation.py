"""Rotations of factor loadings towards few large entries each: varimax (orthogonal) and promax (oblique).

Loadings are identified only up to a rotation: CC' is the same, and so is the likelihood.
"""

from __future__ import annotations

import numpy as np

from herdcli.numerics import symmetric_matrices
from herdcli.schema import Array

SWEEPS = 500
TOLERANCE = 1e-12
POWER = 4  # power of promax


def varimax(loading: Array) -> tuple[Array, Array]:
    """Return rotated loadings (D, K) = loading @ R and R (K, K), orthogonal, that maximise the variance of squared loadings by column.

    R ← UW' of the singular value decomposition UΣW' = C'(L³ − L diag(mean L²)), L = C R.
    Source: Kaiser (1958), without his row normalisation.
    """
    R, reached = np.eye(loading.shape[1]), -np.inf
    for _ in range(SWEEPS):
        L = loading @ R
        # The criterion Σ_j (mean L_·j⁴ − (mean L_·j²)²) has the slope (4/D) B by R, B = C'(L³ − L diag(mean L²)).  Among orthogonal R tr
        # R'B is largest at UW' of B = UΣW': where R is its own UW' the criterion is stationary.
        U, s, W = symmetric_matrices.singular_value_decomposition(loading.T @ (L**3 - L * np.square(L).mean(axis=0)))
        if s.sum() <= reached * (1.0 + TOLERANCE):
            break
        R, reached = U @ W, s.sum()
    return loading @ R, R


def promax(loading: Array, power: int = POWER) -> tuple[Array, Array, Array]:
    """Return oblique loadings L = loading @ T, T (K, K), and the correlations (K, K) of the rotated factors T⁻¹ x, of variance 1.

    The varimax loadings V are regressed on their own powers |V|^p sign V, which favours large loadings.
    Source: Hendrickson & White (1964).
    """
    V, R = varimax(loading)
    T = symmetric_matrices.least_squares(V, np.abs(V) ** power * np.sign(V))[0]
    # x' = T⁻¹ x has covariance (T'T)⁻¹; columns of T are scaled so that its diagonal is 1
    T = T * np.sqrt(np.diag(np.linalg.inv(T.T @ T)))
    inverse = np.linalg.inv(T)
    return V @ T, R @ T, inverse @ inverse.T
