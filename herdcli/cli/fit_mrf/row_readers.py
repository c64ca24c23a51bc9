"""Where `herd fit-mrf` has the rows from that it counts: from memory, or a stretch at a time from files that are read by parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.dataset import UNITS, Dataset
from herdcli.artifacts.tables import dataset_preparation
from herdcli.cli.fit_mrf import inputs, state_codes
from herdcli.cli.frame.rows import streamed_rows
from herdcli.errors import DataError
from herdcli.markov.model.row_counts import StateBlock
from herdcli.numerics.block_statistics import BLOCK, MemoryBlocks
from herdcli.numerics.block_units import UnitLayout
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.artifacts.rows.row_ranges import RowRanges
    from herdcli.cli.fit_mrf.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.schema import Array

STATES = "--values states, or --values two with --range LO,HI, decides it for all rows"


WHOLE = f"write states as 0 to {state_codes.MOST_STATES - 1}, or leave out --shard and --cluster to use other codes"


class AmbiguousValues(DataError):
    """What values mean can only be told from all rows."""


@dataclass(frozen=True)
class ValueReading:
    """How values become states, as it can be said before all of them were seen.

    cut  values from here on are on, others off; None: values are states, with `two` 0 and 1 alone.
    limits  what values are between.      kinds  the only two values there may be.      asked  whether it was typed that they are states.
    """

    cut: float | None = None
    limits: tuple[float, float] | None = None
    kinds: tuple[float, float] | None = None
    two: bool = False
    asked: bool = False

    def states(self, given: Array, first: int, where: str) -> tuple[Array, Array]:
        """Values given (m, N) as states, and up to three of the values.  first  the number of the first row."""
        if self.cut is None:
            self._require_states(given, first, where)
            return given.astype(np.uint8), np.empty(0)
        low, high = float(given.min()), float(given.max())
        if self.kinds is not None and not np.isin(given, self.kinds).all():
            raise DataError(f"has values other than {self.kinds[0]:g} and {self.kinds[1]:g} from row {first} on", where=where)
        if self.limits is not None and not self.limits[0] <= low <= high <= self.limits[1]:
            message = f"/X has values from {low:g} to {high:g}, outside the value range {self.limits[0]:g} to {self.limits[1]:g}"
            raise DataError(message, where=where, hint=f"declare another one: --range {low:g},{high:g}")
        inside = (given > low) & (given < high)
        between = given.flat[[inside.argmax()]] if inside.any() else given.flat[:0]
        return (given >= np.float64(self.cut)).astype(np.uint8), np.unique([low, high, *between])

    def _require_states(self, given: Array, first: int, where: str) -> None:
        """Raise DataError, or Unclear, for values that are no states."""
        most = 2 if self.two else state_codes.MOST_STATES
        if given.dtype.kind in "ub" and given.max() < most:
            return
        wrong = (given < 0) | (given % 1 != 0) | (given >= most)
        if not wrong.any():
            return
        row, column = np.argwhere(wrong)[0]
        message = f"column {column} has {given[row, column]:g} in row {first + row}, which is ambiguous if only a part of the rows is read"
        raise AmbiguousValues(message, where=where, hint=WHOLE if self.asked else STATES)


@dataclass(frozen=True)
class FileStateBlocks:
    """Rows of files, which are read when their blocks are.  split  (n,)."""

    found: RowRanges
    values: ValueReading
    split: Array

    def take(self, first: int, last: int) -> Iterator[StateBlock]:
        """Blocks first … last − 1, read together."""
        begin = first * BLOCK
        data = self.found.read(begin, min(last * BLOCK, self.found.count))
        split, weight = self.split[begin : begin + len(data.X)], data.weight
        where = self.found.artifact.name
        if weight is not None and not (np.isfinite(weight).all() and (weight >= 0).all()):
            raise DataError("weights must be finite, not negative, and not all 0", where=where)
        for start in range(0, len(data.X), BLOCK):
            part = slice(start, start + BLOCK)
            x, seen = self.values.states(np.asarray(data.X[part]), begin + start, where)
            yield StateBlock(x, split[part], None if weight is None else weight[part], seen)


@dataclass(frozen=True)
class CountableRows:
    """Rows that are to be counted, and what is known of them before."""

    source: MemoryBlocks | FileStateBlocks
    layout: UnitLayout
    history: Artifact
    names: list[str] | None = None
    shape: Array | None = None
    states: list[str] | None = None  # names of states, where columns are text or codes
    cardinality: Array | None = None  # how many states they name
    values: ValueReading = field(default_factory=ValueReading)


def open_ranges(session: Session, request: Request) -> AbstractContextManager[RowRanges | None]:
    """Files whose rows are read by parts; None for what is small, and what can only be read whole."""
    return streamed_rows.open_ranges(session, request.source, input_format=request.input_format, label=request.label)


def rows_in_memory(session: Session, request: Request) -> CountableRows:
    """All rows as states."""
    data = inputs.load_dataset(session, request)
    states = inputs.read_states(session, data, request)
    named = inputs.all_state_names(data, states)
    layout = UnitLayout(*states.x.shape)
    return CountableRows(_blocks_in_memory(states), layout, replace(data, value=None), states.names, states.shape, named,
                   cardinality=None if named is None else states.cardinality)  # fmt: skip


def _blocks_in_memory(states: inputs.EncodedStates) -> MemoryBlocks:
    """All rows as states, which a block takes its own of."""

    def cut(own: slice) -> StateBlock:
        return StateBlock(states.x[own], states.split[own], None if states.weight is None else states.weight[own])

    return MemoryBlocks(len(states.x), cut)


def rows_in_files(session: Session, request: Request, ranges: RowRanges) -> CountableRows | None:
    """Rows that stay in their files; None where all of them must be seen to read one."""
    head = ranges.read(0, 1)
    if head.class_names and not hasattr(ranges.parts[0][1], "further"):  # labels of text, numbered anew in each stretch
        return None
    values = _choose_reading(request, head, ranges.declared)
    if values is None:
        return None
    if ranges.artifact.recoding.codes or (ranges.account and ranges.account.truths):  # whose names of states in_memory knows
        return None
    session.inputs["data"] = artifact = ranges.artifact
    session.account_for(ranges)
    if artifact.kind != "dataset" or artifact.recoding:
        session.recoding = artifact.recoding
    session.console.detail(f"{artifact.name}: {ranges.count} rows, sha256 {artifact.sha256[:12]}")
    shape = ranges.declared.get("image_shape")
    names = ranges.names if ranges.declared.get("named", True) else None
    source = FileStateBlocks(ranges, values, streamed_rows.assign_parts(ranges, request.split, request.seed))
    layout = UnitLayout(ranges.count, head.X.shape[1], streamed_rows.blocks_per_unit_read(head.X.shape[1]))
    return CountableRows(source, layout, artifact, names, None if shape is None else np.asarray(shape), None, values=values)


def _choose_reading(request: Request, head: Dataset, declared: Mapping[str, object]) -> ValueReading | None:
    """How values are read, from what was typed and what the file says; None where that is said of all rows together."""
    limits = request.value_range if request.value_range is not None else declared.get("value_range")
    units = str(declared.get("units", "real"))
    if request.values == "states":
        return ValueReading(asked=True)
    if request.values == "auto" and limits is None and request.threshold is None and units == "real":
        return ValueReading()
    if limits is None and request.threshold is None:
        return ValueReading(two=True) if units == "real" else ValueReading(cut=1.0, kinds=UNITS[units]) if units in UNITS else None
    if limits is None:
        return None
    low, high = (float(end) for end in np.asarray(limits).ravel())
    share = inputs.DEFAULT_THRESHOLD if request.threshold is None else request.threshold
    if not low < high or not 0 <= share <= 1:
        return None
    return ValueReading(cut=low + share * (high - low), limits=(low, high))


def require_same_reading(values: ValueReading, seen: Array, request: Request) -> None:
    """Raise DataError where all rows together are read otherwise than by parts: two values alone, of which the larger one is on."""
    if values.cut is None or request.threshold is not None or values.kinds is not None or not 1 <= len(seen) <= 2:
        return
    cut = dataset_preparation.two_level_threshold((float(seen[0]), float(seen[-1])), values.limits)
    if any((value >= cut) != (value >= values.cut) for value in seen.tolist()):
        told = " and ".join(f"{value:g}" for value in seen.tolist())
        raise AmbiguousValues(
            f"has no other values than {told}, which is ambiguous if only a part of the rows is read",
            hint="--threshold F",
        )
