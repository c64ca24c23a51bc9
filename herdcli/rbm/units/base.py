"""Unit families: the distribution of a unit given its natural parameter, and the sampling of a layer of such units.

A layer of units x with natural parameters a has the density  exp(a·x − Σ A(a))  with respect to the family's base measure
h(x); A is the log-partition and A' the mean.  Both layers of a harmonium may be of any family: the natural parameters of one
are affine in the values of the other.  A family is one file of this folder and one line of the table in its `__init__`.

family     values x               A(a)                  h(x)
binary     {0, 1}                 log(1 + e^a)          1
spin       {−1, +1}               log(2 cosh a)         1
rate:n     counts 0 … n           n log(1 + e^a)        n over x        n binary units with the same weights, counted
gaussian   real                   a²/2                  N(x; 0, 1)
poisson    counts 0, 1, …         e^a                   1/x!
softmax:k  one of k columns       log Σ e^a             1               k columns are one unit
softmax:k,l,…  the same           the same              1               the first k columns are a unit, the next l another one

Data and results show the values of rate units as proportions, counts/n; `scale` is n for them, and 1 for other families.
A layer is sampled in float32, as in learning: a `Layer` turns products x'W into scaled means in place and samples states.  The
inner loops are in `herdcli.fast`.
Source: Welling, Rosen-Zvi & Hinton (2005), exponential family harmoniums; Teh (2003), sec. 3.2 and 3.3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol, TypeAlias

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.numerics.row_selection import as_dense, iterate_row_slices
from herdcli.numerics.streamed_rows import StreamedRows
from herdcli.schema import Array, Matrix, is_sparse

LARGEST_EXPONENT = 700.0  # e^700 is still a float64


def logistic(natural: Array) -> Array:
    """Compute 1 / (1 + e^{−a}) elementwise, of any shape (...,), to full relative precision at both ends, and at least e^{−709}."""
    result: Array = 1.0 / (1.0 + exact_arithmetic.exp(np.minimum(-natural, 709.0)))
    return result


def log_factorial(x: Array) -> Array:
    """Compute log x! elementwise, of any shape (...,), for reals above −1 by the gamma function."""
    from scipy.special import gammaln

    result: Array = gammaln(np.asarray(x, dtype=np.float64) + 1.0)
    return result


class Layer(Protocol):
    """The conditional distribution of one layer.  Arrays are C-contiguous float32: natural, states (n, u); bias (u,).

    beta  factor of the natural parameters, as in annealing.
    """

    def means(self, natural: Array, bias: Array, *, scale: float = 1.0) -> None:
        """Turn natural parameters (n, u) without bias (u,) into scale · E[x | natural + bias], in place."""

    def sample(
        self, natural: Array, bias: Array, states: Array, generator: np.random.Generator, *, scale: float = 1.0, beta: float = 1.0
    ) -> None:
        """Sample `states` (n, u) at natural parameters β (natural + bias), and replace `natural` by scale times the means."""

    def sample_unbiased_states(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Sample states (n, u) at natural parameter 0, float32."""


GraphValue: TypeAlias = Any  # the result of an operation: the name of one, or the names of several


class GraphOperations(Protocol):
    """A graph of operations with the names of ONNX."""

    def op(self, kind: str, *inputs: GraphValue, **attributes: Any) -> GraphValue:
        """Add an operation; the returned value can be the input of others."""


