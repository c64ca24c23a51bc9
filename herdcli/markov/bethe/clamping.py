"""The nodes that UPS clamps at their present marginals, so that the others form trees, and the order of updates on those trees.

A clamped or observed node ends every edge that reaches it: its messages bounce, edge by edge (5.24), and the remaining
trees share no node.  On a tree, updates follow a depth-first walk with one propagation each time an edge is
traversed, and a bounce wherever the walk reaches an end.  Source: Teh (2003), algorithms 5.3 and 5.4.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.markov.model.pairwise import PairwiseNetwork
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

FORESTS = 8


@dataclass(frozen=True)
class ClampPlan:
    """One clamp set with the updates that minimise over the rest: order[segments[s]:segments[s+1]] is one tree's sweep."""

    clamped: Array  # nodes, increasing
    order: Array
    segments: Array
    scalings: Array  # the scalings in each segment's sweep


def make_clamp_plans(
    graph: PairwiseNetwork, observed: set[int], clamping: str | list[set[int]], shape: Array | None, seed: int
) -> list[ClampPlan]:
    """Return the clamp sets to use in turn; every hidden node is free in at least one of them.

    clamping  `auto`, for lattices `rows`, `columns`, `rows-columns`, or the sets themselves.  Raises DataError if one of them
    leaves a loop, or if all of them contain the same variable.
    """
    if isinstance(clamping, list):
        sets = [nodes - observed for nodes in clamping]
        if never := set.intersection(*sets):
            raise DataError(
                f"variable {min(never)} is in every clamp set, so its marginal would never be computed",
                hint="leave it out of at least one set",
            )
    elif clamping == "auto":
        sets = _automatic_clamp_sets(graph, observed, seed)
    else:
        if shape is None:
            raise BadUsage(
                f"--clamp {clamping} needs a network that was made as a grid", hint="use --clamp auto, which works for every network"
            )
        at = np.arange(int(shape[0]) * int(shape[1])).reshape(int(shape[0]), int(shape[1]))
        columns = [set(at[:, k::2].ravel().tolist()) for k in (1, 0)]
        rows = [set(at[k::2].ravel().tolist()) for k in (1, 0)]
        turns = {"columns": columns, "rows": rows, "rows-columns": [columns[0], rows[0], columns[1], rows[1]]}[clamping]
        sets = [nodes - observed for nodes in turns]
    return list(_distinct_plans(make_clamp_plan(graph, observed, nodes) for nodes in sets))


def _distinct_plans(plans: Iterable[ClampPlan]) -> list[ClampPlan]:
    seen: dict[bytes, ClampPlan] = {}
    for each in plans:
        seen.setdefault(each.clamped.tobytes(), each)
    return list(seen.values())


def _automatic_clamp_sets(graph: PairwiseNetwork, observed: set[int], seed: int) -> list[set[int]]:
    """Return maximal induced forests, grown greedily from the nodes that were free least often, with random ties.

    There are many different ones: on lattices with strong couplings eight take half the iterations of two.
    """
    hidden = [i for i in range(graph.nodes) if i not in observed]
    near = [graph.neighbours(i).tolist() for i in range(graph.nodes)]
    free_so_far = np.zeros(graph.nodes)
    sets: list[set[int]] = []
    while len(sets) < FORESTS or min((free_so_far[i] for i in hidden), default=1) == 0:
        ties = 0.5 * generator(seed, Stream.CLAMP, step=len(sets)).random(graph.nodes)
        priority = free_so_far + ties
        priority[list(graph.auxiliary)] = -1  # never clamped: every loop also contains variables
        forest = _induced_forest(near, hidden, priority)
        sets.append(set(hidden) - forest)
        if not sets[-1]:
            return sets[-1:]
        free_so_far[list(forest)] += 1
    return sets


def _induced_forest(neighbours: list[list[int]], hidden: list[int], priority: Array) -> set[int]:
    root = list(range(len(neighbours)))

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        return i

    forest: set[int] = set()
    for i in sorted(hidden, key=lambda i: float(priority[i])):
        # A node closes a loop if and only if two of its neighbours in the forest are already in one tree.
        trees = [find(j) for j in neighbours[i] if j in forest]
        if len(set(trees)) == len(trees):
            forest.add(i)
            for tree in trees:
                root[tree] = i
    return forest


def make_clamp_plan(graph: PairwiseNetwork, observed: set[int], clamped: set[int]) -> ClampPlan:
    """Return the updates for one clamp set.  Raises DataError if a loop of free nodes is left."""
    ends = observed | clamped
    entering = [graph.incoming_edges(i).tolist() for i in range(graph.nodes)]
    tail = graph.tail.tolist()
    order: list[int] = []
    segments = [0]
    seen = [False] * graph.nodes
    for start in range(graph.nodes):
        if start not in ends and not seen[start] and entering[start]:
            _append_depth_first_messages(start, entering, tail, ends, seen, order)
            segments.append(len(order))
    for e in range(graph.edges):
        if tail[2 * e] in ends and tail[2 * e + 1] in ends:
            order += [2 * e, 2 * e + 1]
            segments.append(len(order))
    made = np.array(order, dtype=np.int32)
    bounces = np.isin(graph.tail[made], np.fromiter(ends, dtype=np.int64, count=len(ends)))
    totals = np.concatenate(([0], np.cumsum(bounces)))
    bounds = np.array(segments, dtype=np.int64)
    return ClampPlan(np.array(sorted(clamped), dtype=np.int64), made, bounds, totals[bounds[1:]] - totals[bounds[:-1]])


def _append_depth_first_messages(
    start: int, entering: list[list[int]], tail: list[int], ends: set[int], visited: list[bool], order: list[int]
) -> None:
    """Walk depth first: append a message along each edge on first use, and one back when the walk returns."""
    visited[start] = True
    stack: list[tuple[int, int, int]] = [(start, -1, 0)]  # node, the edge it was reached by, the next edge to visit
    while stack:
        i, reached, k = stack.pop()
        if k == len(entering[i]):
            if reached >= 0:
                order.append(reached ^ 1)
            continue
        stack.append((i, reached, k + 1))
        back = entering[i][k]  # from the neighbour to i
        j = tail[back]
        if back == reached:
            continue
        order.append(back ^ 1)
        if j in ends:
            order.append(back)
            continue
        if visited[j]:
            raise DataError(f"variables {i} and {j} lie on a loop that the clamp set does not break", hint="add one of them to the set")
        visited[j] = True
        stack.append((j, back ^ 1, 0))
