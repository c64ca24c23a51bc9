"""Target distributions of kernel herding: rows of data, or distributions known in closed form.

A target has samples, an inverse CDF if possible, and its first two moments.  Its mean embeddings by kernel
are in `closed_form_embeddings.py`.  Source: Bach, Lacoste-Julien & Obozinski (2012), sec. 5, with the corrected formulas.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.numerics import exact_arithmetic
from herdcli.records import dataclass
from herdcli.schema import Array

LEAST = 2.0**-53  # level of a distribution function that replaces 0
TAIL = 6.0  # half width of a Gaussian's bounding box in standard deviations


class Target(Protocol):
    """The interface of all targets."""

    @property
    def name(self) -> str:
        """The name on the command line."""

    @property
    def dimension(self) -> int:
        """The number of columns d of a point."""

    def sample(self, random: np.random.Generator, count: int) -> Array:
        """Return independent samples (count, d)."""

    def quantile(self, u: Array) -> Array:
        """Map points u of the unit cube (n, d) through an inverse CDF to (n, d)."""

    def bounding_box(self) -> tuple[Array, Array]:
        """Return the lowest and highest corner (d,) of the support, or of the part that matters."""

    def moments(self) -> tuple[Array, Array | None]:
        """Return the mean (d,) and second moments E xx' (d, d), None if those are not known."""


@dataclass(frozen=True)
class RowTarget:
    """A target of weighted rows X (n, d), weights (n,) that sum to 1."""

    X: Array
    weights: Array
    name: str = "rows"

    @property
    def dimension(self) -> int:
        """The number of columns d of X."""
        return int(self.X.shape[1])

    def sample(self, random: np.random.Generator, count: int) -> Array:
        """Return rows (count, d) sampled by their weights."""
        return np.asarray(self.X[self.draw(random, count)])

    def draw(self, random: np.random.Generator, count: int) -> Array:
        """Return indices (count,) of independently sampled rows."""
        edges = np.cumsum(self.weights)
        found = np.searchsorted(edges, random.random(count) * edges[-1], side="right")
        return np.asarray(np.minimum(found, len(edges) - 1))

    def row_indices_at_levels(self, u: Array) -> Array:
        """Return indices (n,) of rows at levels u (n, 1) of the CDF, for one column."""
        if self.dimension > 1:
            raise BadUsage(
                "--rule sobol needs an inverse CDF, but rows with several columns have none", hint="use --rule random or herding"
            )
        order = np.argsort(self.X[:, 0], kind="stable")
        edges = np.cumsum(self.weights[order])
        return np.asarray(order[np.minimum(np.searchsorted(edges, u[:, 0] * edges[-1], side="right"), len(order) - 1)])

    def quantile(self, u: Array) -> Array:
        """Return the rows (n, d) at levels u (n, 1)."""
        return np.asarray(self.X[self.row_indices_at_levels(u)])

    def bounding_box(self) -> tuple[Array, Array]:
        """Return the smallest and the largest value (d,) of each column."""
        return self.X.min(axis=0), self.X.max(axis=0)

    def moments(self) -> tuple[Array, Array | None]:
        """Compute Σ w x (d,) and Σ w xx' (d, d)."""
        return np.asarray(exact_arithmetic.matrix_product(self.weights, self.X)), exact_arithmetic.matrix_product(
            (self.X * self.weights[:, None]).T, self.X
        )


@dataclass(frozen=True)
class UniformTarget:
    """The uniform distribution on a box, corners low and high (d,)."""

    low: Array
    high: Array
    name: str = "uniform"

    @property
    def dimension(self) -> int:
        """The number of columns d of the box."""
        return len(self.low)

    def sample(self, random: np.random.Generator, count: int) -> Array:
        """Return independent samples (count, d)."""
        return self.quantile(random.random((count, self.dimension)))

    def quantile(self, u: Array) -> Array:
        """Compute low + u (high − low) (n, d)."""
        return np.asarray(self.low + u * (self.high - self.low))

    def bounding_box(self) -> tuple[Array, Array]:
        """Return the box itself (d,)."""
        return self.low, self.high

    def moments(self) -> tuple[Array, Array | None]:
        """Return the middle m (d,), and mm' + diag(width²/12) (d, d)."""
        mean = 0.5 * (self.low + self.high)
        return mean, np.outer(mean, mean) + np.diag((self.high - self.low) ** 2 / 12.0)


