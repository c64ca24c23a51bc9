"""herd fit-mrf: options of learning Markov networks; the learning is in herdcli.markov."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.fit_mrf.request import Request
from herdcli.cli.frame.options.common_options import (
    NETWORK_FORMATS,
    checkpoint_options,
    cleaning_options,
    output_options,
    stage,
    weights_option,
)
from herdcli.cli.frame.options.help_pages import Command
from herdcli.cli.frame.run.shards import shard_option

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("fit-mrf", cls=Command)
@click.argument("source", metavar="[DATA]", default="-", required=False)
@stage(
    Request,
    weights_option,
    cleaning_options,
    shard_option,
    checkpoint_options,
    output_options,
)
def command(session: Session, request: Request) -> None:
    """Learn a Markov network: the likeliest one, or the one of maximum entropy, with the marginals of the data.

    \b
      herd data digits | herd fit-mrf --smoothing 1 | herd eval
      herd data digits | herd fit-mrf --structure chow-liu+random:0.05,6 --smoothing 1 -o near.h5
      herd data digits | herd fit-mrf --structure grid --algorithm loopy-is --max-clique 4 --smoothing 1 --tolerance 1e-5 -o grid.h5

    DATA is a data set whose columns are discrete: two-valued, grey (--threshold), whole numbers as states, or
    text, whose values name the states (--categorical none leaves it out).
    Which columns are joined is given by --structure, --edges or --clusters; without them it is the tree of largest
    mutual information (Chow & Liu).  The model has one factor per cluster.  Exact learning (ups-jt, the default) takes
    milliseconds if the clusters' junction tree is small; loopy-is and cvm are for clusters whose tree is not.
    --moments FILE learns from marginals and expectations (JSON) instead of rows, and --base NETWORK finds the
    distribution nearest to a network instead of the one of maximum entropy.  --algorithm bayes learns the tables of a
    Bayesian network, whose parents --network or --structure gives; missing values and hidden variables are its affair.
    herd eval gives test log-likelihoods.  Blocks of rows are units of --shard and --cluster, which count them.
    """
    from herdcli.cli.fit_mrf import bayesian_networks, counted_rows, inputs, learn
    from herdcli.cli.frame.rows.network_files import check_output, output_format

    form = output_format(session, request.format, NETWORK_FORMATS)
    check_output(session, "network", form)
    request.refuse_contradictions(session)
    if counted_rows.learns_from_counts(request):
        counted_rows.count_and_learn(session, request)
        return
    counted_rows.refuse_shards(session, request)
    if request.algorithm == "bayes":
        bayesian_networks.learn_bayesian_network(session, request, form)
    else:
        learn.learn_network(session, inputs.read_problem(session, request), request, form)
