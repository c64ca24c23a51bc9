"""What `--query` asks, as text: marginals, log-z, bounds, mpe, mmap:A,B, joint:A,B,C, sensitivity:A=STATE, dsep:A,B|C, independent:A|C.

Names with a comma, a bar or blanks at their ends stand in quotes.
"""

from __future__ import annotations

from herdcli.markov.model.naming import places_of, split_names, unquoted
from herdcli.records import dataclass

ALONE = ("marginals", "log-z", "bounds", "mpe")
WITH_NAMES = ("mmap", "joint")
WITH_STATE = ("sensitivity",)
OF_GRAPH = ("dsep", "independent")
FORMS = "marginals, log-z, bounds, mpe, mmap:A,B, joint:A,B,C, sensitivity:A=STATE, dsep:A,B|C, independent:A|C"


@dataclass(frozen=True)
class Query:
    """kind, and the names of variables that follow it; state  the name of one, of sensitivity; given  names behind a bar."""

    kind: str
    names: tuple[str, ...] = ()
    state: str = ""
    given: tuple[str, ...] = ()


def parse(text: str) -> Query:
    """The query of a text.  Raises ValueError for none."""
    kind, colon, rest = text.partition(":")
    if kind in ALONE and not colon:
        return Query(kind)
    if kind in WITH_NAMES and (names := tuple(split_names(rest))):
        return Query(kind, names)
    if kind in WITH_STATE and (signs := places_of(rest, "=")):
        name, state = unquoted(rest[: signs[-1]].strip()), unquoted(rest[signs[-1] + 1 :].strip())
        if name and state and not places_of(rest[: signs[-1]], ","):
            return Query(kind, (name,), state)
    if kind in OF_GRAPH:
        bar = (places_of(rest, "|") or [len(rest)])[0]
        names, given = tuple(split_names(rest[:bar])), tuple(split_names(rest[bar + 1 :]))
        if len(names) == (2 if kind == "dsep" else 1):
            return Query(kind, names, given=given)
    raise ValueError(f"is none of {FORMS}")
