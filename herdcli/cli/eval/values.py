"""The types of option values of `herd eval` that have their own syntax."""

from __future__ import annotations

from herdcli.cli.frame.options.declaration import custom_syntax_kind


def _parse_dimensions(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if len(parts) != 4 or not all(part.isdecimal() and int(part) for part in parts):
        raise ValueError("is not four numbers EIGEN,FISHER,WITHIN,BETWEEN from 1 upwards")
    return tuple(map(int, parts))


DIMENSIONS = custom_syntax_kind("eigen,fisher,within,between", _parse_dimensions, lambda sizes: ",".join(map(str, sizes)))
MOST_INCHES = 100.0


def _parse_size(text: str) -> str:
    parts = text.lower().split("x")
    try:
        sides = [float(part) for part in parts]
    except ValueError:
        sides = []
    if len(sides) not in (1, 2) or not all(1.0 <= side <= MOST_INCHES for side in sides):
        raise ValueError(f"is not a width, or WIDTHxHEIGHT, in inches from 1 to {MOST_INCHES:g}")
    return "x".join(f"{side:g}" for side in sides)


SIZE = custom_syntax_kind("widthxheight", _parse_size)
