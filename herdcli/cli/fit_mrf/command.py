"""The command `herd fit-mrf`: options for learning Markov networks; the learning is in herdcli.markov."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.fit_mrf.request import Request
from herdcli.cli.frame.options.common_options import (
    NETWORK_FORMATS,
    checkpoint_options,
    cleaning_options,
    command_with_request,
    csv_output_options,
    weights_option,
)
from herdcli.cli.frame.options.help_pages import Command
from herdcli.cli.frame.run.shards import shard_option

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("fit-mrf", cls=Command)
@click.argument("source", metavar="[DATA]", default="-", required=False)
@command_with_request(
    Request,
    weights_option,
    cleaning_options,
    shard_option,
    checkpoint_options,
    csv_output_options,
)
def command(session: Session, request: Request) -> None:
    """Learn a Markov network (or a Bayesian network) of discrete variables from data.

    \b
      herd data digits | herd fit-mrf --smoothing 1 | herd eval
      herd data digits | herd fit-mrf --structure chow-liu+random:0.05,6 --smoothing 1 -o near.h5
      herd data digits | herd fit-mrf --structure grid --algorithm loopy-is --max-clique 4 --smoothing 1 --tolerance 1e-5 -o grid.h5

    DATA is a data set whose columns are discrete: two-valued, grey (--threshold), whole numbers as states, or
    text, whose values name the states (--categorical none leaves it out).

    --structure, --edges or --clusters says which columns are joined; the default is the tree of largest mutual
    information (Chow & Liu).  The model has one factor per cluster of joined columns.  It has the marginals of the
    data, and the largest likelihood of all networks with this structure.  The default algorithm, ups-jt, is exact
    and takes milliseconds if the clusters' junction tree is small; loopy-is and cvm are for large ones.

    --moments FILE learns from marginals and expectations (JSON) instead of rows.  --base NETWORK finds the
    distribution nearest to a network instead of the one of maximum entropy.  --algorithm bayes learns the tables of
    a Bayesian network, whose parents --network or --structure gives; it handles missing values and hidden
    variables.  herd eval reports test log-likelihoods.  --shard and --cluster distribute blocks of rows.
    """
    from herdcli.cli.fit_mrf import bayesian_networks, counted_rows, inputs, learn
    from herdcli.cli.frame.rows.network_files import check_output, output_format

    form = output_format(session, request.format, NETWORK_FORMATS)
    check_output(session, "network", form)
    if counted_rows.learns_from_counts(
        request.algorithm, request.expectations, request.moments, request.features, request.has_penalty_path
    ):
        counted_rows.count_and_learn(session, request)
        return
    counted_rows.refuse_shards(session, request.algorithm)
    if request.algorithm == "bayes":
        bayesian_networks.learn_bayesian_network(session, request, form)
    else:
        learn.learn_network(session, inputs.read_inputs(session, request), request, form)
