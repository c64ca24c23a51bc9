"""Columns of records and of lists of numbers as plain columns: {"size": {"width": 2}} becomes size.width, {"v": [1, 2]} v_0 and v_1."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from herdcli.artifacts.formats.arrow import to_numpy
from herdcli.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

DEEPEST = 16  # nesting levels of records
MOST_PARTS = 10_000  # most columns that one column of lists becomes


def flatten_records(table: pa.Table, where: str) -> pa.Table:
    """Return the table with a column `column.field` for each field of its columns of records, also for nested records.

    Raises DataError for a field whose name another column has.
    """
    import pyarrow as pa

    for _ in range(DEEPEST):
        if not any(pa.types.is_struct(kind) and kind.num_fields for kind in table.schema.types):
            break
        before = set(table.column_names)
        table = table.flatten()
        names = table.column_names
        twice = next((name for name in names if name not in before and names.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"has both a column and a nested field with the name '{twice}'", where=where, hint="rename one of them")
    return table


def is_number_list(kind: pa.DataType) -> bool:
    """Return whether a type is a list of numbers, of fixed or variable length."""
    import pyarrow as pa

    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(lists and (pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type)))


def split_lists(table: pa.Table, names: Collection[str], where: str) -> tuple[pa.Table, dict[str, list[str]]]:
    """Return the table with columns `column_0`, `column_1` … for the entries of these columns of lists, and the new names by the old one.

    Raises DataError for lists of different lengths, for a missing list, and for a name that another column has.
    """
    import pyarrow as pa

    if not names:
        return table, {}
    columns: list[pa.ChunkedArray] = []
    titles: list[str] = []
    parts: dict[str, list[str]] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name not in names:
            columns.append(column)
            titles.append(name)
            continue
        length = common_list_length(column, name, where)
        if length > MOST_PARTS:
            raise DataError(
                f"column '{name}' has lists of {length} numbers, too many to become columns next to the others",
                where=where,
                hint=f"rename the column to x, which may hold whole rows, or leave it out: --drop {name}",
            )
        parts[name] = [f"{name}_{place}" for place in range(length)]
        columns += [_list_entries_at(column, place) for place in range(length)]
        titles += parts[name]
    twice = next((name for name in titles if any(name in new for new in parts.values()) and titles.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"has both a column and a list element with the name '{twice}'", where=where, hint="rename one of them")
    return pa.Table.from_arrays(columns, names=titles, metadata=table.schema.metadata), parts


def _list_entries_at(column: pa.ChunkedArray, index: int) -> pa.ChunkedArray:
    """Return the entries of lists at one index, which all of them have."""
    import pyarrow.compute as pc

    return pc.list_element(column, index)


def common_list_length(column: pa.ChunkedArray, name: str, where: str) -> int:
    """Return the common length of a column's lists.  Raises DataError for lists of different lengths, and for a missing list."""
    import numpy as np
    import pyarrow.compute as pc

    if column.null_count:
        row = int(np.argmax(to_numpy(column.is_null())))
        raise DataError(
            f"column '{name}' has no list in row {row}", where=where, hint=f"remove these rows, or leave the column out: --drop {name}"
        )
    if hasattr(column.type, "list_size"):
        return int(column.type.list_size)
    lengths = to_numpy(pc.list_value_length(column))
    if len(lengths) and (lengths != lengths[0]).any():
        row = int(np.argmax(lengths != lengths[0]))
        raise DataError(
            f"column '{name}' has {lengths[row]} values in row {row} and {lengths[0]} in row 0",
            where=where,
            hint=f"give all lists the same length, or leave the column out: --drop {name}",
        )
    return int(lengths[0]) if len(lengths) else 0
