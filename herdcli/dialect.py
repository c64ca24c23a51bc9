"""The dialect of text that a user declares: its encoding, and how its numbers are written.

The dialect holds for every input of a command.  It is a context variable, as `numpy.errstate` is one: the session sets it for the length
of a command, and whoever asks for an input (`Asked`) carries it along, so that no reader has an argument for it.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from herdcli.errors import BadUsage, DataError
from herdcli.records import dataclass

THOUSANDS = (",", ".", " ", "'")
DECIMAL = (".", ",")
RECORDED = ("thousands", "decimal", "percent", "currency", "encoding")


@dataclass(frozen=True)
class TextDialect:
    """thousands  the mark between groups of digits: `,` `.` `'` or a blank, which stands for every kind of blank; None: no groups.

    decimal   the mark before the fraction: `.` or `,`; None: as the text looks.
    percent   12 % is read as 0.12.      currency  $1.50 is read as 1.5, and (1.50), as accountants write it, as -1.5.
    encoding  of text; None: UTF-8, else as it looks.
    """

    thousands: str | None = None
    decimal: str | None = None
    percent: bool = False
    currency: bool = False
    encoding: str | None = None

    @property
    def point(self) -> str | None:
        """The mark before the fraction where it is declared, or follows from the mark of thousands."""
        return self.decimal or {",": ".", ".": ","}.get(self.thousands or "")

    @property
    def numeric(self) -> bool:
        """Is anything declared of the numbers?"""
        return bool(self.thousands or self.decimal or self.percent or self.currency)

    def record(self) -> dict[str, object]:
        """What a history says of it: what is declared."""
        return {name: value for name in RECORDED if (value := getattr(self, name))}


def dialect_from_options(given: Mapping[str, Any]) -> TextDialect:
    """The dialect of options by name, None where not typed.  Raises BadUsage for marks that are the same, and an unknown encoding."""
    if given["thousands"] is not None and given["thousands"] == given["decimal"]:
        raise BadUsage("--thousands and --decimal name the same mark", hint="a number such as 1.234,5 has --thousands . --decimal ,")
    known = None if given["encoding"] is None else check_encoding(given["encoding"], where="--encoding")
    return TextDialect(given["thousands"], given["decimal"], bool(given["percent"]), bool(given["currency"]), known)


def dialect_from_history(parameters: Mapping[str, object], *, where: str) -> TextDialect:
    """The dialect of a history.  Raises DataError for what no user could have declared."""
    found = {name: parameters[name] for name in RECORDED if name in parameters}
    allowed = {"thousands": THOUSANDS, "decimal": DECIMAL, "percent": (True,), "currency": (True,)}
    for name, value in found.items():
        if name in allowed and value not in allowed[name]:
            raise DataError(f"its history declares {name} {value!r}", where=where)
    if "encoding" in found:
        found["encoding"] = check_encoding(str(found["encoding"]), where=where)
    return TextDialect(**found)  # type: ignore[arg-type]


def check_encoding(name: str, *, where: str) -> str:
    """The name of an encoding of text, as Python has it.  Raises DataError for one that is unknown, or no encoding of text."""
    try:
        found = codecs.lookup(name)
        "1".encode(found.name)
    except (LookupError, ValueError, UnicodeError):
        hint = "such as utf-8, utf-16, latin-1, cp1252, shift_jis, gb18030"
        raise BadUsage(f"'{name}' is not an encoding of text", where=where, hint=hint) from None
    return found.name


PLAIN = TextDialect()
_current: ContextVar[TextDialect] = ContextVar("dialect", default=PLAIN)


def current_dialect() -> TextDialect:
    """The dialect that inputs are read in."""
    return _current.get()


@contextmanager
def use_dialect(dialect: TextDialect) -> Iterator[None]:
    """Inputs are read in this dialect while the body runs."""
    token = _current.set(dialect)
    try:
        yield
    finally:
        _current.reset(token)
