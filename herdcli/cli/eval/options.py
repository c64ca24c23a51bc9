"""The options of `herd eval`, by what they are about."""

from __future__ import annotations

import click

from herdcli.cli.frame.options import Command, Parsed
from herdcli.kinds import pictures


def _parse_dimensions(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if len(parts) != 4 or not all(part.isdecimal() and int(part) for part in parts):
        raise ValueError("is not four numbers EIGEN,FISHER,WITHIN,BETWEEN from 1 upwards")
    return tuple(map(int, parts))


DIMENSIONS = Parsed("eigen,fisher,within,between", _parse_dimensions)


def likelihood_options(command: Command) -> Command:
    """--likelihood, --chains, --temperatures, --reverse."""
    for option in (
        click.option(
            "--reverse", is_flag=True, help="Also anneal back from the model: a second estimate, which errs in the other direction."
        ),
        click.option(
            "--temperatures",
            type=click.IntRange(1),
            default=None,
            help="Temperatures of ais; otherwise the most that annealing may take.  [default: 1000; 5000]",
        ),
        click.option("--chains", type=click.IntRange(2), default=100, show_default=True, help="Annealed chains."),
        click.option(
            "--likelihood",
            type=click.Choice(["auto", "exact", "ais", "none"]),
            default="auto",
            show_default=True,
            help="How log Z is computed; auto: exact up to 25 two-state units in the smaller layer, 37 beside gaussian ones, else annealed "
            "until successive runs agree; ais: annealed once; none: the errors of models of classes without any likelihood.",
        ),
    ):
        command = option(command)
    return command


def plot_option(command: Command) -> Command:
    """--plot NAME FILE, as often as wanted."""
    return click.option(
        "--plot",
        "plots",
        type=(str, click.Path(dir_okay=False)),
        multiple=True,
        metavar="NAME FILE",
        help="Draw this picture of the artifact into FILE (.png, .pdf, .svg); all: every one, name.svg as name-PLOT.svg.  " + pictures(),
    )(command)


def report_options(command: Command) -> Command:
    """--report and --keep-going."""
    for option in (
        click.option("--keep-going", is_flag=True, help="Skip artifacts that cannot be evaluated, with a warning."),
        click.option(
            "--report",
            type=click.Path(dir_okay=False),
            default=None,
            metavar="FILE.html",
            help="Also write one self-contained page: figures, pictures, and how each artifact was made.",
        ),
    ):
        command = option(command)
    return command


def comparison_options(command: Command) -> Command:
    """--confusion, --mcnemar, --tournament and --data of `herd eval`."""
    for option in (
        click.option("--data", metavar="FILE", default=None, help="Judge models, classifiers, samples and filters on these rows."),
        click.option(
            "--reference",
            metavar="FILE",
            default=None,
            help="Judge beliefs by these marginals (.MAR text or beliefs), a network by this network.",
        ),
        click.option("--tournament", is_flag=True, help="Classifiers of many tasks, or a report of them: who wins how often."),
        click.option("--mcnemar", is_flag=True, help="Pairs of classifiers: McNemar's test."),
        click.option("--confusion", is_flag=True, help="Classifiers: true classes against predicted ones."),
    ):
        command = option(command)
    return command


def sample_options(command: Command) -> Command:
    """--target, --scores, --trace and --kernel of `herd eval`."""
    for option in (
        click.option("--scores", metavar="FILE|PREFIX", default=None, help="Samples: compare with the law of these scores ∇ log p."),
        click.option("--kernel", metavar="NAME", default=None, help="Samples: judge with this kernel.  [default: their own]"),
        click.option("--trace", is_flag=True, help="Samples: one row for each of log-spaced numbers of atoms."),
        click.option("--target", metavar="NAME[:…]", default=None, help="Samples: compare with this closed form (see kernel-herd)."),
    ):
        command = option(command)
    return command


def filter_options(command: Command) -> Command:
    """--mixing and --true-sources of `herd eval`."""
    for option in (
        click.option("--true-sources", metavar="FILE", default=None, help="ica: the sources that --data was mixed from, row by row."),
        click.option("--mixing", metavar="FILE", default=None, help="ica: the known mixing A of x = A s, as rows of a data set."),
    ):
        command = option(command)
    return command


def gallery_options(command: Command) -> Command:
    """--gallery and the options that go with it."""
    for option in (
        click.option(
            "--dimensions",
            type=DIMENSIONS,
            default="199,200,10,30",
            show_default=True,
            metavar="E,F,W,B",
            help="Gallery: sizes of eigenfaces, fisherfaces and the two models of δppca, fewer where the data forbid.",
        ),
        click.option("--drop-first", type=click.IntRange(0), default=0, show_default=True, help="Gallery: leading eigenfaces left out."),
        click.option("--gallery-images", type=click.IntRange(1), default=None, help="Gallery: images per person.  [default: all]"),
        click.option(
            "--probe-sets",
            metavar="COLUMN",
            default=None,
            help="Gallery: error rates for each value of this column.  [default: probe_set, if there]",
        ),
        click.option(
            "--probes", type=click.Choice(["test", "valid"]), default="test", show_default=True, help="Gallery: rows to recognise."
        ),
        click.option(
            "--gallery",
            metavar="DATA",
            default=None,
            help="Pairs: rank-n error rates when test rows of DATA are looked for among its training rows.",
        ),
    ):
        command = option(command)
    return command
