"""Numbers as messages write them."""

from __future__ import annotations

import re


def group_digits(number: int) -> str:
    """10999 → '10 999'."""
    return f"{number:,}".replace(",", " ")


def format_size(size: int) -> str:
    """1536 → '1.54 kB' (decimal units)."""
    number, units = float(size), ["B", "kB", "MB", "GB", "TB", "PB"]
    while number >= 999.5 and len(units) > 1:
        number, _ = number / 1000, units.pop(0)
    return f"{size} B" if units[0] == "B" else f"{number:.3g} {units[0]}"


def shorten_decimals(text: str) -> str:
    """'gaussian:28206.743828854283' → 'gaussian:28207': decimal numbers of many digits in a text, to five of them."""
    return re.sub(r"\d+\.\d{5,}", lambda found: f"{float(found[0]):.5g}", text)
