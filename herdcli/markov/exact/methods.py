"""The exact algorithms as methods: junction tree and enumeration."""

from __future__ import annotations

import math
from copy import copy

import numpy as np

from herdcli.algorithm import Progress, Shaped
from herdcli.markov.exact import arithmetic, elimination, enumeration, forecast, junction_tree, messages, propagation, sparse
from herdcli.markov.exact.arithmetic import Linear
from herdcli.markov.exact.columns import Columns
from herdcli.markov.exact.elimination import Search
from herdcli.markov.exact.enumeration import State
from herdcli.markov.exact.junction_tree import Tree
from herdcli.markov.exact.messages import Messages, Schedule
from herdcli.markov.method import Map, Result, Settings, Stepwise, ToTolerance
from herdcli.markov.model import support
from herdcli.markov.model.beliefs import Trace
from herdcli.markov.model.network import Network
from herdcli.markov.model.support import Trimmed
from herdcli.records import dataclass


@dataclass(frozen=True)
class Small:
    """A schedule (None: the usual one), its bytes in memory, and those of messages in a file (0: they are not kept there)."""

    plan: Schedule | None
    memory: int
    file: int


class JunctionTree(Stepwise[Search]):
    """The steps look for an elimination order; the result propagates over the cliques of the best one.

    States that the zeros make impossible are left out of all tables.
    """

    state = Search

    def __init__(
        self, network: Network, settings: Settings, map: Map = map, limit: float = math.inf, trimmed: Trimmed | None = None
    ) -> None:
        self.settings, self.steps, self.map = settings, elimination.MORE * settings.orders, map
        self.trimmed = trimmed or support.trimmed(network)
        self.network = self.trimmed.network
        self.graph = elimination.moral_graph(self.network)
        self.begun: Search | None = None
        self.limit = limit  # bytes that may be taken to find what zeros leave empty
        self.messages: Messages | None = None  # where they go, where not into memory
        self.chosen: Schedule | None = None
        self.counted: tuple[list[list[int]], list[Columns | None]] | None = None  # of the cliques that they were found for

    def init(self) -> Search:
        """No order yet, or those that were found before."""
        return elimination.begin(self.network) if self.begun is None else self.begun

    def searched(self, state: Search) -> JunctionTree:
        """The same, from orders that are found."""
        made = copy(self)
        made.begun = state
        return made

    def step(self, state: Search) -> Search:
        """One more randomised run."""
        return elimination.step(self.network, self.graph, self.settings.seed, state)

    def met(self, state: Search) -> bool:
        """A forest cannot be improved, where two runs were hopeless the others will be, and more than `orders` are only for large trees."""
        if elimination.enough(self.network, state, self.settings.orders):
            return True
        return state.width <= 1 if state.complete else state.step >= (1 if self.network.count > elimination.LONGEST else 2)

    def figure(self, state: Search) -> str:
        """The size of the best tree so far."""
        return f"treewidth {state.width}" if state.complete else ""

    def bytes_needed(self, state: Search) -> tuple[int, str]:
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
        return 8 * self._numbers(messages.all_kept(tree, self.network, among).most, tree), what

    def columns(self, tree: Tree, state: Search) -> list[Columns | None]:
        """The possible states of messages, where there is much to compute and zeros that make it less."""
        if self.counted is None or self.counted[0] != tree.scopes:
            self.counted = tree.scopes, sparse.counted(self.network, tree, state.cells, self.limit)
        return self.counted[1]

    def tree(self, state: Search) -> Tree:
        """The cliques of the best order, or of the best without evidence where that takes less: evidence shall never cost memory."""
        found = junction_tree.plan(self.network, state.order)
        if state.unheld is None:
            return found
        other = junction_tree.plan(self.network, state.unheld)
        return min(found, other, key=lambda tree: self._numbers(messages.all_kept(tree, self.network).most, tree))

    def _numbers(self, kept: int, tree: Tree) -> int:
        """Messages that are kept, and slabs of the largest clique, with what is summed from them."""
        states = self.network.cardinality.tolist()
        largest = max((math.prod(states[i] for i in scope) for scope in tree.scopes), default=0)
        return kept + min(3 * largest, arithmetic.SLABS)

    def smaller(self, state: Search) -> list[Small]:
        """Ways to propagate in less memory than `bytes_needed` says, the fastest first."""
        if not state.complete or self.settings.message_passing != "hugin":
            return []
        tree = self.tree(state)
        among = self.columns(tree, state)
        every, fewest = messages.all_kept(tree, self.network, among), messages.fewest_kept(tree, self.network, among)
        return [
            Small(fewest, 8 * self._numbers(fewest.most, tree), 0),
            Small(every, 8 * self._numbers(every.largest, tree), 8 * every.most),
            Small(fewest, 8 * self._numbers(fewest.largest, tree), 8 * fewest.most),
        ]

    def fitting(self, state: Search, limit: int, room: int) -> Small | None:
        """The fastest way that takes at most `limit` bytes of memory and `room` of a file, where there is one."""
        if (size := self.bytes_needed(state)[0]) <= limit:
            return Small(None, size, 0)
        return next((way for way in self.smaller(state) if way.memory <= limit and way.file <= room), None)

    def least(self, state: Search, limit: int, room: int) -> tuple[int, bool]:
        """Bytes of the way that fits, else of the one that takes least memory without a file; and whether one fits."""
        if (way := self.fitting(state, limit, room)) is not None:
            return way.memory, True
        ways = [way.memory for way in self.smaller(state) if not way.file]
        return min(ways, default=self.bytes_needed(state)[0]), False

    def scheduled(self, plan: Schedule | None, place: Messages | None) -> None:
        """Propagate by this schedule, with messages kept in this place."""
        self.chosen, self.messages = plan, place

    def remaining(self, state: Search) -> tuple[float, int]:
        """Seconds of propagation, and its bytes where all messages are kept in memory.

        Where numbers may be too far apart for a float64 and the propagation is short it is done, which tells.
        """
        tree = self.tree(state)
        among = self.columns(tree, state)
        told, size = forecast.seconds(tree, self.network, among, back=True), forecast.peak(tree, self.network, among)
        if told > forecast.SHORT or size > self.limit or forecast.narrow(self.network):
            return told, size
        try:
            propagation.Run(
                self.network, tree, messages.all_kept(tree, self.network), True, messages.Kept(), self.map, among, Linear()
            ).found()
        except FloatingPointError:
            return forecast.LOGS * told, forecast.peak(tree, self.network, among, logs=True) - size
        return 0.0, 0

    def result(self, state: Search) -> Result:
        """All marginals and log Z."""
        tree = self.tree(state)
        if self.settings.message_passing == "hugin":
            plan = self.chosen or messages.all_kept(tree, self.network)
            whole = self.settings.output_marginals != "nodes"
            among = self.columns(tree, state)
            made = propagation.propagate(self.network, tree, plan, whole=whole, messages=self.messages, map=self.map, columns=among)
            nodes, cliques, log_z = made.nodes, made.factors, made.log_z
        else:
            found = junction_tree.calibrate_without_division(self.network, tree)
            cliques = junction_tree.factor_marginals(self.network, found)
            nodes, log_z = junction_tree.node_marginals(self.network, found), found.log_z
        attributes = {"log_z": log_z, "free_energy": -log_z, "iterations": state.step}
        return Result(self.trimmed.nodes(nodes), self.trimmed.factors(cliques), attributes)


