"""Most probable states by search under the bound of mini-buckets, for networks too large for elimination: exact if the search completes.

Variables are assigned in reverse order of elimination.  With x_{k+1}, … assigned, mini-buckets bound the contribution of the rest.
Assigning x_k too changes the bound by the difference between its mini-buckets and their own maxima,

    U_k(x_k, x_{k+1}, …) = U_{k+1}(x_{k+1}, …) + Σ_r [F_r(x_k, x_{k+1}, …) − max_x F_r(x, x_{k+1}, …)],

because the messages of bucket k are those maxima; U_0 is the exact value.  Many nodes of one depth are expanded at a time, the deepest
first, and among these the ones with the largest bounds.  If two nodes agree in all variables of later factors, the better one is kept.
Source: Kask & Dechter (2001), mini-bucket heuristics; the factors are reparametrised by max-product (Ihler et al. 2012).
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

SHARE = 10  # effort divided by cells of mini-buckets: each cell is visited several times as its table is computed
NODE = 100  # cells that take as long as one table lookup of a node
STEP = 5000  # cells that take as long as a step of one node
WIDEST = 2048  # nodes expanded at a time
NEAR = 1e-9  # an improvement below this share of the value is ignored


@dataclass
class BestFirstState:
    """Open nodes, and the best states so far.

    held    (n, N) states by place in the order, valid from a node's depth on.
    depth   (n,) the place of the variable that was assigned last.
    bound   (n,) upper bounds.
    states  (N,) the best states so far, with log value `value`.
    spent   number of cells visited.
    """

    held: Array
    depth: Array
    bound: Array
    states: Array
    value: float
    spent: float
    step: int


class BestFirstSearch(Stepwise[BestFirstState]):
    """Best-first search; each step expands nodes of one depth.

    order   elimination order.
    tables  log tables whose sum is the network's, by place in the order; None for its factors.
    begin   states to improve.
    effort  number of cells after which the search ends.
    limit   bytes of mini-buckets and open nodes.
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
        self.cells = largest_affordable_bucket(network, order, found, min(effort / SHARE, limit / 24))
        self.told = mini_bucket.eliminate_log_tables(network, order, found, frozenset(order), self.cells)
        self.parts = [[([place[i] for i in part.scope[1:]], part.logs) for part in parts] for _, parts in self.told.parts]
        self.seen = self._boundary_positions()
        each = len(self.order) ** 2 * (1 + max(self.cardinality, default=1))
        self.width = int(max(8, min(WIDEST, limit / 4 // max(1, each))))
        self.steps = 1 << 40

    def _boundary_positions(self) -> list[Array]:
        """Return, for each depth, the places from there on that factors beginning before it contain."""
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
        """Return a state with one node, in which no variable is assigned."""
        count = len(self.order)
        kind = np.min_scalar_type(max(self.cardinality, default=1) - 1)
        states, held = self.begin[self.order].astype(kind), np.zeros((1, count), dtype=kind)
        return BestFirstState(
            held, np.array([count]), np.array([self.told.bound]), states, self._log_value(states), float(SHARE * self.size), 0
        )

    @property
    def size(self) -> int:
        """The number of cells of all mini-buckets."""
        return sum(logs.size for parts in self.parts for _, logs in parts)

    def _log_value(self, x: Array) -> float:
        return float(sum(float(logs[tuple(x[scope])]) for scope, logs in self.factors))

    def _pruning_threshold(self, state: BestFirstState) -> float:
        return state.value + NEAR * (1 + abs(state.value)) if state.value > -math.inf else -math.inf

    def meets_criterion(self, state: BestFirstState) -> bool:
        """Return True if no open node can be better, or the effort is spent."""
        return not (state.bound > self._pruning_threshold(state)).any() or state.spent >= self.effort

    def step(self, state: BestFirstState) -> BestFirstState:
        """Expand the best of the deepest nodes."""
        keep = state.bound > self._pruning_threshold(state)
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
            self._evaluate_complete_states(state, made, bounds)
        else:
            self._add_open_nodes(state, made, bounds, place)
        return state

    def _evaluate_complete_states(self, state: BestFirstState, states: Array, bounds: Array) -> None:
        """Evaluate complete states; the value of the best is computed from the factors."""
        best = int(bounds.argmax())
        if (value := self._log_value(states[best])) > state.value:
            state.states, state.value = states[best], value

    def _add_open_nodes(self, state: BestFirstState, nodes: Array, bounds: Array, place: int) -> None:
        """Add the nodes that can still be better than the best states.

        Among nodes that agree in the variables of later factors, open nodes included, only the best is kept.
        """
        good = bounds > self._pruning_threshold(state)
        nodes, bounds = nodes[good], bounds[good]
        same = state.depth == place
        nodes, bounds = np.concatenate([state.held[same], nodes]), np.concatenate([state.bound[same], bounds])
        order = np.argsort(-bounds, kind="stable")
        rows = np.ascontiguousarray(nodes[order][:, self.seen[place]])
        if rows.size:
            _, first = np.unique(rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel(), return_index=True)
            order = order[np.sort(first)]
        else:
            order = order[:1]
        state.held = np.concatenate([state.held[~same], nodes[order]])
        state.depth = np.concatenate([state.depth[~same], np.full(len(order), place)])
        state.bound = np.concatenate([state.bound[~same], bounds[order]])

    def progress(self, state: BestFirstState) -> RunProgress:
        """The number of steps done, and the gap between the best states and the upper bound."""
        gap = f"gap {max(0.0, self.upper_bound(state) - state.value):.4g}" if state.step else ""
        return RunProgress(state.step, None, gap, min(1.0, state.spent / self.effort))

    def memory(self) -> int:
        """Return the bytes of the mini-buckets."""
        return 8 * self.size

    def upper_bound(self, state: BestFirstState) -> float:
        """Return an upper bound of the log value of all states."""
        return max(state.value, float(state.bound.max(initial=-math.inf)))

    def result(self, state: BestFirstState) -> tuple[Array, float, float]:
        """Return the best states by variable, their log value, and the upper bound."""
        x = np.zeros(len(self.order), dtype=np.int64)
        x[self.order] = state.states
        upper = self.upper_bound(state)
        return x, state.value, state.value if upper <= self._pruning_threshold(state) else upper


def largest_affordable_bucket(network: Network, order: Sequence[int], tables: Sequence[LogTable], max_total_cells: float) -> int:
    """Return the largest mini-bucket size, a power of two, for which all mini-buckets together have at most `max_total_cells` cells."""
    cells = 1 << 24
    while cells > 16 and mini_bucket.count_mini_bucket_cells(network, order, tables, cells) > max_total_cells:
        cells //= 2
    return cells
