"""Each variable given all the others: what Gibbs sampling draws from and the pseudo-likelihood is a sum of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class Conditionals:
    """Of each variable the (factor, stride) pairs that it is in; strides (F, N) into flat tables."""

    cardinality: Array
    strides: Array
    owners: list[list[int]]

    def cells(self, x: Array) -> Array:
        """(n, F) the cell of each factor that a row is in."""
        # Whole numbers below 2^53 are exact in floating point, whose products BLAS takes.
        return np.asarray((x.astype(np.float64) @ self.strides.T.astype(np.float64)).astype(np.int64))

    def probabilities(self, i: int, x: Array, cells: Array, log_tables: Sequence[Array]) -> Array:
        """(n, card) P(x_i | the other variables)."""
        states = np.arange(int(self.cardinality[i]))
        logits = np.zeros((len(x), len(states)))
        for a in self.owners[i]:
            stride = int(self.strides[a, i])
            # Of log P only factors over x_i vary with it; a cell less stride times x_i is the cell with x_i = 0 and the rest of the row.
            logits += log_tables[a][(cells[:, a] - stride * x[:, i])[:, None] + stride * states]
        logits -= logits.max(axis=1, keepdims=True)
        p = np.exp(logits)
        p /= p.sum(axis=1, keepdims=True)
        return p

    def sweep(self, x: Array, log_tables: Sequence[Array], random: np.random.Generator) -> None:
        """One Gibbs sweep of rows (n, N) int64, in place."""
        cells = self.cells(x)
        for i in range(x.shape[1]):
            p = self.probabilities(i, x, cells, log_tables)
            drawn = (p.cumsum(axis=1)[:, :-1] < random.random((len(x), 1))).sum(axis=1)
            change = drawn - x[:, i]
            for a in self.owners[i]:
                cells[:, a] += self.strides[a, i] * change
            x[:, i] = drawn


def full_conditionals(cardinality: Array, scopes: Sequence[tuple[int, ...]]) -> Conditionals:
    """For factors over these scopes."""
    strides = np.zeros((len(scopes), len(cardinality)), dtype=np.int64)
    owners: list[list[int]] = [[] for _ in cardinality]
    for a, scope in enumerate(scopes):
        stride = 1
        for i in reversed(scope):
            strides[a, i] = stride
            stride *= int(cardinality[i])
            owners[i].append(a)
    return Conditionals(np.asarray(cardinality), strides, owners)
