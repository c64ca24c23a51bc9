"""Files of which any range of rows can be read: Parquet by row groups, HDF5 by chunks, text by lines, and several files as one.

A range has the values that the whole file would have in those rows.  So neither the storage nor the split of the work changes a number.
"""

from __future__ import annotations

import bisect
import glob
import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from herdcli.artifacts import hdf5_guard, memory_budget
from herdcli.artifacts.byte_sources import ByteSource, open_source
from herdcli.artifacts.dataset import Dataset, check_finite, check_magnitudes
from herdcli.artifacts.formats import anndata, format_detection, hdf5_contents, parquet_files, unsealed_hdf5
from herdcli.artifacts.formats.arrow import numpy_dtype, to_numpy
from herdcli.artifacts.h5py_import import h5py
from herdcli.artifacts.load_options import LoadOptions, ignore_note
from herdcli.artifacts.load_save import Artifact
from herdcli.artifacts.recoding import Recoding
from herdcli.artifacts.rows import row_groups
from herdcli.artifacts.rows.block_reader import convert_arrow_errors
from herdcli.artifacts.sealed import codec, seal_header, sealed_hdf5
from herdcli.artifacts.tables import dataset_columns, native_arrays
from herdcli.artifacts.tables.column_roles import BY_NAME_ROLES, NONE, ColumnRoles, trust_sealed_column_names
from herdcli.artifacts.tables.dataset_assembly import encode_labels, parse_number_pair, parse_split_column
from herdcli.artifacts.text import line_index
from herdcli.errors import DataError
from herdcli.records import HistoryRecord, dataclass
from herdcli.schema import Array, DType

if TYPE_CHECKING:
    import pyarrow as pa

STRETCH = 1 << 14  # lines read at one time
ROLES = ("X", "split", "weight", "feature_names", "class_names")  # names with a fixed meaning in HDF5
MessageFunction = Callable[[str], None]


class RangeReader(Protocol):
    """A reader of the rows of one file."""

    @property
    def count(self) -> int:
        """The number of rows."""
        ...

    def read(self, start: int, stop: int, note: MessageFunction) -> Dataset:
        """Read rows [start, stop)."""
        ...

    def read_split_column(self) -> Array | None:
        """Return the split column (n,), encoded as `parse_split_column` encodes a part of the rows; None without a split column."""
        ...


