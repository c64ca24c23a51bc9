"""Marginals of many variables and cliques as flat arrays that are read like lists; items are created only on access."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from herdcli.markov.model.network import Factor
from herdcli.schema import Array


class FlatMarginals(Sequence[Array]):
    """Concatenated marginals of variables, with their offsets."""

    def __init__(self, values: Array, offset: Array) -> None:
        self.values, self.offset = values, offset

    def __len__(self) -> int:
        return len(self.offset) - 1

    @overload
    def __getitem__(self, at: int) -> Array: ...
    @overload
    def __getitem__(self, at: slice) -> list[Array]: ...
    def __getitem__(self, at: int | slice) -> Array | list[Array]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        i = range(len(self))[at]
        part: Array = self.values[self.offset[i] : self.offset[i + 1]]
        return part


class FlatCliques(Sequence[Factor]):
    """Concatenated scopes and tables of cliques, tables in C order; the cardinalities (N,) give the shapes."""

    def __init__(self, scope: Array, scope_offset: Array, table: Array, table_offset: Array, cardinality: Array) -> None:
        self.scope, self.scope_offset, self.table, self.table_offset = scope, scope_offset, table, table_offset
        self.cardinality = cardinality

    def __len__(self) -> int:
        return len(self.scope_offset) - 1

    @overload
    def __getitem__(self, at: int) -> Factor: ...
    @overload
    def __getitem__(self, at: slice) -> list[Factor]: ...
    def __getitem__(self, at: int | slice) -> Factor | list[Factor]:
        if isinstance(at, slice):
            return [self[a] for a in range(*at.indices(len(self)))]
        a = range(len(self))[at]
        scope = tuple(self.scope[self.scope_offset[a] : self.scope_offset[a + 1]].tolist())
        table = self.table[self.table_offset[a] : self.table_offset[a + 1]]
        return scope, table.reshape([int(self.cardinality[i]) for i in scope])


def make_pair_cliques(first: Array, second: Array, table: Array, cardinality: Array) -> FlatCliques:
    """Return cliques of two variables with two states each, given tables (E, 2, 2)."""
    scope = np.stack([first, second], axis=1).ravel()
    count = np.arange(len(first) + 1)
    return FlatCliques(scope, 2 * count, table.ravel(), 4 * count, cardinality)


def empty_cliques(cardinality: Array) -> FlatCliques:
    """Return an empty sequence of cliques."""
    none, start = np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
    return FlatCliques(none, start, np.empty(0), start, cardinality)