class UnitFamily(ABC):
    """One kind of unit: its distribution, its sampling, and all other properties that the program needs.

    Arrays are (..., columns); U = columns / group units.

    name      the name, as stored and typed.
    group     number of columns of one unit; of the largest, if units differ.
    scale     ratio of the values to those in data and results.
    range     lowest and highest value, None if there is none.
    support   (S, group) the values of one unit if they are finitely many and the same for all units, else None.
    variance_function  (α, β, γ): the variance of a column with mean m is α + β m + γ m².  Source: Morris (1982).

    Optional declarations; code that has a faster way for some families checks these and never a name:

    states           (low, high) if a unit is a count of `scale` two-valued units: A(a) = scale · log(e^{low a} + e^{high a}).
    two_state        whether it has two values, so that rows are thresholded, stored in a byte, and centred during learning.
    standard_normal  whether it is real with A(a) = a²/2, so that rows may be standardised and sums over a layer are those of a Gaussian.
    multinomial      whether all columns of a row are one unit, with as many draws as the row has counts.
    proportions      whether data show its values as proportions of their range.
    sparse           whether rows may stay sparse when they are read.
    labels           the softmax unit of the row's label, the last columns.
    visible_only     whether the units cannot be hidden units.
    """

    name: str
    group: int
    scale: int
    range: tuple[float, float] | None
    support: Array | None
    variance_function: tuple[float, float, float]

    states: tuple[int, int] | None = None
    two_state: bool = False
    standard_normal: bool = False
    multinomial: bool = False
    proportions: bool = False
    sparse: bool = False
    labels: UnitFamily | None = None
    visible_only: bool = False

    @property
    def columns(self) -> UnitFamily:
        """The family of the columns without those of a label."""
        return self

    @property
    def has_finite_values(self) -> bool:
        """Whether every unit has finitely many values."""
        return self.support is not None

    def is_valid_width(self, columns: int) -> bool:
        """Whether a layer of such units can have this number of columns."""
        return columns % self.group == 0

    def count_units(self, columns: int) -> int:
        """Return the number of units in the first `columns` columns of a layer."""
        return columns // self.group

    def unit_columns(self, unit: int) -> slice:
        """Return the columns of the unit with this number."""
        return slice(unit * self.group, (unit + 1) * self.group)

    def unit_values(self, unit: int) -> Array:
        """Return the values (S, columns of the unit) of the unit with this number, whose values are finitely many."""
        assert self.support is not None
        return self.support

    def select_columns(self, column_mask: Array) -> UnitFamily:
        """Return the family of the chosen columns (D,) bool of a layer, which make up whole units."""
        return self

    def first_columns(self, columns: int) -> Array:
        """Return the mask (columns,) of the first column of each unit."""
        mask = np.zeros(columns, dtype=bool)
        mask[[self.unit_columns(unit).start for unit in range(self.count_units(columns))]] = True
        return mask

    @abstractmethod
    def log_partition(self, natural: Array) -> Array:
        """Compute A(a) of each unit, (..., U) in nats."""

    @abstractmethod
    def summed_log_partition(self, natural: Array) -> Array:
        """Compute Σ A(a) over the last axis of (..., columns); the natural parameters, in floating point, are overwritten."""

    @abstractmethod
    def mean(self, natural: Array) -> Array:
        """Compute E[x | a] = A'(a), (..., columns)."""

    @abstractmethod
    def log_base_measure(self, values: Array) -> Array | float:
        """Compute Σ log h(x) over the last axis of (..., columns), in nats."""

    @abstractmethod
    def natural(self, mean: Array) -> Array:
        """Return the natural parameters (..., columns) of this mean; infinite at the ends of the range."""

    @abstractmethod
    def base_rate_parameters(self, rows: Matrix) -> Array:
        """Return natural parameters (D,) float64 of independent units with the means of `rows` (n, D), smoothed to be finite.

        rows  an array, a CSR matrix or rows selected from one.
        """

    @abstractmethod
    def round_to_states(self, values: Array) -> Array:
        """Return the nearest values (..., columns) that a unit can take."""

    @abstractmethod
    def require_valid_block(self, rows: Array, first: int = 0) -> None:
        """Raise DataError unless rows (n, D) hold values that learning can use.

        first  the number of the first row.
        """

    @abstractmethod
    def mean_change(self, mean: Array, change: Array) -> Array:
        """Compute the change of means (..., columns) for a change of natural parameters: A'' at these means times the change."""

    @abstractmethod
    def add_mean_to_graph(self, graph: GraphOperations, natural: GraphValue) -> GraphValue:
        """Return the mean (rows, columns) as ONNX operations on natural parameters, in a graph that other programs run."""

    @abstractmethod
    def layer(self) -> Layer:
        """Return the sampler of a layer of such units given the other layer."""

    def require_rows(self, rows: Matrix) -> None:
        """Check rows (n, D), dense, CSR or selected, block by block.  Raises DataError unless they hold values of the family."""
        for block in iterate_row_slices(rows):
            self.require_valid_block(as_dense(rows[block]), block.start)

    def round_rows_to_states(self, rows: Matrix) -> Matrix:
        """Return rows (n, D) with the nearest values that units can take.

        Rows of a CSR matrix are unchanged, because learning accepts only such values in them.
        """
        if isinstance(rows, StreamedRows):
            return rows.map_values(self.round_to_states)
        return rows if is_sparse(rows) else self.round_to_states(rows)

    def row_log_base_measure(self, rows: Matrix) -> Array | float:
        """Compute Σ log h(v) of each row, (n,) float64 in nats, for rows (n, D), dense or CSR.

        Entries that a CSR matrix does not store are 0, where h is 1.
        """
        if not is_sparse(rows):
            return self.log_base_measure(rows)
        entries = np.asarray(self.log_base_measure(np.asarray(rows.data, dtype=np.float64)[:, None]))
        before = np.concatenate([[0.0], np.cumsum(entries)])
        total: Array = before[rows.indptr[1:]] - before[rows.indptr[:-1]]
        return total


class SampledLayer(ABC):
    """A layer whose states NumPy samples at the means: subclasses define `_replace_by_mean`, in place, and `_draw`."""

    @abstractmethod
    def _replace_by_mean(self, natural: Array) -> None:
        """Replace natural parameters (n, u) by means."""

    @abstractmethod
    def _draw(self, mean: Array, generator: np.random.Generator) -> Array:
        """Sample states (n, u) at means (n, u)."""

    def means(self, natural: Array, bias: Array, *, scale: float = 1.0) -> None:
        """Replace natural (n, u) by scale times the means."""
        natural += bias
        self._replace_by_mean(natural)
        if scale != 1.0:
            natural *= np.float32(scale)

    def sample(
        self, natural: Array, bias: Array, states: Array, generator: np.random.Generator, *, scale: float = 1.0, beta: float = 1.0
    ) -> None:
        """Sample states (n, u) at the means under β (natural + bias), then replace natural by scale times these means."""
        natural += bias
        if beta != 1.0:
            natural *= np.float32(beta)
        self._replace_by_mean(natural)
        states[...] = self._draw(natural, generator)
        if scale != 1.0:
            natural *= np.float32(scale)

    def sample_unbiased_states(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Sample (n, u) states at the mean of natural parameter 0."""
        natural = np.zeros(shape, dtype=np.float32)
        self._replace_by_mean(natural)
        return self._draw(natural, generator).astype(np.float32)
