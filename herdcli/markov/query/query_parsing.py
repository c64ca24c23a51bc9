"""Parsing of `--query`: marginals, log-z, bounds, mpe, mmap:A,B, joint:A,B,C, sensitivity:A=STATE, dsep:A,B|C, independent:A|C.

Names with a comma, a bar or blanks at their ends are quoted.
"""

from __future__ import annotations

from herdcli.markov.model.variable_names import find_unquoted, split_names, strip_quotes
from herdcli.records import dataclass

ALONE = ("marginals", "log-z", "bounds", "mpe")
WITH_NAMES = ("mmap", "joint")
WITH_STATE = ("sensitivity",)
OF_GRAPH = ("dsep", "independent")
FORMS = "marginals, log-z, bounds, mpe, mmap:A,B, joint:A,B,C, sensitivity:A=STATE, dsep:A,B|C, independent:A|C"


@dataclass(frozen=True)
class Query:
    """A query.

    kind   the word before the colon.
    names  the names of variables after it.
    state  the name of a state, for sensitivity.
    given  names after a bar.
    """

    kind: str
    names: tuple[str, ...] = ()
    state: str = ""
    given: tuple[str, ...] = ()


def parse_query(text: str) -> Query:
    """Parse a query.  Raises ValueError for an invalid text."""
    kind, colon, rest = text.partition(":")
    if kind in ALONE and not colon:
        return Query(kind)
    if kind in WITH_NAMES and (names := tuple(split_names(rest))):
        return Query(kind, names)
    if kind in WITH_STATE and (signs := find_unquoted(rest, "=")):
        name, state = strip_quotes(rest[: signs[-1]].strip()), strip_quotes(rest[signs[-1] + 1 :].strip())
        if name and state and not find_unquoted(rest[: signs[-1]], ","):
            return Query(kind, (name,), state)
    if kind in OF_GRAPH:
        bar = (find_unquoted(rest, "|") or [len(rest)])[0]
        names, given = tuple(split_names(rest[:bar])), tuple(split_names(rest[bar + 1 :]))
        if len(names) == (2 if kind == "dsep" else 1):
            return Query(kind, names, given=given)
    raise ValueError(f"is none of {FORMS}")
