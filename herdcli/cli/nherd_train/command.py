"""The command `herd nherd-train`: options for online learning; the learning is in herdcli.online."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.options.common_options import (
    checkpoint_options,
    cleaning_options,
    command_with_request,
    input_argument,
    output_options,
    weights_option,
)
from herdcli.cli.frame.options.help_pages import Command
from herdcli.cli.frame.run import shards
from herdcli.cli.nherd_train.request import Request

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("nherd-train", cls=Command)
@input_argument
@command_with_request(Request, weights_option, cleaning_options, shards.shard_option, checkpoint_options, output_options)
def command(session: Session, request: Request) -> None:
    """Learn a linear or kernel classifier, or a regression, from a stream of examples, one at a time.

    \b
      herd data digits | herd nherd-train --normalize l2 | herd eval
      zcat ads.svm.gz | herd nherd-train --bits 22 -o ads.h5
      herd nherd-train --continue ads.h5 today.svm -o ads.h5

    \b
      herd nherd-train mails.csv --text body --label folder -o m.h5

    INPUT is svmlight or Vowpal Wabbit text, read as it arrives in constant memory, or a data set
    (HDF5, Parquet, CSV, NPZ), of which the training rows are learned.  No option is needed: the learner, C and
    the number of passes are chosen on your data.  Each example is predicted before it is learned; the error
    of these predictions is printed after 1, 2, 4, 8, … examples.
    """
    from herdcli.cli.nherd_train import runs, text_documents

    if request.parts == 1 or request.verify:
        shards.refuse_shards(session, "divide the rows of a data set with --parts P")
    if request.verify:
        runs.verify_updates(request.seed)
    elif request.parts > 1:
        from herdcli.cli.nherd_train import partitioned_rows

        partitioned_rows.learn_in_parts(session, request)
    else:
        model = runs.load_continued_model(session, request.model)
        if (how := text_documents.document_settings(request, model)) is not None:
            text_documents.learn_documents(session, request, how, model)
        else:
            runs.learn_stream(session, request, model)
