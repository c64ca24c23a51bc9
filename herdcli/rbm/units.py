"""Unit families of a harmonium layer: what a unit's natural parameters say about its value.

A layer of units x with natural parameters a has the density  exp(a·x − Σ A(a))  with respect to the family's base measure
h(x); A is the log-partition and A' the mean.  Both layers of a harmonium may be of any family: the natural parameters of one
are affine in the values of the other.  What sampling needs beside this is in `gibbs`; a new family is one class in each.

family     values x               A(a)                  h(x)
binary     {0, 1}                 log(1 + e^a)          1
spin       {−1, +1}               log(2 cosh a)         1
rate:n     counts 0 … n           n log(1 + e^a)        n over x        n binary units with the same weights, counted
gaussian   real                   a²/2                  N(x; 0, 1)
poisson    counts 0, 1, …         e^a                   1/x!
softmax:k  one of k columns       log Σ e^a             1               k columns are one unit

Data and results show the values of rate units as proportions, counts/n; `scale` is that n, 1 for other families.
Source: Welling, Rosen-Zvi & Hinton (2005), exponential family harmoniums; Teh (2003), sec. 3.2 and 3.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.numerics import real
from herdcli.numerics.rows import Selected, blocks, column_sums, dense, is_sparse
from herdcli.numerics.streamed import Streamed
from herdcli.schema import Array

LARGEST_EXPONENT = 700.0  # e^700 is still a float64
MOST = 1000  # replicas of a rate unit, columns of a softmax unit


def logistic(natural: Array) -> Array:
    """1 / (1 + e^{−a}) elementwise, of any shape (...,), to full relative precision at both ends, and no less than e^{−709}."""
    result: Array = 1.0 / (1.0 + real.exp(np.minimum(-natural, 709.0)))
    return result


def log_factorial(x: Array) -> Array:
    """log x! elementwise, of any shape (...,), of reals above −1 by the gamma function."""
    from scipy.special import gammaln

    result: Array = gammaln(np.asarray(x, dtype=np.float64) + 1.0)
    return result


class Family(Protocol):
    """One kind of unit.  Arrays are (..., columns); U = columns / group units."""

    @property
    def name(self) -> str:
        """As stored and typed."""

    @property
    def group(self) -> int:
        """Columns that are one unit."""

    @property
    def scale(self) -> int:
        """Values are so many times what data and results show."""

    @property
    def range(self) -> tuple[float, float] | None:
        """Lowest and highest value, None if there is none."""

    @property
    def support(self) -> Array | None:
        """(S, group) the values of one unit if they are finitely many."""

    @property
    def variance_function(self) -> tuple[float, float, float]:
        """(α, β, γ): a column's variance given its natural parameter is α + β m + γ m², m its mean.  Source: Morris (1982)."""

    def log_partition(self, natural: Array) -> Array:
        """A(a) of each unit, (..., U) in nats."""

    def summed_log_partition(self, natural: Array) -> Array:
        """Σ A(a) over the last axis of (..., columns); natural parameters in floating point, overwritten."""

    def mean(self, natural: Array) -> Array:
        """E[x | a] = A'(a), (..., columns)."""

    def log_base(self, values: Array) -> Array | float:
        """Σ log h(x) over the last axis of (..., columns), in nats."""

    def natural(self, mean: Array) -> Array:
        """The natural parameters (..., columns) that have this mean; infinite at the ends of the range."""

    def base_rate(self, rows: Any) -> Array:
        """Natural parameters (D,) float64 of independent units with the means of `rows` (n, D), smoothed to be finite.

        rows  an array, a CSR matrix or rows selected from one.
        """

    def discrete(self, values: Array) -> Array:
        """The nearest values (..., columns) that a unit can take."""

    def require(self, rows: Array, first: int = 0) -> None:
        """Raise DataError unless rows (n, D) hold values that learning can use.  first  the number of the first of them."""


