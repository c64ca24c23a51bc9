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


class GridPairs(Sequence[Factor]):
    """The pairs of neighbours on a grid of variables with two states: all pairs to the right, then all pairs down.

    table (E, 2, 2)  their tables.  Scopes and offsets take as much memory as the tables; they follow from the size of the grid on request.
    """

    def __init__(self, rows: int, columns: int, table: Array) -> None:
        self.rows, self.columns, self.table = rows, columns, table

    def __len__(self) -> int:
        return len(self.table)

    @overload
    def __getitem__(self, at: int) -> Factor: ...
    @overload
    def __getitem__(self, at: slice) -> list[Factor]: ...
    def __getitem__(self, at: int | slice) -> Factor | list[Factor]:
        if isinstance(at, slice):
            return [self[a] for a in range(*at.indices(len(self)))]
        a = range(len(self))[at]
        across = self.rows * (self.columns - 1)
        if a < across:
            first = a // (self.columns - 1) * self.columns + a % (self.columns - 1)
            return (first, first + 1), self.table[a]
        return (a - across, a - across + self.columns), self.table[a]

    def flatten(self) -> FlatCliques:
        """Return the same cliques with their scopes and offsets."""
        rows, columns = self.rows, self.columns
        scope = np.empty((len(self), 2), dtype=np.int64)
        across = rows * (columns - 1)
        at = np.arange(rows * columns)
        scope[:across, 0] = at.reshape(rows, columns)[:, :-1].ravel()
        scope[:across, 1] = scope[:across, 0] + 1
        scope[across:, 0], scope[across:, 1] = at[: len(self) - across], at[columns:]
        scope_offset, table_offset = (np.arange(0, step * len(self) + 1, step) for step in (2, 4))
        return FlatCliques(scope.ravel(), scope_offset, self.table.ravel(), table_offset, np.full(rows * columns, 2))


def empty_cliques(cardinality: Array) -> FlatCliques:
    """Return an empty sequence of cliques."""
    none, start = np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
    return FlatCliques(none, start, np.empty(0), start, cardinality)
