"""Full conditionals: the distribution of each variable given all others, used by Gibbs sampling and the pseudo-likelihood."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class FullConditionals:
    """The factors that contain each variable (`owners`), and the strides (F, N) of variables in flat tables."""

    cardinality: Array
    strides: Array
    owners: list[list[int]]

    def cells(self, x: Array) -> Array:
        """Return the cell (n, F) of each factor's flat table that each row is in."""
        # The product is computed in floating point, so that BLAS does it; whole numbers below 2^53 are exact.
        return np.asarray((x.astype(np.float64) @ self.strides.T.astype(np.float64)).astype(np.int64))

    def conditional_probabilities(self, i: int, x: Array, cells: Array, log_tables: Sequence[Array]) -> Array:
        """Return P(x_i | the other variables), (n, card)."""
        states = np.arange(int(self.cardinality[i]))
        logits = np.zeros((len(x), len(states)))
        for a in self.owners[i]:
            stride = int(self.strides[a, i])
            # Only factors over x_i depend on it.  A cell minus stride times x_i is the cell with x_i = 0 and the same other variables.
            logits += log_tables[a][(cells[:, a] - stride * x[:, i])[:, None] + stride * states]
        logits -= logits.max(axis=1, keepdims=True)
        p = np.exp(logits)
        p /= p.sum(axis=1, keepdims=True)
        return p

    def gibbs_sweep(self, x: Array, log_tables: Sequence[Array], random: np.random.Generator) -> None:
        """Do one Gibbs sweep of rows (n, N) int64, in place."""
        cells = self.cells(x)
        for i in range(x.shape[1]):
            p = self.conditional_probabilities(i, x, cells, log_tables)
            drawn = (p.cumsum(axis=1)[:, :-1] < random.random((len(x), 1))).sum(axis=1)
            change = drawn - x[:, i]
            for a in self.owners[i]:
                cells[:, a] += self.strides[a, i] * change
            x[:, i] = drawn


def make_full_conditionals(cardinality: Array, scopes: Sequence[tuple[int, ...]]) -> FullConditionals:
    """Return the conditionals for factors over these scopes."""
    strides = np.zeros((len(scopes), len(cardinality)), dtype=np.int64)
    owners: list[list[int]] = [[] for _ in cardinality]
    for a, scope in enumerate(scopes):
        stride = 1
        for i in reversed(scope):
            strides[a, i] = stride
            stride *= int(cardinality[i])
            owners[i].append(a)
    return FullConditionals(np.asarray(cardinality), strides, owners)
