"""herd cv: cross-validation of any fitting command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.cv.request import Request
from herdcli.cli.frame.options.common_options import command_with_request, csv_output_options, threads_option
from herdcli.cli.frame.options.help_pages import Command

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("cv", cls=Command, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("fitted", metavar="COMMAND")
@click.argument("words", metavar="[DATA] [OPTIONS]...", nargs=-1, type=click.UNPROCESSED)
@command_with_request(Request, threads_option, csv_output_options)
def command(session: Session, request: Request) -> None:
    """Cross-validate a fitting command: K fits, each tested on rows that it has not seen.

    \b
      herd cv em digits.h5 --components 10
      herd cv --folds 10 regress digits.h5 --l2 0.1
      herd data digits | herd cv nherd-train

    Everything after COMMAND is the command line of one fit, without -o and --split.  The rows are shuffled by its
    --seed and divided into K folds.  Fold k is the test set of the k-th fit, and the others are for training.  A fit that uses
    validation rows (fit-rbm, herd, nherd-train, regress --hidden, em --criterion valid) takes the next fold for them, unless there
    are 2 folds.  Sequences stay whole.  Each fit is evaluated as by herd eval.

    The table has a row for each fold, then the mean over the folds and its standard error.  The last line compares the means with
    those of a baseline: a difference of less than two standard errors (of the differences of the folds) is none.  The fits share
    training rows, so the true standard error is somewhat larger.  --threads fits run at the same time.
    """
    from herdcli.cli.cv import fold_runs

    fold_runs.cross_validate(session, request)
