"""Kernel sums at points, one row at a time, as selection needs them repeatedly; whole embeddings are in kernel_sums.py."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from herdcli import fast
from herdcli.fast.numpy_embedding import KINDS
from herdcli.numerics import exact_arithmetic
from herdcli.quadrature.kernels.joint_kernels import JointKernel
from herdcli.quadrature.kernels.kernel_functions import (
    BernoulliKernel,
    CompositeKernel,
    ConstantKernel,
    EnergyKernel,
    FeatureKernel,
    GaussianKernel,
    HammingKernel,
    InverseMultiquadricKernel,
    Kernel,
    LaplaceKernel,
    MaternKernel,
    PolynomialKernel,
    RationalQuadraticKernel,
    require_length_scale,
)
from herdcli.quadrature.kernels.stein_kernels import SteinKernel, SteinPoints
from herdcli.records import dataclass
from herdcli.schema import Array

LANES = 16
LOG2_E = 1.4426950408889634
GENERIC_BLOCK = 1 << 20  # kernel values of a block
PACKED_BLOCK = 1 << 18  # entries of rows that become columns at one time
MOST_LABELS = 64  # atoms with the same label are combined if there are at most this many labels


class PointEvaluator(Protocol):
    """Kernel values between arbitrary rows and the n fixed points."""

    def values(self, row: Array) -> Array:
        """Compute k(row, x_i) (n,) float64 for one row (d,); the caller may overwrite the result."""

    def weighted_kernel_sums(self, rows: Array, weights: Array) -> Array:
        """Compute Σ_u w_u k(row_u, x_i) (n,)."""


def make_point_evaluator(kernel: Kernel, points: Array) -> PointEvaluator:
    """Return the fastest evaluator of a kernel on points (n, d) float64."""
    if isinstance(kernel, FeatureKernel):
        return FeaturePoints(kernel, points)
    if isinstance(kernel, GaussianKernel):
        return GaussianPoints(kernel, points)
    if isinstance(kernel, JointKernel):
        return JointPoints(kernel, points)
    if isinstance(kernel, SteinKernel):
        return SteinPoints(kernel, points)
    return GenericPoints(kernel, points) if radial_profile(kernel, points.shape[1]) is None else RadialPoints(kernel, points)


def _row_blocks(rows: Array) -> Iterator[slice]:
    """Yield slices of rows (n, d) with at most about PACKED_BLOCK entries, so that copies of them are small."""
    step = max(1, PACKED_BLOCK // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        yield slice(start, min(start + step, len(rows)))


class GenericPoints:
    """The evaluator of any kernel, by `kernel.matrix`."""

    def __init__(self, kernel: Kernel, points: Array) -> None:
        self.kernel, self.points = kernel, points

    def values(self, row: Array) -> Array:
        """Compute k(row, x_i) (n,) for a row (d,)."""
        return np.ascontiguousarray(self.kernel.matrix(self.points, row[None])[:, 0])

    def weighted_kernel_sums(self, rows: Array, weights: Array) -> Array:
        """Compute Σ_u w_u k(row_u, x_i) (n,) for rows (m, d) and weights (m,), in blocks of the points."""
        out = np.empty(len(self.points))
        block = max(1, GENERIC_BLOCK // max(1, len(rows)))
        for start in range(0, len(out), block):
            out[start : start + block] = exact_arithmetic.matrix_product(
                self.kernel.matrix(self.points[start : start + block], rows), weights
            )
        return out


class FeaturePoints(GenericPoints):
    """The evaluator of explicit features: weighted atoms enter by their moments, for any number of them."""

    def weighted_kernel_sums(self, rows: Array, weights: Array) -> Array:
        """Compute Σ_u w_u k(row_u, x_i) (n,) from Σ w x (d,) and Σ w xx' (d, d)."""
        # Explicit features: Σ_u w_u ⟨Φ(x_u), Φ(y)⟩ = ⟨Σ_u w_u Φ(x_u), Φ(y)⟩, so the atoms' moments suffice.
        return embedding_from_moments(
            self.kernel,
            self.points,
            exact_arithmetic.matrix_product(weights, rows),
            exact_arithmetic.matrix_product((rows * weights[:, None]).T, rows),
        )[0]


