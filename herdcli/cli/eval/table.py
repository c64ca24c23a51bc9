"""Where the table of `herd eval` goes: a terminal, a pipe, a text file, or a `report` artifact."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from herdcli.cli.frame.console import write_stdout
from herdcli.cli.frame.session import Session

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact

TEXT_SUFFIXES = {".tsv": "tsv", ".txt": "aligned", ".json": "json", ".csv": "csv", ".md": "markdown", ".tex": "latex"}


def text_format(session: Session, format: str | None) -> str | None:
    """The text format of the table, None where it becomes an artifact."""
    suffix = Path(session.output).suffix.lower()
    if format is None and session.output != "-" and suffix not in TEXT_SUFFIXES:
        return None
    on_terminal = session.output == "-" and sys.stdout is not None and sys.stdout.isatty()
    return format or TEXT_SUFFIXES.get(suffix) or ("aligned" if on_terminal else "tsv")


def check(session: Session, format: str | None) -> None:
    """Refuse an output that cannot be made, before any work is done."""
    from herdcli.artifacts.streams import check_destination

    if format is None:
        session.check_output("report")
    else:
        check_destination(session.output, clobber=session.clobber, binary=False)


def write(session: Session, rows: list[Any], format: str | None, only: Artifact | None) -> None:
    """The table as text to stdout or a text file, or without a text format as a `report` artifact."""
    from herdcli.artifacts import publish
    from herdcli.evaluation import table

    if format is None:
        session.save(table.report(rows), f"{len(rows)} rows", history=only)
        return
    text = table.FORMATS[format](rows)
    if session.output == "-":
        write_stdout(text)
        return
    with publish(session.output, clobber=session.clobber) as target:
        target.write_text(text, encoding="utf-8")
