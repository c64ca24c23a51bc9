"""Tables about models with filters (RBMs, herding, ICA): the fit, and each filter with its strongest columns by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.evaluation.summaries.summary_table import Levels, SummaryTable, column_names, limit_rows
from herdcli.evaluation.table import Row
from herdcli.schema import Array

if TYPE_CHECKING:
    from herdcli.herding.model import Herding
    from herdcli.ica.model import ICA
    from herdcli.rbm.layers import DBN
    from herdcli.rbm.model import RBM
    from herdcli.rbm.pairs import PairRBM
    from herdcli.rbm.recurrent.artifacts import RecurrentRBM

STRONGEST = 4  # columns that are named for each filter


def rbm_tables(value: RBM, levels: Levels) -> list[SummaryTable]:
    """Return the fit in a line, and the bias, norm and strongest columns of each hidden unit."""
    models, columns, hidden = value.W.shape
    run: Row = {
        "models": models,
        "visible": columns,
        "hidden": hidden,
        "visible_units": value.visible_units,
        "hidden_units": value.hidden_units,
        "algorithm": value.algorithm,
        "epochs": value.epochs,
        "learning_rate": value.learning_rate,
    }
    names = _pixel_names(value.image_shape, columns) or column_names(value.feature_names, value.columns) + list(value.labels or ())
    rows: list[Row] = []
    for m in range(models):
        own: Row = {"model": value.classes[m] if value.classes else m} if models > 1 else {}
        rows += [own | row for row in _unit_rows(value.W[m], value.c[m], names)]
    return [SummaryTable("fit", [run]), limit_rows("hidden units", rows)]


def dbn_tables(value: DBN, levels: Levels) -> list[SummaryTable]:
    """Return the layers, a line each, and the bias, norm and strongest inputs of each hidden unit, layer by layer."""
    layers: list[Row] = [
        {
            "layer": number,
            "visible": layer.W.shape[1],
            "hidden": layer.W.shape[2],
            "visible_units": layer.visible_units,
            "hidden_units": layer.hidden_units,
            "algorithm": layer.algorithm,
            "epochs": layer.epochs,
            "learning_rate": layer.learning_rate,
        }
        for number, layer in enumerate(value.layers, 1)
    ]
    tables = [SummaryTable("layers, the lowest first", layers)]
    for number, (layer, names) in enumerate(zip(value.layers, layer_input_names(value), strict=True), 1):
        shown = (number == 1 and _pixel_names(layer.image_shape, layer.W.shape[1])) or names
        tables.append(limit_rows(f"hidden units of layer {number}", _unit_rows(layer.W[0], layer.c[0], shown)))
    return tables


def layer_input_names(value: DBN) -> list[list[str]]:
    """Return the names of the inputs of each layer: columns of the rows, then `unit` and the number of a hidden unit of the layer below."""
    lowest = value.layers[0]
    columns = lowest.W.shape[1]
    known = column_names(lowest.feature_names, lowest.columns) + list(lowest.labels or ())
    first = known if len(known) == columns else column_names(None, columns)
    return [first, *([f"unit {j + 1}" for j in range(layer.W.shape[1])] for layer in value.layers[1:])]


def pair_tables(value: PairRBM, levels: Levels) -> list[SummaryTable]:
    """Return the fit in a line, and of each hidden unit the norms of its two receptive fields, their correlation, and strongest pixels."""
    settings = value.settings
    run: Row = {
        "visible": 2 * len(value.b1),
        "hidden": len(value.c),
        "visible_units": settings.visible_units,
        "hidden_units": settings.hidden_units,
        "pairs": value.pairs,
        "epochs": settings.epochs,
        "learning_rate": settings.learning_rate,
    }
    names = _pixel_names(value.image_shape, len(value.b1)) or column_names(value.feature_names, len(value.b1))
    first, second = value.W1.astype(np.float64), value.W2.astype(np.float64)
    norms = np.linalg.norm(first, axis=0), np.linalg.norm(second, axis=0)
    same = (first * second).sum(axis=0) / np.where(norms[0] * norms[1] > 0, norms[0] * norms[1], 1)
    rows: list[Row] = [
        {
            "unit": k + 1,
            "bias": float(value.c[k]),
            "norm_1": float(norms[0][k]),
            "norm_2": float(norms[1][k]),
            "cosine": float(same[k]),
            "strongest of image 1": _format_strongest_columns(first[:, k], names, 2),
            "of image 2": _format_strongest_columns(second[:, k], names, 2),
        }
        for k in range(len(value.c))
    ]
    return [SummaryTable("fit", [run]), limit_rows("hidden units: their weights to both images of a pair", rows)]


def recurrent_tables(value: RecurrentRBM, levels: Levels) -> list[SummaryTable]:
    """Return the fit in a line, and of each hidden unit bias, norm, strongest columns and strongest units of the step before."""
    run: Row = {
        "visible": value.columns,
        "hidden": value.hidden,
        "visible_units": value.visible_units,
        "hidden_units": value.hidden_units,
        "algorithm": value.algorithm,
        "epochs": value.epochs,
        "learning_rate": value.learning_rate,
        "sequences": value.sequences,
        "rows": value.rows,
    }
    names = _pixel_names(value.image_shape, value.columns) or column_names(value.feature_names, value.columns)
    units = [f"unit {k + 1}" for k in range(value.hidden)]
    rows = _unit_rows(value.parameters.W, value.parameters.c, names)
    for k, row in enumerate(rows):
        row["from the step before"] = _format_strongest_columns(value.parameters.U[:, k], units, 2)
    return [SummaryTable("fit", [run]), limit_rows("hidden units", rows)]


def _unit_rows(W: Array, c: Array, names: list[str]) -> list[Row]:
    """Return bias, norm and strongest inputs of each hidden unit with weights W (D, K) and biases c (K,)."""
    return [
        {
            "unit": k + 1,
            "bias": float(c[k]),
            "norm": float(np.linalg.norm(W[:, k])),
            "strongest weights": _format_strongest_columns(W[:, k], names),
        }
        for k in range(len(c))
    ]


def herding_tables(value: Herding, levels: Levels) -> list[SummaryTable]:
    """Return the runs in a line, and the largest gaps of the moments and the final norm of the weights of each run."""
    run: Row = {
        "model": value.model,
        "features": value.features,
        "units": value.all_units or value.b.shape[1],
        "constant": value.all_units - value.b.shape[1] if value.all_units else None,
        "hidden": None if value.c is None else value.c.shape[1],
        "representation": value.representation,
        "iterations": value.iterations,
        "pseudo_samples": value.states.shape[1],
    }
    rows: list[Row] = []
    for k in range(len(value.n)):
        gaps = {"visible": value.gap.largest_visible, "pair": value.gap.largest_pair, "hidden": value.gap.largest_hidden}
        own: Row = {"run": value.classes[k] if value.classes else str(k + 1)}
        own |= {f"gap_{name}": None if gap is None else float(gap[k]) for name, gap in gaps.items()}
        rows.append(own | {"weight_norm": float(value.weight_norm[-1, k])})
    return [SummaryTable("fit", [run]), limit_rows("runs: largest gaps of moments, and norm of the weights", rows)]


def ica_tables(value: ICA, levels: Levels) -> list[SummaryTable]:
    """Return the fit in a line, and the density, power, kurtosis and strongest columns of each filter.

    Columns are strongest by their correlation with the output: its pattern in raw units over their standard deviations in the kept
    dimensions.
    """
    columns = value.whitening.mean.size
    run: Row = {
        "algorithm": value.algorithm,
        "rows": value.rows,
        "columns": columns,
        "dimensions": value.J.shape[1],
        "filters": value.J.shape[0],
        "iterations": value.iterations,
    }
    spread = np.linalg.norm(value.whitening.backward, axis=1)
    patterns = value.basis / np.where(spread > 0, spread, 1)[:, None]
    names = _pixel_names(value.image_shape, columns) or column_names(value.feature_names, columns)
    total = float(value.whitening.total)
    rows: list[Row] = [
        {
            "filter": str(k + 1),
            "density": value.experts[k],
            "power": float(value.power[k]),
            "share": float(value.power[k]) / total if total > 0 else None,
            "kurtosis": float(value.kurtosis[k]),
            "strongest columns": _format_strongest_columns(patterns[:, k], names),
        }
        for k in range(len(value.J))
    ]
    return [SummaryTable("fit", [run]), limit_rows("filters", rows)]


def _pixel_names(shape: Array | None, columns: int) -> list[str] | None:
    """Return the names of the pixels of images by line and column, from 0; None for rows that are no images."""
    if shape is None or len(shape) != 2 or int(np.prod(shape)) != columns:
        return None
    return [f"({i},{j})" for i in range(int(shape[0])) for j in range(int(shape[1]))]


def _format_strongest_columns(weights: Array, names: list[str], count: int = STRONGEST) -> str:
    """Return the columns with the largest weights by magnitude, each with its weight."""
    order = np.argsort(-np.abs(weights), kind="stable")[:count]
    shown = names if len(names) == len(weights) else column_names(None, len(weights))
    return ", ".join(f"{shown[j]} {weights[j]:+.2g}" for j in order.tolist() if weights[j])
