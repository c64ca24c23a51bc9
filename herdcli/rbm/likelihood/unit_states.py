"""The states of units that have finitely many, by number."""

from __future__ import annotations

import numpy as np

from herdcli.rbm.units.base import UnitFamily
from herdcli.schema import Array


def state_rows(units: UnitFamily, count: int, numbers: Array) -> Array:
    """(len(numbers), count · group) float64: the states of `count` units with these numbers (n,), the first unit running fastest."""
    assert units.support is not None
    base = len(units.support)
    digits = numbers[:, None] // base ** np.arange(count) % base
    states: Array = units.support[digits].reshape(len(numbers), count * units.group)
    return states
