"""The E step of mixtures: posteriors of rows, and their statistics about each component's reference point."""

from __future__ import annotations

import numpy as np

from herdcli.em.driver import Parameters
from herdcli.em.mixture.gaussian_densities import (
    LOG_TAU,
    SLAB,
    WHITENED_SLAB,
    PreparedGaussians,
    log_determinants,
    normalise_log_joint,
    precision_roots,
    sum_weighted_features,
)
from herdcli.errors import DataError
from herdcli.numerics.block_statistics import BlockStatistics, RowBlock, Sums
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class EStep(BlockStatistics):
    """The statistics of a block: packed (K, F), Σ r φ about each component's reference; mass; log-likelihood.

    parameters  weight (K,), mean (K, D), covariance (K, D, D), from which the Gaussians were prepared.
    per_class   number of components for each label, see `GMM`.
    """

    gaussians: PreparedGaussians
    parameters: Parameters
    per_class: int = 1

    def __call__(self, block: RowBlock) -> Sums:
        """Return the sums of a block."""
        sums = self._empty()
        absent = np.isnan(block.X)
        if absent.any():
            self._add_incomplete_rows(block, np.asarray(~absent.any(axis=1)), sums)
        else:
            self._add_complete_rows(block.X, block.labels, block.weight, sums)
        return sums

    def _empty(self) -> Sums:
        K, D = self.parameters["mean"].shape
        width = 1 + D + (D if self.gaussians.diagonal else D * (D + 1) // 2)
        return {"packed": np.zeros((K, width)), "mass": np.zeros(1), "log_likelihood": np.zeros(1)}

    def _add_complete_rows(self, X: Array, labels: Array | None, weight: Array | None, sums: Sums) -> None:
        """Add rows without missing values to the sums, one slab at a time."""
        size = WHITENED_SLAB if self.gaussians.uses_whitening else SLAB
        for start in range(0, len(X), size):
            part = slice(start, start + size)
            rows = X[part]
            phi = self.gaussians.features(rows)
            joint = self.gaussians.log_joint(phi, rows)
            w = None if weight is None else weight[part]
            self._add_responsibilities(joint, None if labels is None else labels[part], w, sums)
            sums["packed"] += self.gaussians.weighted_feature_sums(phi, rows, joint)

    def _add_responsibilities(self, joint: Array, labels: Array | None, weight: Array | None, sums: Sums) -> None:
        """Replace log joints by weighted responsibilities in place, and add their normalisers to the sums."""
        if labels is not None:
            if labels.max(initial=-1) * self.per_class >= len(joint):
                raise DataError(
                    f"label {labels.max()} is out of range: there are {len(joint)} components, 0 to {len(joint) - 1}",
                    hint=f"use --components {labels.max() + 1}",
                )
            # A labelled row has posterior 0 outside its label's components, and contributes log p(y, label).
            other = np.arange(len(joint))[:, None] // self.per_class != labels
            joint[other & (labels >= 0)] = -np.inf
        evidence = normalise_log_joint(joint)
        if weight is not None:
            joint *= weight
            evidence = np.where(weight > 0, weight * evidence, 0.0)
        sums["mass"] += joint.shape[1] if weight is None else weight.sum()
        sums["log_likelihood"] += evidence.sum()

    def _add_incomplete_rows(self, block: RowBlock, whole: Array, sums: Sums) -> None:
        """Add rows with missing values to the sums, by their patterns, after the complete rows.

        For a row with observed values y_o, component k replaces the missing ones by their conditional mean
        μ_m + Σ_mo Σ_oo⁻¹ (y_o − μ_o), and adds their conditional covariance Σ_mm − Σ_mo Σ_oo⁻¹ Σ_om to the second moment.
        """
        labels, weight = block.labels, block.weight

        def of(item: Array | None, rows: Array) -> Array | None:
            return None if item is None else item[rows]

        if whole.any():
            self._add_complete_rows(block.X[whole], of(labels, whole), of(weight, whole), sums)
        # Rows that lack the same values share the inverse of Σ_oo, so each pattern is factored once per component.
        rows = np.flatnonzero(~whole)
        patterns, which = np.unique(np.isnan(block.X[rows]), axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            self._add_missing_pattern(pattern, block, rows[which.ravel() == number], sums)

    def _add_missing_pattern(self, missing: Array, block: RowBlock, rows: Array, sums: Sums) -> None:
        X, reference = block.X[rows], self.gaussians.reference
        completed = [impute_rows(X, missing, m, S) for m, S in zip(self.parameters["mean"], self.parameters["covariance"], strict=True)]
        with np.errstate(divide="ignore"):
            joint = np.log(self.parameters["weight"])[:, None] + np.array([density for density, _, _ in completed])
        labels, weight = (None if item is None else item[rows] for item in (block.labels, block.weight))
        self._add_responsibilities(joint, labels, weight, sums)
        i, j = (np.arange(len(missing)),) * 2 if self.gaussians.diagonal else np.triu_indices(len(missing))
        for k, (_, Y, spread) in enumerate(completed):
            sums["packed"][k] += sum_weighted_features(Y - reference[k], joint[k], self.gaussians.diagonal)
            # E[yy' | y_o] = ŷŷ' + Cov(y | y_o): conditional means alone would make the covariance too small.
            sums["packed"][k, 1 + len(missing) :] += joint[k].sum() * spread[i, j]


def impute_rows(X: Array, missing: Array, mean: Array, covariance: Array) -> tuple[Array, Array, Array]:
    """Return log densities (m,) of the observed values, completed rows (m, D), and the conditional covariance (D, D).

    All rows (m, D) lack the same values.  These are replaced by conditional means; the covariance is 0 outside them.
    """
    there = ~missing
    Y, spread = X.copy(), np.zeros_like(covariance)
    if not there.any():
        Y[:] = mean
        return np.zeros(len(X)), Y, covariance.copy()
    root = precision_roots(covariance[np.ix_(there, there)][None])
    white = (X[:, there] - mean[there]) @ root[0].T
    density = 0.5 * (log_determinants(root)[0] - there.sum() * LOG_TAU - np.square(white).sum(axis=1))
    # Σ_oo = LL' and root = L⁻¹: Σ_mo Σ_oo⁻¹ (y_o − μ_o) = (Σ_mo L⁻ᵀ) L⁻¹(y_o − μ_o), and Σ_mo Σ_oo⁻¹ Σ_om = (Σ_mo L⁻ᵀ)(Σ_mo L⁻ᵀ)', which
    # leaves a covariance that is symmetric by its form.  Source: Makin, eq. 2.23 to 2.28.
    cross = covariance[np.ix_(missing, there)] @ root[0].T
    Y[:, missing] = mean[missing] + white @ cross.T
    spread[np.ix_(missing, missing)] = covariance[np.ix_(missing, missing)] - cross @ cross.T
    return density, Y, spread
