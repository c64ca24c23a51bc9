"""Rows of a data set that are more than memory: read in units' values a stretch at a time, to learn from them or to judge by them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts import bound, lazy, memory, preparation, ranges
from herdcli.artifacts import dataset as data_set
from herdcli.artifacts.inputs import open_source
from herdcli.artifacts.row_groups import decoded_size
from herdcli.errors import BadUsage, DataError, HerdError
from herdcli.numerics.blocks import Block, together
from herdcli.numerics.rows import blocks, column_sums
from herdcli.numerics.units import AT_ONCE
from herdcli.records import dataclass
from herdcli.schema import Array

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.artifacts.dataset import Dataset
    from herdcli.artifacts.lazy import Converted, Lazy, PutBy
    from herdcli.artifacts.ranges import Ranges
    from herdcli.cli.frame.session import Session
    from herdcli.rbm.model import RBM
    from herdcli.rbm.units.base import Family

UNBOUNDED = 1 << 62
PACKED = 8  # times that the numbers of a Parquet file may be smaller in it, for it to be looked into
NEEDS = "--on-disk needs a Parquet, CSV or dense HDF5 file whose rows are numbers"
HINT = "herd convert INPUT -o FILE.h5 makes one"


def opened(
    session: Session,
    path: str,
    *,
    label: str | None,
    input_format: str | None,
    asked: bool,
    unit_bytes: int,
    missing: bool = False,
    keep: Sequence[str] = (),
) -> Artifact | None:
    """A data set whose rows stay on disk; None where they are to be read whole.

    asked       by --on-disk; else rows stay if they would take more than --max-memory.
    unit_bytes  that an entry takes in memory besides what is stored of it: as units see it, in copies that the command makes.
    missing, keep  as of `ranges.opened`.
    Raises BadUsage for an input that --on-disk is asked for and that cannot be read by stretches.
    """
    if not as_they_are(session, path) or not (asked or large(path)):
        if asked:
            raise BadUsage(NEEDS, hint=HINT)
        return None
    notes: list[str] = []  # which reading the rows whole would repeat
    read = partial(ranges.opened, path, input_format=input_format, note=notes.append, verified=True, label=label, missing=missing)
    found = session.hold(read(keep=keep, roles=session.column_roles()))
    if found is not None:
        found.gaps = missing
    if found is None or not (asked or _beyond(session, found, unit_bytes)):
        if asked:
            raise BadUsage(NEEDS, hint=HINT)
        return None
    value = lazy.table(found, declared=True, repeated=True)
    if value is None:
        if asked:
            raise BadUsage(NEEDS, hint=HINT)
        return None
    for line in notes:
        session.console.note(line)
    session.inputs["data"], session.recoding = found.artifact, found.artifact.recoding
    session.account_for(found)
    session.console.detail(f"{found.artifact.name}: {len(value.X)} rows are read in blocks")
    return replace(found.artifact, value=value)


@contextmanager
def way_out(way: str, open: Callable[[], object], where: str | None = None) -> Iterator[None]:
    """What reads rows whole, or many at a time; where there is no room for them, with the way on which they need less, if it is open.

    where  the input, for errors of libraries that know none.
    """
    try:
        yield
    except DataError as error:
        if error.hint is not None and error.hint.startswith("raise --max-memory") and open():
            error.hint = f"{way}; or {error.hint}"
        raise
    except Exception as error:
        refusal = bound.refusal_of(error, () if where is None else (where,))
        if refusal is None or not open():
            raise
        refusal.hint = f"{way}; or {refusal.hint}"
        raise refusal from error


def room() -> int:
    """Bytes of rows, in double precision, that --max-memory leaves to be read at one time where rows stay in their file.

    For sums of blocks, whose bytes do not tell how many of them were read together.
    """
    return bound.stretch()


def at_once(columns: int) -> int:
    """Blocks of a unit to read at one time, by the same measure."""
    return min(AT_ONCE, together(columns, room()))


@dataclass(frozen=True)
class FileRows:
    """`numerics.blocks.Rows` of a file.  labels  (n,) of its rows X, each `numbered` when it is read.  weight  (n,) of them."""

    X: Lazy
    labels: Array | None = None
    numbered: Callable[[Array], Array] = np.asarray
    room: int = field(default_factory=room)
    weight: Array | None = None

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.X)

    @property
    def columns(self) -> int:
        """How many columns they have."""
        return self.X.shape[1]

    def read(self, start: int, stop: int) -> Block:
        """Rows [start, stop)."""
        X = np.ascontiguousarray(self.X[start:stop], dtype=np.float64)
        labels = None if self.labels is None else self.numbered(self.labels[start:stop])
        return Block(start, X, labels, None if self.weight is None else np.asarray(self.weight[start:stop], dtype=np.float64))


def as_they_are(session: Session, path: str) -> bool:
    """Whether the rows of an input are taken as they are, so that some of them can be read by themselves; a pipe's cannot."""
    plain = path != "-" and session.missing is None and "categorical" not in session.given and session.layer is None
    return plain and not session.recoding  # or gaps and texts become what all training rows say


