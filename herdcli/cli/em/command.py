"""The command `herd em`: options for mixtures, k-means, factor models and sequence models; the mathematics is in herdcli.em."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.em.request import Request
from herdcli.cli.frame.options.common_options import (
    IN_ROUNDS,
    checkpoint_options,
    cleaning_options,
    cluster_options,
    command_with_request,
    input_argument,
    output_options,
    threads_option,
)
from herdcli.cli.frame.options.help_pages import Command

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("em", cls=Command)
@input_argument
@command_with_request(Request, cleaning_options, threads_option, cluster_options, IN_ROUNDS, checkpoint_options, output_options)
def command(session: Session, request: Request) -> None:
    """Fit mixtures, k-means, factor models, hidden Markov models and linear dynamical systems by EM.

    \b
      herd data digits | herd em --model ppca --components 10 | herd eval
      herd em iris.csv -o iris.em.h5
      herd apply iris.em.h5 iris.csv -o clusters.csv
      herd em nights.csv --model hmm --components 3 | herd eval
      herd em rivers.csv --model lds --components 2 | herd eval

    EM is expectation-maximisation.  The model is fitted to the training rows.  The validation rows can choose the number
    of components (--criterion valid), and the test rows are stored for herd eval.  Empty cells and NaN are missing values, which all
    models handle except kmeans and gmm with --bayes.  For hmm and lds, rows with the same value in the column of
    --sequence form a sequence, in their order, and splits keep sequences whole.
    """
    from herdcli.cli.em import hmm_fit, inputs, lds_fit, model_fits
    from herdcli.cli.frame.output import outputs
    from herdcli.cli.frame.rows import streamed_rows
    from herdcli.em.model_table import TABLE

    outputs.check_artifact_output(session, TABLE[request.model].kind)
    if TABLE[request.model].sequences:
        {"hmm": hmm_fit.fit_hmm, "lds": lds_fit.fit_lds}[request.model](session, request)
    else:
        with streamed_rows.suggest_streaming("use --on-disk, which reads some rows at a time", lambda: request.source != "-"):
            rows = inputs.read_inputs(session, request)
        model_fits.fit_model(session, rows, request)