@dataclass
class RowRanges:
    """Rows of one or several files, accessed by number.

    artifact   the artifact without rows; its `value` has the names of the columns.
    as_stored  no computations are done with the rows: values of any size and booleans are allowed.      gaps  NaN is a missing value.
    splits     rows are returned with their splits, which are determined from all rows together.
    sources    the sources of the parts; they must not change while they are read.
    account    the report on the columns of the first file, if it is a table.
    """

    artifact: Artifact
    count: int
    parts: list[tuple[int, RangeReader, str]] = field(default_factory=list)  # first row, reader, name
    names: list[str] | None = None
    as_stored: bool = False
    gaps: bool = False
    splits: bool = False
    note: MessageFunction = ignore_note
    sources: list[ByteSource] = field(default_factory=list)
    account: dataset_columns.TableReport | None = None
    split_type: DType = np.dtype(np.uint8)  # type of the splits if the file were read at once; known after `split()`
    _split: list[Array | None] = field(default_factory=list)

    @property
    def declared(self) -> dict[str, Any]:
        """The declarations of the first file for all its rows: units, value_range, image_shape."""
        found: dict[str, Any] = getattr(self.parts[0][1], "declared", {})
        return found

    def read(self, start: int, stop: int) -> Dataset:
        """Read rows [start, stop) of one or several files.

        Raises DataError for values too large for computations, and for other columns.
        """
        stop, found, begin = min(stop, self.count), [], start
        place = bisect.bisect_right([first for first, _, _ in self.parts], start) - 1
        while start < stop:
            first, reader, name = self.parts[place]
            end = min(stop, first + reader.count)
            if end > start:
                try:
                    found.append(self._check_part(reader.read(start - first, end - first, ignore_note), name, start - first))
                finally:
                    self._require_unchanged(place)
            start, place = max(start, end), place + 1
        whole, split = found[0] if len(found) == 1 else _concatenate(found), self.read_split_column() if self.splits else None
        return replace(whole, split=None if split is None else split[begin:stop])

    def summary(self) -> tuple[str, bool] | None:
        """Return the line at the end of reading, for all files, and whether everything was used; None for inputs that are not tables."""
        if self.account is None:
            return None
        value = self.artifact.value
        rows = replace(value, X=np.broadcast_to(np.uint8(0), (self.count, value.X.shape[1])))
        line, complete = replace(self.account, rows=self.count).summary(rows)
        return f"{self.artifact.name}: {f'{len(self.parts)} files, ' if len(self.parts) > 1 else ''}{line}", complete

    def may_have_labels(self) -> bool:
        """Return whether rows may have labels of their own."""
        reader = self.parts[0][1]
        if not hasattr(reader, "asked"):
            return "y" in getattr(reader, "further", {})
        try:
            return replace(reader, asked=replace(reader.asked, missing=False)).read(0, 1, ignore_note).y is not None  # type: ignore[type-var]
        except DataError:  # the first row has missing values
            return True

    def read_all(self) -> Dataset:
        """Read all rows, with the declarations of the first file."""
        self.splits = True
        return replace(self.read(0, self.count), **declared_fields(self.declared, self.artifact.name))

    def read_split_column(self) -> Array | None:
        """Return the splits (n,) of all rows, by a pass over the split column; None without a split column."""
        if not self._split:
            parts = [reader.read_split_column() for _, reader, _ in self.parts]
            there = [part for part in parts if part is not None]
            whole = np.concatenate(there) if len(there) == len(parts) else None
            if whole is not None and whole.dtype != np.uint8:
                whole = parse_split_column(whole, self.artifact.name, self.note)
                self.split_type = whole.dtype if whole.dtype == np.uint8 else getattr(self.parts[0][1], "split_type", whole.dtype)
                whole = whole.astype(np.uint8)
            self._split.append(whole)
        return self._split[0]

    def _require_unchanged(self, file_index: int) -> None:
        """Raise DataError if the rows of a file may have changed since they were read before."""
        for source in self.sources[file_index : file_index + 1]:
            source.require_unchanged()

    def _check_part(self, data: Dataset, where: str, row: int) -> Dataset:
        if data.feature_names != self.names or data.X.shape[1] != self.artifact.value.X.shape[1]:
            raise DataError(f"the columns change at row {row}", where=where, hint="give all rows the same columns")
        try:
            check_finite("/X", data.X, where, missing=self.gaps)
        except DataError as error:
            error.where = where if row == 0 else f"{where}, rows from {row}"
            raise
        return data if self.as_stored else check_magnitudes(data, where=where)


def _concatenate(parts: list[Dataset]) -> Dataset:
    def along(name: str) -> Any:
        items = [getattr(part, name) for part in parts]
        return None if any(item is None for item in items) else np.concatenate(items)

    made = replace(
        parts[0], X=along("X"), y=along("y"), weight=along("weight"), split=along("split"), columns=_concatenate_further_columns(parts)
    )
    if made.y is None or all(part.class_names == parts[0].class_names for part in parts):
        return made
    names = sorted({name for part in parts for name in part.class_names or ()})  # text labels get the numbers that one file would give
    y = [np.searchsorted(names, part.class_names)[part.y] for part in parts if part.class_names and part.y is not None]
    if len(y) < len(parts):
        raise DataError("some files have text labels and others have numbers", hint="convert all of them in the same way")
    return replace(made, y=np.concatenate(y).astype(np.int32), class_names=names)


def _concatenate_further_columns(parts: list[Dataset]) -> dict[str, Array] | None:
    """Return the further columns of all parts, which must have the same ones."""
    first = parts[0].columns
    if first is None or any(set(part.columns or ()) != set(first) for part in parts):
        return None
    return {name: np.concatenate([(part.columns or {})[name] for part in parts]) for name in first}


