"""CSV: numbers in columns, with or without a header; separator comma, semicolon, tab or blank.

Columns without a header are f0, f1, …  Leading lines that begin with # are skipped.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from herdcli.artifacts.arrow import array
from herdcli.artifacts.asked import Asked
from herdcli.artifacts.columns import UTF8_HINT, from_table
from herdcli.artifacts.dataset import BLOCK_ELEMENTS, Dataset
from herdcli.errors import DataError

_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+(?:[eE][-+]?\d+)?")
WIDTH_HINT = "each line needs as many values as the first"
SPLIT_TEXTS = ("train", "valid", "test")


def read(
    stream: BinaryIO,
    head: bytes,
    *,
    where: str,
    asked: Asked,
) -> Dataset:
    """The data set of a CSV stream, parsed as it arrives.  head: its first bytes."""
    import pyarrow as pa
    from pyarrow import csv

    try:
        table = csv.read_csv(stream, *_options(head, where, asked))
    except pa.ArrowInvalid as error:
        raise DataError(_plain(str(error)), where=where, hint=WIDTH_HINT) from error
    if not table.num_rows:
        raise DataError("has a header but no rows", where=where)
    try:
        table = table.rename_columns([name.strip() for name in table.column_names])  # "a, b, y" names y
    except UnicodeDecodeError as error:
        raise DataError("the names of the columns are not UTF-8", where=where, hint=UTF8_HINT) from error
    return from_table(table, {}, where=where, asked=asked)


def batches(stream: BinaryIO, head: bytes, *, where: str, asked: Asked) -> Iterator[Any]:
    """The same as Arrow batches, whose columns have the types that those of the first have."""
    import pyarrow as pa
    from pyarrow import csv

    try:
        with csv.open_csv(stream, *_options(head, where, asked)) as reader:
            for batch in reader:
                yield batch.rename_columns([name.strip() for name in batch.schema.names])
    except pa.ArrowInvalid as error:
        raise DataError(_plain(str(error)), where=where, hint=WIDTH_HINT) from error
    except UnicodeDecodeError as error:
        raise DataError("the names of the columns are not UTF-8", where=where, hint=UTF8_HINT) from error


def _options(head: bytes, where: str, asked: Asked) -> tuple[Any, Any, Any]:
    """How pyarrow is to read, parse and convert a stream that begins with head."""
    from pyarrow import csv

    skipped, first, second = _first_lines(head)
    separator = _separator(first)
    titles = _cells(first, separator)
    named = not all(_is_value(cell) for cell in titles)
    nameless = named and len(_cells(second, separator)) == len(titles) + 1  # R's write.table: rows have names, their column has none
    reading = csv.ReadOptions(
        use_threads=False,
        block_size=max(1 << 22, 8 * len(first)),
        skip_rows=skipped + nameless,
        autogenerate_column_names=not named,
        column_names=["", *titles] if nameless else None,
    )
    commas = separator != "," and any(_DECIMAL_COMMA.fullmatch(cell) for cell in _cells(second, separator))
    if commas:
        asked.note(f"{where}: numbers are read with decimal commas")
    return reading, csv.ParseOptions(delimiter=separator), csv.ConvertOptions(decimal_point="," if commas else ".")


def titled(head: bytes) -> bool:
    """Whether the first line that is no comment names the columns."""
    _, first, _ = _first_lines(head)
    return not all(_is_value(cell) for cell in _cells(first, _separator(first)))


def _first_lines(head: bytes) -> tuple[int, str, str]:
    """How many leading comment lines there are, and the two lines after them."""
    lines = head.decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
    for number, line in enumerate(lines):
        if line.strip() and not line.startswith("#"):
            second = next((other for other in lines[number + 1 :] if other.strip()), "")
            return sum(other.startswith("#") for other in lines[:number]), line.rstrip("\r"), second.rstrip("\r")
    return 0, "", ""


def _separator(line: str) -> str:
    bare = re.sub(r'"[^"]*"', "quoted", line)
    return next((separator for separator in "\t;, " if separator in bare.strip()), ",")


def _cells(line: str, separator: str) -> list[str]:
    return [cell.strip().strip('"') for cell in line.split(separator)]


def _is_value(cell: str) -> bool:
    """Could this be an entry rather than the name of a column?"""
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True


def _plain(text: str) -> str:
    """pyarrow's message without its preamble, on one line, cut short."""
    return " ".join(text.replace("CSV parse error: ", "").split())[:200]


def write(path: Any, data: Dataset, leading: str = "") -> None:
    """Write a data set as CSV with a header: features, further columns, then y (class names if there are any), split, weight.

    leading  a further column that stands before the features.
    """
    with open(path, "wb") as out:
        append(out, data, titles=True, leading=leading)


def append(out: BinaryIO, data: Dataset, *, titles: bool = False, leading: str = "") -> None:
    """Write the rows of a data set to a CSV file that is open, after their titles if these are asked for."""
    import pyarrow as pa
    from pyarrow import csv

    names = data.feature_names or [f"x{column}" for column in range(data.X.shape[1])]
    roles = _roles(data)
    first = {leading: roles.pop(leading)} if leading else {}
    if titles:
        taken = {name for name in names if name.lower() in ("y", "split", "weight") or name in roles | first} if roles | first else set()
        words = [*first, *(f"{name}_" if name in taken else name for name in names), *roles]
        out.write((",".join(_quoted(word) for word in words) + "\n").encode())
    step = max(1, BLOCK_ELEMENTS // len(names))
    for start in range(0, data.X.shape[0], step):
        rows = slice(start, start + step)
        block = data.X[rows].toarray() if data.is_sparse else data.X[rows]
        block = block.astype(np.uint8) if block.dtype.kind == "b" else block
        arrays = [array(values[rows]) for values in first.values()] + [array(block[:, column]) for column in range(len(names))]
        arrays += [array(values[rows]) for values in roles.values()]
        table = pa.Table.from_arrays(arrays, names=[str(index) for index in range(len(arrays))])
        buffer = io.BytesIO()
        csv.write_csv(table, buffer, csv.WriteOptions(include_header=False, quoting_style="needed"))
        out.write(buffer.getvalue())


def _roles(data: Dataset) -> dict[str, Any]:
    roles: dict[str, Any] = {}
    if data.y is not None:
        roles["y"] = np.array(data.class_names, dtype=object)[data.y] if data.class_names else data.y
    if data.split is not None:
        roles["split"] = np.array(SPLIT_TEXTS, dtype=object)[data.split]
    if data.weight is not None:
        roles["weight"] = data.weight
    return (data.columns or {}) | roles


def _quoted(title: str) -> str:
    return '"' + title.replace('"', '""') + '"' if re.search(r'[",\n]', title) else title
