"""The options of `herd data`."""

from __future__ import annotations

from herdcli.cli.frame.history.request import unrecorded
from herdcli.cli.frame.options.declaration import Excludes, flag
from herdcli.records import dataclass

SHIPPED = ("digits",)
ONE_TASK, HINT = "NAME, --list and --all exclude each other", "give one of them"


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments and options of `herd data`."""

    name: str | None = unrecorded()
    accept_licence: bool = flag(
        record=unrecorded(), help="Download sets that state no licence, or allow research or non-commercial use only."
    )
    where: bool = flag(record=unrecorded(), help="Print where the set is kept, or the folder of all sets, and stop.")
    all_sets: bool = flag(
        "--all",
        record=unrecorded(),
        only=Excludes("name", refusal=ONE_TASK, hint=HINT),
        help="Download every set that the figures and tables of the papers are made of.",
    )
    list_sets: bool = flag(
        "--list",
        record=unrecorded(),
        only=Excludes("name", "all_sets", refusal=ONE_TASK, hint=HINT),
        help="List the sets: size, contents, figures, licence, origin, and whether each is here.",
    )
