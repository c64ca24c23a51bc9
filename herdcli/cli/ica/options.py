"""The many options of `herd ica`."""

from __future__ import annotations

import click

from herdcli.cli.frame.options import Command, Parsed

ALGORITHMS = ["ml", "infomax", "fastica", "picard", "sobi", "ebm", "equil", "sparse-coding"]
DENSITIES = ["logistic", "student", "laplace", "laplace-smooth", "gaussian-cdf", "bimodal"]


def _parse_rates(text: str) -> tuple[tuple[float, int], ...]:
    pieces = []
    for piece in text.split(","):
        rate, times, updates = piece.partition("x")
        try:
            pieces.append((float(rate), int(updates)))
        except ValueError:
            times = ""
        if not times or not 0 < pieces[-1][0] < float("inf") or pieces[-1][1] < 1:
            raise ValueError("is not of the form 0.05x2000,0.025x2000: rates above 0, each for some updates")
    return tuple(pieces)


def _parse_grid(text: str) -> tuple[int, int]:
    height, times, width = text.partition("x")
    if not (times and height.isdecimal() and width.isdecimal() and int(height) and int(width)):
        raise ValueError("is not of the form 20x20: height and width of the map")
    return int(height), int(width)


def _parse_mix(text: str) -> tuple[str, float]:
    kind, colon, b = text.partition(":")
    try:
        share = float(b) if colon else 0.5
    except ValueError:
        share = 0.0
    if kind not in ("random", "instamix") or (colon and kind == "random") or not 0 < share <= 1:
        raise ValueError("is neither 'random' nor 'instamix' nor instamix:b with b from 0 to 1")
    return kind, share


def _parse_scale(text: str) -> float:
    if text == "unit":
        return 0.0
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0 < scale < float("inf"):
        raise ValueError("is neither 'unit' nor a number above 0")
    return scale


def _parse_components(text: str) -> int | float:
    """A count, or as a float the share of P %."""
    number = text.removesuffix("%")
    try:
        value = float(number) / 100.0 if number != text else int(number)
    except ValueError:
        value = 0
    if not value > 0 or (number != text and value > 1):
        raise ValueError("is neither a number from 1 upwards nor a share such as 95%")
    return value


COMPONENTS = Parsed("N|P%", _parse_components)
MIX = Parsed("random|instamix", _parse_mix)


def learning_options(command: Command) -> Command:
    """Of minibatch learning, hybrid Monte Carlo, sparse coding and what converges."""
    command = converging_options(command)
    for option in reversed(
        (
            click.option(
                "--rates", type=Parsed("schedule", _parse_rates), default=None, metavar="RxN,…", help="Rate R for N updates, and so on."
            ),
            click.option(
                "--batch-size",
                type=click.IntRange(1),
                default=None,
                help="Rows per update.  [default: 100; square infomax: 900, at least 4 a dimension]",
            ),
            click.option(
                "--momentum", type=click.FloatRange(0, 1, max_open=True), default=0.9, show_default=True, help="Share of an update kept."
            ),
            click.option("--weight-decay", type=click.FloatRange(0), default=0.0, show_default=True, help="L2 penalty on the filters."),
            click.option(
                "--initial-scale",
                type=Parsed("float|unit", _parse_scale),
                default="0.1",
                show_default=True,
                help="Initial filters: their standard deviation, or unit length.",
            ),
            click.option(
                "--average",
                type=click.IntRange(0),
                default=None,
                help="Average the filters over the last N updates.  [default: 0; square infomax without --rates: 900]",
            ),
            click.option("--steps", type=click.IntRange(1), default=1, show_default=True, help="Proposals per update (the n of CD-n)."),
            click.option("--leapfrog", type=click.IntRange(1), default=30, show_default=True, help="Leapfrog steps of a proposal."),
            click.option(
                "--acceptance",
                type=click.FloatRange(0, 1, min_open=True, max_open=True),
                default=0.9,
                show_default=True,
                help="Acceptance rate that the step size is adapted to.",
            ),
            click.option(
                "--step-size", type=click.FloatRange(0, min_open=True), default=0.1, show_default=True, help="Initial leapfrog step size."
            ),
            click.option(
                "--topography",
                type=Parsed("HxW", _parse_grid),
                default=None,
                metavar="HxW",
                help="Pool squared outputs on a map of H × W filters.",
            ),
            click.option(
                "--neighbourhood", type=click.IntRange(1), default=3, show_default=True, help="Side of the squares that are pooled; odd."
            ),
        )
    ):
        command = option(command)
    return command


def converging_options(command: Command) -> Command:
    """Of sparse coding, and of what converges."""
    for option in reversed(
        (
            click.option(
                "--posterior",
                type=click.Choice(["map", "laplace", "variational", "gaussian"]),
                default=None,
                help="Posterior of sparse-coding; gaussian: learned by EM, with a covariance for each row.  [default: map]",
            ),
            click.option(
                "--e-step",
                type=click.Choice(["exact", "book"]),
                default=None,
                help="E step of --posterior gaussian; book: at the maximum of the posterior, where the bound can fall.  [default: exact]",
            ),
            click.option(
                "--noise", type=click.FloatRange(0), default=None, help="Noise of sparse-coding; 0 is basis pursuit.  [default: 0.1]"
            ),
            click.option(
                "--tolerance",
                type=click.FloatRange(0, min_open=True),
                default=None,
                help="Tolerance of ml, fastica, picard and sobi.  [default: 1e-7; fastica: 1e-4; --posterior gaussian: 1e-6]",
            ),
            click.option(
                "--lags", type=click.IntRange(1), default=100, show_default=True, help="sobi: largest lag of the autocorrelations."
            ),
            click.option(
                "--iterations",
                type=click.IntRange(1),
                default=None,
                help="At most, for ml, fastica, picard and sobi.  [default: 1000; --posterior gaussian: 100]",
            ),
        )
    ):
        command = option(command)
    return command
