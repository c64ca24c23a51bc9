"""The space from which every rule chooses: candidates, the target's embedding at them, and kernel values with them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.quadrature.kernels.kernel_functions import Kernel
from herdcli.quadrature.kernels.point_sums import PointEvaluator
from herdcli.records import dataclass
from herdcli.schema import Array

TIE = 2.0**-43  # scores that differ by less, relative to the largest k(x, x), are equal: the lowest index is chosen


@dataclass(frozen=True)
class CandidateSpace:
    """N candidates (N, d) with their embedding and kernel under a target.

    embedding (N,) μ at the candidates, norm ‖μ‖², diagonal (N,) k(x, x), points evaluates k with the candidates,
    mean computes μ at any points (n, d).
    """

    kernel: Kernel
    candidates: Array
    embedding: Array
    norm: float
    diagonal: Array
    points: PointEvaluator
    mean: Callable[[Array], Array]

    @cached_property
    def single_point_scores(self) -> Array:
        """Compute the score μ(x) − ½k(x, x) (N,) of one point of weight 1, which is ½‖μ‖² − ½‖Φ(x) − μ‖²."""
        return np.asarray(self.embedding - 0.5 * self.diagonal)

    @cached_property
    def scale(self) -> float:
        """The largest k(x, x), or 1 if all are 0."""
        return float(np.abs(self.diagonal).max(initial=0.0)) or 1.0

    def first_best_index(self, score: Array, size: float = 1.0) -> int:
        """Return the lowest index at which score (N,) is largest up to rounding; `size` multiplies the scale of the scores."""
        return int(np.argmax(score >= score.max() - TIE * self.scale * size))

    def mmd_from_terms(self, quadratic: float, linear: float) -> float:
        """Compute MMD = ‖Σ w Φ − μ‖ from w'Kw and w'z."""
        # The three terms cancel when the atoms are good: below about 10⁻⁸ √k(x, x) the MMD is rounding, and the difference may be negative.
        return math.sqrt(max(0.0, quadratic - 2.0 * linear + self.norm))


def prefix_mmds(space: CandidateSpace, atoms: Array, embedding: Array, weights: Array | None = None) -> Array:
    """Compute the MMD (m,) of the first t atoms (m, d), t = 1 … m, with equal weights or with the first t weights scaled to sum 1."""
    w = np.ones(len(atoms)) if weights is None else weights
    found = np.empty(len(atoms))
    quadratic = linear = total = 0.0
    for t in range(len(atoms)):
        row = space.kernel.matrix(atoms[t : t + 1], atoms[: t + 1])[0]
        # Σ_uv w_u w_v k gains the row and column of atom t, 2 w_t Σ_{u<t} w_u k + w_t² k(x_t, x_t); the division by the sum of the weights
        # follows at the end.
        quadratic += w[t] * (2.0 * float(exact_arithmetic.matrix_product(row[:t], w[:t])) + w[t] * float(row[t]))
        linear += w[t] * float(embedding[t])
        total += w[t]
        found[t] = space.mmd_from_terms(quadratic / exact_arithmetic.integer_power(total, 2), linear / total) if total else math.nan
    return found
