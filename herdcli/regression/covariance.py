"""Generalised least squares: errors with covariance σ²Ω, by a transformation to rows with independent errors.

With Ω = L L', the rows L⁻¹X, L⁻¹1, L⁻¹y have errors σ²I, and their least squares is (X'Ω⁻¹X)⁻¹X'Ω⁻¹y (Makin, eq. 5.9, with rows for
columns).  Ω is given, or has a form whose parameters are estimated by restricted maximum likelihood (feasible generalised least squares),
the likelihood of the residuals alone: −2 log p = (n − p) log σ² + RSS/σ² + log|Ω| + log|X'Ω⁻¹X|.  The effect of the estimates on the
errors of coefficients is in `herdcli.regression.small_sample_correction`.

    ar1        Ω_st = ρ^|s − t| for steps s, t of a sequence, rows left out counting as steps
    variance   Ω_nn = exp(z_n'γ), the log of the variance linear in columns (Harvey 1976)

Both are added to the source, which has a known Ω alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from herdcli.algorithm import Map, run_algorithm
from herdcli.errors import DataError
from herdcli.numerics.block_statistics import ArrayRows, RowBlock, RowBlocks, Sums, sum_statistics
from herdcli.records import dataclass
from herdcli.regression.centring import uncentre_coefficients
from herdcli.regression.families import Gaussian, family_by_name
from herdcli.regression.fit import ALIASED, NewtonDescent, RegressionProblem, solve_symmetric, symmetric_inverse
from herdcli.regression.small_sample_correction import CovarianceUncertainty, covariance_excess
from herdcli.schema import Array

NAMES = ("ar1", "variance", "given")
GRID = np.tanh(np.linspace(-4, 4, 33))  # correlations at which the likelihood is evaluated first
BEND, STEP = 1e-2, 1e-3  # steps in artanh ρ for second and first differences
LEAST_INFORMATION = 0.25  # least information on artanh ρ, for an almost flat likelihood
ROUNDS = 200  # largest number of alternations between mean and variance
SETTLED = 1e-9  # the alternation ends when the logarithms of the variances change by less than this
LEAST_SHARE = 1e-6  # least share of its own error that remains in a row of full leverage
SYMMETRY = 1e-8
EXACT = 1e-24  # there is no covariance to estimate if residual squares are at most this share of the target's sum of squares


@dataclass(frozen=True)
class LeastSquaresColumns:
    """The columns of a least-squares problem: X (n, D), the intercept's column (n,), and target less offset (n,)."""

    X: Array
    one: Array
    y: Array

    def problem(self) -> RegressionProblem:
        """Return the least-squares problem with the intercept among the columns."""
        rows = np.column_stack([self.X, self.one, self.y, np.zeros(len(self.y))])
        return RegressionProblem(ArrayRows(rows), Gaussian(), 1, self.X.shape[1], constant=True)

    def scale_rows(self, factor: Array) -> LeastSquaresColumns:
        """Return the rows times factor (n,)."""
        return LeastSquaresColumns(self.X * factor[:, None], self.one * factor, self.y * factor)

    def map_columns(self, change: Callable[[Array], Array]) -> LeastSquaresColumns:
        """Return the columns after applying a linear map to each."""
        found = change(np.column_stack([self.X, self.one, self.y]))
        return LeastSquaresColumns(found[:, :-2], found[:, -2].copy(), found[:, -1].copy())


@dataclass(frozen=True)
class WhitenedRows:
    """Rows transformed to have independent errors.

    log_determinant  log|Ω|.  parameters  number of estimated parameters of Ω.  correlation  ρ of ar1.
    gamma (D + 1,)  of variance, the constant last.  uncertainty  of the estimates.
    """

    columns: LeastSquaresColumns
    log_determinant: float
    parameters: int = 0
    correlation: float | None = None
    gamma: Array | None = None
    uncertainty: CovarianceUncertainty | None = None


