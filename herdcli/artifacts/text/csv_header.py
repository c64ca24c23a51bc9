"""The first lines of CSV: the line with the column names, the separator, and the number format.

Quoted cells may contain separators and line ends; a quoted number above rows without quoted numbers is a name.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from herdcli.artifacts.text.number_formats import parse_plain_number
from herdcli.records import dataclass

DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+(?:[eE][-+]?\d+)?")
DECIMAL_POINT = re.compile(r"[-+]?\d*\.\d+(?:[eE][-+]?\d+)?")
SEPARATORS = "\t;,|"
SEEN = 100  # lines that are examined before the text is read
_CLOSED = re.compile(r'(^|[,;\t| ])"(?:[^"]|"")*"(?=[,;\t| \r\n]|$)')  # a quoted cell
_OPEN = re.compile(r'(?:^|[,;\t|])"')
_SEPARATOR_LINE = re.compile(r"sep=.")  # a line of Excel above the titles


@dataclass(frozen=True)
class CsvHeader:
    """The structure of the first lines.  above  lines before the titles or the first row.  height  number of lines of the titles.

    The height is one, unless titles contain line ends between quotes.
    titles  cells of the first line.  below  cells of the lines below it.  named  whether the first line names the columns.
    aligned  whether blanks align the columns.
    """

    above: int
    height: int
    separator: str
    titles: list[str]
    below: list[list[str]]
    named: bool
    aligned: bool = False

    @property
    def rows(self) -> list[list[str]]:
        """The rows that were examined."""
        return self.below if self.named else [self.titles, *self.below]

    @property
    def width(self) -> int:
        """The number of cells in a row."""
        return len(self.rows[0]) if self.rows else len(self.titles)


def parse_header(head: bytes, names: Collection[str] = ()) -> CsvHeader:
    """Return the structure of the first bytes of a text.  names: those of a model's columns, which may be numbers."""
    above, records = _first_content_line(head.decode("utf-8", "replace").removeprefix("\ufeff"))
    first = records[0]
    separator = detect_separator(first, records[1:])
    aligned = separator == " " and any(re.search(r"^ |  |\t", line) for line in records)
    lines = [re.sub(r"[ \t]+", " ", line).strip(" ") for line in records] if aligned else records
    cells = [_split_cells(line, separator) for line in lines]
    titles = [text for text, _ in cells[0]]
    below = [[text for text, _ in line] for line in cells[1:]]
    height = 1 + len(re.findall("\r\n|\n|\r", first))
    known = len(set(titles)) == len(titles) and all(text in names for text in titles)
    named = known or _are_names_quoted(cells) or _are_only_values_quoted(cells) or are_column_titles(titles, below)
    return CsvHeader(above, height, separator, titles, below, named, aligned)


def _are_names_quoted(cells: list[list[tuple[str, bool]]]) -> bool:
    """Return whether all numbers of the first line are quoted, and those below it are not."""
    numbers = [column for column, (text, _) in enumerate(cells[0]) if text and is_value(text)]
    if not numbers or not cells[1:] or not all(cells[0][column][1] for column in numbers):
        return False
    return not any(line[column][1] for line in cells[1:] for column in numbers if len(line) > column)


def _are_only_values_quoted(cells: list[list[tuple[str, bool]]]) -> bool:
    """Return whether texts of the first line have no quotes, and all texts below it have, as in files that herd writes."""
    texts = [quoted for line in cells[1:] for text, quoted in line if text and not is_value(text)]
    return bool(texts) and all(texts) and all(not quoted and text and not is_value(text) for text, quoted in cells[0])


def _first_content_line(text: str) -> tuple[int, list[str]]:
    """Return the number of lines before the first one that is not a comment, and that line with up to a hundred below it.

    A line that ends inside quotes continues in the next.
    """
    lines = re.split("(\r\n|\n|\r)", text)
    found: list[str] = []
    above, at = 0, 0
    while at < len(lines) and len(found) < SEEN:
        line = lines[at]
        if not found and (not line.strip() or line.startswith("#") or _SEPARATOR_LINE.fullmatch(line.strip())):
            above, at = above + 1, at + 2
            continue
        whole, end = line, at + 2
        while _ends_inside_quotes(whole) and end < len(lines) and end - at < 2 * SEEN:
            whole, end = whole + lines[end - 1] + lines[end], end + 2
        if _ends_inside_quotes(whole):
            whole, end = line, at + 2
        at = end
        if whole.strip():
            found.append(whole)
    return (above, found) if found else (0, [""])


