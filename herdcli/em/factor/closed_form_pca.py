"""PCA and probabilistic PCA in closed form."""

from __future__ import annotations

import numpy as np

from herdcli.em.driver import Parameters
from herdcli.numerics.block_statistics import RowMoments
from herdcli.schema import Array

OVERSAMPLED = 10  # extra directions beyond those requested


def fix_axis_signs(axes: Array) -> Array:
    """Return the columns with signs such that the entry of largest magnitude is positive."""
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
    found: Array = axes * np.where(largest < 0, -1.0, 1.0)
    return found


def sorted_eigendecomposition(covariance: Array) -> tuple[Array, Array]:
    """Return eigenvalues (D,), descending and non-negative, and eigenvectors (D, D) in columns with fixed signs."""
    values, vectors = np.linalg.eigh(covariance)
    return np.maximum(values[::-1], 0.0), fix_axis_signs(vectors[:, ::-1])


def ppca_closed_form(moments: RowMoments, factors: int, floor: float) -> Parameters:
    """Return the maximum-likelihood loading U (Λ − σ² I)^½, with σ² the mean of the discarded eigenvalues.

    Source: Tipping & Bishop (1999), eq. 7 and 8.
    """
    values, vectors = sorted_eigendecomposition(moments.covariance)
    noise = max(float(values[factors:].mean()), floor) if factors < len(values) else floor
    # CC' + σ²I then has the sample's variance λ_k along the retained axes, and the mean of the other variances along all others.
    loading = vectors[:, :factors] * np.sqrt(np.maximum(values[:factors] - noise, 0.0))
    return {"loading": loading, "mean": moments.mean.copy(), "noise": np.full(len(values), noise)}


def pca_closed_form(moments: RowMoments, components: int) -> tuple[Array, Array]:
    """Return principal axes (D, K) and their variances (K,) from the moments of the rows."""
    values, vectors = sorted_eigendecomposition(moments.covariance)
    return vectors[:, :components], values[:components]
