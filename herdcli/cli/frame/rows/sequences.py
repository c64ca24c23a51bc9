"""How models in time read sequences: the rows of a table grouped by a column, and divided into parts of whole sequences."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from herdcli.artifacts import dataset
from herdcli.cli.frame.rows.column_order import weighted_rows
from herdcli.errors import BadUsage, HerdError
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact, Dataset
    from herdcli.cli.frame.run.session import Session
    from herdcli.em.sequence.sequences import Sequences
    from herdcli.schema import Array

COLUMN = "sequence"  # that groups rows where none is named


class SequenceRequest(Protocol):
    """What a request says of rows in time."""

    @property
    def source(self) -> str:
        """The data set."""

    @property
    def input_format(self) -> str | None:
        """Its format, where it is typed."""

    @property
    def label(self) -> str | None:
        """The column with its labels."""

    @property
    def sequence(self) -> str | None:
        """The column that groups its rows."""


class LearningRequest(SequenceRequest, Protocol):
    """What a request says of sequences to learn from."""

    @property
    def split(self) -> str | None:
        """The sizes of its parts."""

    @property
    def seed(self) -> int:
        """Sequences are drawn into parts from it."""


@dataclass(frozen=True)
class SequenceTable:
    """A table in time.

    data       the data set without the column that groups its rows.
    sequences  all of its sequences; `parts` of them are to learn from (0), to choose by (1) and to judge by (2).
    history    the artifact it came from, without its rows.
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
    """A dense data set, and what groups its rows (n,): the column named, else one called 'sequence', else None for one sequence.

    missing  NaN and empty cells are values that the command can do without.
    """
    named = () if column is None else (column,)
    also = () if column is not None else (COLUMN,)
    data = _load_with_columns(session, source, input_format, label, (*keep, *named), also, missing)
    value: Dataset = data.value
    if value.is_sparse:
        rows, columns = value.X.shape
        session.require_memory(4 * rows * columns, f"{rows} × {columns} values")
        value = replace(value, X=value.X.toarray().astype(np.float32))
    key, value = pop_column(value, column or COLUMN)
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
    """The data set with further columns; a sealed one may have them among its features."""
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


def pop_column(data: Dataset, name: str) -> tuple[Array | None, Dataset]:
    """A column by its name, numbers or text, and the data set without it; None where there is none."""
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
    """The sequences that a request names and their parts.

    weights   the column of their weights; None: they have none.      controls  further columns, which stay in `data`.
    missing   as of `load_sequences`.
    """
    from herdcli.em.sequence import sequences

    column, source, named = request.sequence, request.source, {"input_format": request.input_format, "label": request.label}
    keep = (*(controls or ()), *((weights,) if weights not in (None, "weight") else ()))
    loaded, key = load_sequences(session, source, **named, column=column, keep=keep, missing=missing)
    value: Dataset = loaded.value
    try:
        weight = None if weights is None else value.weight
        if weights not in (None, "weight"):
            found, value = pop_column(value, str(weights))
            weight = None if found is None else np.asarray(found, dtype=np.float64)
        kept = weighted_rows(session, weight)
        if kept is not None and weight is not None:
            value, weight, key = dataset.take_rows(value, kept), weight[kept], None if key is None else key[kept]
        series = sequences.group_rows(value.X, key, weight)
        parts = sequences.split_sequences(series, value.split, sequences.parse_parts(request.split), request.seed)
    except HerdError as error:
        error.where = error.where or loaded.name
        raise
    report_sequences(
        session, series, column or COLUMN, grouped=key is not None, cut=sum(part.count for part in parts.values()) > series.count
    )
    return SequenceTable(value, series, parts, replace(loaded, value=None))


def report_sequences(session: Session, sequences: Sequences, column: str, *, grouped: bool, cut: bool) -> None:
    """One line on what was read as a sequence."""
    lengths = sequences.lengths
    low, high = int(lengths.min()), int(lengths.max())
    steps = f"{low} step{'s' * (low != 1)}" if low == high else f"{low} to {high} steps"
    in_time = "; the last part of each is held out" if cut else ""
    if grouped:
        session.console.note(f"{sequences.count} sequence{'s' * (sequences.count != 1)} of {steps} by the column '{column}'{in_time}")
    else:
        session.console.note(f"the rows are one sequence of {steps}, since there is no column '{column}'{in_time}")
