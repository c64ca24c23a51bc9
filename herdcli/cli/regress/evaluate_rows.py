"""`herd eval --data` for a regression: evaluation on other rows than those stored in the model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.rows import lazy_matrix
from herdcli.artifacts.tables import column_alignment
from herdcli.cli.frame.rows import streamed_rows
from herdcli.cli.frame.rows.column_order import align_matrix, find_and_report_column_order
from herdcli.cli.frame.rows.unit_rows import are_ranges_independent
from herdcli.cli.regress import inputs
from herdcli.cli.regress.error_covariance import relative_error_variances
from herdcli.errors import DataError
from herdcli.numerics.block_statistics import BLOCK, ComputedRows, RowBlocks, join_blocks
from herdcli.regression import weight_meaning
from herdcli.regression.model import GeneralisedLinear, HeldoutRows
from herdcli.splits import TEST, VALID

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.artifacts.rows.row_ranges import RowRanges
    from herdcli.artifacts.tables.column_alignment import ColumnOrder
    from herdcli.cli.eval.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.evaluation.figures.regression import EvaluatedRegression
    from herdcli.regression.perceptron.model import Perceptron
    from herdcli.schema import Array


def with_evaluation_rows(session: Session, artifact: Artifact, request: Request) -> Artifact:
    """Return a regression with the rows of --data, only those of split 1 and 2 if the data have a split; without --data unchanged.

    Target, offset and weights are the columns that the model was fitted with; weights may be missing.  Rows of a large file stay in the
    file (`evaluation.figures.regression.EvaluatedRegression`), unless plots need them or errors are correlated.
    """
    if request.data is None:
        return artifact
    model: GeneralisedLinear = artifact.value
    known = inputs.fitted_columns(artifact)
    if not (request.plots or request.report or known.in_time):
        left = streamed_rows.open_rows_in_file(session, request.data, keep=known.non_feature_columns, response=known.response)
        evaluated = None if left is None else _rows_in_files(session, model, known, left)
        if evaluated is not None:
            return replace(artifact, value=evaluated)
    found = inputs.read_rows_for_model(session, request.data, known)
    held = np.isin(found.split, (VALID, TEST))
    if not held.any():
        raise DataError(NONE_HELD, where=found.history.name)
    y = target_for_model(model, found.y, found.classes, found.target, found.history.name)
    weight_meaning.require_targets(model.distribution(), model.weight_kind, y)
    X = align_matrix(session, found.X, found.names, model.feature_names, model.coefficients.shape[1], where=found.history.name)
    _require_columns(model, X.shape[1], found.history.name)
    weight = None if found.weight is None else found.weight[held]
    before = gap = None
    if found.steps is not None:
        variance = relative_error_variances(model, X, found.weight)
        assert variance is not None
        before, gap = (item[held] for item in model.last_known_errors(found.steps, X, found.offset, y, variance))
    holdout = HeldoutRows(
        predictor=model.predictor(X[held], found.offset[held]),
        offset=found.offset[held],
        y=y[held],
        split=found.split[held],
        weight=None if model.gls else weight,
        variance=relative_error_variances(model, X[held], weight),
        before=before,
        gap=gap,
        baselines=None if model.baselines is None else model.baselines.predictions(X[held]),
    )
    return replace(artifact, value=replace(model, holdout=holdout))


NONE_HELD = "has no held-out rows to evaluate on"


def _require_columns(model: GeneralisedLinear, columns: int, where: str) -> None:
    if columns != (wanted := model.coefficients.shape[1]):
        raise DataError(f"has {columns} columns, but the model has {wanted}", where=where)


def target_for_model(model: GeneralisedLinear | Perceptron, y: Array, classes: list[str] | None, target: str, where: str) -> Array:
    """Return the target (n,); if the model has classes, as their indices.

    Raises DataError for a class that the model does not have.
    """
    if not model.classes:
        if classes is not None:
            raise DataError(f"the target '{target}' holds text, but the model predicts numbers", where=where)
        return y
    values = np.unique(y)
    names = classes or [f"{value:g}" for value in values]
    index = y.astype(np.int64) if classes else np.searchsorted(values, y)
    unknown = [name for name in names if name not in model.classes]
    if unknown:
        raise DataError(f"has class '{unknown[0]}', but the model knows only {', '.join(model.classes)}", where=where)
    return np.array([float(model.classes.index(name)) for name in names])[index]


def _read_columns(model: GeneralisedLinear, fitted_columns: inputs.FittedColumns, ranges: RowRanges, numbers: Array) -> dict[str, Array]:
    """Read rows (m,) that lie close together, and return X, y, offset and, if there are any, weights."""
    where, start = ranges.artifact.name, int(numbers[0])
    data, given, classes = inputs.split_response_as_fitted(ranges.read(start, int(numbers[-1]) + 1), fitted_columns, where)
    y = target_for_model(model, given.y, classes, fitted_columns.target, where)
    weight_meaning.require_targets(model.distribution(), model.weight_kind, y)
    own = numbers - start
    columns = {"X": data.X, "y": y, "offset": given.offset} | ({} if given.weight is None else {"weight": given.weight})
    return {name: item if len(item) == len(own) else item[own] for name, item in columns.items()}


def _predicted_rows(model: GeneralisedLinear, columns: dict[str, Array], order: ColumnOrder | None) -> HeldoutRows:
    """Return rows with the model's predictions.  order  the order of the model's columns; None: unchanged."""
    X = np.ascontiguousarray(column_alignment.reorder_columns(columns["X"], order), dtype=np.float64)
    y, offset, weight = columns["y"], columns["offset"], columns.get("weight")
    return HeldoutRows(
        predictor=model.predictor(X, offset),
        offset=offset,
        y=y,
        split=np.full(len(y), TEST, dtype=np.uint8),
        weight=None if model.gls else weight,
        variance=relative_error_variances(model, X, weight),
        baselines=None if model.baselines is None else model.baselines.predictions(X),
    )


def _rows_in_files(
    session: Session, model: GeneralisedLinear, fitted_columns: inputs.FittedColumns, ranges: RowRanges
) -> EvaluatedRegression | None:
    """Return the regression with evaluation rows that stay in their files; None if reading one row requires all of them."""
    from herdcli.evaluation.figures.regression import EvaluatedRegression, make_evaluated_regression

    where, head = ranges.artifact.name, ranges.read(0, 1)
    needed = {
        fitted_columns.target,
        *(name for name in (fitted_columns.offset, fitted_columns.trials, fitted_columns.failures, fitted_columns.exposure) if name),
    }
    if not are_ranges_independent(ranges, head, needed):
        return None
    data, given, _ = inputs.split_response_as_fitted(head, fitted_columns, where)
    split = ranges.read_split_column()
    chosen = None if split is None else np.flatnonzero(split == (TEST if (split == TEST).any() else VALID))
    if chosen is not None and not len(chosen):
        raise DataError(NONE_HELD, where=where)
    order = find_and_report_column_order(
        session, data.feature_names, data.X.shape[1], model.feature_names, model.coefficients.shape[1], where=where
    )
    _require_columns(model, data.X.shape[1] if order is None else len(order.columns), where)
    count = ranges.count if chosen is None else len(chosen)

    def predict_block(start: int, stop: int) -> HeldoutRows:
        places = np.arange(start, stop) if chosen is None else chosen[start:stop]
        parts = [_read_columns(model, fitted_columns, ranges, part) for part in lazy_matrix.group_nearby_indices(places)]
        return _predicted_rows(model, {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, order)

    def read(start: int, stop: int) -> HeldoutRows:
        return join_blocks([predict_block(first, min(first + BLOCK, stop)) for first in range(start, stop, BLOCK)])

    source = RowBlocks.with_memory_limit(ComputedRows(count, ranges.artifact.value.X.shape[1], read))
    weighted = given.weight is not None and not model.gls
    return make_evaluated_regression(model, source, session.map) if weighted else EvaluatedRegression(model, source, float(count))