class TwoState:
    """x in {low, high}: A(a) = (low + g/2)·a + g/2·|a| + log(1 + e^{−g|a|}), g = high − low."""

    group = 1
    scale = 1

    def __init__(self, name: str, low: int, high: int) -> None:
        self.name = name
        self.values = (low, high)
        self.range = (float(low), float(high))
        self.support = np.array([[low], [high]], dtype=np.float64)
        self.variance_function = (-float(low * high), float(low + high), -1.0)  # (m − low)(high − m)

    def log_partition(self, natural: Array) -> Array:
        """(..., U) log(e^{low·a} + e^{high·a}), the larger exponent taken out."""
        low, high = self.values
        if (low, high) == (0, 1):
            return real.softplus(natural)
        size = np.abs(natural)
        result: Array = (low + high) / 2 * natural + (high - low) / 2 * size + real.log1p(real.exp((low - high) * size))
        return result

    def summed_log_partition(self, natural: Array) -> Array:
        """Σ A(a) over the last axis of (..., U): Σ a and Σ |a|, then Σ log(1 + e^{−g|a|}), in place."""
        low, high = self.values
        gap = high - low
        linear = (low + gap / 2) * natural.sum(axis=-1) if low + gap / 2 else 0.0
        np.abs(natural, out=natural)
        linear = linear + gap / 2 * natural.sum(axis=-1)
        np.multiply(natural, -gap, out=natural)
        real.exp(natural, out=natural)
        np.add(natural, 1.0, out=natural)
        real.log(natural, out=natural)
        total: Array = linear + natural.sum(axis=-1)
        return total

    def mean(self, natural: Array) -> Array:
        """(..., U) logistic(a) of binary units, tanh(a) of spins."""
        return logistic(natural) if self.values == (0, 1) else real.tanh(natural)

    def log_base(self, values: Array) -> Array | float:
        """The number 0 for values (..., U): h is 1."""
        return 0.0

    def natural(self, mean: Array) -> Array:
        """(..., U) log((mean − low)/(high − mean))/(high − low)."""
        low, high = self.values
        mean = np.asarray(mean, dtype=np.float64)
        odds: Array = (mean - low) / (high - mean)
        # mean = low + g σ(g a): g a is the log of (mean − low)/(high − mean).
        return real.log(odds) / (high - low)

    def base_rate(self, rows: Any) -> Array:
        """(D,) with one row in either state added to rows (n, D).  Source: Salakhutdinov & Murray (2008), sec. 4.1."""
        low, high = self.values
        count = rows.shape[0]
        on = ((column_sums(rows) - count * low) / (high - low) + 1.0) / (count + 2.0)
        biases: Array = real.log(on / (1.0 - on)) / (high - low)
        return biases

    def discrete(self, values: Array) -> Array:
        """The values (..., U) as they are."""
        return values

    def require(self, rows: Array, first: int = 0) -> None:
        """Raise DataError where rows (n, D) hold anything but the two values."""
        low, high = self.values
        if rows.size and (not np.isin((rows.min(), rows.max()), (low, high)).all() or (low < 0 and not rows.all())):
            raise DataError(f"values other than {low} and {high}")


