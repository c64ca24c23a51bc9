"""Where the table of `herd eval` goes: a terminal, a pipe, a text file, or a `report` artifact."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from herdcli.cli.frame.output import outputs
from herdcli.errors import escape_text
from herdcli.evaluation import table

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session
    from herdcli.evaluation.table import Row

TEXT_SUFFIXES = {".tsv": "tsv", ".txt": "aligned", ".json": "json", ".csv": "csv", ".md": "markdown", ".tex": "latex"}


def table_format(session: Session, format: str | None) -> str | None:
    """The text format of the table, None where it becomes an artifact."""
    suffix = Path(session.output).suffix.lower()
    if format is None and session.output != "-" and suffix not in TEXT_SUFFIXES:
        return None
    on_terminal = session.output == "-" and sys.stdout is not None and sys.stdout.isatty()
    return format or TEXT_SUFFIXES.get(suffix) or ("aligned" if on_terminal else "tsv")


def check_output(session: Session, format: str | None) -> None:
    """Refuse an output that cannot be made, before any work is done."""
    if format is None:
        outputs.check_artifact(session, "report")
    else:
        outputs.check_text(session)


def write_table(session: Session, rows: list[Row], format: str | None, history: Artifact | None) -> None:
    """The table as text to stdout or a text file, or without a text format as a `report` artifact."""
    if format is None:
        outputs.write_artifact(session, table.build_report(rows), f"{len(rows)} rows", history=history)
    else:
        outputs.write_text_result(session, escape_text(table.FORMATS[format](rows), keep="\n\t"))
