"""Statistics of rows as sums over fixed blocks of 4,096 rows, added in a fixed tree.

Blocks are counted from row 0, whatever holds the rows and however many are read at one time.  The sums of blocks are added like the
digits of a binary counter: two neighbours of equal size make one of twice the size.  Neither threads nor storage change the order of
any addition, so they never change a bit.  A machine that has the blocks a·2^k … (a+1)·2^k − 1 sends their sum as one entry of the
same tree.
"""

from __future__ import annotations

import builtins
import itertools
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import field, fields
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import DataError
from herdcli.records import dataclass
from herdcli.schema import Array, require_valid_weights

BLOCK = 4096
PASS_BLOCKS = 16  # largest number of blocks given to `map` at one time
ROOM = 1 << 26  # bytes of rows read at one time from a file
SAMPLE_ROWS = 1 << 16  # rows from which initial values are drawn
Block: TypeAlias = Any  # a block of a pass: `RowBlock`, or what another source and its statistics agree on
Sums = dict[str, Array]  # statistics by name; those of a set of rows are the sums of the statistics of its parts
B = TypeVar("B")
B_co = TypeVar("B_co", covariant=True)


@dataclass(frozen=True)
class RowBlock:
    """A block of consecutive rows: X (m, D) float64, NaN where a value is missing; labels (m,), −1 where unknown; weights (m,)."""

    first: int
    X: Array
    labels: Array | None = None
    weight: Array | None = None

    @property
    def mass(self) -> float:
        """The sum of the weights."""
        return float(len(self.X)) if self.weight is None else float(self.weight.sum())


class RowSource(Protocol[B_co]):
    """Rows that are read by their numbers: from memory, from files, or computed from other rows.

    A range of rows is a block: a dataclass whose arrays have an entry for each row, and `first`, the number of the first row.
    """

    @property
    def count(self) -> int:
        """The number of rows."""
        ...

    @property
    def columns(self) -> int:
        """The number of columns."""
        ...

    def read(self, start: int, stop: int) -> B_co:
        """Return rows [start, stop); called by one thread at a time."""
        ...


RowReader: TypeAlias = RowSource[RowBlock]


@dataclass(frozen=True)
class ComputedRows(Generic[B]):
    """Rows that a function of the first row and the end of a range reads or computes.

    room  bytes that rows read at one time may take, in double precision.
    """

    count: int
    columns: int
    function: Callable[[int, int], B]
    room: int = sys.maxsize

    def read(self, start: int, stop: int) -> B:
        """Return rows [start, stop)."""
        return self.function(start, stop)


@dataclass(frozen=True)
class BlockRows(Generic[B]):
    """All rows in memory, as one block."""

    block: B
    count: int
    columns: int

    def read(self, start: int, stop: int) -> B:
        """Return rows [start, stop)."""
        return take_block_rows(self.block, slice(start, stop))


def take_block_rows(block: B, rows: slice | Array) -> B:
    """Return some rows of a block (n, …), by a slice, a mask (n,) or indices (m,); those of a slice as views."""
    found: dict[str, Any] = {each.name: getattr(block, each.name) for each in fields(block)}  # type: ignore[arg-type]
    cut = {name: item[rows] if hasattr(item, "shape") else item for name, item in found.items()}
    if isinstance(rows, slice) and "first" in cut:
        cut["first"] += rows.start or 0
    return type(block)(**cut)


def join_blocks(parts: list[B]) -> B:
    """Return neighbouring blocks as one block."""
    if len(parts) == 1:
        return parts[0]
    found: dict[str, list[Any]] = {each.name: [getattr(part, each.name) for part in parts] for each in fields(parts[0])}  # type: ignore[arg-type]
    joined = {name: np.concatenate(items) if hasattr(items[0], "shape") else items[0] for name, items in found.items()}
    return type(parts[0])(**joined)


class BlockSource(Protocol):
    """The blocks of a pass.  `RowBlocks` has blocks of rows; other models have their own (whole sequences, moments).

    Sources whose blocks may be too large for PASS_BLOCKS of them to be in memory also have `blocks_in_memory`.
    """

    @property
    def count(self) -> int:
        """The number of blocks."""
        ...

    def take(self, first: int, last: int) -> Iterator[Block]:
        """Yield blocks first … last − 1."""
        ...


