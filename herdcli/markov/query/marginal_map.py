"""Marginal MAP for networks too large for constrained elimination: coordinate ascent with exact sums, and a bound by mini-buckets.

With all other queried variables fixed, one unconstrained elimination gives Σ_s Π f(m_i, s) for every state of variable i.
So the value never decreases, and at the end no single change improves it.  Source: Park & Darwiche (2004), sec. 5.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from herdcli.algorithm import RunProgress
from herdcli.errors import NegativeResult
from herdcli.markov.exact.elimination import moral_graph
from herdcli.markov.method import Stepwise
from herdcli.markov.model.network import Network, condition_network
from herdcli.markov.model.possible_states import IMPOSSIBLE
from herdcli.markov.query import constrained_orders, mini_bucket
from herdcli.markov.query.constrained_orders import find_greedy_order
from herdcli.markov.query.exact_queries import MostProbableStates, assign_elimination_stages
from herdcli.markov.query.log_tables import eliminate_variables
from herdcli.records import dataclass
from herdcli.schema import Array

PASSES = 10


@dataclass
class CoordinateAscentState:
    """States of the queried variables, the log value, and the number of successive variables that did not change."""

    states: Array
    value: float
    still: int
    step: int


class CoordinateAscent(Stepwise[CoordinateAscentState]):
    """Coordinate ascent; each step updates one variable."""

    state = CoordinateAscentState

    def __init__(self, network: Network, asked: Sequence[int], start: Sequence[int]) -> None:
        self.network, self.asked, self.start = network, list(asked), list(start)
        self.steps = PASSES * len(self.asked)

    def init(self) -> CoordinateAscentState:
        """Return the initial state."""
        return CoordinateAscentState(np.array(self.start), -np.inf, 0, 0)

    def meets_criterion(self, state: CoordinateAscentState) -> bool:
        """Return True if no variable has a better state."""
        return state.still >= len(self.asked)

    def step(self, state: CoordinateAscentState) -> CoordinateAscentState:
        """Set the next variable to its best state with the others fixed."""
        k = state.step % len(self.asked)
        i = self.asked[k]
        held = {j: int(x) for j, x in zip(self.asked, state.states.tolist(), strict=True) if j != i}
        row = self._state_log_values(held, i)
        now = int(row.argmax())
        better = row[now] > max(state.value, row[int(state.states[k])])
        if better:
            state.states[k] = now
        state.still = 0 if better else state.still + 1
        state.value = float(row[int(state.states[k])])
        state.step += 1
        return state

    def _state_log_values(self, fixed_states: dict[int, int], i: int) -> Array:
        """Compute log Σ Π f for each state of a variable; −∞ for all if the fixed states are impossible."""
        try:
            left = condition_network(self.network, fixed_states)
        except NegativeResult:
            return np.full(int(self.network.cardinality[i]), -np.inf)
        order = self.order(left, i)
        found = np.zeros(int(self.network.cardinality[i]))
        for table in eliminate_variables(left, order).rest:
            found = found + table.logs
        return found

    def order(self, network: Network, i: int) -> list[int]:
        """Return an elimination order of all other variables of the conditioned network."""
        found = find_greedy_order(
            moral_graph(network),
            network.cardinality.tolist(),
            assign_elimination_stages(network, remaining_variables=[i]),
            list(range(network.count)),
            True,
            np.inf,
        )
        return [int(j) for j in found.order]

    def progress_text(self, state: CoordinateAscentState) -> str:
        """The log value so far."""
        return f"log value {state.value:.6g}"

    def progress(self, state: CoordinateAscentState) -> RunProgress:
        """The number of variables done, and the largest possible number."""
        return RunProgress(state.step, self.steps, self.progress_text(state) if state.step else "")

    def result(self, state: CoordinateAscentState) -> MostProbableStates:
        """Return the final states, and an upper bound.  Raises NegativeResult if no state had a nonzero probability."""
        if state.value == -np.inf:
            raise NegativeResult(IMPOSSIBLE.replace("every joint state has", "every joint state that was tried has"))
        when = assign_elimination_stages(self.network, maximised=self.asked)
        graph, states = moral_graph(self.network), self.network.cardinality.tolist()
        order = find_greedy_order(graph, states, when, list(range(self.network.count)), True, np.inf).order
        bound = np.inf
        if len(order) == self.network.count:
            bound = mini_bucket.compute_mini_bucket_bound(self.network, order.tolist(), frozenset(self.asked)).bound
        found = dict(zip(self.asked, state.states.tolist(), strict=True))
        bound = max(bound, state.value)
        return MostProbableStates(
            found, state.value, bound, bound - state.value <= 1e-9 * (1 + abs(bound)), "coordinate-ascent", state.step
        )


def elimination_bytes(network: Network, query: Sequence[int]) -> int:
    """Return the bytes of one elimination with all queried variables except the first fixed at state 0."""
    cardinality = network.cardinality.copy()
    cardinality[list(query[1:])] = 1
    graph = moral_graph(network, cardinality)
    when = assign_elimination_stages(network, remaining_variables=query[:1])
    return constrained_orders.elimination_bytes(
        find_greedy_order(graph, cardinality.tolist(), when, list(range(network.count)), True, np.inf)
    )