@dataclass(frozen=True)
class MixtureTarget:
    """A Gaussian mixture: weights (c,) that sum to 1, means (c, d), covariances (c, d, d); one component is a Gaussian."""

    weights: Array
    means: Array
    covariances: Array
    name: str = "mixture"

    def __post_init__(self) -> None:
        try:
            np.linalg.cholesky(self.covariances)
        except np.linalg.LinAlgError:
            raise DataError("a covariance matrix of the mixture is not positive definite") from None

    @property
    def dimension(self) -> int:
        """The number of columns d of the means."""
        return int(self.means.shape[1])

    def sample(self, random: np.random.Generator, count: int) -> Array:
        """Return samples (count, d): a component by its weight, then m + L z of standard normal z and covariance LL'."""
        edges = np.cumsum(self.weights)
        component = np.minimum(np.searchsorted(edges, random.random(count) * edges[-1], side="right"), len(edges) - 1)
        normal = random.standard_normal((count, self.dimension))
        factors = np.linalg.cholesky(self.covariances)
        return np.asarray(self.means[component] + np.einsum("nij,nj->ni", factors[component], normal))

    def quantile(self, u: Array) -> Array:
        """Map u (n, d) to (n, d): m + L Φ⁻¹(u) for one component.

        For several components in one column the CDF is inverted by bisection.

        u = 0, the first Sobol point, is replaced by 2⁻⁵³.  Raises BadUsage for several components in several columns.
        """
        from scipy.special import ndtri

        if len(self.weights) == 1:
            normal = ndtri(np.maximum(u, LEAST))
            return np.asarray(self.means[0] + normal @ np.linalg.cholesky(self.covariances[0]).T)
        if self.dimension > 1:
            raise BadUsage("--rule sobol needs an inverse CDF, but a mixture with several columns has none", hint="use --rule random")
        low, high = self.bounding_box()
        return _invert_cdf(self._cdf, np.maximum(u[:, 0], LEAST), float(low[0]) - 4 * TAIL, float(high[0]) + 4 * TAIL)[:, None]

    def _cdf(self, x: Array) -> Array:
        from scipy.special import ndtr

        deviations = np.sqrt(self.covariances[:, 0, 0])
        return np.asarray(ndtr((x[:, None] - self.means[:, 0]) / deviations) @ self.weights)

    def bounding_box(self) -> tuple[Array, Array]:
        """Return the hull (d,) of all components' boxes m ± 6 standard deviations."""
        reach = TAIL * np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2))
        return (self.means - reach).min(axis=0), (self.means + reach).max(axis=0)

    def moments(self) -> tuple[Array, Array | None]:
        """Compute Σ π m (d,) and Σ π (S + mm') (d, d)."""
        mean = self.weights @ self.means
        second = np.einsum("c,cij->ij", self.weights, self.covariances + self.means[:, :, None] * self.means[:, None, :])
        return mean, second


@dataclass(frozen=True)
class TrigonometricTarget:
    """The target with density s²/Z on [0, 1], s(x) = Σ_i a_i cos 2πix + b_i sin 2πix, i = 1 … D: a (D,), b (D,)."""

    a: Array
    b: Array
    name: str = "trigonometric"

    def __post_init__(self) -> None:
        if not (self.a.any() or self.b.any()):
            raise DataError("all coefficients of the trigonometric density are 0")

    @property
    def dimension(self) -> int:
        """The number of columns, 1."""
        return 1

    def coefficients(self) -> Array:
        """Compute the complex p_k (2D,), k = 1 … 2D, of the density Σ_k p_k e^{2πikx} (p_0 = 1, p_{−k} the conjugate)."""
        # a cos t + b sin t = ½(a − ib) e^{it} + ½(a + ib) e^{−it}; the coefficients of
        # s² are those of s convolved with themselves, and the middle one is Z = ∫ s².
        half = 0.5 * (self.a - 1j * self.b)
        c = np.concatenate([np.conj(half[::-1]), [0.0], half])
        square = np.convolve(c, c)
        middle = len(square) // 2
        return np.asarray(square[middle + 1 :] / square[middle])

    def density(self, x: Array) -> Array:
        """Compute p(x) (n,) at x (n,)."""
        i = np.arange(1, len(self.a) + 1)
        s = np.cos(2 * np.pi * np.outer(x, i)) @ self.a + np.sin(2 * np.pi * np.outer(x, i)) @ self.b
        return np.asarray(s**2 * 2.0 / (self.a @ self.a + self.b @ self.b))

    def cdf(self, x: Array) -> Array:
        """Compute P(X ≤ x) (n,) at x (n,) in [0, 1]."""
        p = self.coefficients()
        # ∫_0^x e^{2πikt} dt = (e^{2πikx} − 1)/(2πik).  The terms of k and −k are conjugates; their sum is twice the real part of one.
        rate = 2j * np.pi * np.arange(1, len(p) + 1)
        return np.asarray(x + 2.0 * ((np.exp(np.multiply.outer(x, rate)) - 1.0) @ (p / rate)).real)

    def sample(self, random: np.random.Generator, count: int) -> Array:
        """Return samples (count, 1) through the inverse CDF."""
        return self.quantile(random.random((count, 1)))

    def quantile(self, u: Array) -> Array:
        """Map u (n, 1) to (n, 1) through the CDF, inverted by bisection."""
        return _invert_cdf(self.cdf, u[:, 0], 0.0, 1.0)[:, None]

    def bounding_box(self) -> tuple[Array, Array]:
        """Return 0 and 1 (1,)."""
        return np.zeros(1), np.ones(1)

    def moments(self) -> tuple[Array, Array | None]:
        """Raise BadUsage: no kernel needs these moments, (1,) and (1, 1)."""
        raise BadUsage("a trigonometric target works only with bernoulli kernels")