def by_parts(
    session: Session, path: str, *, input_format: str | None, label: str | None = None, keep: Sequence[str] = ()
) -> AbstractContextManager[Ranges | None]:
    """A file, or several, of which shards and workers, or large files' blocks, read their own rows alone; None where all rows are read."""
    apart = session.shard is not None or session.cluster is not None
    if not (as_they_are(session, path) and (apart or ranges.several(path) or _large_file(path))):
        return nullcontext()
    note, verified, roles = session.console.note, session.shard is None, session.column_roles()
    return ranges.opened(path, input_format=input_format, note=note, verified=verified, label=label, keep=keep, roles=roles)


def _large_file(path: str) -> bool:
    return os.path.isfile(path) and os.path.getsize(path) >= lazy.LEAST


def parts_of(found: Ranges, asked: str | None, seed: int) -> Array:
    """What rows are split into (n,): by the file, or drawn as of the data set read whole, whose labels are passed over where there are any.

    asked  by --split; None where there is none.
    """
    own = found.split() if asked is None else None
    if own is not None:
        return own
    head, y = found.read(0, 1), None
    if head.y is not None:
        stretches = range(0, found.count, lazy.STRETCH)
        further = getattr(found.parts[0][1], "further", None) if len(found.parts) == 1 else None
        y = further["y"][:] if further else np.concatenate([found.read(start, start + lazy.STRETCH).y for start in stretches])
    rows = data_set.Dataset(np.broadcast_to(np.uint8(0), (found.count, head.X.shape[1])), y=y, class_names=head.class_names)
    try:
        return preparation.split_rows(rows, asked, seed)
    except HerdError as error:
        error.where = error.where or found.artifact.name
        raise


def left(session: Session, path: str, *, label: str | None = None, missing: bool = False, keep: Sequence[str] = ()) -> Ranges | None:
    """The rows of a large file, which stay in it; None where they are to be read whole.  The rest as of `ranges.opened`."""
    if not (as_they_are(session, path) and large(path)):
        return None
    read = partial(ranges.opened, path, input_format=None, note=session.console.note, verified=True, roles=session.column_roles())
    asked = read(label=label, missing=missing, keep=keep)
    found = session.hold(asked)
    if found is not None:
        found.gaps, session.inputs["data"] = missing, found.artifact
        session.account_for(found)
        session.console.detail(f"{found.artifact.name}: {found.count} rows are read in blocks")
    return found


def left_table(session: Session, path: str, *, missing: bool = False) -> Artifact | None:
    """The same as a data set, whose labels, splits and weights are in memory."""
    found = left(session, path, missing=missing)
    value = None if found is None else lazy.table(found, declared=True)
    return None if found is None or value is None else replace(found.artifact, value=value)


def taken(rows: Ranges) -> Callable[[int, int], Dataset] | None:
    """What reads some of the rows as all of them would have them; None where only all can be read."""
    if lazy.dataset(rows) is None:
        if len(rows.parts) == 1 and not hasattr(rows.parts[0][1], "asked"):
            return None
        if rows.labelled():  # whose numbers and type all rows decide
            value = lazy.table(rows, declared=True)
            if value is None:
                return None
            if value.y is not None and value.class_names and (value.y < 0).any():  # names of which some are missing are left out
                value = replace(value, y=None, class_names=None)
            return lambda start, stop: lazy.stretch(value, start, stop)
    rows.splits = True
    return rows.read