@dataclass(frozen=True)
class Orders:
    """The steps of a junction tree by themselves: the algorithm whose result is the order that was found, and its size."""

    tree: JunctionTree
    state = Search  # the type of its states

    def init(self) -> Search:
        """No order yet."""
        return self.tree.init()

    def step(self, state: Search) -> Search:
        """One more randomised run."""
        return self.tree.step(state)

    def done(self, state: Search) -> bool:
        """Whether no better order is looked for."""
        return self.tree.done(state)

    def memory(self) -> int:
        """Nothing to speak of."""
        return 0

    def progress(self, state: Search) -> Progress:
        """The size of the best tree so far."""
        return self.tree.progress(state)

    def result(self, state: Search) -> Search:
        """The search itself."""
        return state


class Enumerate(ToTolerance[State, Settings], Shaped[State]):
    """The joint table; with observed marginals the steps are sweeps of proportional fitting."""

    state = State

    def __init__(self, network: Network, settings: Settings) -> None:
        self.network, self.settings = network, settings
        self.steps = settings.iterations if network.observations() else 0

    def like(self) -> State:
        """A joint table that nothing has been worked out for."""
        return State(np.empty(enumeration.shape(self.network)), np.empty(0), 0)

    def init(self) -> State:
        """P over all states."""
        return enumeration.init(self.network)

    def step(self, state: State) -> State:
        """One sweep over the observed marginals."""
        return enumeration.step(self.network, state)

    def bytes_needed(self, state: State) -> tuple[int, str]:
        """Temporary copies of the joint table."""
        return 32 * math.prod(enumeration.shape(self.network)), "the joint table"

    def result(self, state: State) -> Result:
        """Marginals, and −KL to the unnormalised P."""
        nodes, cliques, log_z = enumeration.results(self.network, state)
        residual = float(state.residual[-1]) if len(state.residual) else 0.0
        trace = Trace(state.residual, np.full(len(state.residual), np.nan))
        scalings = len(self.network.observations()) * state.step
        converged = self.steps == 0 or self.met(state)
        attributes = {"log_z": log_z, "free_energy": -log_z, "iterations": state.step, "residual": residual, "trace": trace}
        return Result(nodes, cliques, attributes | {"converged": converged, "scaling_updates": scalings})
