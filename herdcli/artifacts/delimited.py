"""CSV: numbers in columns, with or without a header; separator comma, semicolon, tab or blank.

Columns without a header are f0, f1, …  Leading lines that begin with # are skipped.  Blanks at the ends of cells are left out.
"""

from __future__ import annotations

import csv as plain_csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np

from herdcli.artifacts import padded
from herdcli.artifacts.arrow import array
from herdcli.artifacts.asked import Asked
from herdcli.artifacts.columns import UTF8_HINT, from_table, roles_of
from herdcli.artifacts.dataset import BLOCK_ELEMENTS, Dataset
from herdcli.artifacts.recoding import number
from herdcli.errors import DataError
from herdcli.schema import Array

_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+(?:[eE][-+]?\d+)?")
_DECIMAL_POINT = re.compile(r"[-+]?\d*\.\d+(?:[eE][-+]?\d+)?")
_WHOLE = re.compile(r"[-+]?\d+")
_PADDED = re.compile(r"0\d+")
_SEPARATOR_LINE = re.compile(r"sep=.")  # Excel's, above the titles
WIDTH_HINT = "each line needs as many values as the first"
WHOLE_HINT = "herd convert FILE -o FILE.h5 reads all rows as one"
SEEN = 100  # lines whose cells are looked at before the text is read
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

    *options, name = _options(head, where, asked)
    try:
        table = csv.read_csv(stream, *options)
    except pa.ArrowInvalid as error:
        raise DataError(_plain(str(error)), where=where, hint=WIDTH_HINT) from error
    if not table.num_rows:
        raise DataError("has a header but no rows", where=where)
    try:
        table = _bare(table if name is None else _with_all_labels(table, name, options[2].null_values, where, asked))
    except UnicodeDecodeError as error:
        raise DataError("the names of the columns are not UTF-8", where=where, hint=UTF8_HINT) from error
    return from_table(table, {}, where=where, asked=asked)


def _with_all_labels(table: Any, name: str, nulls: list[str], where: str, asked: Asked) -> Any:
    """A table whose labels are texts if one of them has leading zeros, else of the type that suits all of them."""
    column, place = table.column(name), table.column_names.index(name)
    if (first := padded.first_padded(column)) is None:
        return table.set_column(place, name, padded.whole(column, nulls))
    if asked.stretch:
        raise DataError(f"{padded.told(first)}, but rows at the beginning have whole numbers", where=where, hint=WHOLE_HINT)
    asked.note(f"{where}: {padded.told(first)}")
    return table.set_column(place, name, padded.texts(column))


def batches(stream: BinaryIO, head: bytes, *, where: str, asked: Asked) -> Iterator[Any]:
    """The same as Arrow batches, whose columns have the types that those of the first have."""
    import pyarrow as pa
    from pyarrow import csv

    *options, name = _options(head, where, asked)
    kind: Any = None
    try:
        with csv.open_csv(stream, *options) as reader:
            for batch in reader:
                if name is not None:
                    batch, kind = _with_labels(batch, name, options[2].null_values, kind, where)
                yield _bare(batch)
    except pa.ArrowInvalid as error:
        raise DataError(_plain(str(error)), where=where, hint=WIDTH_HINT) from error
    except UnicodeDecodeError as error:
        raise DataError("the names of the columns are not UTF-8", where=where, hint=UTF8_HINT) from error


def _with_labels(batch: Any, name: str, nulls: list[str], kind: Any, where: str) -> tuple[Any, Any]:
    """A batch whose labels are of the type that those of the first batch have, and that type; None before the first."""
    place = batch.schema.names.index(name)
    column = batch.column(place)
    if (first := padded.first_padded(column)) is not None:
        raise DataError(f"{padded.told(first)}, but rows at the beginning have whole numbers", where=where, hint=WHOLE_HINT)
    column = padded.whole(column, nulls) if kind is None else padded.part(column, nulls, kind, name, where)
    return batch.set_column(place, name, column), column.type


