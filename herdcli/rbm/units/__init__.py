"""The table of unit families of a harmonium layer.  A new family is one file of this folder, with a class, and one line here."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, cast

from herdcli.errors import BadUsage
from herdcli.parts import instantiate_class
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.rbm.units.base import UnitFamily

MOST = 1000  # most replicas of a rate unit, and columns of a softmax unit


@dataclass(frozen=True, kw_only=True)
class FamilyEntry:
    """One line of the table.

    path     the class, a UnitFamily, constructed with the number in its name, if it has one.
    values   the values of its units, in a few words for the help.
    number   the letter of the number in its name, and the least number; the largest is 1000.
    exact    whether every number is computed without the C library, as --exact requires.
    """

    path: str
    values: str
    number: tuple[str, int] | None = None
    exact: bool = False

    def option_name(self, name: str) -> str:
        """Return its name as help shows it: rate:N."""
        return f"{name}:{self.number[0]}" if self.number else name


TABLE: dict[str, FamilyEntry] = {
    "binary": FamilyEntry(path="herdcli.rbm.units.two_state.BinaryUnits", values="{0,1}", exact=True),
    "spin": FamilyEntry(path="herdcli.rbm.units.two_state.SpinUnits", values="{−1,+1}", exact=True),
    "rate": FamilyEntry(path="herdcli.rbm.units.rate.RateUnits", values="(0 to 1 in steps of 1/N)", number=("N", 1)),
    "gaussian": FamilyEntry(path="herdcli.rbm.units.gaussian.GaussianUnits", values="(real, variance 1)", exact=True),
    "poisson": FamilyEntry(path="herdcli.rbm.units.poisson.PoissonUnits", values="(counts)"),
    "softmax": FamilyEntry(
        path="herdcli.rbm.units.softmax.SoftmaxUnits", values="(K categories in K 0/1 columns)", number=("K", 2), exact=True
    ),
    "words": FamilyEntry(path="herdcli.rbm.units.words.WordCountUnits", values="(word counts, visible units only)"),
}


def family_names() -> list[str]:
    """Return the names of the families as they are typed, with a letter for a number: binary, rate:N."""
    return [entry.option_name(name) for name, entry in TABLE.items()]


@lru_cache(maxsize=64)
def unit_family(name: str) -> UnitFamily:
    """Return the family with a name as stored in artifacts and written on the command line.

    NAME+softmax:K has a label after its columns.  softmax:3,2 has a unit of three columns and one of two; softmax leaves the numbers of
    columns to the data.

    Raises BadUsage for other names.
    """
    from herdcli.rbm.units.base import UnitFamily

    columns, plus, label = name.partition("+")
    if plus and columns in TABLE and TABLE[columns].number is None and label.partition(":")[0] == "softmax":
        from herdcli.rbm.units.labelled import LabelledUnits
        from herdcli.rbm.units.softmax import SoftmaxUnits

        if not (units := unit_family(columns)).multinomial:
            return LabelledUnits(units, cast(SoftmaxUnits, unit_family(label)))
    kind, colon, number = name.partition(":")
    entry = TABLE.get(kind)
    if kind == "softmax" and (not colon or "," in number):
        return _mixed_softmax_units(name, number)
    if entry is None or bool(colon) != bool(entry.number):
        raise _unknown_family_error(name)
    if entry.number is None:
        found: UnitFamily = instantiate_class(entry.path, UnitFamily)
        return found
    if not (number.isascii() and number.isdecimal() and number[0] != "0" and len(number) <= 4):
        raise _unknown_family_error(name)
    least = entry.number[1]
    if not least <= int(number) <= MOST:
        raise BadUsage(f"{kind}:N needs a number N from {least} to {MOST}, not {number}")
    parameterised: UnitFamily = instantiate_class(entry.path, UnitFamily, int(number))
    return parameterised


def _mixed_softmax_units(name: str, numbers: str) -> UnitFamily:
    """Return softmax units with the numbers of columns in a text, such as 3,2,4; an empty text leaves them to the data."""
    from herdcli.rbm.units.softmax import MixedSoftmaxUnits

    parts = numbers.split(",") if numbers else []
    if not all(part.isascii() and part.isdecimal() and part[0] != "0" and len(part) <= 4 for part in parts):
        raise _unknown_family_error(name)
    for part in parts:
        if not 2 <= int(part) <= MOST:
            raise BadUsage(f"softmax:K needs a number of states K from 2 to {MOST}, not {part}")
    return MixedSoftmaxUnits(tuple(map(int, parts)))


def _unknown_family_error(name: str) -> BadUsage:
    return BadUsage(f"unknown units '{name}', expected one of {', '.join(family_names())}")
