"""Option values of `herd kernel-herd` that need their own parsers, with their formats."""

from __future__ import annotations

from typing import Literal

from herdcli.cli.frame.options.declaration import custom_syntax_kind, format_number


def _parse_bandwidth(text: str) -> float | Literal["median"]:
    """Parse a length above 0, or 'median'."""
    if text == "median":
        return "median"
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ValueError("is neither 'median' nor a number above 0")
    if not 1e-100 <= number <= 1e100:
        raise ValueError("is not from 1e-100 to 1e100, beyond which its powers leave float64")
    return number


def _format_bandwidth(bandwidth: float | Literal["median"]) -> str:
    return bandwidth if isinstance(bandwidth, str) else format_number(bandwidth)


def _parse_scale(text: str) -> str | tuple[float, ...]:
    """Parse a scaling method for columns, or a number for each column."""
    if text in ("none", "std", "range"):
        return text
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError("is none of 'none', 'std', 'range', nor numbers S1,S2,…") from None
    if not all(0 < number < float("inf") for number in numbers):
        raise ValueError("has numbers that are not above 0")
    return numbers


def _format_scale(scale: str | tuple[float, ...]) -> str:
    return scale if isinstance(scale, str) else ",".join(map(format_number, scale))


def _parse_norm(text: str) -> str:
    """Check and return 'exact' or sample:N."""
    kind, _, number = text.partition(":")
    if text != "exact" and (kind != "sample" or not number.isdecimal() or not 1 < int(number) < 1 << 31):
        raise ValueError("is neither 'exact' nor sample:N with N above 1")
    return text


def _parse_embedding(text: str) -> str:
    """Check and return 'exact', sample:N, nystrom:R or fourier:R."""
    from herdcli.quadrature.embeddings.approximation import parse_embedding_approximation

    parse_embedding_approximation(text)
    return text


BANDWIDTH = custom_syntax_kind("median|float", _parse_bandwidth, _format_bandwidth)
SCALE = custom_syntax_kind("none|std|range|numbers", _parse_scale, _format_scale)
NORM = custom_syntax_kind("exact|sample:N", _parse_norm)
EMBEDDING = custom_syntax_kind("exact|sample:N|nystrom:R|fourier:R", _parse_embedding)
