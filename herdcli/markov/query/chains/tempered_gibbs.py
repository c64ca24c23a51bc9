"""Blocked Gibbs sampling with parallel tempering, for networks with many modes.

Network k has its factors to the power β_k, β_1 < … < β_K = 1.  A step samples every block of every chain once at each temperature.  Then
it exchanges states between temperatures (parallel tempering: with probability min(1, exp((β' − β)(E − E'))), E the log of the product
of the factors).  It also exchanges parts between the two chains of a pair at one temperature: a connected set of variables that differ
may be swapped, because no factor contains variables of two such sets, and the product of the two probabilities is unchanged (Houdayer
2001 for spin glasses).  If all factors are over pairs, every fourth step also exchanges two states in whole clusters of a chain
(`state_permutations`).  Chains of different pairs never interact, so their means are independent: R̂ and standard errors compare pairs
(`chain_convergence`).  The chains are cooled to their temperatures one after the other; the first half of the burn-in evaluates the
temperatures, then they are adapted (`temperature_ladder`).  Source: Geyer (1991); Hukushima & Nemoto (1996); Hamze & de Freitas (2004) and
Bidyuk & Dechter (2007) for blocks.
"""

from __future__ import annotations

import math
from copy import copy

import numpy as np

from herdcli import fast
from herdcli.algorithm import RunProgress
from herdcli.markov.method import InferenceResult, InferenceSettings, Stepwise
from herdcli.markov.model import chain_convergence
from herdcli.markov.model.chain_convergence import EnergySums, empty_energy_sums
from herdcli.markov.model.network import Network
from herdcli.markov.model.restricted_states import restrict_to_possible_states
from herdcli.markov.model.stacked_tables import state_offsets
from herdcli.markov.query import state_permutations
from herdcli.markov.query.chains import chain_samples as sampling
from herdcli.markov.query.chains import temperature_ladder
from herdcli.markov.query.chains.block_programs import LANES, compile_block
from herdcli.markov.query.chains.blocked_gibbs import draw_initial_states, factor_strides, unflatten_tables
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

CELLS = 1 << 8  # largest number of cells of a block's tables; larger tables cost more than they improve mixing
COVERS = 2  # number of partitions of the network into blocks, which sweeps use in turn
BATCHES = 8  # number of equal parts of a run, whose means are stored separately
JUDGED = 16  # temperatures are adapted only if the burn-in has at least this many steps
FLIPPED = 4  # number of steps between exchanges of clusters
FITTED = 50  # number of sweeps that fit the factors' marginals to those of variables
CHEAP = 2  # this many table cells cost as much as one cell in other algorithms
DRAW = 128  # sampling one variable costs as much as this many table cells


@dataclass
class TemperedGibbsState:
    """The states of the chains x (K, N, chains), and sums over the kept sweeps.

    powers   (K,) the powers of the factors; those from index `hottest` on are in use.
    mean     (BATCHES, Σ card, pairs) sums of marginals of each pair of chains.
    on       (2, Σ card, pairs) counts of each state, for each half of the run.
    cell     (Σ cells,) counts of each cell of each factor.
    swapped  (2, K − 1) accepted and attempted exchanges between neighbouring temperatures, over all chains, since the powers were set.
    heading  (K, chains), see `temperature_ladder.count_round_trips`.
    trips    round trips of all chains.
    alike    True if all chains began at the same state, found by search.
    """

    x: Array
    powers: Array
    hottest: int
    mean: Array
    on: Array
    height: EnergySums
    cell: Array
    swapped: Array
    heading: Array
    trips: int
    alike: bool
    step: int


