"""Rows that do not fit into memory: Parquet and HDF5 are read in batches into files of float64, one file for each split.

The files are unnamed, in $TMPDIR, and vanish with the process.  They are read into memory by position and never mapped, so that the
memory of the process does not grow with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from herdcli.artifacts import hdf5_guard, memory_budget
from herdcli.artifacts.byte_sources import open_source
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.formats import format_detection, hdf5_contents, parquet_files
from herdcli.artifacts.formats.arrow import to_numpy
from herdcli.artifacts.load_options import LoadOptions, ignore_note
from herdcli.artifacts.load_save import Artifact
from herdcli.artifacts.recoding import Recoding
from herdcli.artifacts.rows import row_groups
from herdcli.artifacts.rows.spill_file import open_unnamed_file, read_array, write_array
from herdcli.artifacts.sealed import codec, seal_header, sealed_hdf5
from herdcli.artifacts.tables import dataset_columns
from herdcli.artifacts.tables.column_roles import BY_NAME_ROLES, ColumnRoles, trust_sealed_column_names
from herdcli.artifacts.tables.dataset_assembly import parse_split_column
from herdcli.errors import BadUsage, DataError, HerdError
from herdcli.records import HistoryRecord, dataclass
from herdcli.schema import Array, Matrix, require_valid_weights

if TYPE_CHECKING:
    import pyarrow as pa

SplitChooser = Callable[[int, Array | None], Array | None]  # number of rows, their own split -> the split of each; None: all are in split 0


@dataclass
class SpilledRows:
    """Rows (count, columns) of float64 in a file; if there are weights, each row is followed by its weight."""

    columns: int
    weighted: bool
    count: int = 0
    file: IO[bytes] = field(default_factory=open_unnamed_file)

    @property
    def width(self) -> int:
        """The numbers stored per row."""
        return self.columns + self.weighted

    def append(self, X: Array, weight: Array | None) -> None:
        """Append rows."""
        rows = np.empty((len(X), self.width))
        rows[:, : self.columns] = X
        if weight is not None:
            rows[:, -1] = weight
        write_array(self.file, self.count * self.width * rows.itemsize, rows, "rows")
        self.count += len(X)

    def read(self, start: int, stop: int) -> tuple[Array, Array | None]:
        """Return rows [start, stop) and their weights."""
        rows = np.empty((max(0, min(stop, self.count) - start), self.width))
        read_array(self.file, start * self.width * rows.itemsize, rows, "rows")
        return (rows[:, :-1], rows[:, -1].copy()) if self.weighted else (rows, None)

    def take(self, numbers: Array) -> Array:
        """Return rows (n, columns) by their numbers in increasing order; neighbouring rows are read together."""
        rows = np.empty((len(numbers), self.width))
        ends = np.flatnonzero(np.diff(numbers) != 1) + 1
        for start, stop in zip([0, *ends.tolist()], [*ends.tolist(), len(numbers)], strict=True):
            if stop > start:
                read_array(self.file, int(numbers[start]) * self.width * rows.itemsize, rows[start:stop], "rows")
        return rows[:, : self.columns]


@dataclass(frozen=True)
class RowBatch:
    """A batch of rows, with weights if the file has them."""

    X: Array
    weight: Array | None


@dataclass(frozen=True)
class BatchSource:
    """An open file of rows: their count, their own split, the column names, the batches, and the artifact's history and recoding."""

    count: int
    split: Array | None
    feature_names: list[str] | None
    batches: Iterator[RowBatch]
    history: list[HistoryRecord]
    recoding: Recoding


SpilledSplits = tuple[BatchSource, dict[int, SpilledRows]]


def load_parts(
    path: str, *, note: Callable[[str], None], choose: SplitChooser, label: str | None = None, roles: ColumnRoles = BY_NAME_ROLES
) -> tuple[Artifact, dict[int, SpilledRows]]:
    """Read an artifact without rows, and the rows of each split.  Labels are left out.

    Raises DataError for other formats, and for values that cannot be used for learning: infinite values, invalid weights.
    """
    with open_source(path, limit=memory_budget.default_memory_limit()) as source:
        form = format_detection.detect_format(source.head, source.name) if source.regular else ""
        if form not in ("parquet", "hdf5"):
            raise DataError(
                "--on-disk needs a Parquet or HDF5 file", where=source.name, hint="make one: herd convert INPUT -o FILE.parquet"
            )
        reading = _open_parquet if form == "parquet" else _open_hdf5
        sealed = parquet_files.verify_seal(path, where=source.name) if form == "parquet" else _verify_seal(source)
        if roles.selects_columns and form == "hdf5":
            hint = "make one: herd convert INPUT --drop NAME -o FILE.parquet"
            raise BadUsage("--columns and --drop work with --on-disk only for a Parquet file", where=source.name, hint=hint)
        roles = roles if sealed is None else trust_sealed_column_names(roles)
        opened, found = reading(path, source.name, LoadOptions(note=note, label=label, roles=roles), choose)
        value = Dataset(np.empty((0, max(part.columns for part in found.values()))), feature_names=opened.feature_names)
        digest, known = sealed or source.sha256, opened.recoding
        return Artifact("dataset", value, opened.history, digest, source.name, source.size, sealed is not None, known), found


def _verify_seal(source: Any) -> str | None:
    stated = seal_header.parse_seal(source.head, where=source.name)
    if stated is None:
        format_detection.refuse_damaged_seal(source.head, source.name)
        return None
    seal_header.verify_seal(stated, source.size, source.sha256, where=source.name)
    if stated.kind != "dataset":
        raise DataError(f"is of kind {stated.kind}, but must be of kind dataset", where=source.name)
    return str(stated.sha256)


