"""Rows in the order of a model's columns: what every command does before a model sees a data set."""

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
    """A data set with the columns that a model learned from, matched by name; columns beyond them are told and left out.

    names, columns  of the model; None where it has no names.  Raises DataError for columns that are missing.
    """
    found = match_columns(session, data.value.feature_names, data.value.X.shape[1], names, columns, where=data.name)
    return replace(data, value=column_alignment.align_columns(data.value, found))


def align_matrix(session: Session, X: Array, have: Names, names: Names, columns: int, *, where: str) -> Array:
    """The same of a matrix (n, d) whose columns are named `have`."""
    matrix: Array = column_alignment.reorder_columns(X, match_columns(session, have, X.shape[1], names, columns, where=where))
    return matrix


def match_variables(other: Artifact, have: Names, count: int, names: Names, columns: int) -> list[int] | None:
    """Where the variables of a network or of beliefs stand in another one with these names; None: by place.

    Raises DataError unless both have the same names, or one has none.
    """
    found = column_alignment.match_columns(have, count, names, columns, where=other.name, noun="variable")
    if found is not None and found.left_out:
        message = f"has variables unknown to the other model: {column_alignment.format_names(found.left_out)}"
        raise DataError(message, where=other.name, hint="variables are matched by name")
    return None if found is None else found.columns


def match_columns(session: Session, have: Names, count: int, names: Names, columns: int, *, where: str) -> ColumnOrder | None:
    """The order of `column_alignment.order`, with a note on what it leaves out."""
    found = column_alignment.match_columns(have, count, names, columns, where=where)
    if found is not None and found.left_out:
        session.console.note(f"{where}: left out {column_alignment.format_names(found.left_out)} because the model does not know them")
    return found


def weighted_rows(session: Session, weight: Array | None) -> Array | None:
    """The places of rows whose weight (n,) is not 0; None where these are all.  A weight of 0 is as if the file did not have the row."""
    if weight is None or not (weight == 0).any() or not weight.any():
        return None
    kept = np.flatnonzero(weight != 0)
    gone = len(weight) - len(kept)
    session.rows_left_out = True
    session.console.note(f"left out {gone} row{'s' * (gone != 1)} of weight 0")
    return kept


def drop_zero_weights(session: Session, data: Artifact) -> Artifact:
    """A data set whose rows have weights of their own, without those of weight 0; one that stays in its file as it is."""
    value: Dataset = data.value
    kept = None if hasattr(value.X, "with_columns") else weighted_rows(session, value.weight)
    return data if kept is None else replace(data, value=take_rows(value, kept))


def warn_of_weights(session: Session, data: Dataset) -> None:
    """Say that rows have weights, which this command does not learn by."""
    if data.weight is not None:
        session.console.warn("the column 'weight' is left out because every row counts once here (rename it to use it as a feature)")
