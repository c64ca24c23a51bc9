"""Marginal MAP by branch and bound: exact for networks where constrained elimination would need tables that are far too large.

Maxima before sums give upper bounds, max_m Σ_s f ≤ Σ_s max_m f.  So elimination in any order gives a bound, and the exact
value if no maximum precedes a sum that it depends on.  A variable that is eliminated too early is fixed at each of its states in turn;
with some of them fixed, the rest is exact.  The node with the largest bound is expanded next, so that no node is expanded whose bound is
below the answer.  Before there is an answer, the deepest node is expanded.

Source: Park & Darwiche (2003), "Solving MAP exactly using systematic search", bounds by unconstrained orders; Yuan & Hansen (2009), a
static order of variables, one tree for each depth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy

import numpy as np

from herdcli.algorithm import Map, RunProgress
from herdcli.errors import NegativeResult
from herdcli.markov.exact.collect_pass import EliminationPassPlan
from herdcli.markov.exact.elimination import moral_graph
from herdcli.markov.method import Stepwise
from herdcli.markov.model import barren_nodes, possible_states
from herdcli.markov.model.network import Network, condition_network
from herdcli.markov.model.possible_states import IMPOSSIBLE, TrimmedNetwork
from herdcli.markov.query.constrained_orders import find_relaxed_order
from herdcli.markov.query.exact_queries import MostProbableStates
from herdcli.records import dataclass
from herdcli.schema import Array

CAP = 17.0  # a maximum may precede a sum if a table would otherwise have more than 2^CAP cells
PER_VARIABLE = 2000  # this many cells take as long as one variable of a pass
SMALL = 1 << 22  # a pass of this many cells is always allowed, whatever the minimum is
NEAR = 1e-9  # an improvement below this share of the value is ignored


@dataclass
class BranchAndBoundState:
    """Open nodes, and the best states so far.

    held    (n, k) the states of the first variables of `branched`, −1 past a node's depth.
    bound   (n,) upper bounds.
    states  (M,) the best states of the queried variables; `value` is their log value, −∞ before any are found.
    spent   number of cells visited.
    """

    held: Array
    bound: Array
    states: Array
    value: float
    spent: float
    step: int


@dataclass(frozen=True)
class SearchLevel:
    """The attributes that all nodes of a depth share.

    branched  the variable that is fixed next, −1 if no variable is eliminated too early.
    """

    work: EliminationPassPlan
    order: list[int]
    branched: int


class BranchAndBound(Stepwise[BranchAndBoundState]):
    """Branch and bound; each step expands a node, with one pass for each state of the variable that is fixed next.

    order   an unconstrained order of all variables with few cells.
    effort  number of cells after which the search ends, exact or not.
    """

    state = BranchAndBoundState

    def __init__(self, network: Network, asked: Sequence[int], order: Sequence[int], effort: float, map: Map = map) -> None:
        self.trimmed = possible_states.remove_impossible_states(network)
        self.network, self.constant = barren_nodes.remove_barren_nodes(self.trimmed.network, frozenset(asked))
        self.asked, self.order, self.effort, self.map = list(asked), list(order), effort, map
        self.levels: list[SearchLevel] = []
        self.steps = 1 << 40

    def init(self) -> BranchAndBoundState:
        """Return a state with one node, in which no variable is fixed."""
        self._choose_level_order({}, 0)
        return BranchAndBoundState(
            np.empty((1, 0), dtype=np.int64), np.array([np.inf]), np.zeros(len(self.asked), dtype=np.int64), -np.inf, 0.0, 0
        )

    def meets_criterion(self, state: BranchAndBoundState) -> bool:
        """Return True if no open node exceeds the best states, or the effort is spent."""
        return not self._open_nodes(state).any() or state.spent >= self.effort

    def step(self, state: BranchAndBoundState) -> BranchAndBoundState:
        """Expand the node with the largest bound, or the deepest one before any states are found."""
        # Best first: the node of the largest bound must be expanded by any search with these bounds.  Without an answer, whose value prunes
        # other nodes, the search goes deep first.
        among = np.flatnonzero(self._open_nodes(state))
        depth = (state.held >= 0).sum(axis=1)
        if state.value == -np.inf:
            among = among[depth[among] == depth[among].max()]
        node = int(among[state.bound[among].argmax()])
        held, bound = state.held[node, : depth[node]].tolist(), float(state.bound[node])
        keep = self._open_nodes(state)
        keep[node] = False
        state.held, state.bound = state.held[keep], state.bound[keep]
        state.step += 1
        at = self._rebuild_levels(held)
        if at.branched < 0:
            self._solve_leaf(state, held)
        else:
            for x in range(int(self.network.cardinality[at.branched])):
                self._add_child_node(state, [*held, x], bound)
        return state

    def _add_child_node(self, state: BranchAndBoundState, fixed_states: list[int], bound: float) -> None:
        """Add a child of an expanded node, with a bound that is at most its parent's."""
        # Bound of a child: elimination in the level's order on the network with its states fixed, where some maxima precede sums.
        given = self._conditioned_network(fixed_states)
        value = -np.inf
        if given is not None:
            work = self._plan_node_pass(given, len(fixed_states))
            state.spent += work.cells + PER_VARIABLE * self.network.count
            value = _pass_value(work, self.map)
        if value == -np.inf:
            return
        width = max(state.held.shape[1], len(fixed_states))
        rows = np.full((len(state.held) + 1, width), -1, dtype=np.int64)
        rows[:-1, : state.held.shape[1]] = state.held
        rows[-1, : len(fixed_states)] = fixed_states
        state.held, state.bound = rows, np.append(state.bound, min(value, bound))

    def _solve_leaf(self, state: BranchAndBoundState, fixed_states: list[int]) -> None:
        """Solve a node in which no variable is eliminated too early: its best states, exactly."""
        given = self._conditioned_network(fixed_states)
        assert given is not None  # its bound was computed
        work = self._plan_node_pass(given, len(fixed_states))
        state.spent += work.cells + PER_VARIABLE * self.network.count
        try:
            found = work.run_elimination(self.map)
        except NegativeResult:
            return
        if found.value > state.value:
            fixed = self._fixed_variable_states(fixed_states)
            state.states = np.array([fixed.get(i, found.states.get(i, 0)) for i in self.asked], dtype=np.int64)
            state.value = found.value

    def _open_nodes(self, state: BranchAndBoundState) -> Array:
        least = state.value + NEAR * (1 + abs(state.value)) if state.value > -np.inf else -np.inf
        found: Array = state.bound > least
        return found

    def _fixed_variable_states(self, fixed_states: Sequence[int]) -> dict[int, int]:
        return {self.levels[depth].branched: x for depth, x in enumerate(fixed_states)}

    def _conditioned_network(self, fixed_states: Sequence[int]) -> Network | None:
        """Return the network of a node; None if its zeros leave no state possible."""
        try:
            return condition_network(self.network, self._fixed_variable_states(fixed_states))
        except NegativeResult:
            return None

    def _rebuild_levels(self, fixed_states: Sequence[int]) -> SearchLevel:
        """Return the level of a node; a resumed run rebuilds it."""
        for depth in range(len(self.levels), len(fixed_states) + 1):
            self._choose_level_order(self._fixed_variable_states(fixed_states[:depth]), depth)
        return self.levels[len(fixed_states)]

    def _choose_level_order(self, fixed_states: dict[int, int], depth: int) -> None:
        """Choose an order for all networks of a depth, from their graph only.

        If a new order needs more than twice the cells of the order one level above, the latter is kept.  Fixing variables reduces the
        cells of any order, so that none of these orders needs more than twice the cells of `order`.
        """
        cardinality = self.network.cardinality.copy()
        cardinality[list(fixed_states)] = 1
        # Fixing variables removes edges, so that a new order may move more maxima behind the sums that they depend on.
        left = [i for i in self.asked if i not in fixed_states and cardinality[i] > 1]
        bare = TrimmedNetwork(_network_with_arbitrary_values(self.network, cardinality), None)
        before = self.levels[depth - 1].order if depth else self.order
        kept = EliminationPassPlan(bare, before, left)
        order = find_relaxed_order(moral_graph(self.network, cardinality), cardinality.tolist(), left, CAP)
        new = EliminationPassPlan(bare, order, left)
        if new.cells > max(2 * kept.cells, SMALL):
            new, order = kept, before
        self.levels.append(SearchLevel(new, order, _variable_before_most_sums(new, cardinality)))

    def _plan_node_pass(self, network: Network, depth: int) -> EliminationPassPlan:
        """Return the pass of a node, on the tree of its level."""
        self._rebuild_levels([0] * depth)
        level = self.levels[depth]
        made = copy(level.work)
        made.trimmed, made.network = TrimmedNetwork(network, None), network
        return made

    def is_worthwhile(self) -> bool:
        """Return True if reaching states once is within the effort, assuming that fixed variables make no pass cheaper."""
        first = self._rebuild_levels([]).work
        early = _early_maxima(first, self.network.cardinality)
        return float(first.cells) * sum(int(self.network.cardinality[i]) for i in early) <= self.effort

    def memory(self) -> int:
        """Return the bytes of a pass."""
        if not self.levels:
            self._choose_level_order({}, 0)
        return self.levels[0].work.bytes_needed()

    def progress_text(self, state: BranchAndBoundState) -> str:
        """The log value so far, and the upper bound."""
        return f"log value {state.value + self.constant:.6g}, at most {self._upper_bound(state) + self.constant:.6g}"

    def progress(self, state: BranchAndBoundState) -> RunProgress:
        """The number of expanded nodes."""
        return RunProgress(state.step, None, self.progress_text(state) if state.step else "", min(1.0, state.spent / self.effort))

    def _upper_bound(self, state: BranchAndBoundState) -> float:
        """Return an upper bound of the log value of all states."""
        return max(state.value, float(state.bound.max(initial=-np.inf)))

    def result(self, state: BranchAndBoundState) -> MostProbableStates:
        """Return the best states found; a value of −∞ means that there are none.  Raises NegativeResult if no state is possible."""
        over = not self._open_nodes(state).any()
        if over and state.value == -np.inf:
            raise NegativeResult(IMPOSSIBLE)
        stays = self.trimmed.kept
        states = dict(zip(self.asked, state.states.tolist(), strict=True))
        if stays is not None:
            states = {i: int(np.flatnonzero(stays[i])[x]) for i, x in states.items()}
        value = state.value + self.constant
        bound = value if over else self._upper_bound(state) + self.constant
        return MostProbableStates(states, value, bound, over, "branch-and-bound", state.step)


