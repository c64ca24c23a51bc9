"""Work that is split among several runs: which shard has which units, and how the units of all shards are joined in order.

A unit is a model, run, group, start or block of rows.  Its result is a function of the problem and of its own number, never of
other units.  A shard holds the results of its units; results that belong to no unit are in the first shard.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from herdcli.errors import BadUsage, DataError
from herdcli.records import dataclass


@dataclass(frozen=True)
class ShardPlace:
    """Shard `index`, counted from 1, of `count` shards: it has every `count`-th unit."""

    index: int = 1
    count: int = 1

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @property
    def name(self) -> str:
        """The name that messages use for the shard."""
        return f"shard {self.index} of {self.count}"

    @property
    def is_first(self) -> bool:
        """Whether this is the first shard, which computes the results that belong to no unit."""
        return self.index == 1

    def unit_numbers(self, units: int) -> range:
        """Return the numbers of its units; the range is empty for the last shards if there are more shards than units."""
        return range(self.index - 1, units, self.count)

    def row_range(self, rows: int) -> tuple[int, int]:
        """Return its range of rows as (first, end), end excluded, if rows are split into contiguous ranges.

        Raises BadUsage if there are fewer rows than shards.
        """
        if rows < self.count:
            raise BadUsage(
                f"{self.name}: there are only {rows} rows, fewer than shards",
                hint=f"use --shard {min(self.index, rows)}/{rows}, or use fewer shards",
            )
        return rows * (self.index - 1) // self.count, rows * self.index // self.count


def parse_shard(text: str) -> ShardPlace:
    """Parse the text I/N.  Raises ValueError for anything else."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
    place = ShardPlace(*map(int, match.groups())) if match else ShardPlace(0, 0)
    if not 1 <= place.index <= place.count:
        raise ValueError("is not of the form I/N with 1 ≤ I ≤ N, as 2/4")
    return place


@dataclass(frozen=True, kw_only=True)
class Shard:
    """The fields of every kind of shard, besides `parts` (one for each of its units) and mostly `rest` (in the first shard only)."""

    place: ShardPlace
    units: int  # the number of units in the whole run

    def validate(self) -> None:
        """Raise DataError unless there is one part for each unit, and `rest` is in the first shard only."""
        parts: list[Any] = getattr(self, "parts", [])
        if self.units < 1 or not 1 <= self.place.index <= self.place.count or len(parts) != len(self.place.unit_numbers(self.units)):
            raise DataError(f"{self.place.name} cannot have {len(parts)} of the {self.units} parts of the run")
        if self.place.is_first and getattr(self, "rest", self) is None:
            raise DataError(f"{self.place.name} lacks the HDF5 group 'rest', which the first shard needs")


def join_shards(shards: Sequence[Any]) -> Any:
    """Return all units in order, from the shards 1 … N in order."""
    count = len(shards)
    parts = [shards[unit % count].parts[unit // count] for unit in range(shards[0].units)]
    return replace(shards[0], place=ShardPlace(), parts=parts)
