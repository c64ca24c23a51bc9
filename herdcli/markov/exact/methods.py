"""The exact algorithms as methods: junction tree and enumeration."""

from __future__ import annotations

import math
import time
from copy import copy

import numpy as np

from herdcli.algorithm import Progress
from herdcli.markov.exact import elimination, enumeration, junction_tree
from herdcli.markov.exact.elimination import Search
from herdcli.markov.exact.enumeration import State
from herdcli.markov.method import Result, Settings, Stepwise, ToTolerance
from herdcli.markov.model.beliefs import Trace
from herdcli.markov.model.network import Network
from herdcli.records import dataclass

TRIAL = 1 << 18  # cells


class JunctionTree(Stepwise[Search]):
    """The steps look for an elimination order; the result propagates over the cliques of the best one."""

    state = Search

    def __init__(self, network: Network, settings: Settings) -> None:
        self.network, self.settings, self.steps = network, settings, settings.orders
        self.graph = elimination.moral_graph(network)
        self.begun: Search | None = None

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
        """A forest cannot be improved, and where two runs were hopeless the others will be."""
        return (state.complete and state.width <= 1) or (state.step >= 2 and not state.complete)

    def figure(self, state: Search) -> str:
        """The size of the best tree so far."""
        return f"treewidth {state.width}" if state.complete else ""

    def bytes_needed(self, state: Search) -> tuple[int, str]:
        """Of the tables; for the line that refuses and for the line that is told before the work."""
        least = "" if state.complete else "at least "
        what = f"the junction tree, treewidth {least}{state.width} and 2^{math.log2(max(1, state.cells)):.1f} table cells,"
        if not state.complete:
            return int(min(state.cells, 2.0**60)) * 16, what
        return junction_tree.plan(self.network, state.order).bytes_needed(self.network), what

    def remaining(self, state: Search) -> tuple[float, int]:
        """Seconds of propagation, from a trial on one small table, and its bytes."""
        trial, started = np.zeros((2, TRIAL // 2)), time.process_time()
        for _ in range(4):  # two messages a clique, and as much again to place them and to read marginals
            junction_tree.log_sum(trial, (0,))
        return state.cells / TRIAL * (time.process_time() - started), self.bytes_needed(state)[0]

    def result(self, state: Search) -> Result:
        """All marginals and log Z."""
        hugin = self.settings.message_passing == "hugin"
        propagate = junction_tree.calibrate if hugin else junction_tree.calibrate_without_division
        found = propagate(self.network, junction_tree.plan(self.network, state.order))
        cliques = junction_tree.factor_marginals(self.network, found)
        attributes = {"log_z": found.log_z, "free_energy": -found.log_z, "iterations": state.step}
        return Result(junction_tree.node_marginals(self.network, found), cliques, attributes)


@dataclass(frozen=True)
class Orders:
    """The steps of a junction tree by themselves: the algorithm whose result is the order that was found, and its size."""

    tree: JunctionTree

    @property
    def state(self) -> type[Search]:
        """The type of its states."""
        return Search

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


class Enumerate(ToTolerance[State, Settings]):
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
        return 4 * state.joint.nbytes, "the joint table"

    def result(self, state: State) -> Result:
        """Marginals, and −KL to the unnormalised P."""
        nodes, cliques, log_z = enumeration.results(self.network, state)
        residual = float(state.residual[-1]) if len(state.residual) else 0.0
        trace = Trace(state.residual, np.full(len(state.residual), np.nan))
        scalings = len(self.network.observations()) * state.step
        converged = self.steps == 0 or self.met(state)
        attributes = {"log_z": log_z, "free_energy": -log_z, "iterations": state.step, "residual": residual, "trace": trace}
        return Result(nodes, cliques, attributes | {"converged": converged, "scaling_updates": scalings})