def _network_with_arbitrary_values(network: Network, cardinality: Array) -> Network:
    """Return the graph of a network with some variables fixed, with tables that do not depend on their states."""
    return condition_network(
        barren_nodes.without_zero_entries(network),
        dict.fromkeys(np.flatnonzero((cardinality == 1) & (network.cardinality > 1)).tolist(), 0),
    )


def _early_maxima(plan: EliminationPassPlan, cardinality: Array) -> dict[int, int]:
    """Return the maximised variables that precede sums that they depend on, with the number of these sums.

    The variables that are eliminated last come first.
    """
    tree, found = plan.tree, {}
    after = [0] * len(tree.scopes)
    for k in range(len(tree.scopes) - 1, -1, -1):
        i, parent = tree.scopes[k][0], tree.parent[k]
        if parent >= 0:
            above = tree.scopes[parent][0]
            after[k] = after[parent] + (above not in plan.maximised and bool(cardinality[above] > 1))
        if i in plan.maximised and after[k] > 0:
            found[i] = after[k]
    return found


def _variable_before_most_sums(plan: EliminationPassPlan, cardinality: Array) -> int:
    """Return the variable that precedes the most sums, the last eliminated of several; −1 if there is none."""
    found = _early_maxima(plan, cardinality)
    return max(found, key=found.__getitem__, default=-1)


def _pass_value(plan: EliminationPassPlan, map: Map) -> float:
    """Compute log Σ max of a pass; −∞ if no state is possible."""
    try:
        return plan.value(map)
    except NegativeResult:
        return -math.inf
