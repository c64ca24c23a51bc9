"""Any number of rows in constant memory: a data set for each block of a CSV, Arrow or Parquet stream.

CSV and Arrow's stream format are read as they arrive.  Parquet and Arrow files have their table of contents at the end: from a pipe
they are copied into a temporary file, and read from there in batches.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from herdcli.artifacts.byte_sources import ByteSource, open_source
from herdcli.artifacts.dataset import Dataset, check_magnitudes, validate
from herdcli.artifacts.formats import format_detection, parquet_files
from herdcli.artifacts.load_options import LoadOptions, ignore_note
from herdcli.artifacts.rows import row_groups
from herdcli.artifacts.sealed import seal_header
from herdcli.artifacts.tables import dataset_columns
from herdcli.artifacts.tables.column_roles import BY_NAME_ROLES, ColumnRoles
from herdcli.artifacts.text import delimited_text
from herdcli.errors import DataError, HerdError

if TYPE_CHECKING:
    import pyarrow as pa

ARROW_STREAM = b"\xff\xff\xff\xff"
BATCH_ROWS = 1 << 16
UNBOUNDED = 1 << 62


@contextlib.contextmanager
def open_blocks(
    path: str, *, input_format: str | None, note: Callable[[str], None], roles: ColumnRoles = BY_NAME_ROLES
) -> Iterator[tuple[ByteSource, Iterator[Dataset] | None]]:
    """Yield the bytes of an input, and its rows as data sets in order, or None for formats without blocks."""
    with open_source(path, limit=UNBOUNDED) as source:
        if source.head.startswith(ARROW_STREAM):
            form = "arrow stream"
        else:
            form = (
                format_detection.check_format_name(input_format)
                if input_format
                else format_detection.detect_format(source.head, source.name)
            )
        read = form in READERS and source.member is None
        yield (
            source,
            _datasets_from_batches(READERS[form](source, LoadOptions(note=note, roles=roles)), source.name, note, roles) if read else None,
        )


def _datasets_from_batches(
    batches: Iterator[pa.RecordBatch], where: str, note: Callable[[str], None], roles: ColumnRoles
) -> Iterator[Dataset]:
    """Yield a data set for each batch; notes about ignored or assumed things are given for the first batch only."""
    import pyarrow as pa

    names: list[str] | None = None
    row = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        asked = LoadOptions(note=note if row == 0 else ignore_note, roles=roles)
        try:
            found = dataset_columns.dataset_from_table(pa.Table.from_batches([batch]), {}, where=where, options=asked)
            validate(found, where=where)
        except DataError as error:
            error.where = where if row == 0 else f"{where}, rows from {row}"
            raise
        if row and found.feature_names != names:
            raise DataError(f"the columns change at row {row}", where=where, hint="give all rows the same columns")
        names = found.feature_names
        yield check_magnitudes(found, where=where)
        row += batch.num_rows
    if row == 0:
        raise DataError("has no rows", where=where)


def _csv_batches(source: ByteSource, options: LoadOptions) -> Iterator[pa.RecordBatch]:
    with source.reader() as stream:
        yield from delimited_text.read_batches(stream, source.head, where=source.name, options=options)


def _arrow_stream_batches(source: ByteSource, options: LoadOptions) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    with convert_arrow_errors("Arrow stream", source.name), source.reader() as stream, pa.ipc.open_stream(stream) as reader:
        yield from row_groups.valid_batches(reader)
        for _ in iter(lambda: stream.read(1 << 20), b""):
            pass


def _arrow_file_batches(source: ByteSource, options: LoadOptions) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    with convert_arrow_errors("Arrow file", source.name), source.file_path() as path, pa.OSFile(path) as file:
        source.unlink_temporary_copy()
        reader = pa.ipc.open_file(file)
        yield from row_groups.valid_batches(reader.get_batch(number) for number in range(reader.num_record_batches))


def _parquet_batches(source: ByteSource, options: LoadOptions) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    with convert_arrow_errors("Parquet file", source.name), source.file_path() as path:
        parquet_files.verify_seal(path, where=source.name)
        file = pq.ParquetFile(path, page_checksum_verification=True)
    with convert_arrow_errors("Parquet file", source.name), file:
        source.unlink_temporary_copy()
        parquet_files.read_history_and_recoding(file, source.name)
        yield from row_groups.valid_batches(file.iter_batches(batch_size=BATCH_ROWS, use_threads=False))


READERS: dict[str, Callable[[ByteSource, LoadOptions], Iterator[pa.RecordBatch]]] = {
    "csv": _csv_batches,
    "arrow stream": _arrow_stream_batches,
    "arrow": _arrow_file_batches,
    "parquet": _parquet_batches,
}


@contextlib.contextmanager
def convert_arrow_errors(what: str, where: str) -> Iterator[None]:
    """Convert Arrow's errors about damaged bytes to one-line errors."""
    import pyarrow as pa

    try:
        yield
    except HerdError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"the {what} cannot be read ({reason})", where=where, hint=seal_header.DAMAGED_HINT) from error
