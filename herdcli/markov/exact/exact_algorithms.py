"""The exact algorithms as inference methods: junction tree and enumeration."""

from __future__ import annotations

import math
from copy import copy

import numpy as np

from herdcli.algorithm import HasStateShapes, Map, RunProgress
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
from herdcli.markov.method import InferenceResult, InferenceSettings, Stepwise, ToTolerance
from herdcli.markov.model import possible_states
from herdcli.markov.model.beliefs import ConvergenceTrace
from herdcli.markov.model.network import Network
from herdcli.markov.model.possible_states import TrimmedNetwork
from herdcli.records import dataclass


@dataclass(frozen=True)
class LowMemoryPlan:
    """A schedule that needs less memory.

    plan    the schedule, None for the default one.
    memory  bytes of memory.
    file    bytes of messages in a file, 0 if messages are not stored in a file.
    """

    plan: MessageSchedule | None
    memory: int
    file: int


class JunctionTree(Stepwise[OrderSearch]):
    """The junction tree algorithm: its steps search for an elimination order; the result propagates over the cliques of the best one.

    States that the zeros make impossible are left out of all tables.
    """

    state = OrderSearch

    def __init__(
        self, network: Network, settings: InferenceSettings, map: Map = map, limit: float = math.inf, trimmed: TrimmedNetwork | None = None
    ) -> None:
        self.settings, self.steps, self.map = settings, elimination.MORE * settings.orders, map
        self.trimmed = trimmed or possible_states.remove_impossible_states(network)
        self.network = self.trimmed.network
        self.graph = elimination.moral_graph(self.network)
        self.begun: OrderSearch | None = None
        self.limit = limit  # bytes that may be used to find the entries that zeros exclude
        self.messages: MessageStore | None = None  # the store for messages, None for memory
        self.chosen: MessageSchedule | None = None
        self.counted: tuple[list[list[int]], list[PossibleColumns | None]] | None = None  # and the cliques that they were computed for

    def init(self) -> OrderSearch:
        """Return an empty search, or the search to continue."""
        return elimination.initial_order_search(self.network) if self.begun is None else self.begun

    def continue_from_orders(self, state: OrderSearch) -> JunctionTree:
        """Return the same algorithm, continued from orders that were found before."""
        made = copy(self)
        made.begun = state
        return made

    def step(self, state: OrderSearch) -> OrderSearch:
        """Do one more randomised run."""
        return elimination.try_more_orders(self.network, self.graph, self.settings.seed, state)

    def meets_criterion(self, state: OrderSearch) -> bool:
        """Return True if no further order is needed.

        A forest cannot be improved.  After two hopeless runs the others will be hopeless too.  More than `orders` runs are only for large
        trees.
        """
        if elimination.has_enough_orders(self.network, state, self.settings.orders):
            return True
        return state.width <= 1 if state.complete else state.step >= (1 if self.network.count > elimination.LONGEST else 2)

    def progress_text(self, state: OrderSearch) -> str:
        """The size of the best tree so far, as text."""
        return f"treewidth {state.width}" if state.complete else ""

    def bytes_needed(self, state: OrderSearch) -> tuple[int, str]:
        """Return the bytes of the messages, or of the tables for message passing other than Hugin's, and their purpose in words.

        The text describes them, for messages to the user.
        """
        least = "" if state.complete else "at least "
        what = f"the junction tree, treewidth {least}{state.width} and 2^{math.log2(max(1, state.cells)):.1f} table cells,"
        if not state.complete:
            return int(min(max(state.cells, float(elimination.HOPELESS)), 2.0**60)) * 16, what  # wherever the run was abandoned
        tree = self.tree(state)
        if self.settings.message_passing != "hugin":
            return tree.bytes_needed(self.network), what
        among = self.columns(tree, state)
        if any(columns is not None for columns in among):
            what = f"{what[:-1]} without those that zeros leave empty,"
        return 8 * self._message_storage_size(message_storage.single_stretch_schedule(tree, self.network, among).most, tree), what

    def columns(self, tree: JunctionTreeLayout, state: OrderSearch) -> list[PossibleColumns | None]:
        """Return the possible states of messages, if there is much to compute and zeros reduce it."""
        if self.counted is None or self.counted[0] != tree.scopes:
            self.counted = tree.scopes, sparse_cliques.possible_columns_if_worthwhile(self.network, tree, state.cells, self.limit)
        return self.counted[1]

    def tree(self, state: OrderSearch) -> JunctionTreeLayout:
        """Return the cliques of the best order, or of the best order without evidence if they need less memory.

        So evidence never increases the memory.
        """
        found = junction_tree.build_clique_tree(self.network, state.order)
        if state.unheld is None:
            return found
        other = junction_tree.build_clique_tree(self.network, state.unheld)
        return min(
            found,
            other,
            key=lambda tree: self._message_storage_size(message_storage.single_stretch_schedule(tree, self.network).most, tree),
        )

    def _message_storage_size(self, stored_numbers: int, tree: JunctionTreeLayout) -> int:
        """Return how many numbers the stored messages, and slabs of the largest clique with their sums, need."""
        states = self.network.cardinality.tolist()
        largest = max((math.prod(states[i] for i in scope) for scope in tree.scopes), default=0)
        return stored_numbers + min(3 * largest, table_arithmetic.SLABS)

    def low_memory_plans(self, state: OrderSearch) -> list[LowMemoryPlan]:
        """Return schedules that need less memory than `bytes_needed` returns, the fastest first."""
        if not state.complete or self.settings.message_passing != "hugin":
            return []
        tree = self.tree(state)
        among = self.columns(tree, state)
        every, fewest = (
            message_storage.single_stretch_schedule(tree, self.network, among),
            message_storage.least_memory_schedule(tree, self.network, among),
        )
        return [
            LowMemoryPlan(fewest, 8 * self._message_storage_size(fewest.most, tree), 0),
            LowMemoryPlan(every, 8 * self._message_storage_size(every.largest, tree), 8 * every.most),
            LowMemoryPlan(fewest, 8 * self._message_storage_size(fewest.largest, tree), 8 * fewest.most),
        ]

    def find_fitting_schedule(self, state: OrderSearch, max_bytes: int, file_bytes: int) -> LowMemoryPlan | None:
        """Return the fastest schedule that needs at most `max_bytes` bytes of memory and `file_bytes` bytes of a file; None if there is
        none."""
        if (size := self.bytes_needed(state)[0]) <= max_bytes:
            return LowMemoryPlan(None, size, 0)
        return next((way for way in self.low_memory_plans(state) if way.memory <= max_bytes and way.file <= file_bytes), None)

    def smallest_memory_need(self, state: OrderSearch, max_bytes: int, file_bytes: int) -> tuple[int, bool]:
        """Return the memory of the schedule that fits, otherwise of the smallest one without a file; and whether one fits."""
        if (way := self.find_fitting_schedule(state, max_bytes, file_bytes)) is not None:
            return way.memory, True
        ways = [way.memory for way in self.low_memory_plans(state) if not way.file]
        return min(ways, default=self.bytes_needed(state)[0]), False

    def set_schedule(self, plan: MessageSchedule | None, message_store: MessageStore | None) -> None:
        """Use this schedule for propagation, with messages in this store."""
        self.chosen, self.messages = plan, message_store

    def estimate_cost(self, state: OrderSearch) -> tuple[float, int]:
        """Estimate the seconds of propagation, and its bytes with all messages in memory.

        If the numbers may exceed the range of float64 and the propagation is short, it is run to find out.
        """
        tree = self.tree(state)
        among = self.columns(tree, state)
        told, size = (
            cost_forecast.estimate_propagation_seconds(tree, self.network, among, with_marginals=True),
            cost_forecast.estimate_peak_bytes(tree, self.network, among),
        )
        if told > cost_forecast.SHORT or size > self.limit or cost_forecast.products_fit_float64(self.network):
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
            ).run_propagation()
        except FloatingPointError:
            return cost_forecast.LOGS * told, cost_forecast.estimate_peak_bytes(tree, self.network, among, logs=True) - size
        return 0.0, 0

    def result(self, state: OrderSearch) -> InferenceResult:
        """Compute all marginals and log Z."""
        tree = self.tree(state)
        if self.settings.message_passing == "hugin":
            plan = self.chosen or message_storage.single_stretch_schedule(tree, self.network)
            whole = self.settings.output_marginals != "nodes"
            among = self.columns(tree, state)
            made = streamed_propagation.propagate(
                self.network, tree, plan, with_factor_marginals=whole, messages=self.messages, map=self.map, possible_columns=among
            )
            nodes, cliques, log_z = made.nodes, made.factors, made.log_z
        else:
            found = junction_tree.calibrate_without_division(self.network, tree)
            cliques = junction_tree.factor_marginals(self.network, found)
            nodes, log_z = junction_tree.node_marginals(self.network, found), found.log_z
        attributes = {"log_z": log_z, "free_energy": -log_z, "iterations": state.step}
        return InferenceResult(self.trimmed.nodes(nodes), self.trimmed.factors(cliques), attributes)


