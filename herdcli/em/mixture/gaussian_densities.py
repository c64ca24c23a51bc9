"""Log densities and second moments of many Gaussians at once, as products with quadratic features of the rows.

With z = y − c about one centre c, m = μ_k − c and precision P_k,

    log N(y; μ_k, Σ_k) = h_k − ½ (z − m)' P_k (z − m) = (h_k − ½ m' P_k m) + (P_k m)'z − ½ Σ_i P_ii z_i² − Σ_{i<j} P_ij z_i z_j,

which is linear in φ(z) = (1, z, z_i z_j for i ≤ j).  So the log densities of a slab of rows are one matrix product Θ φ, and the
statistics Σ_n r_nk (1, z_n, z_n z_n') are one product R φ'.  Each costs half of the whitening by every component.

The expansion loses digits for a component that is narrow relative to its distance from c: the terms that cancel are of the size
|P_k| |z|².  Components beyond NARROW are computed by whitening, with statistics about their own mean.  So are all components of wide
rows: the D²/2 features of a row serve all components, which pays for many components, but they exceed the cache where D is large.
"""

from __future__ import annotations

import math

import numpy as np

from herdcli import fast
from herdcli.errors import Diverged
from herdcli.records import dataclass
from herdcli.schema import Array

SLAB = 512  # rows whose features stay in the cache
WHITENED_SLAB = 2048  # rows per slab for wide data
WIDE = (24, 200)  # columns up to which features are always used, and beyond which never; between them they are used for D ≤ 4 K
NARROW = 1e5  # a component loses digits if its |P| |z|² is larger than this times the number of columns
LOG_TAU = math.log(2 * math.pi)
LOWEST = np.finfo(np.float64).min
MARGIN = 1e-10  # eigenvalues are clearly above a floor if they exceed it by this share of the trace


def quadratic_feature_indices(columns: int, diagonal: bool) -> tuple[Array, Array]:
    """Return indices (i, j) of the quadratic features, i ≤ j; only i = j if `diagonal`."""
    return (np.arange(columns),) * 2 if diagonal else np.triu_indices(columns)


