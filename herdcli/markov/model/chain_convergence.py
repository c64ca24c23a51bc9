"""How far the means of chains can be off, and whether the chains have met: from what independent ones differ by.

Chains that never meet (or pairs of them that exchange parts) give independent means.  The variance of their mean is that between them over
their number; with few of them that is a rough estimate, which halves, quarters … of each make finer, as long as these are as good as
independent.  They are not where a chain mixes slowly, and then say too little; so the largest of the estimates is told.
Source: Gelman et al. (2013), sec. 11.4, and Vehtari et al. (2021) for R̂ of halves; Geyer (1992) for batches.
"""

from __future__ import annotations

import math

import numpy as np

from herdcli.records import dataclass
from herdcli.schema import Array

RHAT = 1.05  # of a run that has converged
UNSEEN = 0.5  # of one effective draw: how likely a part of the states can be that none of them has shown


def standard_errors(means: Array) -> Array:
    """(S,) standard errors of the means of S numbers, from those of the batches of each independent chain (batches, S, chains)."""
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
    """√(((n−1)/n·W + B/n)/W) of shares (states, half runs) of n sweeps each; 1 for states that never changed in any.

    stuck: chains began at one state, so what has never changed may only never have been left, and has ∞.
    """
    # A state is there or not, so a half run with share p has a sample variance of n/(n − 1) p (1 − p).
    within = (halves * (1 - halves)).mean(axis=1) * n / max(1, n - 1)
    between = halves.var(axis=1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt((n - 1) / n + between / within)
    return np.where(within > 0, ratio, np.where((between > 0) | stuck, np.inf, 1.0))


@dataclass
class EnergySums:
    """Logs of the product of the factors, (chains,) a sweep, less that of the first one: sums of them and of their squares, by half.

    sums (2, 2, chains).
    """

    sums: Array
    level: float

    def add(self, height: Array, kept: int, half: int) -> None:
        """Those of a sweep, the kept-th of the run."""
        if kept == 0:
            self.level = float(height[0])
        self.sums[half] += np.stack([height - self.level, (height - self.level) ** 2])

    def rhat(self, n: int) -> float:
        """R̂ of half runs of n sweeps; 1 where it never changed."""
        mean, square = (np.concatenate(list(self.sums[:, k])) / n for k in (0, 1))
        within = float((square - mean**2).mean()) * n / max(1, n - 1)
        between = float(mean.var(ddof=1))
        if within <= 1e-12 * float(square.max(initial=0.0)):
            return 1.0 if between <= within else math.inf
        return math.sqrt((n - 1) / n + between / within)


def empty_energy_sums(chains: int) -> EnergySums:
    """Of no sweep yet."""
    return EnergySums(np.zeros((2, 2, chains)), 0.0)


def effective_draws(worst: float, runs: int, sweeps: int) -> float:
    """Independent draws that `runs` half runs of so many sweeps with a largest R̂ of `worst` are worth: of n of them R̂² is 1 + runs/n.

    They are no more than were drawn, also where R̂ is 1 because nothing was ever seen to change.
    """
    return runs / max(worst * worst - 1, 1 / max(1, sweeps))


def errors_with_unseen(error: Array, draws: float) -> Array:
    """Standard errors with what so many effective draws may not have shown at all."""
    return np.minimum(np.hypot(error, UNSEEN / max(1.0, draws)), 0.5)
