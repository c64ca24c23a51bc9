"""The options of `herd convert`, by what they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.frame import unit_options
from herdcli.cli.frame.common_options import INTERVAL, Command, Parsed
from herdcli.cli.frame.declaration import shared_option
from herdcli.kinds import kinds_with

if TYPE_CHECKING:
    from herdcli.artifacts.condition_holdout import ConditionHoldout


def _parse_hold_out(text: str) -> ConditionHoldout:
    from herdcli.artifacts import condition_holdout

    return condition_holdout.parse_holdout(text)


HOLD_OUT = Parsed("[NAME:]COLUMN[=VALUE,…]", _parse_hold_out)


def image_options(command: Command) -> Command:
    """--subsample, --mask and --equalize of `herd convert`."""
    for option in (
        click.option("--equalize", is_flag=True, help="Images: equalise them to their common histogram, inside the mask."),
        click.option(
            "--mask",
            metavar="FILE|ellipse[:ACROSS,DOWN]",
            default=None,
            help="Images: set pixels outside to the lowest value; FILE has one row, 0 outside.",
        ),
        click.option("--subsample", type=click.IntRange(2), default=None, metavar="F", help="Images: take means of F × F pixels."),
    ):
        command = option(command)
    return command


def row_options(command: Command) -> Command:
    """--transpose, --patches, --segments, --count, --log and --binarize; --seed is the command's own."""
    for option in (
        click.option("--log", is_flag=True, help="Replace every intensity x by log(1 + x)."),
        click.option(
            "--binarize",
            type=click.Choice(["median", "stochastic"]),
            default=None,
            help="Zeros and ones. median: 1 from a cut upwards that divides the column's training rows nearest to halves. "
            "stochastic: drawn with the seed, 1 with the probability that the value is as a share of the value range.",
        ),
        click.option("-m", "--count", type=click.IntRange(1), default=None, help="How many patches or segments.  [default: 10000]"),
        click.option(
            "--segments",
            type=click.IntRange(1),
            default=None,
            metavar="LENGTH",
            help="Cut stretches of LENGTH rows from the columns, at random places (rows are points in time, columns signals).",
        ),
        click.option(
            "--patches",
            type=click.IntRange(1),
            default=None,
            metavar="SIZE",
            help="Cut squares of SIZE pixels from pictures, at random places.",
        ),
        click.option("--transpose", is_flag=True, help="Swap rows and columns before anything else."),
    ):
        command = option(command)
    return command


def partition_options(command: Command) -> Command:
    """--keep, --hold-out and --split of `herd convert`."""
    for option in (
        click.option(
            "--split",
            metavar="TRAIN,VALID,TEST",
            default=None,
            help="Draw a new split with the seed: rows per class, as counts or fractions; other rows are left out.",
        ),
        click.option(
            "--hold-out",
            "hold_outs",
            type=HOLD_OUT,
            multiple=True,
            metavar="[NAME:]COLUMN[=VALUE,…]",
            help="Test some labels on rows with these values, and train on their other rows.  May be repeated.",
        ),
        click.option("--keep", multiple=True, metavar="COLUMN", help="Keep another column of an unsealed file.  May be repeated."),
    ):
        command = option(command)
    return command


def import_options(command: Command) -> Command:
    """--to, and what is to be known of imported weights: units, and how grey rows were made two-valued or proportions."""
    for option in (
        click.option(
            "--range", "value_range", type=INTERVAL, default=None, metavar="LO,HI", help="--to rbm, dbn: the range of the data's values."
        ),
        click.option(
            "--threshold",
            type=click.FloatRange(0, 1),
            default=None,
            help="--to rbm, dbn: pixels were on from this fraction of the range upwards.",
        ),
        shared_option("hidden_units", unit_options.hidden_units()),
        shared_option("visible_units", unit_options.visible_units()),
        shared_option("units", unit_options.units()),
        click.option(
            "--to",
            type=click.Choice(["dataset", *kinds_with("imports")]),
            default="dataset",
            show_default=True,
            help="What INPUT becomes; rbm: weights W, b, c, or those of scikit-learn, or weight_matrix, vbias, hbias, from NPZ, HDF5 or "
            "safetensors; dbn: layers.0.W, …; classifier: Vowpal Wabbit's readable model.",
        ),
    ):
        command = option(command)
    return command
