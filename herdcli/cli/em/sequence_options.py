"""Options of `herd em` that only the models in time have."""

from __future__ import annotations

import click

from herdcli.cli.frame.common_options import Command, Parsed


def _parse_names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ValueError("is not a list of distinct columns such as a,b")
    return names


def time_options(command: Command) -> Command:
    """Of hidden Markov models and linear dynamical systems."""
    for option in reversed(
        (
            click.option(
                "--emission",
                type=click.Choice(["gaussian", "categorical", "poisson", "bernoulli", "gmm"]),
                default="gaussian",
                show_default=True,
                help="What the states of hmm emit; gmm: a mixture of Gaussians each.",
            ),
            click.option(
                "--mixtures", type=click.IntRange(1), default=2, show_default=True, help="Gaussians per state, for --emission gmm."
            ),
            click.option(
                "--transitions",
                metavar="NAME|FILE",
                default="full",
                show_default=True,
                help="full, left-to-right, left-to-right:W (at most W ahead), banded:W, or a file with a matrix: zeros forbid.",
            ),
            click.option(
                "--sequence", metavar="COLUMN", default=None, help="Column that says which sequence a row belongs to.  [default: sequence]"
            ),
            click.option(
                "--controls",
                type=Parsed("columns", _parse_names),
                default=None,
                metavar="A,B",
                help="Columns that drive the states of lds.",
            ),
            click.option("--diagonal", is_flag=True, help="lds: noise that is independent in every column."),
            click.option(
                "--accelerate/--no-accelerate",
                default=None,
                help="lds: quasi-Newton steps between those of EM, taken where the likelihood does not fall.  [default: lds yes]",
            ),
        )
    ):
        command = option(command)
    return command
