"""The exact algorithms as methods: junction tree and enumeration."""

from __future__ import annotations

import math
from copy import copy

import numpy as np

from herdcli.algorithm import HasStateShapes, RunProgress
from herdcli.markov.exact import (
    cost_forecast,
    elimination,
    enumeration,
    junction_tree,
    message_storage,
    sparse_cliques,
    streamed_propagation,
    table_arithmetic,
)
from herdcli.markov.exact.elimination import OrderSearch
from herdcli.markov.exact.enumeration import EnumerationState
from herdcli.markov.exact.junction_tree import JunctionTreeLayout
from herdcli.markov.exact.message_storage import MessageSchedule, MessageStore
from herdcli.markov.exact.separator_states import PossibleColumns
from herdcli.markov.exact.table_arithmetic import LinearArithmetic
from herdcli.markov.method import InferenceResult, InferenceSettings, Map, Stepwise, ToTolerance
from herdcli.markov.model import possible_states
from herdcli.markov.model.beliefs import Trace
from herdcli.markov.model.network import Network
from herdcli.markov.model.possible_states import TrimmedNetwork
from herdcli.records import dataclass


@dataclass(frozen=True)
class SmallPlan:
    """A schedule (None: the usual one), its bytes in memory, and those of messages in a file (0: they are not kept there)."""

    plan: MessageSchedule | None
    memory: int
    file: int


