"""Examples in blocks: CSR rows as the loops take them, from rows in memory or from text."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from herdcli import fast
from herdcli.records import dataclass
from herdcli.schema import Array

ROWS = 10_000
DENSE_ROWS = 500  # rows of a block where features are kept as dense rows


@dataclass(frozen=True)
class Block:
    """n examples: pointer (n + 1,) int64, index (nnz,) int32 from 1 (0 is the bias), value (nnz,) float64, label (n,), weight (n,)?."""

    pointer: Array
    index: Array
    value: Array
    label: Array
    weight: Array | None = None

    @property
    def rows(self) -> int:
        """How many examples."""
        return len(self.pointer) - 1

    @cached_property
    def width(self) -> int:
        """Rows a table of weights needs for it."""
        return int(self.index.max()) + 1 if len(self.index) else 1

    def copied(self) -> Block:
        """The same with arrays of its own."""
        weight = None if self.weight is None else self.weight.copy()
        return Block(self.pointer.copy(), self.index.copy(), self.value.copy(), self.label.copy(), weight)

    def dense(self, width: int) -> Array:
        """The rows (n, width) float64; features beyond are left out."""
        rows = np.repeat(np.arange(self.rows), np.diff(self.pointer))
        kept = self.index < width
        out = np.zeros((self.rows, width))
        out[rows[kept], self.index[kept]] = self.value[kept]
        return out

    def within(self, width: int) -> Block:
        """Without the features that a table of so many rows does not have."""
        kept = self.index < width
        if kept.all():
            return self
        pointer = np.concatenate(([0], np.cumsum(kept)))[self.pointer]
        return Block(pointer.astype(np.int64), self.index[kept], self.value[kept], self.label, self.weight)


def from_rows(X: Any, label: Array, rows: Array | slice, weight: Array | None = None) -> Block:
    """A block of chosen rows of X (n, d), dense or CSR."""
    part = X[rows]
    if hasattr(part, "indptr"):
        index, value, pointer = part.indices, part.data, part.indptr
    else:
        where = part != 0
        pointer = np.concatenate(([0], np.cumsum(where.sum(axis=1))))
        index, value = np.nonzero(where)[1], part[where]
    return Block(
        pointer=pointer.astype(np.int64),
        index=np.add(index, 1, dtype=np.int32, casting="unsafe"),
        value=value.astype(np.float64),
        label=label[rows],
        weight=None if weight is None else weight[rows].astype(np.float64),
    )


def rescaled(block: Block, sizes: Array) -> Block:
    """The block as a learner of --scale online sees it next, with `sizes` (D, 2) of its features moved on; see `fast.rescale`."""
    out = np.empty(len(block.value))
    frozen = None
    if block.weight is not None and not block.weight.all():  # what is judged and not learned moves no size
        frozen = np.repeat(block.weight == 0, np.diff(block.pointer)).astype(np.uint8)
    fast.rescale(sizes, np.ascontiguousarray(block.index, dtype=np.int32), np.ascontiguousarray(block.value), out, frozen)
    return Block(block.pointer, block.index, out, block.label, block.weight)


def as_scaled(block: Block, sizes: Array) -> Block:
    """The block as a finished model of --scale online sees it: x_i · seen_i / size_i; of a feature it never met, the sign."""
    known = block.index < len(sizes)
    seen, size = sizes[np.where(known, block.index, 0)].T
    met = known & (size > 0)
    # A first value is its own mean size: |x|/|x| with its sign.
    value = np.where(met, block.value * seen / np.where(met, size, 1.0), np.sign(block.value))
    return Block(block.pointer, block.index, value, block.label, block.weight)


def silenced(block: Block, held: Array) -> Block:
    """The block with weight 0 for some (n,) bool of its examples, which are then judged and not learned."""
    weight = np.ones(block.rows) if block.weight is None else block.weight
    return Block(block.pointer, block.index, block.value, block.label, np.where(held, 0.0, weight))


def joined(blocks: list[Block]) -> Block:
    """Several blocks as one, with weights if any of them has."""
    starts = np.cumsum([0, *(len(part.index) for part in blocks[:-1])])
    weights = [np.ones(part.rows) if part.weight is None else part.weight for part in blocks]
    return Block(
        pointer=np.concatenate([[0], *(part.pointer[1:] + start for part, start in zip(blocks, starts, strict=True))]).astype(np.int64),
        index=np.concatenate([part.index for part in blocks]),
        value=np.concatenate([part.value for part in blocks]),
        label=np.concatenate([part.label for part in blocks]),
        weight=np.concatenate(weights) if any(part.weight is not None for part in blocks) else None,
    )


def prepared(block: Block, *, normalize: bool, bias: bool) -> Block:
    """The block with examples scaled to |x| = 1 and a constant feature in front, as asked for."""
    pointer, index, value = block.pointer, block.index, block.value
    if normalize and len(value):
        lengths = np.diff(pointer)
        filled = lengths > 0
        norm = np.sqrt(np.add.reduceat(value * value, pointer[:-1][filled]))
        value = value / np.repeat(np.where(norm > 0, norm, 1.0), lengths[filled])
    if bias:
        pointer, index, value = fast.with_bias(
            *(np.ascontiguousarray(each, dtype=kind) for each, kind in ((pointer, np.int64), (index, np.int32), (value, np.float64)))
        )
    return Block(pointer, index, value, block.label, block.weight)
