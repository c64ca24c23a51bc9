"""Units with one of k columns on; k may differ from unit to unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.row_selection import column_sums
from herdcli.rbm.units.base import GraphOperations, GraphValue, Layer, SampledLayer, UnitFamily
from herdcli.records import dataclass
from herdcli.schema import Array, Matrix


class SoftmaxUnits(UnitFamily):
    """Units of k columns of which one is 1 and the others 0: A(a) = log Σ e^a over the k columns.

    Training rows may hold proportions.
    """

    scale = 1
    range = (0.0, 1.0)
    variance_function = (0.0, 1.0, -1.0)

    def __init__(self, columns: int) -> None:
        self.name = f"softmax:{columns}"
        self.group = columns
        self.support = np.eye(columns)

    def _split_units(self, columns: Array) -> Array:
        return columns.reshape(*columns.shape[:-1], columns.shape[-1] // self.group, self.group)

    def log_partition(self, natural: Array) -> Array:
        """Compute log Σ e^a (..., U) over each unit's k columns."""
        result: Array = exact_arithmetic.log_sum_exp(self._split_units(natural), axis=-1)
        return result

    def summed_log_partition(self, natural: Array) -> Array:
        """Compute Σ A(a) over the units of (..., columns)."""
        total: Array = self.log_partition(natural).sum(axis=-1)
        return total

    def mean(self, natural: Array) -> Array:
        """Compute e^a / Σ e^a (..., columns) within each unit."""
        units = self._split_units(natural)
        # A' of log Σ e^a is the share e^{a_i}/Σ e^a.
        shares: Array = exact_arithmetic.exp(units - exact_arithmetic.log_sum_exp(units, axis=-1, keepdims=True))
        return shares.reshape(natural.shape)

    def log_base_measure(self, values: Array) -> Array | float:
        """Return 0 for values (..., columns): h is 1."""
        return 0.0

    def natural(self, mean: Array) -> Array:
        """Return the logarithms (..., columns) of the shares: any constant per unit could be added."""
        result: Array = exact_arithmetic.log(np.asarray(mean, dtype=np.float64))
        return result

    def base_rate_parameters(self, rows: Matrix) -> Array:
        """Return base rates (D,) of rows (n, D) with one row of each value added."""
        return self.natural((column_sums(rows) + 1.0) / (rows.shape[0] + self.group))

    def round_to_states(self, values: Array) -> Array:
        """Return (..., columns) with 1 at each unit's largest column, the first of equals, and 0 elsewhere."""
        chosen: Array = np.eye(self.group)[self._split_units(values).argmax(axis=-1)]
        return chosen.reshape(values.shape)

    def require_valid_block(self, rows: Array, first: int = 0) -> None:
        """Raise DataError unless each k columns of rows (n, D) are ≥ 0 and sum to 1."""
        if rows.shape[1] % self.group:
            raise DataError(f"there are {rows.shape[1]} columns, but {self.name} units need a multiple of {self.group}")
        units = self._split_units(rows)
        wrong = (np.abs(units.sum(axis=-1) - 1.0) > 1e-4) | (units < 0).any(axis=-1)
        if wrong.any():
            row, unit = np.argwhere(wrong)[0]
            column = unit * self.group
            raise DataError(
                f"columns {column} to {column + self.group - 1} of row {first + row} sum to {units[row, unit].sum():g}: "
                f"the {self.group} columns of each {self.name} unit must be at least 0 and sum to 1"
            )

    def add_mean_to_graph(self, graph: GraphOperations, natural: GraphValue) -> GraphValue:
        """Return the operation Softmax over each unit's columns."""
        shape = graph.op("Shape", natural)
        grouped = graph.op("Reshape", natural, np.array([0, -1, self.group]))
        return graph.op("Reshape", graph.op("Softmax", grouped, axis=2), shape)

    def layer(self) -> Layer:
        """Return a sampler that draws one column of each unit by its probability."""
        return CategoricalLayer(self.group)

    def mean_change(self, mean: Array, change: Array) -> Array:
        """Compute m_i (d_i − Σ_j m_j d_j) (..., columns) within each unit, d the changes."""
        m, d = self._split_units(mean), self._split_units(change)
        # ∂m_i/∂a_j = m_i(δ_ij − m_j), which is symmetric.
        return np.asarray((m * (d - (m * d).sum(axis=-1, keepdims=True))).reshape(mean.shape))


