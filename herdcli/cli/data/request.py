"""The options of `herd data`."""

from __future__ import annotations

from herdcli.cli.frame.history.request import unrecorded_field
from herdcli.cli.frame.options.declaration import Excludes, flag
from herdcli.records import dataclass

SHIPPED = ("digits",)
ONE_TASK, HINT = "NAME, --list and --all exclude each other", "give one of them"


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments and options of `herd data`."""

    name: str | None = unrecorded_field()
    accept_licence: bool = flag(
        record=unrecorded_field(), help="Also download data sets without a stated licence, or for research or non-commercial use only."
    )
    where: bool = flag(record=unrecorded_field(), help="Print the path of the data set, or of the folder of all sets, and stop.")
    all_sets: bool = flag(
        "--all",
        record=unrecorded_field(),
        only=Excludes("name", refusal=ONE_TASK, hint=HINT),
        help="Download all data sets that the figures and tables of the papers need.",
    )
    list_sets: bool = flag(
        "--list",
        record=unrecorded_field(),
        only=Excludes("name", "all_sets", refusal=ONE_TASK, hint=HINT),
        help="List the data sets: size, contents, use in the papers, licence, origin, and whether each is downloaded.",
    )
