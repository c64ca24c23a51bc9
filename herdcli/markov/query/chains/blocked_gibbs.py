"""Blocked Gibbs sampling of any network, with any numbers of states and with zeros.

Marginals are relative frequencies in the sweeps after burn-in.  R̂ compares the halves of all chains, for each state and for the product
of the factors; standard errors are those of `chain_convergence`.  If one block contains all variables, the samples are independent.
"""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage, NegativeResult
from herdcli.markov.method import InferenceResult, InferenceSettings, Stepwise
from herdcli.markov.model import chain_convergence
from herdcli.markov.model.chain_convergence import EnergySums, empty_energy_sums
from herdcli.markov.model.network import Factor, Network
from herdcli.markov.model.restricted_states import RestrictedNetwork, restrict_to_possible_states
from herdcli.markov.model.stacked_tables import state_offsets
from herdcli.markov.query.chains import chain_samples as sampling
from herdcli.markov.query.max_product import MaxProduct
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

TRIES = 20  # number of sweeps with soft zeros that search for possible initial states
HARDER, HARDEST = 120, 8.0  # number of further sweeps with increasing penalties of zeros, and the final penalty in nats
LOOK = 5  # number of steps of the search for one possible state


@dataclass
class BlockedGibbsState:
    """The states of the chains x (N, chains), and counts over the kept sweeps.

    on      (2, Σ card, chains) counts of each state, for each half of the run.
    cell    (Σ cells,) counts of the cells of each factor.
    height  sums of the log of the product of the factors.
    alike   True if all chains began at the same state, found by search.
    """

    x: Array
    on: Array
    cell: Array
    height: EnergySums
    alike: bool
    step: int


