"""CSV: numeric columns with or without a header, separated by comma, semicolon, tab, bar or blank.

Columns without a header are named f0, f1, …  Leading lines that begin with # are skipped.  Blanks around cells are removed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from herdcli.artifacts.dataset import BLOCK_ELEMENTS, Dataset
from herdcli.artifacts.formats.arrow import to_arrow
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.message_numbers import group_digits
from herdcli.artifacts.tables.dataset_assembly import decode_numeric_labels
from herdcli.artifacts.tables.dataset_columns import UTF8_HINT, assign_roles, dataset_from_table
from herdcli.artifacts.text import csv_header, wide_csv, zero_padded_labels
from herdcli.artifacts.text.csv_header import DECIMAL_COMMA, DECIMAL_POINT, CsvHeader, is_value
from herdcli.artifacts.text.csv_structure import (
    ChainedStream,
    LineTransform,
    StructureCheck,
    TransformedStream,
    buffer_stream,
    collapse_alignment,
    strip_around_quotes,
)
from herdcli.artifacts.text.opened_csv import OpenedCsv
from herdcli.errors import DataError
from herdcli.schema import Array
from herdcli.spreadsheet_text import csv_text, escapes_formulas

if TYPE_CHECKING:
    import pyarrow as pa

_WHOLE = re.compile(r"[-+]?\d+")
_PADDED = re.compile(r"0\d+")
_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")
_POINTED = re.compile(r"[-+]?[1-9]\d{0,2}\.\d{3}")
_OTHER_LENGTH = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")  # pyarrow counts the skipped lines, and rows from 1
WIDTH_HINT = "give each line as many values as the first"
WHOLE_HINT = "convert the file first, which reads all rows at once: herd convert FILE -o FILE.h5"
MOST_HEAD = 1 << 28  # most bytes of the titles
SPLIT_TEXTS = ("train", "valid", "test")


def read(
    stream: BinaryIO,
    head: bytes,
    *,
    where: str,
    options: LoadOptions,
) -> Dataset:
    """Read the data set of a CSV stream, parsed as it arrives.  head: its first bytes."""
    found = _open_csv(stream, head, where, options)
    with _convert_parse_errors(where, found):
        table = wide_csv.read_table(found, where, options)
        if not table.num_rows:
            raise DataError("has a header but no rows", where=where, hint="check whether the command that wrote it was interrupted")
        table = _strip_blanks(
            table if found.labels is None else _infer_label_type(table, found.labels, found.options[2].null_values, where, options)
        )
    table = _drop_trailing_column(found, table, where)
    _report_lost_digits(found, where, options)
    options.account.append(f"{group_digits(found.structure.count)} lines")
    return dataset_from_table(table, {}, where=where, options=options)


@contextmanager
def _convert_parse_errors(where: str, opened_csv: OpenedCsv) -> Iterator[None]:
    """Convert Arrow's errors about a text to one-line errors."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowInvalid as error:
        if any(found in str(error) for found in _NO_ROWS):
            raise DataError(
                "has no rows below its first line", where=where, hint="check whether the command that wrote it was interrupted"
            ) from error
        raise DataError(_shorten_message(str(error), opened_csv), where=where, hint=WIDTH_HINT) from error
    except UnicodeDecodeError as error:
        raise DataError("the names of the columns are not UTF-8", where=where, hint=UTF8_HINT) from error


def _drop_trailing_column(opened_csv: OpenedCsv, table: pa.Table, where: str) -> pa.Table:
    """Return the table without the column caused by separators at the ends of rows.  Raises DataError if a row has a value there."""
    if not opened_csv.trailing:
        return table
    there = [row for row, value in enumerate(table.column(table.num_columns - 1).to_pylist()) if value not in (None, "")]
    if there and not opened_csv.head.named:
        hint = "remove the separators at the ends of the other rows, or give every row as many values"
        raise DataError(f"row {there[0]} has a value after its last separator, but the first rows have none there", where=where, hint=hint)
    if there:
        raise _too_many_cells_error(len(opened_csv.head.titles) + 1, len(opened_csv.head.titles), there[0], where)
    return table.select(list(range(table.num_columns - 1)))


def _too_many_cells_error(cells: int, names: int, row: int, where: str) -> DataError:
    hint = "name every column in the first line, or remove an extra separator"
    return DataError(f"row {row} has {cells} values, but the first line names {names} columns", where=where, hint=hint)


