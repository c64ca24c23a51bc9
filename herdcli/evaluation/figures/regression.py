"""The metrics of `herd eval` for a regression: its predictions of held-out rows, compared with a model of intercepts only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from herdcli.algorithm import Map
from herdcli.evaluation import verdicts
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.table import Value
from herdcli.evaluation.verdicts import NO_ROWS
from herdcli.numerics import block_statistics, class_baselines
from herdcli.numerics.block_statistics import BlockRows, RowBlocks, take_block_rows
from herdcli.records import dataclass
from herdcli.regression import weight_meaning
from herdcli.regression.family_table import TABLE
from herdcli.regression.model import GeneralisedLinear, HeldoutRows
from herdcli.regression.perceptron.model import Perceptron
from herdcli.schema import Array
from herdcli.splits import TEST, VALID

RegressionModel = GeneralisedLinear | Perceptron
LITTLE = 0.05  # a fit overfits if the explained share of the test deviance is below that of training by more than this


@dataclass(frozen=True)
class EvaluatedRegression:
    """A regression and blocks (`HeldoutRows`) of the rows that evaluate it, whose weights add up to `mass`."""

    model: RegressionModel
    source: block_statistics.BlockSource
    mass: float


def make_evaluated_regression(model: RegressionModel, source: block_statistics.BlockSource, map: Map = map) -> EvaluatedRegression:
    """Return the evaluation with the sum of the weights, which takes a pass if there are any."""
    return EvaluatedRegression(
        model,
        source,
        float(block_statistics.sum_statistics(source, lambda held: {"mass": np.array([row_weights(held).sum()])}, map)["mass"][0]),
    )


def metrics(
    value: GeneralisedLinear | EvaluatedRegression,
    settings: EvaluationSettings,
    *,
    map: Map = map,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Value]:
    """Return the held-out log-likelihood (nats per row), share of deviance explained, error or RMSE, AIC and BIC, and verdict.

    Rows of trials have nats per trial, rates nats per unit of exposure.
    independent  the log-likelihood under the training rows' mean response.
    gain_se      standard error of the log-likelihood minus `independent`.
    pearson_ratio  the same for families with dispersion 1 (counts, shares of trials), always.
    dispersion   Pearson's χ² divided by its degrees of freedom, if the errors were multiplied by its root on request.

    For time series (--gls ar1) the figures are those of forecasts from the preceding row, with the same correlation;
    those with `_alone` use only a row's own columns.
    """
    held = value if isinstance(value, EvaluatedRegression) else heldout_rows(value, map)
    model = value.model if isinstance(value, EvaluatedRegression) else value
    assert isinstance(model, GeneralisedLinear)
    freedom = (
        int(np.count_nonzero(model.coefficients) if model.l1 else model.coefficients.size)
        + len(model.intercept)
        + int(model.distribution().dispersed)
    )
    freedom += model.covariance_parameters
    if not (model.l1 or model.l2):  # redundant columns share the coefficients of those that they repeat
        freedom -= len(model.intercept) * model.redundant
    found: dict[str, Value] = {
        "family": model.family,
        "train_explained": deviance_explained(model.deviance, model.null_deviance),
        "aic": 2 * freedom - 2 * model.log_likelihood,
        "bic": float(np.log(model.size)) * freedom - 2 * model.log_likelihood,
        "converged": int(model.converged),
    }
    if model.dispersion != 1.0 and not model.distribution().dispersed:
        found["dispersion"] = model.dispersion
    if model.overdispersion is not None:
        found["pearson_ratio"] = model.overdispersion
    if model.gls:
        found |= {"gls": model.gls} | ({"correlation": model.correlation} if model.gls == "ar1" else {})
    if held is None:
        return found | {"verdict": regression_verdict(model, found)}
    figures, discordant = heldout_columns(held, map)
    found |= figures
    return found | {"verdict": regression_verdict(model, found, discordant)}


def heldout_columns(evaluated: EvaluatedRegression, map: Map = map) -> tuple[dict[str, Value], Array | None]:
    """Return the columns of the evaluated rows; and, for classes, (2, 3) as in `class_baselines.count_discordant_rows`."""
    value, found = evaluated.model, dict[str, Value]()
    total = block_statistics.sum_statistics(evaluated.source, _make_block_statistics(evaluated), map)
    sums = {name: float(item.flat[0]) for name, item in total.items()}
    explained = deviance_explained(sums["deviance"], sums["null_deviance"])
    found |= {
        "rows": int(sums["rows"]),
        "log_likelihood": sums["log_likelihood"],
        "independent": sums["independent"],
        "gain_se": standard_error_of_gain(sums),
        "explained": explained,
    }
    if value.gls == "given" and not sums["said"]:
        found |= {"log_likelihood": None, "independent": None, "gain_se": None}  # the error variances of these rows are unknown
    if TABLE[value.family].classes:
        found |= {"error": sums["wrong"], "error_majority": 1 - float(total["classes"].max()) / evaluated.mass}
        if "discordant" in total:
            known = [name for name, (wrong, _, _) in zip(class_baselines.NAMES, total["discordant"], strict=True) if not np.isnan(wrong)]
            wrong = dict(zip(class_baselines.NAMES, total["baseline_wrong"].tolist(), strict=True))
            found |= {f"error_{name}": wrong[name] for name in known}
    else:
        found["rmse"] = float(np.sqrt(sums["square"]))
    if "log_likelihood_alone" in sums:
        found |= {"log_likelihood_alone": sums["log_likelihood_alone"], "rmse_alone": float(np.sqrt(sums["square_alone"]))}
    return found, total.get("discordant")


def standard_error_of_gain(sums: Mapping[str, float]) -> float | None:
    """Return the standard error of the mean gain of rows' log-likelihoods over those of a baseline; None for one row.

    sums  `rows`, and for shares s and gains g `gains` Σ s² g, `gain_squares` Σ s² g² and `squares` Σ s²; the mean gain is that of
          `log_likelihood` over `independent`.
    """
    if sums["rows"] < 2:
        return None
    mean = sums["log_likelihood"] - sums["independent"]
    # Var Σ s g = Σ s² (g − ḡ)² n/(n − 1), with s the shares of the rows.
    spread = sums["gain_squares"] - 2 * mean * sums["gains"] + mean * mean * sums["squares"]
    return float(np.sqrt(max(spread, 0.0) * sums["rows"] / (sums["rows"] - 1)))


def heldout_rows(value: RegressionModel, map: Map) -> EvaluatedRegression | None:
    """Return the test rows stored with a model, or those of split 1 if there are none."""
    if value.holdout is None or not len(value.holdout.y):
        return None
    chosen = value.holdout.split == (TEST if (value.holdout.split == TEST).any() else VALID)
    rows = BlockRows(take_block_rows(value.holdout, chosen), int(chosen.sum()), value.holdout.predictor.shape[1])
    return make_evaluated_regression(value, RowBlocks(rows), map)


def row_weights(heldout: HeldoutRows) -> Array:
    return np.ones(len(heldout.y)) if heldout.weight is None else heldout.weight


def _make_block_statistics(evaluated: EvaluatedRegression) -> Callable[[HeldoutRows], block_statistics.Sums]:
    """Return a function from rows to the sums for the metrics: shares of the total weight, except for deviances and class weights."""
    value, family = evaluated.model, evaluated.model.distribution()

    def sums(heldout: HeldoutRows) -> block_statistics.Sums:
        eta, y, weight = heldout.predictor, heldout.y, row_weights(heldout)
        null, share = value.null_intercept + heldout.offset[:, None], weight / evaluated.mass
        variance, found = np.ones(len(y)) if heldout.variance is None else heldout.variance, dict[str, Any]()
        if isinstance(value, GeneralisedLinear) and heldout.before is not None and heldout.gap is not None:
            found["log_likelihood_alone"] = share @ row_log_likelihoods(value, eta, y, value.dispersion, variance, weight)
            found["square_alone"] = share @ (eta[:, 0] - y) ** 2
            error, variance = value.predict_errors(heldout.before, heldout.gap, variance)
            eta, null = eta + error[:, :1], null + error[:, 1:]
        precision = weight / variance
        found |= {"rows": np.count_nonzero(weight), "said": heldout.variance is not None}
        found |= {"deviance": precision @ family.deviance(eta, y), "null_deviance": precision @ family.deviance(null, y)}
        own = row_log_likelihoods(value, eta, y, value.dispersion, variance, weight)
        base = row_log_likelihoods(value, null, y, value.null_dispersion, variance, weight)
        found |= {"log_likelihood": share @ own, "independent": share @ base}
        square = share / evaluated.mass if value.weight_kind == "frequency" else share * share
        found |= {"gains": square @ (own - base), "gain_squares": square @ (own - base) ** 2, "squares": square.sum()}
        mean, classes = family.mean(eta), {}
        if TABLE[value.family].classes:
            guess = mean.argmax(axis=1) if value.family == "softmax" else mean[:, 0] >= 0.5
            if value.weight_kind == "trials":  # y is the share of ones
                found["wrong"] = share @ np.abs(guess - y)
                classes = {"classes": np.array([weight @ (1 - y), weight @ y])}
            else:
                found["wrong"] = share @ (guess != y)
                classes = {"classes": np.bincount(y.astype(np.int64), weights=weight, minlength=max(2, len(value.classes or [])))}
                if heldout.baselines is not None:
                    classes["baseline_wrong"] = share @ (heldout.baselines != y[:, None])
                    count = weight if value.weight_kind == "frequency" else None
                    classes["discordant"] = class_baselines.count_discordant_rows(y, guess, heldout.baselines, count)
        else:
            found["square"] = share @ (mean[:, 0] - y) ** 2
        return {name: np.array([float(item)]) for name, item in found.items()} | classes

    return sums


def row_log_likelihoods(value: RegressionModel, eta: Array, y: Array, dispersion: float, variance: Array, weight: Array) -> Array:
    """Return the log-likelihood (h,) of each row, with errors of variance φv: N(y; η, φv) = N((y − η)/√v; 0, φ)/√v."""
    family = value.distribution()
    if value.weight_kind == "exposure":  # per event in a unit of exposure
        there = np.where(weight > 0, weight, 1.0)
        return weight_meaning.row_log_likelihoods(family, "exposure", eta, y, there, dispersion) / there
    if not value.gls:  # φ belongs to rows of weight 1, and the sum is Σ w log p for rows that count w times
        return family.log_likelihood(eta, y, dispersion * (value.size / value.mass if family.dispersed else 1.0))
    scale = np.sqrt(variance)
    return family.log_likelihood(np.zeros_like(eta), (y - eta[:, 0]) / scale, dispersion) - np.log(scale)


def deviance_explained(deviance: float, null: float) -> float | None:
    """Return the share of a deviance that the model explains; None if there was none."""
    return 1 - deviance / null if null > 0 else None


def regression_verdict(value: RegressionModel, row: Mapping[str, Any], discordant: Array | None = None) -> str:
    """Return `ok`, or all findings in a few words each: first the loss against the mean response, then its possible reasons.

    discordant  (2, 3) as in `class_baselines.count_discordant_rows`, for classes.
    """
    explained, trained = row.get("explained"), deviance_explained(value.deviance, value.null_deviance)
    found = list[str]()
    if "rows" not in row:
        found.append(NO_ROWS)
    elif row.get("log_likelihood") is None:
        found += ["worse than the mean"] if explained is not None and explained <= 0 else []
    else:
        of_loss = verdicts.loss_finding(row["log_likelihood"], row["independent"], worse="worse than the mean", spread=row.get("gain_se"))
        found += [of_loss] if of_loss else []
        found += [] if discordant is None else verdicts.baseline_loss_findings(discordant, row["rows"])
    if explained is not None and trained is not None and explained < trained - max(LITTLE, 0.5 * trained):
        found.append("overfits")
    if value.separated:
        found.append("separated")
    elif not value.converged:
        found.append("not converged")
    return verdicts.join_findings(found)
