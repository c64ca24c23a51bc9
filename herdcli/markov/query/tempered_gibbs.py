"""Blocks of variables drawn given all others, at several temperatures at once whose states are exchanged: for networks with many modes.

Network k has its factors to the power β_k, β_1 < … < β_K = 1.  A step draws every block of every chain once at each temperature, then
exchanges between temperatures (parallel tempering: with probability min(1, exp((β' − β)(E − E'))), E the log of the product of the
factors), and, between the two chains of a pair at one temperature, parts of where they differ: connected variables that differ may
change places, as no factor sees two such parts, and the product of the two probabilities stays (Houdayer 2001 for spin glasses).
Chains of different pairs never meet, so their means are independent: R̂ and standard errors compare those of pairs.
The chains are cooled to their temperatures one after the other before they are run.
Source: Geyer (1991); Hukushima & Nemoto (1996); Hamze & de Freitas (2004) and Bidyuk & Dechter (2007) for blocks.
"""

from __future__ import annotations

import math
from copy import copy

import numpy as np

from herdcli import fast
from herdcli.algorithm import Progress
from herdcli.markov.exact.elimination import moral_graph
from herdcli.markov.method import Result, Settings, Stepwise
from herdcli.markov.model.alike import starts
from herdcli.markov.model.network import Network
from herdcli.markov.model.restricted import restrict
from herdcli.markov.query import sampling
from herdcli.markov.query.blocked_gibbs import begin, rhat, strides, tables
from herdcli.markov.query.programs import LANES, program
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

CELLS = 1 << 8  # of a block's tables: larger ones cost more than they mix
COVERS = 2  # ways to cut the network in blocks, which sweeps take in turn
SPAN = 2.0  # nats that factors span on the average at the hottest temperature
CLOSER = 4.0  # neighbouring temperatures differ by this over the square root of the number of variables
MOST = 64  # temperatures
FITTED = 50  # sweeps of the fit of factors' marginals to those of variables
DRAW = 128  # cells that are as much work as drawing a variable


@dataclass
class State:
    """x (K, N, chains); chances of each state, and how often it was there, by half of the run (2, Σ card, chains); of cells (Σ cells,).

    swapped  (K − 1,) how often neighbouring temperatures changed states, of all chains.  alike: all chains began at one state that was
    searched for.
    """

    x: Array
    probability: Array
    on: Array
    cell: Array
    swapped: Array
    alike: bool
    step: int