@dataclass(frozen=True)
class MomentTarget:
    """A distribution of which only the mean (d,) and perhaps E xx' (d, d) are known; with `correlation` the signs of a Gaussian vector."""

    mean: Array
    second: Array | None
    correlation: Array | None = None
    name: str = "moments"

    @property
    def dimension(self) -> int:
        """The number of columns d of the mean."""
        return len(self.mean)

    def _normal_factor(self) -> Array:
        if self.correlation is None:
            raise BadUsage("cannot sample from this target: only its moments are known", hint="give --candidates FILE or cube:D")
        values, vectors = np.linalg.eigh(self.correlation)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

    def sample(self, random: np.random.Generator, count: int) -> Array:
        """Return signs (count, d) of samples from N(0, correlation).  Raises BadUsage for moments alone."""
        factor = self._normal_factor()
        return np.where(random.standard_normal((count, self.dimension)) @ factor.T >= 0, 1.0, -1.0)

    def quantile(self, u: Array) -> Array:
        """Return the signs (n, d) of the normal vectors at levels u (n, d).  Raises BadUsage for moments alone."""
        from scipy.special import ndtri

        return np.where(ndtri(np.maximum(u, LEAST)) @ self._normal_factor().T >= 0, 1.0, -1.0)

    def bounding_box(self) -> tuple[Array, Array]:
        """Return −1 and +1 (d,)."""
        return -np.ones(self.dimension), np.ones(self.dimension)

    def moments(self) -> tuple[Array, Array | None]:
        """Return the mean (d,) and E xx' (d, d), None if it is not known."""
        return self.mean, self.second


def make_sign_target(covariance: Array) -> MomentTarget:
    """Make the target of the signs of N(0, covariance).

    Its mean is 0 and E x_i x_j = (2/π) asin ρ_ij, from the orthant probability 1/4 + asin(ρ)/2π.
    """
    scale = np.sqrt(np.diag(covariance))
    if not (scale > 0).all() or not np.allclose(covariance, covariance.T):
        raise DataError("the covariance matrix of --distribution signs must be symmetric with a positive diagonal")
    correlation = np.clip(covariance / np.outer(scale, scale), -1.0, 1.0)
    if np.linalg.eigvalsh(correlation)[0] < -1e-9:
        raise DataError("the covariance matrix of --distribution signs has a negative eigenvalue")
    np.fill_diagonal(correlation, 1.0)
    return MomentTarget(np.zeros(len(scale)), 2.0 / math.pi * np.arcsin(correlation), correlation, name="signs")


def _invert_cdf(cdf: object, u: Array, low: float, high: float) -> Array:
    """Compute the roots (n,) of cdf(x) = u by bisection to the last bit of the interval."""
    left, right = np.full(len(u), low), np.full(len(u), high)
    for _ in range(60):
        middle = 0.5 * (left + right)
        below = cdf(middle) < u  # type: ignore[operator]
        left, right = np.where(below, middle, left), np.where(below, right, middle)
    return np.asarray(0.5 * (left + right))
