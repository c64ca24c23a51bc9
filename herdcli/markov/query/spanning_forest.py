"""A spanning forest of a network's variables, distributions over it, and local updates of its marginals by walks.

A distribution over a tree is the product of its edges' tables divided by the marginals of shared variables (Jensen, Lauritzen & Olesen
1990).  Crossing an edge divides out the last message over it, so that only the path to the requested marginals is walked.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from herdcli.errors import NegativeResult
from herdcli.markov.exact.junction_tree import log_sum_exp
from herdcli.markov.model.graphs.union_find import find_root
from herdcli.markov.model.network import Factor, Network
from herdcli.markov.model.possible_states import IMPOSSIBLE
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class SpanningForest:
    """A rooted forest over all variables.

    order   all variables, parents first.
    parent  of each variable, −1 for roots; edge i joins parent[i] (rows) and i.
    depth   below the root.
    """

    order: list[int]
    parent: list[int]
    depth: list[int]

    def path_between(self, i: int, j: int) -> list[int]:
        """Return the variables on the path from i to j of one tree, both included."""
        up, down = [i], [j]
        while up[-1] != down[-1]:
            if self.depth[up[-1]] >= self.depth[down[-1]]:
                up.append(self.parent[up[-1]])
            else:
                down.append(self.parent[down[-1]])
        return up + down[-2::-1]

    def edge_between(self, i: int, j: int) -> int:
        """Return the edge between two neighbours: the number of the lower one."""
        return j if self.parent[j] == i else i


@dataclass
class ForestMarginals:
    """Marginals of variables, and tables of edges with the last message from each end; they are correct where the walk has been."""

    node: list[Array]
    pair: list[Array]
    told: list[list[Array]]


def maximum_spanning_forest(network: Network, factors: Sequence[Factor]) -> SpanningForest:
    """Return the maximum-weight spanning forest of pairs within factors, weighted by mutual information within each factor.

    The mutual information is that of the product of the factor and the factors of its single variables.
    Source: Minka & Qi (2003), sec. 4 (Kruskal's algorithm on mutual informations).
    """
    singles = {scope[0]: logs for scope, logs in factors if len(scope) == 1}
    weight: dict[tuple[int, int], float] = {}
    for scope, logs in factors:
        if len(scope) > 1:
            for pair, told in _pair_mutual_informations(scope, logs, singles).items():
                weight[pair] = max(told, weight.get(pair, 0.0))
    parent = list(range(network.count))
    near: list[list[int]] = [[] for _ in parent]
    for i, j in sorted(weight, key=lambda pair: (-weight[pair], pair)):
        ends = find_root(parent, i), find_root(parent, j)
        if ends[0] != ends[1]:
            parent[ends[0]] = ends[1]
            near[i].append(j)
            near[j].append(i)
    return _root_forest(near)


def _pair_mutual_informations(scope: Sequence[int], logs: Array, singles: dict[int, Array]) -> dict[tuple[int, int], float]:
    """Compute the mutual information of each pair of a factor's variables."""
    for axis, i in enumerate(scope):
        if i in singles:
            logs = logs + singles[i].reshape([-1 if k == axis else 1 for k in range(len(scope))])
    p = np.exp(logs - logs.max()) if np.isfinite(logs.max()) else np.ones(logs.shape)
    p /= p.sum()
    found = {}
    for a, b in combinations(range(len(scope)), 2):
        both = p.sum(axis=tuple(k for k in range(len(scope)) if k not in (a, b)))
        apart = both.sum(axis=1, keepdims=True) * both.sum(axis=0, keepdims=True)
        some = (both > 0) & (apart > 0)
        found[scope[a], scope[b]] = float((both[some] * np.log(both[some] / apart[some])).sum())
    return found


def _root_forest(neighbours: list[list[int]]) -> SpanningForest:
    parent, depth = [-1] * len(neighbours), [-1] * len(neighbours)
    order: list[int] = []
    for start in range(len(neighbours)):
        if depth[start] < 0:
            depth[start] = 0
            stack = [start]
            while stack:
                i = stack.pop()
                order.append(i)
                for j in neighbours[i]:
                    if depth[j] < 0:
                        parent[j], depth[j] = i, depth[i] + 1
                        stack.append(j)
    return SpanningForest(order, parent, depth)


def calibrate_forest(forest: SpanningForest, singles: Sequence[Array], pairs: Sequence[Array]) -> tuple[ForestMarginals, float]:
    """Compute the marginals and log Z of a forest from log tables of variables (card,) and of edges (parent's card, card).

    Edges are indexed by their lower end.  Raises NegativeResult if no state has a probability.
    """
    logs = [np.array(part) for part in singles]
    up: list[Array] = [np.empty(0)] * len(logs)
    log_z = 0.0
    for i in reversed(forest.order):
        p = forest.parent[i]
        if p >= 0:
            up[i] = log_sum_exp(pairs[i] + logs[i], (1,))
            logs[p] += up[i]
        else:
            log_z += float(log_sum_exp(logs[i], (0,)))
    if log_z == -np.inf:
        raise NegativeResult(IMPOSSIBLE)
    made = ForestMarginals([np.empty(0)] * len(logs), [np.empty((0, 0))] * len(logs), [[]] * len(logs))
    for i in forest.order:
        p = forest.parent[i]
        if p >= 0:
            rest = logs[p] - np.where(np.isneginf(up[i]), 0.0, up[i])
            both = pairs[i] + logs[i] + rest[:, None]
            both -= log_sum_exp(both, (0, 1))
            logs[i] = log_sum_exp(both, (0,))
            made.pair[i] = np.exp(both)
            made.told[i] = [made.node[p], np.exp(logs[i])]
            made.node[i] = made.told[i][1]
        else:
            logs[i] -= log_sum_exp(logs[i], (0,))
            made.node[i] = np.exp(logs[i])
    return made, log_z


def pass_message(forest: SpanningForest, q: ForestMarginals, i: int, j: int) -> None:
    """Pass a message from i, whose marginal is correct, to its neighbour j; then that of j is correct too."""
    e = forest.edge_between(i, j)
    told, here = q.told[e], int(e == i)  # the axis of i
    if told[here] is not q.node[i]:
        ratio = safe_divide(q.node[i], told[here])
        q.pair[e] = q.pair[e] * (ratio[:, None] if here == 0 else ratio)
        told[here] = q.node[i]
    elif told[1 - here] is q.node[j]:
        return  # both are up to date
    heard = q.pair[e].sum(axis=here)
    q.node[j] = heard if told[1 - here] is q.node[j] else q.node[j] * safe_divide(heard, told[1 - here])
    told[1 - here] = heard


def safe_divide(numerator: Array, denominator: Array) -> Array:
    """Compute part / whole, with 0/0 = 0."""
    made: Array = np.divide(numerator, denominator, out=np.zeros(numerator.shape), where=denominator > 0)
    return made
