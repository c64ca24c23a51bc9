"""Emission families of hidden states: symbols, counts and bits.  Gaussians are in `gaussian_emissions`.

Columns of a row are independent given the state, each with its own parameters.  A missing value (NaN) carries no information about the
state and is left out of the M step, which is exact for values missing at random.

    categorical  p(v | k) = B_kdv          M   Σ_t γ_t(k) [y_td = v] / Σ_t γ_t(k) [y_td is there]
    poisson      e^−λ λ^y / y!             M   λ_kd = Σ_t γ_t(k) y_td / Σ_t γ_t(k) [y_td is there]
    bernoulli    p^y (1 − p)^(1 − y)       M   the same mean

Floors are part of the M step: it maximises the likelihood over parameters at or above the floor, so that the free energy does not rise.
Source: Rabiner (1989), sec. III.C and IV.A; Makin, sec. 6.4.2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import scipy

from herdcli.em.driver import Parameters
from herdcli.em.sequence.forward_backward import ScaledLikelihoods, pad_rows, padded_width, scale_likelihoods
from herdcli.errors import BadUsage, DataError
from herdcli.numerics.block_statistics import BLOCK, Sums
from herdcli.records import dataclass
from herdcli.schema import Array

EMISSIONS = ("gaussian", "categorical", "poisson", "bernoulli", "gmm")
FLOOR = 1e-6  # default floor of probabilities and rates
NEVER = -1e300  # instead of log 0, so that 0 · log 0 = 0
MOST_SYMBOLS = 10_000


class PreparedEmission(Protocol):
    """Emissions with parameters, prepared for the blocks of one E step."""

    def scaled_likelihoods(self, X: Array) -> ScaledLikelihoods:
        """Return the scaled likelihoods of rows (m, D)."""
        ...

    def log_likelihoods(self, X: Array) -> Array:
        """Return log p(row | state), (m, K)."""
        ...

    def add(self, X: Array, gamma: Array, sums: Sums) -> None:
        """Add the statistics of rows (m, D) with state weights (m, K) to the sums."""
        ...


class EmissionFamily(Protocol):
    """A family of emission distributions, with its floor and the facts about its columns that it needs."""

    @property
    def name(self) -> str:
        """The name of the family, one of EMISSIONS."""
        ...

    @property
    def floor(self) -> float:
        """The floor of variances, probabilities or rates."""
        ...

    @property
    def columns(self) -> int:
        """The number of columns of a row."""
        ...

    def prepare_emission(self, parameters: Parameters) -> PreparedEmission:
        """Return the emissions with these parameters, prepared for an E step."""
        ...

    def zero_statistics(self, states: int) -> Sums:
        """Return the statistics of no rows."""
        ...

    def complete_statistics(self, parameters: Parameters, sums: Sums) -> Sums:
        """Return the statistics of a pass with anything else that the M step needs."""
        ...

    def expected_log_likelihood(self, parameters: Parameters, sums: Sums) -> float:
        """Return Σ γ log p(row | state)."""
        ...

    def maximise(self, parameters: Parameters, sums: Sums) -> tuple[Parameters, int]:
        """Return the maximum-likelihood parameters and how many were raised to the floor; a state without rows keeps its own."""
        ...

    def start(self, X: Array, weight: Array, state: Array, states: int, random: np.random.Generator) -> Parameters:
        """Return initial parameters from rows (m, D) that are assigned to states (m,)."""
        ...

    def work_per_row(self, states: int) -> int:
        """Return the numbers that an E step holds for each row of a block, besides the rows and the states' probabilities."""
        ...

    def work_per_block(self) -> int:
        """Return the numbers that an E step holds for a block of any length."""
        ...

    def parameter_count(self, states: int) -> int:
        """Return the number of free parameters."""
        ...

    def sample_rows(self, parameters: Parameters, state: Array, random: np.random.Generator) -> Array:
        """Sample rows (m, D) given states (m,)."""
        ...

    def single_state_family(self) -> EmissionFamily:
        """Return the family with an M step in closed form for a single state."""
        ...


def safe_log(values: Array) -> Array:
    """Return logarithms, with NEVER for log 0."""
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(values), NEVER)


def mark_impossible(logs: Array) -> Array:
    """Replace sums that contain a NEVER by −inf, in place, and return them."""
    logs[logs < 0.1 * NEVER] = -np.inf
    return logs


def weighted_log_sum(counts: Array, logs: Array) -> float:
    """Return Σ counts · logs, with 0 · log 0 = 0."""
    return float((counts * np.where(counts > 0, logs, 0.0)).sum())