def quadratic_features(Z: Array, diagonal: bool) -> Array:
    """Return φ (F, m) of centred rows (m, D), one feature per row so that products run along contiguous memory."""
    columns = np.ascontiguousarray(Z.T)
    D = len(columns)
    found = np.empty((1 + D + (D if diagonal else D * (D + 1) // 2), Z.shape[0]))
    found[0], found[1 : 1 + D] = 1.0, columns
    if diagonal:
        np.multiply(columns, columns, out=found[1 + D :])
    else:
        fast.pair_products(columns, found[1 + D :])
    return found


@dataclass(frozen=True)
class PreparedGaussians:
    """K Gaussians in the form y ↦ offset_k − ½ |roots_k (y − mean_k)|²."""

    centre: Array  # (D,)
    mean: Array  # (K, D)
    roots: Array  # (K, D, D), P_k = roots_k' roots_k, lower triangular
    offset: Array  # (K,), including the log weight
    narrow: Array  # (K,) booleans
    theta: Array  # (K, F); rows of narrow components are 0
    diagonal: bool

    @property
    def reference(self) -> Array:
        """The points (K, D) about which each component's statistics are taken."""
        return np.where(self.narrow[:, None], self.mean, self.centre)

    @property
    def uses_whitening(self) -> bool:
        """Whether all components are computed by whitening and none by features."""
        return bool(self.narrow.all())

    def features(self, Y: Array) -> Array:
        """Return φ (F, m) of rows Y (m, D), or an empty array if no component needs it."""
        return np.empty((0, len(Y))) if self.uses_whitening else quadratic_features(Y - self.centre, self.diagonal)

    def log_joint(self, phi: Array, Y: Array) -> Array:
        """Return log π_k N(y; μ_k, Σ_k) (K, m) of rows Y (m, D) with features phi."""
        found: Array = np.empty((len(self.mean), len(Y))) if self.uses_whitening else self.theta @ phi
        for k in np.flatnonzero(self.narrow):
            white = self.roots[k] @ (Y - self.mean[k]).T
            np.einsum("dm,dm->m", white, white, out=found[k])
            found[k] *= -0.5
            found[k] += self.offset[k]
        found[np.isneginf(self.offset)] = -np.inf
        return found

    def weighted_feature_sums(self, phi: Array, Y: Array, weight: Array) -> Array:
        """Return Σ_n w_kn φ(y_n − ref_k) (K, F) of rows Y (m, D) with features phi and weights (K, m)."""
        if not self.uses_whitening:
            found: Array = weight @ phi.T
        else:
            found = np.empty((len(self.mean), self.theta.shape[1]))
        for k in np.flatnonzero(self.narrow):
            found[k] = sum_weighted_features(Y - self.mean[k], weight[k], self.diagonal)
        return found


def log_determinants(roots: Array) -> Array:
    """Return log |P_k| (K,) from lower triangular roots."""
    found: Array = 2.0 * np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
    return found


def precision_roots(covariance: Array) -> Array:
    """Return L⁻¹ (K, D, D) of Σ_k = L L'.  Raises Diverged for a covariance that is not positive definite."""
    from scipy.linalg.lapack import dpotrf, dtrtrs  # as slow to import as all else, and not needed by all models

    found, identity = np.empty_like(covariance), np.eye(covariance.shape[1])
    for k, one in enumerate(covariance):  # LAPACK itself: SciPy's checks take longer than factorising a small matrix
        root, wrong = dpotrf(one, lower=1, clean=1) if np.isfinite(one).all() else (one, 1)
        if wrong:
            raise Diverged(f"the covariance of component {k} is singular", hint="use a --floor above 0, or fewer --components")
        found[k] = dtrtrs(root, identity, lower=1)[0]
    return found


def are_eigenvalues_above_floor(covariance: Array, floor: float) -> bool:
    """Return whether all eigenvalues of all matrices (K, D, D) are clearly above the floor; False if that needs a closer look.

    All eigenvalues of S are above f if S − f I has a Cholesky factor, at a fraction of the cost of eigenvalues.  The margin is far above
    the rounding error of either.
    """
    largest = np.trace(covariance, axis1=1, axis2=2)
    margin = floor + MARGIN * np.where(np.isfinite(largest), largest, 0.0)
    try:
        np.linalg.cholesky(covariance - margin[:, None, None] * np.eye(covariance.shape[1]))
    except np.linalg.LinAlgError:
        return False
    return bool(np.isfinite(covariance).all())


def prepare_gaussians(
    log_weight: Array, mean: Array, roots: Array, centre: Array, spread: float, *, diagonal: bool, extra: Array | None = None
) -> PreparedGaussians:
    """Return Gaussians with log weights (K,), means (K, D) and precision roots (K, D, D), prepared for rows.

    spread  Σ of the variances of the rows, a measure of their distance from the centre.
    extra   (K,) added to the offsets: the correction of variational Bayes.
    """
    D = mean.shape[1]
    # log π N(y; μ, P⁻¹) = log π + ½ log|P| − ½ D log 2π − ½ |root (y − μ)|², root'root = P.
    offset = log_weight + 0.5 * (log_determinants(roots) - D * LOG_TAU)
    if extra is not None:
        offset = offset + extra
    precision = roots.transpose(0, 2, 1) @ roots
    m = mean - centre
    towards = np.einsum("kij,kj->ki", precision, m)
    largest = np.trace(precision, axis1=1, axis2=2)
    narrow = largest * (spread + np.square(m).sum(axis=1)) > NARROW * D
    narrow |= is_whitening_faster(D, len(mean)) and not diagonal
    i, j = quadratic_feature_indices(D, diagonal)
    finite = np.where(np.isneginf(offset), 0.0, offset)
    constant = finite - 0.5 * np.einsum("ki,ki->k", m, towards)
    # In −½ z'Pz a pair i < j occurs twice: its feature has the coefficient −P_ij, a square −½ P_ii.
    theta = np.concatenate([constant[:, None], towards, -np.where(i == j, 0.5, 1.0) * precision[:, i, j]], axis=1)
    theta[narrow] = 0.0
    return PreparedGaussians(centre, mean, roots, offset, narrow, theta, diagonal)


def is_whitening_faster(columns: int, components: int) -> bool:
    """Return whether whitening by each component is faster than features."""
    return columns > min(WIDE[1], max(WIDE[0], 4 * components))


def sum_weighted_features(Z: Array, weight: Array, diagonal: bool) -> Array:
    """Return Σ_n w_n φ(z_n) (F,) of rows Z (m, D) with weights (m,)."""
    if diagonal:
        found: Array = quadratic_features(Z, diagonal) @ weight
        return found
    weighted = Z * weight[:, None]
    return np.concatenate([[weight.sum()], weighted.sum(axis=0), (weighted.T @ Z)[quadratic_feature_indices(Z.shape[1], diagonal)]])


def normalise_log_joint(joint: Array) -> Array:
    """Replace log joints (K, m) by posteriors in place; return their log normalisers (m,).

    log Σ_k e^{a_k} = a_max + log Σ_k e^{a_k − a_max}.
    """
    largest = joint.max(axis=0)
    joint -= np.maximum(largest, LOWEST)  # −∞ minus itself is NaN
    np.exp(joint, out=joint)
    scale = joint.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        joint /= scale
        found: Array = largest + np.log(scale)
    return found


def unpack_moments(packed: Array, columns: int, diagonal: bool) -> Array:
    """Return feature statistics (K, F) as second moments (K, D, D), or (K, D) if `diagonal`."""
    quadratic = packed[:, 1 + columns :]
    if diagonal:
        return quadratic
    i, j = quadratic_feature_indices(columns, diagonal=False)
    found = np.empty((len(packed), columns, columns))
    found[:, i, j] = quadratic
    found[:, j, i] = quadratic
    return found
