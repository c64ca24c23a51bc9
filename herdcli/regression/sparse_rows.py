"""Rows of a regression that stay sparse from the file to the products: CSR columns beside target, offset and weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from herdcli.errors import DataError
from herdcli.numerics.block_statistics import BLOCK, BlockSource, RowBlock, RowBlocks, RowReader
from herdcli.records import dataclass
from herdcli.schema import Array, CSRMatrix, Matrix


@dataclass(frozen=True)
class SparseBlock:
    """A block of consecutive rows: Z (m, D + 1) CSR float64 with ones last, target (m,), offset (m,), weights (m,)."""

    first: int
    Z: CSRMatrix
    y: Array
    offset: Array
    weight: Array


@dataclass(frozen=True)
class SparseRows:
    """Rows of a regression: Z (n, D + 1) CSR float64 with ones last, target y (n,), offset (n,), weight (n,) or None.

    Raises DataError for infinite values.
    """

    Z: CSRMatrix
    y: Array
    offset: Array
    weight: Array | None = None

    def __post_init__(self) -> None:
        if not all(np.isfinite(values).all() for values in (self.Z.data, self.y, self.offset)):
            raise DataError("there are infinite values", hint="write NaN for missing values")

    @classmethod
    def from_columns(cls, X: Matrix, y: Array, offset: Array, weight: Array | None) -> SparseRows:
        """Return the rows with columns X (n, D) CSR."""
        from scipy.sparse import csr_array, hstack

        ones = csr_array(np.ones((X.shape[0], 1)))
        return cls(csr_array(hstack([X.astype(np.float64), ones], format="csr")), y, offset, weight)

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.Z.shape[0])

    @property
    def columns(self) -> int:
        """The number of columns, target and offset included."""
        return int(self.Z.shape[1]) + 1

    def read(self, start: int, stop: int) -> RowBlock:
        """Raise LookupError: the rows are read as blocks of CSR rows."""
        raise LookupError("sparse rows are read by `regression_blocks`")


@dataclass(frozen=True)
class SparseBlocks:
    """The blocks of sparse rows, cut once, since cutting CSR rows copies them."""

    blocks: list[SparseBlock]

    @classmethod
    def from_rows(cls, rows: SparseRows) -> SparseBlocks:
        """Return the blocks of these rows."""
        weight = np.ones(rows.count) if rows.weight is None else rows.weight
        parts = (slice(start, min(start + BLOCK, rows.count)) for start in range(0, rows.count, BLOCK))
        return cls([SparseBlock(part.start, rows.Z[part], rows.y[part], rows.offset[part], weight[part]) for part in parts])

    @property
    def count(self) -> int:
        """The number of blocks."""
        return len(self.blocks)

    def take(self, first: int, last: int) -> Iterator[SparseBlock]:
        """Yield blocks first … last − 1."""
        yield from self.blocks[first:last]


def regression_blocks(rows: RowReader) -> BlockSource:
    """Return the blocks of a regression's rows, dense or sparse."""
    return SparseBlocks.from_rows(rows) if isinstance(rows, SparseRows) else RowBlocks(rows)
