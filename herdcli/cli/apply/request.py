"""What a user asks of `herd apply`."""

from __future__ import annotations

from herdcli.cli.frame.request import input_file, unrecorded, where_changed, where_given
from herdcli.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd apply`; names and meanings are those of its --help."""

    model: str = input_file()
    source: str = input_file()
    input_format: str | None = unrecorded()
    want: str | None
    split: str | None
    threshold: float | None
    value_range: tuple[float, float] | None
    label: str | None
    sequence: str | None = where_given()
    particles: int | None = where_given()
    seed: int
    explain: int | None = where_given()
    exact: bool = where_changed(False)
