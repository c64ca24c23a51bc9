"""Matching of columns by name: the columns of a data set in the order of a model's training data.

Names decide if both sides have them.  x0, x1, … and f0, f1, … (herd's names for unnamed columns) count as names only
if the other side has them in another order.  Otherwise positions decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.tables.column_roles import ColumnRoles
from herdcli.errors import BadUsage, DataError
from herdcli.records import dataclass
from herdcli.schema import Matrix, is_sparse

MOST_TOLD = 12
Names = Sequence[str] | None


@dataclass(frozen=True)
class ColumnOrder:
    """The columns to take, in order, and the names of those that are left out."""

    columns: list[int]
    left_out: list[str]


def find_column_order(
    source_names: Names, count: int, target_names: Names, target_count: int, *, where: str, noun: str = "column"
) -> ColumnOrder | None:
    """Return the order that turns `count` columns named `source_names` into the `target_count` columns named `target_names`; None: no
    change.

    Raises DataError with the names of missing columns, and those of unknown columns.
    """
    if source_names is None and target_names is not None:
        source_names = _default_column_names(count, lambda names: set(target_names) <= names)
    elif target_names is None and source_names is not None:
        target_names = _default_column_names(target_count, lambda names: names <= set(source_names))
    if source_names is None or target_names is None or list(source_names) == list(target_names):
        return None
    if len(set(target_names)) < len(target_names):
        return None  # names that are not unique cannot identify columns
    missing, unknown = _exclude_names(target_names, source_names), _exclude_names(source_names, target_names)
    if missing:
        beside = f"; it has {format_names(unknown)}, unknown to the model" if unknown else ""
        hint = f"{noun}s are matched by name: rename or add them"
        raise DataError(f"lacks {_format_counted_names(missing, noun)} that the model needs{beside}", where=where, hint=hint)
    twice = [name for name in target_names if list(source_names).count(name) > 1]
    if twice:
        raise DataError(f"{noun} '{twice[0]}' appears twice", where=where)
    place = {name: index for index, name in enumerate(source_names)}
    return ColumnOrder([place[name] for name in target_names], unknown)


def _default_column_names(count: int, is_match: Any) -> list[str] | None:
    """Return x0, x1, … or f0, f1, … if those names match the other side's."""
    for letter in "xf":
        names = [f"{letter}{index}" for index in range(count)]
        if is_match(set(names)):
            return names
    return None


def _exclude_names(names: Sequence[str], others: Sequence[str]) -> list[str]:
    known = set(others)
    return [name for name in names if name not in known]


def format_names(names: Sequence[str]) -> str:
    """Return names separated by commas; of many names, only the first dozen."""
    return ", ".join(names[:MOST_TOLD]) + (f" and {len(names) - MOST_TOLD} more" if len(names) > MOST_TOLD else "")


def _format_counted_names(names: Sequence[str], noun: str) -> str:
    return f"{noun} {names[0]}" if len(names) == 1 else f"{len(names)} {noun}s ({format_names(names)})"


def reorder_columns(X: Matrix, order: ColumnOrder | None) -> Matrix:
    """Return the columns (n, wanted) of a matrix (n, count), dense or CSR; without an order, the matrix itself."""
    if order is None:
        return X
    if hasattr(X, "with_columns"):  # rows that stay in a file
        return X.with_columns(order.columns)
    chosen = X[:, order.columns]
    if is_sparse(chosen):
        chosen.sort_indices()
        return chosen
    return np.ascontiguousarray(chosen)


def reorder_dataset_columns(data: Dataset, order: ColumnOrder | None) -> Dataset:
    """Return the data set with its columns in an order; the image shape is kept only if the order is unchanged."""
    if order is None:
        return data
    names = None if data.feature_names is None else [data.feature_names[index] for index in order.columns]
    return replace(data, X=reorder_columns(data.X, order), feature_names=names, image_shape=None)


def select_columns(data: Dataset, roles: ColumnRoles, where: str) -> Dataset:
    """Return the data set with the features and further columns that --columns and --drop leave.  Raises BadUsage if no feature is left."""
    features, further = data.feature_names or [f"x{index}" for index in range(data.X.shape[1])], list(data.columns or {})
    left_out = set(roles.excluded_columns([*features, *further], (), where))
    kept = [index for index, name in enumerate(features) if name not in left_out]
    if not kept:
        raise BadUsage("--columns and --drop leave no column", where=where, hint=f"columns: {format_names(features)}")
    columns = {name: values for name, values in (data.columns or {}).items() if name not in left_out}
    if len(kept) == len(features):
        return replace(data, columns=columns or None)
    return replace(reorder_dataset_columns(data, ColumnOrder(kept, [])), columns=columns or None)
