"""Formatting of numbers in messages."""

from __future__ import annotations

import re


def group_digits(number: int) -> str:
    """Group the digits of a number: 10999 → '10 999'."""
    return f"{number:,}".replace(",", " ")


def format_size(size: int) -> str:
    """Format a size in decimal units: 1536 → '1.54 kB'."""
    number, units = float(size), ["B", "kB", "MB", "GB", "TB", "PB"]
    while number >= 999.5 and len(units) > 1:
        number, _ = number / 1000, units.pop(0)
    return f"{size} B" if units[0] == "B" else f"{number:.3g} {units[0]}"


def shorten_decimals(text: str) -> str:
    """Shorten long decimal numbers in a text to five digits: 'gaussian:28206.743828854283' → 'gaussian:28207'."""
    return re.sub(r"\d+\.\d{5,}", lambda found: f"{float(found[0]):.5g}", text)
