"""Search around a state: parts of the network are maximised exactly with the rest fixed, so that no step lowers the value.

A part grows from a variable by breadth-first search up to a number of variables; variables that would make its tables too
large are left out.  Source: large-neighbourhood search as in Hamze & de Freitas (2004) for trees; Sontag et al. (2011), sec. 1.8.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from herdcli.markov.exact.elimination import moral_graph
from herdcli.markov.model.network import Network, build_network
from herdcli.markov.query.log_tables import eliminate_variables
from herdcli.rng import Stream, generator
from herdcli.schema import Array

SOFT = -1e4  # replaces log 0 so that states without probability can be compared
PART = 60  # variables that are maximised together
CELLS = 1 << 14  # largest table of a part
ROUNDS = 8  # parts per step
PASSES = 20  # largest number of passes of coordinate ascent


class NeighbourhoodSearch:
    """A network prepared for search: log factors, soft where they are zero, the factors of each variable, and its neighbours."""

    def __init__(self, network: Network, seed: int) -> None:
        self.network, self.seed = network, seed
        with np.errstate(divide="ignore"):
            self.factors = [(scope, np.log(table)) for scope, table in network.factors()]
        self.soft = [np.maximum(logs, SOFT) for _, logs in self.factors]
        self.owners: list[list[int]] = [[] for _ in range(network.count)]
        for a, (scope, _) in enumerate(self.factors):
            for i in scope:
                self.owners[i].append(a)
        self.graph = moral_graph(network)

    def value(self, x: Array) -> float:
        """Compute log Π f_a(x)."""
        return float(sum(float(logs[tuple(x[list(scope)])]) for scope, logs in self.factors))

    def soft_scores_by_state(self, i: int, x: Array) -> Array:
        """Return, for each state of variable i with the other variables fixed, the sum of the soft logs of the factors that contain i."""
        total = np.zeros(int(self.network.cardinality[i]))
        for a in self.owners[i]:
            scope = self.factors[a][0]
            total += self.soft[a][tuple(slice(None) if j == i else x[j] for j in scope)]
        return total

    def decode_greedily(self, x: Array, belief: Array, first: Array) -> Array:
        """Choose states one variable after the other, the most certain first, given those already chosen; then do coordinate ascent."""
        parts = np.split(belief, first[1:-1])
        gap = np.array([part.max() - np.partition(part, -2)[-2] if len(part) > 1 else np.inf for part in parts])
        x = x.copy()
        for i in np.argsort(-gap, kind="stable").tolist():
            row = self.soft_scores_by_state(i, x)
            x[i] = int(np.lexsort((-parts[i], -row))[0])
        return self.coordinate_ascent(x)

    def coordinate_ascent(self, x: Array) -> Array:
        """Set each variable to its best state in turn, until none changes."""
        waiting = deque(range(len(x)))
        inside = np.ones(len(x), dtype=bool)
        budget = PASSES * len(x)
        while waiting and budget:
            budget -= 1
            i = waiting.popleft()
            inside[i] = False
            row = self.soft_scores_by_state(i, x)
            if row.max() > row[x[i]]:
                x[i] = int(row.argmax())
                for j in self.graph[i]:
                    if not inside[j]:
                        inside[j] = True
                        waiting.append(j)
        return x


def soft_log_score(search: NeighbourhoodSearch, x: Array) -> float:
    """Return Σ of soft logs: −1e4 for each factor that is zero."""
    return float(sum(float(soft[tuple(x[list(scope)])]) for (scope, _), soft in zip(search.factors, search.soft, strict=True)))


def improve_states(search: NeighbourhoodSearch, x: Array, step: int) -> Array:
    """Return the states after several random parts were maximised with the rest fixed."""
    x = x.copy()
    random = generator(search.seed, Stream.CHAINS, unit=2, step=step)
    for _ in range(ROUNDS):
        part = _grow_part(search, int(random.integers(search.network.count)), random)
        _maximise_part(search, part, x)
    return x


def _grow_part(search: NeighbourhoodSearch, start: int, random: np.random.Generator) -> list[int]:
    """Return variables around `start`, breadth first with random ties, until an elimination of them could handle no more."""
    reached: list[int] = []
    queue, seen = deque([start]), {start}
    while queue and len(reached) < 3 * PART:
        i = queue.popleft()
        reached.append(i)
        near = sorted(search.graph[i] - seen)
        random.shuffle(near)
        seen.update(near)
        queue.extend(near)
    states = search.network.cardinality.tolist()
    inside = set(reached)
    graph = [search.graph[i] & inside if i in inside else set() for i in range(search.network.count)]
    return _keep_eliminable(graph, inside, states)


def _keep_eliminable(graph: list[set[int]], inside: set[int], states: list[int]) -> list[int]:
    """Return the variables that a greedy elimination reaches with small tables.

    If a table is too large, its widest variable is left out.
    """
    kept: list[int] = []
    left = set(inside)
    while left:
        i = min(left, key=lambda i: (len(graph[i]), i))
        cells = states[i]
        for j in graph[i]:
            cells *= states[j]
        if cells > CELLS:
            i = max(graph[i] | {i}, key=lambda j: (len(graph[j]), j))
            near = graph[i]
        else:
            kept.append(i)
            near = graph[i]
            for j in near:
                graph[j] |= near - {j}
        for j in near:
            graph[j].discard(i)
        graph[i] = set()
        left.discard(i)
    return kept


def _maximise_part(search: NeighbourhoodSearch, variables: list[int], x: Array) -> None:
    """Set the variables of a part to their best states given all others, in place."""
    place = {i: k for k, i in enumerate(variables)}
    factors = []
    for a in sorted({a for i in variables for a in search.owners[i]}):
        scope = search.factors[a][0]
        logs = search.soft[a][tuple(slice(None) if j in place else x[j] for j in scope)]
        factors.append((tuple(place[j] for j in scope if j in place), np.exp(np.maximum(logs - logs.max(), -700.0))))
    small = build_network(search.network.cardinality[variables], factors)
    best = eliminate_variables(small, list(range(len(variables))), frozenset(range(len(variables)))).states()
    for k, i in enumerate(variables):
        x[i] = best[k]
