"""Mixtures of Gaussians by EM: full, tied, diagonal and spherical covariances, labels, weights and missing values.

    E   r_nk = π_k N(y_n; μ_k, Σ_k) / Σ_j π_j N(y_n; μ_j, Σ_j)                             (one-hot for a labelled row)
    M   π_k = Σ_n r_nk / n,   μ_k = Σ_n r_nk y_n / Σ_n r_nk,   Σ_k = Σ_n r_nk (y_n − μ_k)(y_n − μ_k)' / Σ_n r_nk

Source: Makin, sec. 2.1.1 (eq. 2.6 to 2.10) and 6.4.1; Ghahramani & Jordan (1994) for missing values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any, TypeVar, cast

import numpy as np

from herdcli.algorithm import Map
from herdcli.em.driver import Parameters
from herdcli.em.mixture import cluster_initialization
from herdcli.em.mixture.covariance_prior import CovariancePrior, default_prior_rows, prior_target_covariance
from herdcli.em.mixture.gaussian_densities import (
    LOG_TAU,
    SLAB,
    WHITENED_SLAB,
    PreparedGaussians,
    are_eigenvalues_above_floor,
    is_whitening_faster,
    log_determinants,
    normalise_log_joint,
    precision_roots,
    prepare_gaussians,
    unpack_moments,
)
from herdcli.em.mixture.mixture_e_step import EStep, impute_rows
from herdcli.em.variance_floors import apply_variance_floor, floor_and_column_scales
from herdcli.errors import BadUsage, DataError
from herdcli.numerics.block_statistics import BlockSource, RowBlock, RowMoments, Sums, row_moments, sample_rows
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

COVARIANCES = ("full", "tied", "diagonal", "spherical")
KEPT = 3  # number of cached values computed from parameters

T = TypeVar("T")


@dataclass(frozen=True)
class GMM:
    """The mixture model for `driver.EM`, made by `prepare_gmm`.  Parameters: weight (K,), mean (K, D), covariance (K, D, D).

    per_class  number P of components for each label: those of label c are c·P … (c + 1)·P − 1.
    """

    components: int
    covariance: str
    floor: float
    scale: Array  # (D,) no variance of column d is below floor · scale_d²
    found: RowMoments  # moments of the rows
    source: BlockSource
    init: str
    seed: int
    given: Parameters | None = None
    map: Map = map
    per_class: int = 1
    shrinkage: CovariancePrior | None = None  # the prior of full covariances
    # cached values, see `_compute_cached`
    made: list[tuple[tuple[Array, ...], Any]] = field(default_factory=list, repr=False, compare=False)

    @property
    def diagonal(self) -> bool:
        """Whether statistics contain only squares, without cross products."""
        return self.covariance in ("diagonal", "spherical")

    def start(self, restart: int) -> Parameters:
        """Return equal weights and covariances about the initial means, or the given parameters."""
        if self.given is not None:
            return {name: item.copy() for name, item in self.given.items()}
        random = generator(self.seed, Stream.EM_START, unit=restart)
        rows = cluster_initialization.fill_with_means(sample_rows(self.source, random, self.found.rows), self.found)
        scale = np.sqrt(np.where(self.found.variance > 0, self.found.variance, 1.0))
        return self._parameters_near(
            rows, cluster_initialization.initial_centres(rows, self.components, self.init, random, scale, self.per_class), scale
        )

    def _parameters_near(self, rows: RowBlock, mean: Array, scale: Array) -> Parameters:
        """Return initial parameters from the rows nearest to each mean; each row counts once."""
        parameters = cluster_initialization.moments_by_nearest_centre(rows, mean, scale, self.per_class)
        parameters["covariance"], _ = self._raise_to_floor(
            self._restrict_covariances_to_family(parameters["covariance"], parameters["weight"])
        )
        return parameters

    def expect(self, parameters: Parameters) -> EStep:
        """Return the E step with the statistics packed (K, F), Σ r φ about each component's reference; mass; log-likelihood."""
        own = {name: parameters[name] for name in ("weight", "mean", "covariance")}
        return EStep(self._prepared_gaussians(parameters), own, self.per_class)

    def complete_statistics(self, parameters: Parameters, sums: Sums) -> Sums:
        """Return the statistics and their reference points (K, D)."""
        return sums | {"reference": self._prepared_gaussians(parameters).reference}

    def _compute_cached(self, key_arrays: tuple[Array, ...], make: Callable[[], T]) -> T:
        """Return the value that `make` computes from arrays, cached: E steps of many parts and free energies need the same values."""
        for arrays, found in self.made:
            if len(arrays) == len(key_arrays) and all(one is other for one, other in zip(arrays, key_arrays, strict=True)):
                return cast(T, found)
        value = make()
        self.made[:] = [*self.made[1 - KEPT :], (key_arrays, value)]
        return value

    def _precision_roots(self, parameters: Parameters) -> Array:
        covariance = parameters["covariance"]
        return self._compute_cached((covariance,), lambda: precision_roots(covariance))

    def _prepared_gaussians(self, parameters: Parameters) -> PreparedGaussians:
        of = tuple(parameters[name] for name in ("weight", "mean", "covariance"))
        return self._compute_cached(of, lambda: self._prepare(parameters))

    def _prepare(self, parameters: Parameters) -> PreparedGaussians:
        with np.errstate(divide="ignore"):
            weight = np.log(parameters["weight"])
        roots = self._precision_roots(parameters)
        return prepare_gaussians(
            weight, parameters["mean"], roots, self.found.mean, float(self.found.variance.sum()), diagonal=self.diagonal
        )

    def component_moments(self, parameters: Parameters, sums: Sums) -> tuple[Array, Array, Array]:
        """Return Σ r (K,), Σ r (y − ref) (K, D) and the scatter Σ r (y − ref)(y − ref)' (K, D, D) or (K, D), about the references."""
        packed, D = sums["packed"], parameters["mean"].shape[1]
        return packed[:, 0], packed[:, 1 : 1 + D], unpack_moments(packed, D, self.diagonal)

    def expected_log_likelihood(self, parameters: Parameters, sums: Sums) -> float:
        """Return Σ r_nk log π_k N(y_n; μ_k, Σ_k), from statistics about the references."""
        count, first, second = self.component_moments(parameters, sums)
        d = parameters["mean"] - sums["reference"]
        roots = self._precision_roots(parameters)
        precision = roots.transpose(0, 2, 1) @ roots
        # Σ r (y − μ)'P(y − μ) = tr P S − 2 d'P s + n d'P d, with d = μ − ref, s and S the moments about the reference
        diagonal = np.diagonal(precision, axis1=1, axis2=2)
        trace = (diagonal * second).sum(axis=1) if self.diagonal else np.einsum("kij,kij->k", precision, second)
        towards = np.einsum("kij,kj->ki", precision, d)
        squares = trace + (towards * (count[:, None] * d - 2.0 * first)).sum(axis=1)
        used = count > 0
        constant = self._log_constants(parameters, roots)
        return float((count[used] * constant[used]).sum() - 0.5 * squares[used].sum())

    def _log_constants(self, parameters: Parameters, roots: Array) -> Array:
        """Return log π_k + ½ log |P_k| − ½ D log 2π, (K,)."""
        with np.errstate(divide="ignore"):
            found: Array = np.log(parameters["weight"]) + 0.5 * (log_determinants(roots) - roots.shape[1] * LOG_TAU)
        return found

    def maximise(self, parameters: Parameters, sums: Sums) -> tuple[Parameters, int]:
        """Return weights, means and covariances; a component without rows keeps its mean and covariance."""
        count, first, second = self.component_moments(parameters, sums)
        used = count > 0
        shift = np.divide(first, count[:, None], out=np.zeros_like(first), where=used[:, None])
        mean = np.where(used[:, None], sums["reference"] + shift, parameters["mean"])
        covariance = parameters["covariance"].copy()
        for k in np.flatnonzero(used):
            scatter = np.diag(second[k]) if self.diagonal else second[k]
            # Σ_k = ⟨r (y − μ_k)(y − μ_k)'⟩/⟨r⟩ (Makin, sec. 6.4.1).  With s = μ_k − ref it is the scatter about ref less ss'.
            # The reference is near where that matters, so that few digits cancel.
            covariance[k] = scatter / count[k] - (np.diag(shift[k] ** 2) if self.diagonal else np.outer(shift[k], shift[k]))
            if self.shrinkage is not None:
                covariance[k] = self.shrinkage.shrink(covariance[k], float(count[k]))
        covariance, floors = self._raise_to_floor(self._restrict_covariances_to_family(covariance, count))
        return {"weight": count / count.sum(), "mean": mean, "covariance": covariance}, floors

    def _restrict_covariances_to_family(self, covariance: Array, count: Array) -> Array:
        """Return the maximum-likelihood covariances of the family: one shared covariance, diagonals, or mean variances."""
        K, D, _ = covariance.shape
        if self.covariance == "tied":
            # Σ_k n_k (log|Σ_k| + tr Σ_k⁻¹S_k) is least at Σ_k = S_k; with one Σ for all at the mean of the S_k by n_k; among diagonal ones
            # at diag S_k; among sI at s = tr S_k/D.
            shared = np.einsum("k,kij->ij", count / count.sum(), covariance)
            return np.repeat(shared[None], K, axis=0)
        if self.covariance == "spherical":
            variance: Array = (np.trace(covariance, axis1=1, axis2=2) / D)[:, None, None] * np.eye(D)
            return variance
        return covariance * np.eye(D) if self.covariance == "diagonal" else covariance

    def _raise_to_floor(self, covariance: Array) -> tuple[Array, int]:
        """Return covariances with eigenvalues raised to the floor, for columns divided by their scales, and the number raised.

        Among all Σ whose eigenvalues are at least f, n log |Σ| + tr Σ⁻¹S is least at the eigenvectors of S with the
        eigenvalues max(λ, f).  So the floor is part of the M step and does not raise the free energy.
        """
        raised, found = 0, covariance.copy()
        if not self.diagonal and are_eigenvalues_above_floor(covariance / np.outer(self.scale, self.scale), self.floor):
            return found, 0
        one_for_all = self.covariance == "spherical"
        scale = np.ones(len(self.scale)) if one_for_all else self.scale
        for k, one in enumerate(covariance[:1] if self.covariance == "tied" else covariance):
            value, low = apply_variance_floor(one, self.floor, scale, self.diagonal)
            if low:
                found[k], raised = value, raised + (1 if one_for_all else low)
        return (np.repeat(found[:1], len(found), axis=0) if self.covariance == "tied" else found), raised

    def penalty(self, parameters: Parameters) -> float:
        """Return the log density of the prior of the covariances; 0 without one, as in maximum likelihood."""
        if self.shrinkage is None:
            return 0.0
        roots = self._precision_roots(parameters)
        return self.shrinkage.log_density(roots.transpose(0, 2, 1) @ roots, log_determinants(roots))

    def with_shrinkage(self, rows: float | None) -> GMM:
        """Return this model with full covariances pulled towards their common one as by `rows` rows; None: as the rows require.

        Weights above 1 count as rows that occur several times; smaller ones do not make rows fewer.
        """
        K, mass = self.components, self.found.mass
        count = max(mass, float(self.found.rows))
        weight = default_prior_rows(count, len(self.found.mean), K) * mass / count if rows is None else rows
        if self.covariance != "full" or not weight or K == 1:
            return self
        return replace(self, shrinkage=CovariancePrior(weight, prior_target_covariance(self.start(0), count)))

    def memory(self) -> int:
        """Return the bytes of packed statistics, features and log joints."""
        D = len(self.found.mean)
        width = 1 + D + (D if self.diagonal else D * (D + 1) // 2)
        work = (
            WHITENED_SLAB * (3 * D + self.components)
            if is_whitening_faster(D, self.components) and not self.diagonal
            else SLAB * (width + self.components)
        )
        return 8 * (2 * self.components * width + work)

    def initialisation_memory(self) -> int:
        """Return the bytes needed for finding initial parameters."""
        return 0 if self.given is not None else cluster_initialization.initialisation_bytes(self.found, self.components)

    def single_gaussian_covariance(self) -> Array:
        """Return the covariance (D, D) of one Gaussian of this family for all rows."""
        found: Array = self._raise_to_floor(self._restrict_covariances_to_family(self.found.covariance[None], np.ones(1)))[0][0]
        return found

    def start_from_means(self, mean: Array) -> GMM:
        """Return this model with an initialisation from means (K, D) and the rows nearest to each."""
        random = generator(self.seed, Stream.EM_START)
        rows = cluster_initialization.fill_with_means(sample_rows(self.source, random, self.found.rows), self.found)
        scale = np.sqrt(np.where(self.found.variance > 0, self.found.variance, 1.0))
        return replace(self, given=self._parameters_near(rows, mean, scale))

    def responsibilities(self, parameters: Parameters, X: Array) -> tuple[Array, Array]:
        """Return posteriors (n, K) and log p(y) (n,) of rows; those with missing values use their observed values."""
        return posteriors_under_gaussians(parameters, X, self._prepared_gaussians(parameters))


def mixture_posteriors(parameters: Parameters, X: Array, covariance: str = "full") -> tuple[Array, Array]:
    """Return posteriors (n, K) and log densities (n,) of rows (n, D) under a mixture; NaN is a missing value."""
    weight, mean = parameters["weight"], parameters["mean"]
    centre = weight @ mean
    spread = float(weight @ (np.trace(parameters["covariance"], axis1=1, axis2=2) + np.square(mean - centre).sum(axis=1)))
    with np.errstate(divide="ignore"):
        log_weight = np.log(weight)
    roots = precision_roots(parameters["covariance"])
    made = prepare_gaussians(log_weight, mean, roots, centre, spread, diagonal=covariance in ("diagonal", "spherical"))
    return posteriors_under_gaussians(parameters, np.asarray(X, dtype=np.float64), made)


def posteriors_under_gaussians(parameters: Parameters, X: Array, gaussians: PreparedGaussians) -> tuple[Array, Array]:
    """Return posteriors (n, K) and log densities (n,) of rows (n, D) under prepared Gaussians; NaN is a missing value."""
    found, evidence = np.empty((len(X), len(parameters["weight"]))), np.empty(len(X))
    absent = np.isnan(X)
    whole = np.flatnonzero(~absent.any(axis=1)) if absent.any() else None
    for start in range(0, len(X) if whole is None else len(whole), SLAB):
        part = slice(start, start + SLAB)
        rows = part if whole is None else whole[part]
        Y = X[rows]
        joint = gaussians.log_joint(gaussians.features(Y), Y)
        evidence[rows] = normalise_log_joint(joint)
        found[rows] = joint.T
    if whole is None:
        return found, evidence
    with np.errstate(divide="ignore"):
        weight = np.log(parameters["weight"])
    broken = np.flatnonzero(absent.any(axis=1))
    patterns, which = np.unique(absent[broken], axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        rows = broken[which.ravel() == number]
        both = zip(parameters["mean"], parameters["covariance"], strict=True)
        joint = weight[:, None] + np.array([impute_rows(X[rows], pattern, m, S)[0] for m, S in both])
        evidence[rows] = normalise_log_joint(joint)
        found[rows] = joint.T
    return found, evidence


def prepare_gmm(
    source: BlockSource,
    components: int,
    *,
    covariance: str = "full",
    floor: float | None = None,
    init: str = "kmeans++",
    seed: int = 0,
    start: Parameters | None = None,
    map: Map = map,
) -> GMM:
    """Return a mixture of `components` Gaussians for the rows of a source.

    floor   least variance in any direction; by default each column has its own, see `variance_floors.floor_and_column_scales`.  0: none.
    init    kmeans++, random (random rows) or kmeans.
    start   initial parameters, in place of `init`.
    Raises BadUsage for invalid settings, DataError for fewer rows than components.
    """
    if covariance not in COVARIANCES:
        raise BadUsage(f"unknown covariance '{covariance}', expected {', '.join(COVARIANCES)}")
    if components < 1 or (floor is not None and floor < 0):
        raise BadUsage("the number of components must be at least 1, and the variance floor must not be negative")
    found = row_moments(source, map)
    if found.rows < components:
        raise DataError(f"{found.rows} rows are too few for {components} components", hint=f"use --components {found.rows} or fewer")
    if start is not None and start["mean"].shape != (components, len(found.mean)):
        raise DataError(f"the initial model has means of shape {start['mean'].shape}, expected {(components, len(found.mean))}")
    return GMM(components, covariance, *floor_and_column_scales(found.variance, found.mean, floor), found, source, init, seed, start, map)


def parameter_count(components: int, columns: int, covariance: str) -> int:
    """Return the number of free parameters: K − 1 weights, K D means, and the covariances."""
    K, D = components, columns
    return K - 1 + K * D + {"full": K * D * (D + 1) // 2, "tied": D * (D + 1) // 2, "diagonal": K * D, "spherical": K}[covariance]


def information_criteria(log_likelihood: float, rows: float, parameters: int) -> dict[str, float]:
    """Return AIC and BIC; smaller is better.  log_likelihood  total over the rows.

    BIC = −2 log L + p log n.  Source: Schwarz (1978).
    """
    return {"aic": -2 * log_likelihood + 2 * parameters, "bic": -2 * log_likelihood + parameters * float(np.log(rows))}
