"""The arguments and options of `herd cv`."""

from __future__ import annotations

from herdcli.cli.frame.history.request import unrecorded_field
from herdcli.cli.frame.options.declaration import OUTPUT, choice_kind, integer_kind, option, repeated_option, text_kind
from herdcli.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments and options of `herd cv`."""

    fitted: str = unrecorded_field()
    words: tuple[str, ...] = unrecorded_field()
    folds: int = option(integer_kind(2), default=5, metavar="N", help="Number of folds.")
    requirements: tuple[str, ...] = repeated_option(
        text_kind(),
        "--require",
        metavar="COLUMN<NUMBER",
        group=OUTPUT,
        help="Exit with 1 if the mean does not meet this condition, such as error<0.05.  May be repeated.",
    )
    format: str | None = option(
        choice_kind("tsv", "aligned", "json", "csv", "markdown", "latex"),
        group=OUTPUT,
        record=unrecorded_field(),
        help="Format of the table.  [default: aligned on a terminal, else tsv]",
    )
