"""The table of `herd eval`: the metrics of a kind, the thresholds that they must pass, and the output formats.

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
from difflib import get_close_matches
from typing import Any

import numpy as np

from herdcli.algorithm import Map, ProgressCallback
from herdcli.errors import BadUsage, DataError, escape_text
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.verdict_codes import verdict_code
from herdcli.kinds import KINDS, VERDICT, kinds_with
from herdcli.parts import import_by_path
from herdcli.records import dataclass
from herdcli.schema import Array
from herdcli.spreadsheet_text import csv_text

Value = str | float | int | None
Row = dict[str, Value]
Metrics = Callable[..., Row | list[Row]]


def import_metrics_function(kind: str) -> Metrics:
    """Import and return the metrics function of a kind.  Raises BadUsage for kinds without metrics."""
    path = KINDS[kind].metrics
    if path is None:
        raise BadUsage(
            f"artifacts of kind '{kind}' cannot be evaluated", hint=f"kinds that can be evaluated: {', '.join(kinds_with('metrics'))}"
        )
    found: Metrics = import_by_path(path)
    return found


def compute_metric_rows(
    kind: str, value: Any, settings: EvaluationSettings, *, map: Map = map, progress: ProgressCallback | None = None
) -> list[Row]:
    """Return the rows of one artifact: one for most kinds, several if its kind has several."""
    found = import_metrics_function(kind)(value, settings, map=map, progress=progress)
    if isinstance(found, list):
        return found
    judged = import_by_path(VERDICT)(kind, found, value)
    rest = {column: item for column, item in found.items() if column != "verdict"}
    return [found if judged is None and "verdict" not in found else rest | {"verdict": judged}]


def all_columns(rows: Sequence[Row]) -> list[str]:
    """Return all columns of the rows, in order of first appearance."""
    return list(dict.fromkeys(column for row in rows for column in row))


@dataclass(frozen=True)
class ReportTable:
    """A table by columns, text as strings, numbers as float64 with NaN for missing values: version 1 of the `report` artifact.

    Its column `log_z` says in words how log Z was found, and columns may be empty in all rows.
    """

    table: dict[str, Array]
    document: str = "eval"  # the subject of the table

    def upgrade(self) -> Report:
        """The same report without empty columns, and with words about log Z under `log_z_method`."""
        table: dict[str, Array] = {}
        for name, column in self.table.items():
            words = column.dtype.kind not in "fiu"
            if not np.all(column == "" if words else np.isnan(column)):
                table["log_z_method" if words and name == "log_z" else name] = column
        return Report(table, self.document)


@dataclass(frozen=True)
class Report(ReportTable):
    """The `report` artifact, in which a column `log_z` is numeric."""


def build_report(rows: Sequence[Row], document: str = "eval") -> Report:
    """The rows as a `report` artifact, without columns that are empty in all rows; a column is text if any of its values is."""
    table: dict[str, Array] = {}
    for column in all_columns(rows):
        values = [row.get(column) for row in rows]
        if all(value is None or (isinstance(value, float) and math.isnan(value)) for value in values):
            continue
        if any(isinstance(value, str) for value in values):
            table[column] = np.array(["" if value is None else str(value) for value in values], dtype=np.str_)
        else:
            table[column] = np.array([math.nan if value is None else value for value in values], dtype=np.float64)
    return Report(table, document)


def report_rows(value: Report) -> list[Row]:
    """Return the rows of a `report` artifact: the inverse of `build_report`, with empty text and NaN as None.

    Raises DataError unless all columns are one-dimensional and of equal length.
    """
    shapes = {column.shape for column in value.table.values()}
    if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
        raise DataError(f"the columns of the table have different shapes: {', '.join(map(str, sorted(shapes)))}")
    columns = {name: [_plain_value(item) for item in column.tolist()] for name, column in value.table.items()}
    length = shapes.pop()[0] if shapes else 0
    return [{name: column[i] for name, column in columns.items()} for i in range(length)]


def _plain_value(value: Any) -> Value:
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
    """A requirement such as `error<0.05`: column, one of < <= > >= ==, number."""

    column: str
    comparison: str
    bound: float

    def __str__(self) -> str:
        return f"{self.column}{self.comparison}{self.bound:g}"

    def failure_messages(self, rows: Sequence[Row]) -> list[str]:
        """Return one message per row that misses the requirement, also for a missing value.

        Raises BadUsage for unknown columns and text.
        """
        columns = all_columns(rows)
        if self.column not in columns:
            close = get_close_matches(self.column, columns, n=1)
            hint = f"did you mean {close[0]}?  columns: {', '.join(columns)}" if close else f"columns: {', '.join(columns)}"
            raise BadUsage(f"--require {self}: there is no column '{self.column}'", hint=hint)
        messages = []
        for row in rows:
            value = row.get(self.column)
            if isinstance(value, str):
                raise BadUsage(f"--require {self}: column '{self.column}' has text, so it cannot be compared with a number")
            if value is None or not COMPARISONS[self.comparison](value, self.bound):
                shown = "missing" if value is None else f"{value:.6g}"
                name = f"{row['file']}: " if row.get("file") else ""
                messages.append(f"{name}{self.column} is {shown}, required {self.comparison} {self.bound:g}")
        return messages


def parse_requirement(text: str) -> Requirement:
    """Parse `error<0.05`.  Raises BadUsage that shows the expected form."""
    match = re.fullmatch(r"\s*([A-Za-z_][\w. -]*?)\s*(<=|>=|==|<|>)\s*(\S+)\s*", text)
    try:
        bound = float(match[3]) if match else math.nan
    except ValueError:
        bound = math.nan
    if match is None or math.isnan(bound):
        raise BadUsage(f"--require '{text}' is not of the form COLUMN<NUMBER", hint="use one of < <= > >= ==, as in 'error<0.05'")
    return Requirement(metric_column_name(match[1]), match[2], bound)


def metric_column_name(text: str) -> str:
    """Return the column name of a metric from its display name: log_likelihood for `log-likelihood`."""
    return re.sub(r"[ -]+", "_", text.strip())


# Formats ------------------------------------------------------------------------------------------------------


DIGITS = 4  # significant digits in a table on a terminal
SHOWN_DIGITS = 5  # significant digits of a metric that is printed on a line of its own


def display_text(value: Value, digits: int = 6) -> str:
    """Return a value for display, with `digits` significant digits; '' for a missing value."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def value_with_error(value: Value, error: Value = None) -> str:
    """Return a metric with its standard error to two digits and matching decimals; without an error, to SHOWN_DIGITS digits."""
    if not isinstance(value, (int, float)) or not isinstance(error, (int, float)) or not error or not math.isfinite(error):
        return display_text(value, SHOWN_DIGITS)
    decimals = max(0, 1 - math.floor(math.log10(abs(error))))
    most = max(0, SHOWN_DIGITS - 1 - (math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0))
    return f"{value:.{min(decimals, most)}f} ± {error:.2g}" if abs(error) < 100 else f"{value:.0f} ± {error:.0f}"


