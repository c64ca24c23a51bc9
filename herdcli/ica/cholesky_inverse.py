"""Inverses of many Cholesky factors at a time, by recursive halving, so that nearly all of the work is matrix products."""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array

SMALL = 12  # a triangle of at most this many rows is inverted as a general matrix


def invert_lower_triangles(L: Array) -> Array:
    """Return L⁻¹ (n, M, M) of lower triangles (n, M, M)."""
    M = L.shape[-1]
    if M <= SMALL:
        return np.asarray(np.tril(np.linalg.inv(L)))
    # [A 0; B C]⁻¹ = [A⁻¹ 0; −C⁻¹BA⁻¹ C⁻¹]
    half, found = M // 2, np.zeros_like(L)
    first, second = invert_lower_triangles(L[:, :half, :half]), invert_lower_triangles(L[:, half:, half:])
    found[:, :half, :half], found[:, half:, half:] = first, second
    found[:, half:, :half] = -second @ (L[:, half:, :half] @ first)
    return found


def inverse_root_and_logdet(P: Array) -> tuple[Array, Array]:
    """Return W (n, M, M) with W'W = P⁻¹ of symmetric matrices P (n, M, M), and log |P| (n,).

    W is lower triangular where P has Cholesky factors.
    If rounding makes a matrix indefinite, its eigenvalues are kept above 0.
    """
    try:
        L = np.linalg.cholesky(P)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(P)
        values = np.maximum(values, np.finfo(np.float64).eps * values[:, -1:])
        return vectors.transpose(0, 2, 1) / np.sqrt(values)[:, :, None], np.log(values).sum(axis=1)
    return invert_lower_triangles(L), 2.0 * np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)
