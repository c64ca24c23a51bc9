"""--units, --visible-units and --hidden-units, of commands that make harmoniums."""

from __future__ import annotations

import click

from herdcli.cli.frame.common_options import Command, Parsed
from herdcli.errors import BadUsage
from herdcli.rbm.units import TABLE


def _parse_units(text: str) -> str:
    """A unit family's name."""
    from herdcli.rbm.units import unit_family

    if text == "softmax":
        raise ValueError("needs the number of states of a unit: softmax:3 takes columns of text with 3 levels each")
    try:
        return unit_family(text).name
    except BadUsage as error:
        raise ValueError(error.message.replace(f"unknown units '{text}', expected one of", "is none of")) from None


UNITS = Parsed("units", _parse_units)


def unit_options(command: Command) -> Command:
    """--units, --visible-units, --hidden-units."""
    for option in (
        click.option("--hidden-units", type=UNITS, default=None, metavar="UNITS", help="Values of the hidden units.  [default: --units]"),
        click.option("--visible-units", type=UNITS, default=None, metavar="UNITS", help="Values of the visible units.  [default: --units]"),
        click.option(
            "--units",
            type=UNITS,
            default="binary",
            show_default=True,
            metavar="UNITS",
            help=f"Values of all units: {', '.join(f'{entry.typed(name)} {entry.values}' for name, entry in TABLE.items())}.",
        ),
    ):
        command = option(command)
    return command
