"""The `regression` artifact: coefficients with their errors, and the quality of the fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from herdcli.algorithm import Map, run_algorithm
from herdcli.errors import DataError
from herdcli.numerics.block_statistics import Block, sum_statistics
from herdcli.numerics.class_baselines import ClassBaselines
from herdcli.records import dataclass
from herdcli.regression import centring, covariance, separation, weight_meaning
from herdcli.regression.families import Family, family_by_name
from herdcli.regression.fit import (
    MANY,
    NewtonDescent,
    RegressionFit,
    RegressionProblem,
    final_fit_sums,
    find_redundant_columns,
    symmetric_inverse,
    total_log_likelihood,
)
from herdcli.regression.separation import RecessionDirections
from herdcli.regression.small_sample_correction import CovarianceUncertainty
from herdcli.regression.sparse_rows import SparseRows, regression_blocks
from herdcli.schema import Array, array, is_sparse, require_image_shape

COVERED = 0.95  # coverage of the intervals of a table


@dataclass(frozen=True, kw_only=True)
class HeldoutRows:
    """Held-out rows with their predictions."""

    predictor: Array = array("h K", "linear predictor η, offset included", kind="f", finite=True)
    offset: Array = array("h", "what of it is the offset", kind="f", finite=True)
    y: Array = array("h", "target", kind="f", finite=True)
    split: Array = array("h", "1 valid, 2 test", kind="iu", low=1, high=2)
    weight: Array | None = array("h", "weight of each row", kind="f", optional=True)
    variance: Array | None = array("h", "variance of each row's error, in units of the dispersion", kind="f", optional=True, low=0)
    before: Array | None = array(
        "h 2", "errors of the last row before, under η and the intercept alone, over √variance", kind="f", optional=True
    )
    gap: Array | None = array("h", "steps since that row, 0 where none is known", kind="i", optional=True, low=0)
    baselines: Array | None = array(
        "h 2", "classes by the nearest centroid and a ridge classifier, −1: not predicted", kind="i", optional=True, low=-1
    )


@dataclass(frozen=True, kw_only=True)
class GeneralisedLinear:
    """A generalised linear model η = X β + α with K predictors: one, or for softmax one per class.

    For softmax the first class has no predictor unless the fit is penalised.
    Standard errors belong to the maximum of the likelihood.  They are NaN for penalised fits, redundant columns or separation.  `unbounded`
    marks coefficients along which the likelihood rises without end; their value is where the descent stopped.  Under generalised least
    squares, errors, trace, deviance and dispersion belong to the whitened rows, whose dispersion multiplies Ω.
    """

    coefficients: Array = array("K D", "β", kind="f", finite=True)
    intercept: Array = array("K", "α", kind="f", finite=True)
    standard_error: Array = array("K p", "of β, the intercept last: √ of the diagonal of φ H⁻¹", kind="f")
    robust_error: Array = array("K p", "the same of H⁻¹ (Σ s s') H⁻¹, whatever the variance of rows", kind="f")
    null_intercept: Array = array("K", "α of the model of intercepts alone", kind="f", finite=True)
    aliased: Array = array("D", "columns that are combinations of others", kind="b")
    trace: Array = array("T", "penalised mean loss after each step", kind="f")
    family: str
    l1: float
    l2: float
    scale: float  # known scale of gamma-shape
    dispersion: float
    null_dispersion: float  # dispersion of the model of intercepts alone
    log_likelihood: float  # over the training rows, as `weight_meaning` defines it
    deviance: float
    null_deviance: float  # deviance of the model of intercepts alone
    rows: int  # number of rows of positive weight
    mass: float  # Σ w
    converged: bool
    separated: bool
    seed: int
    target: str
    feature_names: list[str] | None = None
    classes: list[str] | None = None
    log_variance: Array | None = array("p", "γ of the log of a row's variance, the constant last", kind="f", optional=True, finite=True)
    gls: str = ""  # form of the errors' covariance: ar1, variance, given; empty: independent errors of equal variance
    correlation: float = float("nan")  # ρ of ar1
    covariance_parameters: int = 0  # number of estimated parameters of the covariance
    weight_kind: str = "precision"  # meaning of the weights
    redundant: int = 0  # number of columns beyond a largest linearly independent set
    response: str = ""  # form of the target: successes or shares of trials, counts or rates of an exposure; "": a plain column
    firth: bool = False  # whether half the log-determinant of Fisher's information was added to the log-likelihood
    freedom: Array | None = array(
        "p", "degrees of freedom of t, where the errors' covariance was estimated", kind="f", optional=True, low=0
    )
    unbounded: Array | None = array("K p", "coefficients without a finite estimate, the intercept last", kind="b", optional=True)
    pearson_ratio: float | None = None  # X²/(n − p) with Pearson's X² of the training rows; None in files of earlier versions
    baselines: ClassBaselines | None = None  # fitted to the same training rows
    holdout: HeldoutRows | None = None
    image_shape: Array | None = array("2", "height and width of a row seen as a picture", kind="iu", optional=True, low=1)

    @property
    def overdispersion(self) -> float | None:
        """Pearson's X²/(n − p) if the family fixes the dispersion at 1; None if it says nothing, as for single zeros and ones."""
        single = self.family == "softmax" or (self.family == "bernoulli" and self.weight_kind != "trials")
        return (
            None
            if single or self.distribution().dispersed or self.pearson_ratio is None or math.isnan(self.pearson_ratio)
            else self.pearson_ratio
        )

    def validate(self) -> None:
        """Raise DataError unless family, predictors and classes are consistent."""
        self.distribution()
        if self.gls and (self.family != "gaussian" or self.gls not in covariance.NAMES):
            raise DataError(f"'{self.gls}' is not a covariance of errors for family {self.family}")
        if self.weight_kind not in weight_meaning.KINDS:
            raise DataError(f"'{self.weight_kind}' is not a kind of weights")
        K, D = self.coefficients.shape
        wanted = len(self.classes or []) if self.family == "softmax" else 1
        if self.family == "softmax" and K not in (wanted, wanted - 1):
            raise DataError(f"/coefficients has {K} predictors for {wanted} classes")
        if self.family != "softmax" and K != 1:
            raise DataError(f"/coefficients has {K} predictors, but {self.family} needs one")
        if self.standard_error.shape[1] != D + 1:
            raise DataError(f"/standard_error has {self.standard_error.shape[1]} columns, expected {D + 1}")
        if self.feature_names is not None and len(self.feature_names) != D:
            raise DataError(f"/feature_names has {len(self.feature_names)} names for {D} columns")
        require_image_shape(self.image_shape, D)
        if self.baselines is not None:
            self.baselines.require_shape(len(self.classes or []) or 2, D)
        if self.holdout is not None and self.holdout.predictor.shape[1] != K:
            raise DataError(f"/holdout/predictor has {self.holdout.predictor.shape[1]} columns, but the model has {K} predictors")

    @property
    def columns(self) -> int:
        """The number of columns of a row."""
        return int(self.coefficients.shape[1])

    @property
    def size(self) -> float:
        """The number of observations n for degrees of freedom and BIC: rows, or Σ w under frequency weights."""
        return weight_meaning.observation_count(self.weight_kind, self.rows, self.mass)

    def distribution(self) -> Family:
        """Return the family."""
        classes = len(self.classes or [])
        return family_by_name(self.family, classes=classes, symmetric=len(self.coefficients) == classes, scale=self.scale)

    def predictor(self, X: Array, offset: Array | None = None) -> Array:
        """Return η (m, K) of rows X (m, D), dense or CSR."""
        columns = X if is_sparse(X) else np.asarray(X, dtype=np.float64)
        eta: Array = columns @ self.coefficients.T + self.intercept
        return eta if offset is None else eta + offset[:, None]

    def last_known_errors(self, steps: covariance.TimeSteps, X: Array, offset: Array, y: Array, variance: Array) -> tuple[Array, Array]:
        """Return `HeldoutRows.before` and `gap` for rows in time; a target NaN is unknown."""
        away = np.column_stack([y - self.predictor(X, offset)[:, 0], y - offset - self.null_intercept[0]])
        return covariance.last_observed_before(steps, away / np.sqrt(variance)[:, None], np.isfinite(y))

    def predict_errors(self, before: Array, gap: Array, variance: Array) -> tuple[Array, Array]:
        """Return the expected errors (n, …) of rows in time given the errors before them, and their conditional variances (n,).

        e_t given e_{t−g} is N(ρ^g e_{t−g}, 1 − ρ^{2g}), each in units of its own standard deviation.
        """
        power = np.where(gap > 0, np.power(self.correlation, gap.astype(np.float64)), 0.0)
        spread = np.sqrt(variance) * power
        return before * (spread if before.ndim == 1 else spread[:, None]), variance * (1.0 - power * power)

    def names(self) -> list[str]:
        """Return the names of the columns, then `intercept`."""
        return [*(self.feature_names or [f"x{j}" for j in range(self.coefficients.shape[1])]), "intercept"]

    def table(self) -> list[dict[str, Any]]:
        """Return one record per coefficient: estimate, standard errors, z (t for the Gaussian), two-sided p, 95 % interval.

        `note` gives the reason if any coefficient has no errors.
        """
        theta = np.column_stack([self.coefficients, self.intercept])
        residual = max(self.size - theta.size + len(theta) * self.redundant, 1.0)
        freedom = self.freedom if self.freedom is not None else np.full(theta.shape[1], residual)
        student = self.family == "gaussian"
        rows = []
        for k in range(len(theta)):
            for j, name in enumerate(self.names()):
                value, error = float(theta[k, j]), float(self.standard_error[k, j])
                z = value / error if error > 0 else float("nan")
                tail = stdtr(freedom[j], -abs(z)) if student else _normal_upper_tail(abs(z))
                width = error * (stdtrit(freedom[j], 0.5 + COVERED / 2) if student else ndtri(0.5 + COVERED / 2))
                own = {"class": self._class_name(k)} if self.family == "softmax" else {}
                figures = {"estimate": value, "standard_error": error, "robust_error": float(self.robust_error[k, j])}
                tests = {"t" if student else "z": z, "p": float(2 * tail), "low": value - width, "high": value + width}
                rows.append({**own, "term": name, **figures, **tests, "note": self._missing_error_note(k, j)})
        if not any(row["note"] for row in rows):
            return [{key: item for key, item in row.items() if key != "note"} for row in rows]
        return rows

    def _missing_error_note(self, k: int, j: int) -> str:
        """Return the reason that a coefficient has no errors; empty if it has them."""
        if self.unbounded is not None and self.unbounded[k, j]:
            return "no finite estimate"
        if self.l1 or self.l2:
            return "penalised"
        if j < len(self.aliased) and self.aliased[j]:
            return "combination of other columns"
        return "no finite estimate" if self.separated and self.unbounded is None else ""

    def unbounded_coefficient_names(self) -> list[str]:
        """Return the names of coefficients without a finite estimate, with their class if there are several."""
        if self.unbounded is None:
            return []
        names, several = self.names(), len(self.coefficients) > 1
        places = [(int(k), int(j)) for k, j in np.argwhere(self.unbounded)]
        return [f"{names[j]} ({self._class_name(k)})" if several else names[j] for k, j in places]

    def _class_name(self, k: int) -> str:
        classes = self.classes or []
        return classes[k + len(classes) - len(self.coefficients)]


