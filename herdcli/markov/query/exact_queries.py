"""Exact answers by elimination: likeliest states (MPE), marginal MAP, and the joint marginal of any variables.

    MPE    argmax_x Π f_a(x)                            marginal MAP   argmax_m Σ_s Π f_a(m, s)
    joint  P(x_A) ∝ Σ over all others of Π f_a(x)

Source: Dechter (1999); Park & Darwiche (2004) for marginal MAP, whose sums must all leave before its maxima.
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
    """The best states of some variables, and the log of the maximum: log Σ Π f over all others.

    bound  no state has more than this; equal to `value` where it is exact.
    """

    states: dict[int, int]
    value: float
    bound: float
    exact: bool
    algorithm: str
    iterations: int = 0


def elimination_stages(network: Network, *, maximised: Sequence[int] = (), kept: Sequence[int] = ()) -> tuple[int, ...]:
    """When each variable leaves: sums first, then maxima; `kept` stay."""
    found = np.zeros(network.count, dtype=np.int64)
    found[list(maximised)] = 1
    found[list(kept)] = STAYS
    return tuple(found.tolist())


def search_order(network: Network, orders: int, seed: int, *, maximised: Sequence[int] = (), kept: Sequence[int] = ()) -> StagedOrderSearch:
    """The search for an order that answers.  Raises NegativeResult where the network's zeros leave a variable no state."""
    return StagedOrderSearch(
        possible_states.trim_network(network), elimination_stages(network, maximised=maximised, kept=kept), orders, seed
    )


def likeliest_states(network: Network, order: Sequence[int], maximised: Sequence[int]) -> LikeliestStates:
    """The best states of the maximised variables, all others summed out.  Raises NegativeResult where nothing is possible."""
    return _maximise(plan_pass(network, order, maximised), map)


def _maximise(work: PassPlan, map: Map) -> LikeliestStates:
    found = work.answer(map)
    name = "max-elimination" if len(work.maximised) == work.network.count else "constrained-elimination"
    return LikeliestStates(found.states, found.value, found.value, True, name)


SLIGHT = 1e-11  # by how much the first answer is made less likely for each variable


def tied_states(network: Network, order: Sequence[int], likeliest: LikeliestStates) -> dict[int, int] | None:
    """States other than the likeliest ones that are as likely, of all variables; None where there are none.

    The states found are made slightly less likely: the likeliest states then agree with them in as few variables as possible, if any
    others have the same value to nine digits.
    """
    every = list(range(network.count))
    unary = [((i,), np.where(np.arange(int(network.cardinality[i])) == likeliest.states[i], 1 - SLIGHT, 1.0)) for i in every]
    again = likeliest_states(build_network(network.cardinality, [*network.factors(), *unary]), order, every)
    agreeing = sum(again.states[i] == likeliest.states[i] for i in every)
    value = again.value - agreeing * math.log1p(-SLIGHT)
    same = abs(value - likeliest.value) <= 1e-9 * (1 + abs(likeliest.value))
    return again.states if same and agreeing < network.count else None


def exact_log_z(network: Network, order: Sequence[int]) -> float:
    """log Z by sums alone."""
    return plan_pass(network, order).answer().value


def joint_marginal(network: Network, order: Sequence[int], kept: Sequence[int]) -> tuple[Array, float]:
    """P over the kept variables, axes as they are named, and log Z.  Raises NegativeResult where nothing is possible."""
    return _joint_of_pass(plan_pass(network, order, kept=kept), map)


def _joint_of_pass(work: PassPlan, map: Map) -> tuple[Array, float]:
    found = work.answer(map)
    total = float(found.rest.sum())
    return found.rest / total, found.value + math.log(total)


@dataclass
class FinishedSearch:
    """The state of a run whose work is in its result: the order was found before."""

    step: int = 0


@dataclass(frozen=True)
class OrderedAnswer:
    """What runs by an order share."""

    work: PassPlan
    map: Map = map
    state = FinishedSearch  # the type of its states

    def init(self) -> FinishedSearch:
        """Nothing done."""
        return FinishedSearch()

    def step(self, state: FinishedSearch) -> FinishedSearch:
        """There are none."""
        return FinishedSearch(state.step + 1)

    def done(self, state: FinishedSearch) -> bool:
        """From the beginning."""
        return state.step >= 0

    def memory(self) -> int:
        """Bytes of messages and best states."""
        return self.work.bytes_needed()

    def progress(self, state: FinishedSearch) -> RunProgress:
        """Nothing to show."""
        return RunProgress(state.step, 0)


class LikeliestSearch(OrderedAnswer):
    """`likeliest_states` as an algorithm."""

    def result(self, state: FinishedSearch) -> LikeliestStates:
        """The best states of the asked variables."""
        return _maximise(self.work, self.map)


class JointMarginal(OrderedAnswer):
    """`joint_marginal` as an algorithm."""

    def result(self, state: FinishedSearch) -> tuple[Array, float]:
        """The table, and log Z."""
        return _joint_of_pass(self.work, self.map)


class LogPartition(OrderedAnswer):
    """`exact_log_z` as an algorithm."""

    def result(self, state: FinishedSearch) -> float:
        """log Z."""
        return self.work.answer(self.map).value


def all_marginals(network: Network, orders: int, seed: int) -> list[Array]:
    """Of all variables, by a junction tree."""
    order = cliques.search_orders(network, seed, orders).order
    return junction_tree.node_marginals(network, junction_tree.calibrate(network, junction_tree.plan_tree(network, order)))