def raise_to_floor(counts: Array, floor: float) -> tuple[Array, int]:
    """Return probabilities (…, V) ∝ counts that are all at least `floor`, and how many were raised; rows without counts are NaN.

    Σ n_v log p_v subject to Σ p = 1 and p ≥ f is maximal at p_v = max(f, n_v / λ): values below f become f, and the others share the
    rest in proportion, until none is below.
    """
    V = counts.shape[-1]
    if floor * V >= 1:
        raise BadUsage(f"{V} probabilities cannot all be {floor:g} or more", hint=f"use --floor below {1 / V:.2g}")
    low = np.zeros(counts.shape, dtype=bool)
    while True:
        rest = np.where(low, 0.0, counts)
        with np.errstate(invalid="ignore", divide="ignore"):
            p = np.where(low, floor, rest / rest.sum(axis=-1, keepdims=True) * (1.0 - floor * low.sum(axis=-1, keepdims=True)))
        more = (p < floor) & ~low
        if not more.any():
            return p, int((low & (counts < floor * counts.sum(axis=-1, keepdims=True))).sum())
        # Raising some values can only lower the others: none at the floor rises again, so V rounds suffice.
        low |= more


def require_emittable(X: Array, is_valid: Callable[[Array], Array], what: str, hint: str, names: list[str] | None) -> None:
    """Raise DataError for the first value of a table that a family cannot emit; NaN is a missing value and passes."""
    for start in range(0, len(X), BLOCK):
        part = np.asarray(X[start : start + BLOCK], dtype=np.float64)
        bad = ~np.isnan(part) & ~is_valid(part)
        if bad.any():
            row, column = (int(place[0]) for place in np.nonzero(bad))
            name = f"'{names[column]}'" if names else str(column)
            raise DataError(f"column {name} has {part[row, column]:g} in row {start + row}, {what}", hint=hint)


@dataclass(frozen=True)
class Categorical:
    """A family that emits one of V symbols in each column.

    symbols  (V,) the whole numbers that occur in any column, ascending.
    seen     number of symbols in each column; None: all of them.
    """

    symbols: Array
    columns: int
    floor: float = FLOOR
    name: str = "categorical"
    seen: tuple[int, ...] | None = None

    @classmethod
    def from_table(cls, X: Array, floor: float | None, names: list[str] | None) -> Categorical:
        """Return the family for the symbols of a table (n, D).  Raises DataError for values that are not whole numbers."""
        hint = "for real numbers use --emission gaussian"
        require_emittable(X, lambda part: part == np.round(part), "and symbols are whole numbers", hint, names)
        found, own = np.zeros(0), [np.zeros(0)] * X.shape[1]
        for start in range(0, len(X), BLOCK):
            part = np.asarray(X[start : start + BLOCK], dtype=np.float64)
            own = [np.union1d(known, column[~np.isnan(column)]) for known, column in zip(own, part.T, strict=True)]
            found = np.unique(np.concatenate([found, *own]))
            if len(found) > MOST_SYMBOLS:
                raise DataError(f"has more than {MOST_SYMBOLS} different symbols", hint="for numbers use --emission poisson or gaussian")
        seen = tuple(len(known) for known in own)
        return cls(found.astype(np.int64), X.shape[1], FLOOR if floor is None else floor, seen=seen)

    def symbol_indices(self, X: Array) -> Array:
        """Return the indices (m, D) of the symbols, V for a missing value.  Raises DataError for an unknown symbol."""
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

    def prepare_emission(self, parameters: Parameters) -> _PreparedCategorical:
        """Return the prepared emissions with table (K, D, V)."""
        return _PreparedCategorical(self, parameters["table"])

    def zero_statistics(self, states: int) -> Sums:
        """Return counts (K, D, V) of 0."""
        return {"counts": np.zeros((states, self.columns, len(self.symbols)))}

    def complete_statistics(self, parameters: Parameters, sums: Sums) -> Sums:
        """Return the statistics unchanged."""
        return sums

    def expected_log_likelihood(self, parameters: Parameters, sums: Sums) -> float:
        """Return Σ counts log table."""
        return weighted_log_sum(sums["counts"], safe_log(parameters["table"]))

    def maximise(self, parameters: Parameters, sums: Sums) -> tuple[Parameters, int]:
        """Return the relative frequencies of the symbols, with the floor."""
        counts = sums["counts"]
        p, floors = raise_to_floor(counts, self.floor)
        used = counts.sum(axis=-1, keepdims=True) > 0
        if self.floor > 0:  # symbols that occur in other columns only do not count as raised
            floors -= int((used & (counts.sum(axis=0) == 0)).sum())
        return {"table": np.where(used, p, parameters["table"])}, floors

    def start(self, X: Array, weight: Array, state: Array, states: int, random: np.random.Generator) -> Parameters:
        """Return initial tables; without assigned states, the count of each symbol is divided among the states at random."""
        codes, V = self.symbol_indices(X), len(self.symbols)
        if (state < 0).all():
            total = np.stack([np.bincount(column, weight, minlength=V + 1)[:V] for column in codes.T])
            counts = random.dirichlet(np.ones(states), size=total.shape).transpose(2, 0, 1) * total
        else:
            counts = np.stack([[np.bincount(c, weight * (state == k), minlength=V + 1)[:V] for c in codes.T] for k in range(states)])
        return {"table": raise_to_floor(counts + 0.5 / V, self.floor)[0]}

    def work_per_row(self, states: int) -> int:
        """Return the symbols' indices and their intermediate values, a column of weights, and log-likelihoods."""
        return 4 * self.columns + 3 * states

    def work_per_block(self) -> int:
        """Return 0: all of the work grows with the rows."""
        return 0

    def parameter_count(self, states: int) -> int:
        """Return K (V_d − 1), summed over columns d that have V_d symbols."""
        seen = (len(self.symbols),) * self.columns if self.seen is None else self.seen
        return states * sum(max(count - 1, 0) for count in seen)

    def sample_rows(self, parameters: Parameters, state: Array, random: np.random.Generator) -> Array:
        """Sample symbols by their cumulative probabilities."""
        ends = np.cumsum(parameters["table"], axis=-1)
        u = random.random((len(state), self.columns))
        places = np.stack([(u[:, d, None] * ends[state, d, -1:] >= ends[state, d]).sum(axis=-1) for d in range(self.columns)], axis=1)
        return np.asarray(self.symbols[np.minimum(places, len(self.symbols) - 1)], dtype=np.float64)

    def single_state_family(self) -> Categorical:
        """Return the family itself."""
        return self


