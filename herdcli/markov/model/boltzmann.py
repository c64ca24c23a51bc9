"""Boltzmann machines: networks of binary variables with positive factors over one or two of them, as weights and biases.

log Π f = constant + Σ W_ij x_i x_j + Σ b_i x_i,  x ∈ {0, 1}      Source: Teh (2003), 2.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.errors import BadUsage
from herdcli.markov.model.network import Network
from herdcli.records import dataclass
from herdcli.schema import Array

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix  # whose import takes longer than propagation on most lattices


SOME = 1 << 19  # number of pairs that are processed at a time


@dataclass(frozen=True)
class BoltzmannMachine:
    """Symmetric sparse weights W (N, N) and biases b (N,).

    held  which variables are fixed by evidence; they are units whose x is always 0.
    """

    W: csr_matrix
    b: Array
    constant: float
    held: Array


@dataclass(frozen=True)
class CouplingList:
    """Weights w (E,) between units i and j (E,).

    A pair is repeated for each factor over it.  b, constant and held are as in `BoltzmannMachine`.
    """

    i: Array
    j: Array
    w: Array
    b: Array
    constant: float
    held: Array


def to_boltzmann_machine(network: Network, algorithm: str) -> BoltzmannMachine:
    """Return the weights and biases of a network.  Raises BadUsage if it is not a Boltzmann machine."""
    from scipy.sparse import csr_matrix

    found, n = to_coupling_list(network, algorithm), network.count
    i, j, w = found.i, found.j, found.w
    W = csr_matrix((np.concatenate([w, w]), (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(n, n))
    return BoltzmannMachine(W, found.b, found.constant, found.held)


def to_coupling_list(network: Network, algorithm: str) -> CouplingList:
    """Return the weights of a network as a list of pairs.  Raises BadUsage if it is not a Boltzmann machine."""
    hint = "use --algorithm bp or ups, which work for any network"
    if network.cardinality.max() > 2:
        unit = int(np.argmax(network.cardinality > 2))
        raise BadUsage(
            f"--algorithm {algorithm} needs two-state variables, but {network.name(unit)} has {network.cardinality[unit]} states", hint=hint
        )
    if (zeros := np.flatnonzero(network.table == 0)).size:
        a = int(np.searchsorted(network.table_offset, zeros[0], side="right")) - 1
        raise BadUsage(f"--algorithm {algorithm} needs positive factors, but {network.describe_factor(a)} has a zero", hint=hint)
    held = network.cardinality == 1
    wide, variables, begin = _free_variables(network, held)
    if (wide > 2).any():
        a = int(np.argmax(wide > 2))
        raise BadUsage(
            f"--algorithm {algorithm} needs factors of at most two variables, but {network.describe_factor(a)} has {wide[a]}", hint=hint
        )
    first = network.table_offset[:-1]
    single, pair, b = np.flatnonzero(wide == 1), np.flatnonzero(wide == 2), np.zeros(network.count)
    del wide
    for at in range(0, len(single), SOME):
        chosen = single[at : at + SOME]
        low, high = (np.log(network.table[first[chosen] + k]) for k in (0, 1))
        np.add.at(b, variables[begin[chosen]], high - low)
    i, j, w = np.empty(len(pair), variables.dtype), np.empty(len(pair), variables.dtype), np.empty(len(pair))
    for at in range(0, len(pair), SOME):
        some = slice(at, at + SOME)
        i[some], j[some] = variables[begin[pair[some]]], variables[begin[pair[some]] + 1]
        # log f = t00 + (t10 − t00) x_i + (t01 − t00) x_j + (t11 − t10 − t01 + t00) x_i x_j holds at all four states; this is 2.35 for one
        # factor.
        t00, t01, t10, t11 = (np.log(network.table[first[pair[some]] + k]) for k in range(4))
        w[some] = t11 - t10 - t01 + t00
        b += np.bincount(i[some], t10 - t00, len(b)) + np.bincount(j[some], t01 - t00, len(b))
    del pair, single
    logs = network.table[first]
    return CouplingList(i, j, w, b, float(np.log(logs, out=logs).sum()), held)


def _free_variables(network: Network, fixed: Array) -> tuple[Array, Array, Array]:
    """Return the number of free variables of each factor (F,), these variables, concatenated, and where each factor's begin (F,)."""
    widths = np.diff(network.scope_offset)
    if not fixed.any():
        return widths, network.scope, network.scope_offset[:-1]
    free = ~fixed[network.scope]
    owner = np.repeat(np.arange(network.factor_count), widths)
    count = np.bincount(owner[free], minlength=network.factor_count)
    return count, network.scope[free], np.cumsum(count) - count


def colour_units(W: csr_matrix) -> list[Array]:
    """Colour the units greedily so that no weight joins units of one colour.

    All units of one colour can be updated together with the same result as one after the other.
    """
    colour = np.full(W.shape[0], -1)
    for i in range(W.shape[0]):
        taken = set(colour[W.indices[W.indptr[i] : W.indptr[i + 1]]].tolist())
        colour[i] = next(c for c in range(len(taken) + 1) if c not in taken)
    return [np.flatnonzero(colour == c) for c in range(int(colour.max(initial=-1)) + 1)]
