"""Units with two values: binary (0, 1) and spin (−1, +1)."""

from __future__ import annotations

import numpy as np

from herdcli import fast
from herdcli.errors import DataError
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.row_selection import SelectedRows, column_sums
from herdcli.rbm.units.base import GraphOperations, GraphValue, Layer, UnitFamily, logistic
from herdcli.records import dataclass
from herdcli.schema import Array, Matrix, is_sparse


class TwoStateUnits(UnitFamily):
    """Units x in {low, high}: A(a) = (low + g/2)·a + g/2·|a| + log(1 + e^{−g|a|}), g = high − low."""

    group = 1
    scale = 1
    two_state = True
    states: tuple[int, int]

    def __init__(self, name: str, low: int, high: int) -> None:
        self.name = name
        self.states = (low, high)
        self.range = (float(low), float(high))
        self.support = np.array([[low], [high]], dtype=np.float64)
        self.variance_function = (-float(low * high), float(low + high), -1.0)  # (m − low)(high − m)

    def log_partition(self, natural: Array) -> Array:
        """Compute log(e^{low·a} + e^{high·a}) (..., U), with the larger exponent factored out."""
        low, high = self.states
        if (low, high) == (0, 1):
            return exact_arithmetic.softplus(natural)
        size = np.abs(natural)
        result: Array = (
            (low + high) / 2 * natural + (high - low) / 2 * size + exact_arithmetic.log1p(exact_arithmetic.exp((low - high) * size))
        )
        return result

    def summed_log_partition(self, natural: Array) -> Array:
        """Compute Σ A(a) over the last axis of (..., U): Σ a and Σ |a|, then Σ log(1 + e^{−g|a|}), in place."""
        low, high = self.states
        gap = high - low
        linear = (low + gap / 2) * natural.sum(axis=-1) if low + gap / 2 else 0.0
        np.abs(natural, out=natural)
        linear = linear + gap / 2 * natural.sum(axis=-1)
        np.multiply(natural, -gap, out=natural)
        exact_arithmetic.exp(natural, out=natural)
        np.add(natural, 1.0, out=natural)
        exact_arithmetic.log(natural, out=natural)
        total: Array = linear + natural.sum(axis=-1)
        return total

    def mean(self, natural: Array) -> Array:
        """Compute logistic(a) (..., U) for binary units, tanh(a) for spins."""
        return logistic(natural) if self.states == (0, 1) else exact_arithmetic.tanh(natural)

    def log_base_measure(self, values: Array) -> Array | float:
        """Return 0 for values (..., U): h is 1."""
        return 0.0

    def natural(self, mean: Array) -> Array:
        """Compute log((mean − low)/(high − mean))/(high − low) (..., U)."""
        low, high = self.states
        mean = np.asarray(mean, dtype=np.float64)
        odds: Array = (mean - low) / (high - mean)
        # mean = low + g σ(g a): g a is the log of (mean − low)/(high − mean).
        return exact_arithmetic.log(odds) / (high - low)

    def base_rate_parameters(self, rows: Matrix) -> Array:
        """Return base rates (D,) of rows (n, D) with one row in either state added.  Source: Salakhutdinov & Murray (2008), sec. 4.1."""
        low, high = self.states
        count = rows.shape[0]
        on = ((column_sums(rows) - count * low) / (high - low) + 1.0) / (count + 2.0)
        biases: Array = exact_arithmetic.log(on / (1.0 - on)) / (high - low)
        return biases

    def round_to_states(self, values: Array) -> Array:
        """Return the values (..., U) unchanged."""
        return values

    def require_valid_block(self, rows: Array, first: int = 0) -> None:
        """Raise DataError if rows (n, D) hold anything but the two values."""
        low, high = self.states
        if rows.size and (not np.isin((rows.min(), rows.max()), (low, high)).all() or (low < 0 and not rows.all())):
            raise DataError(f"there are values other than {low} and {high}, but {self.name} units need one of these")

    def add_mean_to_graph(self, graph: GraphOperations, natural: GraphValue) -> GraphValue:
        """Return the operation Sigmoid for binary units, Tanh for spins."""
        return graph.op("Sigmoid" if self.states == (0, 1) else "Tanh", natural)

    def layer(self) -> Layer:
        """Return the sampler, which uses 16 random bits per unit."""
        return TwoStateLayer(float(self.states[0]), float(self.states[1]))

    def mean_change(self, mean: Array, change: Array) -> Array:
        """Compute (m − low)(high − m) (..., U) times the changes."""
        low, high = self.states
        # m = l + gσ(ga): dm/da = g²σ(1 − σ) = (m − l)(l + g − m).
        return np.asarray((mean - low) * (high - mean) * change)

    def require_rows(self, rows: Matrix) -> None:
        """Raise DataError unless rows (n, D), dense, CSR or selected, hold the two values; of a CSR matrix, stored entries are checked."""
        if isinstance(rows, SelectedRows) and is_sparse(rows.base):
            rows = rows.read_stored_rows(slice(None))  # one row of a matrix of 2^31 columns is too much
        if not is_sparse(rows):
            super().require_rows(rows)
            return
        self.require_valid_block(rows.data[:, None])  # every other entry is 0, which `require` must also accept
        if self.states[0] != 0 and rows.nnz < rows.shape[0] * rows.shape[1]:
            raise DataError(f"there are values other than {self.states[0]} and {self.states[1]}, but {self.name} units need one of these")

    def round_rows_to_states(self, rows: Matrix) -> Matrix:
        """Return the rows (n, D) unchanged."""
        return rows

    def row_log_base_measure(self, rows: Matrix) -> Array | float:
        """Return 0 for rows (n, D): h is 1."""
        return 0.0


