"""Option values of `herd ica` that need their own parsers, with their formats."""

from __future__ import annotations

import math

from herdcli.cli.frame.options.declaration import custom_syntax_kind, format_number

ALGORITHMS = ["ml", "infomax", "fastica", "picard", "sobi", "ebm", "equil", "sparse-coding"]


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
    """Parse a count, or a percentage, which is returned as a fraction (float)."""
    number = text.removesuffix("%")
    try:
        value = float(number) / 100.0 if number != text else int(number)
    except ValueError:
        value = 0
    if not value > 0 or (number != text and value > 1):
        raise ValueError("is neither a number from 1 upwards nor a share such as 95%")
    return value


def _format_rates(rates: tuple[tuple[float, int], ...]) -> str:
    return ",".join(f"{format_number(rate)}x{updates}" for rate, updates in rates)


def _format_mix(mix: tuple[str, float]) -> str:
    kind, share = mix
    return f"{kind}:{format_number(share)}" if kind == "instamix" else kind


def _format_components(components: int | float) -> str:
    """Format a count, or a fraction as the percentage from which it is parsed again exactly."""
    if isinstance(components, int):
        return str(components)
    percent = 100.0 * components
    near = (percent, math.nextafter(percent, math.inf), math.nextafter(percent, -math.inf))
    return f"{format_number(next((each for each in near if each / 100.0 == components), percent))}%"  # the exact inverse of parsing


COMPONENTS = custom_syntax_kind("N|P%", _parse_components, _format_components)
MIX = custom_syntax_kind("random|instamix", _parse_mix, _format_mix)
RATES = custom_syntax_kind("schedule", _parse_rates, _format_rates)
GRID = custom_syntax_kind("HxW", _parse_grid, lambda grid: "x".join(map(str, grid)))
INITIAL_SCALE = custom_syntax_kind("float|unit", _parse_scale, lambda scale: format_number(scale) if scale else "unit")
