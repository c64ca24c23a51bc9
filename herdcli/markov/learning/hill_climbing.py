"""The structure of a Bayesian network by greedy search: the change of one edge that raises BIC most, until none does.

A step adds, takes away or turns one edge.  BIC is a sum over families, so a change asks for the scores of one or two families,
and all others are remembered.  Source: Heckerman, Geiger & Chickering (1995), sec. 4; Koller & Friedman (2009), sec. 18.4.3.
"""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Progress
from herdcli.markov.learning.directed import Cases, bic
from herdcli.markov.model.dag import Parents
from herdcli.records import dataclass
from herdcli.schema import Array

LEAST = 1e-9  # of a gain


@dataclass
class State:
    """edge[i, j]  is i a parent of j?  score  BIC after each step."""

    edge: Array
    score: Array
    ended: bool
    step: int


@dataclass(frozen=True)
class Graph:
    """edge[i][j]  is i a parent of j?  below[i][j]  is there a path from i to j?  of[j]  the parents, worth[j]  the BIC of j's family."""

    edge: list[list[bool]]
    below: list[list[bool]]
    of: list[tuple[int, ...]]
    worth: list[float]


class HillClimbing:
    """A step is one change of the graph."""

    state = State

    def __init__(self, cases: Cases, start: Parents, most_parents: int) -> None:
        self.cases = Cases(np.asfortranarray(cases.x), cases.weight, cases.cardinality)  # columns are read one at a time
        self.start, self.most = start, most_parents
        self.count = len(start)
        self.known: dict[tuple[int, tuple[int, ...]], float] = {}

    def family(self, i: int, parents: tuple[int, ...]) -> float:
        """BIC of a family, remembered."""
        if (i, parents) not in self.known:
            self.known[i, parents] = bic(self.cases, i, parents)
        return self.known[i, parents]

    def init(self) -> State:
        """The graph it starts from."""
        edge = np.zeros((self.count, self.count), dtype=bool)
        for j, of in enumerate(self.start):
            edge[list(of), j] = True
        return State(edge, np.array([self._score(edge)]), False, 0)

    def _score(self, edge: Array) -> float:
        return sum(self.family(j, _of(edge, j)) for j in range(self.count))

    def done(self, state: State) -> bool:
        """No change is better."""
        return state.ended

    def memory(self) -> int:
        """Of the graph's reachability."""
        return 4 * self.count**2

    def progress(self, state: State) -> Progress:
        """Edges and score so far."""
        return Progress(state.step, None, f"{int(state.edge.sum())} edges, BIC {state.score[-1]:.6g}")

    def step(self, state: State) -> State:
        """The best change, the first of equal ones."""
        edge = state.edge
        now = self._graph(edge)
        best, chosen = LEAST, None
        for i in range(self.count):
            for j in range(self.count):
                if i == j or (gain := self._gain(now, i, j)) is None:
                    continue
                for worth, turned in gain:
                    if worth > best + LEAST:
                        best, chosen = worth, (i, j, turned)
        if chosen is None:
            state.ended = True
        else:
            i, j, turned = chosen
            edge[i, j] = not edge[i, j]
            edge[j, i] |= turned
        state.score = np.append(state.score, self._score(edge))
        state.step += 1
        return state

    def _graph(self, edge: Array) -> Graph:
        """What a step asks of the graph again and again."""
        of = [_of(edge, j) for j in range(self.count)]
        worth = [self.family(j, parents) for j, parents in enumerate(of)]
        return Graph(edge.tolist(), reachable(edge).tolist(), of, worth)

    def _gain(self, now: Graph, i: int, j: int) -> list[tuple[float, bool]] | None:
        """What adding i → j is worth; of an edge that is there, taking it away and turning it.  None where a circle would come of it."""
        of = now.of[j]
        if not now.edge[i][j]:
            if now.below[j][i] or len(of) >= self.most:
                return None
            return [(self.family(j, tuple(sorted((*of, i)))) - now.worth[j], False)]
        less = tuple(k for k in of if k != i)
        away = self.family(j, less) - now.worth[j]
        mine = now.of[i]
        # Turned, j → i closes a circle if another path than the edge itself leads from i to j.
        circle = any(on and k != j and now.below[k][j] for k, on in enumerate(now.edge[i]))
        if len(mine) >= self.most or circle:
            return [(away, False)]
        return [(away, False), (away + self.family(i, tuple(sorted((*mine, j)))) - now.worth[i], True)]

    def result(self, state: State) -> Parents:
        """The parents of each variable."""
        return tuple(_of(state.edge, j) for j in range(self.count))


def _of(edge: Array, j: int) -> tuple[int, ...]:
    return tuple(np.flatnonzero(edge[:, j]).tolist())


def reachable(edge: Array) -> Array:
    """(N, N) is there a path from i to j?"""
    found: Array = edge.copy()
    for k in range(len(edge)):
        found |= found[:, k, None] & found[k]
    return found
