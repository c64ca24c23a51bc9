"""What `--query` asks, as text: marginals, log-z, bounds, mpe, mmap:A,B, joint:A,B,C, sensitivity:A=STATE."""

from __future__ import annotations

from herdcli.records import dataclass

ALONE = ("marginals", "log-z", "bounds", "mpe")
WITH_NAMES = ("mmap", "joint")
WITH_STATE = ("sensitivity",)
FORMS = "marginals, log-z, bounds, mpe, mmap:A,B, joint:A,B,C, sensitivity:A=STATE"


@dataclass(frozen=True)
class Query:
    """kind, and the names of variables that follow it; state  the name of one, of sensitivity."""

    kind: str
    names: tuple[str, ...] = ()
    state: str = ""


def parse(text: str) -> Query:
    """The query of a text.  Raises ValueError for none."""
    kind, colon, rest = text.partition(":")
    names = tuple(name.strip() for name in rest.split(",") if name.strip())
    if kind in ALONE and not colon:
        return Query(kind)
    if kind in WITH_NAMES and names:
        return Query(kind, names)
    if kind in WITH_STATE and len(names) == 1:
        name, equals, state = names[0].rpartition("=")
        if name and equals and state:
            return Query(kind, (name,), state)
    raise ValueError(f"is none of {FORMS}")
