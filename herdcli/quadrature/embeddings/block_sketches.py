"""Sketches of blocks of rows: sums that add up no matter which process computes them, and a sample of the rows as candidates.

This does for rows with random access what `stream_sketch` does for rows in sequence.  The landmarks are given (rows spread over the whole
input).  Every row is added to the sums of `nystrom`, whose bound is a sum over blocks as well.  A row is a candidate if its random key,
a function of its block and position alone, is below the requested share of rows: the sample does not depend on the scheduling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar, Protocol

import numpy as np

from herdcli.algorithm import FixedLengthAlgorithm, Map, RunProgress
from herdcli.errors import DataError
from herdcli.numerics import exact_arithmetic
from herdcli.quadrature.embeddings import nystrom, stream_sketch
from herdcli.quadrature.selection_problem import SelectionGroup
from herdcli.records import dataclass
from herdcli.rng import Stream as Purpose
from herdcli.rng import generator
from herdcli.schema import INVALID_WEIGHTS, Array, array
from herdcli.shards import Shard


@dataclass(frozen=True)
class WorkUnitSketch:
    """The sketch of the rows of one unit of work."""

    rows: int
    sums: Array = array("r", "Σ w k at the landmarks, and the bound (nystrom)", kind="f", finite=True)
    spread: Array = array("2", "Σ w, and Σ w k(x, x)", kind="f", finite=True)
    points: Array = array("C d", "candidates, in scaled columns", kind="f", finite=True)
    number: Array = array("C", "their rows of the input", kind="i", low=0)


@dataclass(frozen=True, kw_only=True)
class SketchShard(Shard):
    """Sketches of some of the units, and the settings that all shards of a run share."""

    parts: list[WorkUnitSketch]
    rows: int
    kernel: str
    scale: Array = array("d", "what the columns were divided by", kind="f", finite=True)
    landmarks: Array = array("R d", "rows that the embedding is projected on, in scaled columns", kind="f", finite=True)
    feature_names: list[str] | None = None

    def validate(self) -> None:
        """Raise DataError for an impossible shard, and for sketches with other landmarks or columns than the shard's."""
        super().validate()
        for part in self.parts:
            if len(part.sums) != len(self.landmarks) + 1 or part.points.shape[1] != len(self.scale):
                found = f"{len(part.sums) - 1} landmarks of {part.points.shape[1]} columns"
                raise DataError(
                    f"is damaged: a sketch has {found}, but the shard has {len(self.landmarks)} landmarks of {len(self.scale)} columns"
                )


class RowBlockSource(Protocol):
    """A source of blocks of rows."""

    def block(self, number: int) -> tuple[Array, Array, int]:
        """Return rows (n, d) of a block in scaled columns, their weights (n,), and the number of the first row."""


@dataclass
class SketchState:
    """The units so far; the last one may be incomplete."""

    step: int
    units: list[WorkUnitSketch] = field(default_factory=list)
    grows: ClassVar[tuple[str, ...]] = ("units",)


@dataclass(frozen=True)
class BlockSketching(FixedLengthAlgorithm[SketchState]):
    """The sketching of the blocks of units, as an algorithm.

    tasks  (unit, block), all blocks of a unit in sequence.  share  requested share of the rows that become candidates.
    """

    sketch: nystrom.NystromSums
    blocks: RowBlockSource
    tasks: Sequence[tuple[int, int]]
    share: float
    seed: int = 0
    map: Map = map
    state = SketchState  # the type of its states

    @property
    def steps(self) -> int:
        """The number of blocks."""
        return len(self.tasks)

    def init(self) -> SketchState:
        """Return the state before the first row."""
        return SketchState(0)

    def step(self, state: SketchState) -> SketchState:
        """Add one block of rows."""
        unit, number = self.tasks[state.step]
        X, weights, first = self.blocks.block(number)
        self.sketch.kernel.check(X)
        if not state.step or self.tasks[state.step - 1][0] != unit:
            nothing = WorkUnitSketch(0, np.zeros(len(self.sketch.landmarks) + 1), np.zeros(2), X[:0], np.zeros(0, dtype=np.int64))
            state.units = [*state.units, nothing]
        state.units[-1] = self._add_block(state.units[-1], X, weights, first, number)
        state.step += 1
        return state

    def _add_block(self, unit: WorkUnitSketch, X: Array, weights: Array, first: int, number: int) -> WorkUnitSketch:
        sums = unit.sums.copy()
        self.sketch.add(sums, X, weights, map=self.map)
        more = np.array([weights.sum(), exact_arithmetic.matrix_product(weights, self.sketch.kernel.diagonal(X))])
        keys = generator(self.seed, Purpose.RESERVOIR, step=number).random(len(X))
        kept = np.flatnonzero((keys < self.share) & (weights > 0))
        points, numbers = np.concatenate([unit.points, X[kept]]), np.concatenate([unit.number, first + kept])
        return WorkUnitSketch(unit.rows + len(X), sums, unit.spread + more, points, numbers)

    def memory(self) -> int:
        """The size of the landmarks' Gram matrix, its factor, and the sums of all units."""
        R, units = len(self.sketch.landmarks), len({unit for unit, _ in self.tasks})
        return 24 * R * R + 8 * units * R + (32 << 20)

    def progress(self, state: SketchState) -> RunProgress:
        """Return the progress with the number of rows read."""
        return RunProgress(state.step, self.steps, f"{sum(unit.rows for unit in state.units)} rows")

    def result(self, state: SketchState) -> list[WorkUnitSketch]:
        """Return the sketches of the units."""
        return state.units


def make_group_from_sketches(
    sketch: nystrom.NystromSums, units: Sequence[WorkUnitSketch], atom_count: int, map: Map = map
) -> tuple[SelectionGroup, Array, Array]:
    """Make the group whose atoms represent the rows of all units.

    Also returns the rows (N,) of its candidates, and Σ w with Σ w k(x, x) (2,).
    Raises DataError if no row has a weight.
    """
    sums, spread = units[0].sums.copy(), units[0].spread.copy()
    for unit in units[1:]:
        sums, spread = sums + unit.sums, spread + unit.spread
    points, number = (np.concatenate([getattr(unit, name) for unit in units]) for name in ("points", "number"))
    if not spread[0] > 0 or not len(points):
        raise DataError(INVALID_WEIGHTS)
    rows = sum(unit.rows for unit in units)
    keys, proof = np.zeros(len(points)), np.zeros(32, dtype=np.uint8)
    state = stream_sketch.StreamState(0, True, rows, sums, spread, points, keys, number, proof)
    found, numbers = stream_sketch.make_group_from_stream(sketch, state, atom_count, map)
    return found, numbers, spread
