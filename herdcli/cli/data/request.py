"""The options of `herd data`."""

from __future__ import annotations

from herdcli.cli.frame.request import unrecorded
from herdcli.records import dataclass

SHIPPED = ("digits",)


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments and options of `herd data`."""

    name: str | None = unrecorded()
    list_sets: bool = unrecorded()
    all_sets: bool = unrecorded()
    where: bool = unrecorded()
    accept_licence: bool = unrecorded()
