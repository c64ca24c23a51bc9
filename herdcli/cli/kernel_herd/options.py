"""What `herd kernel-herd` reads from the texts of its options."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from herdcli.cli.frame.options.common_options import Parsed
from herdcli.quadrature.rules.rule_table import TABLE

F = TypeVar("F", bound=Callable[..., object])
RULES = click.Choice(list(TABLE))


def parse_bandwidth(text: str) -> float | str:
    """A length above 0, or 'median'.  Raises ValueError."""
    if text == "median":
        return text
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ValueError("is neither 'median' nor a number above 0")
    if not 1e-100 <= number <= 1e100:
        raise ValueError("is not from 1e-100 to 1e100, beyond which its powers leave float64")
    return number


def parse_scale(text: str) -> str | tuple[float, ...]:
    """A way to scale columns, or a number for each.  Raises ValueError."""
    if text in ("none", "std", "range"):
        return text
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError("is none of 'none', 'std', 'range', nor numbers S1,S2,…") from None
    if not all(0 < number < float("inf") for number in numbers):
        raise ValueError("has numbers that are not above 0")
    return numbers


def parse_norm(text: str) -> str:
    """'exact' or sample:N.  Raises ValueError."""
    kind, _, number = text.partition(":")
    if text != "exact" and (kind != "sample" or not number.isdigit() or not 1 < int(number) < 1 << 31):
        raise ValueError("is neither 'exact' nor sample:N with N above 1")
    return text


def parse_embedding(text: str) -> str:
    """'exact', sample:N, nystrom:R or fourier:R.  Raises ValueError."""
    from herdcli.quadrature.embeddings.approximation import parse_embedding

    parse_embedding(text)
    return text


def large_options(command: F) -> F:
    """The options of data with many rows: how exactly μ is summed, and in what blocks."""
    options = (
        click.option(
            "--precision",
            type=click.Choice(["float64", "float32"]),
            default="float64",
            show_default=True,
            help="Floating-point type for the sums of the mean embedding; float64 is more precise.",
        ),
        click.option(
            "--embedding",
            type=Parsed("exact|sample:N|nystrom:R|fourier:R", parse_embedding),
            default=None,
            help="Mean embedding of the rows: from all pairs (exact), or for many rows approximated by N random rows (sample), R landmark "
            "rows (nystrom) or R random frequencies (fourier).  [default: exact, or nystrom if that is faster]",
        ),
        click.option(
            "--block-rows",
            type=click.IntRange(2),
            default=None,
            help="Read N rows at a time, for more rows than fit into memory; a pipe is read once.",
        ),
        click.option(
            "--block-atoms",
            type=click.IntRange(1),
            default=None,
            help="Atoms to choose from each block, before the final choice.  [default: 4 times --count]",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def group_options(command: F) -> F:
    """The options of groups of rows, and of what is said of their atoms."""
    options = (
        click.option(
            "--by",
            metavar="COLUMN",
            default=None,
            help="Choose atoms separately for each value of this column; the kernel's length scale is the same for all.",
        ),
        click.option(
            "--thin-by-chain",
            is_flag=True,
            help="Choose atoms separately for each chain of a sampler: by the column chain, or one file per chain such as 'chain-*.csv'.",
        ),
        click.option(
            "--report",
            metavar="FILE",
            default=None,
            help="Write mean, standard deviation and quantiles of each column to FILE (.csv, or text), for all rows and for the atoms.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command
