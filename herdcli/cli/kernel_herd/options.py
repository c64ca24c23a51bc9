"""What `herd kernel-herd` reads from the texts of its options."""

from __future__ import annotations


def parse_bandwidth(text: str) -> float | str:
    """A length above 0, or 'median'.  Raises ValueError."""
    if text == "median":
        return text
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ValueError("is neither 'median' nor a number above 0")
    return number


def parse_scale(text: str) -> str | tuple[float, ...]:
    """A way to scale columns, or a number for each.  Raises ValueError."""
    if text in ("none", "std", "range"):
        return text
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError("is none of 'none', 'std', 'range', nor numbers S1,S2,…") from None
    if not all(0 < number < float("inf") for number in numbers):
        raise ValueError("has numbers that are not above 0")
    return numbers


def parse_norm(text: str) -> str:
    """'exact' or sample:N.  Raises ValueError."""
    kind, _, number = text.partition(":")
    if text != "exact" and (kind != "sample" or not number.isdigit() or not 1 < int(number) < 1 << 31):
        raise ValueError("is neither 'exact' nor sample:N with N above 1")
    return text


def parse_embedding(text: str) -> str:
    """'exact', sample:N, nystrom:R or fourier:R.  Raises ValueError."""
    from herdcli.quadrature.approximation import parse

    parse(text)
    return text
