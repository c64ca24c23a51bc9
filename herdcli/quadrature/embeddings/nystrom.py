"""The mean embedding projected on the span of some rows' features, with a guaranteed bound of the remaining distance.

With landmarks z_1 … z_R sampled from the rows, K their Gram matrix and v_r = μ(z_r), the projection is μ̃ = Σ α_r k(z_r, ·), α = K⁻¹ v.
Rows come in blocks with μ = Σ_b p_b μ_b.  The residual of a block's mean follows from the pairs within the block,

    ‖μ_b − Σ α_br k(z_r, ·)‖² = Σ_ij w_i w_j k(x_i, x_j) − 2 α_b·v_b + α_b'K α_b ,

and ‖μ − μ̃‖ ≤ Σ_b p_b ‖μ_b − μ̃_b‖ by the triangle inequality, for α = Σ_b p_b α_b.  Blocks of one row each would give
the mean of the roots of the residual diagonal.  Within blocks of s rows the residuals of unlike rows cancel as in a mean of s of them,
so that the bound is about √s times smaller.  Blocks of 2R rows cost as much as v itself: n R values of k.
Source: Williams & Seeger (2001); Chatalic et al. (2022) for mean embeddings; the bound by blocks is ours.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from herdcli.algorithm import Map
from herdcli.numerics import exact_arithmetic
from herdcli.quadrature.kernels import kernel_sums
from herdcli.quadrature.kernels.kernel_functions import Kernel
from herdcli.quadrature.kernels.kernel_sums import EmbeddingState
from herdcli.records import dataclass
from herdcli.schema import Array

JITTER = 1e-10  # this share of the mean diagonal is added to the diagonal of the Gram matrix of the landmarks
ROUNDING = 1e-12  # rounding error of a residual relative to the block's own square
BLOCKS = 8  # blocks of a step


def rows_per_block(landmarks: int) -> int:
    """Return the number of rows of a block."""
    return max(1024, 2 * landmarks)


def count_steps(landmarks: int, rows: int) -> int:
    """Return the number of steps over all blocks."""
    return math.ceil(rows / (rows_per_block(landmarks) * BLOCKS))


def sample_landmarks(random: np.random.Generator, weights: Array, count: int) -> Array:
    """Sample the indices (R,) of different rows by their weights (n,), in ascending order.

    R is count, or the number of rows with a weight if that is smaller.
    """
    able = np.flatnonzero(weights)
    if len(able) <= count:
        return able
    own = weights[able]
    equal = own.min() == own.max()
    # Without replacement, as a landmark that occurs twice makes K singular; in the order of the rows, on which sums then depend.
    return np.sort(able[random.choice(len(able), count, replace=False, p=None if equal else own / own.sum(), shuffle=False)])


@dataclass(frozen=True)
class NystromSums:
    """The sums (R + 1) of rows X (n, d) with weights (n,) that sum to 1, at landmarks (R, d): v, and the bound so far."""

    kernel: Kernel
    landmarks: Array
    X: Array
    weights: Array

    @property
    def steps(self) -> int:
        """The number of steps over all blocks."""
        return count_steps(len(self.landmarks), len(self.X))

    @cached_property
    def _jittered_cholesky(self) -> tuple[Array, float]:
        """The Cholesky factor (R, R) of K + εI, and ε, the least that makes the factorisation possible."""
        from scipy.linalg import cholesky

        # (K + Kᵀ)/2 removes the rounding in which the two triangles differ.  Landmarks in each other's span make K singular; any ε gives a
        # valid bound, as the residuals below are those of the coefficients that were used and not of the best ones.
        gram = self.kernel.matrix(self.landmarks, self.landmarks)
        gram += gram.T
        gram *= 0.5
        own = np.diag(gram).copy()
        jitter = JITTER * float(own.mean())
        while True:
            np.fill_diagonal(gram, own + jitter)
            try:
                return cholesky(gram, lower=True, check_finite=False), jitter
            except np.linalg.LinAlgError:
                jitter *= 100.0

    def coefficients(self, values: Array) -> Array:
        """Compute α = (K + εI)⁻¹ v for v (R,), or for columns (R, b)."""
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve((self._jittered_cholesky[0], True), values, check_finite=False))

    def projection_squared_norm(self, coefficients: Array, values: Array) -> Array:
        """Compute α'K α for α = (K + εI)⁻¹ v, (R,) or (R, b), by Kα = v − εα."""
        return np.asarray((coefficients * values).sum(axis=0) - self._jittered_cholesky[1] * np.square(coefficients).sum(axis=0))

    def init(self) -> EmbeddingState:
        """Return the state before the first step."""
        return EmbeddingState(0, np.zeros(len(self.landmarks) + 1))

    def step(self, state: EmbeddingState, *, map: Map = map) -> EmbeddingState:
        """Add the next blocks, in the same order for any `map`."""
        height = rows_per_block(len(self.landmarks)) * BLOCKS
        rows = slice(state.step * height, (state.step + 1) * height)
        self.add(state.sums, self.X[rows], self.weights[rows], map=map)
        state.step += 1
        return state

    def add(self, sums: Array, X: Array, weights: Array, *, map: Map = map) -> None:
        """Add rows X (n, d) with weights (n,) to the sums (R + 1), block after block."""
        size = rows_per_block(len(self.landmarks))
        blocks = [(X[begin : begin + size], weights[begin : begin + size]) for begin in range(0, len(X), size)]
        found = list(map(self._block, [block for block in blocks if block[1].any()]))
        if not found:
            return
        values, own = np.stack([pair[0] for pair in found], axis=1), np.array([pair[1] for pair in found])
        # Every block is projected on the same landmarks: α_b = (K + εI)⁻¹ v_b, one column each.
        alpha = self.coefficients(values)
        # With weights that do not sum to 1, both sides of ‖p μ_b − p μ̃_b‖ are multiplied by the share p of the block.
        left = own - 2.0 * (alpha * values).sum(axis=0) + self.projection_squared_norm(alpha, values)
        # v = Σ_b v_b is linear, so the sums of all blocks give α; the norms of the residuals add up to the bound.
        sums[:-1] += values.sum(axis=1)
        sums[-1] += float(np.sqrt(np.maximum(left, 0.0) + ROUNDING * own).sum())

    def _block(self, rows: tuple[Array, Array]) -> tuple[Array, float]:
        """Compute Σ_i w_i k(z_r, x_i) (R,) and Σ_ij w_i w_j k(x_i, x_j) for a block's rows (s, d) and weights (s,)."""
        X, weights = rows
        return _kernel_sums(self.kernel, self.landmarks, X, weights), float(
            exact_arithmetic.matrix_product(weights, _kernel_sums(self.kernel, X, X, weights))
        )

    def solve_projection(self, sums: Array) -> tuple[Array, float, float]:
        """Compute α (R,), ‖μ̃‖² and the bound of ‖μ − μ̃‖ from complete sums (R + 1)."""
        alpha = self.coefficients(sums[:-1])
        return alpha, float(self.projection_squared_norm(alpha, sums[:-1])), float(sums[-1])


def _kernel_sums(kernel: Kernel, points: Array, rows: Array, weights: Array) -> Array:
    """Compute Σ_j w_j k(points_i, rows_j) (n,) in one thread."""
    problem = kernel_sums.make_embedding_problem(kernel, points, rows, weights)
    state = kernel_sums.initial_state(problem)
    for _ in range(kernel_sums.total_steps(problem)):
        state = kernel_sums.embedding_step(problem, state)
    return state.sums
