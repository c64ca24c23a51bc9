"""herd check: verify seals and contents, silent when all is well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.history.request import input_file, unrecorded
from herdcli.cli.frame.options.common_options import stage, threads_option
from herdcli.cli.frame.options.declaration import Condition, Excludes, flag, number, option, repeated, text
from herdcli.cli.frame.options.help_pages import Command
from herdcli.cli.frame.options.shared_options import SIZE
from herdcli.errors import BadUsage
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


RERUN = Condition("rerun", why="without --rerun")
INPUTS = Condition(
    "rerun", refusal="--input names what --rerun starts from, and there is no --rerun", hint="herd check --rerun FILE --input DATA"
)


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments and options of `herd check`."""

    sources: tuple[str, ...] = input_file()
    seal_only: bool = flag(help="Only compare lengths and digests, without reading the contents: quick.")
    rerun: bool = flag(
        only=Excludes("seal_only", hint="without --rerun the file alone is looked at"),
        help="Rebuild each FILE from its history and compare: same bytes, or within a tolerance.",
    )
    inputs: tuple[str, ...] = repeated(
        text(),
        "--input",
        metavar="FILE",
        record=input_file(),
        only=INPUTS,
        help="An input of that history, matched by its digest; repeatable.",
    )
    max_time: float = option(
        number(0, open_low=True),
        default=3600.0,
        metavar="SECONDS",
        record=unrecorded(),
        only=RERUN,
        help="Most time that --rerun may take for each FILE.",
    )
    max_disk: int = option(
        SIZE,
        default=10 * 1000**3,
        metavar="SIZE",
        record=unrecorded(),
        only=RERUN,
        help="Most bytes that --rerun may write, into $TMPDIR.",
    )

    def refuse(self) -> None:
        """Raise BadUsage for --rerun of what can be read only once."""
        from herdcli.artifacts.rows.row_ranges import read_once

        for name, paths in (("FILE", self.sources), ("--input", self.inputs)):
            if self.rerun and "-" in paths:
                raise BadUsage(f"--rerun reads {name} more than once, and stdin can be read only once", hint="name a file")
            if self.rerun and (once := next(filter(read_once, paths), None)) is not None:
                raise BadUsage(f"--rerun reads {name} more than once, and a pipe can be read only once", where=once, hint="name a file")


@click.command("check", cls=Command)
@click.argument("sources", metavar="FILE...", nargs=-1, required=True)
@stage(Request, threads_option)
def command(session: Session, request: Request) -> int:
    """Verify artifacts: their seals, and that their contents are valid for their kind; print nothing when all is well.

    \b
      herd data digits -o digits.h5
      herd check digits.h5
      herd fit-rbm digits.h5 --epochs 5 -o rbm.h5
      herd check --rerun rbm.h5 --input digits.h5

    A damaged file, or one that was sealed with shapes or values that no command writes, is named and the exit
    code is 65.  An unsealed data set is named but is not an error.  With several files the worst exit code counts.
    The seal says that a file is whole; --rerun shows that it can be made again: "same bytes" on a machine of the same kind, elsewhere
    the largest relative difference, and exit code 1 if rounding does not explain it.

    A history is what somebody wrote into the file.  --rerun takes from it only options that the command line would take, reads only
    files of the digests in it, writes only into a scratch folder, and keeps to --max-time, --max-memory and --max-disk.
    """
    from herdcli.artifacts.sealed import sealing

    request.refuse()
    worst = 0
    for path in request.sources:
        verdict = sealing.check_file(path, seal_only=request.seal_only, max_memory=session.max_memory)
        if verdict.code:
            session.console.fault(verdict.message, verdict.hint)
        elif verdict.message:
            session.console.note(verdict.message)
        worst = max(worst, verdict.code)
    if request.rerun and not worst:
        from herdcli.cli.small.rerun_check import check_reruns

        worst = check_reruns(session, request.sources, request.inputs, seconds=request.max_time, disk=request.max_disk)
    return worst
