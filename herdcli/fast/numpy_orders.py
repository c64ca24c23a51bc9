"""Greedy elimination of a graph, elimination in a given order, and linear arrangements.  The twin of `_orders.pyx`.

A graph is given by offset (N + 1,) and near: the neighbours of each variable, ascending.  Sums of floats start from the smallest neighbour.
"""

from __future__ import annotations

import heapq
import math
from itertools import combinations, pairwise

import numpy as np

from herdcli.schema import Array

Graph = list[set[int]]


def greedy_elimination(
    offset: Array, near: Array, states: Array, weight: Array, kind: str, ties: Array, noise: Array, limits: Array, order: Array
) -> tuple[int, float, float, int, float]:
    """Eliminate the variable of lowest price, with ties broken by `ties`, until none is left, and write the order into order (N,).

    kind  the price: `weight` is the sum of the neighbours' logarithms.  The others sum over the edges that are added between neighbours:
          `fill` counts 1 for each, `cells` the joint states of the pair, `logs` the product of both logarithms.
    states, weight (N,)  numbers of states and their logarithms to base 2.
    noise (N,)  a factor of the price; if it is not 1, half an edge is added to the price first.
    limits  (cells and messages, width, looked, much, far): elimination stops past the first two limits.  It also stops past `far` cells
          once more than `much` neighbours of variables with changed prices have been visited, counted from `looked`.

    Returns the number of eliminated variables, cells of all tables and of the largest, the width, and the numbers in all messages.
    """
    graph = _neighbour_sets(offset, near)
    prices, logs, count = _EliminationPrices(graph, states.tolist(), weight.tolist(), kind), weight.tolist(), states.tolist()
    luck, tie = noise.tolist(), ties.tolist()
    most, widest, looked, much, far = limits.tolist()

    def price(i: int) -> float:
        plain = prices.of(i)
        return plain if luck[i] == 1.0 else (plain + 0.5) * luck[i]

    now = [price(i) for i in range(len(graph))]
    heap = [(now[i], tie[i], i) for i in range(len(graph))]
    heapq.heapify(heap)
    gone = [False] * len(graph)
    left, cells, largest, width, messages = 0, 0.0, 0.0, 0, 0.0
    while heap:
        value, _, i = heapq.heappop(heap)
        if gone[i] or value != now[i]:
            continue
        size = 2.0 ** min(_sequential_sum(logs, sorted(graph[i])) + logs[i], 1000.0)
        cells, largest, width, messages = cells + size, max(largest, size), max(width, len(graph[i])), messages + size / count[i]
        if cells + messages > most or width >= widest or (looked > much and cells > far):
            break
        order[left] = i
        left += 1
        gone[i] = True
        for j in _eliminate_variable(graph, i, kind != "weight"):
            changed = price(j)
            looked += len(graph[j])
            if changed != now[j]:
                now[j] = changed
                heapq.heappush(heap, (changed, tie[j], j))
    return left, cells, largest, width, messages


def elimination_along(offset: Array, near: Array, states: Array, order: Array) -> tuple[float, float, int, float, Array, Array]:
    """Return the cells of all tables and of the largest, the width, the numbers in all messages of an order, and the remaining graph."""
    graph, count = _neighbour_sets(offset, near), states.tolist()
    cells, largest, width, messages = 0.0, 0.0, 0, 0.0
    for i in order.tolist():
        size = count[i]
        for j in sorted(graph[i]):
            size *= count[j]
        cells, largest, width, messages = cells + size, max(largest, size), max(width, len(graph[i])), messages + size / count[i]
        _eliminate_variable(graph, i, False)
    left = np.concatenate(([0], np.cumsum([len(each) for each in graph], dtype=np.int64))).astype(np.int64)
    return cells, largest, width, messages, left, np.array([j for each in graph for j in sorted(each)], dtype=np.int64)


def elimination_line(offset: Array, near: Array, weight: Array, by_tie: Array, limit: float, order: Array) -> bool:
    """Write all variables in the order in which they leave a linear arrangement into order (N,).

    Returns False if the frontiers have more cells than `limit`.
    by_tie (N,)  the variables in the order in which searches begin.
    The next variable to enter is the one that makes the frontier smallest.  Ties go to the variable that a breadth-first search reaches
    first, which starts at the variable farthest from where a first search began.
    """
    graph, logs = [sorted(each) for each in _neighbour_sets(offset, near)], weight.tolist()
    beginnings = _breadth_first_from_ends(graph, by_tie.tolist())
    rank = {i: k for k, i in enumerate(beginnings)}
    outside = [len(each) for each in graph]
    entered, frontier = [False] * len(graph), 0.0
    candidates: set[int] = set()
    left: list[int] = []
    cells, begun = 0.0, 0

    def change(i: int) -> float:
        """Return the growth of the frontier when i enters: i if it has neighbours outside, minus variables whose last one outside was i."""
        return (logs[i] if outside[i] else 0.0) - _sequential_sum(logs, [j for j in graph[i] if entered[j] and outside[j] == 1])

    for _ in range(len(graph)):
        if not candidates:
            while entered[beginnings[begun]]:
                begun += 1
            candidates.add(beginnings[begun])
        i = min(candidates, key=lambda j: (change(j), rank[j]))
        candidates.discard(i)
        cells += 2.0 ** min(frontier + logs[i], 1000.0)
        if cells > limit:
            return False
        frontier += change(i)
        entered[i] = True
        for j in graph[i]:
            outside[j] -= 1
            if not entered[j]:
                candidates.add(j)
            elif outside[j] == 0:
                left.append(j)
        if outside[i] == 0:
            left.append(i)
    order[: len(left)] = left
    return True


