"""Batches of rows of a Parquet file's row groups, so that a large group needs no more memory than a small one.

Arrow decodes each column of a row group as a whole.  The columns of a large group are therefore decoded one by one and written to an
unnamed file in $TMPDIR, from which batches of all columns are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING

import numpy as np

from herdcli.artifacts.rows.spill_file import open_unnamed_file, read_array, write_array
from herdcli.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

BATCH_BYTES = 8 << 20  # size of a batch of rows
LARGE_GROUP = 1 << 25  # in a row group of at least this decoded size, in bytes, columns are decoded one by one
BUFFER = 1 << 16  # bytes of a column that are read at one time


def open_parquet(path: str) -> pq.ParquetFile:
    """Open a Parquet file whose columns are read through small buffers and whose pages are verified by their checksums."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, page_checksum_verification=True, buffer_size=BUFFER)


def valid_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield record batches with text in UTF-8 and codes that have names.  Raises pyarrow.ArrowInvalid for others."""
    for batch in batches:
        batch.validate(full=True)
        yield batch


def decoded_size_in_bytes(path: str) -> int:
    """Return the bytes of a Parquet file's columns as numbers of eight bytes; 0 for a file that cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found = pq.read_metadata(path)
    except (pa.ArrowException, OSError, ValueError):
        return 0
    return 8 * int(found.num_rows) * int(found.num_columns)


@dataclass
class RowGroups:
    """The row groups of a Parquet file.

    The columns of the last large group stay in their unnamed file, in case the group is read again.
    """

    file: pq.ParquetFile
    _last: tuple[int, tuple[str, ...], SpooledGroup] | None = None

    def batches(self, group: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group as record batches of about BATCH_BYTES.  columns  the columns to read, in this order; None: all."""
        import pyarrow as pa

        own = self.file.metadata.row_group(group)
        names = tuple(self.file.schema_arrow.names if columns is None else columns)
        size = max(1, BATCH_BYTES // max(1, own.total_byte_size // max(1, own.num_rows)))
        if own.total_byte_size < LARGE_GROUP or not are_separable(self.file.schema_arrow, names):
            yield from valid_batches(self.file.iter_batches(batch_size=size, columns=columns, row_groups=[group], use_threads=False))
            pa.default_memory_pool().release_unused()  # fragments between live blocks would add up
            return
        if self._last is None or self._last[:2] != (group, names):
            self._last = None  # its file is removed before the next one is written
            self._last = group, names, SpooledGroup.from_parquet_group(self.file, group, names, size)
        yield from valid_batches(self._last[2].batches())


@dataclass(frozen=True)
class SpooledGroup:
    """The columns of a row group in a file, as Arrow messages; all columns are cut into pieces of the same rows.

    places  for each column, the positions and lengths of its pieces.
    """

    spool: IO[bytes]
    places: list[list[tuple[int, int]]]
    schemas: list[pa.Schema]
    whole: pa.Schema

    @classmethod
    def from_parquet_group(cls, file: pq.ParquetFile, group: int, names: Sequence[str], size: int) -> SpooledGroup:
        """Write a group to a file: its columns are decoded one by one, in pieces of `size` rows."""
        import pyarrow as pa

        spool, end = open_unnamed_file(), 0
        places, schemas = list[list[tuple[int, int]]](), []
        for name in names:
            places.append([])
            for batch in file.iter_batches(batch_size=size, columns=[name], row_groups=[group], use_threads=False):
                message = np.frombuffer(batch.serialize(), dtype=np.uint8)
                write_array(spool, end, message, "rows")
                places[-1].append((end, len(message)))
                end += len(message)
                schema = batch.schema
            schemas.append(schema)
            pa.default_memory_pool().release_unused()
        return cls(spool, places, schemas, pa.schema([own.field(0) for own in schemas], metadata=file.schema_arrow.metadata))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as record batches of all columns."""
        import pyarrow as pa

        for pieces in zip(*self.places, strict=True):
            columns = []
            for schema, (start, length) in zip(self.schemas, pieces, strict=True):
                message = read_array(self.spool, start, np.empty(length, dtype=np.uint8), "rows")
                columns.append(pa.ipc.read_record_batch(pa.py_buffer(message), schema).column(0))
            yield pa.RecordBatch.from_arrays(columns, schema=self.whole)


def are_separable(schema: pa.Schema, names: Sequence[str]) -> bool:
    """Return whether columns can be stored as separate messages: several columns with unique names, and no dictionaries."""
    import pyarrow as pa

    return len(set(names)) == len(names) > 1 and not any(pa.types.is_dictionary(schema.field(name).type) for name in names)
