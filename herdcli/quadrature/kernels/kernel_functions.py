"""Positive definite kernels: values between rows, diagonals, sums and products of kernels.

Rows are float64 (n, d).  A kernel is a frozen dataclass; `matrix` is exact to rounding (distances are taken from
differences, so equal rows are at distance 0), `diagonal` is k(x, x).  A length scale of None is still to be chosen,
see `kernel_parsing`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from herdcli.errors import DataError
from herdcli.numerics import exact_arithmetic
from herdcli.records import dataclass
from herdcli.schema import Array


class Kernel(Protocol):
    """The interface of all kernels."""

    def matrix(self, X: Array, Y: Array) -> Array:
        """Compute the values k(x_i, y_j) (n, m) of rows X (n, d) and Y (m, d)."""

    def diagonal(self, X: Array) -> Array:
        """Compute the values k(x_i, x_i) (n,) of rows X (n, d)."""

    def check(self, X: Array) -> None:
        """Raise DataError if the kernel is not defined on these rows (n, d)."""

    def text(self) -> str:
        """Return the kernel as it is written on the command line, with its parameters."""


class StationaryKernel:
    """Kernels with k(x, x) = 1 that are defined on all rows."""

    def diagonal(self, X: Array) -> Array:
        """Return ones (n,): the distance of rows (n, d) from themselves is 0."""
        return np.ones(len(X))

    def check(self, X: Array) -> None:
        """Accept all rows (n, d)."""


def require_length_scale(bandwidth: float | None) -> float:
    """Return a length scale that must have been chosen already."""
    if bandwidth is None:
        raise ValueError("the kernel's length scale is not chosen yet")
    return bandwidth


def squared_distances(X: Array, Y: Array) -> Array:
    """Compute squared Euclidean distances (n, m) from differences."""
    from scipy.spatial.distance import cdist

    found: Array = cdist(X, Y, "sqeuclidean")
    return found


@dataclass(frozen=True)
class GaussianKernel(StationaryKernel):
    """The Gaussian kernel exp(−|x−y|² / 2ℓ²)."""

    bandwidth: float | None = None

    def matrix(self, X: Array, Y: Array) -> Array:
        """Compute exp(−|x_i − y_j|²/2ℓ²) (n, m)."""
        values = squared_distances(X, Y)
        values *= -0.5 / exact_arithmetic.integer_power(require_length_scale(self.bandwidth), 2)
        return exact_arithmetic.exp(values, out=values)

    def text(self) -> str:
        """Return `gaussian:ℓ`."""
        return _format_kernel("gaussian", self.bandwidth)


@dataclass(frozen=True)
class LaplaceKernel(StationaryKernel):
    """The Laplace kernel exp(−‖x−y‖₁ / ℓ), the product over columns of exp(−|x_j−y_j|/ℓ)."""

    bandwidth: float | None = None

    def matrix(self, X: Array, Y: Array) -> Array:
        """Compute exp(−‖x_i − y_j‖₁/ℓ) (n, m)."""
        from scipy.spatial.distance import cdist

        values: Array = cdist(X, Y, "cityblock")
        values *= -1.0 / require_length_scale(self.bandwidth)
        return exact_arithmetic.exp(values, out=values)

    def text(self) -> str:
        """Return `laplace:ℓ`."""
        return _format_kernel("laplace", self.bandwidth)


@dataclass(frozen=True)
class MaternKernel(StationaryKernel):
    """The Matérn kernel of smoothness ½, 3/2, 5/2 (twice = 1, 3, 5).

    With s = √(2·smoothness)·|x−y|/ℓ it is e^{−s} times 1, 1+s, 1+s+s²/3.
    """

    twice: int
    bandwidth: float | None = None

    def rate(self) -> float:
        """Return s per unit of distance."""
        return math.sqrt(self.twice) / require_length_scale(self.bandwidth)

    def matrix(self, X: Array, Y: Array) -> Array:
        """Compute e^{−s} times 1, 1 + s or 1 + s + s²/3 (n, m), s = rate·|x_i − y_j|."""
        s = squared_distances(X, Y)
        np.sqrt(s, out=s)
        s *= self.rate()
        values = exact_arithmetic.exp(-s)
        if self.twice == 3:
            values *= 1.0 + s
        elif self.twice == 5:
            values *= 1.0 + s * (1.0 + s / 3.0)
        return values

    def text(self) -> str:
        """Return `matern12:ℓ`, `matern32:ℓ` or `matern52:ℓ`."""
        return _format_kernel(f"matern{self.twice}2", self.bandwidth)


@dataclass(frozen=True)
class InverseMultiquadricKernel(StationaryKernel):
    """The inverse multiquadric kernel (1 + |x−y|²/c²)^(−½)."""

    bandwidth: float | None = None

    def matrix(self, X: Array, Y: Array) -> Array:
        """Compute (1 + |x_i − y_j|²/c²)^(−½) (n, m)."""
        values = squared_distances(X, Y)
        values *= exact_arithmetic.integer_power(require_length_scale(self.bandwidth), -2)
        values += 1.0
        np.sqrt(values, out=values)
        return np.divide(1.0, values, out=values)

    def text(self) -> str:
        """Return `inverse-multiquadric:c`."""
        return _format_kernel("inverse-multiquadric", self.bandwidth)


@dataclass(frozen=True)
class RationalQuadraticKernel(StationaryKernel):
    """The rational quadratic kernel (1 + |x−y|² / 2αℓ²)^(−α)."""

    bandwidth: float | None = None
    alpha: float = 1.0

    def matrix(self, X: Array, Y: Array) -> Array:
        """Compute (1 + |x_i − y_j|²/2αℓ²)^(−α) (n, m)."""
        values = squared_distances(X, Y)
        values *= 0.5 / (self.alpha * exact_arithmetic.integer_power(require_length_scale(self.bandwidth), 2))
        values += 1.0
        if self.alpha == 1.0:
            return np.divide(1.0, values, out=values)
        values **= -self.alpha
        return values

    def text(self) -> str:
        """Return `rational-quadratic:ℓ,α`."""
        return _format_kernel("rational-quadratic", self.bandwidth, self.alpha)


@dataclass(frozen=True)
class EnergyKernel:
    """The energy kernel ½(|x−c| + |y−c| − |x−y|).

    MMD² is half the energy distance for any centre c and weights that sum to 1.
    """

    centre: tuple[float, ...] | None = None

    def norms(self, X: Array) -> Array:
        """Compute the distances (n,) to the centre, the origin unless one was given."""
        return np.asarray(np.sqrt(np.square(X if self.centre is None else X - np.asarray(self.centre)).sum(axis=1)))

    def matrix(self, X: Array, Y: Array) -> Array:
        """Compute ½(|x_i − c| + |y_j − c| − |x_i − y_j|) (n, m)."""
        values = np.sqrt(squared_distances(X, Y))
        values *= -0.5
        values += 0.5 * self.norms(X)[:, None]
        values += 0.5 * self.norms(Y)
        return values

    def diagonal(self, X: Array) -> Array:
        """Compute the distances |x_i − c| (n,) of rows (n, d)."""
        return self.norms(X)

    def check(self, X: Array) -> None:
        """Accept all rows (n, d)."""

    def text(self) -> str:
        """Return `energy`."""
        return "energy"


@dataclass(frozen=True)
class PolynomialKernel:
    """The polynomial kernel (x·y + c)^p; the linear kernel is p = 1, c = 0."""

    degree: int = 1
    offset: float = 0.0

    def matrix(self, X: Array, Y: Array) -> Array:
        """Compute (x_i·y_j + c)^p (n, m)."""
        return np.asarray(exact_arithmetic.integer_power(exact_arithmetic.matrix_product(X, Y.T) + self.offset, self.degree))

    def diagonal(self, X: Array) -> Array:
        """Compute (|x_i|² + c)^p (n,)."""
        return np.asarray(exact_arithmetic.integer_power(np.square(X).sum(axis=1) + self.offset, self.degree))

    def check(self, X: Array) -> None:
        """Accept all rows (n, d)."""

    def text(self) -> str:
        """Return `linear`, or `polynomial:p,c`."""
        return "linear" if (self.degree, self.offset) == (1, 0.0) else _format_kernel("polynomial", self.degree, self.offset)


@dataclass(frozen=True)
class FeatureKernel:
    """The kernel of explicit features: Φ(x) = x, or with `pairs` x and all products x_i x_j, i < j."""

    pairs: bool = False

    def matrix(self, X: Array, Y: Array) -> Array:
        """Compute x·y (n, m), with `pairs` plus Σ_{i<j} x_i x_j y_i y_j = ½((x·y)² − Σ_i x_i² y_i²)."""
        values = exact_arithmetic.matrix_product(X, Y.T)
        if self.pairs:
            # (x·y)² = Σ_ij x_i x_j y_i y_j has each pair i ≠ j twice, and the diagonal Σ_i x_i² y_i² once.
            values += 0.5 * (values**2 - exact_arithmetic.matrix_product(X**2, (Y**2).T))
        return values

    def diagonal(self, X: Array) -> Array:
        """Compute |x|² (n,), with `pairs` plus ½(|x|⁴ − Σ_i x_i⁴)."""
        norms = np.square(X).sum(axis=1)
        return np.asarray(norms + 0.5 * (norms**2 - exact_arithmetic.integer_power(X, 4).sum(axis=1)) if self.pairs else norms)

    def check(self, X: Array) -> None:
        """Accept all rows (n, d)."""

    def text(self) -> str:
        """Return `features:x` or `features:x+xx`."""
        return "features:x+xx" if self.pairs else "features:x"


@dataclass(frozen=True)
class HammingKernel(StationaryKernel):
    """The share of columns in which two rows are equal, or with a length λ exp(−(number of unequal columns)/λ)."""

    scale: float | None = None

    def matrix(self, X: Array, Y: Array) -> Array:
        """Compute the shares (n, m) of the d columns in which x_i and y_j are equal, or exp(−d (1 − share)/λ)."""
        from scipy.spatial.distance import cdist

        share: Array = cdist(X, Y, "hamming")
        return np.asarray(1.0 - share if self.scale is None else exact_arithmetic.exp(share * (-X.shape[1] / self.scale)))

    def text(self) -> str:
        """Return `hamming`, or `hamming:λ`."""
        return "hamming" if self.scale is None else _format_kernel("hamming", self.scale)


# coefficients of (−1)^(ν−1) B_2ν(u) / (2ν)! by powers of u, the highest first
BERNOULLI: dict[int, tuple[float, ...]] = {
    1: (1 / 2, -1 / 2, 1 / 12),
    2: (-1 / 24, 2 / 24, -1 / 24, 0.0, 1 / 720),
    3: (1 / 720, -3 / 720, 5 / 1440, 0.0, -1 / 1440, 0.0, 1 / 30240),
}


@dataclass(frozen=True)
class BernoulliKernel:
    """The kernel of periodic functions on [0, 1] with zero mean and norm ∫ (f^(ν))²; in d columns Π_j (1 + k(x_j, y_j)) − 1.

    k(x, y) = (−1)^(ν−1) B_2ν({x−y}) / (2ν)! = Σ_{k≥1} 2 (2πk)^{−2ν} cos 2πk(x−y).
    Source: Wahba (1990); Bach, Lacoste-Julien & Obozinski (2012), sec. 5.1, with the sign their formula lacks.
    """

    order: int = 1

    def matrix(self, X: Array, Y: Array) -> Array:
        """Compute Π_j (1 + k(x_j, y_j)) − 1 (n, m), expanded column by column without the 1, so that nothing cancels."""
        total: Array | None = None
        for x, y in zip(X.T, Y.T, strict=True):
            u = x[:, None] - y
            # {x − y}, the argument that the periodic kernel needs in place of x − y − |x − y|; the correct sign is in BERNOULLI.
            u -= np.floor(u)
            values = self._univariate_kernel(u)
            total = values if total is None else total + values + total * values
        return np.zeros((len(X), len(Y))) if total is None else total

    def _univariate_kernel(self, u: Array) -> Array:
        return np.polyval(BERNOULLI[self.order], u)

    def diagonal(self, X: Array) -> Array:
        """Compute (1 + k(0))^d − 1 (n,), which is equal for all rows (n, d)."""
        return np.full(len(X), exact_arithmetic.integer_power(1.0 + BERNOULLI[self.order][-1], X.shape[1]) - 1.0)

    def check(self, X: Array) -> None:
        """Raise DataError if a row of X (n, d) is outside [0, 1]."""
        outside = ((X < 0) | (X > 1)).any(axis=1)
        if outside.any():
            row = int(np.argmax(outside))
            hint = "scale the columns to [0, 1], or choose another kernel"
            raise DataError(
                f"{int(outside.sum())} rows lie outside [0, 1] (first: row {row}), but the bernoulli kernel is defined only there",
                hint=hint,
            )

    def text(self) -> str:
        """Return `bernoulli:ν`."""
        return _format_kernel("bernoulli", self.order)


@dataclass(frozen=True)
class ConstantKernel:
    """A constant kernel: the weight of another kernel in a product, or an offset in a sum."""

    value: float

    def matrix(self, X: Array, Y: Array) -> Array:
        """Return a matrix (n, m) filled with the constant."""
        return np.full((len(X), len(Y)), self.value)

    def diagonal(self, X: Array) -> Array:
        """Return a vector (n,) filled with the constant."""
        return np.full(len(X), self.value)

    def check(self, X: Array) -> None:
        """Accept all rows (n, d)."""

    def text(self) -> str:
        """Return the constant as text."""
        return format_shortest_number(self.value)


@dataclass(frozen=True)
class CompositeKernel:
    """A sum or a product of kernels."""

    parts: tuple[Kernel, ...]
    product: bool = False

    def _combine_parts(self, evaluate: Callable[[Kernel], Array]) -> Array:
        total = evaluate(self.parts[0])
        for part in self.parts[1:]:
            total = total * evaluate(part) if self.product else total + evaluate(part)
        return total

    def matrix(self, X: Array, Y: Array) -> Array:
        """Compute the sum or the product of the parts' values (n, m)."""
        return self._combine_parts(lambda part: part.matrix(X, Y))

    def diagonal(self, X: Array) -> Array:
        """Compute the sum or the product of the parts' diagonals (n,)."""
        return self._combine_parts(lambda part: part.diagonal(X))

    def check(self, X: Array) -> None:
        """Raise DataError if a part is not defined on rows X (n, d)."""
        for part in self.parts:
            part.check(X)

    def text(self) -> str:
        """Return the parts' texts, joined by + or *."""
        return ("*" if self.product else "+").join(part.text() for part in self.parts)


def format_shortest_number(number: float) -> str:
    """Return the shortest text that reads back as the same float64, whole numbers without a decimal point."""
    return repr(float(number)).removesuffix(".0")


def _format_kernel(name: str, *parameters: float | None) -> str:
    given = ",".join(format_shortest_number(value) for value in parameters if value is not None)
    return f"{name}:{given}" if given else name


def require_positive_semidefinite(kernel: Kernel, X: Array, *, rows: int = 256) -> None:
    """Raise DataError if the kernel matrix of up to `rows` evenly spaced rows of X (n, d) has a negative eigenvalue."""
    sample = X[:: max(1, len(X) // rows)][:rows]
    eigenvalues = np.linalg.eigvalsh(kernel.matrix(sample, sample))  # the eigenvalues affect no stored result
    # By Cauchy's interlacing a negative eigenvalue of a sample's matrix is one of the kernel; a sample without any proves nothing.
    if eigenvalues[0] < -1e-10 * max(abs(eigenvalues[-1]), np.finfo(float).tiny):
        message = f"the kernel {kernel.text()} is indefinite on these rows (smallest eigenvalue {eigenvalues[0]:.3g})"
        raise DataError(message, hint="use sums and products of kernels with positive weights, which are always positive definite")
