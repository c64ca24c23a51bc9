"""PCA and probabilistic PCA in closed form, and PCA of wide rows by a randomised range."""

from __future__ import annotations

import numpy as np

from herdcli.em.driver import Parameters
from herdcli.errors import BadUsage
from herdcli.numerics.blocks import Block, Map, Moments, Source, Sums, total
from herdcli.rng import Stream, generator
from herdcli.schema import Array

FLOOR = 1e-6  # least noise, of the mean variance of a column
LEAST = 1e-12  # where the rows do not vary at all
OVERSAMPLED = 10  # directions beside those wanted
POWERS = 4  # passes that turn the range towards the leading directions


def signed(axes: Array) -> Array:
    """Columns whose entry of largest size is positive."""
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
    found: Array = axes * np.where(largest < 0, -1.0, 1.0)
    return found


def eigen(covariance: Array) -> tuple[Array, Array]:
    """Eigenvalues (D,), falling and not negative, and eigenvectors (D, D) in columns with their signs fixed."""
    values, vectors = np.linalg.eigh(covariance)
    return np.maximum(values[::-1], 0.0), signed(vectors[:, ::-1])


def ppca(found: Moments, factors: int, floor: float) -> Parameters:
    """The likeliest loading U (Λ − σ² I)^½ with σ² the mean of the eigenvalues left out.

    Source: Tipping & Bishop (1999), eq. 7 and 8.
    """
    values, vectors = eigen(found.covariance)
    noise = max(float(values[factors:].mean()), floor) if factors < len(values) else floor
    loading = vectors[:, :factors] * np.sqrt(np.maximum(values[:factors] - noise, 0.0))
    return {"loading": loading, "mean": found.mean.copy(), "noise": np.full(len(values), noise)}


def pca(found: Moments, components: int) -> tuple[Array, Array]:
    """Principal axes (D, K) and their variances (K,), of the moments of the rows."""
    values, vectors = eigen(found.covariance)
    return vectors[:, :components], values[:components]


def randomised(source: Source, columns: int, components: int, *, seed: int = 0, map: Map = map) -> tuple[Array, Array, Array]:
    """Mean (D,), leading axes (D, K) and variances (K,) without the D × D covariance: passes over the rows with D × L numbers.

    Q spans S^POWERS Ω for random Ω (D, L), L = K + OVERSAMPLED; then S ≈ Q (Q'SQ) Q'.
    Source: Halko, Martinsson & Tropp (2011), alg. 4.4.
    """
    width = min(columns, components + OVERSAMPLED)
    if not 1 <= components <= columns:
        raise BadUsage(f"{components} components of {columns} columns cannot be kept")
    centre = _mean(source, map)

    def image(Q: Array) -> Array:
        def statistics(block: Block) -> Sums:
            w = np.ones(len(block.X)) if block.weight is None else block.weight
            Z = block.X - centre
            return {"image": Z.T @ (w[:, None] * (Z @ Q)), "mass": np.array([w.sum()])}

        sums = total(source, statistics, map)
        return np.asarray(sums["image"] / sums["mass"])

    Q = np.linalg.qr(generator(seed, Stream.EM_START).standard_normal((columns, width)))[0]
    for _ in range(POWERS):
        Q = np.linalg.qr(image(Q))[0]
    small = Q.T @ image(Q)
    values, vectors = eigen(0.5 * (small + small.T))
    return centre, signed(Q @ vectors[:, :components]), values[:components]


def _mean(source: Source, map: Map) -> Array:
    def statistics(block: Block) -> Sums:
        w = np.ones(len(block.X)) if block.weight is None else block.weight
        return {"first": w @ block.X, "mass": np.array([w.sum()])}

    sums = total(source, statistics, map)
    return np.asarray(sums["first"] / sums["mass"])