@contextmanager
def open_ranges(
    path: str,
    *,
    input_format: str | None,
    note: MessageFunction,
    verified: bool,
    label: str | None = None,
    keep: Collection[str] = (),
    labels: bool = True,
    missing: bool = False,
    as_text: Collection[str] = (),
    roles: ColumnRoles = BY_NAME_ROLES,
) -> Iterator[RowRanges | None]:
    """Open the rows of a file, or of all files of a pattern such as 'rows-*.parquet'; None for an input that can only be read as a whole.

    verified  a sealed file is verified against its seal; otherwise its parts that are not read are trusted.      keep  further columns.
    labels, missing, as_text, roles  as in `LoadOptions`.
    """
    asked = LoadOptions(
        note=note, label=label, texts=True, stretch=True, keep=keep, labels=labels, missing=missing, as_text=as_text, roles=roles
    )
    with ExitStack() as held:
        yield _open_readers(matching_files(path), path, asked, input_format, verified, held)


def matching_files(path: str) -> list[str]:
    """Return the files that a path names: itself, or those of a pattern, sorted by name."""
    if os.path.exists(path) or not any(mark in path for mark in "*?["):
        return [path]
    found = sorted(glob.glob(path))
    return found or [path]


def is_file_pattern(path: str) -> bool:
    """Return whether a path is a pattern that matches existing files."""
    return matching_files(path) != [path]