class Rate:
    """x of n replicas are on: A(a) = n log(1 + e^a).  Rows to learn from may lie between counts.  Source: Teh (2003), sec. 3.3."""

    group = 1

    def __init__(self, replicas: int) -> None:
        self.name = f"rate:{replicas}"
        self.scale = replicas
        self.range = (0.0, float(replicas))
        self.support = np.arange(replicas + 1.0)[:, None]
        self.variance_function = (0.0, 1.0, -1.0 / replicas)

    def log_partition(self, natural: Array) -> Array:
        """(..., U) n log(1 + e^a)."""
        result: Array = self.scale * real.softplus(natural)
        return result

    def summed_log_partition(self, natural: Array) -> Array:
        """Σ n log(1 + e^a) over the last axis of (..., U); overwrites them."""
        total: Array = self.scale * _BINARY.summed_log_partition(natural)
        return total

    def mean(self, natural: Array) -> Array:
        """(..., U) n logistic(a), counts."""
        return self.scale * logistic(natural)

    def log_base(self, values: Array) -> Array:
        """Σ log(n over x) over the last axis of (..., U), between counts by the gamma function."""
        total: Array = (log_factorial(np.array(self.scale)) - log_factorial(values) - log_factorial(self.scale - values)).sum(axis=-1)
        return total

    def natural(self, mean: Array) -> Array:
        """(..., U) log(mean/(n − mean))."""
        return _BINARY.natural(np.asarray(mean, dtype=np.float64) / self.scale)

    def base_rate(self, rows: Any) -> Array:
        """(D,) with one row of 0 and one of n added to rows (n, D)."""
        return self.natural((column_sums(rows) + self.scale) / (rows.shape[0] + 2.0))

    def discrete(self, values: Array) -> Array:
        """The nearest counts (..., U)."""
        return np.rint(values)

    def require(self, rows: Array, first: int = 0) -> None:
        """Raise DataError where rows (n, D) leave 0 … n."""
        if rows.size and not 0 <= rows.min() <= rows.max() <= self.scale:
            raise DataError(f"counts from {rows.min():g} to {rows.max():g}, {self.name} units hold 0 to {self.scale}")


class Gaussian:
    """x real with variance 1 given a: A(a) = a²/2."""

    name = "gaussian"
    group = 1
    scale = 1
    range = None
    support = None
    variance_function = (1.0, 0.0, 0.0)

    def log_partition(self, natural: Array) -> Array:
        """(..., U) a²/2."""
        result: Array = 0.5 * np.square(natural)
        return result

    def summed_log_partition(self, natural: Array) -> Array:
        """Σ a²/2 over the last axis of (..., U)."""
        total: Array = self.log_partition(natural).sum(axis=-1)
        return total

    def mean(self, natural: Array) -> Array:
        """(..., U) a, copied."""
        return np.array(natural)

    def log_base(self, values: Array) -> Array:
        """Σ log N(x; 0, 1) over the last axis of (..., U)."""
        total: Array = -0.5 * (np.square(values) + real.log(2 * np.pi)).sum(axis=-1)
        return total

    def natural(self, mean: Array) -> Array:
        """(..., U) the mean itself."""
        return np.asarray(mean, dtype=np.float64)

    def base_rate(self, rows: Any) -> Array:
        """(D,) the means of rows (n, D)."""
        means: Array = column_sums(rows) / rows.shape[0]
        return means

    def discrete(self, values: Array) -> Array:
        """The values (..., U) as they are."""
        return values

    def require(self, rows: Array, first: int = 0) -> None:
        """Raise DataError where rows (n, D) are not finite."""
        if not np.isfinite(rows).all():
            raise DataError("values that are not finite")


class Poisson:
    """x in {0, 1, …}: A(a) = e^a."""

    name = "poisson"
    group = 1
    scale = 1
    range = None
    support = None
    variance_function = (0.0, 1.0, 0.0)

    def log_partition(self, natural: Array) -> Array:
        """(..., U) e^a, at most e^700."""
        result: Array = real.exp(np.minimum(natural, LARGEST_EXPONENT))
        return result

    def summed_log_partition(self, natural: Array) -> Array:
        """Σ e^a over the last axis of (..., U)."""
        total: Array = self.log_partition(natural).sum(axis=-1)
        return total

    def mean(self, natural: Array) -> Array:
        """(..., U) e^a: A' = A."""
        return self.log_partition(natural)

    def log_base(self, values: Array) -> Array:
        """−Σ log x! over the last axis of (..., U)."""
        total: Array = -log_factorial(values).sum(axis=-1)
        return total

    def natural(self, mean: Array) -> Array:
        """(..., U) log of the mean."""
        result: Array = real.log(np.asarray(mean, dtype=np.float64))
        return result

    def base_rate(self, rows: Any) -> Array:
        """(D,) with half a count in one more row added to rows (n, D)."""
        return self.natural((column_sums(rows) + 0.5) / (rows.shape[0] + 1.0))

    def discrete(self, values: Array) -> Array:
        """The nearest whole numbers (..., U)."""
        return np.rint(values)

    def require(self, rows: Array, first: int = 0) -> None:
        """Raise DataError where rows (n, D) hold anything but whole numbers from 0 upwards."""
        wrong = ~np.isfinite(rows) | (rows < 0) | (rows != np.rint(rows))
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise DataError(f"{rows[row, column]:g} in row {first + row}, column {column}: poisson units hold whole numbers from 0 upwards")


