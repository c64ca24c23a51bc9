"""The command `herd regress`: options for generalised linear models; the descent is in herdcli.regression."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.options.common_options import (
    checkpoint_options,
    cleaning_options,
    command_with_request,
    csv_output_options,
    input_argument,
    threads_option,
)
from herdcli.cli.frame.options.help_pages import Command
from herdcli.cli.frame.run.shards import shard_option
from herdcli.cli.regress.request import IN_BLOCKS, Request

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("regress", cls=Command)
@input_argument
@command_with_request(
    Request, cleaning_options, threads_option, shard_option.with_conditions(shard=IN_BLOCKS), checkpoint_options, csv_output_options
)
def command(session: Session, request: Request) -> None:
    """Fit a generalised linear model: linear, logistic, softmax, Poisson or gamma regression, with ridge or lasso.

    \b
      herd data digits | herd regress --l2 0.01 | herd eval
      herd data digits | herd regress --l1 0.01 -o digits.glm.h5
      herd apply digits.glm.h5 data.csv -o predicted.csv
      herd regress prices.csv --target price --gls ar1 -o prices.glm.h5
      herd data digits | herd regress --hidden 64,32 -o digits.mlp.h5

    INPUT is a data set.  The model is fitted to the training rows; herd eval uses the others.  -o FILE.csv writes
    the table of coefficients: estimate, standard error, robust error, z, p and 95 % interval.  A text column becomes 0/1
    columns, one per value; without a penalty, the first value is the reference level.  herd warns of separable classes
    and repeated columns.

    --hidden fits a multilayer perceptron for the same families of target: the linear predictor is a function of the last
    hidden layer.  Training stops when the loss on the validation rows stops falling; herd eval compares it with a linear
    model.
    """
    from herdcli.cli.frame.rows import streamed_rows
    from herdcli.cli.regress import error_covariance, inputs, one_pass, perceptron_runs, runs

    runs.check_output(session, request)
    if request.one_pass:
        one_pass.sum_and_fit(session, request)
        return
    asked = error_covariance.parse_error_covariance(request.gls)
    in_memory = asked is not None or request.hidden
    with streamed_rows.suggest_streaming(
        streamed_rows.FEWER_COLUMNS if in_memory else inputs.ONE_PASS,
        lambda: in_memory or (request.source != "-" and request.family in (None, "gaussian")),
    ):
        rows = inputs.read_inputs(session, request, is_time_series=asked is not None and asked.name == "ar1")
    if request.hidden:
        perceptron_runs.fit_perceptron(session, rows, request)
    else:
        runs.fit_regression(session, rows, request)
