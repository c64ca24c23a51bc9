"""Samples of a network: independent if one elimination contains all variables, otherwise by chains of blocked Gibbs sampling."""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import RunProgress
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model.network import Network
from herdcli.markov.model.restricted_states import restrict_to_possible_states
from herdcli.markov.query.chains import chain_samples as sampling
from herdcli.markov.query.chains.blocked_gibbs import draw_initial_states
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

BATCH = 1 << 22  # maximum number of table cells of one batch of rows that are sampled together, over all its rows
MOST_CELLS = 1 << 22  # independent rows are sampled only if the tables of one row have at most this many cells


@dataclass
class NetworkSamplingState:
    """The states of the chains x (N, chains) and the rows (count, N) sampled so far.

    alike  True if all chains began at the same state, found by search.
    """

    x: Array
    rows: Array
    done: int
    alike: bool
    step: int


@dataclass(frozen=True)
class NetworkSamples:
    """Rows (count, N) sampled from a network.

    unmoved  number of variables that are equal in all rows, if all chains began at the same state, found by search.
    """

    rows: Array
    unmoved: int


class NetworkSampling:
    """A sampler; each step is a batch of independent rows, or a sweep of all chains.

    exact  True if the rows are independent.
    """

    state = NetworkSamplingState

    def __init__(self, network: Network, count: int, *, burn_in: int, thin: int, chains: int, seed: int, cells: int = MOST_CELLS) -> None:
        self.network, self.count, self.seed = network, count, seed
        self.inner = restrict_to_possible_states(network)
        self.blocks = sampling.partition_into_blocks(self.inner.network, cells)
        self.exact = len(self.blocks) <= 1
        if not self.exact:
            self.blocks = sampling.partition_into_blocks(self.inner.network, sampling.CELLS)
        self.burn_in, self.thin = burn_in, thin
        self.chains = self._rows_per_batch() if self.exact else min(count, chains or count)
        self.steps = -(-count // self.chains) if self.exact else burn_in + thin * (-(-count // self.chains) - 1) + 1

    def _rows_per_batch(self) -> int:
        return max(1, min(self.count, BATCH // max(1, sum(block.cells for block in self.blocks))))

    def init(self) -> NetworkSamplingState:
        """Return the initial states of the chains."""
        x, alike = draw_initial_states(self.inner, self.blocks, self.chains, InferenceSettings(seed=self.seed, iterations=100))
        return NetworkSamplingState(x, np.zeros((self.count, self.network.count), dtype=np.int64), 0, alike, 0)

    def step(self, state: NetworkSamplingState) -> NetworkSamplingState:
        """Sample the next batch of rows, or do the next sweep."""
        random = generator(self.seed, Stream.SAMPLE, unit=1, step=state.step)
        for block in self.blocks:
            uniform = sampling.draw_uniforms(block, state.x.shape[1], random)
            sampling.draw_block(block, state.x, self.inner.network.cardinality.tolist(), uniform)
        after = state.step - self.burn_in
        if self.exact or (after >= 0 and after % self.thin == 0):
            part = slice(state.done, min(self.count, state.done + self.chains))
            taken = state.x[:, : part.stop - part.start]
            for i, kept in enumerate(self.inner.states):
                state.rows[part, i] = kept[taken[i]]
            state.done = part.stop
        state.step += 1
        return state

    def done(self, state: NetworkSamplingState) -> bool:
        """Return True if all rows are sampled."""
        return state.done >= self.count

    def memory(self) -> int:
        """Return the bytes of a batch's tables and of the rows."""
        return 24 * self.chains * max((block.cells for block in self.blocks), default=1) + 8 * self.count * self.network.count

    def progress(self, state: NetworkSamplingState) -> RunProgress:
        """The number of rows so far."""
        return RunProgress(state.step, self.steps, f"{state.done} rows")

    def result(self, state: NetworkSamplingState) -> NetworkSamples:
        """Return the sampled rows."""
        same = (state.rows == state.rows[:1]).all(axis=0) if state.alike else np.zeros(self.network.count, dtype=bool)
        free = [len(kept) > 1 for kept in self.inner.states]
        return NetworkSamples(state.rows, int((same & free).sum()))
