"""Tables about rows: data sets with types, missing values and ranges, and the atoms of coresets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from herdcli.evaluation.summaries.summary_table import MOST_COLUMNS, Levels, SummaryTable, column_names, limit_rows
from herdcli.evaluation.table import Row, report_rows
from herdcli.schema import Matrix

if TYPE_CHECKING:
    from herdcli.evaluation.table import Report
    from herdcli.quadrature.samples import Samples

HEAD, FIRST = 5, 20  # rows shown of a data set, and of one that a command made
MOST_SUMMARISED = 30  # most columns with a line each
BLOCK = 1 << 16  # rows processed together
SPLITS = ("train", "valid", "test")


def dataset_tables(value: Any, levels: Levels) -> list[SummaryTable]:
    """Return the size of a data set, its first rows, and each column's type, missing values and range."""
    n, d = value.X.shape
    shape: Row = {"rows": n, "columns": d}
    if value.is_sparse:
        shape["filled"] = f"{value.X.nnz / max(n * d, 1):.3%}"
    if value.y is not None:
        shape["labels"] = value.label_name or "y"
        shape["classes"] = len(value.class_names) if value.class_names is not None else len(np.unique(value.y))
    if value.image_shape is not None:
        shape["images"] = " × ".join(map(str, value.image_shape.tolist()))
    if value.split is not None:
        counts = np.bincount(value.split, minlength=3).tolist()
        shape |= {name: counts[k] for k, name in enumerate(SPLITS)}
    origin = [f"{what}: {text}" for what, text in (("source", value.source), ("licence", value.licence)) if text]
    tables = [SummaryTable("rows", [shape], "; ".join(origin))]
    if value.y is not None and value.class_names is not None and len(value.class_names) <= MOST_SUMMARISED:
        counted = np.bincount(value.y[value.y >= 0], minlength=len(value.class_names)).tolist()
        tables.append(SummaryTable("labels", [dict(zip(value.class_names, counted, strict=False))]))
    names = column_names(value.feature_names, d)
    tables.append(SummaryTable("head", _first_rows(value, names, levels), f"{d - MOST_COLUMNS} more columns" if d > MOST_COLUMNS else ""))
    return [*tables, limit_rows("columns", _column_rows(value, names, levels), MOST_SUMMARISED)]


def row_tables(value: Any, levels: Levels) -> list[SummaryTable]:
    """Return the first rows of a data set that a command made."""
    n, d = value.X.shape
    names = column_names(value.feature_names, d)
    left = [f"{n - FIRST} more rows" if n > FIRST else "", f"{d - MOST_COLUMNS} more columns" if d > MOST_COLUMNS else ""]
    note = " and ".join(filter(None, left))
    return [SummaryTable(f"{n} rows × {d} columns", _first_rows(value, names, levels, FIRST), f"{note}: -o FILE has all" if note else "")]


def _first_rows(value: Any, names: list[str], levels: Levels, count: int = HEAD) -> list[Row]:
    first = value.X[:count]
    cells = first.toarray() if value.is_sparse else np.asarray(first)
    rows: list[Row] = []
    for k, line in enumerate(cells[:, :MOST_COLUMNS].tolist()):
        row: Row = {"row": str(k)}
        if value.y is not None:
            label, title = int(value.y[k]), value.label_name or "y"
            row[title if title not in names else "(label)"] = (
                None if label < 0 else value.class_names[label] if value.class_names is not None else label
            )
        row |= {name: _state_name(levels.get(name, ()), item) for name, item in zip(names, line, strict=False)}
        rows.append(row | {name: _to_text_or_number(column[k]) for name, column in (value.columns or {}).items()})
    return rows


def _state_name(names: Sequence[str], item: float) -> str | float:
    """Return the name of a state, else the number itself."""
    return names[int(item)] if item >= 0 and item < len(names) else item


def _to_text_or_number(item: Any) -> str | float:
    """Return a value of a further column as text or number."""
    found = item.item() if hasattr(item, "item") else item
    return found if isinstance(found, (int, float)) else str(found)


def _column_rows(value: Any, names: list[str], levels: Levels) -> list[Row]:
    """Return type, missing values, minimum, mean and maximum of each column."""
    low, high, total, missing, whole = _column_sums(value.X)
    n = value.X.shape[0]
    rows: list[Row] = []
    for j, name in enumerate(names):
        kind = "number" if not whole[j] else "binary" if low[j] >= 0 and high[j] <= 1 else "whole number"
        own: Row = {"column": name, "type": "text" if name in levels else kind, "missing": int(missing[j])}
        present = n - int(missing[j])
        own |= {"min": float(low[j]), "mean": float(total[j]) / present, "max": float(high[j])} if present else {}
        rows.append(own)
    return rows


def _column_sums(X: Matrix) -> tuple[Any, Any, Any, Any, Any]:
    """Return (d,) minimum, maximum, sum, missing values, and whether all values are whole, computed block by block."""
    n, d = X.shape
    low, high, total = np.full(d, np.inf), np.full(d, -np.inf), np.zeros(d)
    missing, whole = np.zeros(d, dtype=np.int64), np.ones(d, dtype=bool)
    size = max(1, min(BLOCK, (1 << 22) // max(d, 1)))
    for start in range(0, n, size):
        part = X[start : start + size]
        block = np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float64)
        gone = np.isnan(block)
        missing += gone.sum(axis=0)
        low = np.minimum(low, np.where(gone, np.inf, block).min(axis=0))
        high = np.maximum(high, np.where(gone, -np.inf, block).max(axis=0))
        total += np.where(gone, 0.0, block).sum(axis=0)
        whole &= (gone | (block == np.floor(block))).all(axis=0)
    return low, high, total, missing, whole


def samples_tables(value: Samples, levels: Levels) -> list[SummaryTable]:
    """Return the run in a line, and the atoms with their weights and row numbers."""
    run: Row = {"rule": value.rule, "kernel": _short_kernel(value.kernel), "target": value.target, "atoms": len(value.index)}
    if value.summary is not None:
        run |= {"mmd": float(value.summary.mmd.mean()), "effective_size": float(value.summary.effective.mean())}
    names = column_names(value.feature_names, value.x.shape[1])[:MOST_COLUMNS]
    rows: list[Row] = []
    for k in range(len(value.index)):
        own: Row = {"atom": str(k + 1), "row": int(value.index[k]) if value.index[k] >= 0 else None, "weight": float(value.weight[k])}
        if value.group is not None:
            group = int(value.group[k])
            own["group"] = value.group_names[group] if value.group_names is not None else group
        rows.append(own | {name: float(value.x[k, j]) for j, name in enumerate(names)})
    return [SummaryTable("run", [run]), limit_rows("atoms", rows, 30)]


def _short_kernel(kernel: str) -> str:
    """Return the text of a kernel with its length scales to five digits."""
    return re.sub(r"\d+\.\d{5,}(?:e[-+]?\d+)?", lambda number: f"{float(number[0]):.5g}", kernel)


def report_tables(value: Report, levels: Levels) -> list[SummaryTable]:
    """Return the metrics of a report."""
    return [limit_rows("figures", report_rows(value), 60)]
