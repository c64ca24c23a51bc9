"""herd eval: one row of figures per artifact; the figures are made in herdcli.evaluation."""

from __future__ import annotations

from typing import Any

import click

from herdcli.cli.eval import plots as plotting
from herdcli.cli.eval import report as reporting
from herdcli.cli.eval import table as table_output
from herdcli.cli.eval.classifiers import COMPARISONS, comparison_options
from herdcli.cli.eval.filters import FILTERS, filter_options
from herdcli.cli.eval.gallery import GALLERY, figures, gallery_options, recognising
from herdcli.cli.eval.harmoniums import likelihood_options, rejudged, warn_of_likelihoods, warn_of_ranks
from herdcli.cli.eval.samples import SAMPLES, sample_options
from herdcli.cli.frame.console import printable
from herdcli.cli.frame.options import PENALTY, output_options, seed_option, stage, threads_option
from herdcli.cli.frame.session import Session
from herdcli.errors import NegativeResult


@click.command("eval")
@click.argument("sources", metavar="[ARTIFACT]...", nargs=-1)
@click.option(
    "--format",
    type=click.Choice(["tsv", "aligned", "json", "csv", "markdown", "latex"]),
    default=None,
    help="How the table is written.  [default: aligned on a terminal, tsv in a pipe]",
)
@click.option(
    "--require",
    "requirements",
    multiple=True,
    metavar="COLUMN<NUMBER",
    help="A bar, as error<0.05; exit 1 when a row misses it.  May be repeated.",
)
@click.option(
    "--calibrate",
    type=click.Choice(["auto", "valid", "cross-fit"]),
    default="auto",
    show_default=True,
    help="Rows that class energies are calibrated on; cross-fit needs fit-rbm --folds.",
)
@click.option(
    "--mlr-penalty",
    type=PENALTY,
    default="auto",
    show_default=True,
    help="L2 penalty of the logistic regression on class energies; auto: 5-fold cross-validation.",
)
@stage(
    likelihood_options,
    plotting.plot_option,
    reporting.report_options,
    comparison_options,
    sample_options,
    filter_options,
    gallery_options,
    seed_option,
    threads_option,
    output_options,
)
def command(
    session: Session, sources: tuple[str, ...], requirements: tuple[str, ...], format: str | None, plots: plotting.Wanted, **options: Any
) -> None:
    """Say how good results are: one row per artifact.

    \b
      herd data digits | herd fit-rbm | herd eval
      herd data digits | herd fit-rbm --per-class | herd eval --require 'error<0.10' --format json
      herd data digits | herd fit-rbm --hidden 16 | herd eval --plot filters filters.png

    rbm: test log-likelihood in nats (exact, or by annealed importance sampling with its standard
    error), pseudo-likelihood, reconstruction, free-energy gap to the training rows, and for models of classes
    the error of classification beside nearest neighbour and the majority; dbn: a lower bound of the likelihood;
    --data FILE judges both on other rows.  classifier: errors and the quality of its confidences on
    held-out examples.  samples: their MMD, that to other rows (--data) or a closed form (--target), and with
    --trace for each number of atoms.  beliefs, network: convergence, likelihoods, distance from --reference.  ica: distance
    from the known mixing, locality of the filters (Gabor fits), score matching on held-out rows.  rbm-pairs: with
    --gallery DATA rank-n error rates beside correlation, eigenfaces, fisherfaces and δppca.
    -o FILE.h5 stores the table as a `report` artifact; --report FILE.html is a page for people.
    """
    from herdcli.cli.eval.classifiers import comparison, rescored
    from herdcli.cli.eval.filters import judged
    from herdcli.cli.network.inputs import against
    from herdcli.evaluation import table
    from herdcli.evaluation.settings import EvaluationSettings

    bars = [table.requirement(text) for text in requirements]
    format = table_output.text_format(session, format)
    table_output.check(session, format)
    plotting.check(session, plots, sources, options)
    reporter = reporting.Reporter(session, options.pop("report"), keep_going=options.pop("keep_going"))
    compared, data = comparison(session, sources, options), options["data"]
    settings = EvaluationSettings(**{name: item for name, item in options.items() if name not in COMPARISONS + SAMPLES + FILTERS + GALLERY})
    rows: list[table.Row] = list(compared or ())
    for loaded in reporter.loaded(() if compared else sources or ("-",)):
        artifact = rescored(session, loaded, data)
        artifact = judged(session, against(session, rejudged(session, artifact, data), options["reference"]), options)
        artifact = recognising(session, artifact, options)
        plotting.draw(session, artifact, plots, settings)
        with session.console.progress(f"evaluating {artifact.name}") as progress:
            measure = table.metrics_of(artifact.kind) if artifact.kind != "dataset" else None
            plain = measure(artifact.value, settings, map=session.map, progress=progress.show) if measure else {}
        several = figures(session, artifact, options, plain)
        rows += [{"file": printable(artifact.name), "kind": artifact.kind, **found} for found in several]
        reporter.add(artifact, several, settings)
    reporter.write()
    table_output.write(session, rows, format, artifact if len(rows) == 1 and not compared else None)
    warn_of_likelihoods(session, rows)
    warn_of_ranks(session, rows)
    missed = [message for bar in bars for message in bar.missed(rows)]
    if missed:
        raise NegativeResult("; ".join(missed))
