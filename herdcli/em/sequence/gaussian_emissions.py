"""Emissions of Gaussians or mixtures of Gaussians, with the M step of `em.mixture.gmm`: one set of components per state.

With components m of state k, p(y | k) = Σ_m c_km N(y; μ_km, Σ_km); a row counts for a component with weight γ_t(k) times the
component's posterior in its state.  Rows with missing values are conditioned on the observed ones, as in mixtures; a row without any
value carries no information.
Source: Rabiner (1989), eq. 49 to 54; Makin, sec. 6.4.1 and 6.4.2.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.em.driver import Parameters
from herdcli.em.mixture import cluster_initialization, gmm
from herdcli.em.mixture.gaussian_densities import SLAB, PreparedGaussians, precision_roots, prepare_gaussians, quadratic_features
from herdcli.em.mixture.mixture_e_step import impute_rows
from herdcli.em.sequence.forward_backward import ScaledLikelihoods, log_sum_exp, scale_likelihoods
from herdcli.em.variance_floors import floor_and_column_scales
from herdcli.errors import BadUsage
from herdcli.numerics.block_statistics import BlockSource, RowBlock, RowMoments, Sums
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class GaussianEmission:
    """The Gaussian emission family.  Parameters: mixing (K, M), mean (K, M, D), covariance (K, M, D, D)."""

    covariance: str
    mixtures: int
    floor: float
    scale: Array  # (D,) no variance of column d is below floor · scale_d²
    found: RowMoments
    source: BlockSource  # source of the rows, which mixtures require and chains do not read

    @classmethod
    def from_moments(
        cls, moments: RowMoments, source: BlockSource, covariance: str, mixtures: int, floor: float | None
    ) -> GaussianEmission:
        """Return the family for rows with these moments; by default each column has its own floor.

        See `variance_floors.floor_and_column_scales`.
        """
        if covariance not in gmm.COVARIANCES or mixtures < 1:
            raise BadUsage(f"unknown covariance '{covariance}', expected {', '.join(gmm.COVARIANCES)}")
        return cls(covariance, mixtures, *floor_and_column_scales(moments.variance, moments.mean, floor), moments, source)

    @property
    def name(self) -> str:
        """The name of the family, as in --emission."""
        return "gaussian" if self.mixtures == 1 else "gmm"

    @property
    def columns(self) -> int:
        """The number of columns of a row."""
        return len(self.found.mean)

    @property
    def diagonal(self) -> bool:
        """Whether statistics contain only squares, without cross products."""
        return self.covariance in ("diagonal", "spherical")

    def work_per_row(self, states: int) -> int:
        """Return the log-likelihoods of components, by component and by row, their exponentials, and marks of missing values."""
        components = states * self.mixtures
        return (3 if self.mixtures == 1 else 5) * components + len(self.found.mean) * (1 + bool(self.found.missing))

    def work_per_block(self) -> int:
        """Return the features of the rows of two slabs."""
        D = len(self.found.mean)
        return 2 * SLAB * (1 + 2 * D + (D if self.diagonal else D * (D + 1) // 2))

    def _mixture(self, states: int) -> gmm.GMM:
        """Return a mixture of all components of all states, for their M step."""
        return gmm.GMM(states * self.mixtures, self.covariance, self.floor, self.scale, self.found, self.source, "random", 0)

    def prepare_emission(self, parameters: Parameters) -> _PreparedGaussian:
        """Return the emissions with precisions and offsets, prepared for an E step."""
        flat = flatten_components(parameters)
        with np.errstate(divide="ignore"):
            weight = np.log(flat["weight"])
        roots, spread = precision_roots(flat["covariance"]), float(self.found.variance.sum())
        made = prepare_gaussians(weight, flat["mean"], roots, self.found.mean, spread, diagonal=self.diagonal)
        return _PreparedGaussian(made, flat, self.mixtures)

    def zero_statistics(self, states: int) -> Sums:
        """Return packed moments (K M, F) of no rows, about the components' references."""
        D = len(self.found.mean)
        return {"packed": np.zeros((states * self.mixtures, 1 + D + (D if self.diagonal else D * (D + 1) // 2)))}

    def complete_statistics(self, parameters: Parameters, sums: Sums) -> Sums:
        """Return the statistics with their references."""
        return sums | {"reference": self.prepare_emission(parameters).gaussians.reference}

    def expected_log_likelihood(self, parameters: Parameters, sums: Sums) -> float:
        """Return Σ γ r log c N."""
        return self._mixture(len(parameters["mean"])).expected_log_likelihood(flatten_components(parameters), sums)

    def maximise(self, parameters: Parameters, sums: Sums) -> tuple[Parameters, int]:
        """Return weighted means and covariances, and the mixing proportions within each state."""
        K, M, D = parameters["mean"].shape
        found, floors = self._mixture(K).maximise(flatten_components(parameters), sums)
        count = sums["packed"][:, 0].reshape(K, M)
        total = count.sum(axis=1, keepdims=True)
        mixing = np.divide(count, total, out=parameters["mixing"].copy(), where=total > 0)
        return {"mixing": mixing, "mean": found["mean"].reshape(K, M, D), "covariance": found["covariance"].reshape(K, M, D, D)}, floors

    def start(self, X: Array, weight: Array, state: Array, states: int, random: np.random.Generator) -> Parameters:
        """Return the moments of each state's rows, divided among its components by k-means++ within the state."""
        rows = cluster_initialization.fill_with_means(RowBlock(0, X, None, weight), self.found)
        scale = np.sqrt(np.where(self.found.variance > 0, self.found.variance, 1.0))
        M, D = self.mixtures, X.shape[1]
        centre, label = np.repeat(self.found.mean[None], states * M, axis=0), np.empty(len(X), dtype=np.int64)
        for k in range(states):
            own = np.flatnonzero(state == k)
            if not len(own):
                continue
            Z = rows.X[own] / scale
            chosen = (
                cluster_initialization.greedy_kmeans_pp(Z, M, random, weight[own]) if weight[own].any() else np.zeros(M, dtype=np.int64)
            )
            centre[k * M : (k + 1) * M] = rows.X[own[chosen]] if M > 1 else rows.X[own].mean(axis=0)
            far = np.square(Z[:, None] - centre[k * M : (k + 1) * M] / scale).sum(axis=-1)
            label[own] = k * M + far.argmin(axis=1)
        found = cluster_initialization.moments_by_nearest_centre(replace(rows, labels=label), centre, scale)
        mixing = found["weight"].reshape(states, M)
        sums = self._statistics_from(found, self.found.mean)
        flat, _ = self._mixture(states).maximise(found, sums)
        mean, covariance = flat["mean"].reshape(states, M, D), flat["covariance"].reshape(states, M, D, D)
        return {"mixing": mixing / mixing.sum(axis=1, keepdims=True), "mean": mean, "covariance": covariance}

    def _statistics_from(self, parameters: Parameters, reference: Array) -> Sums:
        """Return statistics whose M step gives these weights, means and covariances, in the shape of the family."""
        weight, d = parameters["weight"], parameters["mean"] - reference
        second = parameters["covariance"] + d[:, :, None] * d[:, None, :]
        i, j = (np.arange(d.shape[1]),) * 2 if self.diagonal else np.triu_indices(d.shape[1])
        packed = np.concatenate([np.ones((len(d), 1)), d, second[:, i, j]], axis=1) * weight[:, None]
        return {"packed": packed, "reference": np.repeat(reference[None], len(d), axis=0)}

    def parameter_count(self, states: int) -> int:
        """Return the number of free parameters: means and covariances of all components, and mixing proportions."""
        components = states * self.mixtures
        return gmm.parameter_count(components, len(self.found.mean), self.covariance) - (components - 1) + states * (self.mixtures - 1)

    def sample_rows(self, parameters: Parameters, state: Array, random: np.random.Generator) -> Array:
        """Sample a component of each state, then a row from its Gaussian."""
        ends = np.cumsum(parameters["mixing"], axis=1)
        component = np.minimum((random.random((len(state), 1)) * ends[state, -1:] >= ends[state]).sum(axis=1), self.mixtures - 1)
        roots = np.linalg.cholesky(parameters["covariance"])
        noise = random.standard_normal((len(state), parameters["mean"].shape[2]))
        return np.asarray(parameters["mean"][state, component] + np.einsum("nij,nj->ni", roots[state, component], noise))

    def single_state_family(self) -> GaussianEmission:
        """Return the family with one Gaussian."""
        return replace(self, mixtures=1)


def flatten_components(parameters: Parameters) -> Parameters:
    """Return the components of all states as those of one mixture, weighted by their proportions within the states."""
    K, M, D = parameters["mean"].shape
    return {
        "weight": parameters["mixing"].ravel(),
        "mean": parameters["mean"].reshape(K * M, D),
        "covariance": parameters["covariance"].reshape(K * M, D, D),
    }


@dataclass(frozen=True)
class _PreparedGaussian:
    gaussians: PreparedGaussians
    flat: Parameters
    mixtures: int

    def scaled_likelihoods(self, X: Array) -> ScaledLikelihoods:
        """Return the likelihoods scaled from their logarithms."""
        return scale_likelihoods(self.log_likelihoods(X))

    def log_likelihoods(self, X: Array) -> Array:
        """Return the log-likelihoods (m, K)."""
        joint = self.component_log_densities(X)
        if self.mixtures == 1:
            return np.ascontiguousarray(joint.T)
        return np.ascontiguousarray(log_sum_exp(joint.reshape(-1, self.mixtures, len(X)), axis=1).T)

    def component_log_densities(self, X: Array) -> Array:
        """Return log c N of rows (K M, m); rows with missing values use their observed values."""
        found = np.empty((len(self.flat["weight"]), len(X)))
        absent = np.isnan(X)
        broken: Array = np.asarray(absent.any(axis=1))
        rows = X if not broken.any() else np.where(broken[:, None], self.gaussians.centre, X)
        for start in range(0, len(X), SLAB):
            part = rows[start : start + SLAB]
            found[:, start : start + SLAB] = self.gaussians.log_joint(
                quadratic_features(part - self.gaussians.centre, self.gaussians.diagonal), part
            )
        for pattern, some in _missing_patterns(absent, broken):
            each = zip(self.flat["mean"], self.flat["covariance"], strict=True)
            with np.errstate(divide="ignore"):
                weight = np.log(self.flat["weight"])[:, None]
            found[:, some] = weight + np.array([impute_rows(X[some], pattern, m, S)[0] for m, S in each])
        return found

    def add(self, X: Array, gamma: Array, sums: Sums) -> None:
        """Add the moments about the references, weighted by state and component."""
        r = np.ascontiguousarray(gamma.T)
        if self.mixtures > 1:
            joint = self.component_log_densities(X).reshape(-1, self.mixtures, len(X))
            r = (r[:, None] * np.exp(joint - log_sum_exp(joint, axis=1)[:, None])).reshape(-1, len(X))
        absent = np.isnan(X)
        broken: Array = np.asarray(absent.any(axis=1))
        whole = X if not broken.any() else X[~broken]
        self._add_moments(whole, r if not broken.any() else r[:, ~broken], sums["packed"])
        for pattern, some in _missing_patterns(absent, broken):
            if not pattern.all():
                self._add_incomplete_rows(X[some], pattern, r[:, some], sums["packed"])

    def _add_moments(self, X: Array, r: Array, packed: Array) -> None:
        diagonal = self.gaussians.diagonal
        for start in range(0, len(X), SLAB):
            part, own = X[start : start + SLAB], r[:, start : start + SLAB]
            made = own @ quadratic_features(part - self.gaussians.centre, diagonal).T
            for k in np.flatnonzero(self.gaussians.narrow):
                made[k] = quadratic_features(part - self.gaussians.mean[k], diagonal) @ own[k]
            packed += made

    def _add_incomplete_rows(self, X: Array, missing: Array, r: Array, packed: Array) -> None:
        """Add rows that all lack the same values, with conditional means and conditional covariance."""
        diagonal, reference = self.gaussians.diagonal, self.gaussians.reference
        i, j = (np.arange(len(missing)),) * 2 if diagonal else np.triu_indices(len(missing))
        for k, (mean, covariance) in enumerate(zip(self.flat["mean"], self.flat["covariance"], strict=True)):
            _, Y, spread = impute_rows(X, missing, mean, covariance)
            packed[k] += quadratic_features(Y - reference[k], diagonal) @ r[k]
            packed[k, 1 + len(missing) :] += r[k].sum() * spread[i, j]


def _missing_patterns(absent: Array, broken: Array) -> list[tuple[Array, Array]]:
    """Return each pattern of missing values (D,) and the rows that have it."""
    rows = np.flatnonzero(broken)
    if not len(rows):
        return []
    patterns, which = np.unique(absent[rows], axis=0, return_inverse=True)
    return [(pattern, rows[which.ravel() == number]) for number, pattern in enumerate(patterns)]