def elimination_reached(offset: Array, near: Array, states: Array, cells: float, wanted: Array, held: Array, order: Array) -> int:
    """Eliminate the variable with the fewest neighbours, preferring wanted ones, while its table has at most `cells` cells.

    The order is written into order (N,); returns the number of eliminated variables.
    If a table is too large, one of its variables is held instead: an unwanted one first, then the one with the most neighbours.
    wanted, held (N,) uint8: variables held from the beginning, or with one state, are not eliminated.
    """
    outside = set(np.flatnonzero(held).tolist())
    graph: Graph = [set() if i in outside else each - outside for i, each in enumerate(_neighbour_sets(offset, near))]
    count, late = states.tolist(), (wanted == 0).tolist()
    left = {i for i in range(len(graph)) if count[i] > 1 and i not in outside}
    heap = [(len(graph[i]), late[i], i) for i in left]
    heapq.heapify(heap)
    made = 0
    while heap:
        degree, _, i = heapq.heappop(heap)
        if i not in left or degree != len(graph[i]):
            continue
        around = set(graph[i])
        if math.prod(count[j] for j in around) * count[i] <= cells or not around:
            order[made] = i
            made += 1
            _eliminate_variable(graph, i, False)
        else:
            i = max(around | {i}, key=lambda j: (late[j], len(graph[j]), j))
            around |= graph[i]
            for j in graph[i]:
                graph[j].discard(i)
            graph[i] = set()
        left.discard(i)
        for j in around & left:
            heapq.heappush(heap, (len(graph[j]), late[j], j))
    return made


class _EliminationPrices:
    """The prices of eliminating variables."""

    def __init__(self, graph: Graph, states: list[float], weight: list[float], kind: str) -> None:
        self.graph, self.each = graph, states if kind == "cells" else weight
        self.of = {"weight": self._weight, "fill": self._fill_in_edges}.get(kind, self._weighted_fill_in)

    def _weight(self, i: int) -> float:
        return _sequential_sum(self.each, sorted(self.graph[i]))

    def _fill_in_edges(self, i: int) -> float:
        near = self.graph[i]
        # A neighbour j lacks an edge to the other neighbours of i that are not its own; each missing edge is counted at both ends.
        return sum(len(near) - 1 - len(near & self.graph[j]) for j in near) / 2

    def _weighted_fill_in(self, i: int) -> float:
        total = 0.0
        for j in sorted(self.graph[i]):
            total += self.each[j] * (_sequential_sum(self.each, sorted(self.graph[i] - self.graph[j])) - self.each[j])
        return total / 2


def _sequential_sum(numbers: list[float], places: list[int]) -> float:
    """Return the sum, added one after the other: Python's own sum is compensated since 3.12."""
    total = 0.0
    for i in places:
        total += numbers[i]
    return total


def _neighbour_sets(offset: Array, near: Array) -> Graph:
    flat = near.tolist()
    return [set(flat[low:high]) for low, high in pairwise(offset.tolist())]


def _eliminate_variable(graph: Graph, i: int, by_fill: bool) -> set[int]:
    """Join the neighbours of i and remove it; return the variables whose price may have changed."""
    near = graph[i]
    touched = set(near)
    for j in near:
        graph[j].discard(i)
    for j, k in combinations(near, 2):
        if k not in graph[j]:
            if by_fill:
                # A new edge (j, k) saves one fill edge for each variable adjacent to both;
                # the fill of j and k themselves changes with their neighbourhoods.
                touched |= graph[j] & graph[k]
            graph[j].add(k)
            graph[k].add(j)
    graph[i] = set()
    return touched


def _breadth_first_from_ends(graph: list[list[int]], by_tie: list[int]) -> list[int]:
    """Return all variables in the order of breadth-first searches, each from the variable farthest from a beginning."""
    walked: list[int] = []
    seen: set[int] = set()
    for first in by_tie:
        if first not in seen:
            part = _breadth_first(graph, _breadth_first(graph, first)[-1])
            seen.update(part)
            walked += part
    return walked


def _breadth_first(graph: list[list[int]], first: int) -> list[int]:
    found, seen = [first], {first}
    for i in found:
        for j in graph[i]:
            if j not in seen:
                seen.add(j)
                found.append(j)
    return found
