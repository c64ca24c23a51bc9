"""The command `herd ica`: options for independent components; the learning is in herdcli.ica."""

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
from herdcli.cli.frame.run.shards import shard_option
from herdcli.cli.ica.request import IN_BLOCKS, SHARED, THREADED, Request

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("ica", cls=Command)
@input_argument
@command_with_request(
    Request,
    cleaning_options,
    threads_option.with_conditions(threads=THREADED),
    shard_option.with_conditions(shard=IN_BLOCKS, cluster=SHARED),
    checkpoint_options,
    output_options,
)
def command(session: Session, request: Request) -> None:
    """Independent components: linear filters whose outputs are sparse or independent.

    \b
      herd data digits | herd ica --components 20 | herd eval
      herd data digits | herd ica --algorithm ebm --whiten pca --components 20 --filters 30 --rate-schedule 0.01x200 -o filters.h5
      herd data digits | herd ica --algorithm sparse-coding --components 16 --filters 24 --rate-schedule 0.1x20 -o codes.h5

    Start with ml: maximum likelihood by L-BFGS, one filter per dimension.  fastica and picard call scikit-learn and
    python-picard (pip install 'herdcli[ica]'; without them, ml is used).  sobi separates by autocorrelations, so its rows must be
    in order of time.

    For more filters than dimensions: infomax maximises the entropy of their squashed outputs, ebm fits energy-based
    models by contrastive divergence, and sparse-coding explains each row by a few sources.  With one filter per
    dimension, infomax is a stochastic gradient of the likelihood.  equil is ebm with one filter per dimension
    and samples of the model itself.  With one filter per dimension ml, infomax and equil choose for each output
    whether its density has heavier or lighter tails than a Gaussian's.
    """
    from herdcli.cli.frame.output import outputs
    from herdcli.cli.frame.rows import streamed_rows
    from herdcli.cli.ica import inputs, one_pass, runs

    outputs.check_artifact_output(session, "ica")
    if request.one_pass:
        one_pass.sum_moments_and_learn(session, request)
        return
    way = "use --one-pass, which reads some rows at a time"
    with streamed_rows.suggest_streaming(way, lambda: request.source != "-" and request.algorithm != "sobi" and not request.mix):
        rows = inputs.read_rows(session, request)
    runs.learn_filters(session, rows, request)
