"""Which states of a separator the zeros leave possible, as bits, so that a message holds numbers for those alone.

A clique is looked at column by column: a column is one state of its separator (of all its variables but the first).  Zeros of
factors, and of what its children send, make columns impossible; they are found by the collecting pass on truth values alone, in
slabs, and counted.  Where at most a quarter are left, the clique's message, and all work on the clique, are over these.

The place of a column among those that are left is its rank: the ones of all words of bits before its own, which are counted
beforehand, and of its own word below its bit.  Source: Jacobson (1989), succinct rank; Jensen & Andersen (1990) and Darwiche (2001)
for zeros of junction trees that are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from herdcli.records import dataclass
from herdcli.schema import Array

SHARE = 4  # columns are left out where at most one in so many is possible
LEAST = 1 << 12  # columns of a message from which that is worth it
CHUNK = 1 << 15  # columns that are worked on at a time


@dataclass(frozen=True)
class PossibleColumns:
    """The possible ones of `size` columns.  words  their bits, 64 in each, the lowest first.  before  how many ones stand before it."""

    size: int
    words: Array
    before: Array
    count: int

    @property
    def numbers(self) -> int:
        """Memory in float64s: the bits, the counts, and one message."""
        return 2 * len(self.words) + self.count

    def pieces(self) -> Iterator[tuple[int, Array]]:
        """(rank of the first, numbers of the columns) of the possible ones, in order, about CHUNK at a time."""
        low, step = 0, max(1, int(CHUNK / 64 * self.size / max(1, self.count)))
        for first in range(0, len(self.words), step):
            bits = np.unpackbits(self.words[first : first + step].view(np.uint8), bitorder="little")
            found = np.flatnonzero(bits)
            if len(found):
                yield low, found + 64 * first
                low += len(found)

    def all(self) -> Array:
        """The numbers of all that are possible."""
        return np.flatnonzero(np.unpackbits(self.words.view(np.uint8), bitorder="little"))

    def rank(self, column: Array) -> tuple[Array, Array]:
        """The place of columns among the possible ones, and which of them are possible (of others the place means nothing)."""
        word, bit = column >> 6, (column & 63).astype(np.uint64)
        bits = self.words[word]
        below = np.bitwise_count(bits & ((np.uint64(1) << bit) - np.uint64(1)))
        rank = np.minimum(self.before[word] + below, max(0, self.count - 1))
        return rank, (bits >> bit) & np.uint64(1) != 0


def pack_columns(possible: Array) -> PossibleColumns:
    """From truth values, any shape in C order."""
    flat = possible.reshape(-1)
    bits = np.packbits(flat, bitorder="little")
    words = np.concatenate([bits, np.zeros(-len(bits) % 8, dtype=np.uint8)]).view(np.uint64)
    ones = np.bitwise_count(words).astype(np.int64)
    before = np.cumsum(ones) - ones
    return PossibleColumns(flat.size, words, before, int(ones.sum()))


def unpack_columns(columns: PossibleColumns, shape: Sequence[int]) -> Array:
    """Truth values in a shape."""
    return np.unpackbits(columns.words.view(np.uint8), count=columns.size, bitorder="little").view(np.bool_).reshape(shape)


def is_worthwhile(columns: PossibleColumns) -> bool:
    """Is a message over these smaller by far, and large without?"""
    return columns.size >= LEAST and columns.count * SHARE <= columns.size


@dataclass(frozen=True)
class ColumnLookup:
    """For columns of a clique the cell of a smaller table, at state 0 of the clique's first variable: high[c // n] + low[c % n].

    first  how far apart the cells of its states are, 0 where the table does not have it.
    """

    high: Array
    low: Array
    first: int

    def at(self, column: Array) -> Array:
        """The cells."""
        found: Array = self.high[column // len(self.low)] + self.low[column % len(self.low)]
        return found


def column_lookup(shape: Sequence[int], axes: Sequence[int]) -> ColumnLookup:
    """Of the table over some axes of a clique's shape, in C order."""
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