class TemperedGibbs(Stepwise[TemperedGibbsState]):
    """The algorithm `tempered-gibbs`: each step is a sweep at every temperature."""

    state = TemperedGibbsState

    def __init__(self, network: Network, settings: InferenceSettings) -> None:
        self.network = network
        self.inner = restrict_to_possible_states(network)
        small = self.inner.network
        self.first = state_offsets(small)
        self.states: list[int] = small.cardinality.tolist()
        self.covers = self._random_block_covers(settings.seed)
        self.programs = [[compile_block(block, self.states, self.first) for block in cover] for cover in self.covers]
        self.strides = factor_strides(small)
        with np.errstate(divide="ignore"):
            self.logs = np.log(small.table)
        self.near_first, self.near = state_permutations.flat_neighbour_arrays(small)
        self.flips = state_permutations.find_state_permutations(self.inner)
        own = np.concatenate([np.arange(count) for count in self.states])
        self.state_template = own if self.flips is None else state_permutations.first_equivalent_states(self.flips, own)
        self._resolve_settings(settings)

    def _resolve_settings(self, settings: InferenceSettings) -> None:
        """Derive temperatures, chains and numbers of sweeps from the settings."""
        self.settings = settings
        alone = settings.temperatures == 1 or len(self.covers[0]) <= 1  # one block contains all variables: samples are already independent
        self.powers = np.ones(1) if alone else temperature_ladder.choose_initial_powers(self.inner.network)
        self.chains = 2 * max(2, (settings.chains + 1) // 2)
        self.kept = BATCHES * -(-settings.sweeps // BATCHES)
        self.before = len(self.powers) + settings.burn_in
        self.steps = self.before + self.kept
        self.tables: dict[float, list[list[Array]]] = {}
        count, hot = len(self.powers), float(self.powers[0])
        self.note = f"tempered-gibbs samples blocks of up to {self._largest_block_size()} variables at " + (
            f"{count} temperatures up to {1 / hot:.3g}" if count > 1 else "only the temperature of the network"
        )

    def with_settings(self, settings: InferenceSettings) -> TemperedGibbs:
        """Return a sampler with the same blocks and other settings with the same seed."""
        made = copy(self)
        made._resolve_settings(settings)
        return made

    def _random_block_covers(self, seed: int) -> list[list[sampling.VariableBlock]]:
        made: list[list[sampling.VariableBlock]] = []
        for k in range(COVERS):
            random = generator(seed, Stream.CHAINS, unit=5, step=k)
            made.append(sampling.partition_into_bands(self.inner.network, CELLS, random))
            if len(made[0]) <= 1:  # samples are already independent
                break
        return made

    def _largest_block_size(self) -> int:
        return max((len(block.order) for cover in self.covers for block in cover), default=0)

    def work_per_step(self) -> int:
        """The number of table cells that a step visits, including the cost of random numbers.

        LANES chains are processed together if float64 suffices.  CHEAP of these cells, which are processed in sequence, take as long as one
        of those that propagation over regions gathers.
        """
        lanes = -(-self.chains // LANES)
        cells = 0
        for cover, made in zip(self.covers, self.programs, strict=True):
            for block, each in zip(cover, made, strict=True):
                cells += (block.cells + DRAW * len(block.order)) * (lanes if each.narrow else LANES * lanes)
        # The marginals of kept sweeps take as long again, at one of the temperatures.
        return cells * (len(self.powers) + 1) // (CHEAP * len(self.covers))

    def init(self) -> TemperedGibbsState:
        """Draw random initial states that are possible; colder temperatures later copy theirs from the next hotter one."""
        x, alike = draw_initial_states(self.inner, self.covers[0], self.chains, self.settings)
        count, size, pairs = len(self.powers), int(self.first[-1]), self.chains // 2
        return TemperedGibbsState(
            np.stack([x] * count), self.powers.copy(), 0, np.zeros((BATCHES, size, pairs)), np.zeros((2, size, pairs)),
            empty_energy_sums(self.chains), np.zeros(len(self.logs)), np.zeros((2, count - 1)),
            np.zeros((count, self.chains), dtype=np.int64), 0, alike, 0,
        )  # fmt: skip

    def step(self, state: TemperedGibbsState) -> TemperedGibbsState:
        """Do one sweep of every chain at every temperature that has begun."""
        random = generator(self.settings.seed, Stream.CHAINS, unit=6, step=state.step)
        count = len(state.x)
        begun = range(state.hottest, min(count, state.step + 1))
        # Temperatures begin one after the other, from the hottest: each starts where its hotter neighbour is.
        if 0 < state.step < count:
            state.x[state.step] = state.x[state.step - 1]
        kept = state.step - self.before
        shares = np.ones((int(self.first[-1]), self.chains))
        for k in begun:
            last = k == count - 1 and kept >= 0
            self._sweep_blocks(state.x[k], float(state.powers[k]), state.step % len(self.covers), random, shares, last)
            if last:
                self._add_sweep_counts(state, state.x[-1], shares, kept)
            # Pairs of chains at one temperature exchange whole clusters of variables in which they differ; their joint distribution stays.
            for a in range(0, self.chains, 2):
                fast.exchange(self.near_first, self.near, state.x[k], a, a + 1, random.random(len(self.states)))
            if self.flips is not None and (state.step + k) % FLIPPED == 0:
                self.flips.exchange_cluster_states(state.x[k], float(state.powers[k]), random)
        self._exchange_chain_states(state, begun, random, kept)
        state.step += 1
        if state.step == len(self.powers) + self.settings.burn_in // 2 and count > 1 and self.settings.burn_in >= JUDGED:
            self._adapt_powers(state)
        return state

    def _powered_tables(self, power: float) -> list[list[Array]]:
        """Return the factors raised to a power, for all blocks of all covers."""
        if power not in self.tables:
            self.tables[power] = [[each.tables(power) for each in part] for part in self.programs]
        return self.tables[power]

    def _sweep_blocks(self, x: Array, power: float, cover: int, random: np.random.Generator, shares: Array, marginals: bool) -> None:
        """Sample every block once at a power, LANES chains at a time; the last group is padded with copies of the last chain.

        shares  (Σ card, chains) receives the probabilities of the sampled states, or the conditional marginals if the loops compute them.
        """
        for block, each, table in zip(self.covers[cover], self.programs[cover], self._powered_tables(power)[cover], strict=True):
            uniform = np.ascontiguousarray(sampling.draw_uniforms(block, self.chains, random))
            for low in range(0, self.chains, LANES):
                some = np.minimum(np.arange(low, low + LANES), self.chains - 1)
                here, chances, numbers = (part if self.chains == LANES else part.take(some, axis=1) for part in (x, shares, uniform))
                if not each.draw_states(here, numbers, chances, table):
                    sampling.draw_block(block, here, self.states, numbers, power=power, shares=(chances, self.first))
                elif marginals:
                    each.marginals(chances)
                if self.chains != LANES:
                    x[:, some], shares[:, some] = here, chances

    def _add_sweep_counts(self, state: TemperedGibbsState, x: Array, marginals: Array, sweep: int) -> None:
        """Add a sweep to the counts."""
        half = int(sweep >= self.kept // 2)
        state.mean[sweep * BATCHES // self.kept] += marginals[:, ::2] + marginals[:, 1::2]
        rows, pair = self.first[:-1, None] + x, np.arange(self.chains // 2)
        for chain in (0, 1):
            state.on[half][rows[:, chain::2], pair] += 1.0
        found = self._factor_cells(x)
        for cells in found:
            state.cell += np.bincount(cells.ravel(), minlength=len(state.cell))
        state.height.add(self._log_products(x, found), sweep, half)

    def _factor_cells(self, x: Array) -> list[Array]:
        """Return the cell of each factor that each chain is in: an array (factors, chains) for each number of variables of a factor."""
        return [offset[:, None] + np.einsum("gk,gkc->gc", stride, x[scope]) for offset, scope, stride in self.strides]

    def _log_products(self, x: Array, cell_indices: list[Array] | None = None) -> Array:
        """Return the log of the product of all factors at each chain's state (chains,).

        cell_indices  the cells of the factors, if they are known.
        """
        made: Array = sum((self.logs[cells].sum(axis=0) for cells in cell_indices or self._factor_cells(x)), np.zeros(x.shape[1]))
        return made

    def _exchange_chain_states(
        self, state: TemperedGibbsState, active_temperatures: range, random: np.random.Generator, sweep: int
    ) -> None:
        """Exchange states of neighbouring temperatures, even pairs and odd ones in turn."""
        if len(active_temperatures) < 2:
            return
        some = state.x[active_temperatures.start : active_temperatures.stop]
        height = self._log_products(some.transpose(1, 0, 2).reshape(some.shape[1], -1)).reshape(len(active_temperatures), self.chains)
        for k in range(active_temperatures.start + state.step % 2, active_temperatures.stop - 1, 2):
            gain = (state.powers[k + 1] - state.powers[k]) * (
                height[k - active_temperatures.start] - height[k + 1 - active_temperatures.start]
            )
            # Metropolis rule for states x at β and x' at β': ratio (f(x)/f(x'))^(β' − β), f the product of all factors.
            yes = np.log(random.random(self.chains)) < gain
            for part in (state.x, state.heading[:, None]):
                part[k : k + 2, :, yes] = part[k : k + 2, :, yes][::-1]
            state.swapped[:, k] += yes.sum(), self.chains
        arrived = (
            temperature_ladder.count_round_trips(state.heading[active_temperatures.start : active_temperatures.stop])
            if active_temperatures.stop == len(state.x)
            else 0
        )
        state.trips += arrived if sweep >= 0 else 0

    def _adapt_powers(self, state: TemperedGibbsState) -> None:
        """Adapt the powers to the rejections; each new power takes the states of the nearest old one."""
        swapped, tried = state.swapped
        made = temperature_ladder.adapt_powers(state.powers, 1 - swapped / np.maximum(tried, 1))
        state.hottest = len(state.powers) - len(made)
        state.x[state.hottest :] = state.x[temperature_ladder.nearest_power_indices(state.powers, made)]
        state.powers[state.hottest :] = made
        state.powers[: state.hottest] = made[0]
        state.swapped[...] = 0
        state.heading[...] = 0
        self.tables = {}

    def bytes_needed(self, state: TemperedGibbsState) -> tuple[int, str]:
        """Return the bytes of the counts for BATCHES and for two halves of every pair of chains, and their purpose in words."""
        return 8 * (2 * BATCHES + 4 * 2) * int(self.first[-1]) * (self.chains // 2), "the counts of the chains"

    def memory(self) -> int:
        """Return the bytes of all chains, and of the arrays for the loops over blocks."""
        programs = sum(each.bytes for part in self.programs for each in part) + (self.flips.bytes if self.flips else 0)
        factors = 8 * sum(len(each.logs) for part in self.programs for each in part) * len(self.powers)
        return 8 * len(self.powers) * len(self.states) * self.chains + programs + factors

    def progress(self, state: TemperedGibbsState) -> RunProgress:
        """The number of steps done."""
        figure = "cooling" if 0 < state.step < len(self.powers) else ""
        kept = max(0, state.step - self.before)  # kept sweeps also compute marginals, which take as long again
        return RunProgress(state.step, self.steps, figure, (state.step + kept) / (self.steps + self.kept))

    def result(self, state: TemperedGibbsState) -> InferenceResult:
        """Return the means with their standard errors.

        The run has converged if R̂ is below 1.05 and states travel through all temperatures.  The residual is the largest R̂, of states
        and of the product of the factors, minus one.
        """
        small, cardinality = self.inner.network, self.network.cardinality
        # A pair of chains counts as a single chain with twice as many sweeps.
        mean, on = self._average_exchangeable(state.mean / (2 * self.kept // BATCHES)), self._average_exchangeable(state.on / self.kept)
        halves = np.concatenate(list(on), axis=1)
        ratio = chain_convergence.split_rhat(halves, self.kept, stuck=state.alike)
        worst = max(float(ratio.max(initial=1.0)), state.height.rhat(self.kept // 2))
        draws = chain_convergence.effective_draws(worst, halves.shape[1], self.kept)
        p, error = mean.mean(axis=(0, 2)), chain_convergence.batch_means_errors(mean)
        error = np.where(self._exactly_known_marginals(), 0.0, chain_convergence.widen_for_unseen_states(error, draws))
        error[np.isinf(ratio) & (halves.std(axis=1) == 0)] = 0.5  # all chains began at this state and never left it: nothing is known
        split = [np.split(part, self.first[1:-1]) for part in (p, error)]
        nodes, errors = (self.inner.expand_marginals(part, cardinality) for part in split)
        fitted = reconcile_marginals(small, state.cell, self.kept * self.chains, np.split(p, self.first[1:-1]))
        cliques = [(scope, self.inner.expand_table(scope, table, cardinality)) for scope, table in unflatten_tables(small, fitted)]
        count = len(state.powers) - state.hottest
        met = worst < chain_convergence.RHAT and (count == 1 or state.trips >= self.chains)
        attributes = {
            "log_z": np.nan, "free_energy": np.nan, "iterations": state.step, "converged": met, "residual": worst - 1,
            "standard_error": errors, "effective_draws": draws, "round_trips": state.trips if count > 1 else None,
        }  # fmt: skip
        return InferenceResult(nodes, cliques, attributes)

    def _exactly_known_marginals(self) -> Array:
        """Return which marginals of states are known without sampling, (Σ card,) bool."""
        known: Array = np.repeat(np.maximum.reduceat(self.state_template, self.first[:-1]) == 0, self.states)
        return known

    def _average_exchangeable(self, counts: Array) -> Array:
        """Return counts (…, Σ card, pairs), averaged over states that can be exchanged without changing the network."""
        to = self.first[:-1].repeat(self.states) + self.state_template
        if (to == np.arange(len(to))).all():
            return counts
        total = np.zeros((counts.shape[1], counts.shape[0], counts.shape[2]))
        np.add.at(total, to, counts.transpose(1, 0, 2))
        size = np.maximum(np.bincount(to, minlength=len(to)), 1)
        return np.asarray((total / size[:, None, None])[to].transpose(1, 0, 2))


def reconcile_marginals(network: Network, cell: Array, draws: int, nodes: list[Array]) -> Array:
    """Return marginals of factors (Σ cells,): frequencies, scaled until their marginals of each variable equal those of `nodes`.

    Half a sample is added to the nonzero cells of each factor, distributed as for independent variables, so that no state is missing.
    Source: Deming & Stephan (1940), iterative proportional fitting.
    """
    made = np.zeros(len(cell))
    groups: dict[tuple[int, ...], list[tuple[int, tuple[int, ...], Array]]] = {}
    for a, (scope, table) in enumerate(network.factors()):
        if scope:
            groups.setdefault(table.shape, []).append((int(network.table_offset[a]), scope, table > 0))
    for shape, found in groups.items():
        size, axes = math.prod(shape), range(1, len(shape) + 1)
        rows = np.array([at for at, _, _ in found])[:, None] + np.arange(size)
        wanted = []
        for k in axes:
            mine = np.stack([nodes[scope[k - 1]] for _, scope, _ in found])
            wanted.append(mine.reshape(-1, *(shape[k - 1] if j == k else 1 for j in axes)))
        p = np.stack([possible for _, _, possible in found]).astype(np.float64)
        p *= math.prod(wanted[1:], start=wanted[0])
        p = cell[rows].reshape(-1, *shape) + 0.5 * p
        for _ in range(FITTED):
            for k, want in zip(axes, wanted, strict=True):
                now = p.sum(axis=tuple(j for j in axes if j != k), keepdims=True)
                p *= np.divide(want, now, out=np.zeros(now.shape), where=now > 0)
        made[rows] = (p / p.sum(axis=tuple(axes), keepdims=True)).reshape(-1, size)
    return made