def is_readable_only_once(path: str) -> bool:
    """Return whether a path can be read only once: a pipe, a device, a socket."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _open_readers(
    paths: list[str], path: str, options: LoadOptions, input_format: str | None, verified: bool, stack: ExitStack
) -> RowRanges | None:
    found: list[tuple[Artifact, RangeReader, ByteSource]] = []
    options = replace(options, account=[])
    for each in paths:
        one = _open_file(each, replace(options, note=ignore_note) if found else options, input_format, verified, stack)
        if one is None:
            if len(paths) > 1:
                hint = "use Parquet, dense HDF5, or CSV with numbers only"
                raise DataError("has a format that cannot be read in parts, which is necessary for several files", where=each, hint=hint)
            return None
        found.append(one)
    first = found[0][0]
    width, names = first.value.X.shape[1], first.value.feature_names
    starts, parts = 0, []
    for artifact, reader, _ in found:
        if (artifact.value.feature_names, artifact.value.X.shape[1]) != (names, width):
            raise DataError(f"has other columns than {first.name}", where=artifact.name, hint="give files with the same columns")
        if (artifact.recoding.codes or first.recoding.codes) and artifact.recoding.levels != first.recoding.levels:
            raise DataError(f"its text columns have other values than those of {first.name}", where=artifact.name)
        parts.append((starts, reader, artifact.name))
        starts += reader.count
    whole = first if len(found) == 1 else _combine_artifacts([artifact for artifact, _, _ in found], path)
    account = next((each for each in options.account if isinstance(each, dataset_columns.TableReport)), None)
    return RowRanges(whole, starts, parts, names, note=options.note, sources=[source for _, _, source in found], account=account)


def _combine_artifacts(artifacts: list[Artifact], path: str) -> Artifact:
    """Combine the artifacts of several files as one input."""
    digest = hashlib.sha256("".join(artifact.sha256 for artifact in artifacts).encode()).hexdigest()
    return replace(artifacts[0], sha256=digest, name=path, size=sum(artifact.size for artifact in artifacts), history=[], sealed=False)


def _open_file(
    path: str, options: LoadOptions, input_format: str | None, verified: bool, stack: ExitStack
) -> tuple[Artifact, RangeReader, ByteSource] | None:
    """Open one file; return its artifact, its reader and its source."""
    if os.path.isdir(path) or path == "-":
        return None
    source = stack.enter_context(open_source(path, limit=memory_budget.default_memory_limit()))
    if not source.regular or source.member is not None:
        return None
    form = format_detection.check_format_name(input_format) if input_format else format_detection.detect_format(source.head, source.name)
    if form not in READERS:
        return None
    made = READERS[form](source, stack.enter_context(source.file_path()), options, verified, stack)
    if made is None:
        return None
    reader, digest, history, sealed, recoding = made
    if not reader.count:
        raise DataError("has no rows", where=source.name)
    head = reader.read(0, 1, options.note)
    if set(head.columns or ()) - set(options.keep) or head.is_sparse:  # columns of text, whose encoding depends on all rows
        return None
    value = Dataset(np.empty((0, head.X.shape[1])), feature_names=head.feature_names)
    return Artifact("dataset", value, history, digest, source.name, source.size, sealed, recoding), reader, source


OpenedReader = tuple[RangeReader, str, list[HistoryRecord], bool, Recoding]


@dataclass
class _ParquetReader:
    """A reader of the rows of Parquet row groups, in sequence or from any position."""

    file: h5py.File
    where: str
    asked: LoadOptions
    starts: list[int] = field(default_factory=list)
    count: int = 0
    declared: dict[str, Any] = field(default_factory=dict)  # for all rows: value range and image shape
    _groups: row_groups.RowGroups = field(init=False)
    _batches: Iterator[pa.RecordBatch] | None = None
    _at: int = -1  # the first row of the next batch
    _left: pa.RecordBatch | None = None

    def __post_init__(self) -> None:
        self._groups = row_groups.RowGroups(self.file)

    @property
    def declares_images(self) -> bool:
        """Return whether rows are declared to be images."""
        return "image_shape" in self.declared

    def read(self, start: int, stop: int, note: MessageFunction) -> Dataset:
        """Read rows [start, stop)."""
        import pyarrow as pa

        with convert_arrow_errors("Parquet file", self.where):
            table = pa.Table.from_batches(list(self._pieces(start, stop)))
        return dataset_columns.dataset_from_table(table, {}, where=self.where, options=replace(self.asked, note=note))

    @property
    def split_type(self) -> DType:
        """The type of whole numbers that mean splits."""
        kind = numpy_dtype(self.file.schema_arrow.field(self._split_column()).type)
        return kind if kind.kind in "iu" else np.dtype(np.int64)

    def _split_column(self) -> str | None:
        return dataset_columns.assign_roles(self.file.schema_arrow.names, self.asked, self.where).get("split")

    def read_split_column(self) -> Array | None:
        """Return only the split column."""
        own = self._split_column()
        if own is None:
            return None
        with convert_arrow_errors("Parquet file", self.where):
            column = to_numpy(self.file.read(columns=[own], use_threads=False).column(0))
        return parse_split_column(column, self.where, ignore_note, stretch=True)

    def _pieces(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield batches of these rows; the batches after them are kept for the next call."""
        if self._batches is None or not (self._group_of_row(self._at) == self._group_of_row(start) and self._at <= start):
            self._batches, self._left, self._at = self._from(self._group_of_row(start)), None, self.starts[self._group_of_row(start)]
        while self._at < stop:
            batch = self._left if self._left is not None else next(self._batches)
            self._left = None
            low, high = max(start - self._at, 0), min(stop - self._at, batch.num_rows)
            if high > low:
                yield batch.slice(low, high - low)
            if high < batch.num_rows and stop - self._at < batch.num_rows:
                self._left, self._at = batch.slice(max(high, 0)), self._at + max(high, 0)
                return
            self._at += batch.num_rows

    def _group_of_row(self, row: int) -> int:
        return bisect.bisect_right(self.starts, row) - 1

    def _from(self, group: int) -> Iterator[pa.RecordBatch]:
        for number in range(group, len(self.starts)):
            yield from self._groups.batches(number)


