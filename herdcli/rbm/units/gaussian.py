"""Real units of variance 1."""

from __future__ import annotations

import numpy as np

from herdcli.errors import DataError
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.row_selection import column_sums
from herdcli.rbm.units.base import GraphOperations, GraphValue, Layer, SampledLayer, UnitFamily
from herdcli.schema import Array, Matrix


class GaussianUnits(UnitFamily):
    """Real units x with variance 1 given a: A(a) = a²/2."""

    name = "gaussian"
    group = 1
    scale = 1
    standard_normal = True
    range = None
    support = None
    variance_function = (1.0, 0.0, 0.0)

    def log_partition(self, natural: Array) -> Array:
        """Compute a²/2 (..., U)."""
        result: Array = 0.5 * np.square(natural)
        return result

    def summed_log_partition(self, natural: Array) -> Array:
        """Compute Σ a²/2 over the last axis of (..., U)."""
        total: Array = self.log_partition(natural).sum(axis=-1)
        return total

    def mean(self, natural: Array) -> Array:
        """Return a copy of a (..., U)."""
        return np.array(natural)

    def log_base_measure(self, values: Array) -> Array:
        """Compute Σ log N(x; 0, 1) over the last axis of (..., U)."""
        total: Array = -0.5 * (np.square(values) + exact_arithmetic.log(2 * np.pi)).sum(axis=-1)
        return total

    def natural(self, mean: Array) -> Array:
        """Return the mean (..., U) itself."""
        return np.asarray(mean, dtype=np.float64)

    def base_rate_parameters(self, rows: Matrix) -> Array:
        """Return the means (D,) of rows (n, D)."""
        means: Array = column_sums(rows) / rows.shape[0]
        return means

    def round_to_states(self, values: Array) -> Array:
        """Return the values (..., U) unchanged."""
        return values

    def require_valid_block(self, rows: Array, first: int = 0) -> None:
        """Raise DataError if rows (n, D) are not finite."""
        if not np.isfinite(rows).all():
            raise DataError("there are values that are not finite")

    def add_mean_to_graph(self, graph: GraphOperations, natural: GraphValue) -> GraphValue:
        """Return the natural parameters."""
        return natural

    def layer(self) -> Layer:
        """Return the sampler of normal units."""
        return NormalLayer()

    def mean_change(self, mean: Array, change: Array) -> Array:
        """Return the changes (..., U): the variance is 1."""
        return np.asarray(change)


class NormalLayer(SampledLayer):
    """A layer of real units of variance 1."""

    def _replace_by_mean(self, natural: Array) -> None:
        return

    def _draw(self, mean: Array, generator: np.random.Generator) -> Array:
        return mean + exact_arithmetic.standard_normals(generator, mean.shape, np.float32)