def as_whole(part: Dataset, rows: Ranges) -> Dataset:
    """With the parts of its rows in the type that the file read whole would have given them."""
    return part if part.split is None else replace(part, split=part.split.astype(rows.split_type))


def large(path: str) -> bool:
    """Whether a file, or those of a pattern together, are worth a look: smaller ones are read whole, or refused.

    Of Parquet of a few megabytes it is the decoded size that counts; of less than that it would say nothing.
    """
    if ranges.several(path):
        return sum(os.path.getsize(each) for each in ranges.files(path)) >= lazy.LEAST
    if ranges.read_once(path):
        return False
    with open_source(path, limit=UNBOUNDED) as source:
        packed = source.head.startswith(b"PAR1") and source.size >= lazy.LEAST // PACKED
        return source.regular and (source.size >= lazy.LEAST or (packed and decoded_size(path) >= lazy.LEAST))


def _beyond(session: Session, found: ranges.Ranges, unit_bytes: int) -> bool:
    """Whether rows as they are stored, and as units see them, would take more than --max-memory."""
    first = found.read(0, 1).X
    over = first.dtype.itemsize == unit_bytes == 1  # units take the place of what was read
    size = found.count * first.shape[1] * (first.dtype.itemsize + (0 if over else unit_bytes))
    return bool(size > (session.max_memory or memory.default_limit()))


def converted(X: Lazy, convert: Callable[[Array], Array], dtype: type[np.number]) -> Converted | PutBy:
    """Rows in the values that `convert` makes of them; in a file of our own where theirs is slow to read a part of."""
    found = lazy.Converted(X, convert, np.dtype(dtype))
    return found if lazy.quick(X) else lazy.PutBy.of(found)


def freed(
    X: Lazy, values: Callable[[Array], Array], units: Family, moments: tuple[Array | None, Array | None], training: Array | None
) -> tuple[Converted | PutBy, Array | None, Array | None]:
    """Rows as float32 in unit values, and the means and deviations (D,) that gaussian columns are freed of, as in memory.

    moments   a model's own, or none.      training  (n,) bool, the rows that they are to be told from where there are none; None: of none.
    """

    def plain(rows: Array) -> Array:
        return values(np.array(rows, dtype=np.float32))

    mean, scale = moments
    if training is not None and mean is None and training.any():
        mean, scale = _moments(lazy.Converted(X.taken(training), plain, np.dtype(np.float32)))

    def moved(rows: Array) -> Array:
        found = plain(rows)
        if mean is not None and scale is not None and found.shape[1] == len(mean):
            found -= mean
            found /= scale
        return found

    made = converted(X, moved, np.float32)
    units.require_rows(made)
    return made, mean, scale


def with_gaps(X: Lazy, model: RBM, group: int) -> tuple[Lazy, Converted]:
    """Rows with a number that any unit takes in the place of NaN, and which of their entries are known, (n, D) bool.

    group  columns of one unit.
    """
    from herdcli.rbm.conditionals import require_whole_units

    known, least = lazy.Converted(X, lambda rows: ~np.isnan(np.asarray(rows, dtype=np.float64)), np.dtype(bool)), np.inf
    for block in blocks(X):
        rows = np.asarray(X[block], dtype=np.float64)
        there = ~np.isnan(rows)
        if X.shape[1] == model.W.shape[1]:
            require_whole_units(model.harmonium(), there)
        least = min(least, float(rows[there].min(initial=np.inf)))
    fill = np.array(least if np.isfinite(least) else 0.0)
    if group > 1:  # any value does: the first of a unit's columns
        fill = (np.arange(X.shape[1]) % group == 0).astype(np.float64)
    return lazy.Filled(X.ranges, X.chosen, columns=X.columns, fill=fill), known


def _moments(rows: Converted) -> tuple[Array, Array]:
    """The mean and the standard deviation of every column, float32; 1 in place of a deviation of 0."""
    mean = column_sums(rows) / len(rows)
    squares = np.zeros(len(mean))
    for block in blocks(rows):
        squares += np.square(rows[block].astype(np.float64) - mean).sum(axis=0)
    deviation = np.sqrt(squares / len(rows))
    return mean.astype(np.float32), np.where(deviation > 0, deviation, 1.0).astype(np.float32)
