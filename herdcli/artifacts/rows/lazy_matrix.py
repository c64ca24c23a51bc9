"""A matrix that stays in its file: rows are read in ranges when they are needed, so that memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from herdcli.artifacts import line_numbers, process_limits
from herdcli.artifacts.byte_sources import ByteSource
from herdcli.artifacts.dataset import Dataset, validate
from herdcli.artifacts.rows.row_ranges import Hdf5Reader, MessageFunction, RowRanges, declared_fields
from herdcli.artifacts.rows.spill_file import open_unnamed_file, read_array, write_array
from herdcli.artifacts.rows.split_files import SpilledRows
from herdcli.artifacts.tables import native_arrays
from herdcli.errors import DataError
from herdcli.records import dataclass
from herdcli.schema import DType

if TYPE_CHECKING:
    import h5py

    from herdcli.schema import Array

LEAST = 1 << 26  # the rows of a file of at least this many bytes stay in the file
STRETCH = 1 << 14  # number of rows that are read together
PIECE = 1 << 20  # number of bytes that are moved together


@dataclass(frozen=True)
class LazyMatrix:
    """Rows of a file with the interface of a matrix: a shape, and access to some of the rows.

    chosen  (n,) the row numbers, increasing; None: all.  columns  the chosen columns, in this order; None: all.
    known   results of a pass over all rows, cached for later calls.
    beside  (N, k) further columns after those of the file, for all its N rows; None: none.
    """

    ranges: RowRanges
    chosen: Array | None = None
    known: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    columns: Array | None = None
    beside: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        rows = self.ranges.count if self.chosen is None else len(self.chosen)
        width = int(self.ranges.artifact.value.X.shape[1]) + (0 if self.beside is None else self.beside.shape[1])
        return rows, width if self.columns is None else len(self.columns)

    @property
    def ndim(self) -> int:
        """The number of dimensions, 2."""
        return 2

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def select_rows(self, rows: Array) -> LazyMatrix:
        """Return some of the rows, (n,) bool or increasing indices, as a matrix that stays in the file."""
        places = np.flatnonzero(rows) if rows.dtype.kind == "b" else rows
        return replace(self, chosen=places if self.chosen is None else self.chosen[places], known={})

    def with_columns(self, columns: Array | list[int]) -> LazyMatrix:
        """Return the matrix with some of its columns (d,), in this order."""
        chosen = np.asarray(columns)
        return replace(self, columns=chosen if self.columns is None else self.columns[chosen], known={})

    def with_appended_column(self, values: Array) -> LazyMatrix:
        """Return the matrix with a further column (n,) of numbers after the others."""
        whole = np.empty(self.ranges.count, dtype=np.float64)
        whole[slice(None) if self.chosen is None else self.chosen] = values
        beside = whole[:, None] if self.beside is None else np.column_stack([self.beside, whole])
        width = self.ranges.artifact.value.X.shape[1] + beside.shape[1]
        columns = None if self.columns is None else np.append(self.columns, width - 1)
        return replace(self, beside=beside, columns=columns, known={})

    def column(self, index: int) -> Array:
        """Return one column (n,) of all rows."""
        found, one = np.empty(len(self)), self.with_columns([index])
        step = rows_per_read(self.shape[1])
        for start in range(0, len(self), step):
            found[start : start + step] = one[start : start + step][:, 0]
        return found

    def __getitem__(self, rows: Array | slice) -> Array:
        """Read and return rows: a slice, (n,) bool, or (n,) indices in any order; increasing ones are cheapest."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if self.chosen is None and step == 1 and stop > start:
                return self._read(start, stop)
            rows = np.arange(start, stop, step)
        rows = np.flatnonzero(rows) if rows.dtype.kind == "b" else rows
        numbers = rows if self.chosen is None else self.chosen[rows]
        if (numbers[1:] < numbers[:-1]).any():
            order = np.argsort(numbers, kind="stable")
            found = np.empty((len(numbers), self.shape[1]))
            found[order] = self._read_increasing(numbers[order])
            return found
        return self._read_increasing(numbers)

    def _read_increasing(self, numbers: Array) -> Array:
        reader = self.ranges.parts[0][1]
        if len(self.ranges.parts) == 1 and isinstance(reader, SpooledRows):
            return self._select_chosen_columns(reader.rows.take(numbers), numbers)
        parts = [self._read_index_run(part) for part in group_nearby_indices(numbers)]
        return np.concatenate(parts) if parts else np.zeros((0, self.shape[1]))

    def _read_index_run(self, numbers: Array) -> Array:
        X = self._read(int(numbers[0]), int(numbers[-1]) + 1)
        return X if len(X) == len(numbers) else X[numbers - numbers[0]]

    def _read(self, start: int, stop: int) -> Array:
        return self._select_chosen_columns(np.asarray(self.ranges.read(start, stop).X), slice(start, stop))

    def _select_chosen_columns(self, X: Array, rows: Array | slice) -> Array:
        """Return the chosen columns of rows X of the file, whose numbers are `rows`."""
        whole = X if self.beside is None else np.column_stack([X, self.beside[rows]])
        return whole if self.columns is None else whole[:, self.columns]


