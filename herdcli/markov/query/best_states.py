"""Likeliest states by search under the bound of mini-buckets, where elimination does not fit: exact where the search ends in time.

Variables are held in reverse order of elimination.  With x_{k+1}, … held, mini-buckets bound what the rest can add; holding x_k too
changes the bound by what its mini-buckets lose against their own maxima,

    U_k(x_k, x_{k+1}, …) = U_{k+1}(x_{k+1}, …) + Σ_r [F_r(x_k, x_{k+1}, …) − max_x F_r(x, x_{k+1}, …)],

as the messages of bucket k are those maxima; U_0 is the value itself.  Nodes of one depth are opened many at a time, the deepest
first and of these the ones with the largest bounds.  Of two that agree in all that later factors look at, the better one stays.
Source: Kask & Dechter (2001), mini-bucket heuristics; the factors are those that max-product has reparametrised (Ihler et al. 2012).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from herdcli.algorithm import RunProgress
from herdcli.markov.method import Stepwise
from herdcli.markov.model.network import Network
from herdcli.markov.query import mini_bucket
from herdcli.markov.query.log_tables import LogTable, elimination_positions, factor_log_tables
from herdcli.records import dataclass
from herdcli.schema import Array

SHARE = 10  # of the effort, cells of mini-buckets: each is visited some times as its table is made
NODE = 100  # cells that take as long as a table of a node
STEP = 5000  # cells that take as long as a step of one node
WIDEST = 2048  # nodes opened at a time
NEAR = 1e-9  # of the value: what is this near to it is no better


@dataclass
class BestFirstState:
    """Open nodes, and the best states.

    held (n, N)  states by place in the order, from a node's own place on; depth (n,) that place; bound (n,).
    states (N,), value  of the best so far.  spent  cells that were visited.
    """

    held: Array
    depth: Array
    bound: Array
    states: Array
    value: float
    spent: float
    step: int


class BestFirstSearch(Stepwise[BestFirstState]):
    """A step opens nodes of one depth.

    order  of elimination.  given  log tables whose sum is the network's, by place in the order.  begin  states to beat.
    upper  what no state exceeds.  effort  cells after which it ends.  limit  bytes of mini-buckets and open nodes.
    """

    state = BestFirstState

    def __init__(
        self, network: Network, order: Sequence[int], tables: Sequence[LogTable] | None, begin: Array, effort: float, limit: int
    ) -> None:
        self.network, self.order, self.begin, self.effort = network, list(order), begin, effort
        self.cardinality = network.cardinality[self.order].tolist()
        place = elimination_positions(network, order)
        own = factor_log_tables(network, place)
        found = list(own if tables is None else tables)
        self.factors = [([place[i] for i in table.scope], table.logs) for table in own]
        self.cells = largest_cells(network, order, found, min(effort / SHARE, limit / 24))
        self.told = mini_bucket.eliminate_from_tables(network, order, found, frozenset(order), self.cells)
        self.parts = [[([place[i] for i in part.scope[1:]], part.logs) for part in parts] for _, parts in self.told.parts]
        self.seen = self._seen()
        each = len(self.order) ** 2 * (1 + max(self.cardinality, default=1))
        self.width = int(max(8, min(WIDEST, limit / 4 // max(1, each))))
        self.steps = 1 << 40

    def _seen(self) -> list[Array]:
        """For each depth the places from there on that factors which end before it look at."""
        last: list[set[int]] = [set() for _ in range(len(self.order) + 1)]
        now: set[int] = set()
        by_first: dict[int, list[list[int]]] = {}
        for scope, _ in self.factors:
            if scope:
                by_first.setdefault(min(scope), []).append(scope)
        for k in range(len(self.order)):
            for scope in by_first.get(k, []):
                now.update(scope)
            now.discard(k)
            last[k + 1] = set(now)
        return [np.array(sorted(each), dtype=np.int64) for each in last]

    def init(self) -> BestFirstState:
        """One node, in which nothing is held."""
        count = len(self.order)
        kind = np.min_scalar_type(max(self.cardinality, default=1) - 1)
        states, held = self.begin[self.order].astype(kind), np.zeros((1, count), dtype=kind)
        return BestFirstState(
            held, np.array([count]), np.array([self.told.bound]), states, self._value(states), float(SHARE * self.size), 0
        )

    @property
    def size(self) -> int:
        """Cells of all mini-buckets."""
        return sum(logs.size for parts in self.parts for _, logs in parts)

    def _value(self, x: Array) -> float:
        return float(sum(float(logs[tuple(x[scope])]) for scope, logs in self.factors))

    def _least(self, state: BestFirstState) -> float:
        return state.value + NEAR * (1 + abs(state.value)) if state.value > -math.inf else -math.inf

    def met(self, state: BestFirstState) -> bool:
        """Nothing is left that could be better, or the effort is spent."""
        return not (state.bound > self._least(state)).any() or state.spent >= self.effort

    def step(self, state: BestFirstState) -> BestFirstState:
        """Open the best of the deepest nodes."""
        keep = state.bound > self._least(state)
        deepest = int(state.depth[keep].min())
        at = np.flatnonzero(keep & (state.depth == deepest))
        at = at[np.argsort(-state.bound[at], kind="stable")][: self.width]
        keep[at] = False
        held, bound = state.held[at], state.bound[at]
        place = deepest - 1
        gain = np.zeros((self.cardinality[place], len(at)))
        for scope, logs in self.parts[place]:
            inside: tuple[slice | Array, ...] = (slice(None), *(held[:, j] for j in scope))
            rows = logs[inside] if scope else np.repeat(logs[:, None], len(at), axis=1)
            with np.errstate(invalid="ignore"):
                gain += rows - rows.max(axis=0)
        gain[np.isnan(gain)] = -math.inf
        made = np.repeat(held, self.cardinality[place], axis=0)
        made[:, place] = np.tile(np.arange(self.cardinality[place]), len(at))
        bounds = (bound + gain).T.ravel()
        state.held, state.depth, state.bound = state.held[keep], state.depth[keep], state.bound[keep]
        state.spent += STEP + float(NODE * gain.size * (1 + len(self.parts[place])))
        state.step += 1
        if place == 0:
            self._ended(state, made, bounds)
        else:
            self._add(state, made, bounds, place)
        return state

    def _ended(self, state: BestFirstState, made: Array, bounds: Array) -> None:
        """Whole states: the value of the best of them is that of the factors themselves."""
        best = int(bounds.argmax())
        if (value := self._value(made[best])) > state.value:
            state.states, state.value = made[best], value

    def _add(self, state: BestFirstState, made: Array, bounds: Array, place: int) -> None:
        """Nodes that may still be better, of those alike in what the rest looks at the best, also beside those that wait."""
        good = bounds > self._least(state)
        made, bounds = made[good], bounds[good]
        same = state.depth == place
        made, bounds = np.concatenate([state.held[same], made]), np.concatenate([state.bound[same], bounds])
        order = np.argsort(-bounds, kind="stable")
        rows = np.ascontiguousarray(made[order][:, self.seen[place]])
        if rows.size:
            _, first = np.unique(rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel(), return_index=True)
            order = order[np.sort(first)]
        else:
            order = order[:1]
        state.held = np.concatenate([state.held[~same], made[order]])
        state.depth = np.concatenate([state.depth[~same], np.full(len(order), place)])
        state.bound = np.concatenate([state.bound[~same], bounds[order]])

    def progress(self, state: BestFirstState) -> RunProgress:
        """Steps done, and how far the best states are below what none exceeds."""
        gap = f"gap {max(0.0, self.upper(state) - state.value):.4g}" if state.step else ""
        return RunProgress(state.step, None, gap, min(1.0, state.spent / self.effort))

    def memory(self) -> int:
        """Of the mini-buckets."""
        return 8 * self.size

    def upper(self, state: BestFirstState) -> float:
        """No state has more."""
        return max(state.value, float(state.bound.max(initial=-math.inf)))

    def result(self, state: BestFirstState) -> tuple[Array, float, float]:
        """The best states by variable, their log value, and what no state exceeds."""
        x = np.zeros(len(self.order), dtype=np.int64)
        x[self.order] = state.states
        upper = self.upper(state)
        return x, state.value, state.value if upper <= self._least(state) else upper


def largest_cells(network: Network, order: Sequence[int], tables: Sequence[LogTable], most: float) -> int:
    """The largest power of two that mini-buckets may have for all of them together to have at most so many cells."""
    cells = 1 << 24
    while cells > 16 and mini_bucket.mini_bucket_cells(network, order, tables, cells) > most:
        cells //= 2
    return cells
