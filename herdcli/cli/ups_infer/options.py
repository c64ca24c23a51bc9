"""Options of `herd ups-infer`: algorithms and their settings, evidence and observed marginals."""

from __future__ import annotations

import math

import click

from herdcli.cli.frame.options.common_options import Command, Parsed
from herdcli.cli.ups_infer.request import AUTO
from herdcli.markov.algorithms.table import TABLE


def _parse_shares(text: str) -> tuple[float, ...]:
    try:
        shares = tuple(float(word) for word in text.split(","))
    except ValueError:
        shares = ()
    if not shares or not all(0 <= share < 1 for share in shares):
        raise ValueError("is not a list of shares from 0 to below 1, such as 0,0.5,0.9")
    return shares


def _parse_seconds(text: str) -> float:
    number, unit = (text[:-1], text[-1]) if text[-1:] in ("s", "m") else (text, "s")
    try:
        seconds = float(number) * (60 if unit == "m" else 1)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise ValueError("is no time, such as 20s or 5m")
    return seconds


def _parse_slices(text: str) -> str:
    from herdcli.markov.model.slice_tasks import parse_task

    parse_task(text)
    return text


def iteration_options(command: Command) -> Command:
    """--iterations, and what is done at the last one."""
    for option in (
        click.option(
            "--on-nonconvergence",
            type=click.Choice(["warn", "error"]),
            default="warn",
            show_default=True,
            help="What to do if it has not converged by then.",
        ),
        click.option("--iterations", type=click.IntRange(1), default=1000, show_default=True, help="Maximum number of iterations."),
    ):
        command = option(command)
    return command


def result_options(command: Command) -> Command:
    """How much of the result is kept."""
    return click.option(
        "--output-marginals",
        type=click.Choice(["all", "nodes"]),
        default="all",
        show_default=True,
        help="Marginals of variables and of cliques, or of variables alone: of large networks a tenth of the file.",
    )(command)


def evidence_options(command: Command) -> Command:
    """What is known of the variables."""
    for option in (
        click.option("--ignore-observed", is_flag=True, help="Leave out the observed marginals stored with the network."),
        click.option("--likelihood", multiple=True, metavar="X=L,L…", help="Weigh the states of a variable (soft evidence), as x3=1,4."),
        click.option("--observe", multiple=True, metavar="X=P,P…", help="Fix a marginal, as x3=0.2,0.8.  May be repeated."),
        click.option(
            "--evidence",
            metavar="FILE|NAME=STATE",
            multiple=True,
            help="States of some variables: a file of UAI evidence or of one NAME=STATE a line, or NAME=STATE itself.  May be repeated.",
        ),
        click.option(
            "--slices",
            type=Parsed("task", _parse_slices),
            default=None,
            metavar="filtering|prediction:K|lag:L|smoothing",
            help="Marginals of every slice of a template of two slices (variables X_0 and X_t), whose rows are --evidence-rows: given "
            "the rows so far, of the slice K later, given L more rows, or given all rows.",
        ),
        click.option(
            "--evidence-rows",
            metavar="FILE",
            default=None,
            help="A table of evidence, a column for each variable (a state or its name; −1 or nothing for none): the result is a table "
            "of marginals.",
        ),
    ):
        command = option(command)
    return command


def gibbs_options(command: Command) -> Command:
    """How many sweeps of how many chains."""
    for option in (
        click.option(
            "--chains",
            type=click.IntRange(2),
            default=8,
            show_default=True,
            help="Number of Gibbs chains, even for tempered-gibbs.",
        ),
        click.option(
            "--annealing",
            type=click.IntRange(0),
            default=0,
            show_default=True,
            help="Sweeps of the burn-in over which gibbs cools to the network's own temperature.",
        ),
        click.option("--burn-in", type=click.IntRange(0), default=1000, show_default=True, help="Gibbs sweeps to discard first."),
        click.option("--sweeps", type=click.IntRange(2), default=10_000, show_default=True, help="Gibbs sweeps to average over."),
    ):
        command = option(command)
    return command