@dataclass(frozen=True)
class TimeSteps:
    """The position of rows in time: the sequence (n,) and the step within it (n,) of each row."""

    sequence: Array
    step: Array

    def select_rows(self, row_indices: Array) -> TimeSteps:
        """Return some of the rows; the rows between them still count as steps."""
        return TimeSteps(self.sequence[row_indices], self.step[row_indices])

    def time_order_and_gaps(self) -> tuple[Array, Array]:
        """Return the row order by sequence and time (n,), and the steps since the previous row (n,), 0 at the beginning of a sequence."""
        order = np.lexsort((self.step, self.sequence))
        gap = np.zeros(len(order), dtype=np.int64)
        gap[1:] = np.where(np.diff(self.sequence[order]) == 0, np.diff(self.step[order]), 0)
        return order, gap


def last_observed_before(steps: TimeSteps, values: Array, is_known: Array) -> tuple[Array, Array]:
    """Return values (n, c) of the last earlier row in each row's sequence that is known (n,), and the steps since (n,).

    Both are 0 if there is none.
    """
    order, _ = steps.time_order_and_gaps()
    place = np.arange(len(order))
    last = np.maximum.accumulate(np.where(is_known[order], place, -1))
    last = np.concatenate([[-1], last[:-1]])
    there = (last >= 0) & (steps.sequence[order[last]] == steps.sequence[order])
    at, of = order[there], order[last[there]]
    found, gap = np.zeros(values.shape), np.zeros(len(order), dtype=np.int64)
    found[at], gap[at] = values[of], steps.step[at] - steps.step[of]
    return found, gap


def whiten_ar1(columns: LeastSquaresColumns, steps: TimeSteps, correlation: float) -> WhitenedRows:
    """Return the rows less their prediction from the previous row.

    With Cov(e_s, e_t) = ρ^|s − t|, e_t given the earlier errors is N(ρ^g e_{t−g}, 1 − ρ^{2g}), g being the steps since the last row
    present.  So (e_t − ρ^g e_{t−g}) / √(1 − ρ^{2g}) are independent with variance 1, and log|Ω| = Σ log(1 − ρ^{2g}).  With g = 1
    these are Prais & Winsten's differences; without the first row Cochrane & Orcutt's.
    """
    order, gap = steps.time_order_and_gaps()
    later = np.flatnonzero(gap)
    power = np.power(float(correlation), gap[later].astype(np.float64))
    left = 1 - power * power

    def change(values: Array) -> Array:
        Z = values[order]
        out = Z.copy()
        out[later] = (Z[later] - power[:, None] * Z[later - 1]) / np.sqrt(left)[:, None]
        return out

    return WhitenedRows(columns.map_columns(change), float(np.log(left).sum()), correlation=float(correlation))


def fit_ar1(columns: LeastSquaresColumns, steps: TimeSteps, map: Map = map) -> WhitenedRows:
    """Return the rows whitened by the ρ that maximises the restricted likelihood, with the best coefficients and σ² for each ρ."""
    from scipy.optimize import minimize_scalar

    if not steps.time_order_and_gaps()[1].any():
        raise DataError("no sequence has a second row, so the correlation of the errors cannot be estimated")
    centred = replace(columns, y=least_squares_residuals(columns, map))
    chosen = independent_column_indices(_gram_matrix(centred, map)[:-1, :-1])
    count = len(columns.y) - len(chosen)

    def loss(z: float) -> float:
        found = whiten_ar1(centred, steps, float(np.tanh(z)))
        gram = _gram_matrix(found.columns, map)
        # −2 log p at the best β and σ² = RSS/(n − p); without log|Ω| the rows could be shrunk to 0.
        own = found.log_determinant + float(np.linalg.slogdet(gram[np.ix_(chosen, chosen)])[1])
        return count * float(np.log(_residual_squares(gram))) + own

    grid = np.arctanh(GRID)
    tried = [loss(value) for value in grid]
    best = int(np.clip(np.argmin(tried), 1, len(GRID) - 2))
    found = minimize_scalar(loss, bounds=(grid[best - 1], grid[best + 1]), method="bounded", options={"xatol": 1e-10})
    z = float(found.x)
    bend = (loss(z - BEND) - 2 * loss(z) + loss(z + BEND)) / (2 * BEND**2)  # second derivative of −log p: the information on z
    made = whiten_ar1(columns, steps, float(np.tanh(z)))
    return replace(made, parameters=1, uncertainty=_ar1_uncertainty(centred, steps, z, 1 / max(bend, LEAST_INFORMATION), map))


