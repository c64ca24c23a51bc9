"""What the states of a chain emit: symbols, counts, bits; Gaussians stand in `gaussian_emissions`.

Columns of a row are independent given the state, each with parameters of its own.  A missing value (NaN) says nothing of the state and
takes no part in the M step, which is the exact one for values missing at random.

    categorical  p(v | k) = B_kdv          M   Σ_t γ_t(k) [y_td = v] / Σ_t γ_t(k) [y_td is there]
    poisson      e^−λ λ^y / y!             M   λ_kd = Σ_t γ_t(k) y_td / Σ_t γ_t(k) [y_td is there]
    bernoulli    p^y (1 − p)^(1 − y)       M   the same mean

Floors belong to the M step: among all parameters not below the floor the likeliest are taken, so that the free energy does not rise.
Source: Rabiner (1989), sec. III.C and IV.A; Makin, sec. 6.4.2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy.special import gammaln

from herdcli.em.driver import Parameters
from herdcli.em.sequence.forward_backward import ScaledLikelihoods, pad_rows, padded_width, scale_likelihoods
from herdcli.errors import BadUsage, DataError
from herdcli.numerics.block_statistics import BLOCK, Sums
from herdcli.records import dataclass
from herdcli.schema import Array

EMISSIONS = ("gaussian", "categorical", "poisson", "bernoulli", "gmm")
FLOOR = 1e-6  # of probabilities and rates where none is given
NEVER = -1e300  # instead of log 0, so that 0 · log 0 = 0
MOST_SYMBOLS = 10_000


class PreparedEmission(Protocol):
    """Emissions with parameters, for the blocks of one E step."""

    def emitted(self, X: Array) -> ScaledLikelihoods:
        """Likelihoods of rows (m, D)."""
        ...

    def logs(self, X: Array) -> Array:
        """(m, K) log p(row | state)."""
        ...

    def add(self, X: Array, gamma: Array, sums: Sums) -> None:
        """Statistics of rows (m, D) with weights (m, K) of the states."""
        ...


class EmissionFamily(Protocol):
    """A family, with its floor and whatever its columns are known to hold."""

    @property
    def name(self) -> str:
        """One of EMISSIONS."""
        ...

    @property
    def floor(self) -> float:
        """Of variances, probabilities or rates."""
        ...

    @property
    def columns(self) -> int:
        """Of a row."""
        ...

    def ready(self, parameters: Parameters) -> PreparedEmission:
        """For an E step."""
        ...

    def empty(self, states: int) -> Sums:
        """Statistics of no rows."""
        ...

    def settle(self, parameters: Parameters, sums: Sums) -> Sums:
        """The statistics of a pass with what else the M step needs."""
        ...

    def expected(self, parameters: Parameters, sums: Sums) -> float:
        """Σ γ log p(row | state)."""
        ...

    def maximise(self, parameters: Parameters, sums: Sums) -> tuple[Parameters, int]:
        """The likeliest parameters, and how many were raised to the floor; a state without rows keeps its own."""
        ...

    def start(self, X: Array, weight: Array, state: Array, states: int, random: np.random.Generator) -> Parameters:
        """Parameters of rows (m, D) that were dealt to states (m,)."""
        ...

    def numbers(self, states: int) -> int:
        """Free parameters."""
        ...

    def drawn(self, parameters: Parameters, state: Array, random: np.random.Generator) -> Array:
        """Rows (m, D) of states (m,)."""
        ...

    def single(self) -> EmissionFamily:
        """The family whose one state has an M step in closed form."""
        ...


def safe_log(values: Array) -> Array:
    """Logarithms, NEVER for 0."""
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(values), NEVER)


def mark_impossible(logs: Array) -> Array:
    """Sums in which a NEVER counted, as −inf; in place."""
    logs[logs < 0.1 * NEVER] = -np.inf
    return logs


def weighted_log_sum(counts: Array, logs: Array) -> float:
    """Σ counts · logs, with 0 · log 0 = 0."""
    return float((counts * np.where(counts > 0, logs, 0.0)).sum())


def raise_to_floor(counts: Array, floor: float) -> tuple[Array, int]:
    """Probabilities (…, V) ∝ counts that are all at least `floor`, and how many were raised; rows without counts are NaN.

    Σ n_v log p_v subject to Σ p = 1 and p ≥ f is greatest where p_v = max(f, n_v / λ): those that fall below f take it, and the others
    share the rest in proportion, until none falls below.
    """
    V = counts.shape[-1]
    if floor * V >= 1:
        raise BadUsage(f"{V} probabilities cannot all be {floor:g} or more", hint=f"--floor below {1 / V:.2g}")
    low = np.zeros(counts.shape, dtype=bool)
    while True:
        rest = np.where(low, 0.0, counts)
        with np.errstate(invalid="ignore", divide="ignore"):
            p = np.where(low, floor, rest / rest.sum(axis=-1, keepdims=True) * (1.0 - floor * low.sum(axis=-1, keepdims=True)))
        more = (p < floor) & ~low
        if not more.any():
            return p, int((low & (counts < floor * counts.sum(axis=-1, keepdims=True))).sum())
        # What is raised takes from the others, which can but fall: none that was at the floor comes up again, and V rounds suffice.
        low |= more


def require_emittable(X: Array, good: Callable[[Array], Array], what: str, hint: str, names: list[str] | None) -> None:
    """Raise DataError for the first value of a table that a family cannot emit; NaN is a missing value."""
    for start in range(0, len(X), BLOCK):
        part = np.asarray(X[start : start + BLOCK], dtype=np.float64)
        bad = ~np.isnan(part) & ~good(part)
        if bad.any():
            row, column = (int(place[0]) for place in np.nonzero(bad))
            name = f"'{names[column]}'" if names else str(column)
            raise DataError(f"column {name} has {part[row, column]:g} in row {start + row}, {what}", hint=hint)


@dataclass(frozen=True)
class Categorical:
    """One of V symbols in each column.

    symbols  (V,) whole numbers, rising, of all columns.  seen  how many of them each column has; None: all.
    """

    symbols: Array
    columns: int
    floor: float = FLOOR
    name: str = "categorical"
    seen: tuple[int, ...] | None = None

    @classmethod
    def of(cls, X: Array, floor: float | None, names: list[str] | None) -> Categorical:
        """The symbols that a table (n, D) has.  Raises DataError for values that are not whole."""
        hint = "--emission gaussian takes any numbers"
        require_emittable(X, lambda part: part == np.round(part), "and symbols are whole numbers", hint, names)
        found, own = np.zeros(0), [np.zeros(0)] * X.shape[1]
        for start in range(0, len(X), BLOCK):
            part = np.asarray(X[start : start + BLOCK], dtype=np.float64)
            own = [np.union1d(known, column[~np.isnan(column)]) for known, column in zip(own, part.T, strict=True)]
            found = np.unique(np.concatenate([found, *own]))
            if len(found) > MOST_SYMBOLS:
                raise DataError(f"has more than {MOST_SYMBOLS} different symbols", hint="--emission poisson or gaussian takes numbers")
        seen = tuple(len(known) for known in own)
        return cls(found.astype(np.int64), X.shape[1], FLOOR if floor is None else floor, seen=seen)

    def codes(self, X: Array) -> Array:
        """(m, D) places among the symbols, V where a value is missing.  Raises DataError for a symbol that is unknown."""
        missing = np.isnan(X)
        y = np.where(missing, self.symbols[0], X) if missing.any() else X
        if self.symbols[-1] - self.symbols[0] + 1 == len(self.symbols):
            found = y.astype(np.int64) - self.symbols[0]
            known = (found >= 0) & (found < len(self.symbols)) & (y == np.floor(y))
        else:
            found = np.minimum(np.searchsorted(self.symbols, y), len(self.symbols) - 1)
            known = self.symbols[found] == y
        if not known.all():
            row, column = (int(place[0]) for place in np.nonzero(~known))
            raise DataError(
                f"has the symbol {y[row, column]:g}, which the model does not know", hint=f"symbols are {_format_symbols(self.symbols)}"
            )
        found[missing] = len(self.symbols)
        return np.asarray(found)

    def ready(self, parameters: Parameters) -> _PreparedCategorical:
        """With table (K, D, V)."""
        return _PreparedCategorical(self, parameters["table"])

    def empty(self, states: int) -> Sums:
        """Counts (K, D, V)."""
        return {"counts": np.zeros((states, self.columns, len(self.symbols)))}

    def settle(self, parameters: Parameters, sums: Sums) -> Sums:
        """Nothing more."""
        return sums

    def expected(self, parameters: Parameters, sums: Sums) -> float:
        """Σ counts log table."""
        return weighted_log_sum(sums["counts"], safe_log(parameters["table"]))

    def maximise(self, parameters: Parameters, sums: Sums) -> tuple[Parameters, int]:
        """Shares of the counts."""
        counts = sums["counts"]
        p, floors = raise_to_floor(counts, self.floor)
        used = counts.sum(axis=-1, keepdims=True) > 0
        if self.floor > 0:  # of symbols that only other columns have nothing was raised
            floors -= int((used & (counts.sum(axis=0) == 0)).sum())
        return {"table": np.where(used, p, parameters["table"])}, floors

    def start(self, X: Array, weight: Array, state: Array, states: int, random: np.random.Generator) -> Parameters:
        """Each symbol shared out among the states at random, where they were not dealt by place or label."""
        codes, V = self.codes(X), len(self.symbols)
        if (state < 0).all():
            total = np.stack([np.bincount(column, weight, minlength=V + 1)[:V] for column in codes.T])
            counts = random.dirichlet(np.ones(states), size=total.shape).transpose(2, 0, 1) * total
        else:
            counts = np.stack([[np.bincount(c, weight * (state == k), minlength=V + 1)[:V] for c in codes.T] for k in range(states)])
        return {"table": raise_to_floor(counts + 0.5 / V, self.floor)[0]}

    def numbers(self, states: int) -> int:
        """K (V_d − 1) for each column d, of whose own V_d symbols."""
        seen = (len(self.symbols),) * self.columns if self.seen is None else self.seen
        return states * sum(max(count - 1, 0) for count in seen)

    def drawn(self, parameters: Parameters, state: Array, random: np.random.Generator) -> Array:
        """Symbols by their cumulative probabilities."""
        ends = np.cumsum(parameters["table"], axis=-1)
        u = random.random((len(state), self.columns))
        places = np.stack([(u[:, d, None] * ends[state, d, -1:] >= ends[state, d]).sum(axis=-1) for d in range(self.columns)], axis=1)
        return np.asarray(self.symbols[np.minimum(places, len(self.symbols) - 1)], dtype=np.float64)

    def single(self) -> Categorical:
        """Itself."""
        return self


@dataclass(frozen=True)
class _PreparedCategorical:
    family: Categorical
    table: Array

    def emitted(self, X: Array) -> ScaledLikelihoods:
        """Of one column its entries of the table, which need no logarithms."""
        if X.shape[1] > 1:
            return scale_likelihoods(self.logs(X))
        b = np.concatenate([self.table[:, 0].T, np.ones((1, len(self.table)))])
        found = pad_rows(b, padded_width(len(self.table)))[self.family.codes(X)[:, 0]]
        return ScaledLikelihoods(found, np.zeros(len(X)), lambda rows: self.logs(X[rows]))

    def logs(self, X: Array) -> Array:
        """Sums of the columns' entries."""
        found = np.zeros((len(X), len(self.table)))
        for d, column in enumerate(self.family.codes(X).T):
            found += np.concatenate([safe_log(self.table[:, d].T), np.zeros((1, len(self.table)))])[column]
        return mark_impossible(found)

    def add(self, X: Array, gamma: Array, sums: Sums) -> None:
        """Counts of each symbol by state."""
        V = len(self.family.symbols)
        for d, column in enumerate(self.family.codes(X).T):
            for k in range(gamma.shape[1]):
                sums["counts"][k, d] += np.bincount(column, gamma[:, k], minlength=V + 1)[:V]


