"""Rows of a regression that stay sparse from the file to the products: CSR columns beside target, offset and weights.

Products with K vectors take them side by side, (p, K'): K' is K, or padded with zeros to a multiple of 4.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from herdcli import fast
from herdcli.errors import DataError
from herdcli.numerics.block_statistics import BLOCK, ArrayRows, BlockSource, RowBlock, RowBlocks, RowReader
from herdcli.records import dataclass
from herdcli.schema import Array, CSRMatrix, Matrix

SPARSE = 0.25  # dense rows with at most this share of nonzero entries are compressed: their products are then faster


def side_by_side(vectors: Array) -> Array:
    """Return K vectors (K, p) as (p, K'), contiguous; without a copy where (p, K) is contiguous and K is 1 or a multiple of 4."""
    K, p = vectors.shape
    if K == 1 or K % 4 == 0:
        return np.ascontiguousarray(vectors.T)
    found = np.zeros((p, K + -K % 4))
    found[:, :K] = vectors.T
    return found


@dataclass(frozen=True)
class SparseBlock:
    """A block of consecutive rows: Z (m, D + 1) CSR float64 with int32 indices and ones last, target, offset and weights (m,)."""

    first: int
    Z: CSRMatrix
    y: Array
    offset: Array
    weight: Array

    def products(self, vectors: Array) -> Array:
        """Return Z v (m, K) of vectors (K, p)."""
        v = side_by_side(vectors)
        found = np.empty((len(self.y), v.shape[1]))
        fast.csr_products(self.Z.indptr, self.Z.indices, self.Z.data, v, found)
        return found[:, : len(vectors)]

    def transposed_products(self, values: Array, *, squares: bool = False) -> Array:
        """Return Σ_n u_n ⊗ z_n (K, p) of values u (m, K); with the squares of the entries of z_n if asked."""
        u = side_by_side(values.T)
        found = np.zeros((self.Z.shape[1], u.shape[1]))
        fast.add_transposed_products(self.Z.indptr, self.Z.indices, np.square(self.Z.data) if squares else self.Z.data, u, found)
        return found.T[: values.shape[1]]

    def curvature_products(self, curve: Array, vectors: Array) -> Array:
        """Return Σ_n w_n z_n ⊗ C_n v'z_n (K, p) of vectors v (K, p).

        curve (m, K')  side by side: the numbers C_n, or for K > 1 the π of C_n = diag π − ππ'.
        """
        v = side_by_side(vectors)
        found = np.zeros_like(v)
        fast.add_curvature_products(
            self.Z.indptr, self.Z.indices, self.Z.data, curve, self.weight, v, np.empty((len(self.y), v.shape[1])), found
        )
        return found.T[: len(vectors)]


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
        return cls(
            [SparseBlock(part.start, _with_short_indices(rows.Z[part]), rows.y[part], rows.offset[part], weight[part]) for part in parts]
        )

    @property
    def count(self) -> int:
        """The number of blocks."""
        return len(self.blocks)

    def take(self, first: int, last: int) -> Iterator[SparseBlock]:
        """Yield blocks first … last − 1."""
        yield from self.blocks[first:last]


def _with_short_indices(Z: CSRMatrix) -> CSRMatrix:
    from scipy.sparse import csr_array

    indices, starts = (part.astype(np.int32, copy=False) for part in (Z.indices, Z.indptr))
    return csr_array((np.ascontiguousarray(Z.data, dtype=np.float64), indices, starts), shape=Z.shape)


def compress_blocks(source: BlockSource) -> BlockSource:
    """Return the blocks of rows (m, D + 2) in memory as sparse blocks if few of their entries are not 0, else the source itself."""
    if not (isinstance(source, RowBlocks) and isinstance(source.rows, ArrayRows)):
        return source
    X = source.rows.X
    share = np.count_nonzero(X[:BLOCK]) / X[:BLOCK].size
    if share > SPARSE or len(X) * X.shape[1] < BLOCK or np.count_nonzero(X) > SPARSE * X.size:
        return source
    return SparseBlocks([_compress_block(block) for block in source.take(0, source.count)])


def _compress_block(block: RowBlock) -> SparseBlock:
    from scipy.sparse import csr_array

    X = np.column_stack([block.X[:, :-2], np.ones(len(block.X))])
    Z = csr_array(X)
    weight = np.ones(len(X)) if block.weight is None else block.weight
    return SparseBlock(block.first, _with_short_indices(Z), block.X[:, -2].copy(), block.X[:, -1].copy(), weight)


def regression_blocks(rows: RowReader) -> BlockSource:
    """Return the blocks of a regression's rows, dense or sparse."""
    return SparseBlocks.from_rows(rows) if isinstance(rows, SparseRows) else RowBlocks(rows)
