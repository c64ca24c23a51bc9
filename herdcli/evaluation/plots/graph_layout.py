"""Where the nodes of a graph are drawn: on their lattice if they make one, else by springs, the same for the same graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from herdcli.schema import Array

STEPS = 200
FEWEST = 3  # variables on a side of what is taken for a lattice
Edges = Sequence[tuple[int, int]]


def detect_lattice(count: int, edges: Edges) -> tuple[int, int] | None:
    """Rows and columns of a grid whose nodes are numbered row by row, open or closed to a torus; None for other graphs."""
    known, widths = set(edges), {j - i for i, j in edges if j - i > 1}
    for width in sorted(width for width in widths if count % width == 0):
        rows = count // width
        if min(width, rows) >= FEWEST and known in (_grid_edges(rows, width, False), _grid_edges(rows, width, True)):
            return rows, width
    return None


def _grid_edges(rows: int, width: int, closed: bool) -> set[tuple[int, int]]:
    """The edges of a grid, each from its lower node."""
    found = {(r * width + c, r * width + c + 1) for r in range(rows) for c in range(width - 1)}
    found |= {(r * width + c, (r + 1) * width + c) for r in range(rows - 1) for c in range(width)}
    if closed:
        found |= {(r * width, (r + 1) * width - 1) for r in range(rows)} | {(c, (rows - 1) * width + c) for c in range(width)}
    return found


def layout_nodes(count: int, edges: Edges) -> Array:
    """(count, 2) places where neighbours attract and all repel each other, from a circle on which neighbours are near.

    Source: Fruchterman & Reingold (1991): forces d²/k along edges and k²/d between all, steps that shrink.
    """
    if count == 1:
        return np.zeros((1, 2))
    near = np.zeros((count, count))
    for i, j in edges:
        near[i, j] = near[j, i] = 1.0
    place, k = _circular_layout(near), 1.0 / np.sqrt(count)
    for step in range(STEPS):
        d = place[:, None] - place[None]
        length = np.maximum(np.sqrt((d**2).sum(axis=2)), 1e-3 * k)
        force = k**2 / length**2 - near * length / k
        np.fill_diagonal(force, 0.0)
        # A weak pull to the middle keeps unconnected parts of the graph inside the picture.
        push = (d * force[:, :, None]).sum(axis=1) - 0.1 * place
        size = np.maximum(np.sqrt((push**2).sum(axis=1, keepdims=True)), 1e-12)
        place = place + push / size * np.minimum(size, 0.1 * (1.0 - step / STEPS))
    middled: Array = place - place.mean(axis=0)
    return middled


def _circular_layout(near: Array) -> Array:
    """Nodes round a circle in the order in which a walk over the edges first meets them, deepest first."""
    order: list[int] = []
    met = np.zeros(len(near), dtype=bool)
    for start in np.argsort(-near.sum(axis=1), kind="stable").tolist():
        waiting = [start]
        while waiting:
            i = waiting.pop()
            if met[i]:
                continue
            met[i] = True
            order.append(i)
            waiting += np.flatnonzero((near[i] > 0) & ~met)[::-1].tolist()
    angle = np.empty(len(near))
    angle[order] = 2.0 * np.pi * np.arange(len(near)) / len(near)
    return 0.5 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