class BlockedGibbs(Stepwise[BlockedGibbsState]):
    """The algorithm `gibbs`: each step is a sweep over all blocks."""

    state = BlockedGibbsState

    def __init__(self, network: Network, settings: InferenceSettings) -> None:
        self.network, self.settings = network, settings
        self.steps = settings.burn_in + 2 * ((settings.sweeps + 1) // 2)
        if settings.annealing > settings.burn_in:
            hint = f"raise --burn-in to {settings.annealing} or more"
            raise BadUsage(f"--annealing {settings.annealing} is more than the {settings.burn_in} sweeps of --burn-in", hint=hint)
        self.inner = restrict_to_possible_states(network)
        self.blocks = sampling.partition_into_blocks(self.inner.network, sampling.CELLS)
        self.first = state_offsets(self.inner.network)
        self.strides = factor_strides(self.inner.network)
        with np.errstate(divide="ignore"):
            self.logs = np.log(self.inner.network.table)
        count = len(self.blocks)
        self.note = f"gibbs samples {count} block{'s' if count != 1 else ''} of variables, the largest with {self._largest_block_size()}"

    def _largest_block_size(self) -> int:
        return max((len(block.order) for block in self.blocks), default=0)

    def work_per_step(self) -> int:
        """The number of table cells that a sweep of all chains visits."""
        return self.settings.chains * int(sum(block.cells for block in self.blocks))

    def init(self) -> BlockedGibbsState:
        """Draw random initial states that are possible."""
        small, settings = self.inner.network, self.settings
        x, alike = draw_initial_states(self.inner, self.blocks, settings.chains, settings)
        return BlockedGibbsState(
            x, np.zeros((2, int(self.first[-1]), settings.chains)), np.zeros(len(small.table)), empty_energy_sums(settings.chains), alike, 0
        )

    def step(self, state: BlockedGibbsState) -> BlockedGibbsState:
        """Do one sweep of every chain."""
        random = generator(self.settings.seed, Stream.CHAINS, unit=3, step=state.step)
        cold = min(1.0, (state.step + 1) / (self.settings.annealing + 1))  # the inverse temperature
        states = self.inner.network.cardinality.tolist()
        for block in self.blocks:
            # A block is drawn from its joint conditional given all others, at the inverse temperature `cold`.
            sampling.draw_block(block, state.x, states, sampling.draw_uniforms(block, state.x.shape[1], random), power=cold)
        kept = state.step - self.settings.burn_in
        if kept >= 0:
            # Counts of the two halves of each chain are kept apart, for split R̂.
            half = int(kept >= (self.steps - self.settings.burn_in) // 2)
            np.add.at(state.on[half], (self.first[:-1, None] + state.x, np.arange(state.x.shape[1])), 1.0)
            height = np.zeros(state.x.shape[1])
            for offset, scope, stride in self.strides:
                cells = offset[:, None] + np.einsum("gk,gkc->gc", stride, state.x[scope])
                np.add.at(state.cell, cells, 1.0)
                height += self.logs[cells].sum(axis=0)
            state.height.add(height, kept, half)
        state.step += 1
        return state

    def bytes_needed(self, state: BlockedGibbsState) -> tuple[int, str]:
        """Return the bytes that `result` needs for the counts of both halves of every chain and for their frequencies, and the purpose."""
        return 2 * 16 * int(self.first[-1]) * self.settings.chains, "the counts of the chains"

    def memory(self) -> int:
        """Return the bytes of one block's tables for all chains."""
        return 24 * self.settings.chains * max((block.cells for block in self.blocks), default=0)

    def result(self, state: BlockedGibbsState) -> InferenceResult:
        """Return the marginals with standard errors.

        The run has converged if every R̂ is below 1.05; the residual is the largest R̂ minus one.
        """
        n, small = (self.steps - self.settings.burn_in) // 2, self.inner.network
        halves = np.concatenate(list(state.on), axis=1) / n
        ratio = chain_convergence.split_rhat(halves, n, stuck=state.alike)
        worst = max(float(ratio.max(initial=1.0)), state.height.rhat(n))
        error = chain_convergence.widen_for_unseen_states(
            chain_convergence.batch_means_errors(state.on / n), chain_convergence.effective_draws(worst, halves.shape[1], n)
        )
        error[np.repeat(small.cardinality == 1, small.cardinality)] = 0.0
        split = [np.split(part, self.first[1:-1]) for part in (halves.mean(axis=1), error)]
        nodes, errors = (self.inner.expand_marginals(part, self.network.cardinality) for part in split)
        draws = 2 * n * self.settings.chains
        cliques = [
            (scope, self.inner.expand_table(scope, table / draws, self.network.cardinality))
            for scope, table in unflatten_tables(small, state.cell)
        ]
        attributes = {
            "log_z": np.nan,
            "free_energy": np.nan,
            "iterations": state.step,
            "converged": worst < chain_convergence.RHAT,
            "residual": worst - 1,
            "standard_error": errors,
        }
        return InferenceResult(nodes, cliques, attributes)


def draw_initial_states(
    inner: RestrictedNetwork, blocks: list[sampling.VariableBlock], chains: int, settings: InferenceSettings
) -> tuple[Array, bool]:
    """Return possible initial states (N, chains), and whether all chains begin at the same one.

    They are random states after sweeps with soft zeros.  Chains for which this fails begin at the states of other chains, or
    at one probable state.  Raises NegativeResult if none is found.
    """
    small = inner.network
    random = generator(settings.seed, Stream.CHAINS, unit=4)
    x: Array = (random.random((small.count, chains)) * small.cardinality[:, None]).astype(np.int64)
    if len(blocks) <= 1:
        return x, False
    for _ in range(TRIES):
        if sampling.possible_chain_mask(small, x).all():
            return x, False
        for block in blocks:
            sampling.draw_block(
                block, x, small.cardinality.tolist(), sampling.draw_uniforms(block, chains, random), floor=sampling.BOUNDARY
            )
    bad = ~sampling.possible_chain_mask(small, x)
    if bad.any():
        bad = _repair_impossible_states(small, blocks, x, bad, random)
    if bad.all():
        try:
            found = run_algorithm(MaxProduct(small, settings, LOOK)).states
        except NegativeResult as error:
            raise NegativeResult("gibbs found no initial state with a probability above 0", hint="use --algorithm ups") from error
        x[...] = np.array([found[i] for i in range(small.count)])[:, None]
        return x, True
    good = np.flatnonzero(~bad)
    x[:, bad] = x[:, good[np.arange(int(bad.sum())) % len(good)]]
    return x, len(good) == 1 and chains > 1


def _repair_impossible_states(
    network: Network, blocks: list[sampling.VariableBlock], x: Array, bad: Array, random: np.random.Generator
) -> Array:
    """Do sweeps with increasing penalties of zeros for those chains of x that are in impossible states; return which still are."""
    bad = bad.copy()
    for k in range(HARDER):
        some = x[:, bad]
        for block in blocks:
            uniform = sampling.draw_uniforms(block, some.shape[1], random)
            sampling.draw_block(block, some, network.cardinality.tolist(), uniform, floor=-HARDEST * (k + 1) / HARDER)
        x[:, bad] = some
        bad[bad] = ~sampling.possible_chain_mask(network, some)
        if not bad.any():
            break
    return bad


def factor_strides(network: Network) -> list[tuple[Array, Array, Array]]:
    """Return, for factors with the same number of variables, the starts of their tables (G,), scopes (G, k), and strides (G, k)."""
    groups: dict[int, list[tuple[int, tuple[int, ...], list[int]]]] = {}
    for a, (scope, table) in enumerate(network.factors()):
        stride = [int(step) // table.itemsize for step in np.ascontiguousarray(table).strides]
        groups.setdefault(len(scope), []).append((int(network.table_offset[a]), scope, stride))
    return [
        (np.array([at for at, _, _ in part]), np.array([scope for _, scope, _ in part]), np.array([stride for _, _, stride in part]))
        for part in groups.values()
    ]


def unflatten_tables(network: Network, flat: Array) -> list[Factor]:
    """Convert flat values of all factors' cells to tables."""
    cells = network.table_offset
    return [(scope, flat[cells[a] : cells[a + 1]].reshape(table.shape)) for a, (scope, table) in enumerate(network.factors()) if scope]
