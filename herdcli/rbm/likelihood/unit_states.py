"""Enumeration of the states of units that have finitely many."""

from __future__ import annotations

import math

import numpy as np

from herdcli.rbm.units.base import UnitFamily
from herdcli.schema import Array


def count_states(units: UnitFamily, unit_count: int, *, first: int = 0) -> int:
    """Return the number of states of `unit_count` units, which begin with the unit numbered `first`."""
    if units.support is not None:
        return int(len(units.support) ** unit_count)
    return math.prod(len(units.unit_values(unit)) for unit in range(first, first + unit_count))


def decode_state_indices(units: UnitFamily, unit_count: int, state_indices: Array, *, first: int = 0) -> Array:
    """Return the states of `unit_count` units with these numbers (n,) as float64, the first unit changing fastest.

    The units begin with the one numbered `first`; the shape is (len(numbers), their columns).
    """
    if units.support is not None:
        base = len(units.support)
        digits = state_indices[:, None] // base ** np.arange(unit_count) % base
        states: Array = units.support[digits].reshape(len(state_indices), unit_count * units.group)
        return states
    parts, left = [np.empty((len(state_indices), 0))], np.asarray(state_indices)
    for unit in range(first, first + unit_count):
        values = units.unit_values(unit)
        parts.append(values[left % len(values)])
        left = left // len(values)
    return np.hstack(parts)


def count_enumerable_units(units: UnitFamily, unit_count: int, max_states: int) -> int:
    """Return the largest number of first units, of `unit_count`, that have at most `max_states` states together."""
    near, states = 0, 1
    while near < unit_count and (states := states * len(units.unit_values(near))) <= max_states:
        near += 1
    return near
