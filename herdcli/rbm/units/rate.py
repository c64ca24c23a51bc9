"""Counts of n binary units with the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from herdcli import fast
from herdcli.errors import DataError
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.row_selection import column_sums
from herdcli.rbm.units.base import GraphOperations, Layer, SampledLayer, UnitFamily, log_factorial, logistic
from herdcli.rbm.units.two_state import BinaryUnits
from herdcli.records import dataclass
from herdcli.schema import Array

BINARY = BinaryUnits()


class RateUnits(UnitFamily):
    """x of n replicas are on: A(a) = n log(1 + e^a).  Rows to learn from may lie between counts.  Source: Teh (2003), sec. 3.3."""

    group = 1
    proportions = True

    def __init__(self, replicas: int) -> None:
        self.name = f"rate:{replicas}"
        self.scale = replicas
        self.states = (0, 1)
        self.range = (0.0, float(replicas))
        self.support = np.arange(replicas + 1.0)[:, None]
        self.variance_function = (0.0, 1.0, -1.0 / replicas)

    def log_partition(self, natural: Array) -> Array:
        """(..., U) n log(1 + e^a)."""
        result: Array = self.scale * exact_arithmetic.softplus(natural)
        return result

    def summed_log_partition(self, natural: Array) -> Array:
        """Σ n log(1 + e^a) over the last axis of (..., U); overwrites them."""
        total: Array = self.scale * BINARY.summed_log_partition(natural)
        return total

    def mean(self, natural: Array) -> Array:
        """(..., U) n logistic(a), counts."""
        return self.scale * logistic(natural)

    def log_base(self, values: Array) -> Array:
        """Σ log(n over x) over the last axis of (..., U), between counts by the gamma function."""
        total: Array = (log_factorial(np.array(self.scale)) - log_factorial(values) - log_factorial(self.scale - values)).sum(axis=-1)
        return total

    def natural(self, mean: Array) -> Array:
        """(..., U) log(mean/(n − mean))."""
        return BINARY.natural(np.asarray(mean, dtype=np.float64) / self.scale)

    def base_rate(self, rows: Any) -> Array:
        """(D,) with one row of 0 and one of n added to rows (n, D)."""
        return self.natural((column_sums(rows) + self.scale) / (rows.shape[0] + 2.0))

    def discrete(self, values: Array) -> Array:
        """The nearest counts (..., U)."""
        return np.rint(values)

    def require(self, rows: Array, first: int = 0) -> None:
        """Raise DataError where rows (n, D) leave 0 … n."""
        if rows.size and not 0 <= rows.min() <= rows.max() <= self.scale:
            raise DataError(f"counts from {rows.min():g} to {rows.max():g}, {self.name} units hold 0 to {self.scale}")

    def mean_in(self, graph: GraphOperations, natural: Any) -> Any:
        """n times Sigmoid."""
        return graph.op("Mul", graph.op("Sigmoid", natural), float(self.scale))

    def layer(self) -> Layer:
        """Binomial draws."""
        return BinomialLayer(self.scale)

    def slope(self, mean: Array, change: Array) -> Array:
        """(..., U) m (1 − m/n) times the changes."""
        return np.asarray(mean * (1.0 - mean / self.scale) * change)


@dataclass(frozen=True)
class BinomialLayer(SampledLayer):
    """How many of n binary units are on."""

    replicas: int

    def _mean(self, natural: Array) -> None:
        fast.logistic(natural)
        natural *= np.float32(self.replicas)

    def _draw(self, mean: Array, generator: np.random.Generator) -> Array:
        return generator.binomial(self.replicas, np.minimum(mean.astype(np.float64) / self.replicas, 1.0))
