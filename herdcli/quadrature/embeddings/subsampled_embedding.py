"""The mean embedding of rows sampled by their weights, and a bound of the error.

The mean of N independent samples has E‖μ̃ − μ‖ ≤ √(E k(x, x)/N).  Replacing one sample moves it by D/N at most, D the largest
distance between features; so ‖μ̃ − μ‖ exceeds √(E k(x, x)/N) + D √(log(1/δ)/2N) with probability δ at most.
Source: McDiarmid (1989); Shawe-Taylor & Cristianini (2004), sec. 4.1, for means of features.
"""

from __future__ import annotations

import math

from herdcli.numerics import exact_arithmetic
from herdcli.quadrature.embeddings.approximation import LEVEL, EmbeddingErrorBounds
from herdcli.quadrature.kernels import kernel_functions as k
from herdcli.quadrature.kernels.kernel_functions import Kernel
from herdcli.schema import Array


def subsampling_error_bounds(kernel: Kernel, diagonal: Array, weights: Array, sample_count: int) -> EmbeddingErrorBounds:
    """Compute the bound of ‖μ − μ̃‖ for `sample_count` samples from rows with k(x, x) own (n,) and weights (n,) that sum to 1."""
    # |Φ − Φ'|² = k(x, x) + k(y, y) − 2k(x, y) ≤ 4 max k(x, x), and half of that if k is nowhere negative.
    widest = math.sqrt((2.0 if _is_nonnegative(kernel) else 4.0) * float(diagonal[weights > 0].max(initial=0.0)))
    mean = math.sqrt(max(float(exact_arithmetic.matrix_product(diagonal, weights)), 0.0) / sample_count)
    return EmbeddingErrorBounds(distance=mean + widest * math.sqrt(float(exact_arithmetic.log(1.0 / LEVEL)) / (2.0 * sample_count)))


def _is_nonnegative(kernel: Kernel) -> bool:
    if isinstance(kernel, k.CompositeKernel):
        return all(_is_nonnegative(part) for part in kernel.parts)
    if isinstance(kernel, k.ConstantKernel):
        return kernel.value >= 0
    return isinstance(
        kernel,
        (
            k.GaussianKernel,
            k.LaplaceKernel,
            k.MaternKernel,
            k.InverseMultiquadricKernel,
            k.RationalQuadraticKernel,
            k.HammingKernel,
            k.EnergyKernel,
        ),
    )
