"""Single-site Gibbs sampling, all variables of one colour at a time: short chains that are affordable for large networks.

Variables of one colour share no factor.  So they are independent given all others, and are sampled by a few array operations.  The
estimates average the conditional distributions of the variables (Rao-Blackwell), which vary less than the samples.
Source: Gonzalez, Low, Gretton & Guestrin (2011), chromatic sampler; Gelfand & Smith (1990).
"""

from __future__ import annotations

import numpy as np

from herdcli.markov.exact.elimination import moral_graph
from herdcli.markov.model import chain_convergence
from herdcli.markov.model.network import Network
from herdcli.markov.model.stacked_tables import state_offsets
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

BATCHES = 4  # parts of a run, whose means are stored separately


@dataclass(frozen=True)
class EstimatedMarginals:
    """Estimated marginals.

    nodes           marginals of every variable.
    standard_error  the standard errors of the marginals.
    rhat            the largest R̂; 1 if the chains agree.
    """

    nodes: list[Array]
    standard_error: list[Array]
    rhat: float


@dataclass(frozen=True)
class ColourClass:
    """Variables (m,) that share no factor, and the arrays that compute their conditional distributions from the tables.

    first   (m,) the start of each variable's states in the colour's own rows.
    owner   (P,) the variable of each row.
    flat    (P,) the position of each row among all states.
    base, other, stride
            (R,), (R, k), (R, k): a term logs[base + Σ stride·x[other]] of a row, sorted by row.
    begin   (P,) the start of each row's terms.
    """

    variables: Array
    first: Array
    owner: Array
    flat: Array
    base: Array
    other: Array
    stride: Array
    begin: Array

    def conditional_probabilities(self, logs: Array, x: Array) -> Array:
        """Compute the probability of each state given all other variables (P, chains), as in x (N, chains)."""
        cells = self.base[:, None] + np.einsum("rk,rkc->rc", self.stride, x[self.other])
        field = np.add.reduceat(logs[cells], self.begin, axis=0)
        p = np.exp(field - np.maximum.reduceat(field, self.first, axis=0)[self.owner])
        found: Array = p / np.add.reduceat(p, self.first, axis=0)[self.owner]
        return found

    def draw_states(self, p: Array, uniform: Array) -> Array:
        """Sample states (m, chains) by their probabilities.

        uniform  (m, chains).
        """
        below = np.cumsum(p, axis=0)
        below -= (below - p)[self.first][self.owner]
        last = np.append(self.first[1:], len(p)) - 1
        reached = below <= uniform[self.owner]
        reached[last] = False  # rounding errors are assigned to the last state
        made: Array = np.add.reduceat(reached.astype(np.int64), self.first, axis=0)
        return made


def make_colour_classes(network: Network) -> list[ColourClass]:
    """Return the colours of a network without zeros; every factor needs a variable, and variables of one state are in no colour."""
    graph, first = moral_graph(network), state_offsets(network)
    colour = np.full(network.count, -1)
    free = np.flatnonzero(network.cardinality > 1)
    for i in sorted(free.tolist(), key=lambda i: (-len(graph[i]), i)):
        used = {int(colour[j]) for j in graph[i]}
        colour[i] = next(c for c in range(len(used) + 1) if c not in used)
    rows = _factor_rows(network, first)
    return [_make_colour_class(network, np.flatnonzero(colour == c), first, rows) for c in range(int(colour.max(initial=-1)) + 1)]


def _factor_rows(network: Network, first: Array) -> tuple[Array, Array, Array, Array]:
    """Return the position of the state, base, other and stride (see `ColourClass`) for every factor, each of its variables and each
    state."""
    widths, begin = np.diff(network.scope_offset), network.scope_offset[:-1]
    widest = int(widths.max(initial=1))
    parts: list[tuple[Array, Array, Array, Array]] = []
    for width in range(1, widest + 1):
        some = np.flatnonzero(widths == width)
        scope = network.scope[begin[some][:, None] + np.arange(width)]
        count = network.cardinality[scope]
        steps = np.cumprod(np.concatenate([np.ones((len(some), 1), dtype=np.int64), count[:, :0:-1]], axis=1), axis=1)[:, ::-1]
        for axis in range(width):
            factor = np.repeat(np.arange(len(some)), count[:, axis])
            state = np.arange(len(factor)) - np.repeat(np.cumsum(count[:, axis]) - count[:, axis], count[:, axis])
            others = np.zeros((2, len(some), widest - 1), dtype=np.int64)
            others[0, :, : width - 1], others[1, :, : width - 1] = np.delete(scope, axis, axis=1), np.delete(steps, axis, axis=1)
            target = first[scope[factor, axis]] + state
            parts.append((target, network.table_offset[some][factor] + state * steps[factor, axis], others[0, factor], others[1, factor]))
    target, base, other, stride = (np.concatenate(each) for each in zip(*parts, strict=True))
    return target, base, other, stride


