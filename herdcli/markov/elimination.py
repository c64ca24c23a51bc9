"""Elimination orders: the best of several randomised runs of min-fill and min-weight.

Eliminating a variable joins its neighbours; the cells of the tables that this makes are what exact inference costs.
Source: Kjærulff (1990); Teh (2003), sec. 2.2.2.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from herdcli.markov.network import MOST_AXES, Network
from herdcli.rng import Stream, generator
from herdcli.schema import Array

HOPELESS = 1 << 48  # cells at which a run is given up, if there is nothing better to compare with

Graph = list[set[int]]


@dataclass
class Search:
    """The best order so far.  cells is the number of table cells over all cliques, 0 before the first run.

    width  the number of variables of the largest clique less one.  complete  False if every run was given up.
    """

    order: Array
    cells: float
    width: int
    complete: bool
    step: int


def begin(network: Network) -> Search:
    """Nothing found yet."""
    return Search(np.empty(0, dtype=np.int64), 0.0, 0, False, 0)


def moral_graph(network: Network) -> Graph:
    """Neighbours of each variable; variables of one state have none, as they cost nothing."""
    graph: Graph = [set() for _ in range(network.count)]
    single = set(np.flatnonzero(network.cardinality == 1).tolist())
    scope, starts = network.scope.tolist(), network.scope_offset.tolist()
    for low, high in pairwise(starts):
        variables = [i for i in scope[low:high] if i not in single]
        for i in variables:
            graph[i].update(variables)
    for i, near in enumerate(graph):
        near.discard(i)
    return graph


def step(network: Network, graph: Graph, seed: int, state: Search) -> Search:
    """One more run, min-fill in even steps and min-weight in odd ones; given up once it costs more than the best."""
    by_fill = state.step % 2 == 0
    ties = generator(seed, Stream.ELIMINATION, step=state.step).random(network.count)
    limit = state.cells if state.complete else HOPELESS
    order, cells, width = _run([set(near) for near in graph], network.cardinality.tolist(), by_fill, ties.tolist(), limit)
    if order is None:
        if not state.complete:
            state.cells, state.width = max(state.cells, cells), max(state.width, width)
    elif not state.complete or cells < state.cells:
        state = Search(np.array(order, dtype=np.int64), cells, width, True, state.step)
    state.step += 1
    return state


def _run(graph: Graph, states: list[int], by_fill: bool, ties: list[float], limit: float) -> tuple[list[int] | None, float, int]:
    """One greedy elimination: order, cells, width; no order if `limit` was passed."""
    weight = [math.log2(count) for count in states]

    def cost(i: int) -> float:
        near = graph[i]
        if by_fill:
            return sum(len(near) - 1 - len(near & graph[j]) for j in near) / 2
        return sum(weight[j] for j in near)

    now = [cost(i) for i in range(len(graph))]
    heap = [(now[i], ties[i], i) for i in range(len(graph))]
    heapq.heapify(heap)
    gone = [False] * len(graph)
    order, cells, width = [], 0.0, 0
    while heap:
        value, _, i = heapq.heappop(heap)
        if gone[i] or value != now[i]:
            continue
        near = graph[i]
        size = sum(weight[j] for j in near) + weight[i]
        cells, width = cells + 2.0 ** min(size, 1000.0), max(width, len(near))
        if cells > limit or width >= MOST_AXES:
            return None, cells, width
        order.append(i)
        gone[i] = True
        for j in _eliminate(graph, i, by_fill):
            changed = cost(j)
            if changed != now[j]:
                now[j] = changed
                heapq.heappush(heap, (changed, ties[j], j))
    return order, cells, width


def _eliminate(graph: Graph, i: int, by_fill: bool) -> set[int]:
    """Join the neighbours of i and take it away; returns the variables whose cost may have changed."""
    near = graph[i]
    touched = set(near)
    for j in near:
        graph[j].discard(i)
    for j, k in combinations(near, 2):
        if k not in graph[j]:
            if by_fill:
                touched |= graph[j] & graph[k]
            graph[j].add(k)
            graph[k].add(j)
    graph[i] = set()
    return touched