class BinaryUnits(TwoStateUnits):
    """Units with the values 0 and 1."""

    def __init__(self) -> None:
        super().__init__("binary", 0, 1)


class SpinUnits(TwoStateUnits):
    """Units with the values −1 and +1."""

    def __init__(self) -> None:
        super().__init__("spin", -1, 1)


@dataclass(frozen=True)
class TwoStateLayer:
    """A layer of units with values low and high: P(high | a) = logistic((high − low)·a)."""

    low: float
    high: float

    @property
    def state_gap(self) -> float:
        """The difference high − low, which multiplies the natural parameter in the log-odds."""
        return self.high - self.low

    def means(self, natural: Array, bias: Array, *, scale: float = 1.0) -> None:
        """Replace natural (n, u) by scale·(low + gain·p), p = logistic(gain·(natural + bias))."""
        fast.two_state_means(natural, bias, self.state_gap, scale * self.low, scale * self.state_gap)

    def sample(
        self, natural: Array, bias: Array, states: Array, generator: np.random.Generator, *, scale: float = 1.0, beta: float = 1.0
    ) -> None:
        """Sample states (n, u) that are high with probability p, by 16 random bits per unit and 16 per row (see fast.two_state_sample)."""
        words = uniform_uint16(generator, len(natural), natural.shape[1] + 1)
        fast.two_state_sample(
            natural, bias, beta * self.state_gap, scale * self.low, scale * self.state_gap, words, self.low, self.high, states
        )

    def sample_unbiased_states(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Sample (n, u) states, low or high with equal probability."""
        on = generator.integers(0, 2, size=shape, dtype=np.uint8)
        return np.float32(self.low) + np.float32(self.state_gap) * on.astype(np.float32)


def uniform_uint16(generator: np.random.Generator, rows: int, columns: int) -> Array:
    """Return (rows, columns) independent uniform uint16, four of them from 64 bits of the bit generator."""
    count = rows * columns
    raw: Array = generator.bit_generator.random_raw(-(-count // 4))
    return raw.view(np.uint16)[:count].reshape(rows, columns)
