"""A table about the contents of an artifact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from herdcli.evaluation.table import Row
from herdcli.records import dataclass

Levels = Mapping[str, Sequence[str]]  # column of text -> the names of its values
MOST_ROWS = 20  # of a table
MOST_COLUMNS = 12  # of data, shown as columns of a table


@dataclass(frozen=True)
class SummaryTable:
    """A title, rows of figures and words, and a line below them."""

    title: str
    rows: list[Row]
    note: str = ""


def limit_rows(title: str, rows: Sequence[Row], most: int = MOST_ROWS) -> SummaryTable:
    """A table of the first rows; the line below says how many there are where some are left out."""
    note = f"{len(rows) - most} more of {len(rows)}: herd info --format json has all" if len(rows) > most else ""
    return SummaryTable(title, list(rows[:most]), note)


def column_names(names: Sequence[str] | None, count: int) -> list[str]:
    """The names of columns, else x and their number."""
    return list(names) if names is not None else [f"x{k}" for k in range(count)]


def state_names(levels: Levels, variable: str, count: int) -> list[str]:
    """The names of the states of a variable as text in a table had them, else their numbers."""
    known = levels.get(variable, ())
    return list(known) if len(known) == count else [str(state) for state in range(count)]
