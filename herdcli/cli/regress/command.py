"""herd regress: options of generalised linear models; the descent is in herdcli.regression."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.common_options import (
    checkpoint_options,
    cleaning_options,
    input_argument,
    input_format_option,
    output_options,
    seed_option,
    stage,
    threads_option,
)
from herdcli.cli.frame.help_pages import Command
from herdcli.cli.frame.shards import shard_option
from herdcli.cli.regress.request import WEIGHT_KINDS, Request
from herdcli.regression.family_table import TABLE

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session


@click.command("regress", cls=Command)
@input_argument
@click.option("--target", metavar="COLUMN", default=None, help="Column to predict.  [default: y, or the labels]")
@click.option(
    "--family",
    type=click.Choice(list(TABLE)),
    default=None,
    help="What the target follows.  gamma: its mean is modelled; gamma-shape: its shape, the scale known.  "
    "[default: bernoulli or softmax of classes and of 0 and 1, else gaussian]",
)
@click.option("--offset", metavar="COLUMN", default=None, help="Added to the linear predictor, as the log of an exposure.")
@click.option("--weights", metavar="COLUMN", default=None, help="Weights of the rows.  [default: weight, where the data have it]")
@click.option(
    "--weight-kind",
    type=click.Choice(WEIGHT_KINDS),
    default=None,
    help="What weights stand for: the precision of a row, how often it occurs, trials whose share of successes is the target, or an "
    "exposure whose rate it is.  0: no row.  [default: precision]",
)
@click.option("--trials", metavar="COLUMN", default=None, help="Trials of each row; the target is their successes, or the share of them.")
@click.option("--failures", metavar="COLUMN", default=None, help="Failures of each row; the target is the successes.")
@click.option("--exposure", metavar="COLUMN", default=None, help="Exposure of each row; the target is a count of events, or their rate.")
@click.option(
    "--l2",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="½ l2 ‖β‖² is added to the mean loss; intercepts are not penalised.",
)
@click.option(
    "--penalty",
    type=click.Choice(["firth"]),
    default=None,
    help="firth: half the log-determinant of the information (bernoulli, poisson), so that estimates are finite where classes separate.",
)
@click.option("--l1", type=click.FloatRange(0), default=0.0, show_default=True, help="l1 ‖β‖₁ is added to the mean loss.")
@click.option(
    "--gamma-scale", type=click.FloatRange(0, min_open=True), default=1.0, show_default=True, help="The known scale of gamma-shape."
)
@click.option(
    "--dispersion",
    type=click.Choice(["one", "pearson"]),
    default=None,
    help="pearson: multiply errors of bernoulli, poisson and gamma-shape by √(X²/(n − p)), as quasi-Poisson does.  [default: one]",
)
@click.option(
    "--gls",
    metavar="ar1|ar1:R|variance|variance:A,B|FILE",
    default=None,
    help="Errors of gaussian that are not alike.  ar1: correlation R^|s − t| in time, R fitted or given; variance: its log linear in the "
    "columns, or in A and B; or a file with the covariance of all rows.",
)
@click.option("--sequence", metavar="COLUMN", default=None, help="Which sequence a row of --gls ar1 is of.  [default: sequence]")
@click.option(
    "--one-pass",
    is_flag=True,
    help="gaussian: fit sums of products, which one pass over the rows makes; rows stay in their files, and --shard divides them.",
)
@click.option("--iterations", type=click.IntRange(1), default=100, show_default=True, help="Maximum number of steps.")
@click.option(
    "--split",
    metavar="TRAIN,VALID,TEST",
    default=None,
    help="Rows as counts or fractions, drawn with the seed.  [default: the data set's own split, else .6,.2,.2]",
)
@click.option(
    "--on-nonconvergence",
    type=click.Choice(["warn", "error"]),
    default="warn",
    show_default=True,
    help="What to do if it has not converged by then.",
)
@stage(
    Request,
    input_format_option,
    cleaning_options,
    seed_option,
    threads_option,
    shard_option,
    checkpoint_options,
    output_options,
)
def command(session: Session, request: Request) -> None:
    """Fit a generalised linear model: least squares, logistic, Poisson, gamma and softmax regression, ridge and lasso.

    \b
      herd data digits | herd regress --l2 0.01 | herd eval
      herd data digits | herd regress --l1 0.01 -o digits.glm.h5
      herd apply digits.glm.h5 data.csv -o predicted.csv
      herd regress prices.csv --target price --gls ar1 -o prices.glm.h5

    INPUT is a data set; the rows of split 0 are fitted, the others judge (herd eval).  -o FILE.csv is the table of
    coefficients: estimate, standard error, robust error, z, p and 95 % interval.  Steps are halved until the loss
    falls; herd warns of separable classes and repeated columns.  Columns of text lose their first level to the intercept
    unless there is a penalty.
    """
    from herdcli.cli.frame import streamed_rows
    from herdcli.cli.regress import error_covariance, inputs, one_pass, runs

    one_pass.check_options(session, request)
    runs.check_options(session, request)
    if request.one_pass:
        one_pass.sum_and_fit(session, request)
        return
    asked = error_covariance.parse_error_covariance(request)
    with streamed_rows.suggest_streaming(
        inputs.ONE_PASS, lambda: asked is None and request.source != "-" and request.family in (None, "gaussian")
    ):
        rows = inputs.read_inputs(session, request, in_time=asked is not None and asked.name == "ar1")
    runs.fit_regression(session, rows, request)
