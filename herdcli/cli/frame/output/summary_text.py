"""The contents of a result as readable tables, for `herd info` and for commands whose result goes to a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from herdcli.cli.frame.output.text_tables import shorten_text, terminal_width, text_table
from herdcli.errors import escape_text
from herdcli.kinds import KINDS, kind_for_value
from herdcli.parts import import_by_path

if TYPE_CHECKING:
    from herdcli.artifacts.recoding import Recoding
    from herdcli.evaluation.summaries.summary_table import SummaryTable

DIGITS, MOST_CELL = 5, 160  # significant digits of a number, and characters of a cell
ROWS = "herdcli.evaluation.summaries.data.row_tables"  # the function for a data set that goes to a terminal: its first rows


def state_names_by_column(recoding: Recoding | None) -> Mapping[str, Sequence[str]]:
    """Return the names of the states by column, for columns that hold state numbers."""
    return recoding.levels if recoding and recoding.codes else {}


def summary_tables(kind: str, value: object, recoding: Recoding | None) -> list[SummaryTable]:
    """Return the tables of an artifact's contents; none for kinds without such tables."""
    path = KINDS[kind].summary
    found: list[SummaryTable] = [] if path is None else import_by_path(path)(value, state_names_by_column(recoding))
    return found


def result_text(value: object, recoding: Recoding | None) -> str:
    """Return the text of a result that goes to a terminal: the first rows of a data set, the tables of other kinds."""
    kind = kind_for_value(value).name
    tables = import_by_path(ROWS)(value, state_names_by_column(recoding)) if kind == "dataset" else summary_tables(kind, value, recoding)
    return tables_text(tables).lstrip("\n")


def tables_text(tables: Iterable[SummaryTable]) -> str:
    """Return each table below its title, folded to the width of the terminal, without empty columns."""
    from herdcli.evaluation.table import all_columns, display_text, drop_empty_columns

    text = ""
    for each in tables:
        rows = drop_empty_columns(each.rows)
        columns = all_columns(rows)
        lines = [[shorten_text(display_text(row.get(name), DIGITS), MOST_CELL) for name in columns] for row in rows]
        text += f"\n  {escape_text(each.title)}\n" + text_table(columns, lines, width=terminal_width(), indent=4, left=1)
        text += f"    {escape_text(each.note)}\n" if each.note else ""
    return text
