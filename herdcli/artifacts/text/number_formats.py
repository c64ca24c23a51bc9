"""Formatted numbers: 1,234  1.234,5  12 %  $1.50  (1)  −1  1 234.  They are read if the dialect allows them, else suggested.

A Unicode minus sign, blanks around a number and Fortran's exponents are unambiguous and always accepted.  Groups of digits,
decimal commas, percentages and amounts of money change values, so the user must declare them; `propose_dialect` finds the options
that read a column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

from herdcli.dialect import TextDialect
from herdcli.records import dataclass

MARKS = frozenset({"", "?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "#N/A", "."})  # common notations of a missing value
BLANKS = "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"  # blanks other than the ASCII blank
ZEROS = "\u0660\u06f0\u0966\u09e6\u0e50\uff10"  # Arabic, Persian, Devanagari, Bengali, Thai, full width; 1 to 9 follow each
_ASCII = str.maketrans(
    dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\ufe63\uff0d", "-")
    | dict.fromkeys(BLANKS, " ")
    | {chr(ord(zero) + digit): str(digit) for zero in ZEROS for digit in range(10)}
    | dict(zip("\u066b\uff0e\u066c\uff0c\uff0b\u066a\uff05", "..,,+%%", strict=True))
)
_MONEY = "$\u20ac\u00a3\u00a5\u20b9\u20a9\u20bd\u20ba\u20ab\u0e3f\u20aa\u20b4\u00a2"
_CODE = "USD|EUR|GBP|JPY|CHF|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|KRW|SGD|HKD|TRY|Fr\\.?|kr\\.?|R\\$|z\u0142"
_AMOUNT = re.compile(
    rf"([-+]?)\s*(?:[{_MONEY}]|{_CODE})?\s*([-+]?[\d.,' \u2019]*\d[\d.,' \u2019]*(?:[eE][-+]?\d+)?)\s*(?:[{_MONEY}]|{_CODE})?"
)
_GROUPED = {mark: re.compile(rf"[-+]?\d{{1,3}}(?:[{mark}]\d{{2,3}})*[{mark}]\d{{3}}(?![\d{mark}]).*") for mark in (",", ".", " ", "'")}
_FORTRAN = re.compile(r"^([-+]?(?:\d+\.?\d*|\.\d+))[dD]([-+]?\d+)$")
_POWER = re.compile(
    r"^([-+]?(?:\d+\.?\d*|\.\d+))\s*[\u00d7x*\u00b7\u22c5]\s*10\s*(?:\^\s*\(?([-+]?\d+)\)?|([\u207a\u207b]?[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+))$"
)
_SUPERSCRIPTS = str.maketrans("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a\u207b", "0123456789+-")
_QUOTED = re.compile(r"=?(['\"])(.*)\1")
_DIGIT = re.compile(r"\d")
_UNDERSCORED = re.compile(r"[-+]?\d{1,3}(?:_\d{3})+(?:\.\d*)?")
_MEASURED = re.compile(
    r"([<>\u2264\u2265~\u2248]?)\s*[-+]?[\d.,]*\d\s*([^\W\d_\u00b5\u00b0/]?[^\W\d_]{0,5}(?:[/\u00b2\u00b3\u00b0\u00b5][^\W\d_]{0,4})*)"
)
_MAGNITUDES = frozenset("kKMBGTm") | {"", "mn", "bn", "Mio", "Mrd"}  # 1.5k, 2M
_ORDINALS = frozenset({"st", "nd", "rd", "th"})


def parse_plain_number(text: str) -> float | None:
    """Return the number that a text means in Python; None for other texts, and for 10_1, which only Python would read as 101."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def parse_number(text: str, dialect: TextDialect) -> float | None:
    """Return the number that a text means in a dialect; None for other texts."""
    text = _normalise_characters(text)
    negative, share = False, 1
    if dialect.percent and text.endswith(("%", "\u2030")):
        text, share = text[:-1].rstrip(), 100 if text.endswith("%") else 1000
    if dialect.currency:
        if text.startswith("(") and text.endswith(")"):
            text, negative = text[1:-1].strip(), True
        elif text.endswith("-") and not text.startswith(("-", "+")):  # the notation of SAP
            text, negative = text[:-1].rstrip(), True
        if (found := _AMOUNT.fullmatch(text)) is None:
            return None
        text = found[1] + found[2].strip()
    plain = _remove_grouping(text, dialect)
    value = None if plain is None else parse_plain_number(plain)
    if value is None:
        return None
    return (-value if negative else value) / share


def _normalise_characters(text: str) -> str:
    """Return a text with ASCII digits, minus signs, blanks and exponents: Fortran's 1.5D+03 and 1.5 × 10³ become 1.5e+03 and 1.5e3."""
    plain = text.translate(_ASCII).strip()
    if (found := _POWER.match(plain)) is not None:
        return f"{found[1]}e{found[2] or found[3].translate(_SUPERSCRIPTS)}"
    return _FORTRAN.sub(r"\1e\2", plain)


