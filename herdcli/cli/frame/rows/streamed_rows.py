"""Rows of data sets that are larger than memory, read one range at a time in unit values, for learning and evaluation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from herdcli.artifacts import dataset as data_set
from herdcli.artifacts import memory_budget, process_limits
from herdcli.artifacts.byte_sources import open_source
from herdcli.artifacts.rows import lazy_matrix, row_ranges
from herdcli.artifacts.rows.row_groups import decoded_size_in_bytes
from herdcli.artifacts.tables import dataset_preparation
from herdcli.errors import BadUsage, DataError, HerdError
from herdcli.numerics.block_statistics import ComputedRows, RowBlock, blocks_per_read
from herdcli.numerics.block_units import AT_ONCE
from herdcli.numerics.row_selection import column_sums, iterate_row_slices
from herdcli.schema import Array

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.artifacts.dataset import Dataset
    from herdcli.artifacts.rows.lazy_matrix import ConvertedMatrix, LazyMatrix, SpilledMatrix
    from herdcli.artifacts.rows.row_ranges import RowRanges
    from herdcli.cli.frame.run.session import Session
    from herdcli.rbm.model import RBM
    from herdcli.rbm.units.base import UnitFamily

B = TypeVar("B")
UNBOUNDED = 1 << 62
PACKED = 8  # how much smaller than its numbers a Parquet file may be to be considered large
IN_MEMORY = 1 << 30  # bytes up to which rows are read whole although they could stay on disk with the same result
NEEDS = "--on-disk needs a Parquet, CSV or dense HDF5 file whose rows are numbers"
HINT = "make one: herd convert INPUT -o FILE.h5"
FEWER_COLUMNS = "make a smaller file: herd convert INPUT --columns NAME,… -o FILE.h5"  # for fits that need all rows in memory


def open_streamed_dataset(
    session: Session,
    path: str,
    *,
    label: str | None,
    input_format: str | None,
    is_requested: bool,
    unit_bytes: int,
    same: bool = False,
    missing: bool = False,
    keep: Sequence[str] = (),
) -> Artifact | None:
    """Return a data set whose rows stay on disk; None if they are to be read whole.

    is_requested       whether --on-disk was given; otherwise rows stay only if they would exceed --max-memory.
    unit_bytes  memory per entry in addition to the stored one: unit values, and copies that the command makes.
    same        whether the result is the same in any case; then rows stay on disk if they would exceed IN_MEMORY.
    missing, keep  as in `row_ranges.open_ranges`.
    Raises BadUsage if --on-disk is given for an input that cannot be read in ranges.
    """
    if not are_rows_used_unchanged(session, path) or not (is_requested or is_large_input(path)):
        if is_requested:
            raise BadUsage(NEEDS, hint=HINT)
        return None
    notes: list[str] = []  # reading the rows whole would repeat them
    read = partial(row_ranges.open_ranges, path, input_format=input_format, note=notes.append, verified=True, label=label, missing=missing)
    found = session.enter_until_command_ends(read(keep=keep, roles=session.column_roles()))
    if found is not None:
        found.gaps = missing
    if found is None or not (is_requested or _exceeds_memory(session, found, unit_bytes, same)):
        if is_requested:
            raise BadUsage(NEEDS, hint=HINT)
        return None
    value = lazy_matrix.file_backed_dataset(found, declared=True, repeated=True)
    if value is None:
        if is_requested:
            raise BadUsage(NEEDS, hint=HINT)
        return None
    for line in notes:
        session.console.note(line)
    session.inputs["data"], session.recoding = found.artifact, found.artifact.recoding
    session.report_range_use(found)
    session.console.detail(f"{found.artifact.name}: {len(value.X)} rows are read in blocks")
    return replace(found.artifact, value=value)


@contextmanager
def suggest_streaming(hint: str, is_available: Callable[[], object], where: str | None = None) -> Iterator[None]:
    """Add a hint at a way that needs less memory, if it is available, to an out-of-memory error of the enclosed code.

    hint    the hint.
    is_available   tells whether that way is available.
    where  the input, for errors of libraries that do not name one.
    """
    try:
        yield
    except DataError as error:
        if error.hint is not None and error.hint.startswith("raise --max-memory") and is_available():
            error.hint = f"{hint}; or {error.hint}"
        raise
    except Exception as error:  # only errors of memory, which libraries word in their own ways, are replaced
        refusal = process_limits.memory_error_for(error, () if where is None else (where,))
        if refusal is None or not is_available():
            raise
        refusal.hint = f"{hint}; or {refusal.hint}"
        raise refusal from error


def read_budget_bytes() -> int:
    """Return how many bytes of rows, in double precision, --max-memory allows to be read at one time if rows stay in their file.

    This is for sums over blocks, whose bytes do not depend on how many blocks were read together.
    """
    return process_limits.bytes_per_block_read()


def blocks_per_unit_read(columns: int) -> int:
    """Return how many blocks of a unit to read at one time, by the same limit."""
    return min(AT_ONCE, blocks_per_read(columns, read_budget_bytes()))


def matrix_rows(
    X: LazyMatrix, labels: Array | None = None, encode_labels: Callable[[Array], Array] = np.asarray, weight: Array | None = None
) -> ComputedRows[RowBlock]:
    """Return the rows of a matrix that stays in its file, with labels (n,), which `encode_labels` makes numbers, and weights (n,)."""

    def read(start: int, stop: int) -> RowBlock:
        own = np.ascontiguousarray(X[start:stop], dtype=np.float64)
        y = None if labels is None else encode_labels(labels[start:stop])
        return RowBlock(start, own, y, None if weight is None else np.asarray(weight[start:stop], dtype=np.float64))

    return ComputedRows(*X.shape, read, read_budget_bytes())


def are_rows_used_unchanged(session: Session, path: str) -> bool:
    """Whether the rows of an input are used unchanged, so that ranges can be read separately; False for a pipe."""
    plain = path != "-" and session.missing is None and "categorical" not in session.given and session.layer is None
    return plain and not session.recoding  # else missing values and text are replaced by values from all training rows


def open_row_ranges(
    session: Session, path: str, *, input_format: str | None, label: str | None = None, keep: Sequence[str] = ()
) -> AbstractContextManager[RowRanges | None]:
    """Open a file, or several, from which shards, workers and blocks of large files read only their own rows; None if all rows are read."""
    apart = session.shard is not None or session.cluster is not None
    if not (are_rows_used_unchanged(session, path) and (apart or row_ranges.is_file_pattern(path) or _is_large_file(path))):
        return nullcontext()
    note, verified, roles = session.console.note, session.shard is None, session.column_roles()
    return row_ranges.open_ranges(path, input_format=input_format, note=note, verified=verified, label=label, keep=keep, roles=roles)


def _is_large_file(path: str) -> bool:
    return os.path.isfile(path) and os.path.getsize(path) >= lazy_matrix.LEAST


def assign_range_splits(ranges: RowRanges, split: str | None, seed: int, *, by_label: bool = True) -> Array:
    """Return the split of each row (n,): the file's own, or sampled as for the data set read whole, which needs one pass over the labels.

    split     the value of --split; None if it was not given.
    by_label  whether a split of numbers of rows is drawn class by class if there are labels.
    """
    own = ranges.read_split_column() if split is None else None
    if own is not None:
        return own
    head, y = ranges.read(0, 1), None
    if by_label and head.y is not None:
        stretches = range(0, ranges.count, lazy_matrix.STRETCH)
        further = getattr(ranges.parts[0][1], "further", None) if len(ranges.parts) == 1 else None
        y = further["y"][:] if further else np.concatenate([ranges.read(start, start + lazy_matrix.STRETCH).y for start in stretches])
    rows = data_set.Dataset(
        np.broadcast_to(np.uint8(0), (ranges.count, head.X.shape[1])), y=y, class_names=None if y is None else head.class_names
    )
    try:
        return dataset_preparation.assign_splits(rows, split, seed)
    except HerdError as error:
        error.where = error.where or ranges.artifact.name
        raise


def open_rows_in_file(
    session: Session,
    path: str,
    *,
    label: str | None = None,
    missing: bool = False,
    keep: Sequence[str] = (),
    response: str | None = None,
) -> RowRanges | None:
    """Return the rows of a large file, which stay in it; None if they are to be read whole.

    response  as in `ColumnRoles`; by default the request's.
    Other parameters as in `row_ranges.open_ranges`.
    """
    if not (are_rows_used_unchanged(session, path) and is_large_input(path)):
        return None
    roles = session.column_roles(response=response)
    read = partial(row_ranges.open_ranges, path, input_format=None, note=session.console.note, verified=True, roles=roles)
    asked = read(label=label, missing=missing, keep=keep)
    found = session.enter_until_command_ends(asked)
    if found is not None:
        found.gaps, session.inputs["data"] = missing, found.artifact
        session.report_range_use(found)
        session.console.detail(f"{found.artifact.name}: {found.count} rows are read in blocks")
    return found


def open_dataset_in_file(session: Session, path: str, *, missing: bool = False) -> Artifact | None:
    """Return the rows of a large file as a data set whose labels, splits and weights are in memory; None if they are to be read whole."""
    found = open_rows_in_file(session, path, missing=missing)
    value = None if found is None else lazy_matrix.file_backed_dataset(found, declared=True)
    return None if found is None or value is None else replace(found.artifact, value=value)


def row_reader(rows: RowRanges) -> Callable[[int, int], Dataset] | None:
    """Return a function that reads a range of the rows as they would be in the whole data set; None if only the whole can be read."""
    if lazy_matrix.hdf5_backed_dataset(rows) is None:
        if len(rows.parts) == 1 and not hasattr(rows.parts[0][1], "asked"):
            return None
        if rows.may_have_labels():  # labels, whose numbers and type depend on all rows
            value = lazy_matrix.file_backed_dataset(rows, declared=True)
            if value is None:
                return None
            if value.y is not None and value.class_names and (value.y < 0).any():  # named labels are left out if some are missing
                value = replace(value, y=None, class_names=None)
            return lambda start, stop: lazy_matrix.read_row_range(value, start, stop)
    rows.splits = True
    return rows.read


def match_split_type(part: Dataset, rows: RowRanges) -> Dataset:
    """Return a range of rows whose split has the type that reading the whole file would give."""
    return part if part.split is None else replace(part, split=part.split.astype(rows.split_type))


def is_large_input(path: str) -> bool:
    """Whether a file, or the files of a pattern together, are large enough to stay on disk; smaller ones are read whole, or refused.

    For Parquet files of a few megabytes or more, the decoded size counts; smaller ones are never large.
    """
    if row_ranges.is_file_pattern(path):
        return sum(os.path.getsize(each) for each in row_ranges.matching_files(path)) >= lazy_matrix.LEAST
    if row_ranges.is_readable_only_once(path):
        return False
    with open_source(path, limit=UNBOUNDED) as source:
        packed = source.head.startswith(b"PAR1") and source.size >= lazy_matrix.LEAST // PACKED
        return source.regular and (source.size >= lazy_matrix.LEAST or (packed and decoded_size_in_bytes(path) >= lazy_matrix.LEAST))


def can_read_columns_separately(path: str) -> bool:
    """Whether `herd convert PATH --columns` takes no memory for the other columns: Parquet, and large HDF5 files."""
    if row_ranges.is_file_pattern(path) or row_ranges.is_readable_only_once(path):
        return False
    with open_source(path, limit=UNBOUNDED) as source:
        return source.head.startswith(b"PAR1") or lazy_matrix.can_stay_in_file(source)


def _exceeds_memory(session: Session, ranges: row_ranges.RowRanges, unit_bytes: int, same: bool) -> bool:
    """Whether the rows, as stored and as unit values, would take more than --max-memory, or with `same` more than IN_MEMORY."""
    first = ranges.read(0, 1).X
    over = first.dtype.itemsize == unit_bytes == 1  # unit values replace the values that were read
    size = ranges.count * first.shape[1] * (first.dtype.itemsize + (0 if over else unit_bytes))
    limit = session.max_memory or memory_budget.default_memory_limit()
    return bool(size > (min(limit, IN_MEMORY) if same else limit))


def convert_rows(X: LazyMatrix, convert: Callable[[Array], Array], dtype: type[np.number]) -> ConvertedMatrix | SpilledMatrix:
    """Return rows in the values that `convert` returns, in a temporary file if the original is slow to read in parts."""
    found = lazy_matrix.ConvertedMatrix(X, convert, np.dtype(dtype))
    return found if lazy_matrix.has_cheap_row_reads(X) else lazy_matrix.SpilledMatrix.from_rows(found)


def read_converted_rows(rows: Array | ConvertedMatrix | SpilledMatrix) -> Array:
    """Return rows that `convert_rows` returned as an array, read a few at a time; an array is returned as it is."""
    if isinstance(rows, np.ndarray):
        return rows
    found, step = np.empty(rows.shape, dtype=rows.dtype), lazy_matrix.rows_per_read(rows.shape[1])
    for start in range(0, len(rows), step):
        found[start : start + step] = rows[start : start + step]
    return found


def standardized_rows(
    X: LazyMatrix, values: Callable[[Array], Array], units: UnitFamily, moments: tuple[Array | None, Array | None], training: Array | None
) -> tuple[ConvertedMatrix | SpilledMatrix, Array | None, Array | None]:
    """Return rows as float32 unit values, and the means and deviations (D,) used to standardise gaussian columns, as for rows in memory.

    moments   a model's own means and deviations, or None.
    training  (n,) bool, the rows that they are computed from if the model has none; None: the columns are not standardised.
    """

    def plain(rows: Array) -> Array:
        return values(np.array(rows, dtype=np.float32))

    mean, scale = moments
    if training is not None and mean is None and training.any():
        mean, scale = _column_moments(lazy_matrix.ConvertedMatrix(X.select_rows(training), plain, np.dtype(np.float32)))

    def moved(rows: Array) -> Array:
        found = plain(rows)
        if mean is not None and scale is not None and found.shape[1] == len(mean):
            found -= mean
            found /= scale
        return found

    made = convert_rows(X, moved, np.float32)
    units.require_rows(made)
    return made, mean, scale


def rows_and_known_mask(X: LazyMatrix, model: RBM, units: UnitFamily) -> tuple[LazyMatrix, ConvertedMatrix]:
    """Return rows with a value valid for any unit instead of NaN, and the mask (n, D) bool of known entries."""
    from herdcli.rbm.sampling.imputation import require_complete_units

    known, least = lazy_matrix.ConvertedMatrix(X, lambda rows: ~np.isnan(np.asarray(rows, dtype=np.float64)), np.dtype(bool)), np.inf
    for block in iterate_row_slices(X):
        rows = np.asarray(X[block], dtype=np.float64)
        there = ~np.isnan(rows)
        if X.shape[1] == model.W.shape[1]:
            require_complete_units(model.harmonium(), there)
        least = min(least, float(rows[there].min(initial=np.inf)))
    fill = np.array(least if np.isfinite(least) else 0.0)
    if units.group > 1:  # any valid value will do: set the first column of each unit
        fill = units.first_columns(X.shape[1]).astype(np.float64)
    return lazy_matrix.FilledMatrix(X.ranges, X.chosen, columns=X.columns, fill=fill), known


def _column_moments(rows: ConvertedMatrix) -> tuple[Array, Array]:
    """Return the mean and standard deviation of every column, float32; a deviation of 0 becomes 1."""
    mean = column_sums(rows) / len(rows)
    squares = np.zeros(len(mean))
    for block in iterate_row_slices(rows):
        squares += np.square(rows[block].astype(np.float64) - mean).sum(axis=0)
    deviation = np.sqrt(squares / len(rows))
    return mean.astype(np.float32), np.where(deviation > 0, deviation, 1.0).astype(np.float32)
