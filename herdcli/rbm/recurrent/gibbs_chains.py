"""Gibbs chains in harmoniums that share their weights, each chain with biases of its own, and new sequences drawn by them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from herdcli.algorithm import FixedLengthAlgorithm, RunProgress
from herdcli.rbm.recurrent.model import RecurrentModel
from herdcli.rbm.units.base import Layer
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array


def gibbs_sweeps(
    W: Array, b: Array, c: Array, v: Array, layers: tuple[Layer, Layer], count: int, draws: np.random.Generator
) -> Iterator[tuple[Array, Array]]:
    """So many sweeps of chains from rows v (n, D) with weights W (D, K) and biases b (n, D), c (n, K), float32: after each the rows as
    they are, which are moved on in place, and their means (n, D).

    layers  the visible and the hidden one.
    """
    visible, hidden = layers
    states, still_h, still_v = np.empty_like(c), np.zeros(c.shape[1], np.float32), np.zeros(b.shape[1], np.float32)
    for _ in range(count):
        natural = v @ W
        natural += c  # biases of rows go with the natural parameters; those of units, which layers add, are 0
        hidden.sample(natural, still_h, states, draws)
        below = states @ W.T
        below += b
        visible.sample(below, still_v, v, draws)
        yield v, below


@dataclass
class DrawingState:
    """Where the sequences are; float32."""

    r: Array = array("S K", "recurrent states after the last row drawn", kind="f", finite=True)
    rows: Array = array("S T D", "rows drawn so far, 0 where none are yet", kind="f", finite=True)
    step: int = 0


@dataclass(frozen=True)
class SequenceSampling(FixedLengthAlgorithm[DrawingState]):
    """The algorithm; its result are `count` sequences of `length` rows (count, length, D) float32.  A step is a row of each.

    sweeps  of the chain that draws a row: the first begins at the means of the biases, each other at the row before it.
    state_before, row_before  (count, K) and (count, D) that sequences go on from; None: they begin.
    """

    model: RecurrentModel
    count: int
    length: int
    sweeps: int
    seed: int = 0
    means: bool = False  # give E[v | h] of the last sweep in place of the states
    state_before: Array | None = None
    row_before: Array | None = None
    state = DrawingState  # the type of its states

    @property
    def steps(self) -> int:
        """Rows of a sequence."""
        return self.length

    def memory(self) -> int:
        """Bytes of the rows and of a sweep's values."""
        D, K = self.model.p.W.shape
        return int(4 * self.count * (self.length * D + 4 * D + 4 * K))

    def init(self) -> DrawingState:
        """No row drawn yet."""
        D, K = self.model.p.W.shape
        r = np.zeros((self.count, K), dtype=np.float32) if self.state_before is None else self.state_before.astype(np.float32)
        return DrawingState(r, np.zeros((self.count, self.length, D), dtype=np.float32))

    def step(self, state: DrawingState) -> DrawingState:
        """One row of every sequence."""
        p = self.model.p.each(lambda part: part.astype(np.float32))
        layers, draws = (self.model.visible.layer(), self.model.hidden.layer()), generator(self.seed, Stream.SEQUENCES, step=state.step)
        begins = state.step == 0 and self.state_before is None
        b, c = (p.b + p.b_first, p.c + p.c_first) if begins else (p.b + state.r @ p.V, p.c + state.r @ p.U)
        b, c = (np.ascontiguousarray(np.broadcast_to(part, (self.count, part.shape[-1]))) for part in (b, c))
        v = self._start(state, b, layers[0])
        *_, (_, means) = gibbs_sweeps(p.W, b, c, v, layers, self.sweeps, draws)
        natural = v @ p.W + c
        layers[1].means(natural, np.zeros_like(p.c))
        state.r[...] = natural
        state.rows[:, state.step] = means if self.means else v
        state.step += 1
        return state

    def _start(self, state: DrawingState, b: Array, visible: Layer) -> Array:
        """Rows that chains begin at."""
        if state.step and not self.means:
            return state.rows[:, state.step - 1].copy()
        if state.step == 0 and self.row_before is not None:
            return self.row_before.astype(np.float32)
        start = b.copy()
        visible.means(start, np.zeros(b.shape[1], np.float32))
        return start

    def progress(self, state: DrawingState) -> RunProgress:
        """How many rows are drawn."""
        return RunProgress(state.step, self.steps)

    def result(self, state: DrawingState) -> Array:
        """The sequences."""
        return state.rows
