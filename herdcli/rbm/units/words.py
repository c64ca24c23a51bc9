"""The family of word counts in rows of any length."""

from __future__ import annotations

import numpy as np

from herdcli import fast
from herdcli.errors import BadUsage, DataError
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.row_selection import column_sums
from herdcli.rbm.units.base import GraphOperations, GraphValue, Layer, SampledLayer, UnitFamily, log_factorial
from herdcli.rbm.units.poisson import PoissonUnits
from herdcli.records import dataclass
from herdcli.schema import Array, Matrix, is_sparse

TOGETHER = 8  # rows whose words are drawn from sums that are computed together
POISSON = PoissonUnits()


class WordCountUnits(UnitFamily):
    """Counts of N words over D columns, drawn with the probabilities softmax(a): A(a) = N log Σ e^a, h(v) = N!/Π v_j!.

    length  N; 0: the length of each row.  Learning and conditionals use the row; a partition function requires N.
    Source: Salakhutdinov & Hinton (2009), the replicated softmax; its hidden biases N c are represented as weights that all columns share.
    """

    group = 1
    scale = 1
    multinomial = True
    sparse = True
    range = None
    support = None
    variance_function = (0.0, 1.0, 0.0)

    def __init__(self, length: int = 0) -> None:
        self.name = f"words:{length}" if length else "words"
        self.length = length

    def _require_length(self) -> int:
        if not self.length:
            raise BadUsage(
                "a model with units of type words has no single partition function: there is one for each number of words in a row"
            )
        return self.length

    def log_partition(self, natural: Array) -> Array:
        """Compute N log Σ e^a (..., 1)."""
        result: Array = self._require_length() * exact_arithmetic.log_sum_exp(natural, axis=-1, keepdims=True)
        return result

    def summed_log_partition(self, natural: Array) -> Array:
        """Compute the same without the last axis."""
        result: Array = self._require_length() * exact_arithmetic.log_sum_exp(natural, axis=-1)
        return result

    def mean(self, natural: Array) -> Array:
        """Compute N e^a / Σ e^a (..., D); for rows of any length the shares themselves."""
        result: Array = max(self.length, 1) * exact_arithmetic.exp(natural - exact_arithmetic.log_sum_exp(natural, axis=-1, keepdims=True))
        return result

    def log_base_measure(self, values: Array) -> Array:
        """Compute log N! − Σ log v_j! over the last axis of (..., D)."""
        result: Array = log_factorial(values.sum(axis=-1)) - log_factorial(values).sum(axis=-1)
        return result

    def natural(self, mean: Array) -> Array:
        """Return the logarithms (..., D) of the shares."""
        mean = np.asarray(mean, dtype=np.float64)
        result: Array = exact_arithmetic.log(mean / mean.sum(axis=-1, keepdims=True))
        return result

    def base_rate_parameters(self, rows: Matrix) -> Array:
        """Return the logarithms (D,) of the words' shares in rows (n, D), with one more count of each word."""
        return self.natural(np.asarray(column_sums(rows), dtype=np.float64) + 1.0)

    def round_to_states(self, values: Array) -> Array:
        """Return the nearest integers (..., D)."""
        return np.rint(values)

    def require_valid_block(self, rows: Array, first: int = 0) -> None:
        """Raise DataError if rows (n, D) hold anything but integers ≥ 0, or no word."""
        try:
            POISSON.require_valid_block(rows, first)
        except DataError as error:
            raise DataError(error.message.replace("poisson units", "words")) from error
        empty = np.flatnonzero(rows.sum(axis=1) == 0)
        if len(empty):
            raise DataError(f"row {first + empty[0]} has no words")

    def add_mean_to_graph(self, graph: GraphOperations, natural: GraphValue) -> GraphValue:
        """Raise BadUsage: the number of words in a row is not known in the graph."""
        raise BadUsage("models with words units cannot be exported: their means need the length of each row")

    def layer(self) -> Layer:
        """Return a sampler that draws as many words as the row has."""
        return MultinomialLayer(self.length)

    def mean_change(self, mean: Array, change: Array) -> Array:
        """Compute m_i (d_i − Σ_j m_j d_j / N) (..., D), d the changes."""
        total = mean.sum(axis=-1, keepdims=True)
        return np.asarray(mean * (change - (mean * change).sum(axis=-1, keepdims=True) / total))

    def row_log_base_measure(self, rows: Matrix) -> Array | float:
        """Compute log N! − Σ log v_j! of each row, (n,) float64 in nats, for rows (n, D), dense or CSR."""
        if not is_sparse(rows):
            return self.log_base_measure(rows)
        return np.asarray(log_factorial(np.asarray(rows.sum(axis=1), dtype=np.float64).ravel())) + POISSON.row_log_base_measure(rows)


@dataclass(frozen=True)
class MultinomialLayer(SampledLayer):
    """A layer that draws N words over the columns; N is one number for all rows, or (n,) numbers, one for each."""

    length: int | Array

    def _replace_by_mean(self, natural: Array) -> None:
        natural -= natural.max(axis=-1, keepdims=True)
        exact_arithmetic.exp(natural, out=natural)
        lengths = np.asarray(self.length, dtype=np.float32)
        natural *= (lengths[:, None] if lengths.ndim else lengths) / natural.sum(axis=-1, keepdims=True)

    def draw_word_counts(self, shares: Array, generator: np.random.Generator) -> Array:
        """Draw word counts (n, D) float32 at shares (n, D) float32, which need not sum to 1."""
        return self._draw(shares, generator)

    def _draw(self, mean: Array, generator: np.random.Generator) -> Array:
        lengths = np.broadcast_to(np.asarray(self.length, dtype=np.int64), len(mean))
        ends = np.concatenate([[0], np.cumsum(lengths)])
        uniform, (n, D) = generator.random(int(ends[-1])), mean.shape
        states, sums = np.zeros(mean.shape, dtype=np.float32), np.empty((min(n, TOGETHER), D))
        for i in range(n):
            if i % TOGETHER == 0:
                rows = mean[i : i + TOGETHER]
                fast.running_sums(rows, sums[: len(rows)])
            row = sums[i % TOGETHER]
            # A uniform number falls into the j-th gap of cumulative shares with the probability of j.
            place = np.searchsorted(row, uniform[ends[i] : ends[i + 1]] * row[-1], side="right")
            np.add.at(states[i], np.minimum(place, D - 1), np.float32(1.0))
        return states


def softmax_weights_in_place(natural: Array) -> Array:
    """Replace natural parameters a (n, D) by the shares of words up to a factor, e^a, and return log Σ_j e^{a_j} (n,) float64."""
    top = natural.max(axis=1)
    natural -= top[:, None]
    exact_arithmetic.exp(natural, out=natural)
    found: Array = top + exact_arithmetic.log(natural.sum(axis=1, dtype=np.float64))
    return found