class TemperedGibbs(Stepwise[State]):
    """`tempered-gibbs`: a step is a sweep at every temperature."""

    state = State

    def __init__(self, network: Network, settings: Settings) -> None:
        self.network = network
        self.inner = restrict(network)
        small = self.inner.network
        self.first = starts(small)
        self.states: list[int] = small.cardinality.tolist()
        self.covers = self._covers(settings.seed)
        self.programs = [[program(block, self.states, self.first) for block in cover] for cover in self.covers]
        self.strides = strides(small)
        with np.errstate(divide="ignore"):
            self.logs = np.log(small.table)
        near = [sorted(each) for each in moral_graph(small)]
        self.near_first = np.concatenate([[0], np.cumsum([len(each) for each in near])]).astype(np.int64)
        self.near = np.array([j for each in near for j in each], dtype=np.int64)
        self._set(settings)

    def _set(self, settings: Settings) -> None:
        """What the settings say of temperatures, chains and sweeps."""
        self.settings = settings
        self.powers = np.ones(1) if settings.temperatures == 1 else powers(self.inner.network)
        self.chains = 2 * max(2, (settings.chains + 1) // 2)
        self.steps = len(self.powers) + settings.burn_in + 2 * ((settings.sweeps + 1) // 2)
        self.tables = [[[each.tables(power) for each in part] for part in self.programs] for power in self.powers.tolist()]
        count, hot = len(self.powers), float(self.powers[0])
        self.note = f"tempered-gibbs draws blocks of up to {self._largest()} variables at " + (
            f"{count} temperatures up to {1 / hot:.3g}" if count > 1 else "the network's own temperature alone"
        )

    def again(self, settings: Settings) -> TemperedGibbs:
        """The same blocks under other settings with the same seed."""
        made = copy(self)
        made._set(settings)
        return made

    def _covers(self, seed: int) -> list[list[sampling.Block]]:
        made: list[list[sampling.Block]] = []
        for k in range(COVERS):
            random = generator(seed, Stream.CHAINS, unit=5, step=k)
            made.append(sampling.bands(self.inner.network, CELLS, random))
            if len(made[0]) <= 1:  # draws are independent already
                break
        return made

    def _largest(self) -> int:
        return max((len(block.order) for cover in self.covers for block in cover), default=0)

    def work(self) -> int:
        """Table cells that a step visits, LANES chains at a time where a float64 holds them, and those of the draws."""
        lanes = -(-self.chains // LANES)
        cells = 0
        for cover, made in zip(self.covers, self.programs, strict=True):
            for block, each in zip(cover, made, strict=True):
                cells += (block.cells + DRAW * len(block.order)) * (lanes if each.narrow else LANES * lanes)
        return cells * len(self.powers) // len(self.covers)

    def init(self) -> State:
        """States by chance that are possible; those of colder temperatures are copied from the next hotter one when their turn comes."""
        x, alike = begin(self.inner, self.covers[0], self.chains, self.settings)
        none = np.zeros((2, int(self.first[-1]), self.chains))
        whole = np.stack([x] * len(self.powers))
        return State(whole, none, none.copy(), np.zeros(len(self.logs)), np.zeros(max(0, len(self.powers) - 1)), alike, 0)

    def step(self, state: State) -> State:
        """One sweep of every chain at every temperature that has begun."""
        random = generator(self.settings.seed, Stream.CHAINS, unit=6, step=state.step)
        begun = min(len(self.powers), state.step + 1)
        if 0 < state.step < len(self.powers):
            state.x[state.step] = state.x[state.step - 1]
        shares = np.ones((int(self.first[-1]), self.chains))
        for k in range(begun):
            self._sweep(state.x[k], k, state.step % len(self.covers), random, shares)
        kept = state.step - self.settings.burn_in - len(self.powers)
        if kept >= 0:
            self._keep(state, state.x[-1], shares, int(kept >= (self.steps - self.settings.burn_in - len(self.powers)) // 2))
        for k in range(begun):
            for a in range(0, self.chains, 2):
                fast.exchange(self.near_first, self.near, state.x[k], a, a + 1, random.random(len(self.states)))
        if begun > 1:
            self._swap(state, begun, random)
        state.step += 1
        return state

    def _sweep(self, x: Array, k: int, cover: int, random: np.random.Generator, shares: Array) -> None:
        """Every block once at temperature k, LANES chains at a time; those too few are filled up with the last."""
        for block, each, table in zip(self.covers[cover], self.programs[cover], self.tables[k][cover], strict=True):
            uniform = sampling.uniforms(block, self.chains, random)
            for low in range(0, self.chains, LANES):
                some = np.minimum(np.arange(low, low + LANES), self.chains - 1)
                here, chances = np.ascontiguousarray(x[:, some]), np.ascontiguousarray(shares[:, some])
                if not each.draw(here, np.ascontiguousarray(uniform[:, some]), chances, table):
                    here, power = x[:, some], float(self.powers[k])
                    sampling.draw(block, here, self.states, uniform[:, some], power=power, shares=(chances, self.first))
                x[:, some], shares[:, some] = here, chances

    def _keep(self, state: State, x: Array, shares: Array, half: int) -> None:
        state.probability[half] += shares
        np.add.at(state.on[half], (self.first[:-1, None] + x, np.arange(self.chains)), 1.0)
        for cells in self._cells(x):
            np.add.at(state.cell, cells, 1.0)

    def _cells(self, x: Array) -> list[Array]:
        """Which cell of each factor's table each chain is at, (factors, chains) of those over as many variables."""
        return [offset[:, None] + np.einsum("gk,gkc->gc", stride, x[scope]) for offset, scope, stride in self.strides]

    def _swap(self, state: State, begun: int, random: np.random.Generator) -> None:
        """Exchange neighbouring temperatures, even pairs and odd ones in turn."""
        height = np.array([sum((self.logs[cells].sum(axis=0) for cells in self._cells(x)), np.zeros(self.chains)) for x in state.x[:begun]])
        for k in range(state.step % 2, begun - 1, 2):
            gain = (self.powers[k + 1] - self.powers[k]) * (height[k] - height[k + 1])
            yes = np.log(random.random(self.chains)) < gain
            state.x[k : k + 2, :, yes] = state.x[k : k + 2, :, yes][::-1]
            state.swapped[k] += yes.sum()

    def bytes_needed(self, state: State) -> tuple[int, str]:
        """Of the counts."""
        return 4 * state.on.nbytes, "the counts of the chains"

    def memory(self) -> int:
        """Of all chains, and of the numbers of all blocks' loops."""
        programs = sum(each.bytes for part in self.programs for each in part)
        factors = 8 * sum(len(each.logs) for part in self.programs for each in part) * len(self.powers)
        return 8 * len(self.powers) * len(self.states) * self.chains + programs + factors

    def progress(self, state: State) -> Progress:
        """The steps done."""
        return Progress(state.step, self.steps, "cooling" if 0 < state.step < len(self.powers) else "")

    def result(self, state: State) -> Result:
        """Means and their standard errors; converged where every R̂ is below 1.05; the residual is the largest R̂ less one."""
        small, cardinality = self.inner.network, self.network.cardinality
        n = (self.steps - self.settings.burn_in - len(self.powers)) // 2
        # A pair of chains is what a single chain of twice as many sweeps would be.
        halves, on = (np.concatenate(list(each[:, :, ::2] + each[:, :, 1::2]), axis=1) / (2 * n) for each in (state.probability, state.on))
        # Halves of a pair that mixes slowly are alike: then the pairs by themselves say more.
        whole = (halves[:, : halves.shape[1] // 2] + halves[:, halves.shape[1] // 2 :]) / 2
        error = np.maximum(*(each.std(axis=1, ddof=1) / math.sqrt(each.shape[1]) for each in (halves, whole)))
        ratio = rhat(on, 2 * n, stuck=state.alike)
        error[np.isinf(ratio) & (on.std(axis=1) == 0)] = 0.5  # never left the state that all began at: nothing is known
        split = [np.split(part, self.first[1:-1]) for part in (halves.mean(axis=1), error)]
        nodes, errors = (self.inner.spread(part, cardinality) for part in split)
        worst = float(ratio.max(initial=1.0))
        fitted = agreeing(small, state.cell, 2 * n * self.chains, np.split(halves.mean(axis=1), self.first[1:-1]))
        cliques = [(scope, self.inner.spread_table(scope, table, cardinality)) for scope, table in tables(small, fitted)]
        attributes = {
            "log_z": np.nan, "free_energy": np.nan, "iterations": state.step, "converged": worst < 1.05, "residual": worst - 1,
            "standard_error": errors,
        }  # fmt: skip
        return Result(nodes, cliques, attributes)


def powers(network: Network) -> Array:
    """β_1 < … < β_K = 1: factors over several variables span SPAN nats on the average at β_1; none but 1 where they do so at 1."""
    spans = []
    for scope, table in network.factors():
        possible = table[table > 0]
        if len(scope) > 1 and possible.size:
            spans.append(math.log(float(possible.max())) - math.log(float(possible.min())))
    hot = min(1.0, SPAN / max(float(np.mean(spans)) if spans else 0.0, SPAN))
    free = int((network.cardinality > 1).sum())
    count = min(MOST, math.ceil(-math.log(hot) / math.log1p(CLOSER / math.sqrt(max(1, free)))) + 1)
    return np.geomspace(hot, 1.0, count) if count > 1 else np.ones(1)


def agreeing(network: Network, cell: Array, draws: int, nodes: list[Array]) -> Array:
    """(Σ cells,) marginals of factors: the shares of draws, scaled until theirs of each variable are those of `nodes`.

    Half a draw is added where the factor is not zero, spread as independent variables would be, so that no state is missing.
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
