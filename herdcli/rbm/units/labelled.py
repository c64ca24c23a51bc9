"""Columns of one family, and a softmax unit with the row's label after them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from herdcli.errors import BadUsage
from herdcli.rbm.units.base import GraphOperations, Layer, UnitFamily
from herdcli.rbm.units.softmax import CategoricalLayer, SoftmaxUnits
from herdcli.records import dataclass
from herdcli.schema import Array


class LabelledUnits(UnitFamily):
    """Columns of a family of one-column units, and after them one softmax unit of k columns: rows with their labels as one layer."""

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
        """(..., U) of the columns, then of the label."""
        return np.concatenate([units.log_partition(part) for units, part in self._each(natural)], axis=-1)

    def summed_log_partition(self, natural: Array) -> Array:
        """Σ A(a) over the last axis of (..., columns)."""
        first, last = self._parts(natural)
        total: Array = self._columns.summed_log_partition(first.copy()) + self.labels.summed_log_partition(last)
        return total

    def mean(self, natural: Array) -> Array:
        """(..., columns) of both parts."""
        return np.concatenate([units.mean(part) for units, part in self._each(natural)], axis=-1)

    def log_base(self, values: Array) -> Array | float:
        """Σ log h(x) over the last axis of (..., columns): that of the columns."""
        return self._columns.log_base(self._parts(values)[0])

    def natural(self, mean: Array) -> Array:
        """(..., columns) of both parts."""
        return np.concatenate([units.natural(part) for units, part in self._each(np.asarray(mean))], axis=-1)

    def base_rate(self, rows: Any) -> Array:
        """(D,) of both parts of rows (n, D)."""
        found: Array = np.concatenate([units.base_rate(part) for units, part in self._each(np.asarray(rows[:]))])
        return found

    def discrete(self, values: Array) -> Array:
        """(..., columns) of both parts."""
        return np.concatenate([units.discrete(part) for units, part in self._each(values)], axis=-1)

    def require(self, rows: Array, first: int = 0) -> None:
        """Raise DataError unless both parts of rows (n, D) hold values of theirs."""
        for units, part in self._each(rows):
            units.require(part, first)

    def _each(self, values: Array) -> Iterator[tuple[UnitFamily, Array]]:
        first, last = self._parts(values)
        yield self._columns, first
        yield self.labels, last

    def mean_in(self, graph: GraphOperations, natural: Any) -> Any:
        """Raises BadUsage: labels are visible units, and means are those of hidden ones."""
        raise BadUsage("rows with labels cannot be hidden units")

    def layer(self) -> Layer:
        """Both parts, each by its own."""
        return LabelledLayer(self._columns.layer(), CategoricalLayer(self.labels.group))

    def slope(self, mean: Array, change: Array) -> Array:
        """(..., columns) of both parts."""
        changes = self._parts(change)
        parts = [units.slope(part, d) for (units, part), d in zip(self._each(mean), changes, strict=True)]
        return np.concatenate(parts, axis=-1)


@dataclass(frozen=True)
class LabelledLayer:
    """Columns of one layer, and k more of another."""

    columns: Layer
    labels: CategoricalLayer

    def _parts(self, values: Array) -> tuple[Array, Array]:
        k = self.labels.columns
        return np.ascontiguousarray(values[..., :-k]), np.ascontiguousarray(values[..., -k:])

    def means(self, natural: Array, bias: Array, *, scale: float = 1.0) -> None:
        """scale times the means of both parts, in place of natural (n, u)."""
        parts = self._parts(natural)
        for units, part, own in zip((self.columns, self.labels), parts, self._parts(bias), strict=True):
            units.means(part, own, scale=scale)
        natural[...] = np.concatenate(parts, axis=-1)

    def sample(
        self, natural: Array, bias: Array, states: Array, generator: np.random.Generator, *, scale: float = 1.0, beta: float = 1.0
    ) -> None:
        """States (n, u) of both parts under β (natural + bias), then scale times the means in place of natural."""
        parts, drawn = self._parts(natural), self._parts(states)
        for units, part, own, into in zip((self.columns, self.labels), parts, self._parts(bias), drawn, strict=True):
            units.sample(part, own, into, generator, scale=scale, beta=beta)
        natural[...], states[...] = np.concatenate(parts, axis=-1), np.concatenate(drawn, axis=-1)

    def fair_states(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """(n, u) of both parts."""
        k = self.labels.columns
        parts = ((self.columns, shape[-1] - k), (self.labels, k))
        return np.concatenate([units.fair_states((*shape[:-1], width), generator) for units, width in parts], axis=-1)
