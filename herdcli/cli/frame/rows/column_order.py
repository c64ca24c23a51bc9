"""The alignment of data sets with a model: rows get the model's columns, in its order, before the model sees them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.dataset import take_rows
from herdcli.artifacts.tables import column_alignment
from herdcli.errors import DataError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.artifacts.dataset import Dataset
    from herdcli.artifacts.tables.column_alignment import ColumnOrder, Names
    from herdcli.cli.frame.run.session import Session
    from herdcli.schema import Array


def align_dataset(session: Session, data: Artifact, names: Names, columns: int) -> Artifact:
    """Return a data set with the columns that a model learned from, matched by name; other columns are left out with a note.

    names, columns  the model's; None if it has no names.
    Raises DataError for missing columns.
    """
    found = find_and_report_column_order(session, data.value.feature_names, data.value.X.shape[1], names, columns, where=data.name)
    return replace(data, value=column_alignment.reorder_dataset_columns(data.value, found))


def align_matrix(session: Session, X: Array, source_names: Names, target_names: Names, columns: int, *, where: str) -> Array:
    """Return a matrix (n, d) with columns named `source_names` in the order of a model's columns, as `align_dataset` does."""
    matrix: Array = column_alignment.reorder_columns(
        X, find_and_report_column_order(session, source_names, X.shape[1], target_names, columns, where=where)
    )
    return matrix


def match_variables(other: Artifact, source_names: Names, count: int, target_names: Names, columns: int) -> list[int] | None:
    """Return the positions of the variables of a network or beliefs in another one, matched by name; None: matched by position.

    Raises DataError unless both have the same names or one has none.
    """
    found = column_alignment.find_column_order(source_names, count, target_names, columns, where=other.name, noun="variable")
    if found is not None and found.left_out:
        message = f"has variables unknown to the other model: {column_alignment.format_names(found.left_out)}"
        raise DataError(message, where=other.name, hint="variables are matched by name")
    return None if found is None else found.columns


def find_and_report_column_order(
    session: Session, source_names: Names, count: int, target_names: Names, columns: int, *, where: str
) -> ColumnOrder | None:
    """Return the column order from `column_alignment.find_column_order`, and print a note about the columns that it leaves out."""
    found = column_alignment.find_column_order(source_names, count, target_names, columns, where=where)
    if found is not None and found.left_out:
        session.console.note(f"{where}: left out {column_alignment.format_names(found.left_out)} because the model does not know them")
    return found


def nonzero_weight_indices(session: Session, weight: Array | None) -> Array | None:
    """Return the indices of the rows whose weight (n,) is not 0, or None if these are all rows; a row of weight 0 counts as absent."""
    if weight is None or not (weight == 0).any() or not weight.any():
        return None
    kept = np.flatnonzero(weight != 0)
    gone = len(weight) - len(kept)
    session.rows_left_out = True
    session.console.note(f"left out {gone} row{'s' * (gone != 1)} of weight 0")
    return kept


def drop_zero_weights(session: Session, data: Artifact) -> Artifact:
    """Return a data set without its rows of weight 0; one whose rows stay in their file is returned unchanged."""
    value: Dataset = data.value
    kept = None if hasattr(value.X, "with_columns") else nonzero_weight_indices(session, value.weight)
    return data if kept is None else replace(data, value=take_rows(value, kept))


def warn_of_unused_weights(session: Session, data: Dataset) -> None:
    """Warn that rows have weights, which this command does not use."""
    if data.weight is not None:
        session.console.warn("the column 'weight' is left out because every row counts once here (rename it to use it as a feature)")
