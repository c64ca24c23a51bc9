"""Detection of columns that only identify the rows of a table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.formats.arrow import to_numpy
from herdcli.schema import Array

if TYPE_CHECKING:
    import pyarrow as pa

LEAST_ROWS = 10  # with fewer rows all texts may differ by chance
_NAME = re.compile(r"(?:.*[^a-z0-9])?(?:id|ids|idx|index|uuid|guid|key|rowid|row_?(?:nr|number|names?))", re.IGNORECASE)
_CAMEL = re.compile(r".*[a-z]I[Dd]")


def find_identifier_columns(table: pa.Table, numbers: Iterable[str], texts: Iterable[str]) -> dict[str, str]:
    """Return a dict from column to the reason why it seems to identify rows.

    The reasons are unique texts, the name and values of an identifier, or a count of the rows.
    """
    if table.num_rows < LEAST_ROWS:
        return {}
    found = {name: "has another text in each row" for name in texts if _all_differ(table.column(name))}
    for name in numbers:
        column = table.column(name)
        if column.null_count:
            continue
        values = to_numpy(column)
        if _are_consecutive(values):
            found[name] = "counts the rows"
        elif (_NAME.fullmatch(name) or _CAMEL.fullmatch(name)) and _holds_whole_numbers(values) and len(np.unique(values)) == len(values):
            found[name] = "has another number in each row"
    return found


def _all_differ(column: pa.ChunkedArray) -> bool:
    import pyarrow.compute as pc

    return not column.null_count and bool(pc.count_distinct(column).as_py() == len(column))


def _holds_whole_numbers(values: Array) -> bool:
    return values.dtype.kind in "iu" or (values.dtype.kind == "f" and bool((values == np.floor(values)).all()))


def _are_consecutive(values: Array) -> bool:
    """Return whether values are 0, 1, 2, … or 1, 2, 3, …"""
    if values.dtype.kind not in "iuf" or values[0] not in (0, 1):
        return False
    return bool(np.array_equal(values, np.arange(len(values)) + values[0]))