def _ar1_uncertainty(columns: LeastSquaresColumns, steps: TimeSteps, z: float, variance: float, map: Map) -> CovarianceUncertainty:
    """Return the uncertainty of z = artanh ρ, whose variance is known, from differences in z with the best σ² for each z."""
    rows = np.column_stack([columns.X, columns.one])
    breads, sigmas, images = [], [], []
    for at in (z - STEP, z, z + STEP):
        found = whiten_ar1(columns, steps, float(np.tanh(at)))
        gram = _gram_matrix(found.columns, map)
        breads.append(symmetric_inverse(gram[:-1, :-1]))
        sigmas.append(_residual_squares(gram))
        images.append(_multiply_by_ar1_precision(rows, steps, float(np.tanh(at))))
    slope = (images[2] - images[0]) / (2 * STEP)  # derivative of Ω⁻¹X, which is −Ω⁻¹Ω'Ω⁻¹X
    root = _multiply_by_transposed_root(slope, steps, float(np.tanh(z)))  # L'
    first, second = rows.T @ slope, root.T @ root
    spread = np.array([[variance]])
    more = covariance_excess(breads[1], first[None], variance * second, spread)
    tilt = (sigmas[2] * breads[2] - sigmas[0] * breads[0]) / (2 * STEP * sigmas[1])
    return CovarianceUncertainty(more, tilt[None], spread, 2.0 / max(len(rows) - len(independent_column_indices(gram[:-1, :-1])), 1))


def _ar1_whitening_root(steps: TimeSteps, correlation: float) -> tuple[Array, Array, Array]:
    """Return the time order of rows (n,), and L⁻¹ as its diagonal (n,) and subdiagonal (n,), 0 at the beginning of a sequence."""
    order, gap = steps.time_order_and_gaps()
    power = np.where(gap > 0, np.power(float(correlation), gap.astype(np.float64)), 0.0)
    diagonal = 1 / np.sqrt(1 - power * power)
    return order, diagonal, -power * diagonal


def _multiply_by_ar1_precision(values: Array, steps: TimeSteps, correlation: float) -> Array:
    """Return Ω⁻¹ (n, n) times values (n, c): L⁻ᵀ(L⁻¹ v), where L⁻¹ has a diagonal and one subdiagonal."""
    order, diagonal, below = _ar1_whitening_root(steps, correlation)
    Z = values[order]
    white = diagonal[:, None] * Z
    white[1:] += below[1:, None] * Z[:-1]
    out = diagonal[:, None] * white
    out[:-1] += below[1:, None] * white[1:]
    found: Array = np.empty_like(out)
    found[order] = out
    return found


def _multiply_by_transposed_root(values: Array, steps: TimeSteps, correlation: float) -> Array:
    """Return L' (n, n) times values (n, c) of rows in time: L⁻ᵀ x = v is solved from the last row backwards."""
    from scipy.linalg import solve_banded

    order, diagonal, below = _ar1_whitening_root(steps, correlation)
    band = np.vstack([np.concatenate([[0.0], below[1:]]), diagonal])
    found: Array = solve_banded((0, 1), band, values[order], check_finite=False)
    return found


