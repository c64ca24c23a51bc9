"""Line numbers for rows of text tables: messages say `line N` as an editor shows it, while other packages count rows from 0.

Rows of arrays (HDF5, NPY, Parquet, …) and of pipes remain `row N`, counted from 0 as in NumPy, h5py and pandas.
"""

from __future__ import annotations

import csv
import io
import itertools
import os
import re
from collections.abc import Collection

from herdcli.artifacts.byte_sources import open_source
from herdcli.artifacts.formats.format_detection import detect_format
from herdcli.artifacts.text import csv_header
from herdcli.errors import HerdError

_WHOLE = 1 << 62  # limit of the decompressed text in bytes: the text was read before
_ROWS = re.compile(r"\brow (\d+(?:, \d+)*)\b|\brows (\d+) to (\d+)\b")


def with_line_numbers(message: str, path: str, names: Collection[str] = ()) -> str:
    """Return a message with rows counted from 0 replaced by the lines of the text table at `path`; unchanged for other files.

    names  those of a model's columns.
    """
    wanted = sorted({int(number) for found in _ROWS.finditer(message) for number in re.findall(r"\d+", found[0])})
    lines = line_numbers_by_row(path, wanted, names) if wanted else {}
    if not lines or not set(wanted) <= set(lines):
        return message

    def written(match: re.Match[str]) -> str:
        if match[2] is not None:
            return f"lines {lines[int(match[2])]} to {lines[int(match[3])]}"
        return f"line {', '.join(str(lines[int(number)]) for number in match[1].split(', '))}"

    return _ROWS.sub(written, message)


def shift_row_numbers(message: str, first: int) -> str:
    """Return a message about rows of a range, counted from its first row, with their numbers among all rows."""
    return _ROWS.sub(lambda found: re.sub(r"\d+", lambda number: str(int(number[0]) + first), found[0]), message)


def line_numbers_by_row(path: str, rows: list[int], names: Collection[str] = ()) -> dict[int, int]:
    """Return, for each of these rows (from 0) that exists, the line (from 1) on which it begins; empty if the file is not a text table."""
    if not os.path.isfile(path) or not rows:
        return {}
    try:
        with open_source(path, limit=_WHOLE) as source:
            if detect_format(source.head, path) != "csv":
                return {}
            head = csv_header.parse_header(source.head, names)
            with source.reader() as stream:
                text = io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="")
                return _locate_rows(text, head, rows)
    except (HerdError, OSError, csv.Error):  # the error being reported concerns the contents of the file
        return {}


def _locate_rows(text: io.TextIOWrapper, head: csv_header.CsvHeader, rows: list[int]) -> dict[int, int]:
    above = head.above + (head.height if head.named else 0)
    for _ in itertools.islice(text, above):
        pass
    records, found, row, begin = csv.reader(text, delimiter=head.separator), dict[int, int](), 0, 1
    for cells in records:
        if cells:  # blank lines are not rows
            if row in rows:
                found[row] = above + begin
            row += 1
        if row > rows[-1]:
            break
        begin = records.line_num + 1
    return found
