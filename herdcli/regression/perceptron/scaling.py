"""Scaling of a perceptron's data: columns with mean 0 and variance 1, and for the Gaussian a target with mean 0 and variance 1."""

from __future__ import annotations

import numpy as np

from herdcli.numerics.block_statistics import BLOCK
from herdcli.records import dataclass
from herdcli.regression.families import Family
from herdcli.schema import Array

CONSTANT = 1e-14  # relative to a column's mean: a smaller deviation is rounding


@dataclass(frozen=True)
class FitScaling:
    """The scaling of columns: mean (D,) and factor (D,), one over the deviation, 0 for constant columns.

    middle, spread  mean and deviation of a Gaussian target, else 0 and 1.
    """

    mean: Array
    factor: Array
    middle: float
    spread: float

    def columns(self, X: Array) -> Array:
        """Return rows (m, D) in the scaled units."""
        Z: Array = X - self.mean
        Z *= self.factor
        return Z

    def original_units(self, last: tuple[Array, Array]) -> None:
        """Convert the last layer's weights and biases, in place, to those for the target's own units."""
        W, b = last
        W *= self.spread
        b *= self.spread
        b += self.middle


def find_scaling(X: Array, y: Array, offset: Array, weight: Array | None, family: Family) -> FitScaling:
    """Return the scaling of training rows (n, D) with targets, offsets and weights (n,)."""
    mass = np.ones(len(y)) if weight is None else weight
    share = mass / mass.sum()
    mean = share @ X
    variance = np.zeros(X.shape[1])
    for start in range(0, len(X), BLOCK):
        part = slice(start, start + BLOCK)
        variance += share[part] @ np.square(X[part] - mean)
    deviation = np.sqrt(variance)
    varies = deviation > CONSTANT * np.abs(mean)
    factor = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
    if family.name != "gaussian":
        return FitScaling(mean, factor, 0.0, 1.0)
    rest = y - offset
    middle = float(share @ rest)
    spread = float(np.sqrt(share @ np.square(rest - middle)))
    return FitScaling(mean, factor, middle, spread if spread > CONSTANT * abs(middle) else 1.0)
