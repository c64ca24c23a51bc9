"""Text in CSV and TSV that no spreadsheet takes for a formula.

Spreadsheets run a cell that begins with one of `= + - @`, a tab or a carriage return as a formula, even in quotes.  With an apostrophe
before it, the cell is text (OWASP, "CSV Injection").  Whether texts get one is a context variable, as in `numpy.errstate`: the session sets
it while a command runs, so that no writer needs an argument for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:inf|nan)")
_escaped: ContextVar[bool] = ContextVar("escape_formulas", default=False)


@contextmanager
def use_safe_csv(safe: bool) -> Iterator[None]:
    """Write an apostrophe before texts that look like formulas while the body runs, if `safe`."""
    token = _escaped.set(safe)
    try:
        yield
    finally:
        _escaped.reset(token)


def escapes_formulas() -> bool:
    """Return whether texts that look like formulas get an apostrophe now."""
    return _escaped.get()


def csv_text(text: str) -> str:
    """Return a name or a cell of text as CSV holds it: with an apostrophe if it looks like a formula and `use_safe_csv` is on.

    Numbers stay as they are, with their sign.
    """
    return f"'{text}" if _escaped.get() and _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text
