"""Readable tables: columns of equal width, numbers aligned to the right, folded into blocks if wider than the terminal."""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Sequence

from herdcli.errors import escape_text

WIDTH = 100  # characters of a line without a terminal
MISSING = "–"
GAP = "  "


def terminal_width() -> int:
    """Return the characters of a line on the terminal of stdout; WIDTH if stdout is not a terminal."""
    return shutil.get_terminal_size((WIDTH, 24)).columns if stdout_is_terminal() else WIDTH


def stdout_is_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def display_width(text: str) -> int:
    """Return the terminal columns that a text takes: two for a wide character, none for one that combines with the one before."""
    return sum(0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


def pad_text(text: str, width: int, *, right: bool = False) -> str:
    """Return a text padded with blanks to a width."""
    blanks = " " * max(0, width - display_width(text))
    return blanks + text if right else text + blanks


def shorten_text(text: str, length: int) -> str:
    """Return a text of at most `length` characters; a longer one is cut and ends in an ellipsis."""
    return text if len(text) <= length else f"{text[: max(length - 1, 1)]}…"


def text_table(
    header: Sequence[str], lines: Sequence[Sequence[str]], *, width: int | None = None, keys: int = 1, indent: int = 0, left: int = 1
) -> str:
    """Return a table of texts; an empty cell is shown as MISSING.

    width  of the terminal: columns that do not fit follow in further blocks, each with the first `keys` columns; None: no folding.
    left   how many columns at the beginning are aligned to the left; so are columns in which a cell is not a number.
    """
    cells = [[escape_text(cell) or MISSING for cell in line] for line in lines]
    titles = [escape_text(name) for name in header]
    right = [k >= left and all(_is_number(line[k]) for line in cells) for k in range(len(titles))]
    widths = [max(display_width(line[k]) for line in [titles, *cells]) for k in range(len(titles))]
    blocks = _fold_columns(widths, keys, None if width is None else width - indent)
    texts = []
    for block in blocks:
        made = [GAP.join(pad_text(line[k], widths[k], right=right[k]) for k in block).rstrip() for line in [titles, *cells]]
        texts.append("".join(f"{' ' * indent}{line}\n" for line in made))
    return "\n".join(texts)


def _fold_columns(widths: Sequence[int], keys: int, width: int | None) -> list[list[int]]:
    """Return the columns of each block: the keys, and as many others as fit, at least one."""
    first, rest = list(range(min(keys, len(widths)))), range(min(keys, len(widths)), len(widths))
    taken = sum(widths[k] + len(GAP) for k in first)
    blocks: list[list[int]] = [[]]
    used = taken
    for k in rest:
        if width is not None and blocks[-1] and used + widths[k] > width:
            blocks.append([])
            used = taken
        blocks[-1].append(k)
        used += widths[k] + len(GAP)
    return [first + block for block in blocks]


def _is_number(text: str) -> bool:
    """Whether a cell is missing or a number, perhaps with its error."""
    if text == MISSING:
        return True
    try:
        float(text.split(" ± ")[0].strip("()%<").replace(",", ""))
    except ValueError:
        return False
    return True