def exact_text(value: Value) -> str:
    """Return a value for programs: a number that reads back as the same float64, '' for a missing value."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(float(value)) if isinstance(value, float) else str(value)


def _csv_cell(value: Value) -> str:
    """Return a value as CSV and TSV hold it."""
    return csv_text(value) if isinstance(value, str) else exact_text(value)


def to_tsv(rows: Sequence[Row]) -> str:
    """Return tab-separated text with a header line; tabs and line ends inside text become blanks."""
    columns = all_columns(rows)
    lines = [[csv_text(column) for column in columns]] + [[_csv_cell(row.get(column)) for column in columns] for row in rows]
    return "".join("\t".join(re.sub(r"[\t\r\n]", " ", cell) for cell in line) + "\n" for line in lines)


def to_csv(rows: Sequence[Row]) -> str:
    """RFC 4180 with a header line, lines ended by \\n."""
    columns = all_columns(rows)
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow([csv_text(column) for column in columns])
    writer.writerows([_csv_cell(row.get(column)) for column in columns] for row in rows)
    return target.getvalue()


TRUTHS = {"converged"}  # columns of yes or no, which are 1 and 0 in numeric tables


def to_json(rows: Sequence[Row]) -> str:
    """Return a JSON list of objects with every column of their kind; null for missing and non-finite values.

    Each `verdict` is followed by its `verdict_code`.
    """
    rows = [_with_verdict_code(row) for row in rows]
    columns = {group[0].get("kind"): all_columns(group) for group in split_by_kind(rows)}

    def plain(column: str, value: Value) -> Value:
        if column in TRUTHS and value is not None:
            return bool(value)
        return None if isinstance(value, float) and not math.isfinite(value) else value

    objects = [{column: plain(column, row.get(column)) for column in columns[row.get("kind")]} for row in rows]
    return json.dumps(objects, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _with_verdict_code(row: Row) -> Row:
    """Return the row with the code of its verdict after it; unchanged without a verdict."""
    found: Row = {}
    for column, value in row.items():
        found[column] = value
        if column == "verdict":
            found["verdict_code"] = verdict_code(None if value is None else str(value))
    return found


def _table_cells(rows: Sequence[Row]) -> tuple[list[str], list[list[str]], list[bool]]:
    """Return header, display cells, and the columns with numbers (which are right-aligned)."""
    columns = all_columns(rows)
    numeric = [not any(isinstance(row.get(column), str) for row in rows) for column in columns]
    return columns, [[display_text(row.get(column)) for column in columns] for row in rows], numeric


def split_by_kind(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows of each kind, kinds in order of first appearance: a separate table for each."""
    groups: dict[Value, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.get("kind"), []).append(row)
    return list(groups.values())


