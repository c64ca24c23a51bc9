"""Pictures of regressions: the strongest coefficients with their intervals, predicted against observed, the descent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from herdcli.errors import DataError
from herdcli.evaluation import plots
from herdcli.regression.model import GeneralisedLinear

MOST = 30  # coefficients drawn
BINS = 10


def coefficients(value: GeneralisedLinear, settings: Any, *, map: Callable[..., Any] = map) -> plots.Figure:
    """The coefficients of largest |z|, or without errors of largest size, with 95 % intervals."""
    rows = [row for row in value.table() if row["term"] != "intercept"]
    known = all(np.isfinite(row["standard_error"]) for row in rows)
    size = (lambda row: abs(row["estimate"]) / row["standard_error"]) if known else (lambda row: abs(row["estimate"]))
    chosen = sorted(rows, key=size)[-MOST:]
    figure = plots.begin(0.8 + 0.22 * len(chosen))
    axes = figure.add_subplot()
    places = np.arange(len(chosen))
    estimate = np.array([row["estimate"] for row in chosen])
    if known:
        axes.hlines(places, [row["low"] for row in chosen], [row["high"] for row in chosen], color="0.6", lw=2)
    axes.plot(estimate, places, "o", ms=4, color="C0")
    axes.axvline(0, color="black", lw=0.8)
    axes.set_yticks(places, [f"{row['term']} ({row['class']})" if "class" in row else row["term"] for row in chosen], fontsize=8)
    axes.set_xlabel("change of the linear predictor a unit of the column")
    left = f" of {len(rows)}" if len(rows) > len(chosen) else ""
    axes.set_title(f"the {len(chosen)} strongest{left} coefficients" + (", 95 % intervals" if known else ""), fontsize=9)
    return figure


def calibration(value: GeneralisedLinear, settings: Any, *, map: Callable[..., Any] = map) -> plots.Figure:
    """Held-out rows in ten groups of rising prediction: the mean observed against the mean predicted, with two standard errors."""
    held = value.holdout
    if held is None:
        raise DataError("there are no held-out rows to draw", hint="herd regress --split .6,.2,.2")
    mean = value.distribution().mean(held.predictor)
    predicted, observed = (mean[:, 0], held.y) if mean.shape[1] == 1 else (mean.ravel(), np.eye(mean.shape[1])[held.y.astype(int)].ravel())
    groups = [group for group in np.array_split(np.argsort(predicted, kind="stable"), BINS) if len(group)]
    across = np.array([predicted[group].mean() for group in groups])
    up = np.array([observed[group].mean() for group in groups])
    error = np.array([observed[group].std() / np.sqrt(len(group)) for group in groups])
    figure = plots.begin(4.2)
    axes = figure.add_subplot()
    ends = [min(across.min(), up.min()), max(across.max(), up.max())]
    axes.plot(ends, ends, color="0.6", lw=1, label="as predicted")
    axes.errorbar(across, up, yerr=2 * error, fmt="o", ms=4, color="C0", label="observed, ±2 standard errors")
    axes.set(xlabel="mean predicted", ylabel="mean observed")
    axes.set_title(f"{len(held.y)} held-out rows in {len(groups)} groups of rising prediction", fontsize=9)
    axes.legend(fontsize=8)
    return figure


def trace(value: GeneralisedLinear, settings: Any, *, map: Callable[..., Any] = map) -> plots.Figure:
    """The penalised loss above its last value, step by step."""
    steps = np.arange(len(value.trace))
    return plots.curves(
        {"loss": (steps[:-1], value.trace[:-1] - value.trace[-1])}, x="step", y="loss above its minimum, nats a row", logarithmic=True
    )
