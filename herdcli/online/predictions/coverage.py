"""Adaptive conformal prediction: sets that hold the truth of a wanted share of examples in the long run, whatever the stream does.

A set has every answer whose nonconformity s is at most a quantile of the scores of late.  Where a set missed, the level of the next
quantile moves up, else down.  Source: Gibbs & Candès, "Adaptive conformal inference under distribution shift", NeurIPS 2021.
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
RECENT = 2_000  # scores that quantiles are of
LEVEL, ALPHA, EXAMPLES, COVERED, SIZE, UNBOUNDED = range(6)  # places in a learner's tally


@dataclass(frozen=True)
class Coverage:
    """How well prediction sets covered a stream, and what those of new examples are made by.

    level     wanted share of examples whose set holds the truth, 1 − α.   rate  γ.   alpha  α_t, where the stream ended.
    size      sum of the classes in the sets, or of the widths of the intervals that have two ends.
    unbounded sets of all classes, or intervals without ends.
    threshold largest nonconformity in a set of `herd apply`, by `calibrated` scores; ∞ where they are too few.
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
    def reached(self) -> float:
        """Share of the stream's examples whose set held the truth."""
        return self.covered / max(self.examples, 1)

    def mean_size(self, *, numbers: bool) -> float | None:
        """Classes in a set, or the width of an interval that has two ends; None where there was none."""
        count = self.examples - (self.unbounded if numbers else 0)
        return self.size / count if count else None

    def validate(self) -> None:
        """Raise DataError unless all numbers are possible."""
        counts = (self.examples, self.covered, self.unbounded, self.calibrated)
        beyond = abs(self.alpha - 0.5) - 0.5  # at most γ, but for rounding
        if not 0 < self.level < 1 or not 0 < self.rate < 1 or not beyond <= self.rate + 1e-6 or not 0 <= self.size < inf:
            raise DataError("coverage: level, rate, alpha or size is outside its range")
        if min(counts) < 0 or max(self.covered, self.unbounded) > self.examples or np.isnan(self.threshold):
            raise DataError("coverage: its counts contradict each other, or its threshold is not a number")
        if self.recent is not None and not np.isfinite(self.recent).all():
            raise DataError("dataset 'coverage/recent' has values that are not finite")


def quantile_rank(count: int, alpha: float) -> int:
    """Which of `count` scores in order, from 1, a new one exceeds with probability α at most; 0: none does, count + 1: ∞ is needed."""
    # With n scores and a new one exchangeable, its rank among n + 1 is uniform: P(rank ≤ k) = k/(n + 1) ≥ 1 − α at k = ⌈(n + 1)(1 − α)⌉.
    # 1e−9 keeps a product that is whole but for rounding.
    return min(max(ceil((count + 1) * (1.0 - alpha) - 1e-9), 0), count + 1)


def set_threshold(scores: Array, alpha: float) -> float:
    """The nonconformity (n,) that sets of miscoverage α go up to; ∞ where n is too small, −∞ where they are empty."""
    place = quantile_rank(len(scores), alpha)
    return inf if place > len(scores) else -inf if place == 0 else float(np.partition(scores, place - 1)[place - 1])


def adapt_thresholds(tally: Array, recent: Array, own: Array, rate: float = RATE) -> tuple[Array, Array]:
    """The thresholds (n,) of a stream's next examples, each by those before it, and the recent scores (w,) behind them.

    tally  its α_t moves on.   own (n,)  nonconformity of the true answers.
    """
    alpha, wanted = float(tally[ALPHA]), 1.0 - float(tally[LEVEL])
    late, order = deque(recent.tolist()), sorted(recent.tolist())
    found = np.empty(len(own))
    for t, score in enumerate(own.tolist()):
        place = quantile_rank(len(order), alpha)
        found[t] = bound = inf if place > len(order) else -inf if place == 0 else order[place - 1]
        # α_{t+1} = α_t + γ(α − err_t), (2) of the paper.  α_t stays within [−γ, 1 + γ], as beyond 0 and 1 sets hold all or nothing; summed
        # over t, |mean err − α| = |α_{T+1} − α_1|/(γT) ≤ (max(α_1, 1 − α_1) + γ)/(γT), for any stream (Proposition 4.1).
        alpha += rate * (wanted - (score > bound))
        late.append(score)
        insort(order, score)
        if len(late) > RECENT:
            del order[bisect_left(order, late.popleft())]
    tally[ALPHA] = alpha
    return found, np.array(late)