class Softmax:
    """One of k columns is 1, the others 0: A(a) = log Σ e^a over the k columns.  Rows to learn from may be proportions."""

    scale = 1
    range = (0.0, 1.0)
    variance_function = (0.0, 1.0, -1.0)

    def __init__(self, columns: int) -> None:
        self.name = f"softmax:{columns}"
        self.group = columns
        self.support = np.eye(columns)

    def _units(self, columns: Array) -> Array:
        return columns.reshape(*columns.shape[:-1], columns.shape[-1] // self.group, self.group)

    def log_partition(self, natural: Array) -> Array:
        """(..., U) log Σ e^a over each unit's k columns."""
        result: Array = real.log_sum_exp(self._units(natural), axis=-1)
        return result

    def summed_log_partition(self, natural: Array) -> Array:
        """Σ A(a) over the units of (..., columns)."""
        total: Array = self.log_partition(natural).sum(axis=-1)
        return total

    def mean(self, natural: Array) -> Array:
        """(..., columns) e^a / Σ e^a within each unit."""
        units = self._units(natural)
        # A' of log Σ e^a is the share e^{a_i}/Σ e^a.
        shares: Array = real.exp(units - real.log_sum_exp(units, axis=-1, keepdims=True))
        return shares.reshape(natural.shape)

    def log_base(self, values: Array) -> Array | float:
        """The number 0 for values (..., columns): h is 1."""
        return 0.0

    def natural(self, mean: Array) -> Array:
        """(..., columns) logarithms of the shares: any constant a unit could be added."""
        result: Array = real.log(np.asarray(mean, dtype=np.float64))
        return result

    def base_rate(self, rows: Any) -> Array:
        """(D,) with one row of each value added to rows (n, D)."""
        return self.natural((column_sums(rows) + 1.0) / (rows.shape[0] + self.group))

    def discrete(self, values: Array) -> Array:
        """(..., columns) 1 at each unit's largest column, the first of equals, 0 elsewhere."""
        chosen: Array = np.eye(self.group)[self._units(values).argmax(axis=-1)]
        return chosen.reshape(values.shape)

    def require(self, rows: Array, first: int = 0) -> None:
        """Raise DataError unless each k columns of rows (n, D) are ≥ 0 and sum to 1."""
        if rows.shape[1] % self.group:
            raise DataError(f"{rows.shape[1]} columns, {self.name} units have {self.group} each")
        units = self._units(rows)
        wrong = (np.abs(units.sum(axis=-1) - 1.0) > 1e-4) | (units < 0).any(axis=-1)
        if wrong.any():
            row, unit = np.argwhere(wrong)[0]
            column = unit * self.group
            raise DataError(
                f"columns {column} to {column + self.group - 1} of row {first + row} sum to {units[row, unit].sum():g}: "
                f"each {self.group} columns of {self.name} units must be at least 0 and sum to 1"
            )


class Words:
    """Counts of N words over D columns, drawn with the probabilities softmax(a): A(a) = N log Σ e^a, h(v) = N!/Π v_j!.

    length  N; 0: that of each row, which learning and conditionals know and a partition function needs to be told.
    Source: Salakhutdinov & Hinton (2009), the replicated softmax; its hidden biases N c are weights that all columns share.
    """

    group = 1
    scale = 1
    range = None
    support = None
    variance_function = (0.0, 1.0, 0.0)

    def __init__(self, length: int = 0) -> None:
        self.name = f"words:{length}" if length else "words"
        self.length = length

    def _known(self) -> int:
        if not self.length:
            raise BadUsage("words of rows of any length have no one partition function", hint="one for each length")
        return self.length

    def log_partition(self, natural: Array) -> Array:
        """(..., 1) N log Σ e^a."""
        result: Array = self._known() * real.log_sum_exp(natural, axis=-1, keepdims=True)
        return result

    def summed_log_partition(self, natural: Array) -> Array:
        """The same without the last axis."""
        result: Array = self._known() * real.log_sum_exp(natural, axis=-1)
        return result

    def mean(self, natural: Array) -> Array:
        """(..., D) N e^a / Σ e^a; where rows are of any length the shares themselves."""
        result: Array = max(self.length, 1) * real.exp(natural - real.log_sum_exp(natural, axis=-1, keepdims=True))
        return result

    def log_base(self, values: Array) -> Array:
        """log N! − Σ log v_j! over the last axis of (..., D)."""
        result: Array = log_factorial(values.sum(axis=-1)) - log_factorial(values).sum(axis=-1)
        return result

    def natural(self, mean: Array) -> Array:
        """(..., D) logarithms of the shares."""
        mean = np.asarray(mean, dtype=np.float64)
        result: Array = real.log(mean / mean.sum(axis=-1, keepdims=True))
        return result

    def base_rate(self, rows: Any) -> Array:
        """(D,) logarithms of the words' shares in rows (n, D), each word counted once more."""
        return self.natural(np.asarray(column_sums(rows), dtype=np.float64) + 1.0)

    def discrete(self, values: Array) -> Array:
        """The nearest whole numbers (..., D)."""
        return np.rint(values)

    def require(self, rows: Array, first: int = 0) -> None:
        """Raise DataError where rows (n, D) hold anything but whole numbers from 0 upwards, or no word."""
        try:
            _SINGLE["poisson"].require(rows, first)
        except DataError as error:
            raise DataError(error.message.replace("poisson units", "words")) from error
        empty = np.flatnonzero(rows.sum(axis=1) == 0)
        if len(empty):
            raise DataError(f"no word in row {first + empty[0]}")


class Labelled:
    """Columns of a family of one-column units, and after them one softmax unit of k columns: rows with their labels as one layer."""

    group = 1
    scale = 1
    support = None

    def __init__(self, columns: Family, labels: Softmax) -> None:
        self.name = f"{columns.name}+{labels.name}"
        self.columns, self.labels = columns, labels
        self.range, self.variance_function = columns.range, columns.variance_function

    def _parts(self, values: Array) -> tuple[Array, Array]:
        return values[..., : -self.labels.group], values[..., -self.labels.group :]

    def log_partition(self, natural: Array) -> Array:
        """(..., U) of the columns, then of the label."""
        return np.concatenate([units.log_partition(part) for units, part in self._each(natural)], axis=-1)

    def summed_log_partition(self, natural: Array) -> Array:
        """Σ A(a) over the last axis of (..., columns)."""
        first, last = self._parts(natural)
        total: Array = self.columns.summed_log_partition(first.copy()) + self.labels.summed_log_partition(last)
        return total

    def mean(self, natural: Array) -> Array:
        """(..., columns) of both parts."""
        return np.concatenate([units.mean(part) for units, part in self._each(natural)], axis=-1)

    def log_base(self, values: Array) -> Array | float:
        """Σ log h(x) over the last axis of (..., columns): that of the columns."""
        return self.columns.log_base(self._parts(values)[0])

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

    def _each(self, values: Array) -> Iterator[tuple[Family, Array]]:
        first, last = self._parts(values)
        yield self.columns, first
        yield self.labels, last


_BINARY = TwoState("binary", 0, 1)
TWO_STATE: dict[str, TwoState] = {"binary": _BINARY, "spin": TwoState("spin", -1, 1)}
FAMILIES: dict[str, str] = {
    "binary": "0 and 1",
    "spin": "−1 and +1",
    "rate:N": "counts up to N, shown as proportions",
    "gaussian": "real, variance 1",
    "poisson": "counts",
    "softmax:K": "one of K columns",
    "words": "counts of words in rows of any length, visible only",
}
_PARAMETERISED: dict[str, type[Rate] | type[Softmax]] = {"rate": Rate, "softmax": Softmax}
_SINGLE: dict[str, Family] = {**TWO_STATE, "gaussian": Gaussian(), "poisson": Poisson()}


@lru_cache(maxsize=64)
def family(name: str) -> Family:
    """The family of a name as stored in artifacts and written on the command line.  Raises BadUsage for others."""
    if name in _SINGLE:
        return _SINGLE[name]
    if name.partition("+")[0] in _SINGLE and name.partition("+")[2].startswith("softmax:"):
        columns, label = name.split("+", 1)
        labels = family(label)
        assert isinstance(labels, Softmax)
        return Labelled(_SINGLE[columns], labels)
    if name == "words":
        return Words()
    match = re.fullmatch(r"(rate|softmax):([1-9][0-9]{0,3})", name)
    if match is None:
        raise BadUsage(f"unknown units '{name}', expected one of {', '.join(FAMILIES)}")
    least, number = (1, 2)[match[1] == "softmax"], int(match[2])
    if not least <= number <= MOST:
        raise BadUsage(f"{match[1]} units take a number from {least} to {MOST}, not {number}")
    return _PARAMETERISED[match[1]](number)


def require_rows(units: Family, rows: Any) -> None:
    """Raise DataError unless rows (n, D), dense, CSR or selected, hold values of a unit family; block by block."""
    if isinstance(units, TwoState) and isinstance(rows, Selected) and is_sparse(rows.base):
        rows = rows.stored(slice(None))  # one row of a matrix of 2^31 columns is too much
    if isinstance(units, TwoState) and is_sparse(rows):
        units.require(rows.data[:, None])  # every other entry is 0, which `require` is to allow
        if units.values[0] != 0 and rows.nnz < rows.shape[0] * rows.shape[1]:
            raise DataError(f"values other than {units.values[0]} and {units.values[1]}")
        return
    for block in blocks(rows):
        units.require(dense(rows[block]), block.start)


def discrete(units: Family, rows: Any) -> Any:
    """The nearest values that units can take; rows (n, D), of a CSR matrix as they are: learning takes no others."""
    if isinstance(rows, Streamed):
        return rows if isinstance(units, TwoState) else rows.mapped(units.discrete)
    return rows if is_sparse(rows) else units.discrete(rows)


def log_base(units: Family, rows: Any) -> Array | float:
    """Σ log h(v) of each row, (n,) float64 in nats, for rows (n, D), dense or CSR; what a CSR matrix leaves out is 0, where h is 1."""
    if isinstance(units, TwoState):
        return 0.0
    if not is_sparse(rows):
        return units.log_base(rows)
    if isinstance(units, Words):
        return np.asarray(log_factorial(np.asarray(rows.sum(axis=1), dtype=np.float64).ravel())) + log_base(_SINGLE["poisson"], rows)
    entries = np.asarray(units.log_base(np.asarray(rows.data, dtype=np.float64)[:, None]))
    before = np.concatenate([[0.0], np.cumsum(entries)])
    total: Array = before[rows.indptr[1:]] - before[rows.indptr[:-1]]
    return total
