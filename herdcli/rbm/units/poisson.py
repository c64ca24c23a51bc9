"""Units with Poisson counts."""

from __future__ import annotations

import numpy as np

from herdcli.errors import DataError
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.row_selection import column_sums
from herdcli.rbm.units.base import LARGEST_EXPONENT, GraphOperations, GraphValue, Layer, SampledLayer, UnitFamily, log_factorial
from herdcli.schema import Array, Matrix

LARGEST_LOG_RATE = 20.0  # largest log rate of a unit in sampling


class PoissonUnits(UnitFamily):
    """Counts x in {0, 1, …}: A(a) = e^a."""

    name = "poisson"
    group = 1
    scale = 1
    sparse = True
    range = None
    support = None
    variance_function = (0.0, 1.0, 0.0)

    def log_partition(self, natural: Array) -> Array:
        """Compute e^a (..., U), with a at most 700."""
        result: Array = exact_arithmetic.exp(np.minimum(natural, LARGEST_EXPONENT))
        return result

    def summed_log_partition(self, natural: Array) -> Array:
        """Compute Σ e^a over the last axis of (..., U)."""
        total: Array = self.log_partition(natural).sum(axis=-1)
        return total

    def mean(self, natural: Array) -> Array:
        """Compute e^a (..., U): A' = A."""
        return self.log_partition(natural)

    def log_base_measure(self, values: Array) -> Array:
        """Compute −Σ log x! over the last axis of (..., U)."""
        total: Array = -log_factorial(values).sum(axis=-1)
        return total

    def natural(self, mean: Array) -> Array:
        """Return the log of the mean (..., U)."""
        result: Array = exact_arithmetic.log(np.asarray(mean, dtype=np.float64))
        return result

    def base_rate_parameters(self, rows: Matrix) -> Array:
        """Return base rates (D,) of rows (n, D) with another row of half a count added."""
        return self.natural((column_sums(rows) + 0.5) / (rows.shape[0] + 1.0))

    def round_to_states(self, values: Array) -> Array:
        """Return the nearest integers (..., U)."""
        return np.rint(values)

    def require_valid_block(self, rows: Array, first: int = 0) -> None:
        """Raise DataError if rows (n, D) hold anything but integers ≥ 0."""
        wrong = ~np.isfinite(rows) | (rows < 0) | (rows != np.rint(rows))
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise DataError(
                f"there is a value {rows[row, column]:g} in row {first + row}, column {column}, but poisson units need whole numbers "
                "from 0 upwards"
            )

    def add_mean_to_graph(self, graph: GraphOperations, natural: GraphValue) -> GraphValue:
        """Return the operation Exp."""
        return graph.op("Exp", natural)

    def layer(self) -> Layer:
        """Return the sampler of Poisson units."""
        return PoissonLayer()

    def mean_change(self, mean: Array, change: Array) -> Array:
        """Return the changes times the mean (..., U), which is the variance."""
        return np.asarray(mean * change)


class PoissonLayer(SampledLayer):
    """A layer of Poisson counts; natural parameters above 20 count as 20, so that divergence shows in the parameters."""

    def _replace_by_mean(self, natural: Array) -> None:
        np.minimum(natural, np.float32(LARGEST_LOG_RATE), out=natural)
        exact_arithmetic.exp(natural, out=natural)

    def _draw(self, mean: Array, generator: np.random.Generator) -> Array:
        return generator.poisson(mean.astype(np.float64))
