"""The held-out rows of a fit: stored with the model, or, if they are many, identified by a digest."""

from __future__ import annotations

import hashlib

import numpy as np

from herdcli.numerics.row_selection import as_dense, iterate_row_slices
from herdcli.schema import Array, Matrix, is_sparse
from herdcli.splits import TEST, VALID

LARGE = 1 << 26  # the model does not store held-out rows of more bytes than this
PARTS = (VALID, TEST)


def heldout_bytes(X: Matrix, split: Array) -> int:
    """Return the size in bytes of the held-out rows among X (n, D), dense or CSR, in memory or not."""
    if is_sparse(X):
        entries = int(np.diff(X.indptr)[np.isin(split, PARTS)].sum())
        return entries * int(X.data.itemsize + X.indices.itemsize)
    return sum(count_heldout_rows(split)) * int(X.shape[1]) * int(X.dtype.itemsize)


def count_heldout_rows(split: Array) -> tuple[int, int]:
    """Count the validation and test rows of a split (n,)."""
    return int(np.count_nonzero(split == VALID)), int(np.count_nonzero(split == TEST))


def read_heldout_rows(X: Matrix, split: Array) -> Array:
    """Read the held-out rows (m, D), in their order, from a matrix that is not in memory."""
    found = [np.empty((0, X.shape[1]), dtype=X.dtype)]
    for block in iterate_row_slices(X):
        chosen = np.isin(split[block], PARTS)
        if chosen.any():
            found.append(X[block][chosen])
    return np.concatenate(found)


def heldout_digest(X: Matrix, split: Array, y: Array | None) -> str:
    """Compute the SHA-256 of the held-out rows among X (n, D), and of their classes y (n,) if they have any.

    Rows are in unit values, dense or CSR, and are read part by part.  CSR rows have the same digest as the dense rows.
    """
    own = {part: hashlib.sha256() for part in PARTS}
    kind = np.dtype(X.dtype).newbyteorder("<")
    for block in iterate_row_slices(X):
        parts = split[block]
        if not np.isin(parts, PARTS).any():
            continue
        rows = as_dense(X[block])
        for part, known in own.items():
            known.update(np.ascontiguousarray(rows[parts == part], dtype=kind).data.cast("B") if (parts == part).any() else b"")
    whole = hashlib.sha256(f"{kind.str} {X.shape[1]} {count_heldout_rows(split)}".encode())
    for part, known in own.items():
        whole.update(known.digest())
        whole.update(b"" if y is None else np.ascontiguousarray(y[split == part], dtype="<i8").tobytes())
    return whole.hexdigest()
