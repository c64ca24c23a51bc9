"""Layers for the nodes of a directed graph without cycles, so that every arc points downwards.

Source: Sugiyama, Tagawa & Toda (1981), with the layers of Gansner, Koutsofios, North & Vo (1993): arcs are short, those that cross a
layer have a place in it, and the order in a layer is that of barycentres.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from herdcli.records import dataclass
from herdcli.schema import Array

SWEEPS = 24
SETTLING = 60  # rounds in which nodes move to the mean of their neighbours
NODE_WIDTH, ARC_WIDTH = 1.0, 0.45  # least distance of two nodes of a layer, and of arcs that cross it
Arcs = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class LayeredLayout:
    """The places of nodes and arcs.

    place  (count, 2), layers at y = 0, −1, …, neighbours in a layer at least 1 apart.
    lines  for each arc its points (k, 2), from the parent to the child.
    """

    place: Array
    lines: list[Array]


def layout_layers(count: int, arcs: Arcs) -> LayeredLayout | None:
    """Return the places of `count` nodes with arcs (parent, child); None if the graph has a cycle."""
    layer = _shortest_arc_layers(count, arcs)
    if layer is None:
        return None
    layers = list(layer)
    chains: list[list[int]] = []  # the nodes of each arc, with those that stand for it in the layers that it crosses
    for parent, child in arcs:
        inner = range(len(layers), len(layers) + layer[child] - layer[parent] - 1)
        layers += range(layer[parent] + 1, layer[child])
        chains.append([parent, *inner, child])
    below: list[list[int]] = [[] for _ in layers]
    above: list[list[int]] = [[] for _ in layers]
    for chain in chains:
        for upper, lower in itertools.pairwise(chain):
            below[upper].append(lower)
            above[lower].append(upper)
    rows = [[node for node, own in enumerate(layers) if own == depth] for depth in range(max(layers) + 1)]
    rows = _order_rows(rows, above, below)
    x = _place_nodes(rows, above, below, count)
    points = np.stack([x, -np.asarray(layers, dtype=np.float64)], axis=1)
    return LayeredLayout(points[:count], [points[chain] for chain in chains])


def _shortest_arc_layers(count: int, arcs: Arcs) -> list[int] | None:
    """Return the layers (0, 1, …) of the nodes for which all arcs together are shortest; None if the graph has a cycle.

    The linear program min Σ (layer of child − layer of parent), each difference at least 1, has integers at its corners.
    """
    if not arcs:
        return [0] * count
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    ends = np.asarray(arcs, dtype=np.int64)
    each = np.repeat(np.arange(len(ends)), 2)
    values = np.tile([1.0, -1.0], len(ends))
    rows = coo_array((values, (each, ends.ravel())), shape=(len(ends), count)).tocsr()
    found = linprog(-np.asarray(rows.sum(axis=0)).ravel(), A_ub=rows, b_ub=-np.ones(len(ends)), bounds=(0, count), method="highs-ds")
    if found.status != 0:
        return None
    layer = np.rint(found.x).astype(int)
    for part in _connected_components(count, ends):
        layer[part] -= layer[part].min()
    layers: list[int] = layer.tolist()
    return layers


def _connected_components(count: int, ends: Array) -> list[Array]:
    """Return the nodes of each connected part of the graph with these edges (m, 2)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    number, label = connected_components(coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(count, count)), directed=False)
    return [np.flatnonzero(label == k) for k in range(number)]


def _order_rows(rows: list[list[int]], above: list[list[int]], below: list[list[int]]) -> list[list[int]]:
    """Return the rows in an order with few crossings: by the mean places of neighbours, downwards and upwards in turn."""
    best, fewest = rows, _count_crossings(rows, below)
    for sweep in range(SWEEPS):
        rows = [list(row) for row in rows]
        depths = range(1, len(rows)) if sweep % 2 == 0 else range(len(rows) - 2, -1, -1)
        for depth in depths:
            near, other = (above, rows[depth - 1]) if sweep % 2 == 0 else (below, rows[depth + 1])
            at = {node: place for place, node in enumerate(other)}
            own = {node: place for place, node in enumerate(rows[depth])}
            mean = {node: float(np.mean([at[k] for k in near[node]])) if near[node] else float(own[node]) for node in rows[depth]}
            rows[depth].sort(key=lambda node: mean[node])
        crossed = _count_crossings(rows, below)
        if crossed < fewest:
            best, fewest = rows, crossed
    return best


def _count_crossings(rows: list[list[int]], below: list[list[int]]) -> int:
    """Return how many pairs of lines between successive rows cross."""
    total = 0
    for upper, lower in itertools.pairwise(rows):
        at = {node: place for place, node in enumerate(lower)}
        ends = np.array([at[child] for node in upper for child in sorted(below[node], key=lambda k: at[k])], dtype=np.int64)
        total += int(sum((ends[k + 1 :] < ends[k]).sum() for k in range(len(ends))))
    return total


def _place_nodes(rows: list[list[int]], above: list[list[int]], below: list[list[int]], count: int) -> Array:
    """Return the horizontal place of every node: near the mean of its neighbours, in the order of its row."""
    x = np.zeros(sum(map(len, rows)))
    offsets = [_minimal_node_offsets(row, count) for row in rows]
    for row, offset in zip(rows, offsets, strict=True):
        x[row] = offset - offset.mean()
    for turn in range(SETTLING):
        numbers = range(len(rows)) if turn % 2 == 0 else range(len(rows) - 1, -1, -1)
        for number in numbers:
            row, offset = rows[number], offsets[number]
            wanted = np.array([np.mean(x[above[node] + below[node]]) if above[node] or below[node] else x[node] for node in row])
            x[row] = _isotonic_regression(wanted - offset) + offset
    centred: Array = x - x.mean()
    return centred


def _minimal_node_offsets(row: list[int], count: int) -> Array:
    """Return the least places (n,) of a row's nodes, the first at 0."""
    width = np.array([NODE_WIDTH if node < count else ARC_WIDTH for node in row])
    return np.concatenate([[0.0], np.cumsum((width[1:] + width[:-1]) / 2)])


def _isotonic_regression(values: Array) -> Array:
    """Return the nondecreasing numbers nearest to the given ones (n,), by pooling adjacent violators."""
    pools: list[tuple[float, int]] = []
    for value in values.tolist():
        mean, size = value, 1
        while pools and pools[-1][0] > mean:
            before, number = pools.pop()
            mean, size = (before * number + mean * size) / (number + size), number + size
        pools.append((mean, size))
    pooled: Array = np.concatenate([np.full(size, mean) for mean, size in pools])
    return pooled
