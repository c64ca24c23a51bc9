"""herd check: verify that files are undamaged and valid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.history.request import input_file_field, unrecorded_field
from herdcli.cli.frame.options.common_options import command_with_request, threads_option
from herdcli.cli.frame.options.declaration import Condition, Excludes, flag, number_kind, option, repeated_option, text_kind
from herdcli.cli.frame.options.help_pages import Command
from herdcli.cli.frame.options.shared_options import SIZE
from herdcli.errors import BadUsage
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


RERUN = Condition("rerun", why="without --rerun")
INPUTS = Condition("rerun", refusal="--input works only with --rerun", hint="herd check --rerun FILE --input DATA")


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments and options of `herd check`."""

    sources: tuple[str, ...] = input_file_field()
    seal_only: bool = flag(help="Only compare lengths and digests, without interpreting the contents (faster).")
    rerun: bool = flag(
        only=Excludes("seal_only", hint="leave out --rerun to check only the file"),
        help="Rebuild each FILE from its history and compare the results.",
    )
    inputs: tuple[str, ...] = repeated_option(
        text_kind(),
        "--input",
        metavar="FILE",
        record=input_file_field(),
        only=INPUTS,
        help="With --rerun: an input file of the history, recognised by its digest; repeatable.",
    )
    max_time: float = option(
        number_kind(0, open_low=True),
        default=3600.0,
        metavar="SECONDS",
        record=unrecorded_field(),
        only=RERUN,
        help="Maximum time of --rerun for each FILE.",
    )
    max_disk: int = option(
        SIZE,
        default=10 * 1000**3,
        metavar="SIZE",
        record=unrecorded_field(),
        only=RERUN,
        help="Maximum number of bytes that --rerun writes to $TMPDIR.",
    )

    def refuse_stream_rerun(self) -> None:
        """Raise BadUsage if --rerun would need to read a stream twice."""
        from herdcli.artifacts.rows.row_ranges import is_readable_only_once

        for name, paths in (("FILE", self.sources), ("--input", self.inputs)):
            if self.rerun and "-" in paths:
                raise BadUsage(f"--rerun reads {name} more than once, and stdin can be read only once", hint="name a file")
            if self.rerun and (once := next(filter(is_readable_only_once, paths), None)) is not None:
                raise BadUsage(f"--rerun reads {name} more than once, and a pipe can be read only once", where=once, hint="name a file")


@click.command("check", cls=Command)
@click.argument("sources", metavar="FILE...", nargs=-1, required=True)
@command_with_request(Request, threads_option)
def command(session: Session, request: Request) -> int:
    """Verify that artifacts are undamaged and valid; print nothing if they are.

    \b
      herd data digits -o digits.h5
      herd check digits.h5
      herd fit-rbm digits.h5 --epochs 5 -o rbm.h5
      herd check --rerun rbm.h5 --input digits.h5

    The seal is a digest of the contents.  The exit code is 65 if a file is damaged, or has shapes or values that no
    command writes; an unsealed data set is reported, but is not an error.  With several files, the largest exit
    code counts.

    --rerun repeats the commands in the history of a file and compares the results.  It prints "same bytes", which
    you can expect on the same kind of machine, or the largest relative difference; the exit code is 1 if rounding
    does not explain it.  Anyone can write a history, so --rerun accepts only what the command line accepts, reads
    only files with the recorded digests, writes only into a scratch folder, and obeys --max-time, --max-memory and
    --max-disk.
    """
    from herdcli.artifacts.sealed import sealing

    request.refuse_stream_rerun()
    worst = 0
    for path in request.sources:
        verdict = sealing.check_file(path, seal_only=request.seal_only, max_memory=session.max_memory)
        if verdict.code:
            session.console.print_error(verdict.message, verdict.hint)
        elif verdict.message:
            session.console.note(verdict.message)
        worst = max(worst, verdict.code)
    if request.rerun and not worst:
        from herdcli.cli.small.rerun_check import check_reruns

        worst = check_reruns(session, request.sources, request.inputs, seconds=request.max_time, disk=request.max_disk)
    return worst
