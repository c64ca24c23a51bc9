"""The command `herd herd`: options for herding; the dynamics are in herdcli.herding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.options.common_options import (
    checkpoint_options,
    cleaning_options,
    command_with_request,
    input_argument,
    output_options,
    threads_option,
)
from herdcli.cli.frame.options.help_pages import Command
from herdcli.cli.frame.run import shards
from herdcli.cli.herd.request import Request
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("herd", cls=Command)
@input_argument
@command_with_request(Request, cleaning_options, threads_option, shards.shard_option, checkpoint_options, output_options)
def command(session: Session, request: Request) -> None:
    """Herding: deterministic weights and pseudo-samples that match the data's moments.

    \b
      herd data digits | herd herd --per-class | herd eval
      herd data digits | herd herd --hidden 50 -o digits.herd.h5
      herd herd --rates digits.herd.h5 -o without-data.herd.h5
      herd data digits | herd herd --hidden 16 --plot animation herd.gif -o digits.herd.h5

    INPUT is a data set; its training rows drive the run.  With --per-class there is a run for each class,
    which scores the validation and test rows, so that herd eval can report the error.  Arithmetic is exact: the
    result has the same bytes for any number of threads, with the compiled and with the NumPy loops.
    """
    from herdcli.cli.frame.output import animations, outputs
    from herdcli.cli.herd import inputs, runs

    outputs.check_artifact_output(session, "herding")
    if request.plots:
        animations.check_animations(session, request.plots, "animation")
        animations.refuse_cluster(session, request.plots)
    read = inputs.read_inputs(session, request)
    if request.plots and read.image_shape is None:
        raise BadUsage(
            "--plot animation needs rows that are images",
            hint="leave out --plot animation, or try: herd data digits | herd herd --plot animation herding.gif",
        )
    if read.problem.count == 1 and not request.per_class:
        shards.refuse_shards(session, "use --per-class, which makes one run for each label")
    runs.run_and_save_herding(session, read, request)
