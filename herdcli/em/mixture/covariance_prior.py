"""A prior for full covariances of mixtures that have few rows: each component's covariance is pulled towards their common one.

With an inverse Wishart prior whose mode is T and whose weight is that of ν rows, the M step is Σ_k = (n_k S_k + ν T)/(n_k + ν).  T is the
pooled covariance within the initial components, with shrunken correlations; as it is fixed, the free energy never rises.  WEIGHT was chosen
on drawn mixtures and tables outside of the comparison of defaults (scripts/bench/tables/em_shrinkage.py).
Source: Friedman (1989), for the common covariance; Fraley & Raftery (2007), for the maximum of the posterior by EM.
"""

from __future__ import annotations

import numpy as np

from herdcli.em.correlation_shrinkage import correlation_shrinkage_factor, off_diagonal_correlations
from herdcli.em.driver import Parameters
from herdcli.records import dataclass
from herdcli.schema import Array

FEW = 5.0  # with at least this many rows for each column and component there is no prior
WEIGHT = 2.5  # ν = WEIGHT D / (rows for each column and component): between D/2 rows and more than D rows


@dataclass(frozen=True)
class CovariancePrior:
    """The prior of each covariance: a target T (D, D), and ν, the rows that it counts for."""

    rows: float
    target: Array

    def shrink(self, covariance: Array, count: float) -> Array:
        """Return the covariance (D, D) of `count` rows, pulled towards the target."""
        return np.asarray((count * covariance + self.rows * self.target) / (count + self.rows))

    def log_density(self, precision: Array, log_determinant: Array) -> float:
        """Return the log density of all covariances but for constants, from precisions (K, D, D) and their log determinants (K,)."""
        traces = np.einsum("kij,ij->k", precision, self.target)
        return float(0.5 * self.rows * (log_determinant - traces).sum())


def default_prior_rows(rows: float, columns: int, components: int) -> float:
    """Return ν for a mixture that is fitted to `rows` rows; 0 if these are enough without a prior, or for a single component."""
    each = rows / (components * columns)
    return WEIGHT * columns / each if components > 1 and each < FEW else 0.0


def prior_target_covariance(parameters: Parameters, rows: float) -> Array:
    """Return the covariance (D, D) within components with shrunken correlations, from initial parameters and the number of rows."""
    pooled = np.einsum("k,kij->ij", parameters["weight"], parameters["covariance"])
    deviation = np.sqrt(np.maximum(np.diagonal(pooled), 0.0))
    degrees = max(rows - len(parameters["weight"]), 2.0)
    shrunk = correlation_shrinkage_factor(pooled, degrees) * off_diagonal_correlations(pooled) + np.eye(len(pooled))
    return np.asarray(shrunk * deviation[:, None] * deviation)