class BlockStatistics(ABC):
    """A function from a block to its sums, as a frozen dataclass of arrays, numbers and texts that can be sent to other processes."""

    @abstractmethod
    def __call__(self, block: Block) -> Sums:
        """Return the sums of one block."""


class RemoteSource(ABC):
    """A source whose blocks are held by other processes."""

    @abstractmethod
    def sums(self, statistics: BlockStatistics, first: int) -> list[tuple[int, Sums]]:
        """Return pairs (number of blocks, their sums), entries of the tree in order, for the next group of blocks from `first` on."""


Spreading = Callable[[BlockSource], BlockSource]


def keep_blocks_local(source: BlockSource) -> BlockSource:
    """Return the source unchanged: its blocks stay with this process."""
    return source


@dataclass(frozen=True)
class ArrayRows:
    """Rows in memory or memory-mapped.

    chosen  (m,) ascending indices of the rows to use, to which labels and weights belong; None: all.
    """

    X: Array
    labels: Array | None = None
    weight: Array | None = None
    chosen: Array | None = None

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or not self.X.size or not self.count:
            raise DataError("there are no rows")
        if any(np.isinf(self.X[start : start + BLOCK]).any() for start in range(0, len(self.X), BLOCK)):
            raise DataError("there are infinite values", hint="write NaN for missing values")
        require_valid_weights(self.weight)

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.X if self.chosen is None else self.chosen)

    @property
    def columns(self) -> int:
        """The number of columns."""
        return int(self.X.shape[1])

    def read(self, start: int, stop: int) -> RowBlock:
        """Return rows [start, stop)."""
        part = slice(start, stop)
        return RowBlock(
            start,
            np.ascontiguousarray(self.X[part if self.chosen is None else self.chosen[part]], dtype=np.float64),
            None if self.labels is None else self.labels[part],
            None if self.weight is None else np.asarray(self.weight[part], dtype=np.float64),
        )


