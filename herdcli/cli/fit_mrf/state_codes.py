"""Whole numbers in columns as names of states: each distinct code, such as 1 … 5, 10 and 20, or −1, 0 and 1, is one state.

Codes that are 0, 1, … without a gap are the indices of their states and need no names.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from herdcli.errors import DataError
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.schema import Array

MOST_STATES = 64
HINT = "to read grey values as on or off, use --values two with --range LO,HI and --threshold F"


@dataclass(frozen=True)
class CodedColumns:
    """Columns of codes as states.

    x            (n, N) indices of states, −1 for missing values.
    cardinality  the number of states of each column.
    levels       names of the states of columns that need them.
    """

    x: Array
    cardinality: Array
    levels: dict[int, tuple[str, ...]]


def are_state_codes(X: Array) -> bool:
    """Return whether values (n, N) are codes of states rather than grey levels, and not only 0 and 1.

    Codes are whole numbers that are all near 0, or of which each column has few, each occurring at least twice on average.
    """
    if not X.size or not bool((X % 1 == 0).all()):
        return False
    low, high = X.min(), X.max()
    if low >= 0 and high <= 1:
        return False
    if low > -MOST_STATES and high < MOST_STATES:
        return True
    return all(2 * (count := len(np.unique(column))) <= len(X) and count <= MOST_STATES for column in X.T)


def encode_state_codes(X: Array, where: str, indexed_columns: Collection[int] = ()) -> CodedColumns:
    """Return columns of whole numbers as states.

    X       (n, N), NaN for missing values.
    indexed_columns  columns that already hold indices of states.

    Raises DataError for other numbers, and for columns of more than 64 different ones.
    """
    gaps = np.isnan(X) if X.dtype.kind == "f" else np.zeros(X.shape, dtype=bool)
    x, cardinality = np.full(X.shape, -1, dtype=np.int64), np.full(X.shape[1], 2, dtype=np.int64)
    levels: dict[int, tuple[str, ...]] = {}
    for column in range(X.shape[1]):
        known = ~gaps[:, column]
        given = X[known, column]
        if (wrong := given % 1 != 0).any():
            row = int(np.flatnonzero(known)[np.argmax(wrong)])
            raise DataError(f"column {column} has {X[row, column]:g} in row {row}; states are whole numbers", where=where, hint=HINT)
        if not given.size:
            continue
        found = np.unique(given)
        if column in indexed_columns or (found[0] >= 0 and found[-1] <= 1):
            x[known, column], cardinality[column] = given.astype(np.int64), max(2, int(found[-1]) + 1)
            continue
        if len(found) > MOST_STATES:
            message = f"column {column} has {len(found)} different numbers, but a variable can have at most {MOST_STATES} states"
            raise DataError(message, where=where, hint=HINT)
        x[known, column], cardinality[column] = np.searchsorted(found, given), len(found)
        if names := state_code_names(found):
            levels[column] = names
    return CodedColumns(x, cardinality, levels)


def state_code_names(codes: Array) -> tuple[str, ...]:
    """Return the names of sorted codes; none if each code is the index of its state."""
    return () if np.array_equal(codes, np.arange(len(codes))) else tuple(str(int(code)) for code in codes.tolist())


def state_codes_message(levels: dict[int, tuple[str, ...]], names: list[str] | None) -> str:
    """Return the message about columns whose numbers are names of states."""
    shown = [
        f"{names[column] if names else f'column {column}'} ({', '.join(_shorten_levels(own))})" for column, own in list(levels.items())[:4]
    ]
    return f"numbers are names of states: {'; '.join(shown)}{' …' if len(levels) > 4 else ''}"


def _shorten_levels(levels: tuple[str, ...]) -> list[str]:
    return list(levels) if len(levels) <= 7 else [*levels[:3], "…", *levels[-2:]]
