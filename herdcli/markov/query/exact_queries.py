"""Exact answers to queries by elimination: most probable states (MPE), marginal MAP, and the joint marginal of any variables.

    MPE    argmax_x Π f_a(x)                            marginal MAP   argmax_m Σ_s Π f_a(m, s)
    joint  P(x_A) ∝ Σ over all others of Π f_a(x)

Source: Dechter (1999); Park & Darwiche (2004) for marginal MAP, in which all sums must precede all maxima.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from herdcli.algorithm import Map, RunProgress
from herdcli.markov.exact import cliques, junction_tree
from herdcli.markov.exact.collect_pass import EliminationPassPlan, plan_elimination_pass
from herdcli.markov.model import possible_states
from herdcli.markov.model.network import Network, build_network
from herdcli.markov.query.constrained_orders import STAYS, StagedOrderSearch
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class MostProbableStates:
    """The most probable states of some variables, and the log of the maximum: log Σ Π f over all other variables.

    bound  an upper bound of the log value of all states; equal to `value` if the answer is exact.
    """

    states: dict[int, int]
    value: float
    bound: float
    exact: bool
    algorithm: str
    iterations: int = 0


def assign_elimination_stages(
    network: Network, *, maximised: Sequence[int] = (), remaining_variables: Sequence[int] = ()
) -> tuple[int, ...]:
    """Return the stage in which each variable is eliminated: sums first, then maxima; `remaining_variables` variables remain."""
    found = np.zeros(network.count, dtype=np.int64)
    found[list(maximised)] = 1
    found[list(remaining_variables)] = STAYS
    return tuple(found.tolist())


def make_order_search(
    network: Network, orders: int, seed: int, *, maximised: Sequence[int] = (), remaining_variables: Sequence[int] = ()
) -> StagedOrderSearch:
    """Return the search for an elimination order for a query.  Raises NegativeResult if the network's zeros leave a variable no state."""
    return StagedOrderSearch(
        possible_states.remove_impossible_states(network),
        assign_elimination_stages(network, maximised=maximised, remaining_variables=remaining_variables),
        orders,
        seed,
    )


def find_most_probable_states(network: Network, order: Sequence[int], maximised: Sequence[int]) -> MostProbableStates:
    """Return the most probable states of the maximised variables, all others summed out.  Raises NegativeResult if no state is possible."""
    return _run_maximising_pass(plan_elimination_pass(network, order, maximised), map)


def _run_maximising_pass(plan: EliminationPassPlan, map: Map) -> MostProbableStates:
    found = plan.run_elimination(map)
    name = "max-elimination" if len(plan.maximised) == plan.network.count else "constrained-elimination"
    return MostProbableStates(found.states, found.value, found.value, True, name)


SLIGHT = 1e-11  # the probability of the first answer is reduced by this share for each variable


def find_tied_states(network: Network, order: Sequence[int], most_probable: MostProbableStates) -> dict[int, int] | None:
    """Return states of all variables that differ from the most probable ones and are as probable; None if there are none.

    The states found are made slightly less probable.  If other states have the same value to nine digits, the new most probable states
    are those that agree with the first in as few variables as possible.
    """
    every = list(range(network.count))
    unary = [((i,), np.where(np.arange(int(network.cardinality[i])) == most_probable.states[i], 1 - SLIGHT, 1.0)) for i in every]
    again = find_most_probable_states(build_network(network.cardinality, [*network.factors(), *unary]), order, every)
    agreeing = sum(again.states[i] == most_probable.states[i] for i in every)
    value = again.value - agreeing * math.log1p(-SLIGHT)
    same = abs(value - most_probable.value) <= 1e-9 * (1 + abs(most_probable.value))
    return again.states if same and agreeing < network.count else None


def compute_exact_log_z(network: Network, order: Sequence[int]) -> float:
    """Compute log Z by sums only."""
    return plan_elimination_pass(network, order).run_elimination().value


def compute_joint_marginal(network: Network, order: Sequence[int], variables: Sequence[int]) -> tuple[Array, float]:
    """Return P over the kept variables, with axes in their order, and log Z.  Raises NegativeResult if no state is possible."""
    return _run_joint_pass(plan_elimination_pass(network, order, remaining_variables=variables), map)


def _run_joint_pass(plan: EliminationPassPlan, map: Map) -> tuple[Array, float]:
    found = plan.run_elimination(map)
    total = float(found.rest.sum())
    return found.rest / total, found.value + math.log(total)


@dataclass
class KnownOrderState:
    """The state of an algorithm whose work is done in `result`, because the order is known."""

    step: int = 0


@dataclass(frozen=True)
class KnownOrderAlgorithm:
    """A base class of algorithms that use a known order."""

    work: EliminationPassPlan
    map: Map = map
    state = KnownOrderState  # the type of its states

    def init(self) -> KnownOrderState:
        """Return the initial state."""
        return KnownOrderState()

    def step(self, state: KnownOrderState) -> KnownOrderState:
        """Advance the step counter; there is nothing to do."""
        return KnownOrderState(state.step + 1)

    def done(self, state: KnownOrderState) -> bool:
        """Return True from the beginning."""
        return state.step >= 0

    def memory(self) -> int:
        """Return the bytes of messages and best states."""
        return self.work.bytes_needed()

    def progress(self, state: KnownOrderState) -> RunProgress:
        """Return no progress."""
        return RunProgress(state.step, 0)


class MostProbableStatesAlgorithm(KnownOrderAlgorithm):
    """`find_most_probable_states` as an algorithm."""

    def result(self, state: KnownOrderState) -> MostProbableStates:
        """Return the most probable states of the queried variables."""
        return _run_maximising_pass(self.work, self.map)


class JointMarginalAlgorithm(KnownOrderAlgorithm):
    """`compute_joint_marginal` as an algorithm."""

    def result(self, state: KnownOrderState) -> tuple[Array, float]:
        """Return the table, and log Z."""
        return _run_joint_pass(self.work, self.map)


class LogPartitionAlgorithm(KnownOrderAlgorithm):
    """`compute_exact_log_z` as an algorithm."""

    def result(self, state: KnownOrderState) -> float:
        """Return log Z."""
        return self.work.run_elimination(self.map).value


def compute_all_marginals(network: Network, orders: int, seed: int) -> list[Array]:
    """Compute the marginals of all variables by a junction tree."""
    order = cliques.search_elimination_orders(network, seed, orders).order
    return junction_tree.node_marginals(network, junction_tree.calibrate(network, junction_tree.build_clique_tree(network, order)))
