"""Pictures of regressions: the strongest coefficients with their intervals, predicted against observed, residuals, the descent."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from herdcli.algorithm import Map
from herdcli.errors import DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.plots import plot_list, plot_style, tiles
from herdcli.regression.family_table import TABLE
from herdcli.regression.model import GeneralisedLinear, HeldoutRows
from herdcli.regression.perceptron.model import Perceptron
from herdcli.schema import Array
from herdcli.splits import TEST, VALID

MOST = 30  # coefficients drawn
BINS = 10


def coefficients(value: GeneralisedLinear, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The coefficients of largest |z| (without standard errors, the largest ones) with 95 % intervals.

    Coefficients without a finite estimate are left out.  Columns that are pixels of an image give a picture for each class.
    """
    if value.image_shape is not None:
        images = tiles.rows_as_images(value.coefficients, value.image_shape)
        names = None if value.classes is None else value.classes[len(value.classes) - len(images) :]
        return tiles.tile_images(images, signed=True, title=f"coefficients of {value.target}", scale="coefficient", names=names)
    whole = [row for row in value.table() if row["term"] != "intercept"]
    rows = [row for row in whole if row.get("note") != "no finite estimate"]
    if not rows:
        raise DataError(
            "no coefficient has a finite estimate, so there is nothing to draw", hint="fit with a penalty: herd regress --l2 1e-3"
        )
    known = all(np.isfinite(row["standard_error"]) for row in rows)
    size = (lambda row: abs(row["estimate"]) / row["standard_error"]) if known else (lambda row: abs(row["estimate"]))
    chosen = sorted(rows, key=size)[-MOST:]
    figure = plot_list.new_figure(0.8 + 0.22 * len(chosen))
    axes = figure.add_subplot()
    places = np.arange(len(chosen))
    estimate = np.array([row["estimate"] for row in chosen])
    if known:
        axes.hlines(places, [row["low"] for row in chosen], [row["high"] for row in chosen], color=plot_style.GREY, lw=2)
    axes.plot(estimate, places, "o", ms=4, color=plot_style.COLOURS[0])
    axes.axvline(0, color=plot_style.INK, lw=0.8)
    axes.set_yticks(places, [f"{row['term']} ({row['class']})" if "class" in row else row["term"] for row in chosen])
    axes.set_xlabel("coefficient: change of the linear predictor per unit of the column")
    left = f" of {len(rows)}" if len(rows) > len(chosen) else ""
    endless = f"; {len(whole) - len(rows)} without a finite estimate" if len(rows) < len(whole) else ""
    axes.set_title(f"the {len(chosen)} strongest{left} coefficients" + (", 95 % intervals" if known else "") + endless)
    return figure


