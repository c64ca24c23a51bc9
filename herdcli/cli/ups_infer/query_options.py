"""Options of `herd ups-infer --query`: what is asked beside marginals, and how far a search for likeliest states goes."""

from __future__ import annotations

import click

from herdcli.cli.frame.options.common_options import Command, Parsed
from herdcli.markov.query.query_parsing import FORMS, parse_query


def _parse_query(text: str) -> str:
    parse_query(text)
    return text


def query_options(command: Command) -> Command:
    """--query, and the budgets of approximate answers."""
    for option in (
        click.option(
            "--solver",
            type=click.Choice(["herd", "toulbar2"]),
            default="herd",
            show_default=True,
            help="Solver of --query mpe; toulbar2 needs pytoulbar2 (pip install 'herdcli[toulbar2]') and stops after --time.",
        ),
        click.option(
            "--bucket-cells",
            type=click.IntRange(1),
            default=4096,
            show_default=True,
            help="Largest table of the mini-buckets that --query bounds eliminates with.",
        ),
        click.option(
            "--search-steps",
            type=click.IntRange(0),
            default=50,
            show_default=True,
            help="Steps of max-product that look around the best states it has found.",
        ),
        click.option(
            "--query",
            type=Parsed("query", _parse_query),
            default="marginals",
            show_default=True,
            metavar="QUERY",
            help=f"What to answer: {FORMS}.  mpe: the likeliest states (UAI's MAP); mmap: those of some variables, the others summed "
            "out; joint: the table of some variables; bounds: of log Z on both sides; sensitivity: of P(A=STATE) to every cell of every "
            "factor; dsep: does the graph separate A and B given C; independent: all variables that it separates from A.",
        ),
    ):
        command = option(command)
    return command
