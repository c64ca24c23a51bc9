"""The metrics of `herd eval` for a `predictor`: errors compared with those of the mean, and the accuracy of its deviations.

They are computed on the test rows in the artifact, or on the last examples predicted before they were learned (`judged_on`).
"""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map, ProgressCallback
from herdcli.errors import DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.metrics import heldout_examples
from herdcli.evaluation.metrics.feature_importance import column_namer, largest_weight_indices, weight_moments
from herdcli.evaluation.metrics.score_collection import CollectedColumns
from herdcli.evaluation.plots import plot_list, plot_style
from herdcli.evaluation.table import Row
from herdcli.online.numbers import Predictor, predictive_deviations
from herdcli.schema import Array

COLUMNS = (
    *("rows", "judged_on", "rmse", "rmse_mean", "mae", "r2", "coverage_95", "log_likelihood", "coverage", "width"),
    *("progressive_rmse", "progressive_mae", "progressive_coverage", "progressive_width"),
)
WITHIN = 1.959963984540054  # standard deviations that contain 95 % of normal errors
STRONGEST = 30


class EvaluatedOutcomes:
    """Statistics of outcomes that a predictor has predicted, block by block; `kept` has outcome, residual and log-likelihood of each.

    on  test or calibration: the rows that were used.
    """

    def __init__(self, model: Predictor, collected: CollectedColumns | None = None, *, on: str = "test") -> None:
        self.model, self.kept, self.on = model, CollectedColumns() if collected is None else collected, on
        self.near = self.held = 0

    def add(self, score: Array, variance: Array, y: Array) -> None:
        """Add examples: predictions and their variances (n, 1), outcomes (n,)."""
        deviation = predictive_deviations(self.model, variance)
        residual = y - score[:, 0]
        z = residual / deviation
        self.kept.append([y, residual, -0.5 * z**2 - np.log(deviation)])
        self.near += int(np.count_nonzero(np.abs(z) <= WITHIN))
        if self.model.coverage is not None and self.on == "test":
            self.held += int(np.count_nonzero(np.abs(residual) <= self.model.coverage.threshold))

    def metric_columns(self) -> Row:
        """Return the columns of `metrics` for these rows."""
        rows, spread, residual = self.kept.count, float(np.std(self.kept.column(0))), self.kept.column(1)
        rmse = float(np.sqrt(np.mean(residual**2)))
        found: Row = {"rows": rows, "judged_on": self.on, "rmse": rmse, "rmse_mean": spread}
        found |= {"mae": float(np.mean(np.abs(residual, out=residual))), "r2": 1.0 - (rmse / spread) ** 2 if spread > 0 else None}
        found["coverage_95"] = self.near / rows
        found["log_likelihood"] = float(np.mean(self.kept.column(2))) - 0.5 * float(np.log(2 * np.pi))
        sets = self.model.coverage
        if sets is not None and self.on == "test":
            found |= {"coverage": self.held / rows, "width": 2.0 * sets.threshold if np.isfinite(sets.threshold) else None}
        return found


def metrics(
    value: Predictor | EvaluatedOutcomes, settings: EvaluationSettings | None, *, map: Map = map, progress: ProgressCallback | None = None
) -> Row:
    """Return every column of `COLUMNS`; None if the artifact has no held-out rows.

    rmse_mean       that of predicting the mean of these rows.   r2  1 − (rmse/rmse_mean)².
    coverage, width of the intervals of `herd apply --want sets`, on test rows only; a width only if they have two ends.
    coverage_95     share of rows within 1.96 of their standard deviations.   log_likelihood  nats per row under N(m, deviation²).
    """
    model, found = value.model if isinstance(value, EvaluatedOutcomes) else value, _evaluate_heldout_outcomes(value)
    result: Row = dict.fromkeys(COLUMNS)
    if seen := model.running.seen:
        result |= {"progressive_rmse": (model.running.loss / seen) ** 0.5, "progressive_mae": model.absolute / seen}
    if model.coverage is not None and model.coverage.examples:
        result["progressive_coverage"] = model.coverage.share_covered
        result["progressive_width"] = model.coverage.mean_size(numbers=True)
    return result if found is None else result | found.metric_columns()


def _evaluate_heldout_outcomes(value: Predictor | EvaluatedOutcomes) -> EvaluatedOutcomes | None:
    """Return the statistics of the evaluated rows; None if an artifact has none."""
    return value if isinstance(value, EvaluatedOutcomes) else heldout_examples.evaluate_heldout(value, EvaluatedOutcomes)


def heldout_predictions(value: Predictor) -> tuple[Array, Array, Array]:
    """Return outcomes, predictions and their standard deviations (n,) of the held-out rows used for the metrics."""
    rows = value.holdout
    if rows is None:
        raise DataError("the predictor has no held-out rows", hint="give a file of labelled examples: herd eval MODEL --data FILE")
    _, chosen = heldout_examples.evaluation_part_and_mask(rows)
    return rows.y[chosen], rows.score[chosen, 0], predictive_deviations(value, rows.variance[chosen])


def predicted(value: Predictor, settings: EvaluationSettings | None, *, map: Map = map) -> plot_list.Figure:
    """Outcomes against predictions, with a line where they are equal."""
    y, m, _ = heldout_predictions(value)
    figure = plot_list.new_figure(4.0)
    axes = figure.add_subplot()
    axes.plot(m, y, ".", markersize=3, color=plot_style.COLOURS[0])
    plot_list.draw_diagonal(axes, np.concatenate([y, m]), label="as predicted")
    row = metrics(value, None)
    axes.set(xlabel="predicted", ylabel="outcome")
    axes.set_title(f"{row['rows']} {row['judged_on']} rows: root mean square error {row['rmse']:.3g}, of the mean {row['rmse_mean']:.3g}")
    axes.legend()
    axes.grid()
    return figure


def weights(value: Predictor, settings: EvaluationSettings | None, *, map: Map = map) -> plot_list.Figure:
    """The strongest weights by name, with two standard deviations."""
    mean, deviation = weight_moments(value)
    strongest, name = largest_weight_indices(mean[0], STRONGEST), column_namer(value)
    figure = plot_list.new_figure(1.2 + 0.2 * max(4, len(strongest)))
    axes = figure.add_subplot()
    place = np.arange(len(strongest))
    error = None if deviation is None else 2.0 * value.scale * deviation[0, strongest]
    axes.barh(place, mean[0, strongest], xerr=error, color=plot_style.COLOURS[0])
    axes.set_yticks(place, [name(k) for k in strongest.tolist()])
    axes.invert_yaxis()
    axes.set(xlabel="weight, ±2 standard deviations")
    axes.grid(axis="x")
    return figure