def _ends_inside_quotes(line: str) -> bool:
    """Return whether a line ends inside a quoted cell."""
    return line.count('"') > 0 and _OPEN.search(_CLOSED.sub(r"\1", line)) is not None


def detect_separator(line: str, lines_below: list[str]) -> str:
    """Return the separator: the first of tab, semicolon, comma, bar and blank that a line has outside quotes.

    If it divides none of the lines below into as many cells, it is part of a title, and another that divides all of them so is returned.
    """
    bare = re.sub(r'"[^"]*"', "quoted", line)
    there = [separator for separator in SEPARATORS if separator in bare.strip(" ")]
    there += [" "] if not there and " " in bare.strip() else []
    first = there[0] if there else ","
    cells = _count_cells(line, first)
    if not lines_below or any(_count_cells(below, first) in (cells, cells + 1) for below in lines_below):
        return first
    for other in dict.fromkeys([*there[1:], ","]):
        if all(_count_cells(below, other) == _count_cells(line, other) for below in lines_below):
            return other
    return first


def _count_cells(line: str, separator: str) -> int:
    """Return the number of cells of a line; several blanks in a row are one separator."""
    return len(line.split()) if separator == " " and '"' not in line else len(_split_cells(line.strip(" "), separator))


def _split_cells(line: str, separator: str) -> list[tuple[str, bool]]:
    """Return the cells of a line without surrounding blanks, and whether they are quoted."""
    if '"' not in line:
        return [(cell.strip(), False) for cell in line.split(separator)]
    mark = re.escape(separator)
    pattern = re.compile(rf'\s*"((?:[^"]|"")*)"\s*(?={mark}|$)|([^{mark}]*)')
    found, at = [], 0
    while True:
        match = pattern.match(line, at)
        assert match is not None
        quoted = match[1] is not None
        found.append(((match[1].replace('""', '"') if quoted else match[2]).strip(), quoted))
        at = match.end() + 1
        if match.end() >= len(line):
            return found


def is_value(cell: str) -> bool:
    """Return whether a cell could be an entry rather than the name of a column."""
    return parse_plain_number(cell or "nan") is not None


def are_column_titles(titles: list[str], rows_below: list[list[str]]) -> bool:
    """Return whether the cells of a first line are column names, and not a row, given the cells of the lines below.

    Texts are column names, unless every one of them occurs below in the same column, see `_are_column_values`.  A line of texts and numbers
    is a row
    if one of the numbers has a fraction or occurs twice, or if one of its texts occurs below in the same column.  Numbers are a row,
    except 0, 1, 2, …, which pandas writes for unnamed columns: these are names with an empty first cell (for row names), with at least
    four columns, or with three above a number with a fraction.
    """
    texts = [(column, cell) for column, cell in enumerate(titles) if not is_value(cell)]
    if not texts:
        return _are_pandas_defaults(titles, rows_below)
    if len(texts) == len(titles) and _are_column_values(titles, rows_below):
        return False
    numbers = [cell for cell in titles if cell and is_value(cell)]
    again = any(len(cells) > column and cells[column] == cell for column, cell in texts for cells in rows_below)
    return not numbers or not (again or len(set(numbers)) < len(numbers) or any(DECIMAL_POINT.fullmatch(cell) for cell in numbers))


def _are_column_values(titles: list[str], rows_below: list[list[str]]) -> bool:
    """Return whether the cells of a first line are values of their columns.

    They are if they occur below in other lines, or if the line itself occurs three times.

    A line that is repeated once or twice may be the titles of tables that were put together.
    """
    others = [cells for cells in rows_below if cells != titles and len(cells) == len(titles)]
    return rows_below.count(titles) > 2 or all(any(cells[k] == cell for cells in others) for k, cell in enumerate(titles))


def _are_pandas_defaults(titles: list[str], rows_below: list[list[str]]) -> bool:
    """Return whether numbers are those that pandas gives to columns without names."""
    indexed = titles[0] == ""
    counted = titles[1:] if indexed else titles
    if not rows_below or counted != [str(column) for column in range(len(counted))]:
        return False
    if indexed:
        return len({cells[0] for cells in rows_below}) == len(rows_below)
    return len(counted) > 3 or (len(counted) == 3 and any(DECIMAL_POINT.fullmatch(cell) for cell in rows_below[0]))


def has_row_names(rows: list[list[str]]) -> bool:
    """Return whether the first cells are row names, as R's write.table and pandas write them: distinct texts, or 1, 2, 3, …"""
    first = [cells[0] for cells in rows]
    counted = any([str(number) for number in range(start, start + len(first))] == first for start in (0, 1))
    return len(set(first)) == len(first) and (counted or not any(is_value(cell) for cell in first))
