"""Rows that are too many for memory: read in blocks, and passed over in shuffled blocks.

A pass takes the blocks in random order, WINDOW of them at a time, and the rows of such a window in random order.  Two windows are in
memory, so the memory needed does not depend on the number of rows.  The order of a pass is a function of the given generators and of
the rows' number and size, not of earlier reads.  A run resumed from a checkpoint uses the same order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import field
from typing import Protocol

import numpy as np

from herdcli.records import dataclass
from herdcli.schema import Array, DType

BLOCK_BYTES = 1 << 20  # approximate bytes of a block
WINDOW = 32  # number of blocks whose rows are shuffled together

Draw = Callable[[int], np.random.Generator]  # generator for the order of blocks (0), and for the rows of window w (w + 1)


class StoredMatrix(Protocol):
    """A matrix (N, D) that is not in memory."""

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (N, D)."""
        ...

    @property
    def dtype(self) -> DType:
        """The type of the entries."""
        ...

    def __getitem__(self, rows: slice) -> Array:
        """Return a range of rows."""
        ...


@dataclass(frozen=True)
class TransformedMatrix:
    """A matrix of transformed values: float64 that `function` computes from each range of rows."""

    base: StoredMatrix
    function: Callable[[Array], Array]
    dtype: DType = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (N, D)."""
        return self.base.shape

    def __getitem__(self, rows: slice) -> Array:
        return self.function(self.base[rows].astype(self.dtype))


@dataclass
class _BlockCache:
    """The blocks in memory: `rows` has a slot for each, `held` the block in each slot (−1: none), `place` the slot of each block."""

    rows: Array
    held: Array
    place: Array
    next: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class StreamedRows:
    """The rows (n, D) of a matrix (N, D) whose part (N,) of the split is `part`, read on access.

    size  rows of the matrix per block; 0: as many as take BLOCK_BYTES.
    """

    base: StoredMatrix
    split: Array
    part: int
    size: int = 0
    starts: Array = field(init=False, repr=False, compare=False)  # (B + 1,) the index of the first row of each block, and n
    _room: list[_BlockCache] = field(default_factory=list, init=False, repr=False, compare=False)
    _spread: dict[tuple[int, int, int], Array] = field(default_factory=dict, init=False, repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        size = self.size or max(1, BLOCK_BYTES // max(1, self.base.shape[1] * self.base.dtype.itemsize))
        object.__setattr__(self, "size", size)
        counts = [np.count_nonzero(self.split[start : start + size] == self.part) for start in range(0, len(self.split), size)]
        object.__setattr__(self, "starts", np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]))

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (n, D)."""
        return int(self.starts[-1]), self.base.shape[1]

    @property
    def dtype(self) -> DType:
        """The type of the entries."""
        return self.base.dtype

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def memory(self) -> int:
        """The bytes of the blocks in memory."""
        return min(2 * WINDOW, len(self.starts) - 1) * self.size * self.shape[1] * self.dtype.itemsize

    def read_stored_rows(self, chosen: Array | slice) -> Array:
        """Return some of the rows, (m, D), by their indices or as a slice; those of a slice with a step are cached."""
        if not isinstance(chosen, slice):
            return self._read_cached_rows(np.asarray(chosen))
        start, stop, step = chosen.indices(len(self))
        if step == 1:
            return self._read_cached_rows(np.arange(start, stop))
        key = (start, stop, step)
        if key not in self._spread:
            self._spread[key] = self._read_cached_rows(np.arange(start, stop, step))
        return self._spread[key]

    def __getitem__(self, chosen: Array | slice) -> Array:
        return self.read_stored_rows(chosen)

    def _read_cached_rows(self, numbers: Array) -> Array:
        block = np.searchsorted(self.starts, numbers, side="right") - 1
        room = self._block_cache()
        result = np.empty((len(numbers), self.shape[1]), dtype=self.dtype)
        with room.lock:
            here = room.place[block] >= 0
            result[here] = room.rows[room.place[block[here]] * self.size + (numbers - self.starts[block])[here]]
            for each in np.unique(block[~here]).tolist():
                own = block == each
                self._load_block(room, each)
                result[own] = room.rows[room.place[each] * self.size + numbers[own] - self.starts[each]]
        return result

    def _block_cache(self) -> _BlockCache:
        with self._lock:
            if not self._room:
                blocks = len(self.starts) - 1
                places = min(2 * WINDOW, blocks)
                rows = np.empty((places * self.size, self.shape[1]), dtype=self.dtype)
                self._room.append(_BlockCache(rows, np.full(places, -1), np.full(blocks, -1)))
        return self._room[0]

    def _load_block(self, cache: _BlockCache, block: int) -> None:
        """Read a block into the slot of the oldest one."""
        at = cache.next
        if cache.held[at] >= 0:
            cache.place[cache.held[at]] = -1
        cache.held[at] = -1
        rows = slice(block * self.size, min((block + 1) * self.size, len(self.split)))
        cache.rows[at * self.size : at * self.size + int(self.starts[block + 1] - self.starts[block])] = self.base[rows][
            self.split[rows] == self.part
        ]
        cache.held[at], cache.place[block], cache.next = block, at, (at + 1) % len(cache.held)

    def select_among(self, chosen: Array) -> StreamedRows:
        """Return the chosen rows (n,) bool as streamed rows."""
        own = np.zeros(len(self.split), dtype=np.uint8)
        own[np.flatnonzero(self.split == self.part)[chosen]] = 1
        return StreamedRows(self.base, own, 1, self.size)

    def map_values(self, function: Callable[[Array], Array]) -> StreamedRows:
        """Return the rows with values transformed block by block."""
        return StreamedRows(TransformedMatrix(self.base, function), self.split, self.part, self.size)

    def draw_shuffled_order(self, draw: Draw) -> ShuffledOrder:
        """Return the row order of one pass."""
        return ShuffledOrder(self.starts, draw)


class ShuffledOrder:
    """The row indices in the order of one pass: windows of shuffled blocks, with the rows of each window shuffled.

    starts  (B + 1,) of `StreamedRows`.
    """

    def __init__(self, starts: Array, draw: Draw) -> None:
        self._starts, self._draw = starts, draw
        self._blocks = draw(0).permutation(len(starts) - 1)
        sizes = np.diff(starts)[self._blocks]
        self._ends = np.concatenate([[0], np.cumsum(sizes)[WINDOW - 1 : -1 : WINDOW], [starts[-1]]]).astype(np.int64)
        self._window: tuple[int, Array] = (-1, np.empty(0, dtype=np.int64))

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, chosen: slice) -> Array:
        """Return consecutive indices of the order, (m,)."""
        start, stop, _ = chosen.indices(len(self))
        found = [np.empty(0, dtype=np.int64)]
        while start < stop:
            window = int(np.searchsorted(self._ends, start, side="right")) - 1
            first, end = int(self._ends[window]), int(self._ends[window + 1])
            found.append(self._shuffled_window_rows(window)[start - first : min(stop, end) - first])
            start = end
        return np.concatenate(found)

    def _shuffled_window_rows(self, window: int) -> Array:
        if self._window[0] != window:
            blocks = self._blocks[window * WINDOW : (window + 1) * WINDOW]
            rows = np.concatenate([np.arange(self._starts[block], self._starts[block + 1]) for block in blocks])
            self._window = (window, self._draw(window + 1).permutation(rows))
        return self._window[1]