def _report_lost_digits(opened_csv: OpenedCsv, where: str, options: LoadOptions) -> None:
    """Report a number below the head whose leading zeros or last digits are lost."""
    if (odd := opened_csv.structure.odd) is None:
        return
    text = odd.decode()
    if text.startswith("0"):
        if opened_csv.labels is None and not any(_PADDED.fullmatch(cell) for cells in opened_csv.head.below for cell in cells):
            options.note(f"{where}: numbers such as {text} lose their leading zeros")
    elif float(text) > 2**53:
        options.note(f"{where}: whole numbers such as {text} are above 2^53 and lose their last digits if they are read as real numbers")


def _infer_label_type(table: pa.Table, name: str, nulls: list[str], where: str, options: LoadOptions) -> pa.Table:
    """Return a table whose labels are texts if one of them has leading zeros, else of the type that fits all of them."""
    column, place = table.column(name), table.column_names.index(name)
    if (first := zero_padded_labels.find_zero_padded_value(column)) is None:
        return table.set_column(place, name, zero_padded_labels.convert_labels(column, nulls))
    if options.stretch:
        raise DataError(
            f"{zero_padded_labels.leading_zero_message(first)}, but rows at the beginning have whole numbers", where=where, hint=WHOLE_HINT
        )
    options.note(f"{where}: {zero_padded_labels.leading_zero_message(first)}")
    return table.set_column(place, name, zero_padded_labels.decode_texts(column))