def _open_parquet(source: ByteSource, path: str, options: LoadOptions, verified: bool, stack: ExitStack) -> OpenedReader:
    digest = parquet_files.verify_seal(path, where=source.name) if verified else parquet_files.stated_digest(path, where=source.name)
    with convert_arrow_errors("Parquet file", source.name):
        file = stack.enter_context(row_groups.open_parquet(path))
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int).tolist()
    pictured = any(b"image_shape" in item for pair in (file.metadata.metadata or {}).items() for item in pair)
    declared = ({"image_shape": None} if pictured else {}) | parquet_files.declared_attributes(file)
    if digest is not None:
        options = replace(options, roles=trust_sealed_column_names(options.roles))
    reader = _ParquetReader(file, source.name, options, starts[:-1], starts[-1], declared)
    history, recoding = parquet_files.read_history_and_recoding(file, source.name)
    return reader, digest or line_index.file_digest(source, path, fresh=verified), history, digest is not None, recoding


@dataclass
class Hdf5Reader:
    """A reader of the rows of a dense HDF5 matrix.

    further  arrays over all rows, and names.  others  whether the file has further columns.  declared  declarations for all rows.
    kept     requested columns of a file without a seal.
    """

    X: Any
    where: str
    further: dict[str, Any]
    count: int
    others: bool = False
    split_type: DType = np.dtype(np.int64)  # type of whole numbers that mean splits
    declared: dict[str, Any] = field(default_factory=dict)  # for all rows: value range and image shape
    kept: dict[str, Any] = field(default_factory=dict)

    def read(self, start: int, stop: int, note: MessageFunction) -> Dataset:
        """Read rows [start, stop)."""
        parts = {name: item[start:stop] if name in ("y", "split", "weight") else item for name, item in self.further.items()}
        columns = {name: item[start:stop] for name, item in self.kept.items()}
        X = native_arrays.native_array(self.X[start:stop], name="X", where=self.where)
        parts, columns = ({name: _to_native_array(item, name, self.where) for name, item in group.items()} for group in (parts, columns))
        return Dataset(X, **parts, columns=columns or None)

    def read_split_column(self) -> Array | None:
        """Return the array `split`."""
        return self.further.get("split")


def _to_native_array(item: Any, name: str, where: str) -> Any:
    """Return an array converted by `native_arrays.array`; lists of names are unchanged."""
    return native_arrays.native_array(item, name=name, where=where) if isinstance(item, np.ndarray) else item


def _open_hdf5(source: ByteSource, path: str, options: LoadOptions, verified: bool, stack: ExitStack) -> OpenedReader | None:
    where, sealed = source.name, seal_header.parse_seal(source.head, where=source.name)
    if options.roles.selects_columns:
        return None
    if sealed is None:
        format_detection.refuse_damaged_seal(source.head, where)
    elif sealed.kind != "dataset":
        return None
    else:
        seal_header.verify_seal(sealed, source.size, source.sha256 if verified else sealed.sha256, where=where)
    file = stack.enter_context(hdf5_guard.open_guarded(path, where=where, include_soft_links=sealed is None))
    X = file.get("X")
    if getattr(X, "ndim", 0) != 2 or X.dtype.kind not in "fiub" or len(X) == 0:
        return None
    if sealed is None and (
        anndata.is_anndata(file) or "MATLAB_class" in X.attrs or unsealed_hdf5.has_netcdf_packing(X)
    ):  # names, orientation or values differ
        return None
    own = {name: codec.read_array(file[name]) for name in ("split", "weight", "feature_names", "class_names") if name in file}
    titles = hdf5_contents.find_column_titles(file, memory_budget.default_memory_limit(), where) if sealed is None else {}
    own |= {role: codec.read_array(file[name]) for name, role in titles.items() if name[1:] not in (*options.keep, options.label)}
    if options.label == NONE:
        own.pop("class_names", None)
    kept = {} if sealed is not None else _numeric_columns(file, options.keep, len(X))
    if not options.labels:
        own.pop("class_names", None)
    elif not _add_labels(own, file, sealed is not None, options, where):
        return None
    for name in ("y", "split", "weight"):
        if name in own and len(own[name]) != len(X):
            raise DataError(
                f"/{name} has {len(own[name])} rows, but /X has {len(X)}", where=where, hint="give one entry for each row of /X"
            )
    further: dict[str, Any] = {name: own[name] for name in ("y", "weight") if name in own}
    further |= {name: [str(text) for text in own[name]] for name in ("feature_names", "class_names") if name in own}
    further |= {"split": parse_split_column(own["split"], where, ignore_note, stretch=True)} if "split" in own else {}
    declared = unsealed_hdf5.read_attributes(file)
    if (shape := declared.get("image_shape")) is not None:
        further["image_shape"] = np.asarray(shape)
    past = sealed_hdf5.read_root_attributes(file, "dataset", where=where) if "provenance" in file.attrs else {}
    recoding = Recoding.from_json(str(past["recoding"]), where=where) if "recoding" in past else Recoding()
    digest = line_index.file_digest(source, path, fresh=verified) if sealed is None else sealed.sha256
    split_type = own["split"].dtype if "split" in own and own["split"].dtype.kind in "iu" else np.dtype(np.int64)
    reader = Hdf5Reader(X, where, further, len(X), "columns" in file, split_type, declared, kept)
    return reader, digest, past.get("history", []), sealed is not None, recoding


