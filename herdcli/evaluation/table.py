"""The table of `herd eval`: which metrics a kind has, the bars they must pass, and how a table is written.

A table is a list of rows, each a dict from column to text, number or None (not available).  Rows of different
kinds share a table: its columns are theirs in order of first appearance.
"""

from __future__ import annotations

import csv
import io
import json
import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from herdcli.errors import BadUsage, DataError, escaped
from herdcli.kinds import KINDS, VERDICT, able
from herdcli.parts import named
from herdcli.records import dataclass
from herdcli.schema import Array

Value = str | float | int | None
Row = dict[str, Value]
Metrics = Callable[..., Row | list[Row]]


def metrics_of(kind: str) -> Metrics:
    """The metrics of a kind, imported now.  Raises BadUsage for kinds that have none."""
    path = KINDS[kind].metrics
    if path is None:
        raise BadUsage(f"there is nothing to evaluate in kind '{kind}'", hint=f"kinds that have metrics: {', '.join(able('metrics'))}")
    found: Metrics = named(path)
    return found


def figures(kind: str, value: Any, settings: Any, *, map: Any = map, progress: Any = None) -> list[Row]:
    """The rows of one artifact: one of most kinds, several where its kind has them."""
    found = metrics_of(kind)(value, settings, map=map, progress=progress)
    if isinstance(found, list):
        return found
    judged = named(VERDICT)(kind, found, value)
    rest = {column: item for column, item in found.items() if column != "verdict"}
    return [found if judged is None and "verdict" not in found else rest | {"verdict": judged}]


def columns_of(rows: Sequence[Row]) -> list[str]:
    """All columns of the rows, in order of first appearance."""
    return list(dict.fromkeys(column for row in rows for column in row))


@dataclass(frozen=True)
class Report:
    """The `report` artifact: a table by columns, text as strings, numbers as float64 with NaN where there is none."""

    table: dict[str, Array]
    document: str = "eval"  # what the table reports on


def report(rows: Sequence[Row], document: str = "eval") -> Report:
    """The rows as a `report` artifact; a column is text if any of its values is."""
    table: dict[str, Array] = {}
    for column in columns_of(rows):
        values = [row.get(column) for row in rows]
        if any(isinstance(value, str) for value in values):
            table[column] = np.array(["" if value is None else str(value) for value in values], dtype=np.str_)
        else:
            table[column] = np.array([math.nan if value is None else value for value in values], dtype=np.float64)
    return Report(table, document)


def rows_of(value: Report) -> list[Row]:
    """The rows of a `report` artifact: the inverse of `report`, empty text and NaN as None.

    Raises DataError unless all columns are one-dimensional and of one length.
    """
    shapes = {column.shape for column in value.table.values()}
    if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
        raise DataError(f"the table's columns have different shapes: {', '.join(map(str, sorted(shapes)))}")
    columns = {name: [_plain(item) for item in column.tolist()] for name, column in value.table.items()}
    length = shapes.pop()[0] if shapes else 0
    return [{name: column[i] for name, column in columns.items()} for i in range(length)]


def _plain(value: Any) -> Value:
    if isinstance(value, bytes):
        value = value.decode()
    missing = value == "" or (isinstance(value, float) and math.isnan(value))
    return None if missing else value


# Bars ---------------------------------------------------------------------------------------------------------

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True)
class Requirement:
    """A bar such as `error<0.05`: column, one of < <= > >= ==, number."""

    column: str
    comparison: str
    bound: float

    def __str__(self) -> str:
        return f"{self.column}{self.comparison}{self.bound:g}"

    def missed(self, rows: Sequence[Row]) -> list[str]:
        """One message per row that misses the bar; a missing value misses it.  Raises BadUsage for unknown columns and text."""
        columns = columns_of(rows)
        if self.column not in columns:
            raise BadUsage(f"--require {self}: there is no column '{self.column}'", hint=f"columns: {', '.join(columns)}")
        messages = []
        for row in rows:
            value = row.get(self.column)
            if isinstance(value, str):
                raise BadUsage(f"--require {self}: column '{self.column}' is text")
            if value is None or not COMPARISONS[self.comparison](value, self.bound):
                shown = "missing" if value is None else f"{value:.6g}"
                name = f"{row['file']}: " if row.get("file") else ""
                messages.append(f"{name}{self.column} is {shown}, required {self.comparison} {self.bound:g}")
        return messages


