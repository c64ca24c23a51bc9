"""Blocks of examples: CSR rows in the form of the compiled loops, from rows in memory or from text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from herdcli import fast
from herdcli.records import dataclass
from herdcli.schema import Array, Matrix, is_sparse

ROWS = 10_000
DENSE_ROWS = 500  # rows of a block with features as dense rows
FIRST = 100  # number of first examples that are standardised by their common means


@dataclass(frozen=True)
class ExampleBlock:
    """A block of n examples as CSR arrays: pointer (n + 1,) int64, index (nnz,) int32, value (nnz,) float64, label (n,), weight (n,)?.

    index  counts features from 1; 0 is the bias.
    """

    pointer: Array
    index: Array
    value: Array
    label: Array
    weight: Array | None = None
    place: Array | None = None  # (n,) int64 index of each row among all rows, for data stored per row

    @property
    def rows(self) -> int:
        """The number of examples."""
        return len(self.pointer) - 1

    @cached_property
    def width(self) -> int:
        """The number of rows that a table of weights needs for this block."""
        return int(self.index.max()) + 1 if len(self.index) else 1

    def copy_arrays(self) -> ExampleBlock:
        """Return a copy of the block with its own arrays."""
        weight = None if self.weight is None else self.weight.copy()
        return ExampleBlock(self.pointer.copy(), self.index.copy(), self.value.copy(), self.label.copy(), weight, self.place)

    def part(self, begin: int, end: int) -> ExampleBlock:
        """Return some of the examples as views of the same arrays."""
        pointer = self.pointer[begin : end + 1]
        entries, rows = slice(int(pointer[0]), int(pointer[-1])), slice(begin, end)
        weight, place = (None if each is None else each[rows] for each in (self.weight, self.place))
        return ExampleBlock(pointer - pointer[0], self.index[entries], self.value[entries], self.label[rows], weight, place)

    def to_dense(self, width: int) -> Array:
        """Return the rows as a matrix (n, width) float64; features beyond the width are left out."""
        rows = np.repeat(np.arange(self.rows), np.diff(self.pointer))
        kept = self.index < width
        out = np.zeros((self.rows, width))
        out[rows[kept], self.index[kept]] = self.value[kept]
        return out

    def drop_features_beyond(self, width: int) -> ExampleBlock:
        """Return the block without the features beyond a table of `width` rows."""
        kept = self.index < width
        if kept.all():
            return self
        pointer = np.concatenate(([0], np.cumsum(kept)))[self.pointer]
        return replace(self, pointer=pointer.astype(np.int64), index=self.index[kept], value=self.value[kept])


def block_from_rows(X: Matrix, label: Array, rows: Array | slice, weight: Array | None = None) -> ExampleBlock:
    """Return a block of chosen rows of X (n, d), dense or CSR."""
    part = X[rows]
    if is_sparse(part):
        index, value, pointer = part.indices, part.data, part.indptr
    else:
        where = part != 0
        pointer = np.concatenate(([0], np.cumsum(where.sum(axis=1))))
        index, value = np.nonzero(where)[1], part[where]
    return ExampleBlock(
        pointer=pointer.astype(np.int64),
        index=np.add(index, 1, dtype=np.int32, casting="unsafe"),
        value=value.astype(np.float64),
        label=label[rows],
        weight=None if weight is None else weight[rows].astype(np.float64),
    )


def rescale_and_update_sizes(block: ExampleBlock, sizes: Array) -> ExampleBlock:
    """Return the block scaled as a learner of --scale online or standard sees it next; updates the `sizes` of its features.

    sizes  (D, 2) for online, see `fast.rescale`, or (D, 5) for standard, see `fast.standardize`.
    """
    still = (
        None if block.weight is None or block.weight.all() else (block.weight == 0).astype(np.uint8)
    )  # evaluated but not learned: changes no sizes
    if sizes.shape[1] > 2:
        return _standardize_block(block, sizes, still) if sizes[0, 0] > 0 else _standardize_first_block(block, sizes, still)
    out = np.empty(len(block.value))
    frozen = None if still is None else np.repeat(still, np.diff(block.pointer))
    fast.rescale(sizes, np.ascontiguousarray(block.index, dtype=np.int32), np.ascontiguousarray(block.value), out, frozen)
    return replace(block, value=out)


def _standardize_block(block: ExampleBlock, scales: Array, frozen: Array | None) -> ExampleBlock:
    """Return the block with features centred at their means, see `fast.standardize`."""
    pointer = np.ascontiguousarray(block.pointer, dtype=np.int64)
    index, value = np.ascontiguousarray(block.index, dtype=np.int32), np.ascontiguousarray(block.value)
    pointer, index, value = fast.standardize(scales, pointer, index, value, frozen)
    return replace(block, pointer=pointer, index=index, value=value)


def _standardize_first_block(block: ExampleBlock, scales: Array, frozen: Array | None) -> ExampleBlock:
    """Return the first block of a stream, with up to FIRST learned examples centred at their common mean.

    Means of a few rows would be too rough.
    """
    learned = np.arange(1, block.rows + 1) if frozen is None else np.cumsum(frozen == 0)
    cut = min(int(np.searchsorted(learned, FIRST)) + 1, block.rows)
    middle = int(block.pointer[cut])
    head = ExampleBlock(block.pointer[: cut + 1], block.index[:middle], block.value[:middle], block.label[:cut])
    _standardize_block(head, scales, None if frozen is None else frozen[:cut])
    head = _standardize_block(head, scales, np.ones(cut, dtype=np.uint8))
    tail = ExampleBlock(block.pointer[cut:] - middle, block.index[middle:], block.value[middle:], block.label[cut:])
    tail = _standardize_block(tail, scales, None if frozen is None else frozen[cut:])
    pointer = np.concatenate([head.pointer, tail.pointer[1:] + head.pointer[-1]])
    index, value = np.concatenate([head.index, tail.index]), np.concatenate([head.value, tail.value])
    return replace(block, pointer=pointer, index=index, value=value)


def apply_scales(block: ExampleBlock, sizes: Array) -> ExampleBlock:
    """Return the block scaled as in a fitted model of --scale online or standard; a feature that was never seen becomes its sign.

    online: x_i · seen_i / size_i;  standard: the same, but (x_i − mean_i) over the mean deviation of centred features, in all rows.
    """
    if sizes.shape[1] > 2:
        return _apply_known_scales(block, sizes)
    known = block.index < len(sizes)
    seen, size = sizes[np.where(known, block.index, 0)].T
    met = known & (size > 0)
    # A first value is its own mean size: |x|/|x| with its sign.
    value = np.where(met, block.value * seen / np.where(met, size, 1.0), np.sign(block.value))
    return replace(block, value=value)


def _apply_known_scales(block: ExampleBlock, scales: Array) -> ExampleBlock:
    """Return the block scaled by fixed scales; a feature beyond them becomes its sign, in its position."""
    known = block.index < len(scales)
    inside = block if known.all() else replace(block, index=np.where(known, block.index, 0))
    made = _standardize_block(inside, np.ascontiguousarray(scales), np.ones(block.rows, dtype=np.uint8))
    if inside is not block:  # the original entries of a row come before those that were added to it
        new = np.flatnonzero(~known)
        row = np.searchsorted(block.pointer, new, side="right") - 1
        at = made.pointer[row] + (new - block.pointer[row])
        made.index[at], made.value[at] = block.index[new], np.sign(block.value[new])
    return made


def mask_examples(block: ExampleBlock, heldout: Array) -> ExampleBlock:
    """Return the block with weight 0 for some (n,) bool of its examples, which are then evaluated and not learned."""
    weight = np.ones(block.rows) if block.weight is None else block.weight
    return replace(block, weight=np.where(heldout, 0.0, weight))


class BlockBuilder:
    """A builder that concatenates blocks in arrays with capacity for `room` entries, whose memory is used only as they fill."""

    def __init__(self, room: int) -> None:
        self._index, self._value, self._used = np.empty(room, dtype=np.int32), np.empty(room), 0
        self._rows: list[ExampleBlock] = []  # rows without their entries

    def add(self, block: ExampleBlock) -> None:
        """Append a block."""
        end = self._used + len(block.index)
        if end > len(self._index):
            more = (0, 2 * end - len(self._index))
            self._index, self._value = np.pad(self._index, more), np.pad(self._value, more)
        self._index[self._used : end], self._value[self._used : end] = block.index, block.value
        self._rows.append(replace(block, pointer=block.pointer + self._used, index=self._index[:0], value=self._value[:0]))
        self._used = end

    def build_block(self) -> ExampleBlock:
        """Return all blocks as one, with weights if any of them has weights."""
        weights = [np.ones(part.rows) if part.weight is None else part.weight for part in self._rows]
        return ExampleBlock(
            pointer=np.concatenate([[0], *(part.pointer[1:] for part in self._rows)]).astype(np.int64),
            index=self._index[: self._used],
            value=self._value[: self._used],
            label=np.concatenate([part.label for part in self._rows]),
            weight=np.concatenate(weights) if any(part.weight is not None for part in self._rows) else None,
        )


def join_blocks(blocks: list[ExampleBlock]) -> ExampleBlock:
    """Return several blocks as one, with weights if any of them has weights."""
    made = BlockBuilder(sum(len(block.index) for block in blocks))
    for block in blocks:
        made.add(block)
    return made.build_block()


def split_block(block: ExampleBlock, ends: list[int]) -> Iterator[ExampleBlock]:
    """Yield a block in parts that end after these rows, the last of which is the block's last."""
    for begin, end in pairwise([0, *ends]):
        yield block.part(begin, end)


def prepare_block(block: ExampleBlock, *, normalize: bool, bias: bool) -> ExampleBlock:
    """Return the block with examples scaled to |x| = 1 and a constant first feature, as requested."""
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
    return replace(block, pointer=pointer, index=index, value=value)