class JunctionTree(Stepwise[OrderSearch]):
    """The steps look for an elimination order; the result propagates over the cliques of the best one.

    States that the zeros make impossible are left out of all tables.
    """

    state = OrderSearch

    def __init__(
        self, network: Network, settings: InferenceSettings, map: Map = map, limit: float = math.inf, trimmed: TrimmedNetwork | None = None
    ) -> None:
        self.settings, self.steps, self.map = settings, elimination.MORE * settings.orders, map
        self.trimmed = trimmed or possible_states.trim_network(network)
        self.network = self.trimmed.network
        self.graph = elimination.moral_graph(self.network)
        self.begun: OrderSearch | None = None
        self.limit = limit  # bytes that may be taken to find what zeros leave empty
        self.messages: MessageStore | None = None  # where they go, where not into memory
        self.chosen: MessageSchedule | None = None
        self.counted: tuple[list[list[int]], list[PossibleColumns | None]] | None = None  # of the cliques that they were found for

    def init(self) -> OrderSearch:
        """No order yet, or those that were found before."""
        return elimination.empty_search(self.network) if self.begun is None else self.begun

    def with_orders(self, state: OrderSearch) -> JunctionTree:
        """The same, from orders that are found."""
        made = copy(self)
        made.begun = state
        return made

    def step(self, state: OrderSearch) -> OrderSearch:
        """One more randomised run."""
        return elimination.search_step(self.network, self.graph, self.settings.seed, state)

    def met(self, state: OrderSearch) -> bool:
        """A forest cannot be improved, where two runs were hopeless the others will be, and more than `orders` are only for large trees."""
        if elimination.has_enough_orders(self.network, state, self.settings.orders):
            return True
        return state.width <= 1 if state.complete else state.step >= (1 if self.network.count > elimination.LONGEST else 2)

    def figure(self, state: OrderSearch) -> str:
        """The size of the best tree so far."""
        return f"treewidth {state.width}" if state.complete else ""

    def bytes_needed(self, state: OrderSearch) -> tuple[int, str]:
        """Of the messages, or without Hugin's of the tables; for the line that refuses and for the line that is told before the work."""
        least = "" if state.complete else "at least "
        what = f"the junction tree, treewidth {least}{state.width} and 2^{math.log2(max(1, state.cells)):.1f} table cells,"
        if not state.complete:
            return int(min(max(state.cells, float(elimination.HOPELESS)), 2.0**60)) * 16, what  # wherever the run was given up
        tree = self.tree(state)
        if self.settings.message_passing != "hugin":
            return tree.bytes_needed(self.network), what
        among = self.columns(tree, state)
        if any(columns is not None for columns in among):
            what = f"{what[:-1]} without those that zeros leave empty,"
        return 8 * self._message_numbers(message_storage.single_stretch_schedule(tree, self.network, among).most, tree), what

    def columns(self, tree: JunctionTreeLayout, state: OrderSearch) -> list[PossibleColumns | None]:
        """The possible states of messages, where there is much to compute and zeros that make it less."""
        if self.counted is None or self.counted[0] != tree.scopes:
            self.counted = tree.scopes, sparse_cliques.possible_if_worthwhile(self.network, tree, state.cells, self.limit)
        return self.counted[1]

    def tree(self, state: OrderSearch) -> JunctionTreeLayout:
        """The cliques of the best order, or of the best without evidence where that takes less: evidence shall never cost memory."""
        found = junction_tree.plan_tree(self.network, state.order)
        if state.unheld is None:
            return found
        other = junction_tree.plan_tree(self.network, state.unheld)
        return min(
            found, other, key=lambda tree: self._message_numbers(message_storage.single_stretch_schedule(tree, self.network).most, tree)
        )

    def _message_numbers(self, kept: int, tree: JunctionTreeLayout) -> int:
        """Messages that are kept, and slabs of the largest clique, with what is summed from them."""
        states = self.network.cardinality.tolist()
        largest = max((math.prod(states[i] for i in scope) for scope in tree.scopes), default=0)
        return kept + min(3 * largest, table_arithmetic.SLABS)

    def smaller_plans(self, state: OrderSearch) -> list[SmallPlan]:
        """Ways to propagate in less memory than `bytes_needed` says, the fastest first."""
        if not state.complete or self.settings.message_passing != "hugin":
            return []
        tree = self.tree(state)
        among = self.columns(tree, state)
        every, fewest = (
            message_storage.single_stretch_schedule(tree, self.network, among),
            message_storage.least_memory_schedule(tree, self.network, among),
        )
        return [
            SmallPlan(fewest, 8 * self._message_numbers(fewest.most, tree), 0),
            SmallPlan(every, 8 * self._message_numbers(every.largest, tree), 8 * every.most),
            SmallPlan(fewest, 8 * self._message_numbers(fewest.largest, tree), 8 * fewest.most),
        ]

    def fit_schedule(self, state: OrderSearch, limit: int, room: int) -> SmallPlan | None:
        """The fastest way that takes at most `limit` bytes of memory and `room` of a file, where there is one."""
        if (size := self.bytes_needed(state)[0]) <= limit:
            return SmallPlan(None, size, 0)
        return next((way for way in self.smaller_plans(state) if way.memory <= limit and way.file <= room), None)

    def least(self, state: OrderSearch, limit: int, room: int) -> tuple[int, bool]:
        """Bytes of the way that fits, else of the one that takes least memory without a file; and whether one fits."""
        if (way := self.fit_schedule(state, limit, room)) is not None:
            return way.memory, True
        ways = [way.memory for way in self.smaller_plans(state) if not way.file]
        return min(ways, default=self.bytes_needed(state)[0]), False

    def with_schedule(self, plan: MessageSchedule | None, place: MessageStore | None) -> None:
        """Propagate by this schedule, with messages kept in this place."""
        self.chosen, self.messages = plan, place

    def remaining(self, state: OrderSearch) -> tuple[float, int]:
        """Seconds of propagation, and its bytes where all messages are kept in memory.

        Where numbers may be too far apart for a float64 and the propagation is short it is done, which tells.
        """
        tree = self.tree(state)
        among = self.columns(tree, state)
        told, size = (
            cost_forecast.propagation_seconds(tree, self.network, among, back=True),
            cost_forecast.peak_bytes(tree, self.network, among),
        )
        if told > cost_forecast.SHORT or size > self.limit or cost_forecast.fits_float64(self.network):
            return told, size
        try:
            streamed_propagation.PropagationRun(
                self.network,
                tree,
                message_storage.single_stretch_schedule(tree, self.network),
                True,
                message_storage.MemoryMessageStore(),
                self.map,
                among,
                LinearArithmetic(),
            ).found()
        except FloatingPointError:
            return cost_forecast.LOGS * told, cost_forecast.peak_bytes(tree, self.network, among, logs=True) - size
        return 0.0, 0

    def result(self, state: OrderSearch) -> InferenceResult:
        """All marginals and log Z."""
        tree = self.tree(state)
        if self.settings.message_passing == "hugin":
            plan = self.chosen or message_storage.single_stretch_schedule(tree, self.network)
            whole = self.settings.output_marginals != "nodes"
            among = self.columns(tree, state)
            made = streamed_propagation.propagate(
                self.network, tree, plan, whole=whole, messages=self.messages, map=self.map, columns=among
            )
            nodes, cliques, log_z = made.nodes, made.factors, made.log_z
        else:
            found = junction_tree.calibrate_without_division(self.network, tree)
            cliques = junction_tree.factor_marginals(self.network, found)
            nodes, log_z = junction_tree.node_marginals(self.network, found), found.log_z
        attributes = {"log_z": log_z, "free_energy": -log_z, "iterations": state.step}
        return InferenceResult(self.trimmed.nodes(nodes), self.trimmed.factors(cliques), attributes)


