"""The options --units, --visible-units and --hidden-units of commands that make harmoniums."""

from __future__ import annotations

from herdcli.cli.frame.options.declaration import Condition, custom_syntax_kind, option
from herdcli.errors import BadUsage
from herdcli.rbm.units import TABLE


def _parse_units(text: str) -> str:
    """Return the name of a unit family.  Raises ValueError if the family is unknown or softmax has no number of states."""
    if text == "softmax":
        raise ValueError("needs the number of states of a unit, as in softmax:3; without it, it is for --visible-units of fit-rbm")
    return _parse_visible_units(text)


def _parse_visible_units(text: str) -> str:
    """Return the name of a unit family, which may leave the numbers of states of softmax units to the text columns."""
    from herdcli.rbm.units import unit_family

    try:
        return unit_family(text).name
    except BadUsage as error:
        raise ValueError(error.message.replace(f"unknown units '{text}', expected one of", "is none of")) from None


UNITS = custom_syntax_kind("units", _parse_units)
VISIBLE_UNITS = custom_syntax_kind("units", _parse_visible_units)


def units_option(only: tuple[Condition, ...] | Condition = ()) -> str:
    """Declare --units."""
    names = ", ".join(f"{entry.option_name(name)} {entry.values}" for name, entry in TABLE.items())
    return option(UNITS, default="binary", metavar="UNITS", only=only, help=f"Type of all units, visible and hidden: {names}.")


def visible_units_option(only: tuple[Condition, ...] | Condition = (), *, from_data: bool = False) -> str | None:
    """Declare --visible-units.

    from_data  whether softmax may leave the numbers of states to the text columns of the input.
    """
    named = "binary, gaussian (reals), poisson (counts), " + ("softmax (text)" if from_data else "softmax:K (K categories)")
    return option(
        VISIBLE_UNITS if from_data else UNITS,
        metavar="UNITS",
        only=only,
        help=f"Data type: {named} ….  [default: binary]",
    )


def hidden_units_option(only: tuple[Condition, ...] | Condition = ()) -> str | None:
    """Declare --hidden-units."""
    return option(UNITS, metavar="UNITS", only=only, help="Type of the hidden units; the types are those of --units.  [default: binary]")
