"""What `herd convert` does with splits: --keep a column, --hold-out a condition, --split the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from herdcli.artifacts import Dataset, holdout, preparation
from herdcli.cli.frame.options import Parsed

HOLD_OUT = Parsed("[NAME:]COLUMN[=VALUE,…]", holdout.parse)


def partition_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--keep, --hold-out and --split of `herd convert`."""
    for option in (
        click.option(
            "--split",
            metavar="TRAIN,VALID,TEST",
            default=None,
            help="Draw a split anew from the seed: rows per class, as counts or fractions; other rows are left out.",
        ),
        click.option(
            "--hold-out",
            "hold_outs",
            type=HOLD_OUT,
            multiple=True,
            metavar="[NAME:]COLUMN[=VALUE,…]",
            help="Test some labels on rows with these values, and train on their others.  May be repeated.",
        ),
        click.option("--keep", multiple=True, metavar="COLUMN", help="Keep a further column of an unsealed file.  May be repeated."),
    ):
        command = option(command)
    return command


def kept(keep: tuple[str, ...], hold_outs: tuple[holdout.HoldOut, ...]) -> tuple[str, ...]:
    """The columns that must be read: those to keep, and those that hold out."""
    return tuple(dict.fromkeys([*keep, *(one.column for one in hold_outs)]))


def partitioned(data: Dataset, options: dict[str, Any]) -> Dataset:
    """The data set with the split that the options ask for."""
    split, seed = options["split"], options["seed"]
    if options["hold_outs"]:
        return holdout.held_out(data, list(options["hold_outs"]), split, seed)
    return holdout.used(replace(data, split=preparation.split_rows(data, split, seed))) if split else data
