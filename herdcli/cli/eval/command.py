"""herd eval: one row of metrics per artifact; herdcli.evaluation computes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.eval.request import Request
from herdcli.cli.frame.options.common_options import column_options, command_with_request, csv_output_options, threads_option
from herdcli.cli.frame.options.help_pages import Command

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("eval", cls=Command)
@click.argument("sources", metavar="[ARTIFACT]...", nargs=-1)
@command_with_request(
    Request,
    column_options,
    threads_option,
    csv_output_options,
)
def command(session: Session, request: Request) -> None:
    """Evaluate models, classifiers, samples, marginals and filters: figures, baselines and a verdict.

    \b
      herd data digits | herd fit-rbm | herd eval
      herd data digits | herd fit-rbm --per-class --hidden 16 | herd eval --require 'error<0.10' --format json
      herd data digits | herd fit-rbm --hidden 16 | herd eval --plot filters filters.png
      herd eval --explain log_likelihood

    Next to each figure is a simple baseline.  The verdict is ok, or a short description of the problem.  On a terminal
    one artifact is shown upright, several of a kind as a table.  A pipe gets tab-separated columns; for several kinds
    lines of file, kind, figure and value.

    rbm: test log-likelihood in nats (exact, or by annealed importance sampling with its standard error),
    pseudo-likelihood, reconstruction error and free-energy gap to the training rows; with --per-class also the
    classification error, compared with nearest neighbours and the majority class.  dbn: a lower bound on the likelihood.

    classifier: errors and calibration on held-out examples.  samples: MMD (distance between kernel mean embeddings)
    to the rows they represent, to other rows (--data) or to a distribution (--distribution).  beliefs, network:
    convergence, likelihoods, and distance from --reference.  ica: distance from the known mixing, locality of the
    filters (Gabor fits), score matching on held-out rows.  rbm-pairs: with --gallery, rank-n error rates, compared with
    correlation, eigenfaces, fisherfaces and δppca.

    --data FILE evaluates on other rows; networks may be BIF, UAI and other text.  -o FILE.h5 stores the table
    as a report artifact; --report FILE.html writes a page for sharing.
    """
    if request.explain is not None:
        from herdcli.cli.eval.explain import metric_explanation_text
        from herdcli.cli.frame.run.console import write_stdout

        write_stdout(metric_explanation_text(request.explain))
        return
    from herdcli.cli.eval.run import evaluate

    evaluate(session, request)