def _numeric_columns(file: h5py.File, names: Collection[str], rows: int) -> dict[str, Any]:
    """Return the numeric columns that a file stores next to its rows, except those that number texts."""
    found = {name: file[name] for name in names if name in file and f"{name}_names" not in file and name not in ROLES}
    return {name: item for name, item in found.items() if getattr(item, "shape", None) == (rows,) and item.dtype.kind in "fiu"}


def _add_labels(arrays: dict[str, Any], file: h5py.File, sealed: bool, options: LoadOptions, where: str) -> bool:
    """Add the labels that the whole file would have; return False if they are not a vector."""
    top = [name for name in file if hasattr(file[name], "ndim")]
    candidates = ["y"] if sealed else [name for name in unsealed_hdf5.LABELS if name not in options.keep]
    name = unsealed_hdf5.choose_label(top, candidates, None if sealed and options.label != NONE else options.label, where)
    if name is None:
        return True
    if file[name].ndim != 1:
        return False
    if file[name].dtype.kind in "iu" and h5py.check_enum_dtype(file[name].dtype) is None:
        arrays["y"] = file[name]
        return True
    names = arrays.get("class_names")
    values = codec.read_array(file[name], text=object)
    if values.dtype.kind == "f" and not (np.isfinite(values).all() and (values == np.round(values)).all()):
        options.note(f"{where}: ignored '{name}' because it holds real numbers, which cannot be labels")
        return True
    arrays["y"], classes = encode_labels(values, None if names is None else [str(text) for text in names], where=where)
    if classes is not None:
        arrays["class_names"] = np.array(classes, dtype=object)
    return True


def declared_fields(declared: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the declarations of a file for all its rows, as fields of a data set."""
    found = {name: parse_number_pair(declared, name, kinds, where) for name, kinds in (("value_range", "fiu"), ("image_shape", "iu"))}
    return found | {"units": str(declared.get("units", "real"))}


@dataclass
class _TextReader:
    """A reader of lines of numbers."""

    path: str
    where: str
    asked: LoadOptions
    index: line_index.LineIndex

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.index.count

    def read(self, start: int, stop: int, note: MessageFunction) -> Dataset:
        """Read rows [start, stop)."""
        return line_index.read_rows(self.path, self.index, start, stop, where=self.where, options=replace(self.asked, note=note))

    def read_split_column(self) -> Array | None:
        """Return the split column, by a pass over the lines."""
        if self.read(0, 1, ignore_note).split is None:
            return None
        parts = [self.read(start, min(start + STRETCH, self.count), ignore_note).split for start in range(0, self.count, STRETCH)]
        return np.concatenate([part for part in parts if part is not None])


def _open_text(source: ByteSource, path: str, options: LoadOptions, verified: bool, stack: ExitStack) -> OpenedReader | None:
    index = line_index.build_index(path, source.head, options.roles.features)
    if index is None:
        return None
    return _TextReader(path, source.name, options, index), index.sha256, [], False, Recoding()


READERS: dict[str, Callable[..., OpenedReader | None]] = {"parquet": _open_parquet, "hdf5": _open_hdf5, "csv": _open_text}
