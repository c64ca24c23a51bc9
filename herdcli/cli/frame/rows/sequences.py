"""Reading of sequences: the rows of a table grouped by a column, and a split into whole sequences."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from herdcli.artifacts import dataset
from herdcli.cli.frame.rows.column_order import nonzero_weight_indices
from herdcli.errors import BadUsage, HerdError
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact, Dataset
    from herdcli.cli.frame.run.session import Session
    from herdcli.em.sequence.sequences import Sequences
    from herdcli.schema import Array

COLUMN = "sequence"  # the usual group column, if none is named


class SequenceRequest(Protocol):
    """The options of a request about rows that are sequences."""

    @property
    def source(self) -> str:
        """The data set."""

    @property
    def input_format(self) -> str | None:
        """Its format, if typed."""

    @property
    def label(self) -> str | None:
        """The column of the labels."""

    @property
    def sequence(self) -> str | None:
        """The column that groups the rows."""


class LearningRequest(SequenceRequest, Protocol):
    """The options of a request for learning from sequences."""

    @property
    def split(self) -> str | None:
        """The sizes of the splits."""

    @property
    def seed(self) -> int:
        """The seed for assigning sequences to splits."""


@dataclass(frozen=True)
class SequenceTable:
    """A table of sequences.

    data       the data set without the column that groups its rows.
    sequences  all sequences; `parts` holds those for training (0), validation (1) and test (2).
    history    the artifact that it came from, without its rows.
    """

    data: Dataset
    sequences: Sequences
    parts: dict[int, Sequences]
    history: Artifact


def load_sequences(
    session: Session,
    source: str,
    *,
    input_format: str | None,
    label: str | None,
    column: str | None = None,
    keep: tuple[str, ...] = (),
    missing: bool = True,
) -> tuple[Artifact, Array | None]:
    """Return a dense data set and the values that group its rows (n,).

    The group column is the named one, else one called 'sequence'; without it, the rows are one sequence and the values are None.
    missing  whether the command accepts NaN and empty cells.
    """
    named = () if column is None else (column,)
    also = () if column is not None else (COLUMN,)
    data = _load_with_columns(session, source, input_format, label, (*keep, *named), also, missing)
    value: Dataset = data.value
    if value.is_sparse:
        rows, columns = value.X.shape
        session.require_memory(4 * rows * columns, f"{rows} × {columns} values")
        value = replace(value, X=value.X.toarray().astype(np.float32))
    key, value = split_off_column(value, column or COLUMN)
    return replace(data, value=value), key


def _load_with_columns(
    session: Session,
    source: str,
    input_format: str | None,
    label: str | None,
    keep: tuple[str, ...],
    also: tuple[str, ...],
    missing: bool,
) -> Artifact:
    """Return the data set with further columns; a sealed one may have them among its features."""
    kinds = {"dataset"}
    try:
        return session.load(source, "data", kinds=kinds, input_format=input_format, label=label, keep=keep, also=also, missing=missing)
    except BadUsage as error:
        if source == "-" or "extra column" not in error.message:
            raise
        found = session.load(source, "data", kinds=kinds, input_format=input_format, label=label, missing=missing)
        have = {*(found.value.feature_names or ()), *(found.value.columns or ())}
        if not set(keep) <= have:
            raise
        return found


def split_off_column(data: Dataset, name: str) -> tuple[Array | None, Dataset]:
    """Return a column by its name, of numbers or text, and the data set without it; None if there is no such column."""
    further = dict(data.columns or {})
    if name in further:
        found = further.pop(name)
        return found, replace(data, columns=further or None)
    names = data.feature_names
    if names is None or name not in names:
        return None, data
    j = names.index(name)
    rest = replace(data, X=np.delete(data.X, j, axis=1), feature_names=names[:j] + names[j + 1 :], image_shape=None)
    return np.ascontiguousarray(data.X[:, j]), rest


def read_sequences(
    session: Session,
    request: LearningRequest,
    *,
    weights: str | None = "weight",
    controls: tuple[str, ...] | None = None,
    missing: bool = True,
) -> SequenceTable:
    """Return the sequences that a request names, with their splits.

    weights   the column of their weights; None: they have none.
    controls  further columns, which stay in `data`.
    missing   as in `load_sequences`.
    """
    from herdcli.em.sequence import sequences

    column, source, named = request.sequence, request.source, {"input_format": request.input_format, "label": request.label}
    keep = (*(controls or ()), *((weights,) if weights not in (None, "weight") else ()))
    loaded, key = load_sequences(session, source, **named, column=column, keep=keep, missing=missing)
    value: Dataset = loaded.value
    try:
        weight = None if weights is None else value.weight
        if weights not in (None, "weight"):
            found, value = split_off_column(value, str(weights))
            weight = None if found is None else np.asarray(found, dtype=np.float64)
        kept = nonzero_weight_indices(session, weight)
        if kept is not None and weight is not None:
            value, weight, key = dataset.take_rows(value, kept), weight[kept], None if key is None else key[kept]
        series = sequences.group_rows_into_sequences(value.X, key, weight)
        parts = sequences.split_sequences(series, value.split, sequences.parse_split_parts(request.split), request.seed)
    except HerdError as error:
        error.where = error.where or loaded.name
        raise
    report_sequences(
        session, series, column or COLUMN, grouped=key is not None, cut=sum(part.count for part in parts.values()) > series.count
    )
    return SequenceTable(value, series, parts, replace(loaded, value=None))


def report_sequences(session: Session, sequences: Sequences, column: str, *, grouped: bool, cut: bool) -> None:
    """Print one line on the sequences that were read."""
    lengths = sequences.lengths
    low, high = int(lengths.min()), int(lengths.max())
    steps = f"{low} step{'s' * (low != 1)}" if low == high else f"{low} to {high} steps"
    in_time = "; the last part of each is held out" if cut else ""
    if grouped:
        session.console.note(
            f"{sequences.count} sequence{'s' * (sequences.count != 1)} of {steps}, one for each value of the column '{column}'{in_time}"
        )
    else:
        session.console.note(f"the rows are one sequence of {steps}, because there is no column '{column}'{in_time}")
