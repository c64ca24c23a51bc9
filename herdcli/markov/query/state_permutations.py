"""Permutations of states: exchanges of two states in clusters of variables, and permutations that leave a network unchanged.

If all factors are over pairs, a chain may exchange two states, a and b, of whole clusters at once (`fast.flip_clusters`): for example, it
flips spins without fields, or swaps two colours in part of a colouring.  If exchanging a and b everywhere changes no factor, they
are equally probable for every variable, and counts are shared between them.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from herdcli import fast
from herdcli.markov.exact.elimination import moral_graph
from herdcli.markov.model.network import Network
from herdcli.markov.model.restricted_states import RestrictedNetwork
from herdcli.markov.model.stacked_tables import state_offsets
from herdcli.records import dataclass
from herdcli.schema import Array

IMPOSSIBLE = -1e6  # replaces log 0
ALIKE = 1e-9  # a permutation leaves factors unchanged if they differ by at most this many nats
MOST = 12  # pairs of states are exchanged only in variables with at most this many states


@dataclass(frozen=True)
class StatePermutations:
    """Arrays in the form that `fast.flip_clusters` takes; images (permutations, Σ card)."""

    ends: Array
    tables: Array
    logs: Array
    first: Array
    single: Array
    images: Array

    def exchange_cluster_states(self, x: Array, power: float, random: np.random.Generator) -> None:
        """Exchange two random states in clusters of every chain of x (N, chains), in place."""
        image = self.images[int(random.integers(len(self.images)))]
        count, chains = x.shape
        bonds, coins = random.standard_exponential((len(self.ends), chains)), random.random((count, chains))
        with np.errstate(divide="ignore"):
            coins = np.log(coins) - np.log1p(-coins)  # logistic: below t with probability σ(t)
        scratch = np.empty(count, dtype=np.int64), np.empty(count)
        fast.flip_clusters(self.ends, self.tables, self.logs, self.first, self.single, image, power, x, bonds, coins, *scratch)

    @property
    def bytes(self) -> int:
        """The bytes of all arrays."""
        return sum(each.nbytes for each in (self.ends, self.tables, self.logs, self.first, self.single, self.images))


def find_state_permutations(inner: RestrictedNetwork) -> StatePermutations | None:
    """Return the permutations of a network; None if a factor has three variables or more, or no states can be exchanged."""
    small = inner.network
    if any(len(scope) > 2 for scope, _ in small.factors()):
        return None
    first = state_offsets(small)
    images = make_state_transpositions(inner)
    if not len(images):
        return None
    single = np.zeros(int(first[-1]))
    ends, tables, logs, at = [], [], [], 0
    with np.errstate(divide="ignore"):
        for scope, table in small.factors():
            log = np.maximum(np.log(table), IMPOSSIBLE)
            if len(scope) == 1:
                single[first[scope[0]] : first[scope[0] + 1]] += log
            elif scope:
                ends.append(scope)
                tables.append((at, table.shape[1]))
                logs.append(log.reshape(-1))
                at += table.size
    pairs, where = (np.array(rows, dtype=np.int64).reshape(-1, 2) for rows in (ends, tables))
    return StatePermutations(pairs, where, np.concatenate([np.empty(0), *logs]), first, single, images)


def make_state_transpositions(inner: RestrictedNetwork) -> Array:
    """Return one permutation for each pair of states (permutations, Σ card), which exchanges them for every variable that has both."""
    first = state_offsets(inner.network)
    own = np.concatenate([np.arange(count) for count in inner.network.cardinality] or [np.empty(0, dtype=np.int64)])
    most = max((int(states[-1]) + 1 for states in inner.states if len(states) > 1), default=0)
    made = []
    for a, b in combinations(range(most), 2) if most <= MOST else ():
        image = own.copy()
        for i, states in enumerate(inner.states):
            both = np.flatnonzero((states == a) | (states == b))
            if len(both) == 2:
                image[first[i] + both] = both[::-1]
        if (image != own).any():
            made.append(image)
    return np.array(made, dtype=np.int64).reshape(len(made), len(own))


def first_equivalent_states(permutations: StatePermutations, state_numbers: Array) -> Array:
    """Return, for each state, the first state that it can be exchanged for without changing the network (Σ card,).

    state_numbers  the numbers of the states.

    Pair factors are normalised so that they contain no effect of a single variable; then it does not matter which factor contains it.
    """
    first, single = permutations.first, permutations.single.copy()
    sizes = np.diff(first)
    groups = []
    for height, width in sorted(
        {(int(sizes[i]), int(width)) for i, width in zip(permutations.ends[:, 0], permutations.tables[:, 1], strict=True)}
    ):
        mine = np.flatnonzero((sizes[permutations.ends[:, 0]] == height) & (permutations.tables[:, 1] == width))
        tables = permutations.logs[permutations.tables[mine, :1] + np.arange(height * width)].reshape(-1, height, width)
        rows, columns = tables.mean(axis=2, keepdims=True), tables.mean(axis=1, keepdims=True)
        left, right = (first[permutations.ends[mine, side], None] + np.arange(size) for side, size in ((0, height), (1, width)))
        np.add.at(single, left, rows[:, :, 0])
        np.add.at(single, right, columns[:, 0])
        groups.append((left, right, tables - rows - columns + tables.mean(axis=(1, 2), keepdims=True)))
    like = state_numbers.copy()
    for image in permutations.images:
        same = np.abs(single - single[first[:-1].repeat(sizes) + image]).max(initial=0.0) <= ALIKE
        for left, right, tables in groups:
            moved = tables[np.arange(len(tables))[:, None, None], image[left][:, :, None], image[right][:, None]]
            same = same and np.abs(tables - moved).max(initial=0.0) <= ALIKE
        if same:
            like = np.minimum(like, image)  # such permutations form a group, so a state's orbit is the set of its images
    return like


def flat_neighbour_arrays(network: Network) -> tuple[Array, Array]:
    """Return the offsets of each variable's neighbours (N + 1,), and the neighbours, as `fast.exchange` takes them."""
    made = [sorted(each) for each in moral_graph(network)]
    first = np.concatenate([[0], np.cumsum([len(each) for each in made])]).astype(np.int64)
    return first, np.array([j for each in made for j in each], dtype=np.int64)
