"""The states of a separator that the zeros leave possible, as bits, so that a message contains only the numbers of these.

A clique is processed column by column: a column is one state of its separator (all its variables except the first).  Zeros of
factors, and of the messages of the clique's children, make columns impossible.  The collecting pass finds and counts the possible columns
with truth values only, in slabs.  If at most a quarter is possible, the clique's message, and all work on the clique, use only these.

The position of a column among the possible ones is its rank: the number of ones in all earlier words of bits, which is
precomputed, plus those in its own word below its bit.  Source: Jacobson (1989), succinct rank; Jensen & Andersen (1990) and
Darwiche (2001) for junction trees without zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from herdcli.records import dataclass
from herdcli.schema import Array

SHARE = 4  # impossible columns are left out if at most one in this many is possible
LEAST = 1 << 12  # impossible columns are left out only if a message has at least this many columns
CHUNK = 1 << 15  # columns that are processed at a time


@dataclass(frozen=True)
class PossibleColumns:
    """The possible columns among `size` columns.

    words   a bit for each column, 1 if it is possible; 64 bits in each word, the lowest first.
    before  the number of ones before each word.
    """

    size: int
    words: Array
    before: Array
    count: int

    @property
    def memory_in_float64s(self) -> int:
        """The memory, as a number of float64s: the bits, the counts, and one message."""
        return 2 * len(self.words) + self.count

    def column_chunks(self) -> Iterator[tuple[int, Array]]:
        """Yield (rank of the first, numbers of the columns) of the possible columns, in order, about CHUNK at a time."""
        low, step = 0, max(1, int(CHUNK / 64 * self.size / max(1, self.count)))
        for first in range(0, len(self.words), step):
            bits = np.unpackbits(self.words[first : first + step].view(np.uint8), bitorder="little")
            found = np.flatnonzero(bits)
            if len(found):
                yield low, found + 64 * first
                low += len(found)

    def all(self) -> Array:
        """Return the numbers of all possible columns."""
        return np.flatnonzero(np.unpackbits(self.words.view(np.uint8), bitorder="little"))

    def rank_columns(self, column: Array) -> tuple[Array, Array]:
        """Return the ranks of columns among the possible ones, and which of them are possible (for others the rank is meaningless)."""
        word, bit = column >> 6, (column & 63).astype(np.uint64)
        bits = self.words[word]
        below = np.bitwise_count(bits & ((np.uint64(1) << bit) - np.uint64(1)))
        rank = np.minimum(self.before[word] + below, max(0, self.count - 1))
        return rank, (bits >> bit) & np.uint64(1) != 0


def pack_columns(possible: Array) -> PossibleColumns:
    """Pack truth values of any shape, in C order."""
    flat = possible.reshape(-1)
    bits = np.packbits(flat, bitorder="little")
    words = np.concatenate([bits, np.zeros(-len(bits) % 8, dtype=np.uint8)]).view(np.uint64)
    ones = np.bitwise_count(words).astype(np.int64)
    before = np.cumsum(ones) - ones
    return PossibleColumns(flat.size, words, before, int(ones.sum()))


def unpack_columns(columns: PossibleColumns, shape: Sequence[int]) -> Array:
    """Return the truth values in a given shape."""
    return np.unpackbits(columns.words.view(np.uint8), count=columns.size, bitorder="little").view(np.bool_).reshape(shape)


def is_packing_worthwhile(columns: PossibleColumns) -> bool:
    """Return True if a message over the possible columns is much smaller, and the full one is large."""
    return columns.size >= LEAST and columns.count * SHARE <= columns.size


@dataclass(frozen=True)
class ColumnLookup:
    """For columns of a clique, the cell of a smaller table at state 0 of the clique's first variable: high[c // n] + low[c % n].

    first  distance between the cells of the first variable's states, 0 if the table does not contain it.
    """

    high: Array
    low: Array
    first: int

    def cells_of_columns(self, column: Array) -> Array:
        """Return the cells of columns."""
        found: Array = self.high[column // len(self.low)] + self.low[column % len(self.low)]
        return found


def make_column_lookup(shape: Sequence[int], axes: Sequence[int]) -> ColumnLookup:
    """Return the lookup for the table over some axes of a clique's shape, in C order."""
    stride = [0] * len(shape)
    cells = 1
    for axis in reversed(axes):
        stride[axis] = cells
        cells *= shape[axis]
    split, low = len(shape), 1
    while split > 1 and low * shape[split - 1] <= CHUNK:
        split -= 1
        low *= shape[split]
    return ColumnLookup(_axis_strides(shape[1:split], stride[1:split]), _axis_strides(shape[split:], stride[split:]), stride[0])


def _axis_strides(shape: Sequence[int], stride: Sequence[int]) -> Array:
    made = np.zeros(1, dtype=np.int64)
    for size, step in zip(shape, stride, strict=True):
        made = (made[:, None] + np.arange(size) * step).reshape(-1)
    return made