@dataclass(frozen=True)
class FilledMatrix(LazyMatrix):
    """A lazy matrix with NaN replaced by one number, or by one number for each chosen column."""

    fill: Array = field(default_factory=lambda: np.zeros(()))

    def _read(self, start: int, stop: int) -> Array:
        X = super()._read(start, stop)
        return np.where(np.isnan(X), self.fill, X)


def group_nearby_indices(numbers: Array) -> Iterator[Array]:
    """Yield increasing numbers in runs that lie close together."""
    start = 0
    while start < len(numbers):
        end = int(np.searchsorted(numbers, numbers[start] + STRETCH))
        yield numbers[start:end]
        start = end


@dataclass(frozen=True)
class ConvertedMatrix:
    """Rows of a file that are converted by `convert` to type `dtype` each time they are read."""

    rows: LazyMatrix
    convert: Callable[[Array], Array]
    dtype: DType

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self.rows.shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Array | slice) -> Array:
        return self.convert(self.rows[rows]).astype(self.dtype, copy=False)


@dataclass(frozen=True)
class SpilledMatrix:
    """Rows of any type in an unnamed file in $TMPDIR, which vanishes with the process; read by position and never mapped."""

    shape: tuple[int, int]
    dtype: DType
    file: h5py.File

    @classmethod
    def from_rows(cls, rows: ConvertedMatrix) -> SpilledMatrix:
        """Write all rows to an unnamed file, in one pass, and return the matrix that reads them from it."""
        file, (count, columns) = open_unnamed_file(), rows.shape
        step = max(1, PIECE // max(1, columns * rows.dtype.itemsize))
        for start in range(0, count, step):
            part = np.ascontiguousarray(rows[start : min(start + step, count)])
            write_array(file, start * columns * rows.dtype.itemsize, part, "rows")
        return cls(rows.shape, rows.dtype, file)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(len(self))
        found = np.empty((max(0, stop - start), self.shape[1]), dtype=self.dtype)
        return read_array(self.file, start * self.shape[1] * self.dtype.itemsize, found, "rows")


def has_cheap_row_reads(rows: LazyMatrix) -> bool:
    """Return whether reading rows costs in proportion to their number: plain HDF5 in small chunks, and herd's own files."""
    reader = rows.ranges.parts[0][1]
    if isinstance(reader, SpooledRows):
        return True
    if len(rows.ranges.parts) > 1 or not isinstance(reader, Hdf5Reader) or reader.X.compression is not None:
        return False
    chunks = reader.X.chunks
    return chunks is None or (chunks[1] == reader.X.shape[1] and chunks[0] * chunks[1] * reader.X.dtype.itemsize <= PIECE)


def can_stay_in_file(source: ByteSource) -> bool:
    """Return whether the rows of an input can stay in its file: a large HDF5 file."""
    return source.regular and source.size >= LEAST and source.head.startswith((b"\x89HDF", b"herd-artifact"))


def is_large_file(source: ByteSource) -> bool:
    """Return whether an input is a large uncompressed file."""
    return source.regular and source.size >= LEAST


@dataclass(frozen=True)
class SpooledRows:
    """Rows of float64 in herd's own file, as a reader whose cost is in proportion to the number of rows read."""

    rows: SpilledRows
    names: list[str] | None

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.rows.count

    def read(self, start: int, stop: int, note: MessageFunction) -> Dataset:
        """Read rows [start, stop)."""
        return Dataset(self.rows.read(start, stop)[0], feature_names=self.names)

    def read_split_column(self) -> None:
        """Return None: the split is stored elsewhere."""


def copy_to_spool_file(rows: LazyMatrix) -> LazyMatrix:
    """Copy the rows to herd's own file, so that they can be read in any order."""
    if isinstance(rows.ranges.parts[0][1], SpooledRows):
        return rows
    file = SpilledRows(rows.shape[1], False)
    step = rows_per_read(rows.shape[1])
    for start in range(0, len(rows), step):
        file.append(rows[start : start + step], None)
    names = rows.ranges.names if rows.columns is None or rows.ranges.names is None else [rows.ranges.names[j] for j in rows.columns]
    value = replace(rows.ranges.artifact.value, X=np.empty((0, rows.shape[1])), feature_names=names)
    artifact = replace(rows.ranges.artifact, value=value)
    return LazyMatrix(_ranges_from_spilled_rows(replace(rows.ranges, artifact=artifact, count=len(rows), names=names), file))


def rows_per_read(columns: int) -> int:
    """Return the number of rows to read at one time: at most STRETCH, and few enough for the memory limit."""
    return max(1, min(STRETCH, process_limits.bytes_per_block_read() // (8 * max(1, columns))))


def _ranges_from_spilled_rows(ranges: RowRanges, rows: SpilledRows) -> RowRanges:
    return replace(ranges, parts=[(0, SpooledRows(rows, ranges.names), ranges.artifact.name)], sources=[])


def file_backed_dataset(ranges: RowRanges, *, declared: bool = False, repeated: bool = False) -> Dataset | None:
    """Return the data set of files in any format that are read in ranges; None if they declare more than their rows can show.

    declared  include the declarations of the files: range, units, image shape.
    repeated  the rows are read more than once.

    Rows of HDF5 stay in their file, and so do those of Parquet unless they are read repeatedly.  Rows of text, which is slow to parse
    again, are copied into herd's own file in $TMPDIR, as are rows of Parquet that are read repeatedly.
    """
    reader = ranges.parts[0][1]
    said = declared_fields(getattr(reader, "declared", {}), ranges.artifact.name) if declared else {}
    if (found := hdf5_backed_dataset(ranges)) is not None:
        return replace(found, **said)
    one_matrix = len(ranges.parts) == 1 and isinstance(reader, Hdf5Reader)  # an HDF5 matrix with further columns
    if one_matrix or (getattr(reader, "declares_images", False) and not declared):
        return None
    if ranges.read(0, 1).class_names and not declared:  # each range numbers text labels again from 0
        return None
    names: dict[str, int] = {}
    further: dict[str, list[Array]] = {"y": [], "weight": []}
    columns: dict[str, list[Array]] = {}
    slow = any(not isinstance(each, Hdf5Reader) and (repeated or not hasattr(each, "declares_images")) for _, each, _ in ranges.parts)
    split = ranges.read_split_column()
    rows = SpilledRows(ranges.artifact.value.X.shape[1], False)
    step = rows_per_read(rows.columns)
    for start in range(0, ranges.count, step):
        part = _encode_labels(_read_range(ranges, start, min(start + step, ranges.count)), names)
        for name, parts in further.items():
            parts += [] if getattr(part, name) is None else [getattr(part, name)]
        for name, values in (part.columns or {}).items():
            columns.setdefault(name, []).append(values)
        if slow:
            rows.append(part.X, None)
    kept = _ranges_from_spilled_rows(ranges, rows) if slow else ranges
    if any(
        len(parts) not in (0, -(-ranges.count // step)) for parts in (*further.values(), *columns.values())
    ):  # a range without any label
        return None
    whole: dict[str, Any] = {name: np.concatenate(parts) for name, parts in further.items() if parts}
    if names:
        y = np.where(whole["y"] < 0, -1, np.argsort(np.argsort(list(names))).astype(np.int32)[whole["y"]])
        whole |= {"y": y.astype(np.int64) if (y < 0).any() else y, "class_names": sorted(names)}
    if columns:
        whole["columns"] = {name: np.concatenate(parts) for name, parts in columns.items()}
    return Dataset(LazyMatrix(kept), feature_names=ranges.names, split=split, **whole | said)


def read_row_range(data: Dataset, start: int, stop: int) -> Dataset:
    """Read rows [start, stop) of a data set whose rows stay in their file."""
    part = slice(start, stop)
    found: dict[str, Any] = {name: item[part] for name in ("X", "y", "split", "weight") if (item := getattr(data, name)) is not None}
    return replace(data, **found)


def _read_range(ranges: RowRanges, start: int, stop: int) -> Dataset:
    """Read rows [start, stop).  Errors number rows from the first of all rows."""
    try:
        return ranges.read(start, stop)
    except DataError as error:
        if stop - start < ranges.count and error.where == ranges.artifact.name:
            error.message = line_numbers.shift_row_numbers(error.message, start)
        raise


def _encode_labels(part: Dataset, names: dict[str, int]) -> Dataset:
    """Number the text labels of a range as in the ranges before it; new names are added to `names`."""
    if part.y is None or not part.class_names:
        return part
    numbers = np.array([names.setdefault(name, len(names)) for name in part.class_names])
    return replace(part, y=np.where(part.y < 0, -1, numbers[part.y]), class_names=None)


def hdf5_backed_dataset(ranges: RowRanges) -> Dataset | None:
    """Return the data set of one HDF5 file, with labels, splits and weights in memory and rows in the file; None for other inputs."""
    _, reader, where = ranges.parts[0]
    if len(ranges.parts) > 1 or not isinstance(reader, Hdf5Reader) or reader.others:
        return None
    further = reader.further
    whole = {name: item[:] if name == "y" else item for name, item in further.items()} | {"split": ranges.read_split_column()}
    if reader.kept:
        whole["columns"] = {name: native_arrays.native_array(item[:], name=name, where=where) for name, item in reader.kept.items()}
    found = Dataset(np.broadcast_to(np.uint8(0), (ranges.count, ranges.artifact.value.X.shape[1])), **whole)
    validate(replace(found, feature_names=None), where=where)
    return replace(found, X=LazyMatrix(ranges))
