"""Pictures of perceptrons: the weights of first-layer units, and the descent."""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.plots import plot_list, tiles
from herdcli.regression.perceptron.model import Perceptron

MOST = 144  # units drawn


def filters(value: Perceptron, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The first-layer weights of each hidden unit as a picture; at most 144 of the largest."""
    weights = value.layers[0].W * (value.column_factor > 0)
    size = np.abs(weights).sum(axis=1)
    chosen = np.sort(np.argsort(-size, kind="stable")[:MOST])
    left = f" of {len(weights)}" if len(weights) > len(chosen) else ""
    return tiles.rows_plot(
        weights[chosen],
        value.image_shape,
        row_label="hidden unit",
        column_names=value.feature_names,
        row_names=[str(index + 1) for index in chosen],
        signed=True,
        title=f"first-layer weights of {len(chosen)}{left} hidden units",
        scale="weight of a standardised column",
    )


def trace(value: Perceptron, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The penalised loss of the training rows and the loss of the validation rows, step by step or epoch by epoch."""
    unit = "step" if value.optimizer == "trust-region" else "epoch"
    lines = {"training rows": (np.arange(len(value.trace)), value.trace)}
    if len(value.validation_trace):
        lines["validation rows"] = (np.arange(len(value.validation_trace)), value.validation_trace)
    count = len(value.trace) - (unit == "step")
    return plot_list.curve_plot(lines, x=unit, y="mean loss", title=f"{value.optimizer}, {count} {unit}s")
