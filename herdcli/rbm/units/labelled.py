"""The family of layers whose columns are followed by a softmax unit of the row's label."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from herdcli.errors import BadUsage
from herdcli.rbm.units.base import GraphOperations, GraphValue, Layer, UnitFamily
from herdcli.rbm.units.softmax import CategoricalLayer, SoftmaxUnits
from herdcli.records import dataclass
from herdcli.schema import Array, Matrix


class LabelledUnits(UnitFamily):
    """Columns of a family of one-column units, followed by one softmax unit of k columns: rows with their labels as one layer."""

    labels: SoftmaxUnits
    group = 1
    scale = 1
    support = None

    def __init__(self, columns: UnitFamily, labels: SoftmaxUnits) -> None:
        self.name = f"{columns.name}+{labels.name}"
        self._columns, self.labels = columns, labels
        self.range, self.variance_function = columns.range, columns.variance_function

    @property
    def columns(self) -> UnitFamily:
        """The family of the columns before the label."""
        return self._columns

    def _parts(self, values: Array) -> tuple[Array, Array]:
        return values[..., : -self.labels.group], values[..., -self.labels.group :]

    def log_partition(self, natural: Array) -> Array:
        """Compute A(a) (..., U) of the columns, then of the label."""
        return np.concatenate([units.log_partition(part) for units, part in self._family_parts(natural)], axis=-1)

    def summed_log_partition(self, natural: Array) -> Array:
        """Compute Σ A(a) over the last axis of (..., columns)."""
        first, last = self._parts(natural)
        total: Array = self._columns.summed_log_partition(first.copy()) + self.labels.summed_log_partition(last)
        return total

    def mean(self, natural: Array) -> Array:
        """Compute the means (..., columns) of both parts."""
        return np.concatenate([units.mean(part) for units, part in self._family_parts(natural)], axis=-1)

    def log_base_measure(self, values: Array) -> Array | float:
        """Compute Σ log h(x) over the last axis of (..., columns), to which only the columns contribute."""
        return self._columns.log_base_measure(self._parts(values)[0])

    def natural(self, mean: Array) -> Array:
        """Return the natural parameters (..., columns) of both parts."""
        return np.concatenate([units.natural(part) for units, part in self._family_parts(np.asarray(mean))], axis=-1)

    def base_rate_parameters(self, rows: Matrix) -> Array:
        """Return the base rates (D,) of both parts of rows (n, D)."""
        found: Array = np.concatenate([units.base_rate_parameters(part) for units, part in self._family_parts(np.asarray(rows[:]))])
        return found

    def round_to_states(self, values: Array) -> Array:
        """Return the nearest values (..., columns) of both parts."""
        return np.concatenate([units.round_to_states(part) for units, part in self._family_parts(values)], axis=-1)

    def require_valid_block(self, rows: Array, first: int = 0) -> None:
        """Raise DataError unless both parts of rows (n, D) hold values of their family."""
        for units, part in self._family_parts(rows):
            units.require_valid_block(part, first)

    def _family_parts(self, values: Array) -> Iterator[tuple[UnitFamily, Array]]:
        first, last = self._parts(values)
        yield self._columns, first
        yield self.labels, last

    def add_mean_to_graph(self, graph: GraphOperations, natural: GraphValue) -> GraphValue:
        """Raise BadUsage: labels are visible units, and this method is for hidden units."""
        raise BadUsage("units that include a label are possible only in the visible layer")

    def layer(self) -> Layer:
        """Return a layer that samples each part by its own family."""
        return LabelledLayer(self._columns.layer(), CategoricalLayer(self.labels.group))

    def mean_change(self, mean: Array, change: Array) -> Array:
        """Compute the change of the means (..., columns) of both parts."""
        changes = self._parts(change)
        parts = [units.mean_change(part, d) for (units, part), d in zip(self._family_parts(mean), changes, strict=True)]
        return np.concatenate(parts, axis=-1)


@dataclass(frozen=True)
class LabelledLayer:
    """A layer of columns of one family, followed by k columns of a categorical unit."""

    columns: Layer
    labels: CategoricalLayer

    def _parts(self, values: Array) -> tuple[Array, Array]:
        k = self.labels.columns
        return np.ascontiguousarray(values[..., :-k]), np.ascontiguousarray(values[..., -k:])

    def means(self, natural: Array, bias: Array, *, scale: float = 1.0) -> None:
        """Replace natural (n, u) by scale times the means of both parts."""
        parts = self._parts(natural)
        for units, part, own in zip((self.columns, self.labels), parts, self._parts(bias), strict=True):
            units.means(part, own, scale=scale)
        natural[...] = np.concatenate(parts, axis=-1)

    def sample(
        self, natural: Array, bias: Array, states: Array, generator: np.random.Generator, *, scale: float = 1.0, beta: float = 1.0
    ) -> None:
        """Sample states (n, u) of both parts under β (natural + bias), then replace natural by scale times the means."""
        parts, drawn = self._parts(natural), self._parts(states)
        for units, part, own, into in zip((self.columns, self.labels), parts, self._parts(bias), drawn, strict=True):
            units.sample(part, own, into, generator, scale=scale, beta=beta)
        natural[...], states[...] = np.concatenate(parts, axis=-1), np.concatenate(drawn, axis=-1)

    def sample_unbiased_states(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Sample fair states (n, u) of both parts."""
        k = self.labels.columns
        parts = ((self.columns, shape[-1] - k), (self.labels, k))
        return np.concatenate([units.sample_unbiased_states((*shape[:-1], width), generator) for units, width in parts], axis=-1)
