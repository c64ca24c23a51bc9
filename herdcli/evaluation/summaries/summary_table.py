"""A table about the contents of an artifact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from herdcli.evaluation.table import Row
from herdcli.records import dataclass

Levels = Mapping[str, Sequence[str]]  # text column -> the names of its values
MOST_ROWS = 20  # maximum number of rows of a table
MOST_COLUMNS = 12  # maximum number of columns of data that are columns of a table
_whole: ContextVar[bool] = ContextVar("whole", default=False)  # whether tables have all their rows


@contextmanager
def show_all_rows() -> Iterator[None]:
    """Make tables with all their rows, for programs."""
    token = _whole.set(True)
    try:
        yield
    finally:
        _whole.reset(token)


@dataclass(frozen=True)
class SummaryTable:
    """A title, rows of numbers and texts, and a note below them."""

    title: str
    rows: list[Row]
    note: str = ""


def limit_rows(title: str, rows: Sequence[Row], max_rows: int = MOST_ROWS) -> SummaryTable:
    """Return a table of the first rows; if some are left out, the note gives the number of all rows."""
    if _whole.get():
        return SummaryTable(title, list(rows))
    note = f"{len(rows) - max_rows} more of {len(rows)}: herd info --format json has all" if len(rows) > max_rows else ""
    return SummaryTable(title, list(rows[:max_rows]), note)


def column_names(names: Sequence[str] | None, count: int) -> list[str]:
    """Return the names of columns, or x and their number without names."""
    return list(names) if names is not None else [f"x{k}" for k in range(count)]


def state_names(levels: Levels, variable: str, count: int) -> list[str]:
    """Return the names of a variable's states as in the text of its table, else their numbers."""
    known = levels.get(variable, ())
    return list(known) if len(known) == count else [str(state) for state in range(count)]
