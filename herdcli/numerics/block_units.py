"""Units of work for shards: groups of 2^k neighbouring blocks of rows, so that there are few units, and one unit per step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from herdcli.algorithm import FixedLengthAlgorithm, Map, RunProgress
from herdcli.numerics import block_statistics
from herdcli.numerics.block_statistics import BlockSource, Sums
from herdcli.records import dataclass
from herdcli.schema import Array

WIDE, UNITS, UNITS_OF_WIDE = 256, 64, 16  # columns of wide rows; largest number of units, and the same for wide rows
AT_ONCE = 4  # largest number of blocks in memory
LOOKED = 1 << 20  # rows examined at one time
P = TypeVar("P")


@dataclass(frozen=True)
class UnitLayout:
    """The division of the blocks of rows into units.

    at_once  blocks of a unit that are in memory at one time; it does not change the result.
    """

    rows: int
    columns: int
    at_once: int = AT_ONCE

    @property
    def blocks(self) -> int:
        """The number of blocks of all rows."""
        return -(-self.rows // block_statistics.BLOCK)

    @property
    def size(self) -> int:
        """The number of blocks of a unit."""
        size, most = 1, UNITS if self.columns <= WIDE else UNITS_OF_WIDE
        while -(-self.blocks // size) > most:
            size *= 2
        return size

    @property
    def units(self) -> int:
        """The number of units."""
        return -(-self.blocks // self.size)

    def blocks_of_unit(self, unit: int) -> range:
        """Return the blocks of a unit."""
        return range(unit * self.size, min((unit + 1) * self.size, self.blocks))


def select_evenly_spaced(is_chosen: Array, limit: int) -> Array:
    """Return the indices of the chosen rows (n,) bool in order, or of `limit` of them, evenly spaced, with little extra memory."""
    count, found, before = int(np.count_nonzero(is_chosen)), [np.zeros(0, dtype=np.int64)], 0
    ranks = np.arange(count) if count <= limit else np.arange(limit) * count // limit
    for start in range(0, len(is_chosen), LOOKED):
        places = np.flatnonzero(is_chosen[start : start + LOOKED])
        low, high = np.searchsorted(ranks, (before, before + len(places)))
        found.append(places[ranks[low:high] - before] + start)
        before += len(places)
    return np.concatenate(found)


def map_blocks_in_order(
    source: BlockSource, block_range: range, work: Callable[..., P], context: Any, map: Map, max_in_memory: int
) -> Iterator[P]:
    """Yield work(block, given) for the blocks of a unit in order, with at most `max_in_memory` blocks in memory."""
    for start in range(block_range.start, block_range.stop, max_in_memory):
        taken = list(source.take(start, min(start + max_in_memory, block_range.stop)))
        yield from map(work, taken, [context] * len(taken))


def sum_part_fields(parts: Iterable[Any], sums: Sequence[str], rows: Sequence[str]) -> tuple[Sums, dict[str, list[Array]]]:
    """Return the fields `sums` and the number of rows, added over all parts in the fixed tree, and the fields `rows`, in order.

    Each part is released once it is added, since its sums can be large.
    """
    tree, found = block_statistics.SumTree(), {name: list[Array]() for name in rows}
    for each in parts:
        tree.add_block_sums({"rows": np.array([each.rows]), **{name: getattr(each, name).copy() for name in sums}})
        for name, held in found.items():
            held.append(getattr(each, name))
    return tree.total_sums(), found


@dataclass
class PartialState:
    """The state of a run over units: the number of finished units.  A subclass declares the type of their parts."""

    step: int
    parts: list[Any]
    grows: ClassVar[tuple[str, ...]] = ("parts",)


S = TypeVar("S", bound=PartialState)


@dataclass(frozen=True)
class UnitRun(FixedLengthAlgorithm[S], Generic[S]):
    """A run over the given units as an algorithm, one unit per step."""

    layout: UnitLayout
    units: Sequence[int]

    @abstractmethod
    def part(self, own: range) -> Any:
        """Return the result of the blocks of a unit; its field `rows` is their number of rows."""

    @property
    @abstractmethod
    def state(self) -> type[S]:
        """The type of its states."""

    def init(self) -> S:
        """Return a state without finished units."""
        return self.state(0, [])

    @property
    def steps(self) -> int:
        """The number of units."""
        return len(self.units)

    def step(self, state: S) -> S:
        """Process one unit."""
        state.parts = [*state.parts, self.part(self.layout.blocks_of_unit(self.units[state.step]))]
        state.step += 1
        return state

    def memory(self) -> int:
        """Return the bytes of the rows being processed; the results are small, or of unknown size."""
        return 16 * self.layout.at_once * block_statistics.BLOCK * self.layout.columns

    def progress(self, state: S) -> RunProgress:
        """Return the number of rows processed."""
        return RunProgress(state.step, self.steps, f"{sum(part.rows for part in state.parts)} rows")

    def result(self, state: S) -> list[Any]:
        """Return the part of each unit."""
        return state.parts
