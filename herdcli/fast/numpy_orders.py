"""Greedy elimination of a graph, elimination in a given order, and arrangements along a line.  The twin of `_orders.pyx`.

A graph is offset (N + 1,) and near: of each variable its neighbours, ascending.  Sums of floats are made from the smallest neighbour on.
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
    """Eliminate the variable of the least price, of several that of the least tie, until none is left: into order (N,).

    kind  what is the price: `weight` the neighbours' logarithms, `fill` the edges that are added between them, each of which counts 1, as
    many `cells` as the pair has states, or the product of the `logs` of both.  states, weight (N,)  and their logarithms to base 2.
    noise (N,)  what a price is multiplied by, raised by half an edge, where it is not 1.
    limits  (cells and messages, width, looked, much, far): given up past the first two, and past `far` cells once more than `much`
    neighbours of variables whose prices changed were looked at, counted from `looked`.

    Returns how many have left, cells of all tables and of the largest, the width, and the numbers in all messages.
    """
    graph = _graph(offset, near)
    prices, logs, count = _Prices(graph, states.tolist(), weight.tolist(), kind), weight.tolist(), states.tolist()
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
        size = 2.0 ** min(_sum(logs, sorted(graph[i])) + logs[i], 1000.0)
        cells, largest, width, messages = cells + size, max(largest, size), max(width, len(graph[i])), messages + size / count[i]
        if cells + messages > most or width >= widest or (looked > much and cells > far):
            break
        order[left] = i
        left += 1
        gone[i] = True
        for j in _leave(graph, i, kind != "weight"):
            changed = price(j)
            looked += len(graph[j])
            if changed != now[j]:
                now[j] = changed
                heapq.heappush(heap, (changed, tie[j], j))
    return left, cells, largest, width, messages


def elimination_along(offset: Array, near: Array, states: Array, order: Array) -> tuple[float, float, int, float, Array, Array]:
    """Cells of all tables and of the largest, the width and the numbers in all messages of an order; what it leaves of the graph."""
    graph, count = _graph(offset, near), states.tolist()
    cells, largest, width, messages = 0.0, 0.0, 0, 0.0
    for i in order.tolist():
        size = count[i]
        for j in sorted(graph[i]):
            size *= count[j]
        cells, largest, width, messages = cells + size, max(largest, size), max(width, len(graph[i])), messages + size / count[i]
        _leave(graph, i, False)
    left = np.concatenate(([0], np.cumsum([len(each) for each in graph], dtype=np.int64))).astype(np.int64)
    return cells, largest, width, messages, left, np.array([j for each in graph for j in sorted(each)], dtype=np.int64)


def elimination_line(offset: Array, near: Array, weight: Array, by_tie: Array, limit: float, order: Array) -> bool:
    """All variables in the order in which they leave a line, into order (N,); False where the frontiers have more cells than `limit`.

    by_tie (N,)  the variables in the order in which walks begin.  The variable enters that makes the next frontier smallest, of several
    the one that a walk in breadth, from one end and then from the farthest it found, reaches first.
    """
    graph, logs = [sorted(each) for each in _graph(offset, near)], weight.tolist()
    beginnings = _walked(graph, by_tie.tolist())
    rank = {i: k for k, i in enumerate(beginnings)}
    outside = [len(each) for each in graph]
    entered, frontier = [False] * len(graph), 0.0
    candidates: set[int] = set()
    left: list[int] = []
    cells, begun = 0.0, 0

    def change(i: int) -> float:
        """What the frontier grows by when i enters: i itself while it has neighbours outside, less those whose last one it was."""
        return (logs[i] if outside[i] else 0.0) - _sum(logs, [j for j in graph[i] if entered[j] and outside[j] == 1])

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
    """Eliminate what has the fewest neighbours, of several what is wanted, while its table has at most `cells`: into order (N,), how many.

    Of a table too large a variable is held instead, what is not wanted first, then the one with the most neighbours.
    wanted, held (N,) uint8: what is held from the beginning, or has one state, is not eliminated.
    """
    outside = set(np.flatnonzero(held).tolist())
    graph: Graph = [set() if i in outside else each - outside for i, each in enumerate(_graph(offset, near))]
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
            _leave(graph, i, False)
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


class _Prices:
    """What eliminating a variable costs."""

    def __init__(self, graph: Graph, states: list[float], weight: list[float], kind: str) -> None:
        self.graph, self.each = graph, states if kind == "cells" else weight
        self.of = {"weight": self._weight, "fill": self._fill}.get(kind, self._weighted)

    def _weight(self, i: int) -> float:
        return _sum(self.each, sorted(self.graph[i]))

    def _fill(self, i: int) -> float:
        near = self.graph[i]
        # A neighbour j lacks an edge to all other neighbours that are not its own; each missing edge is counted from both of its ends.
        return sum(len(near) - 1 - len(near & self.graph[j]) for j in near) / 2

    def _weighted(self, i: int) -> float:
        total = 0.0
        for j in sorted(self.graph[i]):
            total += self.each[j] * (_sum(self.each, sorted(self.graph[i] - self.graph[j])) - self.each[j])
        return total / 2


def _sum(numbers: list[float], places: list[int]) -> float:
    """One after the other: Python's own sum is compensated since 3.12."""
    total = 0.0
    for i in places:
        total += numbers[i]
    return total


def _graph(offset: Array, near: Array) -> Graph:
    flat = near.tolist()
    return [set(flat[low:high]) for low, high in pairwise(offset.tolist())]


def _leave(graph: Graph, i: int, by_fill: bool) -> set[int]:
    """Join the neighbours of i and take it away; returns the variables whose cost may have changed."""
    near = graph[i]
    touched = set(near)
    for j in near:
        graph[j].discard(i)
    for j, k in combinations(near, 2):
        if k not in graph[j]:
            if by_fill:
                # A new edge (j, k) saves one fill to whatever has both as neighbours;
                # the fill of j's and k's own changes with their neighbourhoods.
                touched |= graph[j] & graph[k]
            graph[j].add(k)
            graph[k].add(j)
    graph[i] = set()
    return touched


def _walked(graph: list[list[int]], by_tie: list[int]) -> list[int]:
    """All variables as walks in breadth reach them, each from the farthest that a walk from a beginning has found."""
    walked: list[int] = []
    seen: set[int] = set()
    for first in by_tie:
        if first not in seen:
            part = _breadth(graph, _breadth(graph, first)[-1])
            seen.update(part)
            walked += part
    return walked


def _breadth(graph: list[list[int]], first: int) -> list[int]:
    found, seen = [first], {first}
    for i in found:
        for j in graph[i]:
            if j not in seen:
                seen.add(j)
                found.append(j)
    return found