def _remove_grouping(text: str, dialect: TextDialect) -> str | None:
    """Return a text without group separators and with a decimal point; None if the separators are misplaced."""
    mark, point = dialect.thousands, dialect.decimal_separator or "."
    text = text.replace("\u2019", "'") if mark == "'" else text
    if mark and mark in text:
        whole, _, rest = text.partition(point)
        if not _GROUPED[mark].fullmatch(whole) or mark in rest:
            return None
        text = text.replace(mark, "")
    if point == ",":
        return None if "." in text else text.replace(",", ".", 1)
    return text


def has_unambiguous_variant(text: str) -> bool:
    """Return whether a text is a number in an unambiguous variant: digits, blanks or a minus sign beyond ASCII, other exponents."""
    foreign = parse_plain_number(text) is None or any(character.isdigit() and not character.isascii() for character in text)
    return foreign and parse_plain_number(_normalise_characters(text)) is not None


@dataclass(frozen=True)
class DialectProposal:
    """Options that read a column, and the number of cells that they read."""

    dialect: TextDialect
    cells: int

    @property
    def options(self) -> str:
        """The options as typed; empty if none is needed."""
        return dialect_options(self.dialect)


def dialect_options(dialect: TextDialect) -> str:
    """Return the options that declare a dialect's numbers, as typed."""
    typed = []
    if dialect.thousands:
        typed.append({"'": '--thousands "\'"', " ": "--thousands ' '"}.get(dialect.thousands, f"--thousands {dialect.thousands}"))
    if dialect.decimal and not (dialect.thousands and TextDialect(thousands=dialect.thousands).decimal_separator == dialect.decimal):
        typed.append(f"--decimal {dialect.decimal}")
    typed += ["--percent"] * dialect.percent + ["--currency"] * dialect.currency
    return " ".join(typed)


def _candidate_dialects(dialect: TextDialect) -> list[TextDialect]:
    """Return the dialects that agree with the declared options, the plainest first."""
    found = []
    for thousands, decimal, percent, currency in product((None, ",", ".", " ", "'"), (None, ","), (False, True), (False, True)):
        one = TextDialect(
            dialect.thousands or thousands, dialect.decimal or decimal, dialect.percent or percent, dialect.currency or currency
        )
        if (not one.thousands or one.thousands != (one.decimal_separator or ".")) and one not in found:
            found.append(one)
    return sorted(found, key=_plainness_key)


def _plainness_key(one: TextDialect) -> tuple[int, int]:
    """Return a sort key: the number of options, and how common the separators are."""
    count = bool(one.thousands) + bool(one.decimal) + one.percent + one.currency
    return count, 0 if one.thousands == "," else 1 if one.decimal and not one.thousands else 2


def propose_dialect(texts: Sequence[str], dialect: TextDialect) -> DialectProposal:
    """Return the plainest dialect that reads most of the nonempty texts.  dialect  the options declared already."""
    best = DialectProposal(dialect, -1)
    for one in _candidate_dialects(dialect):
        cells = sum(parse_number(text, one) is not None for text in texts)
        if cells > best.cells:
            best = DialectProposal(one, cells)
    return best


def looks_like_number(text: str) -> bool:
    """Return whether some dialect reads a text as a number, ignoring quotes and Excel's ="…"."""
    found = _QUOTED.fullmatch(text.strip())
    bare = found[2] if found else text
    if _DIGIT.search(bare) is None:
        return False
    return _UNDERSCORED.fullmatch(bare) is not None or any(parse_number(bare, one) is not None for one in _EVERY)


def find_unit(text: str) -> str | None:
    """Return the unit in a text such as 5 kg, 1.5k or <5, or the sign before its number; None for other texts."""
    found = _MEASURED.fullmatch(text.strip())
    return None if found is None or found[2] in _ORDINALS else found[2] or found[1]


def common_unit(texts: Sequence[str]) -> str | None:
    """Return the common unit of all texts; bare numbers, thousands and millions may be among them."""
    units = [find_unit(text) for text in texts]
    if any(unit is None for unit in units):
        return None
    found = sorted({unit for unit in units if unit} - {"<", ">", "~"}) or sorted({unit for unit in units if unit})
    return found[0] if len(found) == 1 or (found and set(found) <= _MAGNITUDES) else None


def alternative_dialect(texts: Sequence[str], chosen: TextDialect) -> TextDialect | None:
    """Return another dialect that reads all texts with other values (1,234 is 1234 or 1.234); None if the reading is unique."""
    for one in _candidate_dialects(TextDialect(percent=chosen.percent, currency=chosen.currency)):
        if one != chosen and one.declares_numbers and bool(one.thousands) != bool(chosen.thousands):
            values = [(parse_number(text, one), parse_number(text, chosen)) for text in texts]
            if all(ours is not None for ours, _ in values) and any(ours != theirs for ours, theirs in values):
                return one
    return None


_EVERY = tuple(_candidate_dialects(TextDialect()))


def format_number(value: float) -> str:
    """Format a number for a message."""
    return f"{value:.12g}"