def requirement(text: str) -> Requirement:
    """Parse `error<0.05`.  Raises BadUsage with the form expected."""
    match = re.fullmatch(r"\s*([A-Za-z_][\w.]*)\s*(<=|>=|==|<|>)\s*(\S+)\s*", text)
    try:
        bound = float(match[3]) if match else math.nan
    except ValueError:
        bound = math.nan
    if match is None or math.isnan(bound):
        raise BadUsage(f"--require '{text}' is not of the form COLUMN<NUMBER", hint="comparisons: < <= > >= ==, as in 'error<0.05'")
    return Requirement(match[1], match[2], bound)


# Formats ------------------------------------------------------------------------------------------------------


DIGITS = 4  # significant digits on a terminal


def shown(value: Value, digits: int = 6) -> str:
    """A value for people: so many significant digits, '' for a missing one."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def full(value: Value) -> str:
    """A value for machines: a number that reads back as the same float64, '' for a missing one."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(float(value)) if isinstance(value, float) else str(value)


def tsv(rows: Sequence[Row]) -> str:
    """Tab-separated with a header line; tabs and line ends inside text become blanks."""
    columns = columns_of(rows)
    lines = [columns] + [[full(row.get(column)) for column in columns] for row in rows]
    return "".join("\t".join(re.sub(r"[\t\r\n]", " ", cell) for cell in line) + "\n" for line in lines)


def comma_separated(rows: Sequence[Row]) -> str:
    """RFC 4180 with a header line, lines ended by \\n."""
    columns = columns_of(rows)
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([full(row.get(column)) for column in columns] for row in rows)
    return target.getvalue()


TRUTHS = {"converged"}  # columns of yes or no, which are 1 and 0 in tables of numbers


def json_list(rows: Sequence[Row]) -> str:
    """A list of objects with every column; null for missing and non-finite values."""
    columns = columns_of(rows)

    def plain(column: str, value: Value) -> Value:
        if column in TRUTHS and value is not None:
            return bool(value)
        return None if isinstance(value, float) and not math.isfinite(value) else value

    objects = [{column: plain(column, row.get(column)) for column in columns} for row in rows]
    return json.dumps(objects, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _cells(rows: Sequence[Row]) -> tuple[list[str], list[list[str]], list[bool]]:
    """Header, cells for people, and which columns hold numbers (set to the right)."""
    columns = columns_of(rows)
    numeric = [not any(isinstance(row.get(column), str) for row in rows) for column in columns]
    return columns, [[shown(row.get(column)) for column in columns] for row in rows], numeric


def by_kind(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each kind, kinds in order of first appearance: a table each, where each has columns of its own."""
    groups: dict[Value, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.get("kind"), []).append(row)
    return list(groups.values())


def filled(rows: Sequence[Row]) -> list[Row]:
    """The rows without the columns that are empty in all of them."""
    kept = [column for column in columns_of(rows) if any(full(row.get(column)) for row in rows)]
    return [{column: row.get(column) for column in kept} for row in rows]


def aligned(rows: Sequence[Row]) -> str:
    """For a terminal: a table a kind, columns of equal width and none empty, four digits, '–' for missing values."""
    return "\n".join(_aligned(filled(group)) for group in by_kind(rows))


def _aligned(rows: Sequence[Row]) -> str:
    columns, _, numeric = _cells(rows)
    cells = [[shown(row.get(column), DIGITS) for column in columns] for row in rows]
    lines = [[escaped(cell) or "–" for cell in line] for line in [columns, *cells]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]

    def padded(line: list[str]) -> str:
        return "  ".join(
            cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(line, widths, numeric, strict=True)
        )

    return "".join(padded(line).rstrip() + "\n" for line in lines)


def markdown(rows: Sequence[Row]) -> str:
    """A pipe table, numbers to the right."""
    columns, cells, numeric = _cells(rows)
    lines = [[_escape_markdown(name) for name in columns], ["---:" if right else "---" for right in numeric]] + [
        [_escape_markdown(cell) for cell in line] for line in cells
    ]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _escape_markdown(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {c: "\\" + c for c in "&%$#_{}"}


def latex(rows: Sequence[Row]) -> str:
    """A tabular with \\hline rules, numbers to the right; needs no package."""

    def escape(text: str) -> str:
        return "".join(LATEX.get(character, character) for character in text.replace("\n", " "))

    columns, cells, numeric = _cells(rows)
    lines = [" & ".join(escape(cell) for cell in line) + r" \\" for line in [columns, *cells]]
    head = r"\begin{tabular}{" + "".join("r" if right else "l" for right in numeric) + "}"
    return "\n".join([head, r"\hline", lines[0], r"\hline", *lines[1:], r"\hline", r"\end{tabular}"]) + "\n"


FORMATS: dict[str, Callable[[Sequence[Row]], str]] = {
    "tsv": tsv,
    "aligned": aligned,
    "json": json_list,
    "csv": comma_separated,
    "markdown": markdown,
    "latex": latex,
}
