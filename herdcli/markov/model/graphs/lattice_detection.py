"""Detection of the lattice that a network's pairs form, for networks without a stored shape: UAI, .fg and BIF files have none.

If variables are numbered row by row, the two of every pair differ by 1 or by the number of columns.  Under any other numbering the
distances from two corners on one side, r + c and r + (C − 1 − c), give the row and the column, as long as no pair is missing.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import numpy as np

from herdcli.markov.model.network import Network
from herdcli.schema import Array

Graph = list[set[int]]


def find_lattice_layout(network: Network) -> Array | None:
    """Return the variable at each cell of the lattice (R, C), as stored or as found from the pairs; None if there is no lattice.

    Variables fixed by evidence keep their place.  The caller checks whether every factor lies on the lattice.
    """
    if network.shape is not None:
        return np.arange(network.count).reshape(network.shape.tolist()) if int(np.prod(network.shape)) == network.count else None
    near = _neighbour_graph(network)
    if near is None:
        return None
    numbered = _layout_by_number(near)
    return numbered if numbered is not None else _layout_by_corners(near)


def _neighbour_graph(network: Network) -> Graph | None:
    """Return the neighbours of each variable; None if a factor has three variables, or a variable five neighbours."""
    if network.count < 2 or np.diff(network.scope_offset).max(initial=0) > 2:
        return None
    near: Graph = [set() for _ in range(network.count)]
    scope = network.scope.tolist()
    for low, high in pairwise(network.scope_offset.tolist()):
        if high - low == 2:
            i, j = scope[low:high]
            near[i].add(j)
            near[j].add(i)
    return near if max(map(len, near)) <= 4 else None


def _layout_by_number(graph: Graph) -> Array | None:
    """Return the layout with variables in reading order, if every pair differs by 1 or by one other number."""
    apart = sorted({abs(i - j) for i, others in enumerate(graph) for j in others})
    columns = apart[-1] if apart and apart[-1] > 1 else len(graph)
    if not set(apart) <= {1, columns} or len(graph) % columns:
        return None
    found = np.arange(len(graph)).reshape(-1, columns)
    ends = found[:-1, -1].tolist()
    return None if columns > 1 and any(i + 1 in graph[i] for i in ends) else found


def _layout_by_corners(graph: Graph) -> Array | None:
    """Place each variable by its distances from two corners; return the layout, or None unless every cell gets exactly one variable."""
    corners = [i for i, others in enumerate(graph) if len(others) == 2]
    if len(corners) != 4:
        return None
    first = _distances_from(graph, corners[0])
    second = min(corners[1:], key=lambda i: (first[i], i))
    from_second = _distances_from(graph, second)
    if -1 in first:
        return None
    columns = first[second] + 1
    sums = [(a + b - columns + 1, a) for a, b in zip(first, from_second, strict=True)]
    if len(graph) % columns or any(twice % 2 for twice, _ in sums):
        return None
    found = np.full((len(graph) // columns, columns), -1)
    for i, (twice, a) in enumerate(sums):
        r, c = twice // 2, a - twice // 2
        if not (0 <= r < len(found) and 0 <= c < columns):
            return None
        found[r, c] = i
    return found if (found >= 0).all() else None


def _distances_from(graph: Graph, start: int) -> list[int]:
    """Return the number of steps from one variable to each other one, −1 for unreachable ones."""
    found = [-1] * len(graph)
    found[start] = 0
    queue = deque([start])
    while queue:
        i = queue.popleft()
        for j in graph[i]:
            if found[j] < 0:
                found[j] = found[i] + 1
                queue.append(j)
    return found
