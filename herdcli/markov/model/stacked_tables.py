"""Stacks of factors with tables of one shape, so that a propagation step needs few array operations for any number of factors."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from herdcli.markov.model.network import Factor, Network
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class FactorGroup:
    """G factors with tables of one shape.

    number  (G,) the indices of the factors.
    first   (G, k) the start of each variable's states in flat (Σ card,) arrays.
    logs    log tables (G, s_1, …, s_k).
    """

    number: Array
    first: Array
    logs: Array

    @property
    def width(self) -> int:
        """The number of variables of a factor."""
        return int(self.first.shape[1])

    def state_positions(self, axis: int) -> Array:
        """Return the positions (G, s) of the states of the variable on one axis in flat arrays."""
        found: Array = self.first[:, axis, None] + np.arange(self.logs.shape[axis + 1])
        return found

    def broadcast_along_axis(self, rows: Array, axis: int) -> Array:
        """Reshape rows (G, s) so that they broadcast along one axis of the tables."""
        shape = [len(rows)] + [1] * self.width
        shape[axis + 1] = rows.shape[1]
        return rows.reshape(shape)

    def other_axes(self, axis: int) -> tuple[int, ...]:
        """Return all axes of a table except one."""
        return tuple(k + 1 for k in range(self.width) if k != axis)


def state_offsets(network: Network) -> Array:
    """Return the offsets (N + 1,) of each variable's states in flat arrays."""
    found: Array = np.concatenate(([0], np.cumsum(network.cardinality)))
    return found


def group_factors_by_shape(network: Network, numbers: Iterable[int] | None = None) -> list[FactorGroup]:
    """Group the factors with these numbers (default all) by shape; every factor has a variable."""
    first = state_offsets(network)
    groups: dict[tuple[int, ...], list[tuple[int, list[int], Array]]] = {}
    wanted = None if numbers is None else set(numbers)
    with np.errstate(divide="ignore"):
        for a, (scope, table) in enumerate(network.factors()):
            if wanted is None or a in wanted:
                groups.setdefault(table.shape, []).append((a, [int(first[i]) for i in scope], np.log(table)))
    return [
        FactorGroup(np.array([a for a, _, _ in part]), np.array([at for _, at, _ in part]), np.stack([logs for _, _, logs in part]))
        for part in groups.values()
    ]


def merge_equal_scopes(factors: Iterable[Factor]) -> list[Factor]:
    """Multiply factors over the same variables; return scopes in increasing order and tables as logarithms."""
    made: dict[tuple[int, ...], Array] = {}
    for scope, table in factors:
        axes = sorted(range(len(scope)), key=scope.__getitem__)
        key = tuple(scope[axis] for axis in axes)
        with np.errstate(divide="ignore"):
            logs = np.log(table).transpose(axes)
        made[key] = made[key] + logs if key in made else logs
    return list(made.items())


def colour_factors(network: Network) -> list[list[int]]:
    """Partition the factors greedily into classes in which no two share a variable."""
    taken: list[set[int]] = [set() for _ in range(network.count)]
    classes: list[list[int]] = []
    for a in range(network.factor_count):
        scope = network.factor_scope(a)
        used = set().union(*(taken[i] for i in scope))
        colour = next(c for c in range(len(used) + 1) if c not in used)
        if colour == len(classes):
            classes.append([])
        classes[colour].append(a)
        for i in scope:
            taken[i].add(colour)
    return classes
