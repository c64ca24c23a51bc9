"""herd em: options of mixtures, k-means, factors and chains; the mathematics is in herdcli.em."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from herdcli.cli.em.request import Request
from herdcli.cli.em.sequence_options import time_options
from herdcli.cli.frame.common_options import (
    IN_ROUNDS,
    Parsed,
    checkpoint_options,
    cluster_options,
    input_argument,
    output_options,
    seed_option,
    stage,
    table_options,
    threads_option,
)
from herdcli.cli.frame.help_pages import Command

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session


def _parse_range(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text.strip())
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= first <= last:
        raise ValueError("is neither a number from 1 nor a range such as 1-10")
    return first, last


@click.command("em", cls=Command)
@input_argument
@click.option(
    "--model",
    type=click.Choice(["gmm", "kmeans", "fa", "ppca", "pca", "hmm", "lds"]),
    default="gmm",
    show_default=True,
    help="Gaussian mixture, k-means, factor analysis, principal components with noise and without, hidden Markov model, "
    "linear dynamical system.",
)
@click.option(
    "--components",
    type=Parsed("n|n-m", _parse_range),
    default=None,
    metavar="N|N-M",
    help="Components, clusters, factors or states; of a range, the best number is kept.  "
    "[default: pca all; kmeans none; others 1-10 until two are worse]",
)
@click.option(
    "--criterion",
    type=click.Choice(["bic", "aic", "icl", "valid"]),
    default="bic",
    show_default=True,
    help="How a range is judged; valid: by the likelihood of the rows in split 1.",
)
@click.option(
    "--covariance",
    type=click.Choice(["full", "tied", "diagonal", "spherical"]),
    default="full",
    show_default=True,
    help="gmm, hmm; tied: one covariance for all components.",
)
@time_options
@click.option(
    "--bayes", is_flag=True, help="gmm by variational Bayes: components that are not needed become empty; ranges are judged by its bound."
)
@click.option(
    "--concentration",
    type=click.FloatRange(0, min_open=True),
    default=None,
    help="Concentration of --bayes' Dirichlet prior; smaller values keep fewer components.  [default: 1/N]",
)
@click.option("--iterations", type=click.IntRange(0), default=500, show_default=True, help="Maximum number of M steps per start.")
@click.option("--restarts", type=click.IntRange(1), default=1, show_default=True, help="Number of starts, of which the best is kept.")
@click.option(
    "--patience", type=click.IntRange(1), default=3, show_default=True, help="Iterations in a row that may gain less than the tolerance."
)
@click.option("--tolerance", type=click.FloatRange(0), default=1e-6, show_default=True, help="Least gain per iteration, in nats a row.")
@click.option(
    "--init",
    metavar="FILE|METHOD",
    default=None,
    help="random, kmeans++, pca, newton, a model to continue from, or rows as starting centres.  "
    "[default: kmeans++; fa: newton; (p)pca: pca]",
)
@click.option(
    "--floor", type=click.FloatRange(0), default=None, help="Least variance in any direction.  [default: by columns, 1e-6 to 1e-2 of each]"
)
@click.option(
    "--per-class",
    is_flag=True,
    help="A component for each class, or --components N of them; rows labelled −1 or not at all are shared out.",
)
@click.option("--weights", metavar="COLUMN", default=None, help="The column with the weights of the rows.  [default: weight]")
@click.option(
    "--rotation",
    type=click.Choice(["none", "varimax", "promax"]),
    default="none",
    show_default=True,
    help="Rotation of the factor loadings.",
)
@click.option(
    "--solver",
    type=click.Choice(["auto", "lapack", "randomised"]),
    default="auto",
    show_default=True,
    help="pca: randomised takes passes with few directions instead of the covariance; auto: that for few axes of many columns.",
)
@click.option("--minibatch", type=click.IntRange(1), default=None, metavar="N", help="K-means with N batches of 2,048 rows.")
@click.option(
    "--on-disk",
    is_flag=True,
    help="Keep the rows of a Parquet or HDF5 file in $TMPDIR instead of memory; without splits all rows are training rows.",
)
@stage(Request, table_options, seed_option, threads_option, cluster_options, IN_ROUNDS, checkpoint_options, output_options)
def command(session: Session, request: Request) -> None:
    """Mixtures, k-means, factors, hidden Markov models and linear dynamical systems by expectation-maximisation.

    \b
      herd data digits | herd em --model ppca --components 10 | herd eval
      herd em iris.csv -o iris.em.h5
      herd apply iris.em.h5 iris.csv -o clusters.csv
      herd em nights.csv --model hmm --components 3 | herd eval
      herd em rivers.csv --model lds --components 2 | herd eval

    The model is learned from the rows of split 0; those of split 1 can choose the number of components, and those of
    split 2 are kept for eval.  Empty cells and NaN are missing values, which every model but kmeans can handle.
    For hmm and lds, rows with the same value in a column form a sequence, in their order, and splits keep sequences
    whole.  The result does not depend on the number of threads.
    """
    from herdcli.cli.em import hmm_fit, inputs, lds_fit, model_fits
    from herdcli.cli.frame import outputs, streamed_rows

    request.warn_of_ignored(session)
    outputs.check_artifact(session, model_fits.KINDS[request.model])
    if request.model == "hmm":
        hmm_fit.fit_hmm(session, request)
    elif request.model == "lds":
        lds_fit.fit_lds(session, request)
    else:
        with streamed_rows.suggest_streaming("--on-disk reads rows some at a time", lambda: request.source != "-"):
            rows = inputs.read_inputs(session, request)
        model_fits.fit_model(session, rows, request)
