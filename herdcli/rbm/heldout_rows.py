"""Rows held out of a fit: kept with the model, or, where they are many, known by a digest that other rows are held against."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from herdcli.numerics.row_selection import as_dense, is_sparse, row_slices
from herdcli.schema import Array
from herdcli.splits import TEST, VALID

LARGE = 1 << 26  # bytes of held-out rows from which on the model does not take them along
PARTS = (VALID, TEST)


def heldout_bytes(X: Any, split: Array) -> int:
    """Bytes of the held-out rows among X (n, D), dense or CSR, in memory or not."""
    if is_sparse(X):
        entries = int(np.diff(X.indptr)[np.isin(split, PARTS)].sum())
        return entries * int(X.data.itemsize + X.indices.itemsize)
    return sum(heldout_counts(split)) * int(X.shape[1]) * int(X.dtype.itemsize)


def heldout_counts(split: Array) -> tuple[int, int]:
    """Validation and test rows of a split (n,)."""
    return int(np.count_nonzero(split == VALID)), int(np.count_nonzero(split == TEST))


def read_heldout(X: Any, split: Array) -> Array:
    """The held-out rows (m, D) of a matrix that is not in memory, in their order."""
    found = [np.empty((0, X.shape[1]), dtype=X.dtype)]
    for block in row_slices(X):
        chosen = np.isin(split[block], PARTS)
        if chosen.any():
            found.append(X[block][chosen])
    return np.concatenate(found)


def heldout_digest(X: Any, split: Array, y: Array | None) -> str:
    """SHA-256 of the held-out rows among X (n, D) in unit values, dense or CSR, part by part, and of their classes y (n,) if they have any.

    The bytes of CSR rows count as those of the same rows written out.
    """
    own = {part: hashlib.sha256() for part in PARTS}
    kind = np.dtype(X.dtype).newbyteorder("<")
    for block in row_slices(X):
        parts = split[block]
        if not np.isin(parts, PARTS).any():
            continue
        rows = as_dense(X[block])
        for part, known in own.items():
            known.update(np.ascontiguousarray(rows[parts == part], dtype=kind).data.cast("B") if (parts == part).any() else b"")
    whole = hashlib.sha256(f"{kind.str} {X.shape[1]} {heldout_counts(split)}".encode())
    for part, known in own.items():
        whole.update(known.digest())
        whole.update(b"" if y is None else np.ascontiguousarray(y[split == part], dtype="<i8").tobytes())
    return whole.hexdigest()
