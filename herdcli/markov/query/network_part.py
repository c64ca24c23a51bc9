"""A part of a large network around one of its variables, small enough for algorithms that cannot handle the whole.

Factors across the boundary of the part are averaged over the variables outside, with the distribution that these would have without the
factor.  At fixed points of propagation this distribution is given by messages, which follow from the belief over the factor; otherwise
marginals are used.  The error decreases with every step inwards, so that marginals of variables `DEPTH` steps from the boundary are
nearly those of the whole.
Source: Mezard & Montanari (2009), ch. 14, cavity fields.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from herdcli.markov.method import InferenceResult
from herdcli.markov.model.network import Factor, Network, build_network
from herdcli.records import dataclass
from herdcli.schema import Array

MOST_CLIQUES = 200_000  # largest number of cliques of an answer in which beliefs are searched for
UNCORRELATED = 1e-9  # largest difference of a belief from the product of marginals for which it is treated as this product
DEPTH = 2  # steps from the boundary of a part that a valid answer for the whole needs
PASS, PASS_LEAST = 8e-9, 2000  # approximate seconds of a growth step per entry of a scope, and the least number of entries that is counted


@dataclass(frozen=True)
class NetworkPart:
    """The network of some variables of a larger network.

    network    over `variables`.
    variables  (m,) their indices in the whole network, in this order.
    inner      (m,) bool: True for those far enough from the boundary.
    """

    network: Network
    variables: Array
    inner: Array


def extract_part(network: Network, answer: InferenceResult, start: int, size: int, budget: float) -> NetworkPart | None:
    """Return at most `size` variables around `start`.

    Returns None if none of them is far enough from the boundary, or growing takes more than `budget` seconds.
    """
    grown = _select_part(network, start, size, budget)
    if grown is None:
        return None
    inside, touched = grown
    variables = np.flatnonzero(inside)
    place = np.full(network.count, -1)
    place[variables] = np.arange(len(variables))
    factors: list[Factor] = []
    crossing: dict[tuple[int, ...], Array] = {}  # products of the factors across the boundary, by their variables in order
    for a in touched.tolist():
        scope = network.scope[network.scope_offset[a] : network.scope_offset[a + 1]]
        table = network.table[network.table_offset[a] : network.table_offset[a + 1]].reshape(network.cardinality[scope])
        if inside[scope].all():
            factors.append((tuple(place[scope].tolist()), table))
            continue
        ordered = tuple(sorted(scope.tolist()))
        crossing[ordered] = crossing.get(ordered, np.ones(())) * table.transpose(np.argsort(scope))
    beliefs = _available_beliefs(answer, crossing)
    edge = np.zeros(len(variables), dtype=bool)
    for ordered, table in crossing.items():
        outer = tuple(axis for axis, i in enumerate(ordered) if not inside[i])
        kept = [int(place[i]) for i in ordered if inside[i]]
        edge[kept] = True
        outside = _cavity_distribution([answer.nodes[i] for i in ordered], beliefs.get(ordered), table, outer)
        factors.append((tuple(kept), (table * outside).sum(axis=outer)))
    for _ in range(DEPTH - 1):
        edge[[i for scope, _ in factors if edge[list(scope)].any() for i in scope]] = True
    part = build_network(network.cardinality[variables], factors)
    return NetworkPart(part, variables, ~edge) if not edge.all() else None


def _available_beliefs(answer: InferenceResult, scopes: Collection[tuple[int, ...]]) -> dict[tuple[int, ...], Array]:
    """Return the answer's beliefs over these variables, if it has them and they are found quickly."""
    made: dict[tuple[int, ...], Array] = {}
    if len(answer.cliques) > MOST_CLIQUES:
        return made
    for scope, table in answer.cliques:
        if (ordered := tuple(sorted(map(int, scope)))) in scopes:
            made[ordered] = np.asarray(table, dtype=np.float64).transpose(np.argsort(scope))
    return made


def _cavity_distribution(marginals: list[Array], belief: Array | None, table: Array, outer: tuple[int, ...]) -> Array:
    """Return the distribution of a factor's outside variables without the factor, with axes of length 1 for those inside."""
    shaped = [p.reshape([-1 if axis == k else 1 for k in range(table.ndim)]) for axis, p in enumerate(marginals)]
    alone: Array = math.prod([shaped[axis] for axis in outer], start=np.ones(()))
    if belief is None or np.abs(belief - math.prod(shaped, start=np.ones(()))).max() < UNCORRELATED:  # mean field has no messages
        return alone
    inner = tuple(axis for axis in range(table.ndim) if axis not in outer)
    cavity: Array = np.divide(belief, table, out=np.zeros_like(belief), where=table > 0).sum(axis=inner, keepdims=True)
    total = float(cavity.sum())
    return cavity / total if 0 < total < math.inf else alone


def _select_part(network: Network, start: int, size: int, budget: float) -> tuple[Array, Array] | None:
    """Return which variables are in the part (N,), and the factors that contain some of them, in ascending order."""
    inside, left = np.zeros(network.count, dtype=bool), budget / (PASS * max(PASS_LEAST, len(network.scope)))
    inside[start] = True
    touched = _factors_meeting_part(network, inside)
    while left >= 1 and (more := _outside_neighbours(network, inside, touched)).any():
        left -= 1
        places = np.flatnonzero(more)[: size - int(inside.sum())]
        inside[places] = True
        touched = _factors_meeting_part(network, inside)
        if inside.sum() >= size:
            break
    else:
        if left < 1:
            return None
    return inside, touched


def _factors_meeting_part(network: Network, inside: Array) -> Array:
    """Return the factors that contain a variable of the part, in ascending order."""
    owners: Array = np.searchsorted(network.scope_offset, np.flatnonzero(inside[network.scope]), side="right") - 1
    first: Array = owners[np.diff(owners, prepend=-1) > 0]
    return first


def _outside_neighbours(network: Network, inside: Array, touched: Array) -> Array:
    """Return which variables share a factor with the part and are not in it (N,)."""
    found = np.zeros(network.count, dtype=bool)
    first, last = network.scope_offset[touched], network.scope_offset[touched + 1]
    widths = last - first
    entries = np.arange(widths.sum()) + np.repeat(last - np.cumsum(widths), widths)
    found[network.scope[entries]] = True
    near: Array = found & ~inside & (network.cardinality > 1)
    return near