def _normal_upper_tail(z: float) -> float:
    from scipy.special import ndtr

    return float(ndtr(-z))


def initial_coefficients(problem: RegressionProblem, map: Map = map) -> Array:
    """Return θ (K, p) with the intercepts of the mean response and coefficients 0."""

    def statistics(block: Block) -> dict[str, Array]:
        _, y, _, weight = problem.split_block(block)
        return {"y": problem.family.response_totals(y, weight)}

    sums = sum_statistics(regression_blocks(problem.rows), statistics, map)["y"]
    theta = np.zeros((problem.outputs, problem.features + 1))
    theta[:, -1] = problem.family.initial_intercepts(sums)
    return theta


def assemble_regression(
    problem: RegressionProblem,
    fit: RegressionFit,
    *,
    names: Sequence[str] | None,
    classes: list[str] | None,
    target: str,
    seed: int,
    whitened: tuple[str, covariance.WhitenedRows] | None = None,
    centre: Array | None = None,
    pearson: bool = False,
    map: Map = map,
) -> GeneralisedLinear:
    """Return the artifact of a fit, after the passes for its statistics: null model, separation, errors, likelihood.

    whitened  form of the errors' covariance and the whitened rows of the problem, under generalised least squares.
    centre    (D,) subtracted from the problem's columns.
    pearson   whether errors of a family without dispersion are multiplied by the root of Pearson's χ² per degree of freedom.
    """
    endless = separation.find_recession_directions(problem, fit, map)
    # A penalty needs no unique columns, and finding repeated ones among many takes D³ operations.
    wide = problem.l2 > 0 and (problem.features >= MANY or isinstance(problem.rows, SparseRows))
    ended = final_fit_sums(problem, fit.theta, map, scored=_has_standard_errors(problem, fit), with_gram=not wide)
    alone = RegressionProblem(problem.rows, problem.family, problem.outputs, 0, constant=problem.constant, weights=problem.weights)
    least = run_algorithm(NewtonDescent(alone, initial_coefficients(alone, map), map=map)).theta
    null = final_fit_sums(alone, least, map, scored=False)
    n = weight_meaning.observation_count(problem.weights, ended["rows"], ended["mass"])
    more, repeated = (0, np.zeros(problem.features, dtype=bool)) if wide else find_redundant_columns(ended["gram"])
    freedom = max(n - fit.theta.size + problem.outputs * more, 1.0)
    ratio = float(ended["pearson"] / freedom)
    dispersion = ratio if problem.family.dispersed or pearson else 1.0
    # The Gaussian's likelihood has its maximum at σ² = Σ w r²/n.
    within = ended["deviance"] / n if problem.family.name == "gaussian" else dispersion
    repeated = repeated[: problem.features]
    to_zero = None if centre is None else centring.uncentring_matrix(problem.outputs, centre)
    uncertainty = None if whitened is None else whitened[1].uncertainty
    standard, robust = standard_errors(problem, fit, ended["scores"], dispersion, repeated, to_zero, endless, uncertainty)
    if whitened is None:
        reached, kept = total_log_likelihood(problem, fit.theta, max(within, 1e-300), map), {}
    else:
        reached, kept = (
            covariance.profile_log_likelihood(whitened[1], ended["deviance"]),
            covariance.covariance_fields(whitened[1], whitened[0], centre),
        )
    if uncertainty is not None:
        kept["freedom"] = np.minimum(uncertainty.degrees_of_freedom(symmetric_inverse(fit.curvature), to_zero), freedom)
    if endless is not None:
        kept["unbounded"] = endless.unbounded_mask(to_zero).reshape(fit.theta.shape)
    figures = FitStatistics(
        rows=ended["rows"],
        mass=ended["mass"],
        deviance=ended["deviance"],
        dispersion=dispersion,
        pearson_ratio=ratio,
        null_deviance=null["deviance"],
        null_dispersion=null["pearson"] / max(n - 1, 1.0) if problem.family.dispersed else 1.0,
        null_intercept=least[:, 0].copy(),
        log_likelihood=reached,
        standard_error=standard,
        robust_error=robust,
        aliased=repeated,
        redundant=more,
    )
    if centre is not None:
        fit = replace(fit, theta=centring.uncentre_coefficients(fit.theta, centre))
    return regression_artifact(problem, fit, figures, names=names, classes=classes, target=target, seed=seed, **kept)


