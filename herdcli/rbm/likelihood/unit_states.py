"""Enumeration of the states of units that have finitely many."""

from __future__ import annotations

import numpy as np

from herdcli.rbm.units.base import UnitFamily
from herdcli.schema import Array


def decode_state_indices(units: UnitFamily, unit_count: int, state_indices: Array) -> Array:
    """Return the states of `unit_count` units with these numbers (n,) as float64, the first unit changing fastest.

    The shape is (len(numbers), count · group).
    """
    assert units.support is not None
    base = len(units.support)
    digits = state_indices[:, None] // base ** np.arange(unit_count) % base
    states: Array = units.support[digits].reshape(len(state_indices), unit_count * units.group)
    return states