def _options(head: bytes, where: str, asked: Asked) -> tuple[Any, Any, Any, str | None]:
    """How pyarrow is to read, parse and convert a stream that begins with head; the column of labels that is read as bytes (`padded`)."""
    import pyarrow as pa
    from pyarrow import csv

    skipped, lines = _first_lines(head)
    separator = _separator(lines[0])
    titles = _cells(lines[0], separator)
    below = [_cells(line, separator) for line in lines[1:]]
    named = _name_columns(titles, below)
    if named and any(cell and _is_value(cell) for cell in titles):
        first = ", ".join(titles[:4]) + (" …" if len(titles) > 4 else "")
        asked.note(f"{where}: the first line, {first}, is taken for the names of the columns")
    nameless = named and bool(below) and len(below[0]) == len(titles) + 1  # R's write.table: rows have names, their column has none
    reading = csv.ReadOptions(
        use_threads=False,
        block_size=max(1 << 22, 8 * len(lines[0])),
        skip_rows=skipped + nameless,
        autogenerate_column_names=not named,
        column_names=["", *titles] if nameless else None,
    )
    commas = separator != "," and _any(below, _DECIMAL_COMMA) and not _any(below, _DECIMAL_POINT)
    if commas:
        asked.note(f"{where}: numbers are read with decimal commas")
    types = _padded(titles if named else [], below, where, asked) | _worded(titles if named else [], asked)
    labels = None if commas or not named else _whole_labels(titles, below, where, asked)
    labels = None if labels in types else labels
    types |= {} if labels is None else {labels: pa.binary()}
    # pyarrow knows columns by their titles as they are written, blanks and all.
    typed = titles if nameless else _written(lines[0], separator, len(titles))
    types = {typed[titles.index(title)]: kind for title, kind in types.items() if title in titles}
    labels = None if labels is None else typed[titles.index(labels)]
    converting = csv.ConvertOptions(decimal_point="," if commas else ".", column_types=types)
    return reading, csv.ParseOptions(delimiter=separator), converting, labels


def _whole_labels(titles: list[str], below: list[list[str]], where: str, asked: Asked) -> str | None:
    """The column of labels, if the lines of the head have whole numbers in it."""
    if not asked.labels or len(set(titles)) < len(titles):
        return None
    y = roles_of(titles, asked, where).get("y")
    cells = [] if y is None else [cells[titles.index(y)] for cells in below if len(cells) > titles.index(y)]
    return y if any(cells) and all(not cell or _WHOLE.fullmatch(cell) for cell in cells) else None


def _padded(titles: list[str], below: list[list[str]], where: str, asked: Asked) -> dict[str, Any]:
    """Types of columns whose numbers begin with zeros: labels 01 and 1 are two texts, and of other columns it is told what is lost."""
    import pyarrow as pa

    columns = [[cells[index] for cells in below if len(cells) > index] for index in range(len(titles))]
    found = {titles[i]: one for i, one in enumerate(columns) if _any([one], _PADDED) and all(map(_is_value, one))}
    found = {name: one for name, one in found.items() if name not in asked.as_text}
    if not found or len(set(titles)) < len(titles):
        return {}
    y = roles_of(titles, asked, where).get("y")
    for name, cells in found.items():
        first = next(cell for cell in cells if _PADDED.fullmatch(cell))
        if name == y and asked.labels:
            asked.note(f"{where}: {padded.told(first)}")
        else:
            asked.note(f"{where}: column '{name}' has numbers such as {first}, whose leading zeros are lost")
    return {y: pa.string()} if y in found and asked.labels else {}


def _worded(titles: list[str], asked: Asked) -> dict[str, Any]:
    """Types of the columns that are asked for as text."""
    import pyarrow as pa

    return {name: pa.string() for name in titles if name in asked.as_text}


def titled(head: bytes) -> bool:
    """Whether the first line that is no comment names the columns."""
    _, lines = _first_lines(head)
    separator = _separator(lines[0])
    return _name_columns(_cells(lines[0], separator), [_cells(line, separator) for line in lines[1:]])


def _name_columns(titles: list[str], below: list[list[str]]) -> bool:
    """Whether cells of a first line are the names of the columns, and no row, given the cells of the lines below.

    Text names columns, but for a line some of whose cells are numbers: it is a row if one of these has a fraction or occurs twice, or
    if one of its texts occurs below in the same column.  Numbers are a row, but for 0, 1, 2, …, which pandas writes for columns
    without names: with an empty cell for those of the rows, or above numbers with fractions, or from four columns on.
    """
    texts = [(column, cell) for column, cell in enumerate(titles) if not _is_value(cell)]
    if not texts:
        return _count(titles, below)
    numbers = [cell for cell in titles if cell and _is_value(cell)]
    again = any(len(cells) > column and cells[column] == cell for column, cell in texts for cells in below)
    return not numbers or not (again or len(set(numbers)) < len(numbers) or any(_DECIMAL_POINT.fullmatch(cell) for cell in numbers))


def _count(titles: list[str], below: list[list[str]]) -> bool:
    """Are numbers those that pandas gives columns without names?"""
    indexed = titles[0] == ""
    counted = titles[1:] if indexed else titles
    if not below or counted != [str(column) for column in range(len(counted))]:
        return False
    if indexed:
        return len({cells[0] for cells in below}) == len(below)
    return len(counted) > 3 or (len(counted) == 3 and any(_DECIMAL_POINT.fullmatch(cell) for cell in below[0]))


def _any(lines: list[list[str]], form: re.Pattern[str]) -> bool:
    return any(form.fullmatch(cell) for cells in lines for cell in cells)


