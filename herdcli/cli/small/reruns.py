"""herd check --rerun: artifacts made again from their histories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from herdcli.cli.frame import rerun as history
from herdcli.cli.frame.console import write_stdout
from herdcli.errors import HerdError, escaped

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session


def rerun(session: Session, paths: Sequence[str], inputs: Sequence[str]) -> int:
    """Say of each file how it compares with what its history makes; the worst exit code."""
    given, worst = history.known(inputs), 0
    for path in paths:
        try:
            write_stdout(escaped(history.verdict(session, path, given)) + "\n")
        except HerdError as error:
            session.console.fault(str(error), error.hint)
            worst = max(worst, error.exit_code)
    return worst
