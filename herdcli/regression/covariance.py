"""Generalised least squares: errors whose covariance σ²Ω is not σ²I, by rows that are made to have independent errors.

With Ω = L L', the rows L⁻¹X, L⁻¹1, L⁻¹y have errors σ²I, and least squares of these is (X'Ω⁻¹X)⁻¹X'Ω⁻¹y (Makin, eq. 5.9, with rows for
columns).  Ω is given, or of a form whose parameters are estimated by maximum likelihood (feasible generalised least squares):

    ar1        Ω_st = ρ^|s − t| for steps s, t of a sequence, rows left out counting as steps
    variance   Ω_nn = exp(z_n'γ), the log of the variance linear in columns (Harvey 1976)

Both are added to the source, which has a known Ω alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from herdcli.algorithm import solve
from herdcli.errors import DataError
from herdcli.numerics.blocks import Block, Blocks, Map, Sums, Table, total
from herdcli.records import dataclass
from herdcli.regression.centring import moved
from herdcli.regression.families import Gaussian, family
from herdcli.regression.fit import Problem, Regression, solved
from herdcli.schema import Array

NAMES = ("ar1", "variance", "given")
GRID = np.tanh(np.linspace(-4, 4, 33))  # correlations between which the best one is looked for
ROUNDS = 200  # of mean and variance in turn
SETTLED = 1e-13  # share of the log-likelihood that such a round gains, at least
SYMMETRY = 1e-8
EXACT = 1e-24  # of the target's sum of squares, below which nothing is left to have a covariance


@dataclass(frozen=True)
class Columns:
    """What least squares takes: X (n, D), the intercept's column (n,), target less offset (n,)."""

    X: Array
    one: Array
    y: Array

    def problem(self) -> Problem:
        """Least squares with the intercept among the columns."""
        rows = np.column_stack([self.X, self.one, self.y, np.zeros(len(self.y))])
        return Problem(Table(rows), Gaussian(), 1, self.X.shape[1], constant=True)

    def scaled(self, factor: Array) -> Columns:
        """Rows times factor (n,)."""
        return Columns(self.X * factor[:, None], self.one * factor, self.y * factor)

    def through(self, change: Callable[[Array], Array]) -> Columns:
        """Columns after a linear map of each."""
        found = change(np.column_stack([self.X, self.one, self.y]))
        return Columns(found[:, :-2], found[:, -2].copy(), found[:, -1].copy())


@dataclass(frozen=True)
class Whitened:
    """Rows with independent errors.  log_determinant  log|Ω|.  parameters  how many of Ω's were estimated.

    correlation  ρ of ar1.  gamma (D + 1,)  of variance, the constant last.
    """

    columns: Columns
    log_determinant: float
    parameters: int = 0
    correlation: float | None = None
    gamma: Array | None = None


@dataclass(frozen=True)
class Steps:
    """Rows in time: the sequence (n,) and the step within it (n,) of each."""

    sequence: Array
    step: Array

    def only(self, chosen: Array) -> Steps:
        """Some of the rows; those between are steps as before."""
        return Steps(self.sequence[chosen], self.step[chosen])

    def ordered(self) -> tuple[Array, Array]:
        """Rows sequence by sequence in time (n,), and the steps since the row before (n,), 0 where a sequence begins."""
        order = np.lexsort((self.step, self.sequence))
        gap = np.zeros(len(order), dtype=np.int64)
        gap[1:] = np.where(np.diff(self.sequence[order]) == 0, np.diff(self.step[order]), 0)
        return order, gap


def last_before(steps: Steps, values: Array, known: Array) -> tuple[Array, Array]:
    """Values (n, c) of the last row before each in its sequence that is known (n,), and the steps since (n,); 0 and 0 where none is."""
    order, _ = steps.ordered()
    place = np.arange(len(order))
    last = np.maximum.accumulate(np.where(known[order], place, -1))
    last = np.concatenate([[-1], last[:-1]])
    there = (last >= 0) & (steps.sequence[order[last]] == steps.sequence[order])
    at, of = order[there], order[last[there]]
    found, gap = np.zeros(values.shape), np.zeros(len(order), dtype=np.int64)
    found[at], gap[at] = values[of], steps.step[at] - steps.step[of]
    return found, gap


def whitened_ar1(columns: Columns, steps: Steps, correlation: float) -> Whitened:
    """Rows less what the row before them foretells.

    Of errors with Cov(e_s, e_t) = ρ^|s − t|, e_t given those before is N(ρ^g e_{t−g}, 1 − ρ^{2g}), g being the steps since the last row
    that is there; so (e_t − ρ^g e_{t−g}) / √(1 − ρ^{2g}) are independent with variance 1, and log|Ω| = Σ log(1 − ρ^{2g}).  With g = 1
    these are Prais & Winsten's differences; without the first row Cochrane & Orcutt's.
    """
    order, gap = steps.ordered()
    later = np.flatnonzero(gap)
    power = np.power(float(correlation), gap[later].astype(np.float64))
    left = 1 - power * power

    def change(values: Array) -> Array:
        Z = values[order]
        out = Z.copy()
        out[later] = (Z[later] - power[:, None] * Z[later - 1]) / np.sqrt(left)[:, None]
        return out

    return Whitened(columns.through(change), float(np.log(left).sum()), correlation=float(correlation))


