"""Units that count n binary units with the same weights."""

from __future__ import annotations

import numpy as np

from herdcli import fast
from herdcli.errors import DataError
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.row_selection import column_sums
from herdcli.rbm.units.base import GraphOperations, GraphValue, Layer, SampledLayer, UnitFamily, log_factorial, logistic
from herdcli.rbm.units.two_state import BinaryUnits
from herdcli.records import dataclass
from herdcli.schema import Array, Matrix

BINARY = BinaryUnits()


class RateUnits(UnitFamily):
    """Counts x of n replicas that are on: A(a) = n log(1 + e^a).

    Training rows may have values between counts.  Source: Teh (2003), sec. 3.3.
    """

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
        """Compute n log(1 + e^a) (..., U)."""
        result: Array = self.scale * exact_arithmetic.softplus(natural)
        return result

    def summed_log_partition(self, natural: Array) -> Array:
        """Compute Σ n log(1 + e^a) over the last axis of (..., U), which is overwritten."""
        total: Array = self.scale * BINARY.summed_log_partition(natural)
        return total

    def mean(self, natural: Array) -> Array:
        """Compute n logistic(a) (..., U), as counts."""
        return self.scale * logistic(natural)

    def log_base_measure(self, values: Array) -> Array:
        """Compute Σ log(n over x) over the last axis of (..., U), between counts by the gamma function."""
        total: Array = (log_factorial(np.array(self.scale)) - log_factorial(values) - log_factorial(self.scale - values)).sum(axis=-1)
        return total

    def natural(self, mean: Array) -> Array:
        """Compute log(mean/(n − mean)) (..., U)."""
        return BINARY.natural(np.asarray(mean, dtype=np.float64) / self.scale)

    def base_rate_parameters(self, rows: Matrix) -> Array:
        """Return base rates (D,) of rows (n, D) with one row of 0 and one of n added."""
        return self.natural((column_sums(rows) + self.scale) / (rows.shape[0] + 2.0))

    def round_to_states(self, values: Array) -> Array:
        """Return the nearest counts (..., U)."""
        return np.rint(values)

    def require_valid_block(self, rows: Array, first: int = 0) -> None:
        """Raise DataError if rows (n, D) have values outside 0 … n."""
        if rows.size and not 0 <= rows.min() <= rows.max() <= self.scale:
            raise DataError(f"there are values from {rows.min():g} to {rows.max():g}, but {self.name} units have only 0 to {self.scale}")

    def add_mean_to_graph(self, graph: GraphOperations, natural: GraphValue) -> GraphValue:
        """Return n times the operation Sigmoid."""
        return graph.op("Mul", graph.op("Sigmoid", natural), float(self.scale))

    def layer(self) -> Layer:
        """Return the sampler of binomial units."""
        return BinomialLayer(self.scale)

    def mean_change(self, mean: Array, change: Array) -> Array:
        """Compute m (1 − m/n) (..., U) times the changes."""
        return np.asarray(mean * (1.0 - mean / self.scale) * change)


@dataclass(frozen=True)
class BinomialLayer(SampledLayer):
    """A layer of units that count how many of n binary units are on."""

    replicas: int

    def _replace_by_mean(self, natural: Array) -> None:
        fast.logistic(natural)
        natural *= np.float32(self.replicas)

    def _draw(self, mean: Array, generator: np.random.Generator) -> Array:
        return generator.binomial(self.replicas, np.minimum(mean.astype(np.float64) / self.replicas, 1.0))
