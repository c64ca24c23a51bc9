"""Work dealt to several runs: which units of it are whose, and all of them in order again.

A unit is a model, run, group, start or block of rows whose result is a function of the problem and of its own number, never of the
units beside it.  A shard carries the results of its units; what belongs to no unit travels with the first shard.
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
    """Shard `index`, counted from 1, of `count`: every `count`-th unit is its own."""

    index: int = 1
    count: int = 1

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @property
    def name(self) -> str:
        """As messages have it."""
        return f"shard {self.index} of {self.count}"

    @property
    def first(self) -> bool:
        """Whether what belongs to no unit is made here."""
        return self.index == 1

    def of(self, units: int) -> range:
        """The numbers of its units; none where there are more shards than units and it is one of the last."""
        return range(self.index - 1, units, self.count)

    def stretch(self, rows: int) -> tuple[int, int]:
        """The first of its rows and the one behind its last, of rows that are dealt in stretches.  Raises BadUsage where there are none."""
        if rows < self.count:
            raise BadUsage(f"{self.name}: there are {rows} rows", hint=f"--shard {min(self.index, rows)}/{rows}, or fewer shards")
        return rows * (self.index - 1) // self.count, rows * self.index // self.count


def parse_shard(text: str) -> ShardPlace:
    """I/N.  Raises ValueError for anything else."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
    place = ShardPlace(*map(int, match.groups())) if match else ShardPlace(0, 0)
    if not 1 <= place.index <= place.count:
        raise ValueError("is not of the form I/N with 1 ≤ I ≤ N, as 2/4")
    return place


@dataclass(frozen=True, kw_only=True)
class Shard:
    """What every kind of shard has, besides `parts`, one for each of its units, and mostly `rest`, which only the first shard has."""

    place: ShardPlace
    units: int  # of the whole run

    def validate(self) -> None:
        """Raise DataError unless there is a part for each unit, and the rest where it belongs."""
        parts: list[Any] = getattr(self, "parts", [])
        if self.units < 1 or not 1 <= self.place.index <= self.place.count or len(parts) != len(self.place.of(self.units)):
            raise DataError(f"{self.place.name} has {len(parts)} parts of {self.units}")
        if self.place.first and getattr(self, "rest", self) is None:
            raise DataError(f"{self.place.name} lacks the group 'rest'")


def join_shards(shards: Sequence[Any]) -> Any:
    """All units in their order, of the shards 1 … N in their order."""
    count = len(shards)
    parts = [shards[unit % count].parts[unit // count] for unit in range(shards[0].units)]
    return replace(shards[0], place=ShardPlace(), parts=parts)
