"""Mean embeddings μ(x) = E k(x, X) and their squared norms E k(X, X') in closed form, by kernel and target.

`closed_form_embedding(kernel, target)` returns (function of points (n, d) -> (n,), norm).  Pairs without a closed form raise an error
that names an alternative.  The embedding of a sum of kernels is the sum of embeddings.  Source: Bach, Lacoste-Julien & Obozinski (2012),
sec. 5, with the corrected formulas; the one-dimensional integrals of Laplace, Matérn and energy kernels are elementary.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from herdcli.errors import BadUsage
from herdcli.quadrature.kernels.kernel_functions import (
    BernoulliKernel,
    CompositeKernel,
    ConstantKernel,
    EnergyKernel,
    GaussianKernel,
    Kernel,
    LaplaceKernel,
    MaternKernel,
    require_length_scale,
)
from herdcli.quadrature.kernels.point_sums import depends_on_moments, embedding_from_moments
from herdcli.quadrature.kernels.stein_kernels import ScoreTarget, SteinKernel
from herdcli.quadrature.targets import MixtureTarget, Target, TrigonometricTarget, UniformTarget
from herdcli.schema import Array

Embedding = tuple[Callable[[Array], Array], float]

KNOWN = (
    "uniform with gaussian, laplace, bernoulli, and in one column matern and energy; gaussian and mixture with gaussian, and in one column "
    "laplace and energy; trigonometric with bernoulli; every target with moments and linear, polynomial:2, features"
)


def closed_form_embedding(kernel: Kernel, target: Target) -> Embedding:
    """Return μ as a function of points, and ‖μ‖².  Raises BadUsage if no closed form is known."""
    if isinstance(kernel, SteinKernel) and isinstance(target, ScoreTarget):
        return lambda x: np.zeros(len(x)), 0.0
    if isinstance(kernel, ConstantKernel):
        return lambda x: np.full(len(x), kernel.value), kernel.value
    if isinstance(kernel, CompositeKernel):
        return _composite_embedding(kernel, target)
    found = _simple_kernel_embedding(kernel, target)
    if found is None:
        message = f"no closed form is known for the kernel {kernel.text()} with target {target.name}"
        raise BadUsage(message, hint=f"use one of the known pairs ({KNOWN}), or draw rows from the target and use --distribution rows")
    return found


def _composite_embedding(kernel: CompositeKernel, target: Target) -> Embedding:
    parts = [part for part in kernel.parts if not (kernel.product and isinstance(part, ConstantKernel))]
    if kernel.product:
        weight = math.prod(part.value for part in kernel.parts if isinstance(part, ConstantKernel))
        if len(parts) > 1:
            raise BadUsage(
                f"no closed form of the mean embedding is known for the kernel {kernel.text()}",
                hint=f"use --distribution rows, or one of {KNOWN}",
            )
        inner, norm = closed_form_embedding(parts[0], target) if parts else (lambda x: np.ones(len(x)), 1.0)
        return lambda x: weight * inner(x), weight * norm
    found = [closed_form_embedding(part, target) for part in parts]
    return lambda x: np.sum([function(x) for function, _ in found], axis=0), sum(norm for _, norm in found)


def _simple_kernel_embedding(kernel: Kernel, target: Target) -> Embedding | None:
    if depends_on_moments(kernel):
        return _moment_embedding(kernel, target)
    if isinstance(kernel, BernoulliKernel):
        return _bernoulli_embedding(kernel, target)
    if isinstance(target, UniformTarget):
        return _uniform_embedding(kernel, target)
    if isinstance(target, MixtureTarget):
        return _mixture_embedding(kernel, target)
    return None


def _moment_embedding(kernel: Kernel, target: Target) -> Embedding | None:
    mean, second = target.moments()
    if second is None and kernel.text() not in ("features:x", "linear"):
        return None
    return lambda x: embedding_from_moments(kernel, x, mean, second)[0], embedding_from_moments(kernel, mean[None], mean, second)[1]


def _bernoulli_embedding(kernel: BernoulliKernel, target: Target) -> Embedding | None:
    if isinstance(target, UniformTarget) and not target.low.any() and (target.high == 1).all():
        return lambda x: np.zeros(len(x)), 0.0
    if not isinstance(target, TrigonometricTarget):
        return None
    p = target.coefficients()
    k = np.arange(1, len(p) + 1)
    # k(x, y) = Σ_{k≥1} 2 (2πk)^−2ν cos 2πk(x − y) has the Fourier coefficient (2πk)^−2ν at ±k, and E k(x, Y) is its convolution with p: the
    # coefficients are multiplied.  ‖μ‖² = E μ(X) multiplies them again by those of p (Bach et al. 2012, sec. 5.1, corrected).
    decay = (2 * np.pi * k) ** (-2.0 * kernel.order)

    def mean(x: Array) -> Array:
        return np.asarray(2.0 * (np.exp(2j * np.pi * np.outer(x[:, 0], k)) @ (p * decay)).real)

    return mean, float(2.0 * (np.abs(p) ** 2 @ decay))


# Uniform on a box: with G(t) = ∫_0^t k(s) ds per column, μ(x) = Π (G(high−x) − G(low−x)) / width and
# ‖μ‖² = Π 2 H(width) / width², H(t) = ∫_0^t G(s) ds.


def _uniform_embedding(kernel: Kernel, target: UniformTarget) -> Embedding | None:
    width = target.high - target.low
    if isinstance(kernel, EnergyKernel):
        return _uniform_energy_embedding(kernel, target) if target.dimension == 1 else None
    pair = _kernel_column_integrals(kernel, target.dimension)
    if pair is None:
        return None
    first, second = pair

    def mean(x: Array) -> Array:
        return np.asarray(np.prod((_odd_extension(first, target.high - x) - _odd_extension(first, target.low - x)) / width, axis=1))

    return mean, float(np.prod(2.0 * second(width) / width**2))


def _odd_extension(function: Callable[[Array], Array], t: Array) -> Array:
    return np.sign(t) * function(np.abs(t))


def _kernel_column_integrals(kernel: Kernel, dimension: int) -> tuple[Callable[[Array], Array], Callable[[Array], Array]] | None:
    """Return the integrals G and H of one column on t ≥ 0."""
    from scipy.special import erf

    if isinstance(kernel, GaussianKernel):
        scale = require_length_scale(kernel.bandwidth)
        root = math.sqrt(math.pi / 2)

        def second(t: Array) -> Array:
            a = t / scale
            return np.asarray(scale**2 * (root * a * erf(a / math.sqrt(2)) + np.expm1(-(a**2) / 2)))

        return lambda t: scale * root * erf(t / (scale * math.sqrt(2))), second
    if isinstance(kernel, LaplaceKernel) or (isinstance(kernel, MaternKernel) and kernel.twice == 1 and dimension == 1):
        scale = require_length_scale(kernel.bandwidth)
        return lambda t: -scale * np.expm1(-t / scale), lambda t: scale * (t + scale * np.expm1(-t / scale))
    if isinstance(kernel, MaternKernel) and dimension == 1:
        c = kernel.rate()
        if kernel.twice == 3:
            return (
                lambda t: (2.0 - (2.0 + c * t) * np.exp(-c * t)) / c,
                lambda t: (2.0 * c * t - 3.0 + (3.0 + c * t) * np.exp(-c * t)) / c**2,
            )
        return (
            lambda t: (8.0 - (8.0 + c * t * (5.0 + c * t)) * np.exp(-c * t)) / (3.0 * c),
            lambda t: (8.0 * c * t - 15.0 + (15.0 + c * t * (7.0 + c * t)) * np.exp(-c * t)) / (3.0 * c**2),
        )
    return None


def _uniform_energy_embedding(kernel: EnergyKernel, target: UniformTarget) -> Embedding:
    low, high = float(target.low[0]), float(target.high[0])

    def distance(x: Array) -> Array:
        """Compute E|x − X|."""
        inside = ((x - low) ** 2 + (high - x) ** 2) / (2.0 * (high - low))
        return np.where((x < low) | (x > high), np.abs(x - 0.5 * (low + high)), inside)

    return _energy_embedding(kernel, distance, (high - low) / 3.0)


def _energy_embedding(kernel: EnergyKernel, distance: Callable[[Array], Array], mean_pair_distance: float) -> Embedding:
    """Compute ½(|x−c| + E|X−c| − E|x−X|) and E|X−c| − ½E|X−X'|."""
    spread = float(distance(np.array([kernel.centre[0] if kernel.centre else 0.0]))[0])
    # k(x, y) = ½(|x − c| + |y − c| − |x − y|), averaged over y, and then over x: ½(2 E|X − c| − E|X − X'|).
    return lambda x: 0.5 * (kernel.norms(x) + spread - distance(x[:, 0])), spread - 0.5 * mean_pair_distance


