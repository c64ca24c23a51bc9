"""The rows that `herd fit-mrf` counts: rows in memory, or ranges of rows read from files."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.dataset import UNITS, Dataset
from herdcli.artifacts.tables import dataset_preparation
from herdcli.cli.fit_mrf import inputs, state_codes
from herdcli.cli.frame.rows import streamed_rows, unit_rows
from herdcli.cli.frame.rows.unit_rows import UnitRows
from herdcli.errors import DataError
from herdcli.markov.model.row_counts import StateBlock
from herdcli.numerics.block_statistics import BLOCK
from herdcli.records import dataclass
from herdcli.schema import require_valid_weights

if TYPE_CHECKING:
    from herdcli.artifacts.rows.row_ranges import RowRanges
    from herdcli.cli.fit_mrf.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.schema import Array

STATES = "decide for all rows: --values states, or --values two with --range LO,HI"


WHOLE = f"write states as 0 to {state_codes.MOST_STATES - 1}, or leave out --shard and --cluster to use other codes"


class AmbiguousValues(DataError):
    """An error for values whose meaning depends on all rows."""


@dataclass(frozen=True)
class ValueReading:
    """A rule that turns values into states and can be chosen before all values are read.

    cut     values of at least `cut` are 1, others 0; None: values are states, only 0 and 1 if `two`.
    limits  the range of the values.
    kinds   the only two values that are allowed.
    asked   whether an option states that the values are states.
    """

    cut: float | None = None
    limits: tuple[float, float] | None = None
    kinds: tuple[float, float] | None = None
    two: bool = False
    asked: bool = False

    def states(self, values: Array, first: int, where: str) -> Array:
        """Return values (m, N) as states.  first  the number of the first row."""
        if self.cut is None:
            self._require_states(values, first, where)
            return values.astype(np.uint8)
        low, high = float(values.min()), float(values.max())
        if self.kinds is not None and not np.isin(values, self.kinds).all():
            raise DataError(
                f"the first rows hold only {self.kinds[0]:g} and {self.kinds[1]:g}, but rows from {first} on hold other values", where=where
            )
        if self.limits is not None and not self.limits[0] <= low <= high <= self.limits[1]:
            message = f"/X has values from {low:g} to {high:g}, outside the value range {self.limits[0]:g} to {self.limits[1]:g}"
            raise DataError(message, where=where, hint=f"declare another one: --range {low:g},{high:g}")
        return (values >= np.float64(self.cut)).astype(np.uint8)

    def _require_states(self, values: Array, first: int, where: str) -> None:
        """Raise AmbiguousValues for values that are not states."""
        most = 2 if self.two else state_codes.MOST_STATES
        if values.dtype.kind in "ub" and values.max() < most:
            return
        wrong = (values < 0) | (values % 1 != 0) | (values >= most)
        if not wrong.any():
            return
        row, column = np.argwhere(wrong)[0]
        message = f"column {column} has {values[row, column]:g} in row {first + row}, which is ambiguous if only a part of the rows is read"
        raise AmbiguousValues(message, where=where, hint=WHOLE if self.asked else STATES)


def _state_block(data: Dataset, first: int, split: Array, values: ValueReading, where: str) -> StateBlock:
    """Return rows of a file as states.  first  the number of the first row."""
    require_valid_weights(data.weight, some_positive=False, where=where)
    X, blocks = np.asarray(data.X), range(0, len(data.X), BLOCK)
    x = np.concatenate([values.states(X[start : start + BLOCK], first + start, where) for start in blocks])
    return StateBlock(x, split, data.weight, None if values.cut is None else X)


@dataclass(frozen=True, kw_only=True)
class CountableRows(UnitRows[StateBlock]):
    """The rows to count, and the names of states known before reading them.

    states  names of states, if columns are text or codes.  cardinality  (N,) numbers of named states.
    """

    states: list[str] | None = None
    cardinality: Array | None = None
    values: ValueReading = field(default_factory=ValueReading)


def open_row_ranges(session: Session, source: str, input_format: str | None, label: str | None) -> AbstractContextManager[RowRanges | None]:
    """Open files whose rows can be read in ranges; None for small files and files that must be read whole."""
    return streamed_rows.open_row_ranges(session, source, input_format=input_format, label=label)


def rows_in_memory(session: Session, request: Request) -> CountableRows:
    """Read all rows as states."""
    data = inputs.load_dataset(session, request.source, request.input_format, request.label)
    states = inputs.read_states(session, data, request)
    named = inputs.all_state_names(data, states)
    return CountableRows(
        source=unit_rows.blocks_in_memory(StateBlock(states.x, states.split, states.weight), *states.x.shape),
        split=states.split,
        history=replace(data, value=None),
        names=states.names,
        image_shape=states.shape,
        states=named,
        cardinality=None if named is None else states.cardinality,
    )


def rows_in_files(
    session: Session,
    value_range: tuple[float, float] | None,
    values: str,
    threshold: float | None,
    split: str | None,
    seed: int,
    ranges: RowRanges,
) -> CountableRows | None:
    """Return rows that stay in their files; None if reading one row requires all of them."""
    head = ranges.read(0, 1)
    if unit_rows.has_text_labels(ranges, head):
        return None
    reading = _choose_value_reading(value_range, values, threshold, head, ranges.declared)
    if reading is None:
        return None
    if ranges.artifact.recoding.codes or (ranges.account and ranges.account.truths):  # rows_in_memory knows the names of these states
        return None
    artifact = unit_rows.leave_rows_in_files(session, ranges)
    if artifact.kind != "dataset" or artifact.recoding:
        session.recoding = artifact.recoding
    parts = streamed_rows.assign_range_splits(ranges, split, seed)

    def read(start: int, stop: int) -> StateBlock:
        return _state_block(ranges.read(start, stop), start, parts[start:stop], reading, artifact.name)

    return CountableRows(
        source=unit_rows.blocks_in_files(ranges.count, head.X.shape[1], read),
        split=parts,
        history=artifact,
        names=unit_rows.declared_names(ranges),
        image_shape=unit_rows.declared_image_shape(ranges),
        values=reading,
    )


def _choose_value_reading(
    value_range: tuple[float, float] | None, values: str, threshold: float | None, head: Dataset, declared: Mapping[str, object]
) -> ValueReading | None:
    """Return how values are read, from the options and the file's metadata; None if this depends on all rows."""
    limits = value_range if value_range is not None else declared.get("value_range")
    units = str(declared.get("units", "real"))
    if values == "states":
        return ValueReading(asked=True)
    if values == "auto" and limits is None and threshold is None and units == "real":
        return ValueReading()
    if limits is None and threshold is None:
        return ValueReading(two=True) if units == "real" else ValueReading(cut=1.0, kinds=UNITS[units]) if units in UNITS else None
    if limits is None:
        return None
    low, high = (float(end) for end in np.asarray(limits).ravel())
    share = inputs.DEFAULT_THRESHOLD if threshold is None else threshold
    if not low < high or not 0 <= share <= 1:
        return None
    return ValueReading(cut=low + share * (high - low), limits=(low, high))


def require_same_reading(values: ValueReading, distinct_values: Array, threshold: float | None) -> None:
    """Raise AmbiguousValues if the values of all rows together would be read differently from the values of a part.

    This can happen when only two values occur.
    """
    if values.cut is None or threshold is not None or values.kinds is not None or not 1 <= len(distinct_values) <= 2:
        return
    cut = dataset_preparation.threshold_between_levels((float(distinct_values[0]), float(distinct_values[-1])), values.limits)
    if any((value >= cut) != (value >= values.cut) for value in distinct_values.tolist()):
        told = " and ".join(f"{value:g}" for value in distinct_values.tolist())
        raise AmbiguousValues(
            f"has no other values than {told}, which is ambiguous if only a part of the rows is read",
            hint="use --threshold F",
        )
