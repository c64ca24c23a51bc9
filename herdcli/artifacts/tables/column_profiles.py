"""Profiles of the columns of a table that hold no numbers: their values, the most frequent ones, and missing cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from herdcli.artifacts.formats.arrow import to_arrow, to_numpy
from herdcli.artifacts.recoding import cell_text
from herdcli.artifacts.tables.identifier_columns import LEAST_ROWS
from herdcli.artifacts.text import number_formats
from herdcli.errors import DataError
from herdcli.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

HEAD, MOST_FREQUENT = 5, 3  # first cells, and most frequent values, of a profile
SAMPLE = 1000  # cells by which dates and numbers are recognised in text
MOSTLY_NUMBERS = "text, mostly numbers"  # the type of a column in which some cells are not numbers
TEXT_TYPES = {"string": "text", "large_string": "text", "string_view": "text"}
DATE_HINT = "leave it out with --drop, or store it as text or numbers"


@dataclass(frozen=True)
class ColumnProfile:
    """What a column without numbers holds.

    type      text, identifier, date, date and time, time, `MOSTLY_NUMBERS`, or the Arrow type of other cells.
    missing   cells that are null or empty.      distinct  different values among the others, None if they cannot be compared.
    frequent  the most frequent values with their counts, for text that repeats; of mostly numbers, those that are none.
    low, high the earliest and the latest date.      first  the cells of the first rows, None where they are missing.
    """

    name: str
    type: str
    missing: int
    distinct: int | None
    frequent: list[tuple[str, int]]
    low: str | None
    high: str | None
    first: list[str | None]


def profile_column(name: str, column: pa.ChunkedArray, where: str) -> ColumnProfile:
    """Return the profile of an Arrow column, by one pass over all its cells.

    Raises DataError for text that is not UTF-8 and for dates that Python cannot show.
    """
    import pyarrow as pa

    try:
        return _profile(name, column)
    except UnicodeDecodeError as error:
        raise DataError(
            f"column '{name}' has text that is not UTF-8", where=where, hint="declare its encoding, as in --encoding latin-1"
        ) from error
    except (OverflowError, ValueError, pa.ArrowException) as error:
        what = "holds dates or times" if pa.types.is_temporal(column.type) else "has cells"
        raise DataError(f"column '{name}' {what} that cannot be shown ({column.type})", where=where, hint=DATE_HINT) from error


def _profile(name: str, column: pa.ChunkedArray) -> ColumnProfile:
    import pyarrow as pa
    import pyarrow.compute as pc

    first = [None if cell in (None, "") else cell_text(cell) for cell in column.slice(0, HEAD).to_pylist()]
    present = column.drop_null()
    kind = TEXT_TYPES.get(str(column.type), str(column.type))
    if kind == "text":
        present = present.filter(pc.not_equal(present, ""))
    missing = len(column) - len(present)
    if pa.types.is_nested(column.type) or not len(present):
        return ColumnProfile(name, kind, missing, None if len(present) else 0, [], None, None, first)
    if kind == "text":
        kind, present = _recognise_text(present)
    elif pa.types.is_temporal(column.type):
        kind = _temporal_type(column.type)
    counted = pc.value_counts(present)
    distinct = len(counted)
    if kind == MOSTLY_NUMBERS:
        words = [not number_formats.looks_like_number(text) for text in counted.field("values").to_pylist()]
        counted = counted.filter(to_arrow(np.array(words)))
    low = high = None
    if pa.types.is_temporal(present.type):
        ends = pc.min_max(present).as_py()
        low, high = cell_text(ends["min"]), cell_text(ends["max"])
        return ColumnProfile(name, kind, missing, distinct, [], low, high, first)
    if kind == "text" and not missing and distinct == len(column) >= LEAST_ROWS:
        return ColumnProfile(name, "identifier", 0, distinct, [], None, None, first)
    places = np.argsort(-to_numpy(counted.field("counts")), kind="stable")[:MOST_FREQUENT]  # values with equal counts stay in order
    top = counted.take(to_arrow(places)).to_pylist() if distinct < len(present) or kind == MOSTLY_NUMBERS else []
    return ColumnProfile(name, kind, missing, distinct, [(cell_text(each["values"]), each["counts"]) for each in top], None, None, first)


def _recognise_text(present: Any) -> tuple[str, Any]:
    """Return the type of a column of text, and its cells: as times where all of them are dates, else unchanged."""
    import pyarrow as pa

    cells = present.slice(0, SAMPLE)
    for target in ("date32", "timestamp[us]"):
        kind = pa.date32() if target == "date32" else pa.timestamp("us")
        try:
            cells.cast(kind)
            return _temporal_type(kind), present.cast(kind)
        except pa.ArrowException:
            continue
    texts = cells.to_pylist()
    numbers = sum(map(number_formats.looks_like_number, texts))
    return (MOSTLY_NUMBERS if 2 * numbers > len(texts) else "text"), present


def _temporal_type(kind: pa.DataType) -> str:
    """Return the word for an Arrow type of dates or times."""
    import pyarrow as pa

    if pa.types.is_date(kind):
        return "date"
    return "date and time" if pa.types.is_timestamp(kind) else "duration" if pa.types.is_duration(kind) else "time"