@dataclass(frozen=True)
class EliminationOrderAlgorithm:
    """The steps of a junction tree on their own; the result is the order that was found, and its size."""

    tree: JunctionTree
    state = OrderSearch  # the type of its states

    def init(self) -> OrderSearch:
        """Return the state before the first run."""
        return self.tree.init()

    def step(self, state: OrderSearch) -> OrderSearch:
        """Do one more randomised run."""
        return self.tree.step(state)

    def done(self, state: OrderSearch) -> bool:
        """Return True if the search for better orders has ended."""
        return self.tree.done(state)

    def memory(self) -> int:
        """Return 0, because the search needs little memory."""
        return 0

    def progress(self, state: OrderSearch) -> RunProgress:
        """The size of the best tree so far."""
        return self.tree.progress(state)

    def result(self, state: OrderSearch) -> OrderSearch:
        """Return the search."""
        return state


class Enumeration(ToTolerance[EnumerationState, InferenceSettings], HasStateShapes[EnumerationState]):
    """Enumeration of the joint table; with observed marginals the steps are sweeps of proportional fitting."""

    state = EnumerationState

    def __init__(self, network: Network, settings: InferenceSettings) -> None:
        self.network, self.settings = network, settings
        self.steps = settings.iterations if network.stored_marginals() else 0

    def state_template(self) -> EnumerationState:
        """Return a state with an uninitialised joint table."""
        return EnumerationState(np.empty(enumeration.joint_shape(self.network)), np.empty(0), 0)

    def init(self) -> EnumerationState:
        """Return P over all states."""
        return enumeration.initial_joint(self.network)

    def step(self, state: EnumerationState) -> EnumerationState:
        """Do one sweep over the observed marginals."""
        return enumeration.proportional_fitting_sweep(self.network, state)

    def bytes_needed(self, state: EnumerationState) -> tuple[int, str]:
        """Return the bytes of temporary copies of the joint table, and their purpose in words."""
        return 32 * math.prod(enumeration.joint_shape(self.network)), "the joint table"

    def result(self, state: EnumerationState) -> InferenceResult:
        """Compute marginals, and −KL to the unnormalised P."""
        nodes, cliques, log_z = enumeration.joint_marginals_and_log_z(self.network, state)
        residual = float(state.residual[-1]) if len(state.residual) else 0.0
        trace = ConvergenceTrace(state.residual, np.full(len(state.residual), np.nan))
        scalings = len(self.network.stored_marginals()) * state.step
        converged = self.steps == 0 or self.meets_criterion(state)
        attributes = {"log_z": log_z, "free_energy": -log_z, "iterations": state.step, "residual": residual, "trace": trace}
        return InferenceResult(nodes, cliques, attributes | {"converged": converged, "scaling_updates": scalings})
