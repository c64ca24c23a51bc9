"""Kernel halving: rows are split pair by pair into two halves whose difference stays small in the kernel's space.

With signs ε = −1 for the first half and +1 for the second, f = Σ ε_y k(y, ·) is the difference of the halves.  A pair x, x' with
α = f(x) − f(x') keeps its order (x goes to the first half) or is exchanged.  The probability of an exchange is ½ (1 − α/a), within [0, 1],
which moves f towards 0:  E f_new = f − (α/a) (Φ(x) − Φ(x')).  The threshold a and the variance proxy σ² of f are those of the
self-balancing walk,

    b² = ‖Φ(x) − Φ(x')‖²,   a = max(b σ L, b²),   σ² ← σ² + b² (1 + (b² − 2a) σ²/a²)₊,   L² = 2 log(2/δ')

so |α| ≤ a for all pairs with probability 1 − Σ δ', and σ ≤ ½ max b (L + 1/L) always.
Source: Dwivedi & Mackey (2024), kernel thinning, alg. 1a and get_swap_params; (2022), generalized kernel thinning: the target's kernel.
"""

from __future__ import annotations

import math

import numpy as np

from herdcli.algorithm import Map
from herdcli.numerics import exact_arithmetic
from herdcli.quadrature.kernels import kernel_sums
from herdcli.quadrature.kernels.kernel_blocks import kernel_matrix
from herdcli.quadrature.kernels.kernel_functions import Kernel
from herdcli.schema import Array

BLOCK = 256  # rows whose signs are chosen pair by pair from one block of kernel values
WIDE = kernel_sums.COLUMNS


def exchange_threshold(square: float, variance: float, level: float) -> float:
    """Compute the threshold a from b² and σ²; level is L²."""
    return max(math.sqrt(square * variance * level), square)


def exchange_probability(alpha: float, a: float) -> float:
    """Compute the probability that a pair is exchanged."""
    return min(1.0, max(0.0, 0.5 * (1.0 - alpha / a)))


def update_variance(square: float, variance: float, a: float) -> float:
    """Compute σ² after a pair of b² and threshold a > 0."""
    # σ² + b² (1 + (b² − 2a) σ²/a²)₊: if a = bσL this is (σ − b/L)² + b² as long as that increases, if a = b² it is b².
    return variance + square * max(0.0, 1.0 + (square - 2.0 * a) * variance / a**2)


def choose_pair_signs(gram: Array, difference: Array, uniforms: Array, variance: float, level: float) -> tuple[Array, float]:
    """Choose the signs (2p,) of p pairs in sequence, and compute σ² after them.

    gram (2p, 2p) k between the rows; difference (2p,) f at them before; uniforms (p,): a pair is exchanged if its number is below the
    probability.
    """
    wide = gram[0::2] - gram[1::2]
    pairs = wide[:, 0::2] - wide[:, 1::2]  # ⟨Φ(x_p) − Φ(x'_p), Φ(x_q) − Φ(x'_q)⟩, with b² on the diagonal
    slope = difference[0::2] - difference[1::2]
    found = np.empty(len(pairs))
    for p, square in enumerate(np.maximum(np.diag(pairs), 0.0).tolist()):
        found[p] = -1.0
        if square > 0:  # for equal rows the choice does not matter
            # The self-balancing walk: a, the sign with probability ½(1 − α/a), and σ², in the order of get_swap_params.
            a = exchange_threshold(square, variance, level)
            if uniforms[p] < exchange_probability(float(slope[p]), a):
                found[p] = 1.0
            variance = update_variance(square, variance, a)
        # Φ(x') − Φ(x) is added to f, or subtracted if the pair is exchanged; so α of later pairs increases by found·pairs.
        slope += found[p] * pairs[p]
    return np.stack([found, -found], axis=1).ravel(), variance


class KernelHalving:
    """The function f at rows X (n, d) of one node, computed in blocks by the tiles of the embedding sums."""

    def __init__(self, kernel: Kernel, X: Array) -> None:
        self.kernel, self.X = kernel, X
        self.plan = kernel_sums.make_embedding_problem(kernel, X, X, np.zeros(len(X))).plan if len(X) > BLOCK else None

    def embedding_difference(self, start: int, stop: int, earlier_signs: Array, map: Map) -> Array:
        """Compute f (stop − place,) at the rows from `start` on, given the signs (place,) of the rows before."""
        if not start or self.plan is None:
            return np.zeros(stop - start)
        # f(x) = Σ_y ε_y k(y, x) over the rows whose signs are chosen: a kernel sum with signs as weights.
        self.plan.weights[:start] = earlier_signs
        cuts = [(slice(start, stop), slice(left, min(left + WIDE, start))) for left in range(0, start, WIDE)]
        parts = map(self._sum_tile, cuts)
        return np.asarray(sum(parts))

    def _sum_tile(self, tile_slices: tuple[slice, slice]) -> Array:
        if self.plan is None:
            raise TypeError("rows of one block have no tiles")
        return self.plan.tile(*tile_slices, False)[0]

    def kernel_block(self, start: int, stop: int) -> Array:
        """Compute k (b, b) between the rows of a block."""
        return kernel_matrix(self.kernel, self.X[start:stop], self.X[start:stop])


def squared_failure_level(failure: float) -> float:
    """Compute L² = 2 log(2/δ') from a pair's failure probability δ'."""
    return 2.0 * float(exact_arithmetic.log(2.0 / failure))