def _first_lines(head: bytes) -> tuple[int, list[str]]:
    """How many lines stand before the first one that is no comment, and that line with up to a hundred below it."""
    lines = re.split("\r\n|\n|\r", head.decode("utf-8", "replace").removeprefix("\ufeff"))
    for above, line in enumerate(lines):
        if line.strip() and not line.startswith("#") and not _SEPARATOR_LINE.fullmatch(line.strip()):
            below = [other for other in lines[above + 1 : above + SEEN] if other.strip()]
            return above, [line, *below]
    return 0, [""]


def _separator(line: str) -> str:
    bare = re.sub(r'"[^"]*"', "quoted", line)
    return next((separator for separator in "\t;, " if separator in bare.strip()), ",")


def _cells(line: str, separator: str) -> list[str]:
    """The cells of a line; a separator between quotes is text."""
    try:
        return [cell.strip() for cell in next(plain_csv.reader([line], delimiter=separator, skipinitialspace=True), [""])]
    except plain_csv.Error:  # a cell longer than Python's module takes
        return [cell.strip().strip('"') for cell in line.split(separator)]


def _written(line: str, separator: str, count: int) -> list[str]:
    """The titles of so many columns with the blanks beside them, without their quotes."""
    try:
        found = next(plain_csv.reader([line], delimiter=separator), [""])
    except plain_csv.Error:
        found = []
    return found if len(found) == count else _cells(line, separator)


def _is_value(cell: str) -> bool:
    """Could this be an entry rather than the name of a column?"""
    return number(cell or "nan") is not None


def _bare(table: Any) -> Any:
    """A table or a batch whose names of columns, and whose texts, have no blanks at their ends: "a, b, y" names y."""
    import pyarrow as pa

    for index, column in enumerate(table.columns):
        if pa.types.is_string(column.type):
            import pyarrow.compute as pc

            table = table.set_column(index, table.schema.names[index], pc.utf8_trim_whitespace(column))
    return table.rename_columns([name.strip() for name in table.schema.names])


def _plain(text: str) -> str:
    """pyarrow's message without its preamble, on one line, cut short."""
    return " ".join(text.replace("CSV parse error: ", "").split())[:200]


def write(path: Any, data: Dataset, leading: Sequence[str] = (), names: Mapping[str, Sequence[str]] = MappingProxyType({})) -> None:
    """Write a data set as CSV with a header: features, further columns, then y (class names if there are any), split, weight.

    A missing value is an empty cell, or nan where there is one column alone.
    leading  further columns that stand before the features.      names  of the states of features that are places of states, by feature.
    """
    with open(path, "wb") as out:
        append(out, data, titles=True, leading=leading, states=names)


def append(
    out: BinaryIO,
    data: Dataset,
    *,
    titles: bool = False,
    leading: Sequence[str] = (),
    states: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> None:
    """Write the rows of a data set to a CSV file that is open, after their titles if these are asked for."""
    import pyarrow as pa
    from pyarrow import csv

    names = data.feature_names or [f"x{column}" for column in range(data.X.shape[1])]
    roles = _roles(data)
    first = {name: roles.pop(name) for name in leading}
    if titles:
        taken = {name for name in names if name.lower() in ("y", "split", "weight") or name in roles | first} if roles | first else set()
        words = [*first, *(f"{name}_" if name in taken else name for name in names), *roles]
        out.write((",".join(_quoted(word) for word in words) + "\n").encode())
    step = max(1, BLOCK_ELEMENTS // len(names))
    for start in range(0, data.X.shape[0], step):
        rows = slice(start, start + step)
        block = data.X[rows].toarray() if data.is_sparse else data.X[rows]
        block = block.astype(np.uint8) if block.dtype.kind == "b" else block
        columns = [values[rows] for values in first.values()] + [
            _named(block[:, column], states.get(name)) for column, name in enumerate(names)
        ]
        columns += [values[rows] for values in roles.values()]
        arrays = [array(column, _gaps(column)) if len(columns) > 1 else array(column) for column in columns]  # an empty line is no row
        table = pa.Table.from_arrays(arrays, names=[str(index) for index in range(len(arrays))])
        buffer = io.BytesIO()
        csv.write_csv(table, buffer, csv.WriteOptions(include_header=False, quoting_style="needed"))
        out.write(buffer.getvalue())


def _named(values: Array, states: Sequence[str] | None) -> Array:
    """A column, with names of states for their places where there are any; an empty cell for a missing one."""
    if states is None:
        return values
    place = np.where(np.isnan(values), -1, values).astype(np.int64) if values.dtype.kind == "f" else values
    found: Array = np.array([*states, ""], dtype=object)[place]
    return found


def _gaps(values: Array) -> Array | None:
    """Which of the values are missing; None where none is."""
    absent = np.isnan(values) if values.dtype.kind == "f" else np.zeros(0, dtype=bool)
    return absent if absent.any() else None


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