def _make_colour_class(network: Network, variables: Array, first: Array, rows: tuple[Array, Array, Array, Array]) -> ColourClass:
    target, base, other, stride = rows
    count = network.cardinality[variables]
    begin = np.concatenate([[0], np.cumsum(count)])
    flat = np.repeat(first[variables] - begin[:-1], count) + np.arange(int(begin[-1]))
    place = np.full(int(first[-1]), -1)
    place[flat] = np.arange(len(flat))
    mine = np.flatnonzero(place[target] >= 0)
    mine = mine[np.argsort(place[target[mine]], kind="stable")]
    terms = np.searchsorted(place[target[mine]], np.arange(len(flat)))
    used = int((stride[mine] > 0).sum(axis=1).max(initial=0))  # the variables of a row come first
    owner = np.repeat(np.arange(len(variables)), count)
    return ColourClass(variables, begin[:-1], owner, flat, base[mine], other[mine, :used], stride[mine, :used], terms)


def can_sample_single_sites(network: Network) -> bool:
    """Return True if the network has no zero, which could freeze single variables, and every variable with several states has a factor."""
    with_factor = np.zeros(network.count, dtype=bool)
    with_factor[network.scope] = True
    return bool((network.table > 0).all() and with_factor[network.cardinality > 1].all())


def count_terms_per_sweep(network: Network) -> int:
    """Return the number of terms of all conditional distributions, which a sweep of one chain sums."""
    return int(network.cardinality[network.scope].sum())


def estimate_marginals(
    network: Network, parts: list[ColourClass], *, chains: int, sweeps: int, burn_in: int, seed: int
) -> EstimatedMarginals:
    """Estimate the marginals of a network for which it `can_sample_single_sites`, by chains that begin at random states.

    parts  the network's `make_colour_classes`.
    """
    logs, first = np.log(network.table), state_offsets(network)
    random = generator(seed, Stream.CHAINS, unit=8)
    x = (random.random((network.count, chains)) * network.cardinality[:, None]).astype(np.int64)
    each = -(-sweeps // BATCHES)
    mean = np.zeros((BATCHES, int(first[-1]), chains))
    mean[:, first[:-1][network.cardinality == 1]] = each
    for sweep in range(burn_in + BATCHES * each):
        random = generator(seed, Stream.CHAINS, unit=9, step=sweep)
        for part in parts:
            p = part.conditional_probabilities(logs, x)
            x[part.variables] = part.draw_states(p, random.random((len(part.variables), chains)))
            if sweep >= burn_in:
                mean[(sweep - burn_in) // each, part.flat] += p
    return _summarise_batches(network, mean / each, each)


def _summarise_batches(network: Network, mean: Array, sweeps_per_batch: int) -> EstimatedMarginals:
    """Return the means, errors and R̂ of batches (B, Σ card, chains) of `sweeps_per_batch` sweeps."""
    batches, _, chains = mean.shape
    p, error = mean.mean(axis=(0, 2)), chain_convergence.batch_means_errors(mean)
    halves = np.concatenate([mean[: batches // 2].mean(axis=0), mean[batches // 2 :].mean(axis=0)], axis=1)
    worst = float(chain_convergence.split_rhat(halves, sweeps_per_batch * batches // 2).max(initial=1.0))
    # With few chains each error is a rough estimate; their common ratio to the errors of independent samples is better.
    alone = p * (1.0 - p) / (batches * sweeps_per_batch * chains)
    error = np.sqrt(np.maximum(error**2, alone * ((error**2).sum() / max(float(alone.sum()), 1e-300))))
    cuts = state_offsets(network)[1:-1]
    return EstimatedMarginals(np.split(p, cuts), np.split(error, cuts), worst)