def auto_options(command: Command) -> Command:
    """What auto may spend, and the regions of it and of gbp and double-loop."""
    for option in (
        click.option(
            "--effort",
            type=click.FloatRange(0),
            default=500.0,
            show_default=True,
            metavar="N",
            help="What auto may spend on approximations, in millions of table cells that are visited: the same on every machine.  "
            "Branch and bound has as many for --query mpe, ten times as many for mmap.",
        ),
        click.option(
            "--time",
            type=Parsed("seconds", _parse_seconds),
            default=None,
            metavar="20s",
            help="Let auto spend so much time instead; the result says the --effort that repeats it.",
        ),
        click.option(
            "--regions",
            metavar="auto|edges|plaquettes|cliques:K|FILE",
            default="auto",
            show_default=True,
            help="Largest regions of double-loop and gbp.  edges: the factors; plaquettes: also loops of three and four variables; "
            "cliques:K: parts of a junction tree of at most K variables; FILE: one region per line; auto: plaquettes under --algorithm "
            "auto, else edges.",
        ),
    ):
        command = option(command)
    return command


def algorithm_options(command: Command) -> Command:
    """--algorithm, and the settings of each algorithm."""
    for option in (
        click.option("--linear-response", is_flag=True, help="Covariances too (bp, ups, belief-optimization, mean-field, tap)."),
        click.option(
            "--restarts",
            type=click.IntRange(0),
            default=0,
            show_default=True,
            help="Additional runs from random starts; the lowest free energy is the answer, and all fixed points are listed.",
        ),
        click.option(
            "--clamp",
            metavar="auto|rows|columns|rows-columns|FILE",
            default="auto",
            show_default=True,
            help="Which variables ups clamps in turn.  auto: sets that leave a forest, with Newton steps in between; "
            "FILE: one set per line.  Everything but auto runs the plain algorithm.",
        ),
        click.option(
            "--damping-kind",
            type=click.Choice(["geometric", "linear"]),
            default="geometric",
            show_default=True,
            help="How old and new messages are averaged.",
        ),
        click.option(
            "--damping-schedule",
            type=Parsed("shares", _parse_shares),
            default=None,
            metavar="D,D…",
            help="Damping of bp and loopy-is that changes as long as they have not converged: each of these for an equal part of "
            "--iterations.",
        ),
        click.option(
            "--damping",
            type=click.FloatRange(0, 1, max_open=True),
            default=0.0,
            show_default=True,
            help="Share of the old message that is kept.",
        ),
        click.option(
            "--schedule",
            type=click.Choice(["auto", "residual", "sequential", "parallel", "checkerboard"]),
            default="auto",
            show_default=True,
            help="Order of updates of bp and loopy-is; auto: largest change first, of many messages in turn, of large grids checkerboard.",
        ),
        click.option(
            "--message-passing",
            type=click.Choice(["hugin", "shafer-shenoy"]),
            default="hugin",
            show_default=True,
            help="How junction-tree propagates: with messages divided out of the clique tables (hugin), or kept apart from them.",
        ),
        click.option(
            "--orders",
            type=click.IntRange(1),
            default=8,
            show_default=True,
            help="Elimination orders tried by junction-tree; up to eight times as many where its tables are large.",
        ),
        click.option(
            "--tolerance",
            type=click.FloatRange(0, min_open=True),
            default=1e-9,
            show_default=True,
            help="Residual at which it has converged.",
        ),
        click.option(
            "--algorithm",
            type=click.Choice([AUTO, *TABLE, "max-product"]),
            default=AUTO,
            show_default=True,
            help="How marginals are computed; auto: exactly if a junction tree (or the frontier of a lattice) fits, else by gbp, bp, "
            "tree-ep, tempered-gibbs or ups, whichever the others bear out.",
        ),
    ):
        command = option(command)
    return command
