"""Boltzmann machines: networks of two-state variables and positive factors over one or two of them, as weights and biases.

log Π f = constant + Σ W_ij x_i x_j + Σ b_i x_i,  x ∈ {0, 1}      Source: Teh (2003), 2.35.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from herdcli.errors import BadUsage
from herdcli.markov.model.network import Network
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class Boltzmann:
    """W (N, N) symmetric sparse, b (N,).  Variables held by evidence are units whose x is always 0.

    held  which those are.
    """

    W: csr_matrix
    b: Array
    constant: float
    held: Array


def boltzmann(network: Network, algorithm: str) -> Boltzmann:
    """The weights of a network.  Raises BadUsage if it is no Boltzmann machine."""
    hint = "bp and ups take any network: --algorithm ups"
    if network.cardinality.max() > 2:
        i = int(np.argmax(network.cardinality > 2))
        raise BadUsage(f"--algorithm {algorithm} is for two-state variables, {network.name(i)} has {network.cardinality[i]}", hint=hint)
    if (zeros := np.flatnonzero(network.table == 0)).size:
        a = int(np.searchsorted(network.table_offset, zeros[0], side="right")) - 1
        raise BadUsage(f"--algorithm {algorithm} is for positive factors, factor {a} has a zero", hint=hint)
    held = network.cardinality == 1
    owner = np.repeat(np.arange(network.factor_count), np.diff(network.scope_offset))
    free = ~held[network.scope]
    wide = np.bincount(owner[free], minlength=network.factor_count)
    if (wide > 2).any():
        a = int(np.argmax(wide > 2))
        raise BadUsage(f"--algorithm {algorithm} is for pairs, factor {a} has {wide[a]} variables", hint=hint)
    logs, first = np.log(network.table), network.table_offset[:-1]
    begin = np.concatenate(([0], np.cumsum(wide)))[:-1]  # of each factor in the list of its free variables
    variables = network.scope[free]
    single, pair = np.flatnonzero(wide == 1), np.flatnonzero(wide == 2)
    i, j = variables[begin[pair]], variables[begin[pair] + 1]
    t00, t01, t10, t11 = (logs[first[pair] + k] for k in range(4))
    n = network.count
    # log f = t00 + (t10 − t00) x_i + (t01 − t00) x_j + (t11 − t10 − t01 +
    # t00) x_i x_j holds at all four states, which is 2.35 of one factor.
    b = np.bincount(variables[begin[single]], logs[first[single] + 1] - logs[first[single]], n)
    b = b + np.bincount(i, t10 - t00, n) + np.bincount(j, t01 - t00, n)
    w = t11 - t10 - t01 + t00
    W = csr_matrix((np.concatenate([w, w]), (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(n, n))
    return Boltzmann(W, b, float(logs[first].sum()), held)


def colours(W: csr_matrix) -> list[Array]:
    """Sets of units without a weight inside, greedily: they can be updated at once as if one after the other."""
    colour = np.full(W.shape[0], -1)
    for i in range(W.shape[0]):
        taken = set(colour[W.indices[W.indptr[i] : W.indptr[i + 1]]].tolist())
        colour[i] = next(c for c in range(len(taken) + 1) if c not in taken)
    return [np.flatnonzero(colour == c) for c in range(int(colour.max(initial=-1)) + 1)]