def read_batches(stream: BinaryIO, head: bytes, *, where: str, options: LoadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the same text as Arrow batches, whose columns have the types of the first batch."""
    from pyarrow import csv

    found = _open_csv(stream, head, where, options)
    kind: pa.DataType | None = None
    with _convert_parse_errors(where, found), csv.open_csv(found.stream, *found.options) as reader:
        for batch in reader:
            if found.labels is not None:
                batch, kind = _convert_batch_labels(batch, found.labels, found.options[2].null_values, kind, where)
            yield _drop_trailing_column(found, _strip_blanks(batch), where)


def _convert_batch_labels(
    batch: pa.RecordBatch, name: str, nulls: list[str], kind: pa.DataType | None, where: str
) -> tuple[pa.RecordBatch, pa.DataType]:
    """Return a batch with labels of the type in the first batch, and that type; `kind` is None for the first batch."""
    place = batch.schema.names.index(name)
    column = batch.column(place)
    if (first := zero_padded_labels.find_zero_padded_value(column)) is not None:
        raise DataError(
            f"{zero_padded_labels.leading_zero_message(first)}, but rows at the beginning have whole numbers", where=where, hint=WHOLE_HINT
        )
    column = (
        zero_padded_labels.convert_labels(column, nulls)
        if kind is None
        else zero_padded_labels.convert_batch_labels(column, nulls, kind, name, where)
    )
    return batch.set_column(place, name, column), column.type


def _open_csv(stream: BinaryIO, first: bytes, where: str, options: LoadOptions) -> OpenedCsv:
    """Open the text after an examination of its head."""
    import pyarrow as pa
    from pyarrow import csv

    first, stream = _complete_header(first, stream)
    head = csv_header.parse_header(first, options.roles.features)
    titles, below = head.titles, head.below
    if head.named and any(cell and is_value(cell) for cell in titles):
        shown = ", ".join(titles[:4]) + (" …" if len(titles) > 4 else "")
        options.note(f"{where}: the first line, {shown}, is read as the names of the columns")
    texts = not head.named and not any(is_value(cell) for cell in titles)
    if texts:
        options.note(
            f"{where}: the first line is read as data, not as column names, because its texts occur in later rows of the same columns"
        )
    nameless, trailing = _has_extra_columns(head, where)
    if trailing:
        beside = ", which the first line does not have" if head.named else ""
        options.note(f"{where}: left out the separator at the end of each row{beside}")
    if head.aligned:
        stream = buffer_stream(TransformedStream(stream, LineTransform(collapse_alignment).change))
    elif any(
        re.search(rf'{re.escape(head.separator)} +"', line) for line in first.decode("utf-8", "replace").splitlines()[: csv_header.SEEN]
    ):
        stream = buffer_stream(TransformedStream(stream, LineTransform(partial(strip_around_quotes, separator=head.separator)).change))
    structure = StructureCheck(head.separator, head.width, where=where)
    commas = _uses_decimal_commas(head, where, options)
    names = ["", *titles] if nameless else [*titles, ""] if trailing else titles
    known = titles if head.named else list(options.columns) if texts and len(options.columns) == len(titles) else []
    reading = csv.ReadOptions(
        use_threads=False,
        block_size=max(1 << 22, 8 * len(first) if len(titles) > wide_csv.WIDE else 0),
        skip_rows=head.above + (head.height if head.named else 0),
        autogenerate_column_names=not known,
        column_names=names if head.named else known or None,
    )
    types = _zero_padded_types(titles if head.named else [], below, where, options) | _text_column_types(known, options)
    labels = None if commas or not head.named else _integer_label_column(titles, below, where, options)
    labels = None if labels in types else labels
    types |= {} if labels is None else {labels: pa.binary()}
    parsing = csv.ParseOptions(delimiter=head.separator, newlines_in_values=True)
    converting = csv.ConvertOptions(decimal_point="," if commas else ".", column_types=types)
    looked_at = buffer_stream(TransformedStream(stream, structure.change))
    return OpenedCsv(looked_at, head, structure, (reading, parsing, converting), labels, trailing)


def _complete_header(first: bytes, stream: BinaryIO) -> tuple[bytes, BinaryIO]:
    """Return a head with the titles and a row, whatever their length, and the stream from its beginning."""
    if first.count(b"\n") + first.count(b"\r") > csv_header.SEEN or not _is_header_incomplete(first):
        return first, stream
    read = bytearray(stream.read(2 * len(first)))
    while _is_header_incomplete(bytes(read)) and len(read) < MOST_HEAD and (more := stream.read(len(read))):
        read += more
    whole = buffer_stream(ChainedStream(bytes(read), stream))
    return (bytes(read) if len(read) > len(first) else first), whole


def _is_header_incomplete(first: bytes) -> bool:
    """Return whether a head is too short for the titles and a row below."""
    lines = re.split(rb"\r\n|\n|\r", first)
    rows = [line for line in lines[:-1] if line.strip() and not line.startswith(b"#")]
    return len(rows) < 2


def _has_extra_columns(head: CsvHeader, where: str) -> tuple[bool, bool]:
    """Return whether the first cell of each row is an untitled row name, and whether rows end in a separator that the titles lack.

    Raises DataError if rows have one more value than the titles for another reason.
    """
    names, below = len(head.titles), head.below
    if not head.named and names > 1 and all(len(cells) == names and cells[-1] == "" for cells in head.rows):
        return False, True
    if not head.named or not below or len(below[0]) != names + 1:
        return False, False
    longer = [cells for cells in below if len(cells) == names + 1]
    if all(cells[-1] == "" for cells in longer):
        return False, True
    if not csv_header.has_row_names(longer):
        raise _too_many_cells_error(names + 1, names, 0, where)
    return True, False


def _uses_decimal_commas(head: CsvHeader, where: str, options: LoadOptions) -> bool:
    """Return whether numbers have decimal commas: as declared, else as detected from the head."""
    if options.dialect.declares_numbers and options.dialect.decimal_separator is not None:
        return options.dialect.decimal_separator == ","
    rows = head.below
    points = [cell for cells in rows for cell in cells if DECIMAL_POINT.fullmatch(cell)] if head.separator == ";" else []
    if points and all(map(_POINTED.fullmatch, points)):
        options.note(
            f"{where}: numbers such as {points[0]} are read with a decimal point; --thousands . reads {points[0].replace('.', '')}"
        )
    if head.separator == "," or not _matches_any_line(rows, DECIMAL_COMMA) or _matches_any_line(rows, DECIMAL_POINT):
        return False
    found = [cell for cells in rows for cell in cells if DECIMAL_COMMA.fullmatch(cell)]
    if all(map(_GROUPED.fullmatch, found)):
        hint = f"choose one: --thousands , reads {found[0].replace(',', '')}, --decimal , reads {found[0].replace(',', '.')}"
        raise DataError(f"has numbers such as {found[0]}: the comma may be a decimal comma or separate thousands", where=where, hint=hint)
    options.note(f"{where}: numbers are read with decimal commas")
    return True


def _integer_label_column(titles: list[str], rows_below: list[list[str]], where: str, options: LoadOptions) -> str | None:
    """Return the column of labels if they are whole numbers in the lines of the head."""
    if not options.labels or len(set(titles)) < len(titles):
        return None
    y = assign_roles(titles, options, where).get("y")
    cells = [] if y is None else [cells[titles.index(y)] for cells in rows_below if len(cells) > titles.index(y)]
    return y if any(cells) and all(not cell or _WHOLE.fullmatch(cell) for cell in cells) else None


def _zero_padded_types(titles: list[str], rows_below: list[list[str]], where: str, options: LoadOptions) -> dict[str, pa.DataType]:
    """Return types for columns whose numbers have leading zeros: labels 01 and 1 stay two texts; for other columns the loss is reported."""
    import pyarrow as pa

    columns = [[cells[index] for cells in rows_below if len(cells) > index] for index in range(len(titles))]
    found = {titles[i]: one for i, one in enumerate(columns) if _matches_any_line([one], _PADDED) and all(map(is_value, one))}
    found = {name: one for name, one in found.items() if name not in options.as_text}
    if not found or len(set(titles)) < len(titles):
        return {}
    y = assign_roles(titles, options, where).get("y")
    for name, cells in found.items():
        first = next(cell for cell in cells if _PADDED.fullmatch(cell))
        if name == y and options.labels:
            options.note(f"{where}: {zero_padded_labels.leading_zero_message(first)}")
        else:
            options.note(f"{where}: column '{name}' has numbers such as {first}, whose leading zeros are lost")
    return {y: pa.string()} if y in found and options.labels else {}


def _text_column_types(titles: list[str], options: LoadOptions) -> dict[str, pa.DataType]:
    """Return types for the columns requested as text."""
    import pyarrow as pa

    return {name: pa.string() for name in titles if name in options.as_text}


def has_titles(head: bytes, names: Collection[str] = ()) -> bool:
    """Return whether the first line that is not a comment names the columns.  names: those of a model's columns."""
    return csv_header.parse_header(head, names).named


def _matches_any_line(lines: list[list[str]], form: re.Pattern[str]) -> bool:
    return any(form.fullmatch(cell) for cells in lines for cell in cells)


def _strip_blanks(table: pa.Table) -> pa.Table:
    """Return a table or batch without blanks around column names and texts: "a, b, y" names y."""
    import pyarrow as pa

    for index, column in enumerate(table.columns):
        if pa.types.is_string(column.type):
            import pyarrow.compute as pc

            table = table.set_column(index, table.schema.names[index], pc.utf8_trim_whitespace(column))
    return table.rename_columns([name.strip() for name in table.schema.names])


def _shorten_message(text: str, opened: OpenedCsv) -> str:
    """Return pyarrow's message without its preamble, shortened to one line; for rows of other lengths, in the words of `wide_csv`."""
    if (found := _OTHER_LENGTH.search(text)) is not None:
        skipped = 0 if opened.head.width > wide_csv.WIDE else opened.options[0].skip_rows
        return f"row {int(found[1]) - skipped - 1} has {found[3]} values, expected {found[2]}"
    return " ".join(text.replace("CSV parse error: ", "").split())[:200]


def write(path: Any, data: Dataset, leading: Sequence[str] = (), names: Mapping[str, Sequence[str]] = MappingProxyType({})) -> None:
    """Write a data set as CSV with a header: features, further columns, then y (class names if there are any), split, weight.

    A missing value is an empty cell, or nan if there is only one column.
    leading  further columns before the features.      names  feature -> names of its states, for features that are state indices.
    """
    with open(path, "wb") as out:
        append_rows(out, data, titles=True, leading=leading, states=names)


def append_rows(
    out: BinaryIO,
    data: Dataset,
    *,
    titles: bool = False,
    leading: Sequence[str] = (),
    states: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> None:
    """Write the rows of a data set to an open CSV file, after the titles if requested."""
    import pyarrow as pa
    from pyarrow import csv

    names = data.feature_names or [f"x{column}" for column in range(data.X.shape[1])]
    roles = _role_columns(data)
    first = {name: roles.pop(name) for name in leading}
    if titles:
        taken = {name for name in names if name.lower() in ("y", "split", "weight") or name in roles | first} if roles | first else set()
        words = [*first, *(f"{name}_" if name in taken else name for name in names), *roles]
        beside = [np.empty(0)] * len(names)
        columns = [_escape_formulas(values) for values in (*first.values(), *beside, *roles.values())]
        out.write(_title_line([csv_text(word) for word in words], columns).encode())
    step = max(1, BLOCK_ELEMENTS // len(names))
    for start in range(0, data.X.shape[0], step):
        rows = slice(start, start + step)
        block = data.X[rows].toarray() if data.is_sparse else data.X[rows]
        block = block.astype(np.uint8) if block.dtype.kind == "b" else block
        columns = [values[rows] for values in first.values()] + [
            _replace_indices_by_states(block[:, column], states.get(name)) for column, name in enumerate(names)
        ]
        columns = [_escape_formulas(values) for values in (*columns, *(values[rows] for values in roles.values()))]
        arrays = [
            to_arrow(column, _missing_mask(column)) if len(columns) > 1 else to_arrow(column) for column in columns
        ]  # an empty line is not a row
        table = pa.Table.from_arrays(arrays, names=[str(index) for index in range(len(arrays))])
        buffer = io.BytesIO()
        csv.write_csv(table, buffer, csv.WriteOptions(include_header=False, quoting_style="needed"))
        out.write(buffer.getvalue())


def _replace_indices_by_states(values: Array, states: Sequence[str] | None) -> Array:
    """Return a column with state indices replaced by the names of states, if there are any; a missing value is an empty cell."""
    if states is None:
        return values
    place = np.where(np.isnan(values), -1, values).astype(np.int64) if values.dtype.kind == "f" else values
    found: Array = np.array([*states, ""], dtype=object)[place]
    return found


def _escape_formulas(values: Array) -> Array:
    """Return a column whose texts spreadsheets do not take for formulas, if that is requested."""
    if not escapes_formulas() or values.dtype.kind not in "OU":
        return values
    return np.array([csv_text(value) if isinstance(value, str) else value for value in values.tolist()], dtype=object)


def _missing_mask(values: Array) -> Array | None:
    """Return a mask of the missing values, or None if there are none."""
    absent = np.isnan(values) if values.dtype.kind == "f" else np.zeros(0, dtype=bool)
    return absent if absent.any() else None


def _role_columns(data: Dataset) -> dict[str, pa.DataType]:
    roles: dict[str, Any] = {}
    if data.y is not None:
        known = bool(data.class_names) and data.y.min(initial=0) >= 0
        y, names = decode_numeric_labels(data.y, data.class_names or []) if known else (data.y, data.class_names)
        roles[data.label_name or "y"] = np.array(names, dtype=object)[y] if names else y
    if data.split is not None:
        roles["split"] = np.array(SPLIT_TEXTS, dtype=object)[data.split]
    if data.weight is not None:
        roles["weight"] = data.weight
    return (data.columns or {}) | roles


_NO_ROWS = ("Could not skip initial", "Empty CSV file")  # Arrow's messages about a text that ends with its header
_PLAIN_TITLE = re.compile(r"(?!(?i:markov|bayes)$|network\b)[^\s\"#,;|<{\[@\ufeff][^\";,|\t\r\n]*(?<!\s)")


def _quote_title(title: str, *, number: bool) -> str:
    """Return a title that is read back unchanged: quoted if it has a separator, quote or line end, or begins a comment or other format.

    number  whether to quote a title that is a number, to distinguish it from an entry.
    """
    plain = _PLAIN_TITLE.fullmatch(title) and not (number and (is_value(title) or " " in title))
    return title if plain else '"' + title.replace('"', '""') + '"'


def _title_line(words: list[str], columns: Sequence[Array]) -> str:
    """Return the line of titles; numbers are quoted if the line would be taken for a row.  columns  the columns of the first rows."""
    alike = any(
        word in values[: csv_header.SEEN].tolist() for word, values in zip(words, columns, strict=True) if values.dtype.kind in "OU"
    )
    number = alike or len(words) == 1 or not csv_header.are_column_titles(words, []) or any(map(DECIMAL_POINT.fullmatch, words))
    return ",".join(_quote_title(word, number=number) for word in words) + "\n"
