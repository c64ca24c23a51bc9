"""The output of the table of `herd eval`: to a terminal, a pipe, a text file, or a `report` artifact."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.output.text_tables import stdout_is_terminal, terminal_width
from herdcli.errors import escape_text
from herdcli.evaluation import table

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session
    from herdcli.evaluation.table import Row

TEXT_SUFFIXES = {".tsv": "tsv", ".txt": "aligned", ".json": "json", ".csv": "csv", ".md": "markdown", ".tex": "latex"}


def table_format(session: Session, format: str | None) -> str | None:
    """Return the text format of the table; None if it becomes an artifact."""
    suffix = Path(session.output).suffix.lower()
    if format is None and session.output != "-" and suffix not in TEXT_SUFFIXES:
        return None
    return format or TEXT_SUFFIXES.get(suffix) or ("aligned" if session.output == "-" and stdout_is_terminal() else "tsv")


def check_output(session: Session, format: str | None) -> None:
    """Raise an error before any work is done if the output cannot be written."""
    if format is None:
        outputs.check_artifact_output(session, "report")
    else:
        outputs.check_text_output(session)


def write_table(session: Session, rows: list[Row], format: str | None, history: Artifact | None) -> None:
    """Write the table as text to stdout or a text file, or without a text format as a `report` artifact."""
    if format is None:
        outputs.write_artifact(session, table.build_report(rows), f"{len(rows)} rows", history=history)
    else:
        outputs.write_text_result(session, escape_text(_table_text(rows, format), keep="\n\t"))


def _table_text(rows: list[Row], format: str) -> str:
    """Return the rows in a text format.

    The aligned format is upright or folded to the width of the terminal.  Formats for programs have no empty columns.  With several kinds,
    aligned, markdown and latex have a table for each kind, tsv and csv a line for each metric.
    """
    if format == "aligned":
        from herdcli.cli.eval.terminal_table import terminal_text

        return terminal_text(rows, terminal_width())
    if format in ("markdown", "latex"):
        return "\n".join(table.FORMATS[format](table.drop_empty_columns(group)) for group in table.split_by_kind(rows))
    return table.FORMATS[format](rows if format == "json" else table.machine_readable_rows(rows))
