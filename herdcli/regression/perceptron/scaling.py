"""Scaling of a perceptron's data: columns with mean 0 and variance 1, and for the Gaussian a target with mean 0 and variance 1."""

from __future__ import annotations

import numpy as np

from herdcli.numerics.block_statistics import BLOCK, ArrayRows, RowBlock
from herdcli.numerics.row_selection import as_dense
from herdcli.records import dataclass
from herdcli.regression.families import Family
from herdcli.regression.sparse_rows import SparseRows
from herdcli.schema import Array, Matrix, is_sparse

CONSTANT = 1e-14  # a deviation below this share of a column's mean is rounding


@dataclass(frozen=True)
class FitScaling:
    """The scaling of columns: mean (D,) and factor (D,), one over the deviation, 0 for constant columns.

    middle, spread  mean and deviation of a Gaussian target, else 0 and 1.
    """

    mean: Array
    factor: Array
    middle: float
    spread: float

    def scale_columns(self, X: Matrix) -> Array:
        """Return rows (m, D), dense or CSR, in the scaled units, as a dense array."""
        Z: Array = np.subtract(as_dense(X), self.mean, dtype=np.float64)
        Z *= self.factor
        return Z

    def fold_into_layer(self, first: tuple[Array, Array]) -> tuple[Array, Array]:
        """Return weights (m, D) and biases (m,) for unscaled rows that give what those of a first layer give for scaled ones."""
        W, b = first
        V = W * self.factor.astype(W.dtype)
        return V, b - V @ self.mean.astype(W.dtype)

    def unfold_gradient(self, first: tuple[Array, Array]) -> None:
        """Convert the gradient in `folded` weights and biases, in place, to the one in the weights of scaled rows."""
        W, b = first
        W -= np.outer(b, self.mean.astype(W.dtype))
        W *= self.factor.astype(W.dtype)

    def convert_layer_to_original_units(self, last: tuple[Array, Array]) -> None:
        """Convert the last layer's weights and biases, in place, to those for the target's own units."""
        W, b = last
        W *= self.spread
        b *= self.spread
        b += self.middle


@dataclass(frozen=True)
class FittedRows:
    """Rows X (n, D), dense of any type or CSR, with targets, offsets and weights (n,), in the units of the data."""

    X: Matrix
    y: Array
    offset: Array
    weight: Array | None

    def take(self, chosen: Array) -> FittedRows:
        """Return some of the rows, by a mask (n,) or by indices."""
        if chosen.dtype == bool and chosen.all():
            return self
        return FittedRows(self.X[chosen], self.y[chosen], self.offset[chosen], None if self.weight is None else self.weight[chosen])


@dataclass(frozen=True)
class ScaledRows:
    """A `numerics.block_statistics.RowReader` of scaled columns (n, D), then target and offset, which scales each block as it is read."""

    rows: FittedRows
    scaling: FitScaling

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.rows.y)

    @property
    def columns(self) -> int:
        """The number of columns, target and offset included."""
        return int(self.rows.X.shape[1]) + 2

    @property
    def targets(self) -> Array:
        """The scaled targets and offsets (n, 2)."""
        target = (self.rows.y - self.scaling.middle) / self.scaling.spread
        return np.column_stack([target, self.rows.offset / self.scaling.spread])

    def read_all(self) -> ArrayRows | SparseRows:
        """Return all rows: dense ones scaled once, CSR ones as they are, with scaled targets and offsets."""
        if is_sparse(self.rows.X):
            target, offset = self.targets.T
            return SparseRows.from_columns(self.rows.X, target, offset, self.rows.weight)
        return self.scaled_copy()

    def scaled_copy(self) -> ArrayRows:
        """Return all rows as one dense table, scaled once."""
        return ArrayRows(self.read(0, self.count).X, weight=self.rows.weight)

    def read(self, start: int, stop: int) -> RowBlock:
        """Return rows [start, stop)."""
        part = self.rows.take(np.arange(start, min(stop, self.count)))
        X = np.column_stack([self.scaling.scale_columns(part.X), ScaledRows(part, self.scaling).targets])
        return RowBlock(start, X, None, part.weight)


def _mean_and_variance(X: Matrix, share: Array) -> tuple[Array, Array]:
    """Return mean and variance (D,) of the columns of rows that count by shares (n,) of 1."""
    if is_sparse(X):
        mean = np.asarray(share @ X).ravel()
        return mean, np.maximum(np.asarray(share @ X.multiply(X)).ravel() - mean * mean, 0.0)
    mean, variance = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    parts = [slice(start, start + BLOCK) for start in range(0, len(X), BLOCK)]
    for part in parts:
        mean += share[part] @ np.asarray(X[part], dtype=np.float64)
    for part in parts:
        Z = np.subtract(X[part], mean, dtype=np.float64)
        variance += share[part] @ np.square(Z, out=Z)
    return mean, variance


def fit_scaling(X: Matrix, y: Array, offset: Array, weight: Array | None, family: Family) -> FitScaling:
    """Return the scaling of training rows (n, D), dense or CSR, with targets, offsets and weights (n,)."""
    mass = np.ones(len(y)) if weight is None else weight
    share = mass / mass.sum()
    mean, variance = _mean_and_variance(X, share)
    deviation = np.sqrt(variance)
    varies = deviation > CONSTANT * np.abs(mean)
    factor = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
    if family.name != "gaussian":
        return FitScaling(mean, factor, 0.0, 1.0)
    rest = y - offset
    middle = float(share @ rest)
    spread = float(np.sqrt(share @ np.square(rest - middle)))
    return FitScaling(mean, factor, middle, spread if spread > CONSTANT * abs(middle) else 1.0)
