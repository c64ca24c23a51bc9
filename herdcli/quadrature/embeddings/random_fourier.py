"""The mean embedding by random Fourier features, and bounds of its error.

Let Λ be the spectral distribution of a kernel k(x − y) with k(0) = A.  The kernel is A E cos ω·(x − y), ω ~ Λ (Bochner), so that
with φ(ω) = Σ_i w_i e^{iω·x_i}

    μ(x) = A E Re[φ(ω)* e^{iω·x}],      ‖μ‖² = A E |φ(ω)|²,

and means over R samples of ω replace both expectations.  Their bounds are Bernstein's, with variances ≤ A‖μ‖²: for the norm the bound of
|φ|², and for μ at N candidates a union bound over them.
Source: Rahimi & Recht (2007); Boucheron, Lugosi & Massart (2013), sec. 2.8, for the inequality.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from herdcli.algorithm import Map
from herdcli.quadrature.embeddings.approximation import LEVEL, EmbeddingErrorBounds, no_random_features_error
from herdcli.quadrature.kernels import kernel_functions as k
from herdcli.quadrature.kernels.kernel_functions import Kernel, require_length_scale
from herdcli.quadrature.kernels.kernel_sums import EmbeddingState
from herdcli.records import dataclass
from herdcli.schema import Array

BLOCK = 1 << 19  # angles of a block
BLOCKS = 16  # blocks of a step


def kernel_amplitude(kernel: Kernel) -> float:
    """Return A = k(0).  Raises BadUsage for kernels without a spectral density."""
    if isinstance(kernel, k.ConstantKernel) and kernel.value >= 0:
        return kernel.value
    if isinstance(kernel, k.CompositeKernel):
        parts = [kernel_amplitude(part) for part in kernel.parts]
        return math.prod(parts) if kernel.product else sum(parts)
    if isinstance(kernel, (k.GaussianKernel, k.LaplaceKernel, k.MaternKernel, k.InverseMultiquadricKernel, k.RationalQuadraticKernel)):
        return 1.0
    raise no_random_features_error(kernel.text())


def sample_frequencies(kernel: Kernel, random: np.random.Generator, count: int, dimension: int) -> Array:
    """Sample frequencies (count, d) from the spectral distribution of the kernel.

    Gaussian: N(0, 1/ℓ²).  Laplace: independent Cauchy of scale 1/ℓ.  Matérn of smoothness ν: Student's t with 2ν degrees.
    Rational quadratic: normal with a variance that is Gamma(α, 1/α); the inverse multiquadric has α = ½.
    Products add frequencies, sums mix them by k(0).
    """
    # Bochner: k(δ) = A E cos ω·δ.  A product of kernels is the characteristic function of a sum of independent frequencies, a sum of
    # kernels that of a mixture; a scale mixture of normals has k(δ) = E exp(−s²|δ|²/2ℓ²), s the scale.
    shape = (count, dimension)
    if isinstance(kernel, k.ConstantKernel):
        return np.zeros(shape)
    if isinstance(kernel, k.CompositeKernel):
        drawn = [sample_frequencies(part, random, count, dimension) for part in kernel.parts]
        if kernel.product:
            return np.asarray(np.sum(drawn, axis=0))
        levels = np.cumsum([kernel_amplitude(part) for part in kernel.parts])
        which = np.searchsorted(levels, random.random(count) * levels[-1], side="right")
        return np.asarray(np.stack(drawn)[np.minimum(which, len(drawn) - 1), np.arange(count)])
    if isinstance(kernel, k.LaplaceKernel):
        return random.standard_cauchy(shape) / require_length_scale(kernel.bandwidth)
    if isinstance(kernel, k.GaussianKernel):
        return random.standard_normal(shape) / require_length_scale(kernel.bandwidth)
    if isinstance(kernel, k.MaternKernel):
        spread = np.sqrt(kernel.twice / random.chisquare(kernel.twice, count))
    elif isinstance(kernel, k.InverseMultiquadricKernel):
        spread = np.sqrt(random.gamma(0.5, 2.0, count))
    elif isinstance(kernel, k.RationalQuadraticKernel):
        spread = np.sqrt(random.gamma(kernel.alpha, 1.0 / kernel.alpha, count))
    else:
        raise no_random_features_error(kernel.text())
    return np.asarray(random.standard_normal(shape) * spread[:, None] / require_length_scale(kernel.bandwidth))


def rows_per_block(size: int) -> int:
    """Return the number of rows whose angles are computed at a time."""
    return max(1, BLOCK // size)


def count_steps(size: int, rows: int) -> int:
    """Return the number of steps over all rows."""
    return math.ceil(rows / (rows_per_block(size) * BLOCKS))


@dataclass(frozen=True)
class CharacteristicSums:
    """The sums Σ_i w_i cos ω·(x_i − c) and Σ_i w_i sin ω·(x_i − c), (2R,).

    The rows are X (n, d) with weights (n,); frequencies (R, d), c (d,).
    """

    frequencies: Array
    centre: Array
    X: Array
    weights: Array

    @property
    def steps(self) -> int:
        """The number of steps over all rows."""
        return count_steps(len(self.frequencies), len(self.X))

    def init(self) -> EmbeddingState:
        """Return the state before the first step."""
        return EmbeddingState(0, np.zeros(2 * len(self.frequencies)))

    def step(self, state: EmbeddingState, *, map: Map = map) -> EmbeddingState:
        """Add the next blocks of rows."""

        def of_block(rows: slice) -> Array:
            # φ(ω) e^{−iω·c}: a shift of all rows and points by c cancels in Re[φ* e^{iω·x}], and small angles lose no digits.
            angles = (self.X[rows] - self.centre) @ self.frequencies.T
            return np.concatenate([self.weights[rows] @ np.cos(angles), self.weights[rows] @ np.sin(angles)])

        for found in map(of_block, _step_blocks(state.step, len(self.frequencies), len(self.X))):
            state.sums += found
        state.step += 1
        return state


@dataclass(frozen=True)
class FourierEmbedding:
    """The embedding μ̃ at points (N, d): A/R Σ_r C_r cos ω_r·(x − c) + S_r sin ω_r·(x − c), with the sums (2R,) of `CharacteristicSums`."""

    frequencies: Array
    centre: Array
    coefficients: Array
    points: Array

    @property
    def steps(self) -> int:
        """The number of steps over all points."""
        return count_steps(len(self.frequencies), len(self.points))

    def init(self) -> EmbeddingState:
        """Return the state before the first point."""
        return EmbeddingState(0, np.zeros(len(self.points)))

    def step(self, state: EmbeddingState, *, map: Map = map) -> EmbeddingState:
        """Compute the next blocks of points."""
        R = len(self.frequencies)

        def of_block(rows: slice) -> Array:
            angles = (self.points[rows] - self.centre) @ self.frequencies.T
            return np.asarray(np.cos(angles) @ self.coefficients[:R] + np.sin(angles) @ self.coefficients[R:])

        blocks = _step_blocks(state.step, R, len(self.points))
        for rows, found in zip(blocks, map(of_block, blocks), strict=True):
            state.sums[rows] = found
        state.step += 1
        return state

    def at(self, points: Array) -> Array:
        """Compute μ̃ (n,) at other points (n, d)."""
        wave = replace(self, points=points)
        state = wave.init()
        while state.step < wave.steps:
            state = wave.step(state)
        return state.sums


def _step_blocks(step: int, size: int, rows: int) -> list[slice]:
    """Return the blocks of rows of one step."""
    height = rows_per_block(size)
    begins = range(step * BLOCKS * height, (step + 1) * BLOCKS * height, height)
    return [slice(begin, min(begin + height, rows)) for begin in begins if begin < rows]


def embedding_squared_norm(kernel: Kernel, sums: Array) -> float:
    """Compute ‖μ̃‖² = A/R Σ_r |φ(ω_r)|² from the sums (2R,)."""
    return kernel_amplitude(kernel) * float(np.square(sums).sum()) / (len(sums) // 2)


def fourier_error_bounds(kernel: Kernel, sums: Array, points: int) -> EmbeddingErrorBounds:
    """Compute the bounds for this number of points from the sums (2R,); all hold at once with probability 1 − LEVEL."""
    A, R, found = kernel_amplitude(kernel), len(sums) // 2, embedding_squared_norm(kernel, sums)
    unit = A / R
    # Q = A|φ|² ≥ 0 has E Q² ≤ A‖μ‖², so that with probability 1 − e^−L, ‖μ̃‖² ≥ ‖μ‖² − √(2 A ‖μ‖² L/R) (there is no other term, since Q is
    # not negative).  This is solved for ‖μ‖.  Means of R terms with variance σ² and at most b from their mean exceed it by √(2σ²L/R) +
    # 2bL/3R.
    least = math.log(3.0 / LEVEL)
    root = math.sqrt(0.5 * unit * least)
    highest = min(A, (root + math.sqrt(root * root + found)) ** 2)
    both, all_points = math.log(6.0 / LEVEL), math.log(6.0 * max(points, 1) / LEVEL)
    of_norm = math.sqrt(2.0 * unit * highest * both) + 2.0 * unit * both / 3.0
    uniform = math.sqrt(2.0 * unit * highest * all_points) + 4.0 * unit * all_points / 3.0
    return EmbeddingErrorBounds(uniform=uniform, norm=of_norm)
