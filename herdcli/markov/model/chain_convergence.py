"""Standard errors of the means of Markov chains and tests of convergence, estimated from differences between independent chains.

Chains that do not exchange states (or pairs of chains that do) give independent means.  The variance of the overall mean is the
variance between these means, divided by their number.  With few chains this is a rough estimate.  Halves, quarters … of each chain
give finer estimates if they are nearly independent.  If a chain mixes slowly they are not, and the estimate is too small;
so the largest of all estimates is returned.
Source: Gelman et al. (2013), sec. 11.4, and Vehtari et al. (2021) for R̂ of halves; Geyer (1992) for batches.
"""

from __future__ import annotations

import math

import numpy as np

from herdcli.records import dataclass
from herdcli.schema import Array

RHAT = 1.05  # largest R̂ of a run that has converged
UNSEEN = 0.5  # probability, at one effective draw, that a part of the states was never sampled


def batch_means_errors(means: Array) -> Array:
    """Return standard errors (S,) of the means of S numbers, given the batch means of each independent chain (batches, S, chains)."""
    found = []
    while True:
        count = means.shape[0] * means.shape[2]
        found.append(means.transpose(1, 0, 2).reshape(means.shape[1], count).var(axis=1, ddof=1) / count)
        if means.shape[0] % 2:
            break
        means = (means[::2] + means[1::2]) / 2
    made: Array = np.sqrt(np.max(found, axis=0))
    return made


def split_rhat(halves: Array, n: int, *, stuck: bool = False) -> Array:
    """Return R̂ = √(((n−1)/n·W + B/n)/W) for shares (states, half runs) of n sweeps each.

    States that never changed in any half run have 1.

    stuck  True if all chains began at the same state; states that never changed then have ∞, because no chain may ever have left them.
    """
    # A state is occupied or not, so a half run with share p has a sample variance of n/(n − 1) p (1 − p).
    within = (halves * (1 - halves)).mean(axis=1) * n / max(1, n - 1)
    between = halves.var(axis=1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt((n - 1) / n + between / within)
    return np.where(within > 0, ratio, np.where((between > 0) | stuck, np.inf, 1.0))


@dataclass
class EnergySums:
    """Sums and sums of squares of the log of the product of all factors, (chains,) per sweep, for each half of the run.

    The value of the first sweep, `level`, is subtracted before.  sums  (2, 2, chains).
    """

    sums: Array
    level: float

    def add(self, log_values: Array, sweep: int, half: int) -> None:
        """Add the values of one sweep.

        sweep  index of the sweep in the run.
        """
        if sweep == 0:
            self.level = float(log_values[0])
        self.sums[half] += np.stack([log_values - self.level, (log_values - self.level) ** 2])

    def rhat(self, n: int) -> float:
        """Return R̂ of half runs of n sweeps; 1 if the value never changed."""
        mean, square = (np.concatenate(list(self.sums[:, k])) / n for k in (0, 1))
        within = float((square - mean**2).mean()) * n / max(1, n - 1)
        between = float(mean.var(ddof=1))
        if within <= 1e-12 * float(square.max(initial=0.0)):
            return 1.0 if between <= within else math.inf
        return math.sqrt((n - 1) / n + between / within)


def empty_energy_sums(chains: int) -> EnergySums:
    """Return sums over no sweeps."""
    return EnergySums(np.zeros((2, 2, chains)), 0.0)


def effective_draws(largest_rhat: float, runs: int, sweeps: int) -> float:
    """Return the number of independent draws that `runs` half runs of `sweeps` sweeps are worth, given their largest R̂, `largest_rhat`.

    For n independent draws R̂² is 1 + runs/n.  The result is at most the number of draws, even if R̂ is 1 because no state ever changed.
    """
    return runs / max(largest_rhat * largest_rhat - 1, 1 / max(1, sweeps))


def widen_for_unseen_states(error: Array, draws: float) -> Array:
    """Return standard errors that take into account states which this number of effective draws may never have visited."""
    return np.minimum(np.hypot(error, UNSEEN / max(1.0, draws)), 0.5)
