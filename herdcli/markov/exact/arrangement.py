"""Elimination orders along a line: the variables enter one after the other, and each leaves once all its neighbours have entered.

The variables between are the frontier; the tree of cliques is nearly a chain, of whose messages few need be kept (`messages`).  An
arrangement of small frontiers is looked for from several ends of the graph: the variable enters that makes the next frontier
smallest.  Source: Kinnersley (1992), pathwidth is vertex separation; Díaz, Petit & Serna (2002) for heuristics.
"""

from __future__ import annotations

from collections.abc import Sequence

Graph = list[set[int]]


def order(graph: Graph, weight: Sequence[float], ties: Sequence[float], limit: float) -> list[int] | None:
    """All variables in the order in which they leave; None where the frontiers have more cells than `limit`.

    weight  the logarithm to base 2 of the states of each variable.
    """
    rank = _ends(graph, ties)
    outside = [len(near) for near in graph]
    entered, frontier = [False] * len(graph), 0.0
    beginnings = sorted(range(len(graph)), key=rank.__getitem__)
    candidates: set[int] = set()
    left: list[int] = []
    cells, begun = 0.0, 0

    def change(i: int) -> float:
        """What the frontier grows by when i enters: i itself while it has neighbours outside, less those whose last one it was."""
        return (weight[i] if outside[i] else 0.0) - sum(weight[j] for j in graph[i] if entered[j] and outside[j] == 1)

    for _ in range(len(graph)):
        if not candidates:
            while entered[beginnings[begun]]:
                begun += 1
            candidates.add(beginnings[begun])
        i = min(candidates, key=lambda j: (change(j), rank[j], ties[j]))
        candidates.discard(i)
        cells += 2.0 ** min(frontier + weight[i], 1000.0)
        if cells > limit:
            return None
        frontier += change(i)
        entered[i] = True
        for j in sorted(graph[i]):
            outside[j] -= 1
            if not entered[j]:
                candidates.add(j)
            elif outside[j] == 0:
                left.append(j)
        if outside[i] == 0:
            left.append(i)
    return left


def _ends(graph: Graph, ties: Sequence[float]) -> dict[int, int]:
    """How late a walk in breadth, from a variable by chance and then from the farthest it found, reaches each variable."""
    rank: dict[int, int] = {}
    for first in sorted(range(len(graph)), key=ties.__getitem__):
        if first in rank:
            continue
        last = _breadth(graph, first)[-1]
        for i in _breadth(graph, last):
            rank[i] = len(rank)
    return rank


def _breadth(graph: Graph, first: int) -> list[int]:
    found, seen = [first], {first}
    for i in found:
        for j in sorted(graph[i]):
            if j not in seen:
                seen.add(j)
                found.append(j)
    return found
