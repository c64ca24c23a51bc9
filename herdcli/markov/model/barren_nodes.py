"""Removal of barren variables: variables in a single factor whose sum over them is constant.

In a Bayesian network these are the variables below all queried and observed ones.
Source: Shachter (1986); Lauritzen et al. (1990), the ancestral set.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from herdcli.markov.model.network import Network, build_network

EQUAL = 1e-14  # sums that differ by at most this share of the largest one are considered equal


def remove_barren_nodes(network: Network, query: frozenset[int]) -> tuple[Network, float]:
    """Return the network without barren variables, and the log of the constant that they sum to.

    Removed variables keep their number and have one state.
    """
    factors = list(network.factors())
    holding: list[set[int]] = [set() for _ in range(network.count)]
    for a, (scope, _) in enumerate(factors):
        for i in scope:
            holding[i].add(a)
    todo = [i for i in range(network.count - 1, -1, -1) if i not in query and len(holding[i]) == 1]
    gone: set[int] = set()
    dropped: set[int] = set()
    constants: list[float] = []
    while todo:
        i = todo.pop()
        if len(holding[i]) != 1:
            continue
        (a,) = holding[i]
        scope, table = factors[a]
        sums = table.sum(axis=scope.index(i))
        if sums.max() - sums.min() > EQUAL * sums.max() or sums.max() == 0:
            continue
        constants.append(math.log(float(sums.max())))
        gone.add(i)
        dropped.add(a)
        for j in scope:
            holding[j].discard(a)
            if j not in query and len(holding[j]) == 1:
                todo.append(j)
    cardinality = network.cardinality.copy()
    cardinality[list(gone)] = 1
    return build_network(cardinality.tolist(), [factor for a, factor in enumerate(factors) if a not in dropped]), math.fsum(constants)


def without_zero_entries(network: Network) -> Network:
    """Return a network with the same graph and no zero in any table."""
    return replace(network, table=np.ones_like(network.table))
