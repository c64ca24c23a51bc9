"""The options --units, --visible-units and --hidden-units of commands that make harmoniums."""

from __future__ import annotations

from herdcli.cli.frame.options.declaration import Condition, option, parsed_kind
from herdcli.errors import BadUsage
from herdcli.rbm.units import TABLE


def _parse_units(text: str) -> str:
    """Return the name of a unit family.  Raises ValueError if the family is unknown or softmax has no number of states."""
    from herdcli.rbm.units import unit_family

    if text == "softmax":
        raise ValueError("needs the number of states of a unit: softmax:3 takes columns of text with 3 levels each")
    try:
        return unit_family(text).name
    except BadUsage as error:
        raise ValueError(error.message.replace(f"unknown units '{text}', expected one of", "is none of")) from None


UNITS = parsed_kind("units", _parse_units)


def units_option(only: tuple[Condition, ...] | Condition = ()) -> str:
    """Declare --units."""
    names = ", ".join(f"{entry.typed(name)} {entry.values}" for name, entry in TABLE.items())
    return option(UNITS, default="binary", metavar="UNITS", only=only, help=f"Type of all units, visible and hidden: {names}.")


def visible_units_option(only: tuple[Condition, ...] | Condition = ()) -> str | None:
    """Declare --visible-units."""
    return option(
        UNITS,
        metavar="UNITS",
        only=only,
        help="Type of the visible units: binary, spin, rate:N, gaussian, poisson, softmax:K …  [default: that of --units, binary]",
    )


def hidden_units_option(only: tuple[Condition, ...] | Condition = ()) -> str | None:
    """Declare --hidden-units."""
    return option(
        UNITS, metavar="UNITS", only=only, help="Type of the hidden units, as for --visible-units.  [default: that of --units, binary]"
    )
