"""herd check: verify seals, silent when all is well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.options import stage
from herdcli.cli.frame.request import unrecorded

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments and options of `herd check`."""

    sources: tuple[str, ...] = unrecorded()


@click.command("check")
@click.argument("sources", metavar="FILE...", nargs=-1, required=True)
@stage(Request)
def command(session: Session, request: Request) -> int:
    """Verify the seals of artifacts; print nothing when all is well.

    \b
      herd data digits -o digits.h5
      herd check digits.h5

    A damaged file is named and the exit code is 65.  An unsealed data set is named and is no fault.
    Of several files the worst code counts.
    """
    from herdcli.artifacts import seal

    worst = 0
    for path in request.sources:
        verdict = seal.check_file(path)
        if verdict.code:
            session.console.fault(verdict.message, verdict.hint)
        elif verdict.message:
            session.console.note(verdict.message)
        worst = max(worst, verdict.code)
    return worst
