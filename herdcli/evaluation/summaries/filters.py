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
    from herdcli.rbm.model import RBM

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
        for k in range(hidden):
            w = value.W[m, :, k]
            unit: Row = {"unit": k + 1, "bias": float(value.c[m, k]), "norm": float(np.linalg.norm(w))}
            rows.append(own | unit | {"strongest weights": _strongest(w, names)})
    return [SummaryTable("fit", [run]), limit_rows("hidden units", rows)]


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
            "strongest columns": _strongest(patterns[:, k], names),
        }
        for k in range(len(value.J))
    ]
    return [SummaryTable("fit", [run]), limit_rows("filters", rows)]


def _pixel_names(shape: Array | None, columns: int) -> list[str] | None:
    """Return the names of the pixels of images by line and column, from 0; None for rows that are no images."""
    if shape is None or len(shape) != 2 or int(np.prod(shape)) != columns:
        return None
    return [f"({i},{j})" for i in range(int(shape[0])) for j in range(int(shape[1]))]


def _strongest(weights: Array, names: list[str]) -> str:
    """Return the columns with the largest weights by magnitude, each with its weight."""
    order = np.argsort(-np.abs(weights), kind="stable")[:STRONGEST]
    shown = names if len(names) == len(weights) else column_names(None, len(weights))
    return ", ".join(f"{shown[j]} {weights[j]:+.2g}" for j in order.tolist() if weights[j])
