"""Nearest training rows of binary or real data: the baseline of every classifier here."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from herdcli.algorithm import Map
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.row_selection import SelectedRows
from herdcli.schema import Array

BLOCK = 1 << 21  # distances computed at one time: 8 MB
REFERENCES = 1 << 12  # reference rows that are converted to float32 at one time
PART = 512  # rows per thread at one time


def nearest_rows_manhattan(rows: Array, references: Array | SelectedRows) -> Array:
    """Return the index of the reference nearest to each row in Manhattan distance; the lowest index wins ties.

    rows (n, D) and references (m, D), both of binary units: 0/1, bool or ±1 (any value > 0 is "on").
    Returns (n,) int64.  Distances come from matrix products block by block and are exact integers.
    """
    if not len(references):
        raise ValueError("there are no reference rows")
    # Σ|r − q| over 0/1 units is Σr + Σq − 2 r·q; Σr is the same for all references q.
    found, least = np.zeros(len(rows), dtype=np.int64), np.full(len(rows), np.inf, dtype=np.float32)
    for first in range(0, len(references), REFERENCES):
        on = (references[first : first + REFERENCES] > 0).astype(np.float32)
        ink = on.sum(axis=1)
        doubled = np.multiply(on.T, np.float32(-2.0), order="C")
        size = max(1, BLOCK // len(on))
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            distance = exact_arithmetic.matrix_product((rows[part] > 0).astype(np.float32), doubled)
            distance += ink
            index = distance.argmin(axis=1)
            here = np.take_along_axis(distance, index[:, None], axis=1)[:, 0]
            closer = here < least[part]
            found[part][closer] = first + index[closer]
            least[part][closer] = here[closer]
    return found


def nearest_rows_parallel(rows: Array | SelectedRows, references: Array | SelectedRows, map: Map = map) -> Array:
    """Return `nearest_rows_manhattan` (n,) of rows (n, D), computed for parts of the rows that `map` may distribute to threads."""
    ends = np.linspace(0, len(rows), max(1, len(rows) // PART) + 1).astype(int)
    parts = [slice(*pair) for pair in pairwise(ends.tolist())]
    found: Array = np.concatenate(list(map(lambda part: nearest_rows_manhattan(rows[part], references), parts)))
    return found


def nearest_rows_euclidean(rows: Array | SelectedRows, references: Array | SelectedRows) -> Array:
    """Return the index of the reference nearest to each row in Euclidean distance, (n,) int64, for rows (n, D), references (m, D)."""
    if not len(references):
        raise ValueError("there are no reference rows")
    found, least = np.zeros(len(rows), dtype=np.int64), np.full(len(rows), np.inf)
    for first in range(0, len(references), REFERENCES):
        q = np.asarray(references[first : first + REFERENCES], dtype=np.float64)
        squares = np.einsum("md,md->m", q, q)
        size = max(1, BLOCK // len(q))
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            # |r − q|² = |r|² + |q|² − 2 r·q, and |r|² is the same for all references.
            distance = squares - 2.0 * exact_arithmetic.matrix_product(np.asarray(rows[part], dtype=np.float64), q.T)
            index = distance.argmin(axis=1)
            here = np.take_along_axis(distance, index[:, None], axis=1)[:, 0]
            closer = here < least[part]
            found[part][closer] = first + index[closer]
            least[part][closer] = here[closer]
    return found
