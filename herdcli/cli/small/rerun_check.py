"""herd check --rerun: makes artifacts again from their histories."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from herdcli.artifacts import memory_budget
from herdcli.cli.frame.history import rerun as history
from herdcli.cli.frame.history.sandboxed_rerun import RerunLimits
from herdcli.cli.frame.run.console import write_stdout
from herdcli.errors import HerdError, escape_text

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


def check_reruns(session: Session, paths: Sequence[str], inputs: Sequence[str], *, seconds: float, disk: int) -> int:
    """Print how each file compares with its rerun, and return the largest exit code.  seconds, disk: limits for each file."""
    given, worst = history.find_files_by_digest(inputs), 0
    memory_limit = session.max_memory or memory_budget.default_memory_limit()
    for path in paths:
        end = time.monotonic() + seconds
        bounds = RerunLimits(seconds, end, memory_limit, disk, session.threads)
        try:
            write_stdout(escape_text(history.rerun_and_compare(session, path, given, bounds)) + "\n")
        except HerdError as error:
            session.console.print_error(str(error), error.hint)
            worst = max(worst, error.exit_code)
    return worst
