"""PCA and probabilistic PCA in closed form."""

from __future__ import annotations

import numpy as np

from herdcli.em.driver import Parameters
from herdcli.numerics.block_statistics import RowMoments
from herdcli.schema import Array

OVERSAMPLED = 10  # directions beside those wanted


def fix_signs(axes: Array) -> Array:
    """Columns whose entry of largest size is positive."""
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
    found: Array = axes * np.where(largest < 0, -1.0, 1.0)
    return found


def sorted_eigen(covariance: Array) -> tuple[Array, Array]:
    """Eigenvalues (D,), falling and not negative, and eigenvectors (D, D) in columns with their signs fixed."""
    values, vectors = np.linalg.eigh(covariance)
    return np.maximum(values[::-1], 0.0), fix_signs(vectors[:, ::-1])


def ppca_closed_form(moments: RowMoments, factors: int, floor: float) -> Parameters:
    """The likeliest loading U (Λ − σ² I)^½ with σ² the mean of the eigenvalues left out.

    Source: Tipping & Bishop (1999), eq. 7 and 8.
    """
    values, vectors = sorted_eigen(moments.covariance)
    noise = max(float(values[factors:].mean()), floor) if factors < len(values) else floor
    # CC' + σ²I then has the sample's variance λ_k along the axes kept, and along all others the mean of what they have.
    loading = vectors[:, :factors] * np.sqrt(np.maximum(values[:factors] - noise, 0.0))
    return {"loading": loading, "mean": moments.mean.copy(), "noise": np.full(len(values), noise)}


def pca_closed_form(moments: RowMoments, components: int) -> tuple[Array, Array]:
    """Principal axes (D, K) and their variances (K,), of the moments of the rows."""
    values, vectors = sorted_eigen(moments.covariance)
    return vectors[:, :components], values[:components]
