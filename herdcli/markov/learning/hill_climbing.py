"""Structure search for Bayesian networks by hill climbing: the change of one edge that raises the score most, until none does.

A step adds, removes or reverses one edge.  A score is a sum over families, so a change needs the scores of one or two families,
and all others are cached.  With a tabu list the search continues when no change is better.  It makes the best change of edges that were
not changed recently, or one that gives a better graph than any before (aspiration).  The best graph of all is the answer.
The search ends after PATIENCE times as many steps without a better graph as the list is long.  This factor was chosen on asia, sachs, child
and water: long lists keep the search from reversing the edges of equivalent graphs, and short ones ended too early.
Source: Heckerman, Geiger & Chickering (1995), sec. 4; Glover (1989) for tabu lists and aspiration; Koller & Friedman (2009), sec. 18.4.3.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from herdcli import fast
from herdcli.algorithm import RunProgress
from herdcli.errors import DataError
from herdcli.markov.learning.bayesian_networks import WeightedCases
from herdcli.markov.learning.family_scores import FamilyScore, FamilyScores
from herdcli.markov.model.graphs.dag import Parents, find_cycle
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

PATIENCE = 3  # steps without improvement before the search ends, per pair of the tabu list
LEAST = 1e-9  # smallest gain that counts
EQUAL = 1e-12  # gains that differ by less than this fraction of the score are equal
Edges = Collection[tuple[int, int]]  # (parent, child)


@dataclass
class HillClimbingState:
    """The current and the best graph.

    edge    edge[i, j] is True if i is a parent of j.
    score   after each step.
    best    the best graph so far.
    recent  (T, 2) pairs changed recently, the latest last.
    stale   number of steps since the best graph.
    """

    edge: Array
    score: Array
    best: Array
    recent: Array
    stale: int
    ended: bool
    step: int


class HillClimbing:
    """The search; each step is one change of the graph.

    tabu  number of pairs that may not change again; the search ends after PATIENCE times as many steps without improvement.
    """

    state = HillClimbingState

    def __init__(
        self,
        cases: WeightedCases,
        start: Parents,
        most_parents: int,
        *,
        score: FamilyScore | None = None,
        tabu: int = 0,
        required: Edges = (),
        forbidden: Edges = (),
    ) -> None:
        self.families = FamilyScores(cases, score or FamilyScore())
        self.name = self.families.score.kind.upper()
        self.most, self.tabu, self.count = most_parents, tabu, len(start)
        self.required, self.allowed = np.zeros((self.count, self.count), dtype=bool), ~np.eye(self.count, dtype=bool)
        for i, j in forbidden:
            self.allowed[i, j] = False
        for i, j in required:
            self.required[i, j] = True
        self.start = self._initial_graph(start)
        self.gains: dict[tuple[int, tuple[int, ...]], tuple[Array, Array]] = {}
        self.columns = _ColumnCache(self.count)

    def _initial_graph(self, start: Parents) -> Array:
        """Return the initial graph: the required edges, and those of `start` that close no cycle."""
        edge = self.required.copy()
        if circle := find_cycle({j: np.flatnonzero(edge[:, j]).tolist() for j in range(self.count)}):
            raise DataError(f"the required edges form a cycle of {len(circle) - 1} variables")
        if (edge & ~self.allowed).any():
            raise DataError("an edge is both required and forbidden: --required-edges and --forbidden-edges contradict each other")
        for j, of in enumerate(start):
            for i in of:
                if self.allowed[i, j] and not edge[j, i] and edge[:, j].sum() < self.most and not path_matrix(edge)[j, i]:
                    edge[i, j] = True
        return edge

    def init(self) -> HillClimbingState:
        """Return the initial graph."""
        edge = self.start.copy()
        return HillClimbingState(edge, np.array([self._graph_score(edge)]), edge.copy(), np.empty((0, 2), dtype=np.int64), 0, False, 0)

    def _graph_score(self, edge: Array) -> float:
        self._update_caches(edge)
        return sum(self.columns.score)

    def _update_caches(self, edge: Array) -> None:
        """Update the cached columns to this graph: scores and gains of the families that changed, and reachability."""
        known = self.columns
        content = edge.tobytes()
        if known.content == content:
            return
        for j in known.changed_children(edge):
            parents = _parent_indices(edge, j)
            known.score[j] = self.families.score_of_family(j, parents)
            known.add[:, j], known.away[:, j] = self._parent_gains(j, parents)
        known.store_graph(edge)
        known.content = content

    def done(self, state: HillClimbingState) -> bool:
        """Return True if no change gave a better graph for long enough."""
        return state.ended

    def memory(self) -> int:
        """Return the bytes of reachability, gains, and rows as columns."""
        return 40 * self.count**2 + 8 * self.families.columns.size

    def progress(self, state: HillClimbingState) -> RunProgress:
        """The number of edges and the score so far."""
        return RunProgress(state.step, None, f"{int(state.best.sum())} edges, {self.name} {state.score.max():.6g}")

    def step(self, state: HillClimbingState) -> HillClimbingState:
        """Make the best change, the first of equal ones."""
        edge, columns = state.edge, self.columns
        self._update_caches(edge)
        # Recently changed pairs may only change again if this gives a better graph than any before.
        needed = state.score.max() - state.score[-1] + LEAST
        # Scores of equivalent graphs differ only by rounding, which must not decide.
        equal = EQUAL * (1.0 + abs(state.score[-1]))
        # Additions, removals and reversals that keep the graph acyclic: i → j closes a cycle if there is a path from j to i.
        kind, i, j, gain = fast.best_change(
            edge, columns.add, columns.away, columns.below, self.allowed, self.required, state.recent, self.most, needed, equal
        )
        # Without a tabu list the search ends at the first local maximum; with one it goes on over worse graphs.
        if gain == -np.inf or (gain <= LEAST and state.stale >= PATIENCE * self.tabu):
            state.ended = True
            state.score = np.append(state.score, state.score[-1])
        else:
            edge[i, j] = kind == 0
            edge[j, i] |= kind == 2
            if self.tabu:
                state.recent = np.concatenate([state.recent, [[i, j]]])[-self.tabu :]
            score = self._graph_score(edge)
            if score > state.score.max() + LEAST:
                state.best, state.stale = edge.copy(), 0
            else:
                state.stale += 1
            state.score = np.append(state.score, score)
        state.step += 1
        return state

    def _parent_gains(self, j: int, parents: tuple[int, ...]) -> tuple[Array, Array]:
        """Return the gain of each variable as a further parent of j, and the gain of removing each parent."""
        if (j, parents) not in self.gains:
            now = self.families.score_of_family(j, parents)
            add, away = np.full(self.count, -np.inf), np.full(self.count, -np.inf)
            if len(parents) < self.most:
                others = self.allowed[:, j].copy()
                others[list(parents)] = False
                where = np.flatnonzero(others)
                add[where] = self.families.score_added_parents(j, parents, where) - now
            for i in parents:
                away[i] = self.families.score_of_family(j, tuple(k for k in parents if k != i)) - now
            self.gains[j, parents] = add, away
        return self.gains[j, parents]

    def result(self, state: HillClimbingState) -> Parents:
        """Return the parents of each variable."""
        return tuple(_parent_indices(state.best, j) for j in range(self.count))


class _ColumnCache:
    """A cache of the columns of one graph, so that only columns that differ are computed for the next graph; results are the same.

    edge       (N, N) the edges of the graph; `content` is its bytes.
    below      (N, N) which variables can be reached from which.
    score      the score of each family.
    add, away  (N, N) the gains of changes, see `_parent_gains`.
    """

    def __init__(self, count: int) -> None:
        self.edge: Array | None = None
        self.content = b""
        self.below = np.zeros((count, count), dtype=bool)
        self.score = [0.0] * count
        self.add, self.away = np.full((count, count), -np.inf), np.full((count, count), -np.inf)

    def changed_children(self, edge: Array) -> list[int]:
        """Return the children whose parents differ."""
        if self.edge is None:
            return list(range(len(edge)))
        return np.flatnonzero((edge != self.edge).any(axis=0)).tolist()

    def store_graph(self, edge: Array) -> None:
        """Store this graph; an added edge extends paths, any other change recomputes all of them."""
        if self.edge is not None:
            parents, children = np.nonzero(edge != self.edge)
            # A new edge i → j adds exactly the paths from i and all above it to j and all below it.
            if len(parents) == 1 and edge[parents[0], children[0]]:
                above, under = self.below[:, parents[0]].copy(), self.below[children[0]].copy()
                above[parents[0]] = under[children[0]] = True
                self.below |= above[:, None] & under
                self.edge = edge.copy()
                return
        self.below, self.edge = path_matrix(edge), edge.copy()


def _parent_indices(edge: Array, j: int) -> tuple[int, ...]:
    return tuple(edge[:, j].nonzero()[0].tolist())


def path_matrix(edge: Array) -> Array:
    """Return whether there is a path from i to j, (N, N)."""
    found: Array = edge.copy()
    while True:  # paths of up to twice as many edges in each iteration
        paths = found.astype(np.float32)
        longer = found | (paths @ paths > 0)
        if (longer == found).all():
            return found
        found = longer


def draw_bootstrap_weights(cases: WeightedCases, seed: int, unit: int) -> WeightedCases:
    """Return a bootstrap sample: rows drawn with replacement according to their weights, as new weights (Efron 1979)."""
    random = generator(seed, Stream.STRUCTURE, unit=unit)
    drawn = random.multinomial(len(cases.x), cases.weight / cases.weight.sum())
    kept = drawn > 0
    return WeightedCases(cases.x[kept], drawn[kept].astype(np.float64), cases.cardinality)