def fitted_ar1(columns: Columns, steps: Steps, map: Map = map) -> Whitened:
    """The rows whitened by the ρ of largest likelihood, coefficients and σ² at their best for each ρ."""
    from scipy.optimize import minimize_scalar

    if not steps.ordered()[1].any():
        raise DataError("no sequence has a second row, so nothing is known of the correlation of its errors")
    centred = replace(columns, y=left_over(columns, map))

    def loss(correlation: float) -> float:
        found = whitened_ar1(centred, steps, correlation)
        # −2 log p at the best β and σ² = RSS/n is n log RSS + log|Ω| + const; without log|Ω| the rows could be shrunk to nothing.
        return len(columns.y) * float(np.log(squares(found.columns, map))) + found.log_determinant

    tried = [loss(value) for value in GRID]
    best = int(np.clip(np.argmin(tried), 1, len(GRID) - 2))
    ends = np.arctanh(GRID[[best - 1, best + 1]])
    found = minimize_scalar(lambda z: loss(float(np.tanh(z))), bounds=tuple(ends), method="bounded", options={"xatol": 1e-10})
    return replace(whitened_ar1(columns, steps, float(np.tanh(found.x))), parameters=1)


def left_over(columns: Columns, map: Map = map) -> Array:
    """Residuals (n,) of least squares.  Raises DataError where nothing is left."""
    theta = solve(Regression(columns.problem(), np.zeros((1, columns.X.shape[1] + 1)), map=map)).theta[0]
    rest: Array = columns.y - columns.X @ theta[:-1] - theta[-1] * columns.one
    if not float(rest @ rest) > EXACT * max(float(columns.y @ columns.y), 1e-300):
        raise DataError("the columns give the target without error, so there is no covariance of errors to estimate")
    return rest


def squares(columns: Columns, map: Map = map) -> float:
    """The least Σ (y − Xβ − α)²: y'y − (Z'y)'(Z'Z)⁻¹Z'y, which loses no digits where y is close to the residuals already."""

    def statistics(block: Block) -> Sums:
        return {"gram": block.X.T @ block.X}

    rows = np.column_stack([columns.X, columns.one, columns.y])
    gram = total(Blocks(Table(rows)), statistics, map)["gram"]
    # min_β |y − Zβ|² = y'y − (Z'y)'(Z'Z)⁻¹Z'y.
    found = gram[-1, -1] - gram[:-1, -1] @ solved(gram[:-1, :-1], gram[:-1, -1])
    return float(max(found, 1e-300))


def whitened_given(columns: Columns, covariance: Array) -> Whitened:
    """By a covariance (n, n).  Raises DataError unless it is symmetric and positive definite."""
    from scipy.linalg import LinAlgError, cholesky, solve_triangular

    require_covariance(covariance)
    try:
        root = cholesky(covariance, lower=True, check_finite=False)
    except LinAlgError:
        raise DataError("the covariance of the errors is not positive definite") from None
    found = columns.through(lambda values: solve_triangular(root, values, lower=True, check_finite=False))
    # |Ω| = |L|² = Π L_ii².
    return Whitened(found, 2 * float(np.log(np.diag(root)).sum()))


def require_covariance(matrix: Array) -> None:
    """Raise DataError unless a matrix is finite and symmetric."""
    if not np.isfinite(matrix).all():
        raise DataError("the covariance of the errors has values that are not finite")
    if np.abs(matrix - matrix.T).max(initial=0.0) > SYMMETRY * np.abs(matrix).max(initial=0.0):
        raise DataError("the covariance of the errors is not symmetric")


def fitted_variance(columns: Columns, Z: Array, map: Map = map) -> Whitened:
    """By variances exp(z_n'γ), Z (n, q): mean and variance in turn, each at its maximum for the other, until the likelihood stands.

    Given β the residuals' squares e² have −log-likelihood ½ Σ (η_n + e_n² exp(−η_n)), η = Zγ + γ₀, which is that of a gamma
    regression of e² with a log link; given γ, β is least squares with weights exp(−η).  Neither step lowers the likelihood.
    """
    rest, previous, gamma = left_over(columns, map), np.inf, None
    for _ in range(ROUNDS):
        gamma = _log_variances(Z, rest * rest, gamma, map)
        eta = Z @ gamma[:-1] + gamma[-1]
        found = columns.scaled(np.exp(-0.5 * eta))
        rest = left_over(found, map) * np.exp(0.5 * eta)
        loss = float((eta + rest * rest * np.exp(-eta)).sum())
        if not loss < previous - SETTLED * max(1.0, abs(loss)):
            break
        previous = loss
    return Whitened(found, float(eta.sum()), parameters=Z.shape[1], gamma=gamma)


def _log_variances(Z: Array, squared: Array, start: Array | None, map: Map) -> Array:
    """γ (q + 1,), the constant last."""
    problem = Problem(Table(np.column_stack([Z, squared, np.zeros(len(Z))])), family("gamma"), 1, Z.shape[1])
    begun = np.append(np.zeros(Z.shape[1]), np.log(squared.mean())) if start is None else start
    found: Array = solve(Regression(problem, begun[None, :], map=map)).theta[0]
    return found


def log_likelihood(found: Whitened, deviance: float) -> float:
    """log p(y) at the best σ² of Ω: −½ (n log 2πσ² + n + log|Ω|), σ² = deviance/n, deviance being Σ of the whitened residuals' squares."""
    n = len(found.columns.y)
    return -0.5 * (n * float(np.log(2 * np.pi * max(deviance / n, 1e-300))) + n + found.log_determinant)


def as_record(found: Whitened, name: str, centre: Array | None = None) -> dict[str, Any]:
    """What the artifact keeps of Ω.  centre  (D,) what its columns are less."""
    gamma = found.gamma if found.gamma is None or centre is None else moved(found.gamma[None, :], centre)[0]
    correlation = float("nan") if found.correlation is None else found.correlation
    return {"gls": name, "correlation": correlation, "log_variance": gamma, "covariance_parameters": found.parameters}
