"""The table of unit families of a harmonium layer.  A new family is one file of this folder, with a class, and one line here."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, cast

from herdcli.errors import BadUsage
from herdcli.parts import resolve
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.rbm.units.base import Family

MOST = 1000  # replicas of a rate unit, columns of a softmax unit


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the table.

    path     the class, a Family; made of the number in its name, if it has one.
    values   what its units are, a few words for the help.
    number   the letter of the number in its name, and the least; the most is 1000.
    exact    whether every number is made without the C library, as --exact needs it.
    """

    path: str
    values: str
    number: tuple[str, int] | None = None
    exact: bool = False

    def typed(self, name: str) -> str:
        """Its name as help shows it: rate:N."""
        return f"{name}:{self.number[0]}" if self.number else name


TABLE: dict[str, Entry] = {
    "binary": Entry(path="herdcli.rbm.units.two_state.Binary", values="{0,1}", exact=True),
    "spin": Entry(path="herdcli.rbm.units.two_state.Spin", values="{−1,+1}", exact=True),
    "rate": Entry(path="herdcli.rbm.units.rate.Rate", values="(0 to 1 in steps of 1/N)", number=("N", 1)),
    "gaussian": Entry(path="herdcli.rbm.units.gaussian.Gaussian", values="(variance 1)", exact=True),
    "poisson": Entry(path="herdcli.rbm.units.poisson.Poisson", values="(counts)"),
    "softmax": Entry(path="herdcli.rbm.units.softmax.Softmax", values="(one of K columns)", number=("K", 2), exact=True),
    "words": Entry(path="herdcli.rbm.units.words.Words", values="(counts of words, visible)"),
}


def names() -> list[str]:
    """The families as they are typed, a letter for a number: binary, rate:N."""
    return [entry.typed(name) for name, entry in TABLE.items()]


@lru_cache(maxsize=64)
def family(name: str) -> Family:
    """The family of a name as stored in artifacts and written on the command line; NAME+softmax:K has a label after its columns.

    Raises BadUsage for others.
    """
    from herdcli.rbm.units.base import Family

    columns, plus, label = name.partition("+")
    if plus and columns in TABLE and TABLE[columns].number is None and label.partition(":")[0] == "softmax":
        from herdcli.rbm.units.labelled import Labelled
        from herdcli.rbm.units.softmax import Softmax

        if not (units := family(columns)).multinomial:
            return Labelled(units, cast(Softmax, family(label)))
    kind, colon, number = name.partition(":")
    entry = TABLE.get(kind)
    if entry is None or bool(colon) != bool(entry.number):
        raise _unknown(name)
    if entry.number is None:
        found: Family = resolve(entry.path, Family)
        return found
    if not (number.isascii() and number.isdecimal() and number[0] != "0" and len(number) <= 4):
        raise _unknown(name)
    least = entry.number[1]
    if not least <= int(number) <= MOST:
        raise BadUsage(f"{kind} units take a number from {least} to {MOST}, not {number}")
    parameterised: Family = resolve(entry.path, Family, int(number))
    return parameterised


def _unknown(name: str) -> BadUsage:
    return BadUsage(f"unknown units '{name}', expected one of {', '.join(names())}")