def _mixture_embedding(kernel: Kernel, target: MixtureTarget) -> Embedding | None:
    if isinstance(kernel, GaussianKernel):
        return _gaussian_mixture_embedding(kernel, target)
    if target.dimension > 1 or not (
        isinstance(kernel, (LaplaceKernel, EnergyKernel)) or (isinstance(kernel, MaternKernel) and kernel.twice == 1)
    ):
        return None
    weights, means = target.weights, target.means[:, 0]
    variances = target.covariances[:, 0, 0]
    pairs = (np.subtract.outer(means, means), np.sqrt(np.add.outer(variances, variances)))
    if isinstance(kernel, EnergyKernel):
        between = float(weights @ _expected_absolute_normal(*pairs) @ weights)
        return _energy_embedding(kernel, lambda x: _expected_absolute_normal(x[:, None] - means, np.sqrt(variances)) @ weights, between)
    scale = require_length_scale(kernel.bandwidth)
    norm = float(weights @ _expected_laplace_normal(*pairs, scale) @ weights)
    return lambda x: np.asarray(_expected_laplace_normal(x - means, np.sqrt(variances), scale) @ weights), norm


def _expected_absolute_normal(delta: Array, deviation: Array) -> Array:
    """Compute E|Z| for Z ~ N(δ, σ²)."""
    from scipy.special import erf

    z = delta / deviation
    return np.asarray(deviation * math.sqrt(2 / math.pi) * np.exp(-0.5 * z**2) + delta * erf(z / math.sqrt(2)))


