"""Least squares from sums of one pass over the rows, which each process computes for the rows it has.

With u = (x − c, 1, y − offset − the pilot's prediction) as in `herdcli.regression.block_sums`:

    M = Σ w u u',     residuals at θ:  e'u,  e = (pilot − θ, 1),     deviance  e'Me,     slope  −(Me)_z,     curvature  M_zz.

The sandwich of the robust errors needs Σ w² r² z z', of degree two in e: sums of all products of four entries of u, which are computed
only for few columns.  Source: Makin, sec. 5.1.1; White (1980) for the errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from herdcli.errors import DataError
from herdcli.numerics.block_statistics import Block, BlockStatistics, RemoteSource, Sums
from herdcli.records import dataclass
from herdcli.regression import weight_meaning
from herdcli.regression.block_sums import PartialSums, PilotFit, add_partial_sums, product_index_pairs
from herdcli.regression.centring import uncentre_coefficients, uncentring_matrix
from herdcli.regression.families import Gaussian
from herdcli.regression.fit import RegressionFit, RegressionProblem, RemoteRows, find_redundant_columns
from herdcli.regression.model import FitStatistics, GeneralisedLinear, HeldoutRows, standard_errors
from herdcli.schema import INVALID_WEIGHTS, Array


@dataclass(frozen=True)
class SummedRows(RemoteSource):
    """All training rows as their sums M: a source of the derivatives at any θ, as `numerics.block_statistics.RemoteSource`.

    θ has the intercept at the centre last.
    """

    second: Array
    pilot: PilotFit
    count: int = 1

    def take(self, first: int, last: int) -> Iterator[Block]:
        """Raise LookupError, since only sums of the rows are available."""
        raise LookupError("these rows are sums")

    def sums(self, statistics: BlockStatistics, first: int) -> list[tuple[int, Sums]]:
        """Return the sums of `fit.DerivativeSums`."""
        theta: Array = statistics.theta[0]  # type: ignore[attr-defined]
        e = self.residual_weights(theta)
        product = self.second @ e
        found = {
            "mass": self.second[-2:-1, -2].copy(),
            "loss": np.array([0.5 * self.deviance(theta)]),
            "gradient": -product[:-1],
            "curvature": self.second[:-1, :-1].copy(),
            "wrong": np.array([np.inf]),
        }
        return [(1, found)]

    def residual_weights(self, theta: Array) -> Array:
        """Return e (q,), with which the residual of a row is e'u."""
        return np.append(self.pilot.theta - theta, 1.0)

    def deviance(self, theta: Array) -> float:
        """Return Σ w r² at θ."""
        e = self.residual_weights(theta)
        return max(float(e @ self.second @ e), 0.0)

    def problem(self, l1: float, l2: float, weight_kind: str = "precision") -> RegressionProblem:
        """Return the least-squares problem of these sums, penalised or not."""
        columns = len(self.pilot.centre)
        return RegressionProblem(RemoteRows(1, columns + 2), Gaussian(), 1, columns, l1, l2, weights=weight_kind)

    def mean(self) -> float:
        """Return the weighted mean of target less offset."""
        # Σ w (y − offset) = Σ w (r + pilot'z)
        return float((self.second[-2, -1] + self.second[-2, :-1] @ self.pilot.theta) / self.second[-2, -2])

    def intercept_only_coefficients(self) -> Array:
        """Return θ (1, p) of the intercept alone."""
        return np.append(np.zeros(len(self.pilot.centre)), self.mean())[None, :]


def join_partial_sums(parts: list[PartialSums]) -> PartialSums:
    """Return the sum of all units.  Raises DataError if there are no rows."""
    found = add_partial_sums(parts)
    if not found.rows:
        raise DataError("there are no training rows")
    if not found.second[-2, -2] > 0:
        raise DataError(INVALID_WEIGHTS)
    return found


def uncentred_fit_with_statistics(
    partial_sums: PartialSums, summed_rows: SummedRows, problem: RegressionProblem, fit: RegressionFit, *, weighted: bool = True
) -> tuple[RegressionFit, FitStatistics]:
    """Return the fit, with the intercept at 0 instead of at the centre, and its statistics.

    weighted  whether rows have weights other than 1.
    """
    theta, mass = fit.theta[0], float(partial_sums.second[-2, -2])
    null, deviance = summed_rows.intercept_only_coefficients()[0], summed_rows.deviance(theta)
    n = weight_meaning.observation_count(problem.weights, partial_sums.rows, mass)
    more, repeated = find_redundant_columns(partial_sums.second[:-1, :-1])
    without, freedom = summed_rows.deviance(null), max(n - len(theta) + more, 1.0)
    within = max(deviance / n, 1e-300)
    # Rows with precision weight w have variance φ/w: log N(r; 0, φ/w) = log N(√w r; 0, φ) + ½ log w.
    logarithms = partial_sums.logarithms if weighted and problem.weights == "precision" else 0.0
    centre = summed_rows.pilot.centre
    repeated = repeated[:-1]
    standard, robust = standard_errors(
        problem,
        fit,
        score_products(partial_sums, summed_rows.residual_weights(theta)),
        deviance / freedom,
        repeated,
        uncentring_matrix(1, centre),
    )
    figures = FitStatistics(
        rows=partial_sums.rows,
        mass=mass,
        deviance=deviance,
        dispersion=deviance / freedom,
        pearson_ratio=deviance / freedom,
        null_deviance=without,
        null_dispersion=without / max(n - 1, 1.0),
        null_intercept=null[-1:].copy(),
        log_likelihood=-0.5 * (n * float(np.log(2 * np.pi * within)) + deviance / within - logarithms),
        standard_error=standard,
        robust_error=robust,
        aliased=repeated,
        redundant=more,
    )
    return replace(fit, theta=uncentre_coefficients(fit.theta, centre)), figures


def score_products(partial_sums: PartialSums, e: Array) -> Array:
    """Return Σ w² r² z z' (p, p) of residuals r = e'u; NaN if products of four were not summed."""
    p = len(e) - 1
    if not len(partial_sums.fourth):
        return np.full((p, p), np.nan)
    a, b = product_index_pairs(len(e))
    # r² = Σ_{a ≤ b} (2 − 1[a = b]) e_a e_b u_a u_b.
    square = e[a] * e[b] * np.where(a == b, 1.0, 2.0) @ partial_sums.fourth
    found = np.empty((p + 1, p + 1))
    found[a, b] = found[b, a] = square
    return found[:-1, :-1]


def with_heldout_rows(partial_sums: PartialSums, value: GeneralisedLinear, *, weighted: bool) -> GeneralisedLinear:
    """Return the regression with the rows kept for evaluation."""
    if not len(partial_sums.y):
        return value
    weight = partial_sums.weight if weighted else None
    return replace(
        value,
        holdout=HeldoutRows(
            predictor=value.predictor(partial_sums.X, partial_sums.offset),
            offset=partial_sums.offset,
            y=partial_sums.y,
            split=partial_sums.split,
            weight=weight,
        ),
    )