def calibration(value: GeneralisedLinear | Perceptron, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Held-out rows in ten groups of rising prediction: the mean observed against the mean predicted, with two standard errors."""
    held = _require_heldout(value)
    predicted, observed = _predicted_and_observed(value, held)
    groups = _prediction_groups(predicted, BINS)
    across = np.array([predicted[group].mean() for group in groups])
    up = np.array([observed[group].mean() for group in groups])
    error = np.array([observed[group].std() / np.sqrt(len(group)) for group in groups])
    figure = plot_list.new_figure(4.2)
    axes = figure.add_subplot()
    ends = [min(across.min(), up.min()), max(across.max(), up.max())]
    axes.plot(ends, ends, color=plot_style.GREY, lw=1, label="as predicted")
    axes.errorbar(across, up, yerr=2 * error, fmt="o", ms=4, color=plot_style.COLOURS[0], label="observed, ±2 standard errors")
    axes.set(xlabel="mean predicted", ylabel="mean observed")
    axes.set_title(f"{_which_rows(held)} in {len(groups)} groups of rising prediction")
    axes.legend()
    return figure


def _require_heldout(value: GeneralisedLinear | Perceptron) -> HeldoutRows:
    if value.holdout is None:
        raise DataError("there are no held-out rows to draw", hint="fit with held-out rows: herd regress --split .6,.2,.2")
    return value.holdout


def _which_rows(heldout: HeldoutRows) -> str:
    """Return how many validation and test rows a picture shows, such as `78 validation and 78 test rows`."""
    counts = [(int(np.count_nonzero(heldout.split == part)), name) for part, name in ((VALID, "validation"), (TEST, "test"))]
    known = [(count, name) for count, name in counts if count]
    return " and ".join(f"{count} {name}" for count, name in known) + (" row" if sum(count for count, _ in known) == 1 else " rows")


def _predicted_and_observed(value: GeneralisedLinear | Perceptron, heldout: HeldoutRows) -> tuple[Array, Array]:
    """What is predicted of each row and what it is; of more than two classes, of each row and class."""
    mean = value.distribution().mean(heldout.predictor)
    if mean.shape[1] == 1:
        return mean[:, 0], heldout.y
    return mean.ravel(), np.eye(mean.shape[1])[heldout.y.astype(int)].ravel()


def _prediction_groups(predicted: Array, count: int) -> list[Array]:
    """Indices in groups of rising prediction, none of them empty."""
    return [group for group in np.array_split(np.argsort(predicted, kind="stable"), count) if len(group)]


def residuals(value: GeneralisedLinear | Perceptron, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Of held-out numbers the standardised residuals against the prediction and against normal quantiles; of classes their group means."""
    held = _require_heldout(value)
    return (
        _class_residual_plot(*_predicted_and_observed(value, held), _which_rows(held))
        if TABLE[value.family].classes
        else _number_residual_plot(value, held)
    )


def standardised_residuals(value: GeneralisedLinear | Perceptron, heldout: HeldoutRows) -> Array:
    """(h,) Pearson's residuals: slopes of the loss by their standard deviations, positive where more is observed than predicted."""
    _, slope, curve = value.distribution().loss_and_derivatives(heldout.predictor, heldout.y)
    spread = value.dispersion * (1.0 if heldout.variance is None else heldout.variance)
    found: Array = -slope[:, 0] / np.sqrt(np.maximum(curve[:, 0] * spread, 1e-300))
    return found


def _number_residual_plot(value: GeneralisedLinear | Perceptron, heldout: HeldoutRows) -> plot_list.Figure:
    rest, predicted = standardised_residuals(value, heldout), value.distribution().mean(heldout.predictor)[:, 0]
    figure = plot_list.new_figure(4.2)
    left, right = figure.subplots(1, 2)
    plot_list.draw_points(left, predicted, rest)
    groups = _prediction_groups(predicted, BINS)
    left.plot(
        [predicted[group].mean() for group in groups],
        [rest[group].mean() for group in groups],
        "s-",
        ms=4,
        color=plot_style.COLOURS[1],
        label="mean",
    )
    left.axhline(0, color=plot_style.GREY, lw=1)
    left.set(xlabel="mean predicted", ylabel="residual in standard deviations")
    left.legend()
    ranks = ndtri((np.arange(len(rest)) + 0.5) / len(rest))
    plot_list.draw_points(right, ranks, np.sort(rest))
    right.plot(ranks[[0, -1]], ranks[[0, -1]], color=plot_style.GREY, lw=1)
    right.set(xlabel="normal quantile")
    figure.suptitle(f"standardised residuals of {_which_rows(heldout)}")
    return figure


def _class_residual_plot(predicted: Array, observed: Array, rows: str) -> plot_list.Figure:
    """Residuals 0 or 1 less a probability say something only together: means of √n groups, with two standard errors about 0."""
    groups = _prediction_groups(predicted, max(2, int(np.sqrt(len(predicted)))))
    across = np.array([predicted[group].mean() for group in groups])
    rest = np.array([(observed[group] - predicted[group]).mean() for group in groups])
    error = np.array([np.sqrt((predicted[group] * (1 - predicted[group])).mean() / len(group)) for group in groups])
    figure = plot_list.new_figure(4.2)
    axes = figure.add_subplot()
    axes.fill_between(across, -2 * error, 2 * error, color=plot_style.GREY, alpha=0.25, lw=0, label="±2 standard errors")
    axes.plot(across, rest, "o", ms=4, color=plot_style.COLOURS[0], label="observed less predicted")
    axes.axhline(0, color=plot_style.GREY, lw=1)
    axes.set(xlabel="mean probability predicted", ylabel="mean residual")
    axes.set_title(f"observed less predicted, {rows} in {len(groups)} groups")
    axes.legend()
    return figure


def trace(value: GeneralisedLinear, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The penalised loss above its last value, step by step."""
    steps = np.arange(len(value.trace))
    return plot_list.curve_plot(
        {"loss": (steps[:-1], value.trace[:-1] - value.trace[-1])}, x="step", y="loss above its last value, nats per row", logarithmic=True,
        title=f"descent in {len(steps) - 1} steps",
    )  # fmt: skip
