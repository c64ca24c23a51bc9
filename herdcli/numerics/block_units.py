"""Blocks of rows as units of work that are dealt to shards: 2^k neighbours each, so that there are few, and one of them a step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from herdcli.algorithm import FixedLengthAlgorithm, RunProgress
from herdcli.numerics import block_statistics
from herdcli.numerics.block_statistics import Sums
from herdcli.records import dataclass
from herdcli.schema import Array

WIDE, UNITS, UNITS_OF_WIDE = 256, 64, 16  # columns; units at most, and of more columns, whose sums are large
AT_ONCE = 4  # blocks that are in memory, at most
LOOKED = 1 << 20  # rows that are looked at together
P = TypeVar("P")


@dataclass(frozen=True)
class UnitLayout:
    """How the blocks of rows make units.  at_once  blocks of a unit that are in memory together; it changes no byte."""

    rows: int
    columns: int
    at_once: int = AT_ONCE

    @property
    def blocks(self) -> int:
        """Of all rows."""
        return -(-self.rows // block_statistics.BLOCK)

    @property
    def size(self) -> int:
        """Blocks of a unit."""
        size, most = 1, UNITS if self.columns <= WIDE else UNITS_OF_WIDE
        while -(-self.blocks // size) > most:
            size *= 2
        return size

    @property
    def units(self) -> int:
        """How many there are."""
        return -(-self.blocks // self.size)

    def of(self, unit: int) -> range:
        """The blocks of a unit."""
        return range(unit * self.size, min((unit + 1) * self.size, self.blocks))


def thin_rows(chosen: Array, most: int) -> Array:
    """The places of the rows (n,) bool that are chosen, in their order, or `most` of them, evenly spread; little memory beside those."""
    count, found, before = int(np.count_nonzero(chosen)), [np.zeros(0, dtype=np.int64)], 0
    ranks = np.arange(count) if count <= most else np.arange(most) * count // most
    for start in range(0, len(chosen), LOOKED):
        places = np.flatnonzero(chosen[start : start + LOOKED])
        low, high = np.searchsorted(ranks, (before, before + len(places)))
        found.append(places[ranks[low:high] - before] + start)
        before += len(places)
    return np.concatenate(found)


class RowSource(Protocol):
    """Where rows come from."""

    def take(self, first: int, last: int) -> Iterable[Any]:
        """Blocks first … last − 1, one after the other."""


def process_blocks(
    source: RowSource, own: range, work: Callable[..., P], given: Any, map: block_statistics.Map, at_once: int
) -> Iterator[P]:
    """work(block, given) of the blocks of a unit in their order, a few at a time, so that no more are in memory."""
    for start in range(own.start, own.stop, at_once):
        taken = list(source.take(start, min(start + at_once, own.stop)))
        yield from map(work, taken, [given] * len(taken))


def add_parts(parts: Iterable[Any], sums: Sequence[str], rows: Sequence[str]) -> tuple[Sums, dict[str, list[Array]]]:
    """The fields `sums` and the number of rows of all parts, in the fixed tree; and their fields `rows`, in their order.

    Parts are let go of one by one: what they sum up can be large.
    """
    tree, found = block_statistics.SumTree(), {name: list[Array]() for name in rows}
    for each in parts:
        tree.push({"rows": np.array([each.rows]), **{name: getattr(each, name).copy() for name in sums}})
        for name, held in found.items():
            held.append(getattr(each, name))
    return tree.total(), found


@dataclass
class PartialState:
    """The state of such a run: the number of units that are done; a subclass has the parts that each of them made, by their type."""

    step: int
    parts: list[Any]
    grows: ClassVar[tuple[str, ...]] = ("parts",)


S = TypeVar("S", bound=PartialState)


@dataclass(frozen=True)
class UnitRun(FixedLengthAlgorithm[S], Generic[S]):
    """The units of these numbers, as an algorithm: a unit a step."""

    layout: UnitLayout
    units: Sequence[int]

    @abstractmethod
    def part(self, own: range) -> Any:
        """What the blocks of a unit make; its `rows` are how many it is of."""

    @property
    @abstractmethod
    def state(self) -> type[S]:
        """The type of its states."""

    def init(self) -> S:
        """No unit done."""
        return self.state(0, [])

    @property
    def steps(self) -> int:
        """Units."""
        return len(self.units)

    def step(self, state: S) -> S:
        """One unit."""
        state.parts = [*state.parts, self.part(self.layout.of(self.units[state.step]))]
        state.step += 1
        return state

    def memory(self) -> int:
        """Of the rows at work; what comes of them is small, or not known before."""
        return 16 * self.layout.at_once * block_statistics.BLOCK * self.layout.columns

    def progress(self, state: S) -> RunProgress:
        """How many rows were gone over."""
        return RunProgress(state.step, self.steps, f"{sum(part.rows for part in state.parts)} rows")

    def result(self, state: S) -> list[Any]:
        """What each unit made."""
        return state.parts