def _spill_batches(opened: BatchSource, choose: SplitChooser, where: str) -> SpilledSplits:
    """Write each batch to the files of its splits."""
    if not opened.count:
        raise DataError("has no rows", where=where)
    part = choose(opened.count, opened.split)
    found: dict[int, SpilledRows] = {}
    row = 0
    for batch in opened.batches:
        _check_batch(batch, row, where)
        own = np.zeros(len(batch.X), dtype=np.uint8) if part is None else part[row : row + len(batch.X)]
        for number in np.unique(own).tolist():
            file = found.setdefault(number, SpilledRows(batch.X.shape[1], batch.weight is not None))
            chosen = own == number
            file.append(batch.X[chosen], None if batch.weight is None else batch.weight[chosen])
        row += len(batch.X)
    return opened, found


def _check_batch(batch: RowBatch, row: int, where: str) -> None:
    if np.isinf(batch.X).any():
        at = row + int(np.argmax(np.isinf(batch.X).any(axis=1)))
        raise DataError(f"row {at} has an infinite value", where=where, hint="write NaN for missing values")
    require_valid_weights(batch.weight, some_positive=False, where=where)


def _open_parquet(path: str, where: str, options: LoadOptions, choose: SplitChooser) -> SpilledSplits:
    import pyarrow as pa

    try:
        with row_groups.open_parquet(path) as file:
            names, groups = file.schema_arrow.names, file.metadata.num_row_groups
            roles_by_name = dataset_columns.assign_roles(names, options, where)
            known = dataset_columns.with_named_splits(names, lambda name: file.read(columns=[name]).column(0), roles_by_name, options)
            own = known.get("split")
            split = None if own is None else parse_split_column(to_numpy(file.read(columns=[own]).column(0)), where, options.note)
            others = [name for name in names if name != own]
            roles = options.roles if own is None else replace(options.roles, by_name=options.roles.by_name - {"split"}, split=None)
            options = replace(options, roles=roles)
            reader = row_groups.RowGroups(file)  # which decodes a large group a column at a time
            first = next(reader.batches(0, others), None) if groups else None
            head = None if first is None else _dataset_from_batch(pa, first.slice(0, 1), where, options)
            del first
            if head is not None and head.y is not None:
                options.note(f"{where}: labels are ignored")
            quiet = replace(options, note=ignore_note)
            batches = (_row_batch_from_dataset(_dataset_from_batch(pa, batch, where, quiet)) for batch in _record_batches(reader, others))
            given = head.feature_names if head else None
            return _spill_batches(
                BatchSource(file.metadata.num_rows, split, given, batches, *parquet_files.read_history_and_recoding(file, where)),
                choose,
                where,
            )
    except HerdError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"the Parquet file cannot be read ({reason})", where=where, hint=seal_header.DAMAGED_HINT) from error


def _record_batches(reader: row_groups.RowGroups, names: list[str]) -> Iterator[pa.RecordBatch]:
    for group in range(reader.file.metadata.num_row_groups):  # one iterator over all groups would keep their data in memory
        yield from reader.batches(group, names)


def _dataset_from_batch(pa: Any, batch: pa.RecordBatch, where: str, options: LoadOptions) -> Dataset:
    return dataset_columns.dataset_from_table(pa.Table.from_batches([batch]), {}, where=where, options=replace(options, missing=True))


def _row_batch_from_dataset(data: Dataset) -> RowBatch:
    return RowBatch(np.asarray(data.X, dtype=np.float64), data.weight)


def _open_hdf5(path: str, where: str, options: LoadOptions, choose: SplitChooser) -> SpilledSplits:
    with hdf5_guard.open_guarded(path, where=where) as file:
        hdf5_guard.walk_datasets(file, where=where)
        X = file.get("X")
        if getattr(X, "ndim", 0) != 2 or X.dtype.kind not in "fiub":
            raise DataError("--on-disk needs dense numbers in /X (n, d), but the file has none", where=where, hint="leave out --on-disk")
        if "y" in file:
            options.note(f"{where}: labels are ignored")
        further = {name: codec.read_array(file[name]) for name in ("split", "weight", "feature_names") if name in file}
        if "provenance" not in file.attrs:
            titles = hdf5_contents.find_column_titles(file, memory_budget.default_memory_limit(), where)
            further |= {role: codec.read_array(file[name]) for name, role in titles.items()}
        short = next((name for name in ("split", "weight") if name in further and len(further[name]) != len(X)), None)
        if short is not None:
            raise DataError(
                f"/{short} has {len(further[short])} rows, but /X has {len(X)}", where=where, hint="give one entry for each row of /X"
            )
        split = parse_split_column(further["split"], where, options.note) if "split" in further else None
        names = [str(name) for name in further["feature_names"]] if "feature_names" in further else None
        stated = sealed_hdf5.read_root_attributes(file, "dataset", where=where) if "provenance" in file.attrs else {}
        known = Recoding.from_json(str(stated["recoding"]), where=where) if "recoding" in stated else Recoding()
        opened = BatchSource(len(X), split, names, _row_batches(X, further.get("weight")), stated.get("history", []), known)
        return _spill_batches(opened, choose, where)


def _row_batches(X: Matrix, weight: Array | None) -> Iterator[RowBatch]:
    size = max(1, row_groups.BATCH_BYTES // (8 * max(1, X.shape[1])))
    for start in range(0, len(X), size):
        rows = np.asarray(X[start : start + size], dtype=np.float64)
        yield RowBatch(rows, None if weight is None else np.asarray(weight[start : start + size], dtype=np.float64))
