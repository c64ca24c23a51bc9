"""Sequential Monte Carlo: rows with weights that are resampled when the weights spread, in independent populations that are pooled.

Rows walk through distributions f_0, f_1, … .  In each step their weights are multiplied by the ratio of two neighbours.  When the
effective number of rows of a population falls below half, its rows are resampled in proportion to their weights.  A sweep that leaves
the new distribution invariant follows.  Each population's product of mean weights is an unbiased estimate of the ratio of the last
and the first normaliser.  Populations share nothing, so that their differences measure the error, whatever its cause.
A pilot run chooses the steps: all have the same conditional effective sample size.
Source: Del Moral, Doucet & Jasra (2006), sec. 3; Zhou, Johansen & Aston (2016), sec. 3.3 (conditional ESS); Kitagawa (1996).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.records import dataclass
from herdcli.schema import Array

POPULATIONS = 8
WIDER = 1.5  # factor of the standard error for the skew of the populations' estimates: scripts/checks/likelihood.py
CONDITIONAL = 0.95  # share of effective rows that a step of a pilot keeps
PILOT_ROWS = 64
FEWEST, PILOT_MOST = 50, 2000  # least number of steps of the first run, and most steps of a pilot


class PathWalker(Protocol):
    """Rows on a path of distributions; a position on the path is a number."""

    def gains(self, before: float, after: float) -> Array:
        """Return the growth of the log weights between two positions, (n,) float64."""
        ...

    def select(self, row_indices: Array) -> None:
        """Resample the rows: row i becomes a copy of row places[i], places (n,)."""
        ...

    def sweep(self, position: float, draws: np.random.Generator) -> None:
        """Apply a move that leaves the distribution at a position invariant."""
        ...


@dataclass
class ParticlePopulation:
    """The rows of one population, with weights and ancestors; its arrays are changed in place.

    log_weights  (n,) since the last resampling;  log_mean  (), the log of the mean weights until then.
    ancestors    (n,), the first row that each row descends from.
    """

    walk: PathWalker
    log_weights: Array
    log_mean: Array
    ancestors: Array

    @classmethod
    def with_equal_weights(cls, walk: PathWalker, rows: int) -> ParticlePopulation:
        """Make a population of `rows` rows of equal weight."""
        return cls(walk, np.zeros(rows), np.zeros(()), np.arange(rows))

    def reweight_and_sweep(self, before: float, after: float, draws: np.random.Generator) -> None:
        """Weight the rows by a step, resample them if fewer than half are effective, and apply a sweep."""
        self.log_weights += self.walk.gains(before, after)
        places = resample_if_needed(self.log_weights, self.log_mean, draws)
        if places is not None:
            self.walk.select(places)
            self.ancestors[...] = self.ancestors[places]
        self.walk.sweep(after, draws)

    def find_next_position(self, before: float, limit: float) -> float:
        """Find by bisection the largest position up to `limit` to which a step from `before` keeps the conditional effective sample
        size."""

        def kept(after: float) -> bool:
            # (Σ Wg)² / Σ Wg² with Σ W = 1 is 1 if all g are equal: it is the effect of this step alone on the weights.
            growth = self.walk.gains(before, after)
            share = exact_arithmetic.exp(self.log_weights - exact_arithmetic.log_sum_exp(self.log_weights))
            growth = exact_arithmetic.exp(growth - growth.max())
            return bool(
                exact_arithmetic.integer_power(exact_arithmetic.matrix_product(share, growth), 2)
                >= CONDITIONAL * exact_arithmetic.matrix_product(share, np.square(growth))
            )

        if kept(limit):
            return limit
        low, high = before, limit
        for _ in range(12):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if kept(middle) else (low, middle)
        return low if low > before else high


def choose_positions(
    population: ParticlePopulation, last: float, draws: np.random.Generator, step: Callable[[ParticlePopulation, float], float]
) -> Array:
    """Choose positions (T + 1,) from 0 to the last; each is the result of `step` for the population and the position before."""
    places = [0.0]
    while places[-1] < last and len(places) <= PILOT_MOST:
        after = step(population, places[-1])
        population.reweight_and_sweep(places[-1], after, draws)
        places.append(after)
    return np.array([*places[:-1], last])


def refine_positions(positions: Array, level: int) -> Array:
    """Return positions with 2^level times as many steps as (t,) (at least FEWEST · 2^level), spaced like the pilot's."""
    count = max(len(positions) - 1, FEWEST) << level
    finer: Array = np.interp(np.linspace(0.0, len(positions) - 1.0, count + 1), np.arange(len(positions)), positions)
    return finer


def effective_sample_size(log_weights: Array) -> float:
    """Compute (Σ w)² / Σ w² of log weights (n,), a number from 1 to n."""
    weights = exact_arithmetic.exp(log_weights - log_weights.max())
    return float(exact_arithmetic.integer_power(weights.sum(), 2) / np.square(weights).sum())


def resample_if_needed(log_weights: Array, log_mean: Array, draws: np.random.Generator) -> Array | None:
    """Resample rows in place if fewer than half of them are effective; returns their indices (n,), else None.

    After resampling, the log weights (n,) are zero and log_mean, (), has grown by the log of their mean: both in place.
    """
    if effective_sample_size(log_weights) >= 0.5 * len(log_weights):
        return None
    places = draw_systematic_indices(log_weights, draws)
    log_mean += exact_arithmetic.log_sum_exp(log_weights) - exact_arithmetic.log(len(log_weights))
    log_weights.fill(0.0)
    return places


def draw_systematic_indices(log_weights: Array, draws: np.random.Generator) -> Array:
    """Sample indices (n,) in proportion to the weights, by systematic resampling."""
    share = np.cumsum(exact_arithmetic.exp(log_weights - log_weights.max()))
    # The points are 1/n apart: a row of share p is drawn ⌊np⌋ or ⌈np⌉ times, n p on average (Kitagawa 1996).
    at = (np.arange(len(share)) + draws.random()) / len(share)
    places: Array = np.searchsorted(share / share[-1], at)  # at ≤ 1, which is the last share
    return places


def pool_log_estimates(log_estimates: Array) -> tuple[float, float]:
    """Return the log of the mean of the populations' estimates of Z, whose logs are (P,), and its standard error."""
    top = log_estimates.max()
    shares = exact_arithmetic.exp(log_estimates - top)
    return float(top + exact_arithmetic.log(shares.mean())), log_mean_standard_error(shares)


def log_mean_standard_error(estimates: Array) -> float:
    """Compute the standard error of the log of the mean of the populations' independent estimates (P,), by the delta method."""
    return WIDER * float(estimates.std(ddof=1) / estimates.mean() / np.sqrt(len(estimates)))