@dataclass(frozen=True)
class _PreparedCategorical:
    family: Categorical
    table: Array

    def scaled_likelihoods(self, X: Array) -> ScaledLikelihoods:
        """Return the scaled likelihoods; for a single column these are table entries and need no logarithms."""
        if X.shape[1] > 1:
            return scale_likelihoods(self.log_likelihoods(X))
        b = np.concatenate([self.table[:, 0].T, np.ones((1, len(self.table)))])
        found = pad_rows(b, padded_width(len(self.table)))[self.family.symbol_indices(X)[:, 0]]
        return ScaledLikelihoods(found, np.zeros(len(X)), lambda rows: self.log_likelihoods(X[rows]))

    def log_likelihoods(self, X: Array) -> Array:
        """Return the sums of the columns' log probabilities."""
        found = np.zeros((len(X), len(self.table)))
        for d, column in enumerate(self.family.symbol_indices(X).T):
            found += np.concatenate([safe_log(self.table[:, d].T), np.zeros((1, len(self.table)))])[column]
        return mark_impossible(found)

    def add(self, X: Array, gamma: Array, sums: Sums) -> None:
        """Add the counts of each symbol, weighted by state."""
        V = len(self.family.symbols)
        for d, column in enumerate(self.family.symbol_indices(X).T):
            for k in range(gamma.shape[1]):
                sums["counts"][k, d] += np.bincount(column, gamma[:, k], minlength=V + 1)[:V]