def drop_empty_columns(rows: Sequence[Row]) -> list[Row]:
    """Return the rows without the columns that are empty in all of them."""
    kept = [column for column in all_columns(rows) if any(exact_text(row.get(column)) for row in rows)]
    return [{column: row.get(column) for column in kept} for row in rows]


def count_kinds(rows: Sequence[Row]) -> int:
    """Return the number of kinds of artifacts among the rows."""
    return len({row.get("kind") for row in rows})


LONG = ("file", "kind", "figure", "value")


def to_long_rows(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each metric that is not missing: file, kind, its name and its value, as text if it is text."""
    return [
        dict(zip(LONG, (row.get("file"), row.get("kind"), name, value), strict=True))
        for row in rows
        for name, value in row.items()
        if name not in ("file", "kind") and exact_text(value)
    ]


def machine_readable_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows for programs: without empty columns; for several kinds, one row for each metric."""
    return drop_empty_columns(rows) if count_kinds(rows) < 2 else to_long_rows(rows)


def to_aligned_text(rows: Sequence[Row]) -> str:
    """Return text for a terminal: a table per kind, aligned columns, none of them empty, four digits, '–' for missing values."""
    return "\n".join(_align_table(drop_empty_columns(group)) for group in split_by_kind(rows))


def _align_table(rows: Sequence[Row]) -> str:
    columns, _, numeric = _table_cells(rows)
    cells = [[display_text(row.get(column), DIGITS) for column in columns] for row in rows]
    lines = [[escape_text(cell) or "–" for cell in line] for line in [columns, *cells]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]

    def padded(line: list[str]) -> str:
        return "  ".join(
            cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(line, widths, numeric, strict=True)
        )

    return "".join(padded(line).rstrip() + "\n" for line in lines)


def to_markdown(rows: Sequence[Row]) -> str:
    """Return a Markdown pipe table with numbers right-aligned."""
    columns, cells, numeric = _table_cells(rows)
    lines = [[_escape_markdown(name) for name in columns], ["---:" if right else "---" for right in numeric]] + [
        [_escape_markdown(cell) for cell in line] for line in cells
    ]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _escape_markdown(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {c: "\\" + c for c in "&%$#_{}"}


def to_latex(rows: Sequence[Row]) -> str:
    """Return a LaTeX tabular with \\hline rules and numbers right-aligned, which needs no package."""

    def escape(text: str) -> str:
        return "".join(LATEX.get(character, character) for character in text.replace("\n", " "))

    columns, cells, numeric = _table_cells(rows)
    lines = [" & ".join(escape(cell) for cell in line) + r" \\" for line in [columns, *cells]]
    head = r"\begin{tabular}{" + "".join("r" if right else "l" for right in numeric) + "}"
    return "\n".join([head, r"\hline", lines[0], r"\hline", *lines[1:], r"\hline", r"\end{tabular}"]) + "\n"


FORMATS: dict[str, Callable[[Sequence[Row]], str]] = {
    "tsv": to_tsv,
    "aligned": to_aligned_text,
    "json": to_json,
    "csv": to_csv,
    "markdown": to_markdown,
    "latex": to_latex,
}
