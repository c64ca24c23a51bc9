"""herd selftest: compares the results of this machine with the known answers of herdcli.evaluation.selftest."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from herdcli.algorithm import RunProgress
from herdcli.cli.frame.history.request import unrecorded_field
from herdcli.cli.frame.options.common_options import command_with_request
from herdcli.cli.frame.options.declaration import OUTPUT, choice_kind, option, repeated_option, text_kind
from herdcli.cli.frame.options.help_pages import Command
from herdcli.cli.frame.run.console import write_stdout
from herdcli.errors import NegativeResult
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments and options of `herd selftest`."""

    topics: tuple[str, ...] = repeated_option(
        text_kind(),
        "--topic",
        metavar="NAME",
        record=unrecorded_field(),
        help="Run only the tests of loops, rbm, herding, quadrature, markov, online or ica; repeatable.",
    )
    format: str | None = option(
        choice_kind("tsv", "aligned", "json", "csv", "markdown"), group=OUTPUT, record=unrecorded_field(), help="Format of the table."
    )


@click.command("selftest", cls=Command)
@command_with_request(Request)
def command(session: Session, request: Request) -> None:
    """Test this installation: compare results with closed forms, enumerations and other methods.

    \b
      herd selftest
      herd selftest --topic herding --format markdown

    It takes some seconds.  The exit code is 1 if a result is wrong.
    """
    from herdcli.evaluation import selftest, table

    unknown = [name for name in request.topics if name not in selftest.TOPICS]
    if unknown:
        raise click.UsageError(f"no topic '{unknown[0]}'; there are {', '.join(selftest.TOPICS)}")
    topics = request.topics or tuple(selftest.TOPICS)
    answers = {}
    with session.console.progress("checking") as progress:
        for number, name in enumerate(topics):
            answers[name] = list(selftest.TOPICS[name]())
            progress.show(RunProgress(number + 1, len(topics)))
    rows = selftest.answer_rows(answers)
    write_stdout(table.FORMATS[request.format or ("aligned" if sys.stdout.isatty() else "tsv")](rows))
    wrong = [row["claim"] for row in rows if row["verdict"] != "ok"]
    if wrong:
        raise NegativeResult(f"{len(wrong)} of {len(rows)} answers are wrong: {wrong[0]}", hint="please report this table")
    session.console.note(f"all {len(rows)} answers are right, {session.console.elapsed_seconds():.1f} s")