@dataclass(frozen=True)
class MeanEmission:
    """Poisson counts, or bits: families whose M step is the mean of the values that are there."""

    name: str
    columns: int
    floor: float = FLOOR

    @classmethod
    def of(cls, name: str, X: Array, floor: float | None, names: list[str] | None) -> MeanEmission:
        """For a table (n, D).  Raises DataError for values that the family cannot emit."""
        hint = "--emission gaussian takes any numbers"
        if name == "poisson":
            require_emittable(X, lambda part: (part == np.round(part)) & (part >= 0), "and counts are whole numbers from 0", hint, names)
        else:
            require_emittable(X, lambda part: (part == 0) | (part == 1), "and bits are 0 or 1", hint, names)
        least = FLOOR if floor is None else floor
        if name == "bernoulli" and least >= 0.5:
            raise BadUsage(f"probabilities cannot be at least {least:g} and at most 1 − {least:g}", hint="--floor below 0.5")
        return cls(name, X.shape[1], least)

    @property
    def parameter(self) -> str:
        """What the parameters are called."""
        return "rate" if self.name == "poisson" else "probability"

    def ready(self, parameters: Parameters) -> _PreparedMeanEmission:
        """With rates or probabilities (K, D)."""
        return _PreparedMeanEmission(self, parameters[self.parameter])

    def empty(self, states: int) -> Sums:
        """Σ γ y, Σ γ over the values that are there, and Σ log y! (1,)."""
        return {"values": np.zeros((states, self.columns)), "there": np.zeros((states, self.columns)), "base": np.zeros(1)}

    def settle(self, parameters: Parameters, sums: Sums) -> Sums:
        """Nothing more."""
        return sums

    def expected(self, parameters: Parameters, sums: Sums) -> float:
        """Σ γ log p, by the statistics."""
        mean, values, there = parameters[self.parameter], sums["values"], sums["there"]
        if self.name == "poisson":
            return weighted_log_sum(values, safe_log(mean)) - float((there * mean).sum()) - float(sums["base"][0])
        return weighted_log_sum(values, safe_log(mean)) + weighted_log_sum(there - values, safe_log(1.0 - mean))

    def maximise(self, parameters: Parameters, sums: Sums) -> tuple[Parameters, int]:
        """Means of the values."""
        values, there = sums["values"], sums["there"]
        used = there > 0
        mean = np.divide(values, there, out=parameters[self.parameter].copy(), where=used)
        high = np.inf if self.name == "poisson" else 1.0 - self.floor
        floors = int((used & ((mean < self.floor) | (mean > high))).sum())
        return {self.parameter: np.clip(mean, self.floor, high)}, floors

    def start(self, X: Array, weight: Array, state: Array, states: int, random: np.random.Generator) -> Parameters:
        """Means of each state's rows, a tenth of the way to the mean of all."""
        there = ~np.isnan(X)
        Y, w = np.where(there, X, 0.0), np.where(there, weight[:, None], 0.0)
        every = (w * Y).sum(axis=0) / np.maximum(w.sum(axis=0), np.finfo(float).tiny)
        own = (state == np.arange(states)[:, None]).astype(np.float64)
        many = own @ w
        mean = np.divide(own @ (w * Y), many, out=np.repeat(every[None], states, axis=0), where=many > 0)
        high = np.inf if self.name == "poisson" else 1.0 - max(self.floor, 1e-3)
        return {self.parameter: np.clip(0.9 * mean + 0.1 * every, max(self.floor, 1e-3), high)}

    def numbers(self, states: int) -> int:
        """K D."""
        return states * self.columns

    def drawn(self, parameters: Parameters, state: Array, random: np.random.Generator) -> Array:
        """Counts or bits."""
        mean = parameters[self.parameter][state]
        found = random.poisson(mean) if self.name == "poisson" else random.random(mean.shape) < mean
        return found.astype(np.float64)

    def single(self) -> MeanEmission:
        """Itself."""
        return self


