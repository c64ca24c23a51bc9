"""Rows shared by several computations: selected from one matrix, dense or CSR, when they are accessed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from herdcli.numerics.streamed_rows import StreamedRows
from herdcli.records import dataclass
from herdcli.schema import Array, DType, Matrix, is_sparse

BLOCK = 1 << 18  # entries examined at one time


def as_dense(rows: Matrix) -> Array:
    """Return rows (n, D) as an array; those of a CSR matrix are copied."""
    found: Array = rows.toarray() if is_sparse(rows) else rows
    return found


@dataclass(frozen=True)
class SelectedRows:
    """Selected rows (n, D) of a matrix (N, D), dense or CSR, which are copied on access: base[index] as an array."""

    base: Matrix
    index: Array

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (n, D)."""
        return len(self.index), self.base.shape[1]

    @property
    def dtype(self) -> DType:
        """The type of the entries."""
        found: DType = self.base.dtype
        return found

    def __len__(self) -> int:
        return len(self.index)

    def read_stored_rows(self, chosen: Array | slice) -> Matrix:
        """Return some of the rows, (m, D), as they are stored, dense or CSR."""
        return self.base[self.index[chosen]]

    def __getitem__(self, chosen: Array | slice) -> Array:
        return as_dense(self.read_stored_rows(chosen))


def select_rows(rows: Matrix, chosen: Array | slice) -> Matrix:
    """Return some rows of a matrix (n, D), dense or CSR, of selected rows or of streamed rows, as they are stored."""
    return rows.read_stored_rows(chosen) if isinstance(rows, (SelectedRows, StreamedRows)) else rows[chosen]


def iterate_row_slices(rows: Matrix, width: int = 0) -> Iterator[slice]:
    """Return slices of rows (n, D), each of about BLOCK entries.  width  additional entries computed for each row."""
    step = max(1, BLOCK // max(1, rows.shape[1] + width))
    return (slice(start, min(start + step, rows.shape[0])) for start in range(0, rows.shape[0], step))


def column_sums(rows: Matrix) -> Array:
    """Return the sum of each column of rows (n, D), (D,): int64 for integers, which is exact, float64 otherwise."""
    total = np.zeros(rows.shape[1], dtype=np.int64 if rows.dtype.kind in "iub" else np.float64)
    for block in iterate_row_slices(rows):
        total += np.asarray(select_rows(rows, block).sum(axis=0, dtype=total.dtype)).reshape(-1)
    return total
