"""Boltzmann machines: networks of two-state variables and positive factors over one or two of them, as weights and biases.

log Π f = constant + Σ W_ij x_i x_j + Σ b_i x_i,  x ∈ {0, 1}      Source: Teh (2003), 2.35.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from herdcli.errors import BadUsage
from herdcli.markov.network import Network
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
    b, constant = np.zeros(network.count), 0.0
    rows, columns, weights = [], [], []
    for a, (scope, table) in enumerate(network.factors()):
        if (table == 0).any():
            raise BadUsage(f"--algorithm {algorithm} is for positive factors, factor {a} has a zero", hint=hint)
        wide = [i for i in scope if network.cardinality[i] == 2]
        logs = np.log(table).reshape([2] * len(wide))
        if len(wide) > 2:
            raise BadUsage(f"--algorithm {algorithm} is for pairs, factor {a} has {len(wide)} variables", hint=hint)
        constant += float(logs.flat[0])
        if len(wide) == 1:
            b[wide[0]] += logs[1] - logs[0]
        elif len(wide) == 2:
            i, j = wide
            b[i] += logs[1, 0] - logs[0, 0]
            b[j] += logs[0, 1] - logs[0, 0]
            w = logs[1, 1] - logs[1, 0] - logs[0, 1] + logs[0, 0]
            rows += [i, j]
            columns += [j, i]
            weights += [w, w]
    W = csr_matrix((weights, (rows, columns)), shape=(network.count, network.count))
    return Boltzmann(W, b, constant, network.cardinality == 1)


def colours(W: csr_matrix) -> list[Array]:
    """Sets of units without a weight inside, greedily: they can be updated at once as if one after the other."""
    colour = np.full(W.shape[0], -1)
    for i in range(W.shape[0]):
        taken = set(colour[W.indices[W.indptr[i] : W.indptr[i + 1]]].tolist())
        colour[i] = next(c for c in range(len(taken) + 1) if c not in taken)
    return [np.flatnonzero(colour == c) for c in range(int(colour.max(initial=-1)) + 1)]
