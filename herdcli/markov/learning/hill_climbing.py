"""The structure of a Bayesian network by greedy search: the change of one edge that raises the score most, until none does.

A step adds, takes away or turns one edge.  A score is a sum over families, so a change asks for the scores of one or two families,
and all others are remembered.  With a tabu list the search goes on where no change is better: the best change of edges that were not
changed lately is made, and the best graph of all is the answer.
Source: Heckerman, Geiger & Chickering (1995), sec. 4; Glover (1989) for tabu lists; Koller & Friedman (2009), sec. 18.4.3.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from herdcli.algorithm import Progress
from herdcli.errors import DataError
from herdcli.markov.learning.directed import Cases
from herdcli.markov.learning.scores import Families, Score
from herdcli.markov.model.dag import Parents, cycle
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

LEAST = 1e-9  # of a gain
Edges = Collection[tuple[int, int]]  # of a parent and a child


@dataclass
class State:
    """edge[i, j]  is i a parent of j?  score  after each step.

    best  the best graph so far.  recent (T, 2)  pairs changed lately, the last one last.  stale  steps since the best graph.
    """

    edge: Array
    score: Array
    best: Array
    recent: Array
    stale: int
    ended: bool
    step: int


class HillClimbing:
    """A step is one change of the graph.  tabu  how many pairs may not change again, and how many steps bring nothing before it ends."""

    state = State

    def __init__(
        self, cases: Cases, start: Parents, most_parents: int, *, score: Score | None = None, tabu: int = 0, required: Edges = (),
        forbidden: Edges = (),
    ) -> None:  # fmt: skip
        self.families = Families(cases, score or Score())
        self.name = self.families.score.kind.upper()
        self.most, self.tabu, self.count = most_parents, tabu, len(start)
        self.required, self.allowed = np.zeros((self.count, self.count), dtype=bool), ~np.eye(self.count, dtype=bool)
        for i, j in forbidden:
            self.allowed[i, j] = False
        for i, j in required:
            self.required[i, j] = True
        self.start = self._start(start)
        self.gains: dict[tuple[int, tuple[int, ...]], tuple[Array, Array]] = {}

    def _start(self, start: Parents) -> Array:
        """The graph it starts from: what is required, and of the rest what closes no circle."""
        edge = self.required.copy()
        if circle := cycle({j: np.flatnonzero(edge[:, j]).tolist() for j in range(self.count)}):
            raise DataError(f"the required edges go round in a circle of {len(circle) - 1} variables")
        if (edge & ~self.allowed).any():
            raise DataError("an edge is required and forbidden")
        for j, of in enumerate(start):
            for i in of:
                if self.allowed[i, j] and not edge[j, i] and edge[:, j].sum() < self.most and not reachable(edge)[j, i]:
                    edge[i, j] = True
        return edge

    def init(self) -> State:
        """The graph it starts from."""
        edge = self.start.copy()
        return State(edge, np.array([self._score(edge)]), edge.copy(), np.empty((0, 2), dtype=np.int64), 0, False, 0)

    def _score(self, edge: Array) -> float:
        return sum(self.families.of(j, _of(edge, j)) for j in range(self.count))

    def done(self, state: State) -> bool:
        """No change is better, for as many steps as the tabu list is long."""
        return state.ended

    def memory(self) -> int:
        """Of the graph's reachability, gains, and rows as columns."""
        return 40 * self.count**2 + 8 * self.families.columns.size

    def progress(self, state: State) -> Progress:
        """Edges and score so far."""
        return Progress(state.step, None, f"{int(state.best.sum())} edges, {self.name} {state.score.max():.6g}")

    def step(self, state: State) -> State:
        """The best change, the first of equal ones."""
        edge = state.edge
        changes = self._changes(edge)
        for i, j in state.recent.tolist():
            for worth in changes:
                worth[i, j] = worth[j, i] = -np.inf
        kind = int(np.argmax([worth.max() for worth in changes]))
        i, j = np.unravel_index(int(changes[kind].argmax()), edge.shape)
        gain = float(changes[kind][i, j])
        if gain == -np.inf or (gain <= LEAST and state.stale >= self.tabu):
            state.ended = True
            state.score = np.append(state.score, state.score[-1])
        else:
            edge[i, j] = kind == 0
            edge[j, i] |= kind == 2
            if self.tabu:
                state.recent = np.concatenate([state.recent, [[i, j]]])[-self.tabu :]
            score = self._score(edge)
            if score > state.score.max() + LEAST:
                state.best, state.stale = edge.copy(), 0
            else:
                state.stale += 1
            state.score = np.append(state.score, score)
        state.step += 1
        return state

    def _changes(self, edge: Array) -> tuple[Array, Array, Array]:
        """(N, N) what it is worth to add, take away or turn the edge i → j; −∞ where that is no change or not allowed."""
        add, away = np.full(edge.shape, -np.inf), np.full(edge.shape, -np.inf)
        for j in range(self.count):
            add[:, j], away[:, j] = self._column(j, _of(edge, j))
        below, full = reachable(edge), edge.sum(axis=0) >= self.most
        # Turned, j → i closes a circle if another path than the edge itself leads from i to j.
        others = (edge.astype(np.int64) @ below.astype(np.int64)) > 0
        turned = np.where(edge & ~self.required & self.allowed.T & ~others & ~full[:, None], away + add.T, -np.inf)
        add[edge | below.T | ~self.allowed | full[None, :]] = -np.inf
        away[~edge | self.required] = -np.inf
        return add, away, turned

    def _column(self, j: int, parents: tuple[int, ...]) -> tuple[Array, Array]:
        """What each variable is worth as a further parent of j, and what it is worth to take each parent away."""
        if (j, parents) not in self.gains:
            now = self.families.of(j, parents)
            add, away = np.full(self.count, -np.inf), np.full(self.count, -np.inf)
            others = [i for i in range(self.count) if i != j and i not in parents] if len(parents) < self.most else []
            add[others] = np.array(self.families.extended(j, parents, others)) - now
            for i in parents:
                away[i] = self.families.of(j, tuple(k for k in parents if k != i)) - now
            self.gains[j, parents] = add, away
        return self.gains[j, parents]

    def result(self, state: State) -> Parents:
        """The parents of each variable."""
        return tuple(_of(state.best, j) for j in range(self.count))


def _of(edge: Array, j: int) -> tuple[int, ...]:
    return tuple(np.flatnonzero(edge[:, j]).tolist())


def reachable(edge: Array) -> Array:
    """(N, N) is there a path from i to j?"""
    found: Array = edge.copy()
    for k in range(len(edge)):
        found |= found[:, k, None] & found[k]
    return found


def resampled(cases: Cases, seed: int, unit: int) -> Cases:
    """As many rows drawn with replacement, by their weights: the weights of a bootstrap sample (Efron 1979)."""
    random = generator(seed, Stream.STRUCTURE, unit=unit)
    drawn = random.multinomial(len(cases.x), cases.weight / cases.weight.sum())
    kept = drawn > 0
    return Cases(cases.x[kept], drawn[kept].astype(np.float64), cases.cardinality)
