"""Unit families of a harmonium layer: what a unit's natural parameter says about its value.

A layer of units x with natural parameters a has the density  exp(a·x − Σ A(a))  with respect to
the family's base measure; A is the log-partition and A' the mean.  Everything an RBM needs of a
layer is here; a new family is one more class.
Source: Welling, Rosen-Zvi & Hinton (2005), exponential family harmoniums; Teh (2003), sec. 3.2.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from herdcli.errors import BadUsage
from herdcli.schema import Array


def logistic(natural: Array) -> Array:
    """1 / (1 + e^{−a}) elementwise, to full relative precision at both ends."""
    result: Array = np.exp(-np.logaddexp(0.0, -natural))
    return result


class Family(Protocol):
    """One kind of unit.  `values` are the two states of a two-state unit, in order off, on."""

    name: str
    values: tuple[int, int]

    def log_partition(self, natural: Array) -> Array:
        """A(a) elementwise, in nats."""

    def mean(self, natural: Array) -> Array:
        """E[x | a] = A'(a) elementwise."""

    def on_probability(self, natural: Array) -> Array:
        """P(x = values[1] | a) elementwise."""


class Binary:
    """x in {0, 1}: A(a) = log(1 + e^a)."""

    name = "binary"
    values = (0, 1)

    def log_partition(self, natural: Array) -> Array:
        result: Array = np.logaddexp(0.0, natural)
        return result

    def mean(self, natural: Array) -> Array:
        return logistic(natural)

    def on_probability(self, natural: Array) -> Array:
        return logistic(natural)


class Spin:
    """x in {−1, +1}: A(a) = log(2 cosh a), written so that it cannot overflow."""

    name = "spin"
    values = (-1, 1)

    def log_partition(self, natural: Array) -> Array:
        size = np.abs(natural)
        result: Array = size + np.log1p(np.exp(-2.0 * size))
        return result

    def mean(self, natural: Array) -> Array:
        result: Array = np.tanh(natural)
        return result

    def on_probability(self, natural: Array) -> Array:
        return logistic(2.0 * natural)


FAMILIES: dict[str, Family] = {"binary": Binary(), "spin": Spin()}


def family(name: str) -> Family:
    """The family of a name as stored in artifacts and written on the command line."""
    try:
        return FAMILIES[name]
    except KeyError:
        raise BadUsage(f"unknown units '{name}', expected one of {', '.join(FAMILIES)}") from None
