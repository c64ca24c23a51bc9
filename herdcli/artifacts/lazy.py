"""A matrix that stays in its file: rows are read when they are asked for, in stretches, so that memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from herdcli.artifacts.dataset import Dataset, validate
from herdcli.artifacts.inputs import Source
from herdcli.artifacts.parts import RowsFile
from herdcli.artifacts.ranges import Hdf5, Note, Ranges
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.schema import Array

LEAST = 1 << 26  # bytes of a file whose rows are left in it
STRETCH = 1 << 14  # rows that are read at one time


@dataclass(frozen=True)
class Lazy:
    """Rows of a file as what is asked of a matrix: its shape, and some of its rows.  chosen  (n,) their numbers, rising; None: all."""

    ranges: Ranges
    chosen: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows = self.ranges.count if self.chosen is None else len(self.chosen)
        return rows, int(self.ranges.artifact.value.X.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def taken(self, rows: Array) -> Lazy:
        """Some of the rows, (n,) bool or their places in rising order, which stay in the file."""
        places = np.flatnonzero(rows) if rows.dtype.kind == "b" else rows
        return Lazy(self.ranges, places if self.chosen is None else self.chosen[places])

    def __getitem__(self, rows: Array | slice) -> Array:
        """Rows read: a slice, or (n,) places in rising order."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if self.chosen is None and step == 1 and stop > start:
                return np.asarray(self.ranges.read(start, stop).X)
            rows = np.arange(start, stop, step)
        numbers = rows if self.chosen is None else self.chosen[rows]
        parts = [self._stretch(part) for part in _stretches(numbers)]
        return np.concatenate(parts) if parts else np.zeros((0, self.shape[1]))

    def _stretch(self, numbers: Array) -> Array:
        X = np.asarray(self.ranges.read(int(numbers[0]), int(numbers[-1]) + 1).X)
        return X if len(X) == len(numbers) else X[numbers - numbers[0]]


def _stretches(numbers: Array) -> Iterator[Array]:
    """Rising numbers in parts that lie close together."""
    start = 0
    while start < len(numbers):
        end = int(np.searchsorted(numbers, numbers[start] + STRETCH))
        yield numbers[start:end]
        start = end


def stays(source: Source) -> bool:
    """Whether the rows of an input can stay in it: a large HDF5 file."""
    return source.regular and source.size >= LEAST and source.head.startswith((b"\x89HDF", b"herd-artifact"))


@dataclass(frozen=True)
class _PutBy:
    """Rows of float64 in a file of our own, as what reads a file."""

    rows: RowsFile
    names: list[str] | None

    @property
    def count(self) -> int:
        """How many there are."""
        return self.rows.count

    def read(self, start: int, stop: int, note: Note) -> Dataset:
        """Rows [start, stop)."""
        return Dataset(self.rows.read(start, stop)[0], feature_names=self.names)

    def split(self) -> None:
        """It is kept elsewhere."""


def table(ranges: Ranges) -> Dataset | None:
    """The data set of a file of any format that is read in stretches; None where it may declare more than its rows say.

    Rows of HDF5 and Parquet stay in their file.  Those of text, which is slow to read again, go into one of our own in $TMPDIR.
    """
    if (found := dataset(ranges)) is not None:
        return found
    reader = ranges.parts[0][1]
    if len(ranges.parts) > 1 or isinstance(reader, Hdf5) or getattr(reader, "pictured", False):
        return None
    if ranges.read(0, 1).class_names:  # labels of text, which each stretch would number anew
        return None
    further: dict[str, list[Array]] = {"y": [], "weight": []}
    text, split = not hasattr(reader, "pictured"), ranges.split()
    rows = RowsFile(ranges.artifact.value.X.shape[1], False)
    for start in range(0, ranges.count, STRETCH):
        part = ranges.read(start, start + STRETCH)
        for name, parts in further.items():
            parts += [] if getattr(part, name) is None else [getattr(part, name)]
        if text:
            rows.append(part.X, None)
    kept = replace(ranges, parts=[(0, _PutBy(rows, ranges.names), ranges.artifact.name)]) if text else ranges
    whole: dict[str, Any] = {name: np.concatenate(parts) for name, parts in further.items() if parts}
    return Dataset(Lazy(kept), feature_names=ranges.names, split=split, **whole)


def dataset(ranges: Ranges) -> Dataset | None:
    """The data set of one HDF5 file whose labels, splits and weights are read, and whose rows stay in it; None for others."""
    _, reader, where = ranges.parts[0]
    if len(ranges.parts) > 1 or not isinstance(reader, Hdf5) or reader.others:
        return None
    further = reader.further
    whole = {name: item[:] if name == "y" else item for name, item in further.items()} | {"split": ranges.split()}
    found = Dataset(np.broadcast_to(np.uint8(0), (ranges.count, ranges.artifact.value.X.shape[1])), **whole)
    validate(replace(found, feature_names=None), where=where)
    return replace(found, X=Lazy(ranges))