@dataclass(frozen=True)
class EliminationOrders:
    """The steps of a junction tree by themselves: the algorithm whose result is the order that was found, and its size."""

    tree: JunctionTree
    state = OrderSearch  # the type of its states

    def init(self) -> OrderSearch:
        """No order yet."""
        return self.tree.init()

    def step(self, state: OrderSearch) -> OrderSearch:
        """One more randomised run."""
        return self.tree.step(state)

    def done(self, state: OrderSearch) -> bool:
        """Whether no better order is looked for."""
        return self.tree.done(state)

    def memory(self) -> int:
        """Nothing to speak of."""
        return 0

    def progress(self, state: OrderSearch) -> RunProgress:
        """The size of the best tree so far."""
        return self.tree.progress(state)

    def result(self, state: OrderSearch) -> OrderSearch:
        """The search itself."""
        return state


class Enumeration(ToTolerance[EnumerationState, InferenceSettings], HasStateShapes[EnumerationState]):
    """The joint table; with observed marginals the steps are sweeps of proportional fitting."""

    state = EnumerationState

    def __init__(self, network: Network, settings: InferenceSettings) -> None:
        self.network, self.settings = network, settings
        self.steps = settings.iterations if network.observations() else 0

    def like(self) -> EnumerationState:
        """A joint table that nothing has been worked out for."""
        return EnumerationState(np.empty(enumeration.joint_shape(self.network)), np.empty(0), 0)

    def init(self) -> EnumerationState:
        """P over all states."""
        return enumeration.initial_joint(self.network)

    def step(self, state: EnumerationState) -> EnumerationState:
        """One sweep over the observed marginals."""
        return enumeration.fitting_sweep(self.network, state)

    def bytes_needed(self, state: EnumerationState) -> tuple[int, str]:
        """Temporary copies of the joint table."""
        return 32 * math.prod(enumeration.joint_shape(self.network)), "the joint table"

    def result(self, state: EnumerationState) -> InferenceResult:
        """Marginals, and −KL to the unnormalised P."""
        nodes, cliques, log_z = enumeration.joint_results(self.network, state)
        residual = float(state.residual[-1]) if len(state.residual) else 0.0
        trace = Trace(state.residual, np.full(len(state.residual), np.nan))
        scalings = len(self.network.observations()) * state.step
        converged = self.steps == 0 or self.met(state)
        attributes = {"log_z": log_z, "free_energy": -log_z, "iterations": state.step, "residual": residual, "trace": trace}
        return InferenceResult(nodes, cliques, attributes | {"converged": converged, "scaling_updates": scalings})
