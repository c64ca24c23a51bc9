"""Enumeration of the states of units that have finitely many."""

from __future__ import annotations

import numpy as np

from herdcli.rbm.units.base import UnitFamily
from herdcli.schema import Array


def state_rows(units: UnitFamily, count: int, numbers: Array) -> Array:
    """Return the states of `count` units with these numbers (n,) as float64, the first unit changing fastest.

    The shape is (len(numbers), count · group).
    """
    assert units.support is not None
    base = len(units.support)
    digits = numbers[:, None] // base ** np.arange(count) % base
    states: Array = units.support[digits].reshape(len(numbers), count * units.group)
    return states
