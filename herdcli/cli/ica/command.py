"""herd ica: options of independent components; the learning is in herdcli.ica."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.helping import Command
from herdcli.cli.frame.options import (
    checkpoint_options,
    cleaning_options,
    input_argument,
    input_format_option,
    output_options,
    seed_option,
    stage,
    threads_option,
)
from herdcli.cli.frame.shards import shard_option
from herdcli.cli.ica.options import ALGORITHMS, COMPONENTS, DENSITIES, MIX, learning_options
from herdcli.cli.ica.request import Request

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session


@click.command("ica", cls=Command)
@input_argument
@click.option("--algorithm", type=click.Choice(ALGORITHMS), default="ml", show_default=True, help="How the filters are learned: see above.")
@click.option(
    "--filters", type=click.IntRange(1), default=None, help="Number of filters (infomax, ebm, sparse-coding).  [default: one per dimension]"
)
@click.option(
    "--whiten",
    type=click.Choice(["zca", "pca", "fa", "centre"]),
    default=None,
    help="How rows are whitened; fa: by --components N factors, for noisy columns.  [default: zca; with --components: pca]",
)
@click.option(
    "--components",
    type=COMPONENTS,
    default=None,
    help="Principal components to keep: a number, or the fewest that hold a share of the variance.  [default: all]",
)
@click.option("--log", is_flag=True, help="Replace every intensity x by log(1 + x); undone together with the whitening.")
@click.option("--mix", type=MIX, default=None, help="INPUT's columns are sources: mix them first.")
@click.option("--mixing", metavar="FILE", default=None, help="A data set whose X is the known mixing of INPUT's rows, for Amari distances.")
@click.option(
    "--density",
    type=click.Choice(["auto", *DENSITIES]),
    default=None,
    help="Density of the outputs (infomax, ml); auto: one for each output.  [default: auto; more filters than dimensions, ebm: logistic]",
)
@click.option("--gradient", type=click.Choice(["natural", "exact"]), default="natural", show_default=True, help="Gradient of infomax.")
@click.option(
    "--expert",
    type=click.Choice(["auto", *DENSITIES[:4], "bimodal", "infomax"]),
    default=None,
    help="Energy of an output.  [default: student; equil: auto; sparse-coding: laplace]",
)
@click.option("--gamma", type=click.FloatRange(0, min_open=True), default=None, help="Initial weight of every expert.  [default: 1]")
@click.option(
    "--gamma-rate",
    type=click.FloatRange(0),
    default=None,
    help="Rate of the Student density's γ, relative to that of the filters; 0: fixed.  [default: 0]",
)
@click.option(
    "--on-nonconvergence",
    type=click.Choice(["warn", "error"]),
    default="warn",
    show_default=True,
    help="What to do if ml, fastica, picard or sobi do not converge.",
)
@click.option(
    "--split",
    metavar="TRAIN,VALID,TEST",
    default=None,
    help="Rows, as counts or fractions.  [default: the data's own, else .6,.2,.2; sobi: all]",
)
@click.option(
    "--one-pass",
    is_flag=True,
    help="Whiten by sums over all rows and learn from 65,536 of them, evenly spread: one pass, whose rows --shard divides.",
)
@click.option(
    "--label",
    default=None,
    metavar="COLUMN",
    help="Column of labels, or none.  [default: y or none]",
)
@stage(
    Request,
    learning_options,
    input_format_option,
    cleaning_options,
    seed_option,
    threads_option,
    shard_option,
    checkpoint_options,
    output_options,
)
def command(session: Session, request: Request) -> None:
    """Independent components: linear filters whose outputs are sparse or independent.

    \b
      herd data digits | herd ica --components 20 | herd eval
      herd data digits | herd ica --algorithm ebm --whiten pca --components 20 --filters 30 --rates 0.01x200 -o filters.h5
      herd data digits | herd ica --algorithm sparse-coding --components 16 --filters 24 --rates 0.1x20 -o codes.h5

    ml is maximum likelihood by L-BFGS.  infomax is its stochastic gradient; with more filters than dimensions
    it maximises the entropy of their squashed outputs.  ebm are energy-based models by contrastive divergence,
    square or overcomplete; equil draws from the square model itself.  sparse-coding explains rows by sources.
    sobi uses autocorrelations, so its rows must be in order of time.  With as many filters as dimensions ml, infomax
    and equil choose for each output whether its density has heavier or lighter tails than a Gaussian's.
    """
    from herdcli.cli.frame import outputs, streamed
    from herdcli.cli.ica import inputs, runs, summed

    summed.check(session, request)
    request.warn_of_ignored(session)
    outputs.check(session, "ica")
    if request.one_pass:
        summed.run(session, request)
        return
    way = "--one-pass reads rows some at a time"
    with streamed.way_out(way, lambda: request.source != "-" and request.algorithm != "sobi" and not request.mix):
        rows = inputs.read(session, request)
    runs.run(session, rows, request)