@dataclass(frozen=True)
class MeanEmission:
    """Poisson counts or bits: families whose M step is the mean of the observed values."""

    name: str
    columns: int
    floor: float = FLOOR

    @classmethod
    def from_table(cls, name: str, X: Array, floor: float | None, names: list[str] | None) -> MeanEmission:
        """Return the family for a table (n, D).  Raises DataError for values that the family cannot emit."""
        hint = "for real numbers use --emission gaussian"
        if name == "poisson":
            require_emittable(X, lambda part: (part == np.round(part)) & (part >= 0), "and counts are whole numbers from 0", hint, names)
        else:
            require_emittable(X, lambda part: (part == 0) | (part == 1), "and bits are 0 or 1", hint, names)
        least = FLOOR if floor is None else floor
        if name == "bernoulli" and least >= 0.5:
            raise BadUsage(f"probabilities cannot be at least {least:g} and at most 1 − {least:g}", hint="use --floor below 0.5")
        return cls(name, X.shape[1], least)

    @property
    def parameter(self) -> str:
        """The name of the parameter, `rate` or `probability`."""
        return "rate" if self.name == "poisson" else "probability"

    def prepare_emission(self, parameters: Parameters) -> _PreparedMeanEmission:
        """Return the prepared emissions with rates or probabilities (K, D)."""
        return _PreparedMeanEmission(self, parameters[self.parameter])

    def zero_statistics(self, states: int) -> Sums:
        """Return zeros for Σ γ y, for Σ γ over the observed values, and for Σ log y! (1,)."""
        return {"values": np.zeros((states, self.columns)), "there": np.zeros((states, self.columns)), "base": np.zeros(1)}

    def complete_statistics(self, parameters: Parameters, sums: Sums) -> Sums:
        """Return the statistics unchanged."""
        return sums

    def expected_log_likelihood(self, parameters: Parameters, sums: Sums) -> float:
        """Return Σ γ log p, from the statistics."""
        mean, values, there = parameters[self.parameter], sums["values"], sums["there"]
        if self.name == "poisson":
            return weighted_log_sum(values, safe_log(mean)) - float((there * mean).sum()) - float(sums["base"][0])
        return weighted_log_sum(values, safe_log(mean)) + weighted_log_sum(there - values, safe_log(1.0 - mean))

    def maximise(self, parameters: Parameters, sums: Sums) -> tuple[Parameters, int]:
        """Return the means of the observed values."""
        values, there = sums["values"], sums["there"]
        used = there > 0
        mean = np.divide(values, there, out=parameters[self.parameter].copy(), where=used)
        high = np.inf if self.name == "poisson" else 1.0 - self.floor
        floors = int((used & ((mean < self.floor) | (mean > high))).sum())
        return {self.parameter: np.clip(mean, self.floor, high)}, floors

    def start(self, X: Array, weight: Array, state: Array, states: int, random: np.random.Generator) -> Parameters:
        """Return the means of each state's rows, moved a tenth of the way to the overall mean."""
        there = ~np.isnan(X)
        Y, w = np.where(there, X, 0.0), np.where(there, weight[:, None], 0.0)
        every = (w * Y).sum(axis=0) / np.maximum(w.sum(axis=0), np.finfo(float).tiny)
        own = (state == np.arange(states)[:, None]).astype(np.float64)
        many = own @ w
        mean = np.divide(own @ (w * Y), many, out=np.repeat(every[None], states, axis=0), where=many > 0)
        high = np.inf if self.name == "poisson" else 1.0 - max(self.floor, 1e-3)
        return {self.parameter: np.clip(0.9 * mean + 0.1 * every, max(self.floor, 1e-3), high)}

    def work_per_row(self, states: int) -> int:
        """Return the observed values, marks of them, their complements or log factorials, and log-likelihoods."""
        return 5 * self.columns + 3 * states

    def work_per_block(self) -> int:
        """Return 0: all of the work grows with the rows."""
        return 0

    def parameter_count(self, states: int) -> int:
        """Return the number of free parameters, K D."""
        return states * self.columns

    def sample_rows(self, parameters: Parameters, state: Array, random: np.random.Generator) -> Array:
        """Sample counts or bits."""
        mean = parameters[self.parameter][state]
        found = random.poisson(mean) if self.name == "poisson" else random.random(mean.shape) < mean
        return found.astype(np.float64)

    def single_state_family(self) -> MeanEmission:
        """Return the family itself."""
        return self


@dataclass(frozen=True)
class _PreparedMeanEmission:
    family: MeanEmission
    mean: Array

    def scaled_likelihoods(self, X: Array) -> ScaledLikelihoods:
        """Return the likelihoods scaled from their logarithms."""
        return scale_likelihoods(self.log_likelihoods(X))

    def log_likelihoods(self, X: Array) -> Array:
        """Return the log-likelihoods, as products of the rows with the natural parameters."""
        missing = np.isnan(X)
        Y = np.where(missing, 0.0, X)
        there = (~missing).astype(np.float64)
        if self.family.name == "poisson":
            # Σ over observed columns of y log λ − λ − log y!; a missing value is 0 in Y and in `there`, and adds nothing.
            found = Y @ safe_log(self.mean).T - there @ self.mean.T - scipy.special.gammaln(Y + 1.0).sum(axis=1)[:, None]
        else:
            found = Y @ safe_log(self.mean).T + (there - Y) @ safe_log(1.0 - self.mean).T
        return mark_impossible(found)

    def add(self, X: Array, gamma: Array, sums: Sums) -> None:
        """Add the weighted sums of the values."""
        missing = np.isnan(X)
        Y = np.where(missing, 0.0, X)
        sums["values"] += gamma.T @ Y
        sums["there"] += gamma.T @ (~missing).astype(np.float64)
        if self.family.name == "poisson":
            sums["base"] += gamma.sum(axis=1) @ scipy.special.gammaln(Y + 1.0).sum(axis=1)


def _format_symbols(symbols: Array) -> str:
    shown = ", ".join(str(symbol) for symbol in symbols[:8])
    return shown if len(symbols) <= 8 else f"{shown} … {symbols[-1]}"
