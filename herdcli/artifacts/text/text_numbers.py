"""Numbers in columns of text: read in the declared dialect, else refused with the options that would read them.

A column whose cells are mostly numbers is never taken for text: its first cell that is not a number is reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.dataset import GAPS_HINT
from herdcli.artifacts.formats.arrow import to_arrow
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.text import number_formats
from herdcli.artifacts.text.number_formats import MARKS, format_number, parse_number, parse_plain_number
from herdcli.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE = 1000  # cells that distinguish numbers from text: the first ones, and as many from the whole column
MISTYPED_HINT = "write numbers as 1.5 or 1e-3: correct the cell or the decimal commas, or remove the column"


def parse_columns(
    columns: Mapping[str, pa.ChunkedArray], where: str, options: LoadOptions, *, required: bool
) -> dict[str, pa.ChunkedArray]:
    """Return the numeric ones among some pyarrow columns of text, as columns of float64; cells without a value are NaN.

    required  columns that are mostly numbers must be entirely numeric; otherwise they stay text.
    Raises DataError for a cell that is not a number in such a column, and for a missing value where none is allowed.
    """
    found: dict[str, pa.ChunkedArray] = {}
    read_as: list[str] = []
    oddly: list[str] = []
    for name, column in columns.items():
        there = [text for text in _sample_cells(column) if text.strip() not in MARKS]
        if not there or 2 * sum(map(number_formats.looks_like_number, there)) <= len(there):
            if required and there:
                _refuse_quantities(there, column, name, where)
            continue
        texts = column.to_pylist()
        values = _parse_cells(texts, name, where, options, required=required)
        if values is None:
            continue
        import pyarrow as pa

        found[name] = pa.chunked_array([to_arrow(np.array(values))])
        cells = [text for text in texts[:SAMPLE] if text and not _is_plain(text) and text.strip() not in MARKS]
        if any(map(number_formats.has_unambiguous_variant, cells)):
            oddly.append(name)
        elif cells:
            read_as.append(f"{cells[0]} is {format_number(parse_number(cells[0], options.dialect) or 0.0)} in '{name}'")
    if read_as:
        options.note(f"{where}: read numbers with {number_formats.dialect_options(options.dialect)} (for example {_shorten_list(read_as)})")
    if oddly:
        options.note(
            f"{where}: digits, minus signs and blanks that are not ASCII, or exponents with D or × 10, are read in "
            f"{_shorten_list([repr(name) for name in oddly])}"
        )
    return found


def _is_plain(text: str) -> bool:
    """Return whether a text is a number in ASCII."""
    return parse_plain_number(text) is not None and not number_formats.has_unambiguous_variant(text)


def _refuse_quantities(texts: list[str], column: pa.ChunkedArray, name: str, where: str) -> None:
    """Raise DataError for a column of numbers with a unit, except for a few repeated values, which may be classes."""
    if 2 * len(set(texts)) > len(texts) and (unit := number_formats.common_unit(texts)) is not None:
        row, cell = next((row, text) for row, text in enumerate(column.to_pylist()) if text and unit in text)
        hint = f"remove '{unit}' from all cells, or leave the column out: --drop {name}"
        raise DataError(f"column '{name}' has '{cell}' in row {row}, a number with the unit '{unit}'", where=where, hint=hint)


def _refuse_bare_numbers(texts: list[str | None], name: str, where: str) -> None:
    """Raise DataError for a number without a percent sign among percentages."""
    there = [(row, text.strip()) for row, text in enumerate(texts) if text and text.strip() not in MARKS]
    if not any(text.endswith(("%", "\u2030")) for _, text in there):
        return
    bare = next(((row, text) for row, text in there if not text.endswith(("%", "\u2030")) and text.strip("+-0.,") != ""), None)
    if bare is not None:
        hint = "write a percent sign in every cell of the column, or in none"
        raise DataError(
            f"column '{name}' has '{bare[1]}' in row {bare[0]} without a percent sign, among percentages", where=where, hint=hint
        )


def _shorten_list(items: Sequence[str]) -> str:
    return ", ".join(items[:8]) + (" …" if len(items) > 8 else "")


def _sample_cells(column: pa.ChunkedArray) -> list[str]:
    """Return the first cells of a column, and cells from the whole column."""
    first = column.slice(0, SAMPLE).to_pylist()
    if len(column) > SAMPLE:
        places = np.linspace(SAMPLE, len(column) - 1, min(SAMPLE, len(column) - SAMPLE)).astype(np.int64)
        first += column.take(to_arrow(places)).to_pylist()
    return [text or "" for text in first]


def _parse_cells(texts: list[str | None], name: str, where: str, options: LoadOptions, *, required: bool) -> list[float] | None:
    """Return every cell as a number, NaN if missing; None for a column that may stay text and is not numeric."""
    values = [float("nan") if text is None or not text.strip() else parse_number(text, options.dialect) for text in texts]
    wrong = [row for row, value in enumerate(values) if value is None]
    faulty = [row for row in wrong if (texts[row] or "").strip() not in MARKS]
    if not required and (faulty or len(wrong) + sum(not text for text in texts)):
        return None
    if options.dialect.percent and not faulty:
        _refuse_bare_numbers(texts, name, where)
    if faulty or (wrong and not options.missing):
        row = faulty[0] if faulty else wrong[0]
        hint = _dialect_hint(texts, faulty, options) if faulty else "if it stands for a missing value, " + GAPS_HINT
        raise DataError(f"column '{name}' has {texts[row]!r} in row {row}, which is not a number", where=where, hint=hint)
    return [float("nan") if value is None else value for value in values]


def _dialect_hint(texts: list[str | None], faulty: list[int], options: LoadOptions) -> str:
    """Return a hint with the options that read the faulty cells, and the first cell that they do not read either."""
    cells = [texts[row] or "" for row in faulty]
    best = number_formats.propose_dialect(cells[:SAMPLE], options.dialect)
    first = parse_number(cells[0], best.dialect)
    if first is None or not best.options:
        return MISTYPED_HINT
    hint = f"{best.options} reads it as {format_number(first)}"
    there = {row: text for row, text in enumerate(texts) if text and text.strip() not in MARKS}
    left = next((row for row, text in there.items() if parse_number(text, best.dialect) is None), None)
    if left is not None:
        return f"{hint}, but not {texts[left]!r} in row {left}: correct that cell, or remove the column"
    some = list(there.values())[:SAMPLE]
    other = number_formats.alternative_dialect(some, best.dialect)
    if other is None:
        return hint
    differs = next(text for text in some if parse_number(text, other) != parse_number(text, best.dialect))
    ours, theirs = parse_number(differs, best.dialect) or 0.0, parse_number(differs, other) or 0.0
    return f"{best.options} reads {differs} as {format_number(ours)}, {number_formats.dialect_options(other)} as {format_number(theirs)}"
