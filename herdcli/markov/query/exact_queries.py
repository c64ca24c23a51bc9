"""Exact answers to queries by elimination: most probable states (MPE), marginal MAP, and the joint marginal of any variables.

    MPE    argmax_x Π f_a(x)                            marginal MAP   argmax_m Σ_s Π f_a(m, s)
    joint  P(x_A) ∝ Σ over all others of Π f_a(x)

Source: Dechter (1999); Park & Darwiche (2004) for marginal MAP, in which all sums must precede all maxima.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from herdcli.algorithm import RunProgress
from herdcli.markov.exact import cliques, junction_tree
from herdcli.markov.exact.collect_pass import PassPlan, plan_pass
from herdcli.markov.method import Map
from herdcli.markov.model import possible_states
from herdcli.markov.model.network import Network, build_network
from herdcli.markov.query.constrained_orders import STAYS, StagedOrderSearch
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class LikeliestStates:
    """The most probable states of some variables, and the log of the maximum: log Σ Π f over all other variables.

    bound  an upper bound of the log value of all states; equal to `value` if the answer is exact.
    """

    states: dict[int, int]
    value: float
    bound: float
    exact: bool
    algorithm: str
    iterations: int = 0


def elimination_stages(network: Network, *, maximised: Sequence[int] = (), kept: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the stage in which each variable is eliminated: sums first, then maxima; `kept` variables remain."""
    found = np.zeros(network.count, dtype=np.int64)
    found[list(maximised)] = 1
    found[list(kept)] = STAYS
    return tuple(found.tolist())


def search_order(network: Network, orders: int, seed: int, *, maximised: Sequence[int] = (), kept: Sequence[int] = ()) -> StagedOrderSearch:
    """Return the search for an elimination order for a query.  Raises NegativeResult if the network's zeros leave a variable no state."""
    return StagedOrderSearch(
        possible_states.trim_network(network), elimination_stages(network, maximised=maximised, kept=kept), orders, seed
    )


def likeliest_states(network: Network, order: Sequence[int], maximised: Sequence[int]) -> LikeliestStates:
    """Return the most probable states of the maximised variables, all others summed out.  Raises NegativeResult if no state is possible."""
    return _maximise(plan_pass(network, order, maximised), map)


def _maximise(work: PassPlan, map: Map) -> LikeliestStates:
    found = work.answer(map)
    name = "max-elimination" if len(work.maximised) == work.network.count else "constrained-elimination"
    return LikeliestStates(found.states, found.value, found.value, True, name)


SLIGHT = 1e-11  # relative reduction of the first answer's probability, per variable


def tied_states(network: Network, order: Sequence[int], likeliest: LikeliestStates) -> dict[int, int] | None:
    """Return states of all variables that differ from the most probable ones and are as probable; None if there are none.

    The states found are made slightly less probable.  If other states have the same value to nine digits, the new most probable states
    are those that agree with the first in as few variables as possible.
    """
    every = list(range(network.count))
    unary = [((i,), np.where(np.arange(int(network.cardinality[i])) == likeliest.states[i], 1 - SLIGHT, 1.0)) for i in every]
    again = likeliest_states(build_network(network.cardinality, [*network.factors(), *unary]), order, every)
    agreeing = sum(again.states[i] == likeliest.states[i] for i in every)
    value = again.value - agreeing * math.log1p(-SLIGHT)
    same = abs(value - likeliest.value) <= 1e-9 * (1 + abs(likeliest.value))
    return again.states if same and agreeing < network.count else None


def exact_log_z(network: Network, order: Sequence[int]) -> float:
    """Compute log Z by sums only."""
    return plan_pass(network, order).answer().value


def joint_marginal(network: Network, order: Sequence[int], kept: Sequence[int]) -> tuple[Array, float]:
    """Return P over the kept variables, with axes in their order, and log Z.  Raises NegativeResult if no state is possible."""
    return _joint_of_pass(plan_pass(network, order, kept=kept), map)


def _joint_of_pass(work: PassPlan, map: Map) -> tuple[Array, float]:
    found = work.answer(map)
    total = float(found.rest.sum())
    return found.rest / total, found.value + math.log(total)


@dataclass
class FinishedSearch:
    """The state of an algorithm whose work is done in `result`, because the order is known."""

    step: int = 0


@dataclass(frozen=True)
class OrderedAnswer:
    """A base class of algorithms that use a known order."""

    work: PassPlan
    map: Map = map
    state = FinishedSearch  # the type of its states

    def init(self) -> FinishedSearch:
        """Return the initial state."""
        return FinishedSearch()

    def step(self, state: FinishedSearch) -> FinishedSearch:
        """Advance the step counter; there is nothing to do."""
        return FinishedSearch(state.step + 1)

    def done(self, state: FinishedSearch) -> bool:
        """Return True from the beginning."""
        return state.step >= 0

    def memory(self) -> int:
        """Return the bytes of messages and best states."""
        return self.work.bytes_needed()

    def progress(self, state: FinishedSearch) -> RunProgress:
        """Return no progress."""
        return RunProgress(state.step, 0)


class LikeliestSearch(OrderedAnswer):
    """`likeliest_states` as an algorithm."""

    def result(self, state: FinishedSearch) -> LikeliestStates:
        """Return the most probable states of the queried variables."""
        return _maximise(self.work, self.map)


class JointMarginal(OrderedAnswer):
    """`joint_marginal` as an algorithm."""

    def result(self, state: FinishedSearch) -> tuple[Array, float]:
        """Return the table, and log Z."""
        return _joint_of_pass(self.work, self.map)


class LogPartition(OrderedAnswer):
    """`exact_log_z` as an algorithm."""

    def result(self, state: FinishedSearch) -> float:
        """Return log Z."""
        return self.work.answer(self.map).value


def all_marginals(network: Network, orders: int, seed: int) -> list[Array]:
    """Compute the marginals of all variables by a junction tree."""
    order = cliques.search_orders(network, seed, orders).order
    return junction_tree.node_marginals(network, junction_tree.calibrate(network, junction_tree.plan_tree(network, order)))
