"""Elimination orders in stages: summed variables before maximised ones, and some variables remain.

Greedy runs as in `exact.elimination`, by fill in even steps and by weight in odd ones, with random ties.  The choice is
restricted to one stage at a time.  Source: Park & Darwiche (2004), constrained orders for marginal MAP; Kjærulff (1990).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from herdcli.algorithm import RunProgress, run_algorithm
from herdcli.markov.exact.elimination import HOPELESS, Graph, moral_graph
from herdcli.markov.exact.exact_algorithms import EliminationOrderAlgorithm as JunctionTreeOrders
from herdcli.markov.exact.exact_algorithms import JunctionTree
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model.network import MOST_AXES, Network
from herdcli.markov.model.possible_states import TrimmedNetwork
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

STAYS = -1


@dataclass
class StagedOrder:
    """The best order so far of the eliminated variables.

    cells     number of cells of all tables, including the remaining one.
    largest   number of cells of the largest table.
    complete  False if every run was abandoned.
    """

    order: Array
    cells: float
    largest: float
    width: int
    complete: bool
    step: int


@dataclass(frozen=True)
class StagedOrderSearch:
    """The search for a staged order as an algorithm, on a network without states that its zeros make impossible.

    stage  (N,) the stage of each variable, −1 for those that remain.
    """

    trimmed: TrimmedNetwork
    stage: tuple[int, ...]
    steps: int
    seed: int
    state = StagedOrder  # the type of its states

    @property
    def network(self) -> Network:
        """The network whose variables are ordered."""
        return self.trimmed.network

    def init(self) -> StagedOrder:
        """Return an empty search; without constraints between variables, return the order of the junction tree."""
        stages = {stage for stage, states in zip(self.stage, self.network.cardinality.tolist(), strict=True) if states > 1}
        if len(stages) <= 1 and STAYS not in stages:
            settings = InferenceSettings(algorithm="junction-tree", orders=self.steps, seed=self.seed)
            tree = JunctionTree(self.network, settings, trimmed=self.trimmed)
            found = run_algorithm(JunctionTreeOrders(tree))
            if found.complete:
                order = np.argsort(np.array(tree.tree(found).position))
                return StagedOrder(
                    order, *_order_cost(moral_graph(self.network), self.network.cardinality.tolist(), order), True, self.steps
                )
        return StagedOrder(np.empty(0, dtype=np.int64), 0.0, 0.0, 0, False, 0)

    def step(self, state: StagedOrder) -> StagedOrder:
        """Do one more run, abandoned once it is worse than the best."""
        ties = generator(self.seed, Stream.ELIMINATION, step=state.step).random(self.network.count).tolist()
        limit = state.cells if state.complete else float(HOPELESS)
        made = find_greedy_order(moral_graph(self.network), self.network.cardinality.tolist(), self.stage, ties, state.step % 2 == 0, limit)
        made.step = state.step + 1
        if made.complete and (not state.complete or made.cells < state.cells):
            return made
        if not state.complete:
            state.cells, state.width, state.largest = made.cells, made.width, made.largest
        state.step += 1
        return state

    def done(self, state: StagedOrder) -> bool:
        """Return True if all runs are done, the tree is a chain, which cannot be improved, or two runs were hopeless."""
        return state.step >= self.steps or (state.complete and state.width <= 1) or (state.step >= 2 and not state.complete)

    def memory(self) -> int:
        """Return 0, because the search needs little memory."""
        return 0

    def progress(self, state: StagedOrder) -> RunProgress:
        """The number of runs done."""
        return RunProgress(state.step, self.steps, f"2^{math.log2(max(1.0, state.cells)):.1f} cells" if state.complete else "")

    def result(self, state: StagedOrder) -> StagedOrder:
        """Return the search."""
        return state


def find_greedy_order(
    graph: Graph, states: Sequence[int], stage: Sequence[int], ties: Sequence[float], by_fill: bool, limit: float
) -> StagedOrder:
    """Do one greedy elimination; it modifies the graph.  A price is recomputed when its variable reaches the top of the heap."""
    weight = [math.log2(count) for count in states]

    def price(i: int) -> float:
        near = graph[i]
        if by_fill:
            return sum(len(near) - 1 - len(near & graph[j]) for j in near) / 2
        return sum(weight[j] for j in near)

    heap = [(stage[i], price(i), ties[i], i) for i in range(len(graph)) if stage[i] != STAYS]
    heapq.heapify(heap)
    order: list[int] = []
    gone: set[int] = set()
    cells, largest, width = 0.0, 0.0, 0
    while heap:
        when, told, tie, i = heapq.heappop(heap)
        if i in gone:
            continue
        now = price(i)
        if now > told:
            heapq.heappush(heap, (when, now, tie, i))
            continue
        near = graph[i]
        size = 2.0 ** min(weight[i] + sum(weight[j] for j in near), 1000.0)
        cells, largest, width = cells + size, max(largest, size), max(width, len(near))
        if cells > limit or width >= MOST_AXES:
            return StagedOrder(np.empty(0, dtype=np.int64), cells, largest, width, False, 0)
        order.append(i)
        gone.add(i)
        eliminate_variable(graph, i)
        for j in near:
            if stage[j] != STAYS:
                heapq.heappush(heap, (stage[j], price(j), ties[j], j))
    kept = [i for i in range(len(graph)) if stage[i] == STAYS and states[i] > 1]
    if kept:
        size = 2.0 ** min(sum(weight[i] for i in kept), 1000.0)
        cells, largest, width = cells + size, max(largest, size), max(width, len(kept) - 1)
    complete = cells <= limit and width < MOST_AXES
    return StagedOrder(np.array(order, dtype=np.int64), cells, largest, width, complete, 0)


def find_relaxed_order(graph: Graph, states: Sequence[int], maximised: Sequence[int], cap: float) -> list[int]:
    """Return an order of all variables in which maxima may precede sums if a table would otherwise exceed 2^cap cells.

    Sums with small enough tables come first, by fill; then maxima with such tables, then the variable with the smallest table.
    It modifies the graph.
    """
    weight, late = [math.log2(count) for count in states], set(maximised)

    def price(i: int) -> tuple[int, float, float]:
        near = graph[i]
        size = weight[i] + sum(weight[j] for j in near)
        if size > cap:
            return 2, size, 0.0
        return int(i in late), sum(len(near) - 1 - len(near & graph[j]) for j in near) / 2, size

    heap = [(price(i), i) for i in range(len(graph))]
    heapq.heapify(heap)
    order: list[int] = []
    gone: set[int] = set()
    while heap:
        told, i = heapq.heappop(heap)
        if i in gone:
            continue
        now = price(i)
        if now > told:
            heapq.heappush(heap, (now, i))
            continue
        near = graph[i]
        order.append(i)
        gone.add(i)
        eliminate_variable(graph, i)
        for j in near:
            heapq.heappush(heap, (price(j), j))
    return order


def _order_cost(graph: Graph, states: Sequence[int], order: Array) -> tuple[float, float, int]:
    """Return the cells of all tables, of the largest, and the width of an order; it modifies the graph."""
    cells, largest, width = 0.0, 0.0, 0
    for i in order.tolist():
        size = math.prod([float(states[i]), *(float(states[j]) for j in graph[i])])
        cells, largest, width = cells + size, max(largest, size), max(width, len(graph[i]))
        eliminate_variable(graph, i)
    return cells, largest, width


def eliminate_variable(graph: Graph, i: int) -> None:
    """Join the neighbours of i and remove i."""
    near = graph[i]
    for j in near:
        graph[j].discard(i)
    for j, k in combinations(near, 2):
        graph[j].add(k)
        graph[k].add(j)
    graph[i] = set()


def elimination_bytes(order: StagedOrder) -> int:
    """Return the bytes of elimination: at most a message and a best state for each cell, and three tables of the largest size."""
    return int(min(9.0 * order.cells + 24.0 * order.largest, 2.0**60))
