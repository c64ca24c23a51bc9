"""Marginals that are compatible with the zeros of the factors, to start UPS if propagation finds none.

UPS clamps marginals and minimises over the trees between them.  This is possible if they are marginals of beliefs that agree on
every edge; from then on each iteration produces such beliefs.  The first tangent of the double loop turns the Bethe free energy
into a convex problem, whose minimum has them: all regions agree, and no possible state gets probability zero.
Source: Heskes, Albers & Kappen (2003), sec. 4.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.markov.bethe.double_loop import DoubleLoop
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model.network import Factor, Network
from herdcli.markov.model.pairwise import PairwiseNetwork
from herdcli.schema import Array

AGREE = 1e-10  # largest difference between regions


def find_feasible_marginals(network: Network, graph: PairwiseNetwork, settings: InferenceSettings) -> Array:
    """Return marginals of all nodes, flat, including auxiliary ones."""
    loop = DoubleLoop(network, replace(settings, algorithm="double-loop", regions="edges", tolerance=AGREE))
    state = loop.init()
    state.residual = np.array([AGREE])  # so that the first inner loop runs to convergence
    found = loop.result(loop.step(state))
    parts = [*found.nodes, *(np.empty(0) for _ in graph.auxiliary)]
    tables: dict[frozenset[int], Factor] = {frozenset(scope): (scope, p) for scope, p in found.cliques}
    for node, (scope, cells) in graph.auxiliary.items():
        p = _marginal_over_scope(scope, next(tables[key] for key in _scopes_containing(tables, frozenset(scope))))
        parts[node] = p.ravel()[cells]
    for node, p in enumerate(parts):
        possible = graph.potential[graph.node_offset[node] : graph.node_offset[node + 1]] > 0
        parts[node] = np.where(possible, p, 0.0) / p[possible].sum()
    return np.concatenate(parts)


def _scopes_containing(tables: dict[frozenset[int], Factor], scope: frozenset[int]) -> list[frozenset[int]]:
    return [scope] if scope in tables else [key for key in tables if scope <= key]


def _marginal_over_scope(scope: tuple[int, ...], factor: Factor) -> Array:
    """Return the marginal over a scope, given a table that contains it."""
    variables, p = factor
    p = p.sum(axis=tuple(axis for axis, i in enumerate(variables) if i not in scope))
    kept = [i for i in variables if i in scope]
    result: Array = p.transpose([kept.index(i) for i in scope])
    return result
