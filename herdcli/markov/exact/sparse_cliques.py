"""Cliques with few possible columns: products and marginals over only these, and the search for them.

A column is one state of all variables of a clique except its first; see `separator_states`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from herdcli.markov.exact.junction_tree import JunctionTreeLayout, restrict_scopes
from herdcli.markov.exact.separator_states import (
    LEAST,
    ColumnLookup,
    PossibleColumns,
    is_packing_worthwhile,
    make_column_lookup,
    pack_columns,
    unpack_columns,
)
from herdcli.markov.exact.table_arithmetic import Arithmetic, BooleanArithmetic, merge_small_tables, reduce_axes, slab_indices, slab_product
from herdcli.markov.model.network import Network
from herdcli.records import dataclass
from herdcli.schema import Array

COUNTED = (1 << 22, 1 << 36)  # range of table cells of trees whose possible states are counted


@dataclass(frozen=True)
class SparseFactor:
    """A table whose values are looked up by column.

    columns  the possible columns, if the table is a message with these columns only; otherwise None.
    """

    lookup: ColumnLookup
    values: Array
    columns: PossibleColumns | None

    def values_at_columns(self, column: Array, state: int, arithmetic: Arithmetic) -> Array:
        """Return the values of columns at a state of the first variable."""
        cell = self.lookup.cells_of_columns(column) + state * self.lookup.first
        if self.columns is None:
            found: Array = self.values[cell]
            return found
        rank, possible = self.columns.rank_columns(cell)
        return np.where(possible, self.values[rank], arithmetic.none)


def sparse_product(parts: Sequence[SparseFactor], states: int, column: Array, arithmetic: Arithmetic) -> Array:
    """Return the product of tables at columns (states, n), for each state of the first variable."""
    made = np.full((states, len(column)), arithmetic.one)
    for part in parts:
        if part.lookup.first == 0:
            arithmetic.multiply(made, part.values_at_columns(column, 0, arithmetic), out=made)
            continue
        for state in range(states):
            arithmetic.multiply(made[state], part.values_at_columns(column, state, arithmetic), out=made[state])
    return made


@dataclass(frozen=True)
class MarginalAccumulator:
    """A marginal to which columns are added.

    columns  the possible columns of the child if the marginal is over these, otherwise None.
    """

    lookup: ColumnLookup
    shape: tuple[int, ...]
    values: Array
    columns: PossibleColumns | None

    def cells(self, column: Array, states: int) -> Array:
        """Return the cell of each column (states, n), −1 if it is impossible."""
        cell = self.lookup.cells_of_columns(column) + self.lookup.first * np.arange(states)[:, None]
        if self.columns is None:
            return np.broadcast_to(cell, (states, len(column)))
        rank, possible = self.columns.rank_columns(cell)
        return np.broadcast_to(np.where(possible, rank, -1), (states, len(column)))

    def add(self, cell: Array, table: Array, arithmetic: Arithmetic) -> None:
        """Add a table to its cells; values at impossible cells are zero."""
        if self.columns is None:
            arithmetic.add_at_cells(self.values, cell.reshape(-1), table.reshape(-1))
            return
        possible = cell >= 0
        arithmetic.add_at_cells(self.values, cell[possible], table[possible])

    def accumulated_marginal(self) -> Array:
        """Return the sums."""
        return self.values if self.columns is not None else self.values.reshape(self.shape)


def empty_marginal_accumulator(
    shape: tuple[int, ...], axes: tuple[int, ...], columns: PossibleColumns | None, arithmetic: Arithmetic
) -> MarginalAccumulator:
    """Return an empty marginal over some axes of a clique."""
    kept = tuple(shape[axis] for axis in axes)
    cells = int(np.prod(kept, dtype=np.int64)) if columns is None else columns.count
    return MarginalAccumulator(make_column_lookup(shape, axes), kept, np.full(cells, arithmetic.none), columns)


def possible_columns_if_worthwhile(
    network: Network, tree: JunctionTreeLayout, cells: float, limit: float = math.inf
) -> list[PossibleColumns | None]:
    """Return the possible states of messages, if there is much to compute and zeros reduce it.

    Returns None for all messages if the search would take more than `limit` bytes: then messages over all states, 64 times as large, do not
    fit either.
    """
    if not COUNTED[0] <= cells <= COUNTED[1] or network.table.all() or estimate_possible_columns_bytes(network, tree) > limit:
        return [None] * len(tree.scopes)
    return find_possible_columns(network, tree)


def estimate_possible_columns_bytes(network: Network, tree: JunctionTreeLayout) -> int:
    """Return the bytes of `find_possible_columns`.

    They are one bit per column of all cliques, as much for the counts, and truth values of the largest.
    """
    states: list[int] = network.cardinality.tolist()
    sizes = [math.prod(states[i] for i in scope[1:]) for scope in tree.scopes]
    return sum(sizes) // 4 + 4 * max(sizes, default=0)


def find_possible_columns(network: Network, tree: JunctionTreeLayout) -> list[PossibleColumns | None]:
    """Return, for each message, its possible states if these are few; computed by both passes on truth values."""
    if network.table.all():
        return [None] * len(tree.scopes)
    supports = ColumnPropagation(network, tree)
    for k in range(len(tree.scopes)):
        supports.restrict_to_children(k)
    for k in range(len(tree.scopes) - 1, -1, -1):
        supports.restrict_children(k)
    return [found if is_packing_worthwhile(found) else None for found in supports.found]


class ColumnPropagation:
    """Constraint propagation on a junction tree: a column is kept if a state of all variables agrees with it (Dechter & Pearl 1989)."""

    def __init__(self, network: Network, tree: JunctionTreeLayout) -> None:
        self.tree, self.by = tree, BooleanArithmetic()
        self.states: list[int] = network.cardinality.tolist()
        self.factors: list[list[Array]] = [[] for _ in tree.scopes]
        self.found: list[PossibleColumns] = []
        self.children: list[list[int]] = [[] for _ in tree.scopes]
        for k, p in enumerate(tree.parent):
            if p >= 0:
                self.children[p].append(k)
        cells = network.table_offset.tolist()
        for a, scope in enumerate(restrict_scopes(network, network.cardinality > 1)):
            truth = (network.table[cells[a] : cells[a + 1]] > 0).reshape([self.states[i] for i in scope])
            axes = sorted(range(len(scope)), key=lambda axis: tree.position[scope[axis]])
            k = tree.home[a]
            if not truth.all():
                self.factors[k].append(self._reshape_to_clique(np.ascontiguousarray(truth.transpose(axes)), {*scope}, k))

    def _reshape_to_clique(self, table: Array, inside: set[int], k: int) -> Array:
        return table.reshape([self.states[i] if i in inside else 1 for i in self.tree.scopes[k]])

    def _constraint_tables(self, k: int) -> list[Array]:
        """Return the tables that make states of clique k impossible: factors, and the children that have impossible columns."""
        parts = merge_small_tables(self.factors[k], self.by)
        for c in self.children[k]:
            if (below := self.found[c]).count < below.size:
                parts.append(self._reshape_to_clique(unpack_columns(below, [below.size]), {*self.tree.scopes[c][1:]}, k))
        return parts

    def restrict_to_children(self, k: int) -> None:
        """Find the columns of clique k that its factors and children leave possible."""
        shape, parts = tuple(self.states[i] for i in self.tree.scopes[k]), self._constraint_tables(k)
        up = np.ones(shape[1:], dtype=np.bool_)
        for prefix in slab_indices(shape) if parts else ():
            up[prefix] = reduce_axes(slab_product(parts, shape, prefix, self.by), (0,), np.logical_or)
        self.found.append(pack_columns(up))

    def restrict_children(self, k: int) -> None:
        """Restrict its children's columns to those that clique k and its parent leave possible."""
        scope, own = self.tree.scopes[k], self.found[k]
        shape, parts = tuple(self.states[i] for i in scope), self._constraint_tables(k)
        if own.count < own.size:
            parts.append(unpack_columns(own, shape[1:])[None])
        wanted = [c for c in self.children[k] if self.found[c].size >= LEAST]
        if not parts or not wanted:
            return
        inside = [{*self.tree.scopes[c][1:]} for c in wanted]
        made = [np.zeros([self.states[i] for i in scope if i in among], dtype=np.bool_) for among in inside]
        for prefix in slab_indices(shape):
            table = slab_product(parts, shape, prefix, self.by)
            free = [scope[0], *scope[1 + len(prefix) :]]
            for whole, among in zip(made, inside, strict=True):
                # Every child contains the clique's first variable.
                at: tuple[Any, ...] = tuple(i for axis, i in enumerate(prefix) if scope[1 + axis] in among)
                whole[(slice(None), *at)] |= reduce_axes(table, tuple(axis for axis, i in enumerate(free) if i not in among), np.logical_or)
        for c, whole in zip(wanted, made, strict=True):
            self.found[c] = pack_columns(whole)
