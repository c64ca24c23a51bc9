"""The text dialect that a user declares: the encoding, and the way numbers are written.

The dialect applies to every input of a command.  It is a context variable, as in `numpy.errstate`: the session sets it while a command
runs.  The options of each load (`load_options`) carry the dialect along, so that no reader needs an argument for it.
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
    """The options of a text dialect.

    thousands  the separator of groups of digits: `,` `.` `'` or a blank, which stands for every kind of blank; None: no groups.
    decimal    the decimal separator: `.` or `,`; None: detected from the text.
    percent    12 % is read as 0.12.      currency  $1.50 is read as 1.5, and (1.50), as accountants write it, as -1.5.
    encoding   the encoding of the text; None: UTF-8, else detected.
    """

    thousands: str | None = None
    decimal: str | None = None
    percent: bool = False
    currency: bool = False
    encoding: str | None = None

    @property
    def decimal_separator(self) -> str | None:
        """The decimal separator, if it is declared or follows from the separator of thousands."""
        return self.decimal or {",": ".", ".": ","}.get(self.thousands or "")

    @property
    def declares_numbers(self) -> bool:
        """Return whether anything is declared about numbers."""
        return bool(self.thousands or self.decimal or self.percent or self.currency)

    def record(self) -> dict[str, object]:
        """Return the declared options, as the history records them."""
        return {name: value for name in RECORDED if (value := getattr(self, name))}


def dialect_from_options(named: Mapping[str, Any]) -> TextDialect:
    """Return the dialect of options by name; None stands for an option that was not typed.

    Raises BadUsage for two equal separators and for an unknown encoding.
    """
    thousands = "'" if named["thousands"] == "\u2019" else named["thousands"]  # both are apostrophes, and both are read
    if named["thousands"] is not None and named["thousands"] == named["decimal"]:
        raise BadUsage(
            "--thousands and --decimal must be different characters", hint="for numbers such as 1.234,5 use --thousands . --decimal ,"
        )
    known = None if named["encoding"] is None else python_encoding_name(named["encoding"], where="--encoding")
    return TextDialect(thousands, named["decimal"], bool(named["percent"]), bool(named["currency"]), known)


def dialect_from_history(parameters: Mapping[str, object], *, where: str) -> TextDialect:
    """Return the dialect that a history records.  Raises DataError for a dialect that no user could have declared."""
    found = {name: parameters[name] for name in RECORDED if name in parameters}
    allowed = {"thousands": THOUSANDS, "decimal": DECIMAL, "percent": (True,), "currency": (True,)}
    for name, value in found.items():
        if name in allowed and value not in allowed[name]:
            raise DataError(f"its history has the invalid value {value!r} for {name}", where=where)
    if "encoding" in found:
        found["encoding"] = python_encoding_name(str(found["encoding"]), where=where)
    return TextDialect(**found)  # type: ignore[arg-type]


def python_encoding_name(name: str, *, where: str) -> str:
    """Return Python's name of a text encoding.  Raises DataError for an unknown encoding, and for a codec that is no text encoding."""
    try:
        found = codecs.lookup(name)
        "1".encode(found.name)
    except (LookupError, ValueError, UnicodeError):
        hint = "use an encoding such as utf-8, utf-16, latin-1, cp1252, shift_jis or gb18030"
        raise BadUsage(f"'{name}' is not an encoding of text", where=where, hint=hint) from None
    return found.name


PLAIN = TextDialect()
_current: ContextVar[TextDialect] = ContextVar("dialect", default=PLAIN)


def current_dialect() -> TextDialect:
    """Return the dialect in which inputs are read now."""
    return _current.get()


@contextmanager
def use_dialect(dialect: TextDialect) -> Iterator[None]:
    """Read inputs in this dialect while the body runs."""
    token = _current.set(dialect)
    try:
        yield
    finally:
        _current.reset(token)
