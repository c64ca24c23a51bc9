"""CSV of very many columns: all cells are parsed as one column, since pyarrow needs nine kilobytes for each column.

The table is the same as pyarrow's: whole numbers, real numbers and empty columns come from this pass; pyarrow reads the others again.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from herdcli.artifacts import process_limits
from herdcli.artifacts.formats.arrow import to_arrow, to_numpy
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.text.opened_csv import OpenedCsv
from herdcli.errors import DataError
from herdcli.schema import Array

if TYPE_CHECKING:
    import pyarrow as pa

WIDE = 1000  # if there are more columns than this, they are parsed as one
EACH = 9000  # bytes that pyarrow needs for a column
CELLS = 1 << 21  # number of cells that are parsed together
WHOLE = r"^[ \t]*[-+]?\d+[ \t]*$"
REAL = r"^[ \t]*[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|(?i:inf|infinity|nan))[ \t]*$"
WIDTH_HINT = "give each line as many values as the first"


def read_table(opened_csv: OpenedCsv, where: str, options: LoadOptions) -> pa.Table:
    """Return the table of an opened text, read by pyarrow or, if it is wide and has no quotes, as one column of all cells."""
    from pyarrow import csv

    width = opened_csv.head.width
    if width <= WIDE:
        return csv.read_csv(opened_csv.stream, *opened_csv.options)
    raw = _rows_text(opened_csv)
    if b'"' in raw or opened_csv.options[2].decimal_point != ".":
        if process_limits.allocatable_bytes() < EACH * width + 2 * len(raw):
            raise MemoryError
        return csv.read_csv(io.BytesIO(raw), _headerless_options(opened_csv), *opened_csv.options[1:])
    return _WideReader(raw, opened_csv, where).table()


def _headerless_options(opened_csv: OpenedCsv) -> Any:
    """Return pyarrow's options for reading the rows only."""
    from pyarrow import csv

    given = opened_csv.options[0]
    return csv.ReadOptions(
        use_threads=False, block_size=given.block_size, column_names=given.column_names, autogenerate_column_names=not opened_csv.head.named
    )


def _rows_text(opened_csv: OpenedCsv) -> bytes:
    """Return the rows: all lines below the titles."""
    raw: bytes = opened_csv.stream.read().removeprefix(b"\xef\xbb\xbf")
    raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    at = 0
    for _ in range(opened_csv.options[0].skip_rows):
        at = raw.find(b"\n", at) + 1
        if not at:
            return b""
    return raw[at:]


class _WideReader:
    """A reader of rows of many cells.  shape  rows and columns."""

    def __init__(self, raw: bytes, opened_csv: OpenedCsv, where: str) -> None:
        self.separator = opened_csv.head.separator.encode()
        self.names = opened_csv.options[0].column_names or [f"f{column}" for column in range(opened_csv.head.width)]
        self.lines = [line for line in raw.split(b"\n") if line]
        self.found, self.where = opened_csv, where
        for row, line in enumerate(self.lines):
            if (cells := line.count(self.separator) + 1) != len(self.names):
                raise DataError(f"row {row} has {cells} values, expected {len(self.names)}", where=where, hint=WIDTH_HINT)

    def table(self) -> pa.Table:
        """Return the table of all rows."""
        import pyarrow as pa

        width = len(self.names)
        values = np.empty((width, len(self.lines)))
        whole, absent, worded = np.ones(width, dtype=bool), np.zeros((width, len(self.lines)), dtype=bool), np.zeros(width, dtype=bool)
        worded[[name in self.found.options[2].column_types for name in self.names]] = True
        step = max(1, CELLS // width)
        for start in range(0, len(self.lines), step):
            rows = slice(start, start + step)
            block = self._parse_block(self.lines[rows], width)
            values[:, rows], absent[:, rows] = block[0], block[1]
            whole &= block[2]
            worded |= block[3]
        again = self._reread_columns(np.flatnonzero(worded))
        large = whole & (np.abs(values).max(axis=1, initial=0, where=~absent) >= 2**53)
        again |= self._reread_columns(np.flatnonzero(large & ~worded))
        columns = [
            again[column] if column in again else _typed_column(values[column], absent[column], bool(whole[column]))
            for column in range(width)
        ]
        return pa.Table.from_arrays(columns, names=self.names)

    def _parse_block(self, lines: list[bytes], width: int) -> tuple[Array, Array, Array, Array]:
        """Parse a block, and return its values (width, rows) and the missing ones.

        Also return the columns of whole numbers only, and the columns with other text.
        """
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyarrow import csv

        cells = pa.array(self.separator.join(lines).split(self.separator), pa.binary())
        nulls = csv.ConvertOptions().null_values
        cells = pc.if_else(pc.is_in(cells, value_set=pa.array([text.encode() for text in nulls], pa.binary())), None, cells)
        try:
            texts = cells.cast(pa.string())
        except pa.ArrowInvalid:
            texts = pa.array([None if cell is None else cell.decode("utf-8", "replace") for cell in cells.to_pylist()])
        absent = to_numpy(texts.is_null())
        is_whole = _boolean_values(pc.match_substring_regex(texts, WHOLE))
        is_real = _boolean_values(pc.match_substring_regex(texts, REAL)) if not (is_whole | absent).all() else is_whole
        worded = ~(is_real | absent)
        texts = pc.utf8_trim_whitespace(pc.if_else(pa.array(worded), None, texts) if worded.any() else texts)
        numbers = to_numpy(texts.cast(pa.float64()))
        values, absent, is_whole, worded = (item.reshape(len(lines), width).T for item in (numbers, absent, is_whole | absent, worded))
        return values, absent, np.asarray(is_whole.all(axis=1)), np.asarray(worded.any(axis=1))

    def _reread_columns(self, columns: Array) -> dict[int, pa.ChunkedArray]:
        """Read some columns again by pyarrow."""
        from pyarrow import csv

        if not len(columns):
            return {}
        places = columns.tolist()
        split = [line.split(self.separator) for line in self.lines]
        text = b"\n".join(self.separator.join(line[column] for column in places) for line in split)
        text = text if len(places) > 1 else text.replace(b"\n\n", b'\n""\n')
        reading = csv.ReadOptions(use_threads=False, column_names=[self.names[column] for column in places], block_size=1 << 24)
        found = csv.read_csv(io.BytesIO(text), reading, *self.found.options[1:])
        return {column: found.column(place) for place, column in enumerate(places)}


def _boolean_values(column: pa.ChunkedArray) -> Array:
    """Return a column of truth values as a vector, false for missing values."""
    import pyarrow.compute as pc

    return to_numpy(pc.fill_null(column, False))


def _typed_column(values: Array, absent: Array, whole: bool) -> pa.Array:
    """Return one column: empty, or of whole numbers, or of real numbers."""
    import pyarrow as pa

    gaps = absent if absent.any() else None
    if gaps is not None and gaps.all():
        return pa.nulls(len(values))
    if not whole:
        return to_arrow(values, gaps)
    return to_arrow(np.where(absent, 0, values).astype(np.int64) if gaps is not None else values.astype(np.int64), gaps)