@dataclass(frozen=True)
class FitStatistics:
    """Statistics of a fit besides its coefficients, as in `GeneralisedLinear`.  standard_error, robust_error  (q,)."""

    rows: int
    mass: float
    deviance: float
    dispersion: float
    pearson_ratio: float
    null_deviance: float
    null_dispersion: float
    null_intercept: Array
    log_likelihood: float
    standard_error: Array
    robust_error: Array
    aliased: Array
    redundant: int


def regression_artifact(
    problem: RegressionProblem,
    fit: RegressionFit,
    statistics: FitStatistics,
    *,
    names: Sequence[str] | None,
    classes: list[str] | None,
    target: str,
    seed: int,
    **kept: Any,
) -> GeneralisedLinear:
    """Return the artifact of a fit and its statistics.  kept  fields about the errors' covariance and separation."""
    found = {each.name: getattr(statistics, each.name) for each in fields(FitStatistics)}
    found |= {name: found[name].reshape(fit.theta.shape) for name in ("standard_error", "robust_error")}
    return GeneralisedLinear(
        coefficients=fit.theta[:, :-1].copy(),
        intercept=fit.theta[:, -1].copy(),
        trace=fit.trace,
        family=problem.family.name,
        l1=problem.l1,
        l2=problem.l2,
        scale=float(getattr(problem.family, "scale", 1.0)),
        converged=fit.converged,
        separated=fit.separated or kept.get("unbounded") is not None,
        weight_kind=problem.weights,
        firth=problem.firth,
        seed=seed,
        target=target,
        feature_names=None if names is None else list(names),
        classes=classes,
        **found,
        **kept,
    )


