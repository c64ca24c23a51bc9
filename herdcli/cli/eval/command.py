"""herd eval: one row of figures per artifact; the figures are made in herdcli.evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.eval.request import Request
from herdcli.cli.frame.options.common_options import column_options, output_options, stage, threads_option
from herdcli.cli.frame.options.help_pages import Command

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("eval", cls=Command)
@click.argument("sources", metavar="[ARTIFACT]...", nargs=-1)
@stage(
    Request,
    column_options,
    threads_option,
    output_options,
)
def command(session: Session, request: Request) -> None:
    """Say how good results are: one row per artifact.

    \b
      herd data digits | herd fit-rbm | herd eval
      herd data digits | herd fit-rbm --per-class --hidden 16 | herd eval --require 'error<0.10' --format json
      herd data digits | herd fit-rbm --hidden 16 | herd eval --plot filters filters.png

    Every row has a cheap baseline and a verdict: ok, or what is wrong with the model in a few words.

    rbm: test log-likelihood in nats (exact, or by annealed importance sampling with its standard error),
    pseudo-likelihood, reconstruction, free-energy gap to the training rows, and for models of classes the
    classification error beside nearest neighbour and the majority; dbn: a lower bound on the likelihood;
    --data FILE judges these, and models made by em and regress, on other rows.  classifier: errors and the
    quality of its confidences on held-out examples.  samples: their MMD, also to other rows (--data) or a
    closed form (--target), and with --trace for each number of atoms.  beliefs, network: convergence,
    likelihoods (a network's also of --data), distance
    from --reference; networks may be BIF, UAI and other text.  ica: distance from the known mixing, locality of the filters
    (Gabor fits), score matching on held-out rows.  rbm-pairs: with --gallery DATA, rank-n error rates beside
    correlation, eigenfaces, fisherfaces and δppca.  -o FILE.h5 stores the table as a `report` artifact;
    --report FILE.html writes a page to share.
    """
    from herdcli.cli.eval.run import evaluate

    evaluate(session, request)