@dataclass(frozen=True)
class _PreparedMeanEmission:
    family: MeanEmission
    mean: Array

    def emitted(self, X: Array) -> ScaledLikelihoods:
        """By their logarithms."""
        return scale_likelihoods(self.logs(X))

    def logs(self, X: Array) -> Array:
        """Products of the rows with the natural parameters."""
        missing = np.isnan(X)
        Y = np.where(missing, 0.0, X)
        there = (~missing).astype(np.float64)
        if self.family.name == "poisson":
            # Σ over the columns that are there of y log λ − λ − log y!; a missing value is 0 in Y and in `there`, and adds nothing.
            found = Y @ safe_log(self.mean).T - there @ self.mean.T - gammaln(Y + 1.0).sum(axis=1)[:, None]
        else:
            found = Y @ safe_log(self.mean).T + (there - Y) @ safe_log(1.0 - self.mean).T
        return mark_impossible(found)

    def add(self, X: Array, gamma: Array, sums: Sums) -> None:
        """Weighted sums of the values."""
        missing = np.isnan(X)
        Y = np.where(missing, 0.0, X)
        sums["values"] += gamma.T @ Y
        sums["there"] += gamma.T @ (~missing).astype(np.float64)
        if self.family.name == "poisson":
            sums["base"] += gamma.sum(axis=1) @ gammaln(Y + 1.0).sum(axis=1)


def _format_symbols(symbols: Array) -> str:
    shown = ", ".join(str(symbol) for symbol in symbols[:8])
    return shown if len(symbols) <= 8 else f"{shown} … {symbols[-1]}"
