"""Four common similarities of faces: correlation, eigenfaces, fisherfaces, and a ratio of two models of differences.

Each takes training images (n, D), and the persons (n,) where needed.  It returns a function of probes (P, D) and gallery
images (G, D) with values (P, G) in float64; a larger value means more similar.
Source: Teh (2003), sec. 3.5.2; Turk & Pentland (1991); Belhumeur, Hespanha & Kriegman (1996); Moghaddam, Wahid & Pentland (1998).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from herdcli.errors import DataError
from herdcli.numerics.principal_components import fit_principal_components
from herdcli.records import dataclass
from herdcli.schema import Array

Similarity = Callable[[Array, Array], Array]


def cosine_similarity(probes: Array, gallery: Array) -> Array:
    """Return the cosine of the angle between two images as vectors of intensities; 0 for an image of zeros."""
    return _normalise_rows(probes) @ _normalise_rows(gallery).T


def _normalise_rows(X: Array) -> Array:
    X = np.asarray(X, dtype=np.float64)
    length = np.sqrt(np.einsum("ij,ij->i", X, X))[:, None]
    return X / np.where(length == 0, 1.0, length)


@dataclass(frozen=True)
class Projection:
    """The similarity of images minus `mean` (D,) projected on the rows of `basis` (R, D): the cosine of their angle."""

    mean: Array
    basis: Array

    def __call__(self, probes: Array, gallery: Array) -> Array:
        return cosine_similarity(self._project(probes), self._project(gallery))

    def _project(self, X: Array) -> Array:
        projected: Array = np.asarray(X, dtype=np.float64) @ self.basis.T - self.mean @ self.basis.T
        return projected


def fit_eigenfaces(train: Array, *, components: int = 199, drop: int = 1) -> Projection:
    """Return the similarity in the principal components drop + 1 … drop + components of the training images, or fewer if they span fewer.

    The first components may reflect lighting rather than persons.  Raises DataError if none is left.
    """
    found = fit_principal_components(train, drop + components)
    if len(found.components) <= drop:
        raise DataError(f"the training images span {found.rank} directions, so none is left when the first {drop} are dropped")
    return Projection(found.mean, found.components[drop:])


def fit_fisherfaces(train: Array, persons: Array, *, components: int = 200) -> Projection:
    """Return the similarity in the subspace that maximises variance between persons relative to variance within them.

    It has at most one dimension fewer than there are persons.
    It lies in the span of the first n − C principal components of n images of C persons, in which every direction varies within
    persons.  Angles in a subspace need an orthonormal basis.  With eigenvectors scaled to unit variance within persons, the few
    directions in which the training images hardly vary would dominate.  On ORL half of all probes are then wrong, with this basis one in
    twelve.  Raises DataError unless there are two persons, one of them with two images.
    """
    _, index, counts = np.unique(persons, return_inverse=True, return_counts=True)
    n, C = len(train), len(counts)
    if C < 2 or n == C:
        raise DataError(
            f"fisherfaces need at least two persons, one of them with at least two images, but there are {n} images of {C} persons"
        )
    space = fit_principal_components(train, n - C)
    Z = space.project(train)
    means = np.zeros((C, Z.shape[1]))
    np.add.at(means, index, Z)
    means /= counts[:, None]
    # S_b u = μ S_t u is S_b u = μ/(1−μ) S_w u, and S_t = n·diag(λ) is never singular.
    scale = 1.0 / np.sqrt(n * space.eigenvalues)
    between = (means * np.sqrt(counts)[:, None] * scale).T
    _, vectors = np.linalg.eigh(between @ between.T)
    kept = min(components, C - 1, len(vectors))
    basis, _ = np.linalg.qr(vectors[:, ::-1][:, :kept] * scale[:, None])
    return Projection(space.mean, basis.T @ space.components)


@dataclass(frozen=True)
class DifferenceDensity:
    """A probabilistic PCA model of differences of images: N(0, U diag(λ) U' + σ²(1 − UU')) in D dimensions."""

    components: Array  # (q, D)
    eigenvalues: Array  # (q,)
    noise: float  # σ²
    dimension: int  # D, number of varying pixels

    def log_density(self, probes: Array, gallery: Array) -> Array:
        """Return log p(x − g) of all pairs (P, G), in nats; the arrays are float64."""
        # With C = U diag(λ) U' + σ²(1 − UU'): (x − g)'C⁻¹(x − g) is |diag(λ)^−½ U'(x − g)|² + |rest|²/σ², |rest|² = |x − g|² − |U'(x −
        # g)|², and log|C| = Σ log λ + (D − q) log σ².
        inside = _squared_distances(probes @ self.components.T, gallery @ self.components.T, 1.0)
        scaled = _squared_distances(probes @ self.components.T, gallery @ self.components.T, 1.0 / np.sqrt(self.eigenvalues))
        rest = np.maximum(_squared_distances(probes, gallery, 1.0) - inside, 0.0)
        volume = np.log(self.eigenvalues).sum() + (self.dimension - len(self.eigenvalues)) * np.log(self.noise)
        density: Array = -0.5 * (self.dimension * np.log(2 * np.pi) + volume + scaled + rest / self.noise)
        return density


def _squared_distances(x: Array, y: Array, scale: Array | float) -> Array:
    x, y = x * scale, y * scale
    squared: Array = np.maximum(np.sum(x * x, axis=1)[:, None] + np.sum(y * y, axis=1) - 2 * x @ y.T, 0.0)
    return squared


@dataclass(frozen=True)
class DifferenceRatio:
    """The similarity log p(x − g | same person) − log p(x − g | two persons).

    Images are taken relative to `mean`, which loses no digits.
    """

    mean: Array
    within: DifferenceDensity
    between: DifferenceDensity

    def __call__(self, probes: Array, gallery: Array) -> Array:
        x, g = (np.asarray(part, dtype=np.float64) - self.mean for part in (probes, gallery))
        return self.within.log_density(x, g) - self.between.log_density(x, g)


def fit_delta_ppca(train: Array, persons: Array, *, within: int = 10, between: int = 30) -> DifferenceRatio:
    """Return the log ratio of two probabilistic PCA models, of differences within persons and of differences between persons.

    They have at most `within` and `between` dimensions.
    The sums over pairs are sums over images: Σ_ij (x_i − x_j)(x_i − x_j)' = 2n S of n images with scatter S about their mean.
    Raises DataError unless there are two persons, one of them with two images that differ.
    """
    _, index, counts = np.unique(persons, return_inverse=True, return_counts=True)
    n, C = len(train), len(counts)
    if C < 2 or n == C:
        raise DataError(f"δppca needs at least two persons, one of them with at least two images, but there are {n} images of {C} persons")
    space = fit_principal_components(train)
    Z = space.project(train)
    same = np.zeros((Z.shape[1], Z.shape[1]))
    for person, count in enumerate(counts):
        part = Z[index == person]
        part = part - part.mean(axis=0)
        same += 2 * count * (part.T @ part)
    # All ordered pairs, 2n · n diag(λ) in the principal axes, minus those within persons.
    other = 2 * n * n * np.diag(space.eigenvalues) - same
    pairs = float(np.sum(counts * (counts - 1)))
    dimension = int(np.count_nonzero(np.ptp(train, axis=0)))
    models = [
        _fit_ppca(scatter / count, space.components, wanted, dimension)
        for scatter, count, wanted in ((same, pairs, within), (other, n * n - pairs - n, between))
    ]
    return DifferenceRatio(space.mean, *models)


def _fit_ppca(covariance: Array, basis: Array, count: int, dimension: int) -> DifferenceDensity:
    """Return the maximum-likelihood model for a covariance (R, R) in an orthonormal basis (R, D).

    Source: Tipping & Bishop (1997), eq. 7, 8.
    """
    eigenvalues, vectors = np.linalg.eigh(covariance)
    eigenvalues, vectors = eigenvalues[::-1], vectors[:, ::-1]
    rank = int(np.count_nonzero(eigenvalues > 1e-12 * eigenvalues[0])) if eigenvalues[0] > 0 else 0
    kept = min(count, rank - 1, dimension - 1)
    if kept < 1:
        raise DataError("δppca needs differences that vary in two directions at least")
    noise = float(eigenvalues[kept:rank].sum() / (dimension - kept))
    return DifferenceDensity(vectors[:, :kept].T @ basis, eigenvalues[:kept].copy(), noise, dimension)
