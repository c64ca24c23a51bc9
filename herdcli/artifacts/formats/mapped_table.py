"""The columns of a large Parquet file in an unnamed file that is mapped into memory, so that they take memory only while they are used.

Arrow needs more than three times the size of a row group to decode all of its columns together.  Here each column is decoded alone.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.rows.row_groups import are_separable
from herdcli.artifacts.rows.spill_file import open_unnamed_file, write_array
from herdcli.errors import WriteFailed
from herdcli.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

LEAST = 1 << 26  # a file is read this way if its decoded size in bytes is at least this
PIECE_ROWS = 1 << 20  # largest number of rows of a column that are copied together
ALIGNMENT = 64  # pieces begin at multiples of this many bytes, so that their numbers are aligned


@dataclass(frozen=True)
class MappedTable:
    """A pyarrow table whose buffers are pages of a file.

    release  drops the pages that were read, so that they no longer count as memory of the process; they can be read again.
    """

    table: pa.Table
    release: Callable[[], None]


def map_table(file: pq.ParquetFile, columns: Sequence[str] | None = None) -> MappedTable | None:
    """Return the table of an open Parquet file; None if it is small, if its columns cannot be stored apart, or if $TMPDIR is full.

    columns  the columns to read; None: all.
    """
    import pyarrow as pa

    groups, every = range(file.metadata.num_row_groups), file.schema_arrow.names
    size = sum(file.metadata.row_group(group).total_byte_size for group in groups)
    if size < LEAST or not are_separable(file.schema_arrow, every):
        return None
    names = every if columns is None else columns
    spool, end = open_unnamed_file(), 0
    places: list[list[tuple[int, int]]] = []
    schemas: list[pa.Schema] = []
    for name in names:
        places.append([])
        for batch in file.iter_batches(batch_size=PIECE_ROWS, columns=[name], use_threads=False):
            message = np.frombuffer(batch.serialize(), dtype=np.uint8)
            try:
                write_array(spool, end, message, "rows")
            except WriteFailed:
                return None
            places[-1].append((end, len(message)))
            end += -(-len(message) // ALIGNMENT) * ALIGNMENT
            schemas[len(places) - 1 :] = [batch.schema]
        pa.default_memory_pool().release_unused()
    spool.truncate(end)
    pages = mmap.mmap(spool.fileno(), end, access=mmap.ACCESS_READ)
    whole = pa.py_buffer(pages)
    arrays = [
        pa.chunked_array([pa.ipc.read_record_batch(whole.slice(start, size), schema).column(0) for start, size in pieces])
        for schema, pieces in zip(schemas, places, strict=True)
    ]
    schema = pa.schema([own.field(0) for own in schemas], metadata=file.schema_arrow.metadata)
    return MappedTable(pa.Table.from_arrays(arrays, schema=schema), lambda: pages.madvise(mmap.MADV_DONTNEED))