def independent_column_indices(gram: Array) -> Array:
    """Return a largest set of linearly independent columns (r,), by Cholesky's factor with pivoting."""
    from scipy.linalg.lapack import dpstrf

    scale = 1 / np.sqrt(np.where(np.diag(gram) > 0, np.diag(gram), 1.0))
    _, pivots, rank, _ = dpstrf(scale[:, None] * gram * scale, tol=ALIASED, lower=1)
    found: Array = np.sort(np.asarray(pivots[:rank]) - 1)
    return found


def least_squares_residuals(columns: LeastSquaresColumns, map: Map = map) -> Array:
    """Return the residuals (n,) of least squares.  Raises DataError if they are all 0."""
    theta = run_algorithm(NewtonDescent(columns.problem(), np.zeros((1, columns.X.shape[1] + 1)), map=map)).theta[0]
    rest: Array = columns.y - columns.X @ theta[:-1] - theta[-1] * columns.one
    if not float(rest @ rest) > EXACT * max(float(columns.y @ columns.y), 1e-300):
        raise DataError("the columns predict the target exactly, so there are no errors whose covariance could be estimated")
    return rest


def _gram_matrix(columns: LeastSquaresColumns, map: Map = map) -> Array:
    """Return the products (p + 1, p + 1) of the columns, the intercept and the target."""

    def statistics(block: RowBlock) -> Sums:
        return {"gram": block.X.T @ block.X}

    found: Array = sum_statistics(RowBlocks(ArrayRows(np.column_stack([columns.X, columns.one, columns.y]))), statistics, map)["gram"]
    return found


def _residual_squares(gram: Array) -> float:
    """Return the least Σ (y − Xβ − α)²; no digits are lost if y is already close to the residuals."""
    # min_β |y − Zβ|² = y'y − (Z'y)'(Z'Z)⁻¹Z'y.
    found = gram[-1, -1] - gram[:-1, -1] @ solve_symmetric(gram[:-1, :-1], gram[:-1, -1])
    return float(max(found, 1e-300))


def whiten_by_covariance(columns: LeastSquaresColumns, covariance: Array) -> WhitenedRows:
    """Return the rows whitened by a covariance (n, n).  Raises DataError unless it is symmetric and positive definite."""
    from scipy.linalg import LinAlgError, cholesky, solve_triangular

    require_symmetric(covariance)
    try:
        root = cholesky(covariance, lower=True, check_finite=False)
    except LinAlgError:
        raise DataError("the covariance of the errors is not positive definite") from None
    found = columns.map_columns(lambda values: solve_triangular(root, values, lower=True, check_finite=False))
    # |Ω| = |L|² = Π L_ii².
    return WhitenedRows(found, 2 * float(np.log(np.diag(root)).sum()))


def require_symmetric(matrix: Array) -> None:
    """Raise DataError unless a matrix is finite and symmetric."""
    if not np.isfinite(matrix).all():
        raise DataError("the covariance of the errors has values that are not finite")
    if np.abs(matrix - matrix.T).max(initial=0.0) > SYMMETRY * np.abs(matrix).max(initial=0.0):
        raise DataError("the covariance of the errors is not symmetric")


def fit_variance_model(columns: LeastSquaresColumns, Z: Array, map: Map = map) -> WhitenedRows:
    """Return the rows whitened by variances exp(z_n'γ), Z (n, q), fitted by alternating mean and variance until convergence.

    Given γ, β is least squares with weights exp(−η), η = Zγ + γ₀; h is the diagonal of its hat matrix.  The restricted likelihood has
    its maximum in γ where Σ (e² exp(−η) − (1 − h)) z = 0: a gamma regression of e²/(1 − h) with weights 1 − h and a log link (Smyth 2002).
    """
    rest, gamma, eta = least_squares_residuals(columns, map), None, np.zeros(len(Z))
    hat = _leverages(columns, map)
    for _ in range(ROUNDS):
        before = eta
        gamma = _fit_log_variance_coefficients(
            Z, rest * rest / np.maximum(1 - hat, LEAST_SHARE), np.maximum(1 - hat, LEAST_SHARE), gamma, map
        )
        eta = Z @ gamma[:-1] + gamma[-1]
        found = columns.scale_rows(np.exp(-0.5 * eta))
        rest = least_squares_residuals(found, map) * np.exp(0.5 * eta)
        hat = _leverages(found, map)
        if np.abs(eta - before).max() < SETTLED:
            break
    return WhitenedRows(found, float(eta.sum()), parameters=Z.shape[1], gamma=gamma, uncertainty=_variance_model_uncertainty(found, Z, map))


