"""Products of the cliques of a junction tree (their factors and their children's messages), and folds of these over the first variable.

A clique is processed slab by slab, or only on its possible columns (`sparse_cliques`), by one thread or several.  The pieces are
the same for any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import NegativeResult
from herdcli.markov.exact import sparse_cliques
from herdcli.markov.exact.junction_tree import JunctionTreeLayout, restrict_scopes
from herdcli.markov.exact.message_storage import MessageStore
from herdcli.markov.exact.separator_states import PossibleColumns, make_column_lookup
from herdcli.markov.exact.table_arithmetic import SMALL, Arithmetic, merge_small_tables, slab_indices, slab_product
from herdcli.markov.model.network import Network
from herdcli.markov.model.possible_states import IMPOSSIBLE
from herdcli.schema import Array

CHUNK = 16  # slabs given to the workers at a time
T = TypeVar("T")
R = TypeVar("R")
Fold = Callable[[Array], tuple[Array, ...]]  # folds the first axis of a table; returns the message, and the tables that are kept


class CliqueProducts:
    """The cliques of one run.

    scales     the logarithm of the constant that the message of each clique was divided by.
    constants  the logarithm of the constant that each factor was divided by.
    """

    def __init__(
        self,
        network: Network,
        tree: JunctionTreeLayout,
        messages: MessageStore,
        map: Map,
        columns: Sequence[PossibleColumns | None],
        arithmetic: Arithmetic,
    ) -> None:
        self.network, self.tree = network, tree
        self.messages, self.map, self.columns, self.by = messages, map, columns, arithmetic
        self.states: list[int] = network.cardinality.tolist()
        self.scales: list[float] = [0.0] * len(tree.scopes)
        self.constants: list[float] = []
        self.scopes = list(restrict_scopes(network, network.cardinality > 1))
        self.homes: list[list[int]] = [[] for _ in tree.scopes]
        for a, k in enumerate(tree.home):
            self.homes[k].append(a)
        self.children: list[list[int]] = [[] for _ in tree.scopes]
        for k, p in enumerate(tree.parent):
            if p >= 0:
                self.children[p].append(k)
        with self.by.error_handling():
            self.factors = [self._clique_factors(k) for k in range(len(tree.scopes))]

    def _clique_factors(self, k: int) -> list[Array]:
        """Return the factors of a clique, scaled, with small ones multiplied together."""
        parts = []
        for a in self.homes[k]:
            low, high = int(self.network.table_offset[a]), int(self.network.table_offset[a + 1])
            scope = self.scopes[a]
            table, scale = self.by.scale_to_maximum(self.by.convert_factor_table(self.network.table[low:high]))
            self.constants.append(scale)
            axes = sorted(range(len(scope)), key=lambda axis: self.tree.position[scope[axis]])
            shaped = table.reshape([self.states[i] for i in scope]).transpose(axes)
            parts.append(self._reshape_to_clique(np.ascontiguousarray(shaped), [scope[axis] for axis in axes], k))
        return merge_small_tables(parts, self.by)

    def _reshape_to_clique(self, table: Array, scope: list[int], k: int) -> Array:
        """Reshape a table to the axes of clique k; both scopes are in elimination order."""
        inside = set(scope)
        return table.reshape([self.states[i] if i in inside else 1 for i in self.tree.scopes[k]])

    def fold_clique_product(self, k: int, fold: Fold) -> tuple[Array, ...]:
        """Return the product of a clique folded over its first variable; (2.21) if the fold is the sum."""
        if self.columns[k] is not None:
            return self._fold_product_by_columns(k, fold)
        parts, shape = self._clique_tables(k), self._clique_shape(k)
        if math.prod(shape) <= SMALL:
            return fold(slab_product(parts, shape, (), self.by))

        def folded(prefix: tuple[int, ...]) -> tuple[Array, ...]:
            with self.by.error_handling():
                return fold(slab_product(parts, shape, prefix, self.by))

        made: list[Array] = []
        for prefix, pieces in self._map_in_order(slab_indices(shape), folded):
            made = made or [np.empty(shape[1:], dtype=piece.dtype) for piece in pieces]
            for whole, piece in zip(made, pieces, strict=True):
                whole[prefix] = piece
        return tuple(made)

    def _fold_product_by_columns(self, k: int, fold: Fold) -> tuple[Array, ...]:
        parts, states, columns = self._factor_lookups(k), self._clique_shape(k)[0], self._possible_clique_columns(k)
        if columns.count == 0:
            raise NegativeResult(IMPOSSIBLE)

        def folded(piece: tuple[int, Array]) -> tuple[Array, ...]:
            with self.by.error_handling():
                return fold(sparse_cliques.sparse_product(parts, states, piece[1], self.by))

        made: list[Array] = []
        for (low, column), pieces in self._map_in_order(columns.column_chunks(), folded):
            made = made or [np.empty(columns.count, dtype=piece.dtype) for piece in pieces]
            for whole, piece in zip(made, pieces, strict=True):
                whole[low : low + len(column)] = piece
        return tuple(made)

    def fold_by_sum(self, table: Array) -> tuple[Array, ...]:
        """The fold that computes the sum."""
        return (self.by.sum_axes(table, (0,)),)

    def _possible_clique_columns(self, k: int) -> PossibleColumns:
        found = self.columns[k]
        assert found is not None
        return found

    def _clique_shape(self, k: int) -> tuple[int, ...]:
        return tuple(self.states[i] for i in self.tree.scopes[k])

    def _axes_in_clique(self, k: int, variables: Iterable[int]) -> tuple[int, ...]:
        """Return the positions of some variables among those of clique k."""
        place = {i: axis for axis, i in enumerate(self.tree.scopes[k])}
        return tuple(sorted(place[i] for i in variables))

    def _clique_tables(self, k: int) -> list[Array]:
        """Return the tables whose product is the table of clique k, with its axes."""
        arrived = [self._reshape_to_clique(self._expand_message(c), self.tree.scopes[c][1:], k) for c in self.children[k]]
        return [*self.factors[k], *arrived]

    def _expand_message(self, c: int) -> Array:
        """Return the message of clique c, including its impossible states."""
        message, columns = self.messages.get(c), self.columns[c]
        if columns is None:
            return message
        made = np.full(columns.size, self.by.none)
        made[columns.all()] = message
        return made

    def _factor_lookups(self, k: int) -> list[sparse_cliques.SparseFactor]:
        """Return the tables whose product is the table of clique k, for lookup by column."""
        shape = self._clique_shape(k)
        parts = [
            sparse_cliques.SparseFactor(
                make_column_lookup(shape, [axis for axis, size in enumerate(table.shape) if size > 1]), table.reshape(-1), None
            )
            for table in self.factors[k]
        ]
        for c in self.children[k]:
            message = self.messages.get(c).reshape(-1)
            parts.append(
                sparse_cliques.SparseFactor(
                    make_column_lookup(shape, self._axes_in_clique(k, self.tree.scopes[c][1:])), message, self.columns[c]
                )
            )
        return parts

    def _map_in_order(self, where: Iterable[T], make: Callable[[T], R]) -> Iterator[tuple[T, R]]:
        """Yield (place, result of `make`) for all places in order; the workers process several at a time."""
        places = iter(where)
        while some := list(islice(places, CHUNK)):
            yield from zip(some, self.map(make, some) if len(some) > 1 else [make(some[0])], strict=True)