def _expected_laplace_normal(delta: Array, deviation: Array, scale: float) -> Array:
    """Compute E e^{−|Z|/ℓ} for Z ~ N(δ, σ²), by the scaled complementary error function."""
    from scipy.special import erfcx

    z, s = delta / deviation, deviation / scale
    tail = np.exp(-0.5 * z**2)
    found = np.zeros(np.broadcast_shapes(z.shape, s.shape))
    # E[e^{−Z/ℓ}; Z > 0] = e^{s²/2 − zs} Φ(z − s) = ½ e^{−z²/2} erfcx((s − z)/√2), as erfc y = e^{−y²} erfcx y and ((s − z)/√2)² = s²/2 − sz
    # + z²/2; for Z < 0 the same with −z.  e^{s²/2} alone would overflow if σ is many times ℓ.
    for sign in (1.0, -1.0):
        argument = (s + sign * z) / math.sqrt(2)
        # erfcx overflows far on the negative side, where erfc is 2 to the last bit
        far = argument < -5.0
        direct = 2.0 * np.exp(np.minimum(0.5 * s**2 + sign * z * s, 700.0)) - tail * erfcx(np.where(far, -argument, 0.0))
        found += 0.5 * np.where(far, direct, tail * erfcx(np.where(far, 0.0, argument)))
    return found


def _gaussian_mixture_embedding(kernel: GaussianKernel, target: MixtureTarget) -> Embedding:
    """Compute Σ_c π_c ℓ^d |ℓ²I+S_c|^(−½) exp(−½ (x−m_c)'(ℓ²I+S_c)⁻¹(x−m_c)), and for the norm the same over pairs of components."""
    square = require_length_scale(kernel.bandwidth) ** 2
    identity = square * np.eye(target.dimension)

    # e^{−|x − y|²/2ℓ²} is (2πℓ²)^{d/2} times the density of N(x, ℓ²I) at y.  Its mean under N(m, S) is the same multiple of N(m, ℓ²I + S)
    # at x: the (2π)^{d/2} cancel.  For the norm, X − X' ~ N(m − n, S + T) takes the place of x.
    def density(x: Array, mean: Array, covariance: Array) -> Array:
        factor = np.linalg.cholesky(covariance + identity)
        whitened = np.linalg.solve(factor, (x - mean).T)
        shrink = np.exp(0.5 * target.dimension * math.log(square) - np.log(np.diag(factor)).sum())
        return np.asarray(shrink * np.exp(-0.5 * np.square(whitened).sum(axis=0)))

    parts = list(zip(target.weights, target.means, target.covariances, strict=True))
    norm = sum(w * v * float(density(m[None], n, S + T)[0]) for w, m, S in parts for v, n, T in parts)
    return lambda x: np.sum([w * density(x, m, S) for w, m, S in parts], axis=0), float(norm)
