"""Positive definite kernels: values between rows, diagonals, sums and products of kernels.

Rows are float64 (n, d).  A kernel is a frozen dataclass; `matrix` is exact to rounding (distances are taken from
differences, so equal rows are at distance 0), `diagonal` is k(x, x).  A length scale of None is still to be chosen,
see `kernel_names`.
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
    """What every kernel can do."""

    def matrix(self, X: Array, Y: Array) -> Array:
        """(n, m) values k(x_i, y_j) of rows X (n, d) and Y (m, d)."""

    def diagonal(self, X: Array) -> Array:
        """(n,) values k(x_i, x_i) of rows X (n, d)."""

    def check(self, X: Array) -> None:
        """Raise DataError where the kernel is not defined on these rows (n, d)."""

    def text(self) -> str:
        """The kernel as it is written on the command line, parameters included."""


class StationaryKernel:
    """Kernels with k(x, x) = 1 that are defined on all rows."""

    def diagonal(self, X: Array) -> Array:
        """(n,) ones: the distance of rows (n, d) from themselves is 0."""
        return np.ones(len(X))

    def check(self, X: Array) -> None:
        """Every row (n, d) will do."""


def require_length(bandwidth: float | None) -> float:
    """A length scale that must have been chosen by now."""
    if bandwidth is None:
        raise ValueError("the kernel's length scale is not chosen yet")
    return bandwidth


def squared_distances(X: Array, Y: Array) -> Array:
    """(n, m) squared Euclidean distances, from differences."""
    from scipy.spatial.distance import cdist

    found: Array = cdist(X, Y, "sqeuclidean")
    return found


@dataclass(frozen=True)
class GaussianKernel(StationaryKernel):
    """exp(−|x−y|² / 2ℓ²)."""

    bandwidth: float | None = None

    def matrix(self, X: Array, Y: Array) -> Array:
        """(n, m) values exp(−|x_i − y_j|²/2ℓ²)."""
        values = squared_distances(X, Y)
        values *= -0.5 / exact_arithmetic.power(require_length(self.bandwidth), 2)
        return exact_arithmetic.exp(values, out=values)

    def text(self) -> str:
        """`gaussian:ℓ`."""
        return _kernel_text("gaussian", self.bandwidth)


@dataclass(frozen=True)
class LaplaceKernel(StationaryKernel):
    """exp(−‖x−y‖₁ / ℓ), the product over columns of exp(−|x_j−y_j|/ℓ)."""

    bandwidth: float | None = None

    def matrix(self, X: Array, Y: Array) -> Array:
        """(n, m) values exp(−‖x_i − y_j‖₁/ℓ)."""
        from scipy.spatial.distance import cdist

        values: Array = cdist(X, Y, "cityblock")
        values *= -1.0 / require_length(self.bandwidth)
        return exact_arithmetic.exp(values, out=values)

    def text(self) -> str:
        """`laplace:ℓ`."""
        return _kernel_text("laplace", self.bandwidth)


@dataclass(frozen=True)
class MaternKernel(StationaryKernel):
    """Matérn of smoothness ½, 3/2, 5/2 (twice = 1, 3, 5) in s = √(2·smoothness)·|x−y|/ℓ: e^{−s} times 1, 1+s, 1+s+s²/3."""

    twice: int
    bandwidth: float | None = None

    def rate(self) -> float:
        """s per unit of distance."""
        return math.sqrt(self.twice) / require_length(self.bandwidth)

    def matrix(self, X: Array, Y: Array) -> Array:
        """(n, m) values e^{−s} times 1, 1 + s or 1 + s + s²/3, s = rate·|x_i − y_j|."""
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
        """`matern12:ℓ`, `matern32:ℓ` or `matern52:ℓ`."""
        return _kernel_text(f"matern{self.twice}2", self.bandwidth)


@dataclass(frozen=True)
class InverseMultiquadricKernel(StationaryKernel):
    """(1 + |x−y|²/c²)^(−½)."""

    bandwidth: float | None = None

    def matrix(self, X: Array, Y: Array) -> Array:
        """(n, m) values (1 + |x_i − y_j|²/c²)^(−½)."""
        values = squared_distances(X, Y)
        values *= exact_arithmetic.power(require_length(self.bandwidth), -2)
        values += 1.0
        np.sqrt(values, out=values)
        return np.divide(1.0, values, out=values)

    def text(self) -> str:
        """`inverse-multiquadric:c`."""
        return _kernel_text("inverse-multiquadric", self.bandwidth)


@dataclass(frozen=True)
class RationalQuadraticKernel(StationaryKernel):
    """(1 + |x−y|² / 2αℓ²)^(−α)."""

    bandwidth: float | None = None
    alpha: float = 1.0

    def matrix(self, X: Array, Y: Array) -> Array:
        """(n, m) values (1 + |x_i − y_j|²/2αℓ²)^(−α)."""
        values = squared_distances(X, Y)
        values *= 0.5 / (self.alpha * exact_arithmetic.power(require_length(self.bandwidth), 2))
        values += 1.0
        if self.alpha == 1.0:
            return np.divide(1.0, values, out=values)
        values **= -self.alpha
        return values

    def text(self) -> str:
        """`rational-quadratic:ℓ,α`."""
        return _kernel_text("rational-quadratic", self.bandwidth, self.alpha)


@dataclass(frozen=True)
class EnergyKernel:
    """½(|x−c| + |y−c| − |x−y|): MMD² is half the energy distance whatever the centre c, for weights that sum to 1."""

    centre: tuple[float, ...] | None = None

    def norms(self, X: Array) -> Array:
        """(n,) distances to the centre, the origin unless one was given."""
        return np.asarray(np.sqrt(np.square(X if self.centre is None else X - np.asarray(self.centre)).sum(axis=1)))

    def matrix(self, X: Array, Y: Array) -> Array:
        """(n, m) values ½(|x_i − c| + |y_j − c| − |x_i − y_j|)."""
        values = np.sqrt(squared_distances(X, Y))
        values *= -0.5
        values += 0.5 * self.norms(X)[:, None]
        values += 0.5 * self.norms(Y)
        return values

    def diagonal(self, X: Array) -> Array:
        """(n,) distances |x_i − c| of rows (n, d)."""
        return self.norms(X)

    def check(self, X: Array) -> None:
        """Every row (n, d) will do."""

    def text(self) -> str:
        """`energy`."""
        return "energy"


@dataclass(frozen=True)
class PolynomialKernel:
    """(x·y + c)^p; the linear kernel is p = 1, c = 0."""

    degree: int = 1
    offset: float = 0.0

    def matrix(self, X: Array, Y: Array) -> Array:
        """(n, m) values (x_i·y_j + c)^p."""
        return np.asarray(exact_arithmetic.power(exact_arithmetic.product(X, Y.T) + self.offset, self.degree))

    def diagonal(self, X: Array) -> Array:
        """(n,) values (|x_i|² + c)^p."""
        return np.asarray(exact_arithmetic.power(np.square(X).sum(axis=1) + self.offset, self.degree))

    def check(self, X: Array) -> None:
        """Every row (n, d) will do."""

    def text(self) -> str:
        """`linear`, or `polynomial:p,c`."""
        return "linear" if (self.degree, self.offset) == (1, 0.0) else _kernel_text("polynomial", self.degree, self.offset)


@dataclass(frozen=True)
class FeatureKernel:
    """Explicit features: Φ(x) = x, or with `pairs` x and all products x_i x_j, i < j."""

    pairs: bool = False

    def matrix(self, X: Array, Y: Array) -> Array:
        """(n, m) values x·y, with `pairs` plus Σ_{i<j} x_i x_j y_i y_j = ½((x·y)² − Σ_i x_i² y_i²)."""
        values = exact_arithmetic.product(X, Y.T)
        if self.pairs:
            values += 0.5 * (values**2 - exact_arithmetic.product(X**2, (Y**2).T))
        return values

    def diagonal(self, X: Array) -> Array:
        """(n,) values |x|², with `pairs` plus ½(|x|⁴ − Σ_i x_i⁴)."""
        norms = np.square(X).sum(axis=1)
        return np.asarray(norms + 0.5 * (norms**2 - exact_arithmetic.power(X, 4).sum(axis=1)) if self.pairs else norms)

    def check(self, X: Array) -> None:
        """Every row (n, d) will do."""

    def text(self) -> str:
        """`features:x` or `features:x+xx`."""
        return "features:x+xx" if self.pairs else "features:x"


@dataclass(frozen=True)
class HammingKernel(StationaryKernel):
    """The share of columns in which two rows are equal, or with a length λ exp(−(number of unequal columns)/λ)."""

    scale: float | None = None

    def matrix(self, X: Array, Y: Array) -> Array:
        """(n, m) shares of the d columns in which x_i and y_j are equal, or exp(−d (1 − share)/λ)."""
        from scipy.spatial.distance import cdist

        share: Array = cdist(X, Y, "hamming")
        return np.asarray(1.0 - share if self.scale is None else exact_arithmetic.exp(share * (-X.shape[1] / self.scale)))

    def text(self) -> str:
        """`hamming`, or `hamming:λ`."""
        return "hamming" if self.scale is None else _kernel_text("hamming", self.scale)


# (−1)^(ν−1) B_2ν(u) / (2ν)! by powers of u, highest first
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
        """(n, m) values Π_j (1 + k(x_j, y_j)) − 1, multiplied out from column to column: 1 never takes part, so nothing cancels."""
        total: Array | None = None
        for x, y in zip(X.T, Y.T, strict=True):
            u = x[:, None] - y
            u -= np.floor(u)
            values = self._profile(u)
            total = values if total is None else total + values + total * values
        return np.zeros((len(X), len(Y))) if total is None else total

    def _profile(self, u: Array) -> Array:
        return np.polyval(BERNOULLI[self.order], u)

    def diagonal(self, X: Array) -> Array:
        """(n,) values (1 + k(0))^d − 1, one number for all rows (n, d)."""
        return np.full(len(X), exact_arithmetic.power(1.0 + BERNOULLI[self.order][-1], X.shape[1]) - 1.0)

    def check(self, X: Array) -> None:
        """Raise DataError where a row of X (n, d) leaves [0, 1]."""
        outside = ((X < 0) | (X > 1)).any(axis=1)
        if outside.any():
            row = int(np.argmax(outside))
            hint = "scale the columns to [0, 1], or choose another kernel"
            raise DataError(
                f"{int(outside.sum())} rows lie outside [0, 1] (first: row {row}), but the bernoulli kernel is defined only there",
                hint=hint,
            )

    def text(self) -> str:
        """`bernoulli:ν`."""
        return _kernel_text("bernoulli", self.order)


@dataclass(frozen=True)
class ConstantKernel:
    """A number: the weight of another kernel in a product, or an offset in a sum."""

    value: float

    def matrix(self, X: Array, Y: Array) -> Array:
        """(n, m) times the number."""
        return np.full((len(X), len(Y)), self.value)

    def diagonal(self, X: Array) -> Array:
        """(n,) times the number."""
        return np.full(len(X), self.value)

    def check(self, X: Array) -> None:
        """Every row (n, d) will do."""

    def text(self) -> str:
        """The number."""
        return shortest_number(self.value)


@dataclass(frozen=True)
class CompositeKernel:
    """A sum or a product of kernels."""

    parts: tuple[Kernel, ...]
    product: bool = False

    def _combine(self, take: Callable[[Kernel], Array]) -> Array:
        total = take(self.parts[0])
        for part in self.parts[1:]:
            total = total * take(part) if self.product else total + take(part)
        return total

    def matrix(self, X: Array, Y: Array) -> Array:
        """(n, m) the sum or the product of the parts' values."""
        return self._combine(lambda part: part.matrix(X, Y))

    def diagonal(self, X: Array) -> Array:
        """(n,) the sum or the product of the parts' diagonals."""
        return self._combine(lambda part: part.diagonal(X))

    def check(self, X: Array) -> None:
        """Raise DataError where a part is not defined on rows X (n, d)."""
        for part in self.parts:
            part.check(X)

    def text(self) -> str:
        """The parts' texts, joined by + or *."""
        return ("*" if self.product else "+").join(part.text() for part in self.parts)


def shortest_number(number: float) -> str:
    """The shortest text that reads back as the same float64, whole numbers without a point."""
    return repr(float(number)).removesuffix(".0")


def _kernel_text(name: str, *parameters: float | None) -> str:
    given = ",".join(shortest_number(value) for value in parameters if value is not None)
    return f"{name}:{given}" if given else name


def check_definite(kernel: Kernel, X: Array, *, rows: int = 256) -> None:
    """Raise DataError where the kernel matrix of up to `rows` evenly spaced rows of X (n, d) has a negative eigenvalue."""
    sample = X[:: max(1, len(X) // rows)][:rows]
    eigenvalues = np.linalg.eigvalsh(kernel.matrix(sample, sample))  # decides nothing that is written
    if eigenvalues[0] < -1e-10 * max(abs(eigenvalues[-1]), np.finfo(float).tiny):
        message = f"the kernel {kernel.text()} is indefinite on these rows (smallest eigenvalue {eigenvalues[0]:.3g})"
        raise DataError(message, hint="use sums and products of kernels with positive weights, which are always positive definite")