def standard_errors(
    problem: RegressionProblem,
    fit: RegressionFit,
    scores: Array,
    dispersion: float,
    aliased_columns: Array,
    to_original_coefficients: Array | None = None,
    recession: RecessionDirections | None = None,
    uncertainty: CovarianceUncertainty | None = None,
) -> tuple[Array, Array]:
    """Return standard errors (q,) from the curvature, and those of the sandwich; NaN for penalties, separation or redundancy.

    to_original_coefficients  (q, q) the factor from the coefficients of the curvature and the scores to the original ones; None: 1.
    recession    directions in which the likelihood rises without end; the other coefficients have the errors of the limiting model.
    uncertainty  the uncertainty of the error covariance, which the standard errors then include.
    """
    q = fit.theta.size
    nothing = np.full(q, np.nan)
    if not _has_standard_errors(problem, fit):
        return nothing, nothing
    # Cov θ̂ = φ H⁻¹ if the family is right, since the scores' covariance is then φH; else H⁻¹ (Σ s s') H⁻¹ (Huber 1967, White 1980).
    bread = symmetric_inverse(fit.curvature) if recession is None else recession.inverse_curvature(fit.curvature)
    left, right = (
        (bread, bread) if to_original_coefficients is None else (to_original_coefficients @ bread, bread @ to_original_coefficients.T)
    )
    spread = bread if uncertainty is None else uncertainty.covariance(bread)
    standard = np.sqrt(
        np.maximum(
            np.diag(spread if to_original_coefficients is None else to_original_coefficients @ spread @ to_original_coefficients.T)
            * dispersion,
            0.0,
        )
    )
    robust = np.sqrt(np.maximum(np.diag(left @ scores @ right), 0.0))
    withheld = np.tile(np.append(aliased_columns, False), problem.outputs)
    if recession is not None:
        withheld |= recession.unbounded_mask(to_original_coefficients)
    standard[withheld], robust[withheld] = np.nan, np.nan
    # Firth's gradient is not a sum over rows, so the middle of the sandwich is not that of these scores.
    return standard, np.full(q, np.nan) if problem.firth else robust


def _has_standard_errors(problem: RegressionProblem, fit: RegressionFit) -> bool:
    """Return whether estimates have standard errors: they are finite and not shrunk by a penalty."""
    return not (problem.l1 or problem.l2 or fit.separated)