@dataclass(frozen=True)
class RowBlocks(Generic[B]):
    """The fixed blocks of rows.

    at_once  rows read at one time, any number from 1; it changes only time and memory.
             0: PASS_BLOCKS blocks, or fewer for rows with a memory limit (`room`, bytes in double precision).
    """

    rows: RowSource[B]
    at_once: int = 0

    def __post_init__(self) -> None:
        if not self.at_once:
            object.__setattr__(self, "at_once", BLOCK * blocks_per_read(self.rows.columns, read_budget_bytes(self.rows)))

    @classmethod
    def with_memory_limit(cls, rows: RowSource[B], max_bytes: int = ROOM) -> RowBlocks[B]:
        """Return blocks that are read in groups of `blocks_per_read`, within `max_bytes` bytes."""
        return cls(rows, BLOCK * blocks_per_read(rows.columns, min(max_bytes, read_budget_bytes(rows))))

    @property
    def count(self) -> int:
        """The number of blocks; the last one may be short."""
        return -(-self.rows.count // BLOCK)

    @property
    def blocks_in_memory(self) -> int:
        """The number of blocks given to `map` at one time."""
        return min(PASS_BLOCKS, max(1, self.at_once // BLOCK))

    def take(self, first: int, last: int) -> Iterator[B]:
        """Yield blocks first … last − 1, read `at_once` rows at a time."""
        begin, end = first * BLOCK, min(last * BLOCK, self.rows.count)
        parts: list[B] = []
        for start in range(begin, end, self.at_once):
            stop = min(start + self.at_once, end)
            parts.append(self.rows.read(start, stop))
            if stop - begin < BLOCK and stop < end:
                continue
            whole, low = join_blocks(parts), begin
            while stop - begin >= BLOCK or (begin < end == stop):
                size = min(BLOCK, stop - begin)
                yield take_block_rows(whole, slice(begin - low, begin - low + size))
                begin += size
            parts = [take_block_rows(whole, slice(begin - low, None))] if begin < stop else []


def read_budget_bytes(rows: RowSource[Any]) -> int:
    """Return the bytes that rows read at one time may take; unlimited for rows in memory."""
    return int(getattr(rows, "room", sys.maxsize))


def blocks_per_read(columns: int, max_bytes: int = ROOM) -> int:
    """Return the number of blocks of rows that take `max_bytes` bytes in double precision, from one to PASS_BLOCKS."""
    return min(PASS_BLOCKS, max(1, max_bytes // (8 * BLOCK * max(1, columns))))


@dataclass
class SumTree:
    """The sums so far: entries of descending distinct sizes, like the digits of the number of blocks added."""

    sizes: list[int] = field(default_factory=list)
    sums: list[Sums] = field(default_factory=list)

    def __post_init__(self) -> None:
        falling = all(above > size for above, size in itertools.pairwise(self.sizes))
        if len(self.sizes) != len(self.sums) or not falling or any(size < 1 or size & (size - 1) for size in self.sizes):
            raise ValueError("the sums of a pass over the rows are not those of any number of blocks")

    @property
    def blocks(self) -> int:
        """The number of blocks added so far."""
        return sum(self.sizes)

    def add_block_sums(self, sums: Sums, size: int = 1) -> None:
        """Add the sums of the next `size` blocks, a power of two that divides the number of blocks before them."""
        if size & (size - 1) or self.blocks % size:
            raise ValueError(f"{size} blocks after {self.blocks} are not a node of the tree")
        while self.sizes and self.sizes[-1] == size:
            self.sizes.pop()
            sums = add_sums_in_place(self.sums.pop(), sums)
            size *= 2
        self.sizes.append(size)
        self.sums.append(sums)

    def total_sums(self) -> Sums:
        """Return the sum of all blocks, added from the small entries to the large ones.  Raises ValueError if there is none."""
        if not self.sums:
            raise ValueError("there are no blocks")
        found = {name: item.copy(order="K") for name, item in self.sums[-1].items()}
        for entry in reversed(self.sums[:-1]):
            found = {name: entry[name] + item for name, item in found.items()}
        return found


def add_sums_in_place(left: Sums, right: Sums) -> Sums:
    """Add the sums `right` to `left` in place and return `left`."""
    for name, item in left.items():
        item += right[name]
    return left


def blocks_per_step(source: BlockSource) -> int:
    """Return the number of blocks of a source that `add_next_blocks` adds in one call."""
    return int(getattr(source, "blocks_in_memory", PASS_BLOCKS))


def add_next_blocks(tree: SumTree, source: BlockSource, statistics: Callable[[Block], Sums], map: Map = map) -> None:
    """Add the next blocks of a source: as many as fit in memory, at most PASS_BLOCKS, or the next group of another process."""
    first = tree.blocks
    if isinstance(source, RemoteSource) and isinstance(statistics, BlockStatistics):
        for size, sums in source.sums(statistics, first):
            tree.add_block_sums(sums, size)
        return
    last = min(first + blocks_per_step(source), source.count)
    own = builtins.map if last - first == 1 else map  # one block needs no other thread
    for sums in own(statistics, source.take(first, last)):
        tree.add_block_sums(sums)


def sum_statistics(source: BlockSource, statistics: Callable[[Block], Sums], map: Map = map) -> Sums:
    """Return the sum of the statistics of all blocks."""
    tree = SumTree()
    while tree.blocks < source.count:
        add_next_blocks(tree, source, statistics, map)
    return tree.total_sums()


@dataclass(frozen=True)
class RowMoments:
    """Weight, mean (D,) and covariance (D, D) of rows; for rows with missing values, mean and variance of the observed values."""

    rows: int
    mass: float
    mean: Array
    covariance: Array
    missing: int  # number of missing values

    @property
    def variance(self) -> Array:
        """The variances (D,)."""
        return np.diag(self.covariance).copy()


@dataclass(frozen=True)
class MarginalMoments:
    """Weight, mean and variance (D,) of rows, without covariances, for rows with too many columns for a D × D matrix."""

    rows: int
    mass: float
    mean: Array
    variance: Array
    missing: int


@dataclass(frozen=True)
class SquareSums(BlockStatistics):
    """The weights, missing values, first moments and squares of rows about a centre (D,)."""

    centre: Array

    def __call__(self, block: RowBlock) -> Sums:
        """Return the sums of a block."""
        weight = np.ones(len(block.X)) if block.weight is None else block.weight
        Z = block.X - self.centre
        gaps = np.count_nonzero(np.isnan(block.X))
        return {"rows": np.array([float(len(Z)), weight.sum(), gaps]), "first": weight @ Z, "second": weight @ np.square(Z)}


def marginal_moments(source: BlockSource, map: Map = map) -> MarginalMoments:
    """Return means and variances with the divisor Σw, computed about the first block's means; NaN for columns with missing values."""
    head = next(iter(source.take(0, 1))).X
    centre = head.mean(axis=0)
    sums = sum_statistics(source, SquareSums(centre), map)
    rows, mass, missing = sums["rows"].tolist()
    shift = sums["first"] / mass
    variance = np.maximum(sums["second"] / mass - np.square(shift), 0.0)
    return MarginalMoments(int(rows), mass, centre + shift, variance, int(missing))


@dataclass(frozen=True)
class CentredSums(BlockStatistics):
    """The weights, numbers of observed values, first and second moments of rows about a centre (D,)."""

    centre: Array

    def __call__(self, block: RowBlock) -> Sums:
        """Return the sums of a block."""
        known = ~np.isnan(block.X)
        weight = np.ones(len(block.X)) if block.weight is None else block.weight
        Z = np.where(known, block.X - self.centre, 0.0)
        weighted = Z * weight[:, None]
        return {
            "rows": np.array([float(len(block.X)), weight.sum(), float(known.size - np.count_nonzero(known))]),
            "known": weight @ known,
            "first": weighted.sum(axis=0),
            "second": weighted.T @ Z,
        }


def first_block_centre(head: Array) -> Array:
    """Return the centre (D,) that is subtracted from rows: the mean of the first block's rows (m, D), without NaN."""
    there = ~np.isnan(head)
    return np.asarray(np.where(there, head, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1))


def row_moments(source: BlockSource, map: Map = map) -> RowMoments:
    """Return mean and covariance with the divisor Σw.

    The first block's mean c is subtracted, so that rows far from 0 lose no digits: Σ = S_c/n − (ȳ − c)(ȳ − c)'.
    If values are missing, a column's mean and variance are over its observed values and covariances are 0.
    Raises DataError for a column that has no value at all.
    """
    centre = first_block_centre(next(iter(source.take(0, 1))).X)
    return moments_from_sums(centre, sum_statistics(source, CentredSums(centre), map))


def moments_from_sums(centre: Array, sums: Sums) -> RowMoments:
    """Return mean and covariance from the sums of `CentredSums` about a centre (D,)."""
    if not sums["known"].all():
        raise DataError(f"all values of column {int(np.argmin(sums['known'] != 0))} are missing")
    shift = sums["first"] / sums["known"]
    rows, mass, missing = sums["rows"]
    # E (y − c)(y − c)' − (ȳ − c)(ȳ − c)': with c near the mean the second term is relatively small, and no digits cancel.
    covariance = sums["second"] / sums["known"] - np.outer(shift, shift)
    if missing:
        covariance = np.diag(np.diag(covariance))
    diagonal = np.arange(len(shift))
    # the remaining variance of a constant column is the rounding error of its mean
    eps = np.finfo(np.float64).eps
    constant = covariance[diagonal, diagonal] <= 4 * (eps * (np.abs(centre) + np.abs(shift))) ** 2
    covariance[constant], covariance[:, constant] = 0.0, 0.0
    return RowMoments(int(rows), float(mass), centre + shift, 0.5 * (covariance + covariance.T), int(missing))


def sample_rows(source: BlockSource, random: np.random.Generator, rows: int, limit: int = SAMPLE_ROWS) -> RowBlock:
    """Return all rows of positive weight, or `limit` of them drawn without replacement, in their order."""
    if rows <= limit and source.count == 1 and (only := next(iter(source.take(0, 1)))).weight is None:
        return RowBlock(0, only.X, only.labels)
    chosen = np.arange(rows) if rows <= limit else np.sort(random.choice(rows, limit, replace=False))
    X, labels, weights, at = np.empty((0, 0)), list[Array](), list[Array](), 0
    for block in source.take(0, source.count):
        low, high = np.searchsorted(chosen, (block.first, block.first + len(block.X)))
        inside = chosen[low:high] - block.first
        if block.weight is not None:
            inside = inside[block.weight[inside] > 0]
            weights.append(block.weight[inside])
        if block.labels is not None:
            labels.append(block.labels[inside])
        X = X if len(X) else np.empty((len(chosen), block.X.shape[1]))
        X[at : at + len(inside)] = block.X[inside]
        at += len(inside)
    return RowBlock(0, X[:at], np.concatenate(labels) if labels else None, np.concatenate(weights) if weights else None)
