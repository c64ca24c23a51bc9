"""The nearest training row of two-state data, the baseline of every classifier here."""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array

BLOCK = 1 << 21  # distances in one block: 8 MB


def nearest(rows: Array, references: Array) -> Array:
    """Index of the reference nearest to each row under Manhattan distance; the lowest index wins ties.

    rows (n, D) and references (m, D), both of two-state units: 0/1, bool or ±1 (any value > 0 is "on").
    Returns (n,) int64.  Distances come from matrix products block by block and are exact integers.
    """
    if not len(references):
        raise ValueError("there are no reference rows")
    # Σ|r − q| over 0/1 units is Σr + Σq − 2 r·q; Σr is the same for all references q.
    on = (references > 0).astype(np.float32)
    ink = on.sum(axis=1)
    doubled = np.ascontiguousarray(-2.0 * on.T)
    size = max(1, BLOCK // len(references))
    found = np.empty(len(rows), dtype=np.int64)
    for start in range(0, len(rows), size):
        distance = (rows[start : start + size] > 0).astype(np.float32) @ doubled
        distance += ink
        found[start : start + size] = distance.argmin(axis=1)
    return found