def _leverages(columns: LeastSquaresColumns, map: Map) -> Array:
    """Return the diagonal (n,) of the hat matrix Z(Z'Z)⁻¹Z'."""
    rows = np.column_stack([columns.X, columns.one])
    found: Array = ((rows @ symmetric_inverse(_gram_matrix(columns, map)[:-1, :-1])) * rows).sum(axis=1)
    return found


def _variance_model_uncertainty(white: LeastSquaresColumns, Z: Array, map: Map) -> CovarianceUncertainty:
    """Return the uncertainty of γ and its constant, from the whitened rows: Ω_i = diag(z_i) Ω."""
    rows, parts = np.column_stack([white.X, white.one]), np.column_stack([Z, np.ones(len(Z))])
    bread, hat = symmetric_inverse(_gram_matrix(white, map)[:-1, :-1]), _leverages(white, map)
    first = np.stack([(rows * z[:, None]).T @ rows for z in parts.T])
    # Twice the information of the restricted likelihood: tr(MΩ_iMΩ_j) = Σ z_i z_j (1 − 2h) + tr(ΦP_iΦP_j), with M = I − H.
    pairs = np.einsum("mij,nji->mn", bread @ first, bread @ first)
    information = 0.5 * ((parts * (1 - 2 * hat)[:, None]).T @ parts + pairs)
    spread = symmetric_inverse(information)
    second = (rows * ((parts @ spread) * parts).sum(axis=1)[:, None]).T @ rows  # Σ W_ij z_i z_j
    return CovarianceUncertainty(covariance_excess(bread, first, second, spread), bread @ first @ bread, spread, 0.0)


def _fit_log_variance_coefficients(Z: Array, squared: Array, weight: Array, start: Array | None, map: Map) -> Array:
    """Return γ (q + 1,), the constant last."""
    table = ArrayRows(np.column_stack([Z, squared, np.zeros(len(Z))]), weight=weight)
    problem = RegressionProblem(table, family_by_name("gamma"), 1, Z.shape[1])
    begun = np.append(np.zeros(Z.shape[1]), np.log(squared.mean())) if start is None else start
    found: Array = run_algorithm(NewtonDescent(problem, begun[None, :], map=map)).theta[0]
    return found


def profile_log_likelihood(whitened: WhitenedRows, deviance: float) -> float:
    """Return log p(y) at the best σ² for Ω: −½ (n log 2πσ² + n + log|Ω|), σ² = deviance/n.

    deviance  Σ of the whitened residuals' squares.
    """
    n = len(whitened.columns.y)
    return -0.5 * (n * float(np.log(2 * np.pi * max(deviance / n, 1e-300))) + n + whitened.log_determinant)


def covariance_fields(whitened: WhitenedRows, name: str, centre: Array | None = None) -> dict[str, object]:
    """Return the artifact's fields about Ω.  centre  (D,) subtracted from its columns."""
    gamma = whitened.gamma if whitened.gamma is None or centre is None else uncentre_coefficients(whitened.gamma[None, :], centre)[0]
    correlation = float("nan") if whitened.correlation is None else whitened.correlation
    return {"gls": name, "correlation": correlation, "log_variance": gamma, "covariance_parameters": whitened.parameters}
