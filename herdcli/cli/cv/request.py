"""The arguments and options of `herd cv`."""

from __future__ import annotations

from herdcli.cli.frame.history.request import unrecorded
from herdcli.cli.frame.options.declaration import OUTPUT, choice, option, repeated, text, whole
from herdcli.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments and options of `herd cv`."""

    fitted: str = unrecorded()
    words: tuple[str, ...] = unrecorded()
    folds: int = option(whole(2), default=5, metavar="N", help="Number of folds.")
    requirements: tuple[str, ...] = repeated(
        text(),
        "--require",
        metavar="COLUMN<NUMBER",
        group=OUTPUT,
        help="Exit with 1 if the mean does not meet this condition, such as error<0.05.  May be repeated.",
    )
    format: str | None = option(
        choice("tsv", "aligned", "json", "csv", "markdown", "latex"),
        group=OUTPUT,
        record=unrecorded(),
        help="Format of the table.  [default: aligned on a terminal, else tsv]",
    )