@dataclass(frozen=True)
class CategoricalLayer(SampledLayer):
    """A layer of units of which one of k columns is 1."""

    columns: int

    def _replace_by_mean(self, natural: Array) -> None:
        units = natural.reshape(*natural.shape[:-1], natural.shape[-1] // self.columns, self.columns)
        units -= units.max(axis=-1, keepdims=True)
        exact_arithmetic.exp(units, out=units)
        units /= units.sum(axis=-1, keepdims=True)

    def _draw(self, mean: Array, generator: np.random.Generator) -> Array:
        units = mean.reshape(*mean.shape[:-1], mean.shape[-1] // self.columns, self.columns)
        # The state is the number of the first k − 1 sums that are at most u; the last sum is 1 and left out, so that rounding cannot give
        # state k.
        below = np.cumsum(units[..., :-1], axis=-1) <= generator.random((*units.shape[:-1], 1), dtype=np.float32)
        states = np.zeros(units.shape, dtype=np.float32)
        np.put_along_axis(states, below.sum(axis=-1, keepdims=True), 1.0, axis=-1)
        return states.reshape(mean.shape)


class MixedSoftmaxUnits(UnitFamily):
    """Softmax units with their own numbers of columns k_1, …, k_U, for visible layers of variables with different numbers of states.

    Without numbers they stand for units whose numbers of states follow from the data; no layer consists of such units.
    """

    scale = 1
    range = (0.0, 1.0)
    support = None
    variance_function = (0.0, 1.0, -1.0)
    visible_only = True

    def __init__(self, sizes: Sequence[int] = ()) -> None:
        self.name = f"softmax:{','.join(map(str, sizes))}" if sizes else "softmax"
        self.sizes = tuple(sizes)
        self.group = max(sizes, default=2)
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self._unit_of_column = np.repeat(np.arange(len(sizes)), sizes)

    @property
    def has_finite_values(self) -> bool:
        """Whether every unit has finitely many values: always."""
        return True

    def is_valid_width(self, columns: int) -> bool:
        """Whether the units have this number of columns together."""
        return bool(self.sizes) and columns == self._starts[-1]

    def count_units(self, columns: int) -> int:
        """Return the number of units in the first `columns` columns."""
        return int(np.searchsorted(self._starts, columns, side="right")) - 1

    def unit_columns(self, unit: int) -> slice:
        """Return the columns of the unit with this number."""
        return slice(int(self._starts[unit]), int(self._starts[unit + 1]))

    def select_columns(self, column_mask: Array) -> UnitFamily:
        """Return the family of the units whose first columns are chosen (D,) bool."""
        return MixedSoftmaxUnits([size for first, size in zip(self._starts, self.sizes, strict=False) if column_mask[first]])

    def unit_values(self, unit: int) -> Array:
        """Return the values (k, k) of a unit: the rows of the identity matrix."""
        return np.eye(self.sizes[unit])

    def log_partition(self, natural: Array) -> Array:
        """Compute log Σ e^a (..., U) over the columns of each unit."""
        largest = np.maximum.reduceat(natural, self._starts[:-1], axis=-1)
        shares = exact_arithmetic.exp(natural - largest[..., self._unit_of_column])
        return np.asarray(largest + exact_arithmetic.log(np.add.reduceat(shares, self._starts[:-1], axis=-1)))

    def summed_log_partition(self, natural: Array) -> Array:
        """Compute Σ A(a) over the units of (..., columns)."""
        total: Array = self.log_partition(natural).sum(axis=-1)
        return total

    def mean(self, natural: Array) -> Array:
        """Compute e^a / Σ e^a (..., columns) within each unit."""
        result: Array = exact_arithmetic.exp(natural - self.log_partition(natural)[..., self._unit_of_column])
        return result

    def log_base_measure(self, values: Array) -> Array | float:
        """Return 0 for values (..., columns): h is 1."""
        return 0.0

    def natural(self, mean: Array) -> Array:
        """Return the logarithms (..., columns) of the shares: any constant per unit could be added."""
        result: Array = exact_arithmetic.log(np.asarray(mean, dtype=np.float64))
        return result

    def base_rate_parameters(self, rows: Matrix) -> Array:
        """Return base rates (D,) of rows (n, D) with one row of each value added."""
        return self.natural((column_sums(rows) + 1.0) / (rows.shape[0] + np.array(self.sizes)[self._unit_of_column]))

    def round_to_states(self, values: Array) -> Array:
        """Return (..., columns) with 1 at each unit's largest column, the first of equals, and 0 elsewhere."""
        chosen = np.zeros(values.shape)
        for first, size in zip(self._starts, self.sizes, strict=False):
            np.put_along_axis(chosen, first + values[..., first : first + size].argmax(axis=-1, keepdims=True), 1.0, axis=-1)
        return chosen

    def require_valid_block(self, rows: Array, first: int = 0) -> None:
        """Raise DataError unless the columns of each unit of rows (n, D) are ≥ 0 and sum to 1."""
        if not self.is_valid_width(rows.shape[1]):
            raise DataError(f"there are {rows.shape[1]} columns, but {self.name} units need {self._starts[-1]} in total")
        sums = np.add.reduceat(rows, self._starts[:-1], axis=1)
        wrong = (np.abs(sums - 1.0) > 1e-4) | (np.minimum.reduceat(rows, self._starts[:-1], axis=1) < 0)
        if wrong.any():
            row, unit = np.argwhere(wrong)[0]
            columns = self.unit_columns(int(unit))
            raise DataError(
                f"columns {columns.start} to {columns.stop - 1} of row {first + row} sum to {sums[row, unit]:g}: "
                f"the columns of each softmax unit must be at least 0 and sum to 1"
            )

    def add_mean_to_graph(self, graph: GraphOperations, natural: GraphValue) -> GraphValue:
        """Raise BadUsage: this method is for hidden units, which have the same number of columns each."""
        raise BadUsage("softmax units with different numbers of columns are possible only in the visible layer")

    def layer(self) -> Layer:
        """Return a sampler that draws one column of each unit by its probability."""
        return MixedCategoricalLayer(self.sizes)

    def mean_change(self, mean: Array, change: Array) -> Array:
        """Compute m_i (d_i − Σ_j m_j d_j) (..., columns) within each unit, d the changes."""
        within = np.add.reduceat(mean * change, self._starts[:-1], axis=-1)
        return np.asarray(mean * (change - within[..., self._unit_of_column]))


@dataclass(frozen=True)
class MixedCategoricalLayer(SampledLayer):
    """A layer of units of which one column is 1, each with its own number of columns."""

    sizes: tuple[int, ...]

    def _unit_slices(self) -> Iterator[slice]:
        first = 0
        for size in self.sizes:
            yield slice(first, first + size)
            first += size

    def _replace_by_mean(self, natural: Array) -> None:
        for columns in self._unit_slices():
            unit = natural[..., columns]
            unit -= unit.max(axis=-1, keepdims=True)
            exact_arithmetic.exp(unit, out=unit)
            unit /= unit.sum(axis=-1, keepdims=True)

    def _draw(self, mean: Array, generator: np.random.Generator) -> Array:
        uniform = generator.random((*mean.shape[:-1], len(self.sizes), 1), dtype=np.float32)
        states = np.zeros(mean.shape, dtype=np.float32)
        for unit, columns in enumerate(self._unit_slices()):
            below = np.cumsum(mean[..., columns][..., :-1], axis=-1) <= uniform[..., unit, :]
            np.put_along_axis(states, columns.start + below.sum(axis=-1, keepdims=True), 1.0, axis=-1)
        return states
