"""The rows that a regression is fitted to and evaluated on: in memory, or read from disk a few blocks at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.rows.lazy_matrix import LazyMatrix
from herdcli.cli.frame.rows import streamed_rows
from herdcli.errors import DataError
from herdcli.numerics.block_statistics import BLOCK, ArrayRows, ComputedRows, RowBlock
from herdcli.regression.sparse_rows import SparseRows
from herdcli.schema import is_sparse

if TYPE_CHECKING:
    from herdcli.cli.regress.inputs import RegressionInputs
    from herdcli.numerics.block_statistics import RowReader
    from herdcli.regression.model import GeneralisedLinear
    from herdcli.schema import Array


def _stored_rows(X: LazyMatrix, y: Array, offset: Array, weight: Array | None, centre: Array | None) -> RowReader:
    """Return rows on disk: columns X (n, D) minus `centre` (D,), then target y (n,) and offset (n,)."""

    def read(start: int, stop: int) -> RowBlock:
        part = slice(start, stop)
        columns = X[part] if centre is None else X[part] - centre
        return RowBlock(start, np.column_stack([columns, y[part], offset[part]]), None, None if weight is None else weight[part])

    return ComputedRows(len(X), X.shape[1] + 2, read, streamed_rows.read_budget_bytes())


def training_rows(inputs: RegressionInputs, centre: Array | None) -> RowReader:
    """Return the rows of split 0: their columns minus `centre` (D,), the target and the offset.  Raises DataError for infinite values."""
    chosen = inputs.split == 0
    y, offset = inputs.y[chosen], inputs.offset[chosen]
    weight = None if inputs.weight is None else inputs.weight[chosen]
    if is_sparse(inputs.X):
        return SparseRows.from_columns(inputs.X[chosen], y, offset, weight)
    if not isinstance(inputs.X, LazyMatrix):
        return ArrayRows(_join_columns(inputs.X, chosen, centre, y, offset), weight=weight)
    if np.isinf(y).any() or np.isinf(offset).any():
        raise DataError("there are infinite values", hint="write NaN for missing values")
    return _stored_rows(inputs.X.select_rows(chosen), y, offset, weight, centre)


def _join_columns(X: Array, chosen: Array, centre: Array | None, y: Array, offset: Array) -> Array:
    """Return the chosen (n,) rows of X (n, D) minus the centre, with y and the offset behind: (m, D + 2), without a copy in between."""
    found, at = np.empty((len(y), X.shape[1] + 2)), 0
    for start in range(0, len(X), BLOCK):
        here = chosen[start : start + BLOCK]
        rows = X[start : start + BLOCK] if here.all() else X[start : start + BLOCK][here]
        np.subtract(rows, 0.0 if centre is None else centre, out=found[at : at + len(rows), :-2])
        at += len(rows)
    found[:, -2], found[:, -1] = y, offset
    return found


def select_rows(X: Array | LazyMatrix, chosen: Array) -> Array | LazyMatrix:
    """Return the rows selected by a mask (n,) bool; rows on disk stay there."""
    return X.select_rows(chosen) if isinstance(X, LazyMatrix) else X[chosen]


def heldout_linear_predictors(value: GeneralisedLinear, inputs: RegressionInputs, heldout_mask: Array) -> Array:
    """Return the linear predictor (h, K) of the held-out rows, selected by a mask (n,) bool."""
    offset = inputs.offset[heldout_mask]
    if not isinstance(inputs.X, LazyMatrix):
        return value.predictor(inputs.X[heldout_mask], offset)
    X = inputs.X.select_rows(heldout_mask)
    parts = (slice(start, start + BLOCK) for start in range(0, len(X), BLOCK))
    return np.concatenate([value.predictor(X[part], offset[part]) for part in parts])
