"""JSON: one object per line (JSON lines), or one list of objects or rows, as data frames write them."""

from __future__ import annotations

import json
from typing import Any, BinaryIO

from herdcli.artifacts import memory_budget
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.formats.spreadsheets import table_from_cells
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.tables.dataset_columns import dataset_from_table
from herdcli.errors import DataError

HINT = 'write one JSON object per line, such as {"a": 1, "b": 2, "y": "left"}; in pandas: to_json(FILE, orient="records", lines=True)'


def read(stream: BinaryIO, *, where: str, options: LoadOptions) -> Dataset:
    """Read the data set of JSON lines or of a JSON list."""
    raw = stream.read(options.limit + 1)
    memory_budget.require_memory(len(raw), options.limit, where=where)
    try:
        text = raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise DataError("is not UTF-8", where=where, hint="convert it to UTF-8: iconv -f LATIN1 -t UTF-8 FILE") from error
    records = _parse_records(text, where)
    names = list(dict.fromkeys(name for record in records for name in record))
    if not names:
        raise DataError("has no columns", where=where, hint=HINT)
    return dataset_from_table(
        table_from_cells(names, [[record.get(name) for name in names] for record in records], where), {}, where=where, options=options
    )


def _parse_records(text: str, where: str) -> list[dict[str, Any]]:
    """Return a dict for each row."""
    try:
        rows = _parse_text(text)
        if "\\u" in text:
            json.dumps(rows, ensure_ascii=False).encode()  # fails for lone surrogates
    except (ValueError, RecursionError) as error:
        raise DataError(f"is not valid JSON lines ({' '.join(str(error).split())})", where=where, hint=HINT) from error
    if rows and all(isinstance(row, list) for row in rows):
        rows = [{f"x{place}": cell for place, cell in enumerate(row)} for row in rows]
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise DataError("has no objects", where=where, hint=HINT)
    if len(rows) == 1 and all(isinstance(cell, (dict, list)) for cell in rows[0].values()):
        rows = _records_from_columns(rows[0], where)
    return rows


def _parse_text(text: str) -> list[Any]:
    """Return the values of one list, or of each line.  Raises ValueError for invalid JSON, and for a repeated name in one object."""
    lines = [line for line in text.splitlines() if line.strip()]
    one = text.lstrip().startswith("[") and not (
        len(lines) > 1 and all(line.strip()[0] == "[" and line.strip()[-1] == "]" for line in lines)
    )
    found: Any = (
        json.loads(text, object_pairs_hook=_unique_fields)
        if one
        else [json.loads(line, object_pairs_hook=_unique_fields) for line in lines]
    )
    return list(found)


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of an object.  Raises ValueError for a repeated name."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"'{next(name for name in names if names.count(name) > 1)}' occurs twice in one object")
    return found


def _records_from_columns(whole: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """Return the rows of pandas' default form, an object of columns that are objects by row, or lists; or of orient="index".

    In an object of objects, the side whose names are all numbers is that of the rows.
    """
    inner = list(dict.fromkeys(key for cells in whole.values() if isinstance(cells, dict) for key in cells))
    objects = all(isinstance(cells, dict) for cells in whole.values())
    if objects and all(key.isdecimal() for key in whole) and not all(key.isdecimal() for key in inner):
        return list(whole.values())
    if objects and not all(list(cells) == inner for cells in whole.values()):
        whole = {name: {key: cells.get(key) for key in inner} for name, cells in whole.items()}
    columns = {name: list(cells.values()) if isinstance(cells, dict) else cells for name, cells in whole.items()}
    if len({len(cells) for cells in columns.values()}) != 1:
        raise DataError("the columns have different lengths", where=where, hint=HINT)
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
