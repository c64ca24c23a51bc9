"""Adaptive conformal prediction: sets that contain the truth for a given share of examples in the long run, for any stream.

A set has every answer whose nonconformity s is at most a quantile of recent scores.  After a set that missed, the level of the next
quantile rises, else it falls.  Source: Gibbs & Candès, "Adaptive conformal inference under distribution shift", NeurIPS 2021.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from math import ceil, inf

import numpy as np

from herdcli.errors import DataError
from herdcli.records import dataclass
from herdcli.schema import Array, array

RATE = 0.005  # γ, the paper's
RECENT = 2_000  # number of scores from which quantiles are computed
LEVEL, ALPHA, EXAMPLES, COVERED, SIZE, UNBOUNDED = range(6)  # indices in a learner's tally


@dataclass(frozen=True)
class Coverage:
    """The coverage of prediction sets over a stream, and the threshold for sets of new examples.

    level     target share of examples whose set contains the truth, 1 − α.   rate  γ.   alpha  α_t at the end of the stream.
    size      total number of classes in the sets, or total width of the bounded intervals.
    unbounded number of sets of all classes, or of unbounded intervals.
    threshold largest nonconformity in a set of `herd apply`, from `calibrated` scores; ∞ if they are too few.
    """

    level: float
    rate: float = RATE
    alpha: float = 0.0
    examples: int = 0
    covered: int = 0
    size: float = 0.0
    unbounded: int = 0
    threshold: float = inf
    calibrated: int = 0
    recent: Array | None = array("w", "the last nonconformity scores, with which a continued stream starts", kind="f", optional=True)

    @property
    def share_covered(self) -> float:
        """The share of the stream's examples whose set contained the truth."""
        return self.covered / max(self.examples, 1)

    def mean_size(self, *, numbers: bool) -> float | None:
        """Return the mean number of classes in a set, or mean width of a bounded interval; None if there was none."""
        count = self.examples - (self.unbounded if numbers else 0)
        return self.size / count if count else None

    def validate(self) -> None:
        """Raise DataError unless all numbers are valid."""
        counts = (self.examples, self.covered, self.unbounded, self.calibrated)
        beyond = abs(self.alpha - 0.5) - 0.5  # at most γ, up to rounding
        if not 0 < self.level < 1 or not 0 < self.rate < 1 or not beyond <= self.rate + 1e-6 or not 0 <= self.size < inf:
            raise DataError("coverage: level, rate, alpha or size is outside its range")
        if min(counts) < 0 or max(self.covered, self.unbounded) > self.examples or np.isnan(self.threshold):
            raise DataError("coverage: its counts contradict each other, or its threshold is not a number")
        if self.recent is not None and not np.isfinite(self.recent).all():
            raise DataError("dataset 'coverage/recent' has values that are not finite")


def quantile_rank(count: int, alpha: float) -> int:
    """Return the rank, from 1, of the score among `count` that a new one exceeds with probability at most α.

    0 means that sets are empty, count + 1 that the threshold is ∞.
    """
    # With n scores and a new one exchangeable, its rank among n + 1 is uniform: P(rank ≤ k) = k/(n + 1) ≥ 1 − α at k = ⌈(n + 1)(1 − α)⌉.
    # 1e−9 protects a product that is whole up to rounding.
    return min(max(ceil((count + 1) * (1.0 - alpha) - 1e-9), 0), count + 1)


def prediction_set_threshold(scores: Array, alpha: float) -> float:
    """Return the largest nonconformity in sets with miscoverage α, from scores (n,); ∞ if n is too small, −∞ for empty sets."""
    place = quantile_rank(len(scores), alpha)
    return inf if place > len(scores) else -inf if place == 0 else float(np.partition(scores, place - 1)[place - 1])


def adapt_thresholds(tally: Array, recent: Array, scores: Array, rate: float = RATE) -> tuple[Array, Array]:
    """Return the thresholds (n,) of a stream's next examples, each from those before it, and the recent scores (w,) used.

    tally  its α_t is updated.   own (n,)  nonconformity of the true answers.
    """
    alpha, wanted = float(tally[ALPHA]), 1.0 - float(tally[LEVEL])
    late, order = deque(recent.tolist()), sorted(recent.tolist())
    found = np.empty(len(scores))
    for t, score in enumerate(scores.tolist()):
        place = quantile_rank(len(order), alpha)
        found[t] = bound = inf if place > len(order) else -inf if place == 0 else order[place - 1]
        # α_{t+1} = α_t + γ(α − err_t), (2) of the paper.  α_t stays within [−γ, 1 + γ], as beyond 0 and 1 sets have all or nothing; summed
        # over t, |mean err − α| = |α_{T+1} − α_1|/(γT) ≤ (max(α_1, 1 − α_1) + γ)/(γT), for any stream (Proposition 4.1).
        alpha += rate * (wanted - (score > bound))
        late.append(score)
        insort(order, score)
        if len(late) > RECENT:
            del order[bisect_left(order, late.popleft())]
    tally[ALPHA] = alpha
    return found, np.array(late)
