"""The columns of a table without numbers in the tables of `herd info`: text, identifiers and dates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from herdcli.artifacts.tables.column_profiles import MOSTLY_NUMBERS
from herdcli.cli.frame.output.text_tables import shorten_text
from herdcli.evaluation.summaries.data import MOST_SUMMARISED
from herdcli.evaluation.summaries.summary_table import MOST_COLUMNS, SummaryTable, limit_rows

if TYPE_CHECKING:
    from herdcli.artifacts.tables.column_profiles import ColumnProfile
    from herdcli.artifacts.tables.dataset_columns import TableReport
    from herdcli.evaluation.table import Row

MOST_CELL = 24  # characters of a cell in these tables


def add_column_profiles(tables: Sequence[SummaryTable], report: TableReport) -> list[SummaryTable]:
    """Return the tables of a data set with its columns of text, identifiers and dates.

    The head has all columns in the order of the file; a table of the other columns follows; numbers that identify rows say so.
    """
    found = [_adapt_table(table, report) for table in tables if table.rows or not report.profiles]
    if not report.profiles:
        return found
    return [*found, limit_rows("columns without numbers", [_profile_row(each) for each in report.profiles], MOST_SUMMARISED)]


def _adapt_table(table: SummaryTable, report: TableReport) -> SummaryTable:
    if table.title == "rows":
        kinds = _count_types(report.profiles)
        rows = [{name: item for name, item in row.items() if name != "columns" or item or not kinds} | kinds for row in table.rows]
        return SummaryTable("rows", rows, table.note)
    if table.title == "head" and report.profiles:
        return _head_with_text_columns(table, report)
    if table.title == "columns":
        rows = [row | {"type": "identifier"} if row["column"] in report.identifiers else row for row in table.rows]
        return SummaryTable("columns", rows, table.note)
    return table


def _count_types(profiles: Sequence[ColumnProfile]) -> Row:
    """Return the number of columns that are left out of computations."""
    return {"without numbers": len(profiles)} if profiles else {}


def _head_with_text_columns(table: SummaryTable, report: TableReport) -> SummaryTable:
    """Return the first rows with the columns of text and dates, in the order of the file."""
    cells = {each.name: each.first for each in report.profiles}
    known = [name for row in table.rows[:1] for name in row]
    leading = [name for name in known if name not in report.names]
    order = [*leading, *(name for name in report.names if name in known or name in cells)]
    shown = order[: len(leading) + MOST_COLUMNS]
    rows: list[Row] = []
    for k, row in enumerate(table.rows):
        texts: Row = {name: None if first[k] is None else shorten_text(str(first[k]), MOST_CELL) for name, first in cells.items()}
        rows.append({name: (row | texts)[name] for name in shown})
    left = len(report.names) - (len(shown) - len(leading))
    return SummaryTable(table.title, rows, f"{left} more columns" if left > 0 else "")


def _profile_row(profile: ColumnProfile) -> Row:
    """Return type, missing cells, distinct values and the most frequent ones, or the first and last date."""
    frequent = ", ".join(f"{shorten_text(text, MOST_CELL)} ({count})" for text, count in profile.frequent)
    row: Row = {"column": profile.name, "type": profile.type, "missing": profile.missing, "distinct": profile.distinct}
    if profile.low is not None:
        return row | {"values": f"{profile.low} to {profile.high}"}
    if profile.type == MOSTLY_NUMBERS:
        return row | {"values": f"not numbers: {frequent}"}
    if frequent:
        more = (profile.distinct or 0) > len(profile.frequent)
        return row | {"values": frequent + (", …" if more else "")}
    first = next((text for text in profile.first if text is not None), None)
    return row | {
        "values": None
        if first is None
        else f"{shorten_text(first, MOST_CELL)}, …"
        if profile.distinct != 1
        else shorten_text(first, MOST_CELL)
    }
