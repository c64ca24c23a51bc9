"""Factor analysis: a few factors that all columns share, and noise of its own for every column.

    x = m + Λ f + ε,   f ~ N(0, I_k),   ε ~ N(0, diag Ψ);      Σ = ΛΛ' + Ψ

Given Ψ the likeliest Λ is Ψ^½ U (Θ − I)^½, with the k largest eigenvalues Θ and eigenvectors U of Ψ^−½ S Ψ^−½; given Λ the likeliest Ψ
is diag(S − ΛΛ').  Each half raises the likelihood.
Source: Barber (2012), alg. 21.1; Jöreskog (1967); Bartlett (1937).

EM (`em/factors.py`) climbs the same likelihood by other steps, by which rows with missing values can be learned from; this
alternation needs the covariance of complete rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from herdcli.errors import BadUsage, DataError, NotConverged
from herdcli.schema import Array

ITERATIONS = 5000
SETTLED = 1e-8  # largest relative change of a noise variance at which it ends
LEAST = 1e-6  # noise variance at least, over the column's variance: a column that is a factor itself would have none


@dataclass(frozen=True)
class Factors:
    """U (D, k) and Θ (k,) descending, as above, and noise variances Ψ (D,)."""

    vectors: Array
    values: Array
    noise: Array

    @property
    def loadings(self) -> Array:
        """Λ (D, k)."""
        return np.asarray(np.sqrt(self.noise)[:, np.newaxis] * self.vectors * np.sqrt(self.values - 1.0))


def fit(S: Array, count: int) -> Factors:
    """The likeliest factors of rows with covariance S (D, D), divided by n.

    Raises BadUsage for more factors than D columns determine, (D − k)² < D + k; DataError for columns that do not vary or for too few
    directions above the noise; NotConverged.
    """
    D, variance = len(S), np.diag(S).copy()
    if (D - count) ** 2 < D + count:
        most = max((k for k in range(D) if (D - k) ** 2 >= D + k), default=0)
        raise BadUsage(
            f"{D} columns determine {most} factors at most, not {count}", hint="--whiten pca" if most < 1 else f"--components {most}"
        )
    flat = np.flatnonzero(variance <= 0)
    if len(flat):
        raise DataError(f"column {flat[0]} is constant, and has no noise of its own", hint="--whiten pca")
    noise = variance.copy()
    for _ in range(ITERATIONS):
        found = _given(S, noise, count)
        new = np.maximum(variance - np.square(found.loadings).sum(axis=1), LEAST * variance)
        change, noise = float((np.abs(new - noise) / noise).max()), new
        if change <= SETTLED:
            break
    else:
        raise NotConverged(f"the noise of the columns had not settled after {ITERATIONS} iterations", hint="fewer --components")
    return _given(S, noise, count)


def _given(S: Array, noise: Array, count: int) -> Factors:
    scale = np.sqrt(noise)
    values, vectors = np.linalg.eigh(S / np.outer(scale, scale))
    return Factors(vectors[:, : -count - 1 : -1], np.maximum(values[: -count - 1 : -1], 1.0), noise)
