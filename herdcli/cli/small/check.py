"""herd check: verify seals and contents, silent when all is well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.common_options import stage, threads_option
from herdcli.cli.frame.help_pages import Command
from herdcli.cli.frame.request import input_file, unrecorded
from herdcli.cli.frame.shared_options import SIZE
from herdcli.errors import BadUsage
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments and options of `herd check`."""

    sources: tuple[str, ...] = input_file()
    seal_only: bool
    rerun: bool = False
    inputs: tuple[str, ...] = input_file()
    max_time: float = unrecorded()
    max_disk: int = unrecorded()

    def refuse(self) -> None:
        """Raise BadUsage for options that contradict each other."""
        from herdcli.artifacts.row_ranges import read_once

        if self.inputs and not self.rerun:
            raise BadUsage("--input names what --rerun starts from, and there is no --rerun", hint="herd check --rerun FILE --input DATA")
        if self.rerun and self.seal_only:
            raise BadUsage("--rerun and --seal-only exclude each other", hint="without --rerun the file alone is looked at")
        for name, paths in (("FILE", self.sources), ("--input", self.inputs)):
            if self.rerun and "-" in paths:
                raise BadUsage(f"--rerun reads {name} more than once, and stdin can be read only once", hint="name a file")
            if self.rerun and (once := next(filter(read_once, paths), None)) is not None:
                raise BadUsage(f"--rerun reads {name} more than once, and a pipe can be read only once", where=once, hint="name a file")


@click.command("check", cls=Command)
@click.argument("sources", metavar="FILE...", nargs=-1, required=True)
@click.option("--seal-only", is_flag=True, help="Only compare lengths and digests, without reading the contents: quick.")
@click.option("--rerun", is_flag=True, help="Rebuild each FILE from its history and compare: same bytes, or within a tolerance.")
@click.option("--input", "inputs", metavar="FILE", multiple=True, help="An input of that history, matched by its digest; repeatable.")
@click.option(
    "--max-time",
    type=click.FloatRange(0, min_open=True),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="Most time that --rerun may take for each FILE.",
)
@click.option(
    "--max-disk",
    type=SIZE.click_type,
    default="10G",
    show_default=True,
    metavar="SIZE",
    help="Most bytes that --rerun may write, into $TMPDIR.",
)
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
    from herdcli.artifacts import sealing

    request.refuse()
    for name in ("max_time", "max_disk") if not request.rerun else ():
        session.ignored(name, "without --rerun")
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
