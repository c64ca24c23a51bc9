"""Formats of networks, as options of every command that reads or writes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from herdcli.cli.frame.options import Decorator

TEXT_FORMATS = ("uai", "fg", "bif")
FORMATS = ("hdf5", *TEXT_FORMATS)


def network_format_option(command: Callable[..., object]) -> Callable[..., object]:
    """--input-format of commands that read networks."""
    return click.option(
        "--input-format", type=click.Choice(FORMATS), default=None, help="Read the network as this.  [default: told by its content]"
    )(command)


def format_option(formats: tuple[str, ...]) -> Decorator:
    """--format of commands that write one of these."""
    return click.option("--format", type=click.Choice(formats), default=None, help="Write this.  [default: by the suffix of -o, else hdf5]")
