"""Gibbs chains in harmoniums that share their weights, each chain with its own biases, and the sampling of new sequences."""

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
    """Run `count` sweeps of chains from rows v (n, D), and yield the rows and their means (n, D) after each sweep.

    The weights W (D, K) and biases b (n, D), c (n, K) are float32; v is updated in place.
    layers  the visible and the hidden one.
    """
    visible, hidden = layers
    states, still_h, still_v = np.empty_like(c), np.zeros(c.shape[1], np.float32), np.zeros(b.shape[1], np.float32)
    for _ in range(count):
        natural = v @ W
        natural += c  # the biases of rows are added to the natural parameters; those of units, which layers add, are 0
        hidden.sample(natural, still_h, states, draws)
        below = states @ W.T
        below += b
        visible.sample(below, still_v, v, draws)
        yield v, below


@dataclass
class SequenceSamplingState:
    """The sequences that are sampled so far; float32."""

    r: Array = array("S K", "recurrent states after the last row drawn", kind="f", finite=True)
    rows: Array = array("S T D", "rows drawn so far, 0 where none are yet", kind="f", finite=True)
    step: int = 0


@dataclass(frozen=True)
class SequenceSampling(FixedLengthAlgorithm[SequenceSamplingState]):
    """The sampling of sequences as an algorithm.

    Its result is `count` sequences of `length` rows (count, length, D) float32.  A step samples one row of each.
    sweeps  number of sweeps of the chain that samples a row; the first row's chain starts at the means of the biases, others at the row
            before.
    state_before, row_before  the state (count, K) and row (count, D) that the sequences continue from; None: new sequences start.
    """

    model: RecurrentModel
    count: int
    length: int
    sweeps: int
    seed: int = 0
    means: bool = False  # return E[v | h] of the last sweep instead of the states
    state_before: Array | None = None
    row_before: Array | None = None
    state = SequenceSamplingState  # the type of its states

    @property
    def steps(self) -> int:
        """The number of rows of a sequence."""
        return self.length

    def memory(self) -> int:
        """The size of the rows and of a sweep's values in bytes."""
        D, K = self.model.p.W.shape
        return int(4 * self.count * (self.length * D + 4 * D + 4 * K))

    def init(self) -> SequenceSamplingState:
        """Return the state before the first row."""
        D, K = self.model.p.W.shape
        r = np.zeros((self.count, K), dtype=np.float32) if self.state_before is None else self.state_before.astype(np.float32)
        return SequenceSamplingState(r, np.zeros((self.count, self.length, D), dtype=np.float32))

    def step(self, state: SequenceSamplingState) -> SequenceSamplingState:
        """Sample one row of every sequence."""
        p = self.model.p.map_arrays(lambda part: part.astype(np.float32))
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

    def _start(self, state: SequenceSamplingState, b: Array, visible: Layer) -> Array:
        """Return the rows at which chains start."""
        if state.step and not self.means:
            return state.rows[:, state.step - 1].copy()
        if state.step == 0 and self.row_before is not None:
            return self.row_before.astype(np.float32)
        start = b.copy()
        visible.means(start, np.zeros(b.shape[1], np.float32))
        return start

    def progress(self, state: SequenceSamplingState) -> RunProgress:
        """Return the progress with the number of rows that are sampled."""
        return RunProgress(state.step, self.steps)

    def result(self, state: SequenceSamplingState) -> Array:
        """Return the sequences."""
        return state.rows
