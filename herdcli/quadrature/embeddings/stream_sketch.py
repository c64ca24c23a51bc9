"""Herding of rows that are read once and not stored: their embedding on the span of landmarks, and some of them as candidates.

Every row is added to the sums of `nystrom`, whose bound of ‖μ − μ̃‖ grows block by block and holds for any order of the rows.  The
landmarks are sampled from the first block: rows unlike those make the bound large, but not wrong.  The candidates are a uniform sample of
all rows without replacement: each row has a random key, and the rows with the smallest keys stay.  Atoms are then chosen among them to
match μ̃.  Source: Vitter (1985) for samples of streams, with keys as in Efraimidis & Spirakis (2006).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from herdcli.algorithm import Map, RunProgress
from herdcli.errors import DataError
from herdcli.numerics import exact_arithmetic
from herdcli.quadrature.embeddings import nystrom
from herdcli.quadrature.embeddings.approximation import EmbeddingErrorBounds
from herdcli.quadrature.kernels import kernel_sums
from herdcli.quadrature.kernels.kernel_functions import Kernel
from herdcli.quadrature.samples import Continuation
from herdcli.quadrature.selection_problem import SelectionGroup
from herdcli.quadrature.targets import RowTarget
from herdcli.records import dataclass
from herdcli.rng import Stream as Purpose
from herdcli.rng import generator
from herdcli.schema import INVALID_WEIGHTS, Array, array


class StreamSource(Protocol):
    """Rows that arrive block by block."""

    def block(self, step: int, proof: Array) -> tuple[Array, Array] | None:
        """Return the rows (n, d) and weights (n,) of block `step`, or None after the last one.

        Earlier blocks are skipped.  Raises DataError if their digest is not the proof (32,).
        """

    def proof(self) -> Array:
        """Return the digest (32,) uint8 of all blocks so far."""


@dataclass
class StreamState:
    """The sketch after `step` blocks."""

    step: int
    ended: bool
    rows: int
    sums: Array = array("r", "Σ w k at the landmarks, and the bound so far (nystrom)", kind="f", finite=True)
    spread: Array = array("2", "Σ w, and Σ w k(x, x)", kind="f", finite=True)
    points: Array = array("C d", "rows that may become atoms", kind="f", finite=True)
    key: Array = array("C", "their random keys, of which the smallest stay; 2 where there is none yet", kind="f", finite=True)
    number: Array = array("C", "their numbers among all rows", kind="i")
    proof: Array = array("32", "digest of all rows so far", kind="u")

    def validate(self) -> None:
        """Raise DataError if more rows are kept than were seen."""
        if self.rows < 0 or int((self.key < 1).sum()) > self.rows:
            raise DataError(f"is damaged: the sketch keeps {int((self.key < 1).sum())} rows, but has read only {self.rows}")


@dataclass(frozen=True)
class StreamSketching:
    """The sketching of a source's rows as an algorithm, with landmarks (R, d) and `kept` candidates."""

    sketch: nystrom.NystromSums
    source: StreamSource
    kept: int
    seed: int = 0
    map: Map = map
    state = StreamState  # the type of its states

    def init(self) -> StreamState:
        """Return the state before the first row."""
        R, d = self.sketch.landmarks.shape
        empty = np.zeros((self.kept, d)), np.full(self.kept, 2.0), np.zeros(self.kept, dtype=np.int64)
        return StreamState(0, False, 0, np.zeros(R + 1), np.zeros(2), *empty, np.zeros(32, dtype=np.uint8))

    def step(self, state: StreamState) -> StreamState:
        """Add one block of rows, or end."""
        found = self.source.block(state.step, state.proof)
        if found is None:
            state.ended = True
            return state
        X, weights = found
        self.sketch.kernel.check(X)
        # Sums of the Nyström projection: Σ w k at the landmarks, with the bound of what the landmarks' span misses; and Σ w, Σ w k(x, x).
        self.sketch.add(state.sums, X, weights, map=self.map)
        state.spread += [weights.sum(), exact_arithmetic.matrix_product(weights, self.sketch.kernel.diagonal(X))]
        self._update_candidates(state, X, weights)
        state.rows, state.step, state.proof = state.rows + len(X), state.step + 1, self.source.proof()
        return state

    def _update_candidates(self, state: StreamState, X: Array, weights: Array) -> None:
        """Keep the candidates with the smallest keys among those so far and the rows of a block that have a weight."""
        # Reservoir: every row has an independent uniform key, and the rows of the smallest keys are a uniform sample without replacement.
        able = np.flatnonzero(weights)
        keys = generator(self.seed, Purpose.RESERVOIR, step=state.step).random(len(X))[able]
        able, keys = able[keys < state.key.max()], keys[keys < state.key.max()]
        every = np.concatenate([state.key, keys])
        stay = np.sort(np.argsort(every, kind="stable")[: self.kept])
        old, new = stay[stay < self.kept], able[stay[stay >= self.kept] - self.kept]
        state.points = np.concatenate([state.points[old], X[new]])
        state.key, state.number = every[stay], np.concatenate([state.number[old], state.rows + new])

    def done(self, state: StreamState) -> bool:
        """Whether the source has ended."""
        return state.ended

    def memory(self) -> int:
        """The size of two copies of the candidates, the landmarks' Gram matrix and factor, and the selection among candidates."""
        R, d = self.sketch.landmarks.shape
        return int(8 * self.kept * (4 * d + 16) + 24 * R * R + (32 << 20))

    def progress(self, state: StreamState) -> RunProgress:
        """Return the progress with the number of rows read; the total is unknown."""
        return RunProgress(state.step, None, f"{state.rows} rows")

    def result(self, state: StreamState) -> StreamState:
        """Return the last state.  Raises DataError if no row with a weight was read."""
        if not state.spread[0] > 0:
            raise DataError(INVALID_WEIGHTS)
        return state


def make_group_from_stream(
    sketch: nystrom.NystromSums, state: StreamState, atom_count: int, map: Map = map
) -> tuple[SelectionGroup, Array]:
    """Make the group whose atoms represent all rows that were read, with the numbers (N,) of its candidates among them."""
    there = np.flatnonzero(state.key < 1)
    points, total = state.points[there], float(state.spread[0])
    alpha, norm, bound = sketch.solve_projection(state.sums / total)
    problem = kernel_sums.make_embedding_problem(sketch.kernel, points, sketch.landmarks, alpha)
    sums = kernel_sums.initial_state(problem)
    for _ in range(kernel_sums.total_steps(problem)):
        sums = kernel_sums.embedding_step(problem, sums, map=map)
    start = Continuation(sums.sums, norm, added=EmbeddingErrorBounds(distance=bound))
    return SelectionGroup(RowTarget(points, np.full(len(points), 1.0 / len(points))), None, atom_count, start=start), state.number[there]


def make_landmark_sums(kernel: Kernel, X: Array, weights: Array, landmark_count: int, seed: int) -> nystrom.NystromSums:
    """Choose landmarks among the first rows X (n, d) with weights (n,)."""
    chosen = nystrom.sample_landmarks(generator(seed, Purpose.LANDMARKS), weights, landmark_count)
    return nystrom.NystromSums(kernel, X[chosen], X[:0], weights[:0])