class GaussianPoints:
    """The Gaussian kernel as 2^(−|a−b|²/2) on points as columns, centred, scaled by √(log₂ e)/ℓ and padded to LANES."""

    def __init__(self, kernel: GaussianKernel, points: Array, *, centre: Array | None = None, dtype: type = np.float64) -> None:
        self.count = len(points)
        self.scale = math.sqrt(LOG2_E) / require_length_scale(kernel.bandwidth)
        self.centre = points.mean(axis=0) if centre is None else centre
        self.dtype = dtype
        self.columns = self.pack_columns(points)

    def pack_columns(self, rows: Array) -> Array:
        """Convert rows (n, d) to columns (d, n), n padded with zeros."""
        columns: Array = np.zeros((rows.shape[1], -(-len(rows) // LANES) * LANES), dtype=self.dtype)
        for some in _row_blocks(rows):
            np.multiply((rows[some] - self.centre).T, self.scale, out=columns[:, some], casting="same_kind")
        return columns

    def values(self, row: Array) -> Array:
        """Compute 2^(−|a − b_i|²/2) (n,) for a row (d,), centred and scaled like the points."""
        out = np.empty(self.columns.shape[1])
        fast.gaussian_values((row - self.centre) * self.scale, self.columns, out)
        return out[: self.count]

    def weighted_kernel_sums(self, rows: Array, weights: Array) -> Array:
        """Compute Σ_u w_u k(row_u, x_i) (n,) for rows (m, d) and weights (m,): one tile, with exponents from differences."""
        # Exponents from differences: atoms may lie far from the centre, where the form by products would lose all digits.
        atoms = self.pack_columns(rows)
        padded = np.zeros(atoms.shape[1])
        padded[: len(weights)] = weights
        out = np.empty(self.columns.shape[1])
        fast.gaussian_tile(self.columns, np.ones(len(out)), atoms, padded, True, out, None)
        return out[: self.count]


class JointPoints:
    """The evaluator of rows that end with a label, from the evaluators of both kernels."""

    def __init__(self, kernel: JointKernel, points: Array) -> None:
        self.kernel, self.points = kernel, points
        self.rows = make_point_evaluator(kernel.rows, np.ascontiguousarray(points[:, :-1]))
        self.label = GenericPoints(kernel.label, np.ascontiguousarray(points[:, -1:]))

    def values(self, row: Array) -> Array:
        """Compute k_x k_y (n,) for a row (d + 1,)."""
        found = self.rows.values(row[:-1])
        found *= self.label.values(row[-1:])
        return found

    def weighted_kernel_sums(self, rows: Array, weights: Array) -> Array:
        """Compute Σ_u w_u k(row_u, x_i) (n,).

        With few labels the atoms of each label are combined, and multiplied by their k_y.
        """
        labels, place = np.unique(rows[:, -1], return_inverse=True)
        if len(labels) > MOST_LABELS:
            return GenericPoints(self.kernel, self.points).weighted_kernel_sums(rows, weights)
        found = np.zeros(len(self.points))
        for c, label in enumerate(labels):
            own = place == c
            found += self.label.values(np.array([label])) * self.rows.weighted_kernel_sums(
                np.ascontiguousarray(rows[own, :-1]), weights[own]
            )
        return found


@dataclass(frozen=True)
class RadialProfile:
    """A kernel as factor·u + offset + ½(|x| + |y|)·norms, u one of fast's KINDS on columns times `scale`."""

    kind: int
    scale: float = 1.0
    factor: float = 1.0
    offset: float = 0.0
    norms: float = 0.0


def radial_profile(kernel: Kernel, dimension: int) -> RadialProfile | None:
    """Return the kernel in the form that compiled tiles compute, None for other kernels.

    2^−u with u = s log₂ e is e^−s, so columns include the kernel's rate and log₂ e.
    """
    binary = LOG2_E
    if isinstance(kernel, LaplaceKernel):
        return RadialProfile(KINDS.index("laplace"), binary / require_length_scale(kernel.bandwidth))
    if isinstance(kernel, MaternKernel):
        return RadialProfile(KINDS.index(f"matern{kernel.twice}2"), binary * kernel.rate())
    if isinstance(kernel, InverseMultiquadricKernel):
        return RadialProfile(KINDS.index("inverse-multiquadric"), 1.0 / require_length_scale(kernel.bandwidth))
    if isinstance(kernel, RationalQuadraticKernel) and kernel.alpha == 1:
        return RadialProfile(KINDS.index("rational-quadratic"), math.sqrt(0.5) / require_length_scale(kernel.bandwidth))
    if isinstance(kernel, EnergyKernel):
        return RadialProfile(KINDS.index("distance"), factor=-0.5, norms=1.0)
    if isinstance(kernel, HammingKernel) and kernel.scale is None:
        return RadialProfile(KINDS.index("unequal"), factor=-1.0 / dimension, offset=1.0)
    return RadialProfile(KINDS.index(f"bernoulli{kernel.order}")) if isinstance(kernel, BernoulliKernel) else None


class RadialPoints:
    """A kernel with a `RadialProfile` on points as columns, padded to LANES."""

    def __init__(self, kernel: Kernel, points: Array) -> None:
        found = radial_profile(kernel, points.shape[1])
        if found is None:
            raise TypeError(kernel.text())
        self.kernel, self.profile, self.count = kernel, found, len(points)
        self.shifted = found.kind not in (KINDS.index("unequal"), *(i for i, name in enumerate(KINDS) if "bernoulli" in name))
        self.centre = points.mean(axis=0) if self.shifted and len(points) else np.zeros(points.shape[1])
        self.columns = self.pack_columns(points)
        self.norms = self.half_norms(points)

    def pack_columns(self, rows: Array) -> Array:
        """Convert rows (n, d) to columns (d, n), n padded with zeros."""
        columns: Array = np.zeros((rows.shape[1], -(-len(rows) // LANES) * LANES))
        periodic = isinstance(self.kernel, BernoulliKernel)  # {x}, but 1 stays 1
        for some in _row_blocks(rows):
            moved = rows[some] - self.centre if self.shifted else rows[some]
            if periodic:
                moved = np.where((rows[some] < 0) | (rows[some] > 1), rows[some] - np.floor(rows[some]), rows[some])
            np.multiply(moved.T, self.profile.scale, out=columns[:, some])
        return columns

    def half_norms(self, rows: Array) -> Array:
        """Compute ½|x| (n,) if the kernel contains it, else 0."""
        return 0.5 * self.kernel.norms(rows) if isinstance(self.kernel, EnergyKernel) else np.zeros(len(rows))

    def values(self, row: Array) -> Array:
        """Compute k(row, x_i) (n,) for a row (d,): factor·u + offset + both half norms."""
        out = np.empty(self.columns.shape[1])
        fast.kernel_values(self.profile.kind, np.ascontiguousarray(self.pack_columns(row[None])[:, 0]), self.columns, out)
        return np.asarray(out[: self.count] * self.profile.factor + (self.profile.offset + self.half_norms(row[None])[0]) + self.norms)

    def weighted_kernel_sums(self, rows: Array, weights: Array) -> Array:
        """Compute Σ_u w_u k(row_u, x_i) (n,) for rows (m, d) and weights (m,): one tile, then `completed`."""
        atoms = self.pack_columns(rows)
        padded = np.zeros(atoms.shape[1])
        padded[: len(weights)] = weights
        out = np.empty(self.columns.shape[1])
        fast.kernel_tile(self.profile.kind, self.columns, np.ones(len(out)), atoms, padded, out, None)
        return self.complete_sums(out[: self.count], self.norms, weights, self.half_norms(rows))

    def complete_sums(self, sums: Array, norms: Array, weights: Array, other_norms: Array) -> Array:
        """Compute Σ_j w_j k(x_i, y_j) (n,) from Σ_j w_j u_ij, half norms of x_i (n,), weights and half norms of y_j (m,)."""
        total = float(weights.sum())
        shared = self.profile.offset * total + float(exact_arithmetic.matrix_product(weights, other_norms))
        return np.asarray(sums * self.profile.factor + shared + norms * total)


def depends_on_moments(kernel: Kernel) -> bool:
    """Whether the kernel's embedding is a function of the first two moments, so that no n² sum is needed."""
    if isinstance(kernel, CompositeKernel):
        return not kernel.product and all(depends_on_moments(part) for part in kernel.parts)
    return isinstance(kernel, (FeatureKernel, ConstantKernel)) or (isinstance(kernel, PolynomialKernel) and kernel.degree <= 2)


def embedding_from_moments(kernel: Kernel, points: Array, mean: Array, second_moments: Array | None) -> tuple[Array, float]:
    """Compute μ(points) (n,) and ‖μ‖² of a distribution with mean (d,) and second moments E xx' (d, d).

    The kernel must satisfy `depends_on_moments`.
    """
    if isinstance(kernel, CompositeKernel):
        parts = [embedding_from_moments(part, points, mean, second_moments) for part in kernel.parts]
        return np.sum([part[0] for part in parts], axis=0), sum(part[1] for part in parts)
    if isinstance(kernel, ConstantKernel):
        return np.full(len(points), kernel.value), kernel.value
    linear, square = exact_arithmetic.matrix_product(points, mean), float(exact_arithmetic.matrix_product(mean, mean))
    if isinstance(kernel, FeatureKernel):
        if not kernel.pairs or second_moments is None:
            return linear, square
        # Φ = (x_i; x_i x_j for i < j), so ⟨Φ(x), E Φ⟩ = x·m + Σ_{i<j} x_i x_j S_ij: half of the quadratic form without its diagonal.
        pairs = second_moments - np.diag(np.diag(second_moments))
        return linear + 0.5 * np.einsum("ni,ni->n", exact_arithmetic.matrix_product(points, pairs), points), square + 0.5 * float(
            np.square(pairs).sum()
        )
    if not isinstance(kernel, PolynomialKernel):
        raise TypeError(kernel.text())
    c = kernel.offset
    if kernel.degree == 1 or second_moments is None:
        return linear + c, square + c
    # E (x·Y + c)² = x'Sx + 2c x·m + c², and again under x: E (X·Y)² = tr S².
    quadratic = np.einsum("ni,ni->n", exact_arithmetic.matrix_product(points, second_moments), points)
    return quadratic + 2 * c * linear + c * c, float(np.square(second_moments).sum()) + 2 * c * square + c * c
