"""herd check: verify seals and contents, silent when all is well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.helping import Command
from herdcli.cli.frame.options import stage
from herdcli.cli.frame.request import unrecorded

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments and options of `herd check`."""

    sources: tuple[str, ...] = unrecorded()
    seal_only: bool


@click.command("check", cls=Command)
@click.argument("sources", metavar="FILE...", nargs=-1, required=True)
@click.option("--seal-only", is_flag=True, help="Only compare lengths and digests, without reading the contents: quick.")
@stage(Request)
def command(session: Session, request: Request) -> int:
    """Verify artifacts: their seals, and that their contents are valid for their kind; print nothing when all is well.

    \b
      herd data digits -o digits.h5
      herd check digits.h5

    A damaged file, or one that was sealed with shapes or values that no command writes, is named and the exit
    code is 65.  An unsealed data set is named but is not an error.  With several files the worst exit code counts.
    """
    from herdcli.artifacts import seal

    worst = 0
    for path in request.sources:
        verdict = seal.check_file(path, seal_only=request.seal_only, max_memory=session.max_memory)
        if verdict.code:
            session.console.fault(verdict.message, verdict.hint)
        elif verdict.message:
            session.console.note(verdict.message)
        worst = max(worst, verdict.code)
    return worst
