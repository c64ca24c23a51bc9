"""Estimates of log Z, and what makes one that can be relied on: enough chains that count, and runs that agree with each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from herdcli.numerics import exact_arithmetic
from herdcli.records import dataclass

STUDENT = 2.3646  # 97.5 % point of Student's t with smc.POPULATIONS − 1 degrees of freedom
LEAST_EFFECTIVE = 20.0  # chains without which an estimate is not relied on
AGREED = 0.1  # nats that successive runs may differ by beyond their errors
NARROW = 0.15  # nats: standard error below which runs are not made longer


@dataclass(frozen=True)
class LogZEstimate:
    """log Z in nats and its standard error; the effective number of chains and the temperatures it came from, None if exact."""

    log_partition: float
    standard_error: float
    effective: float | None = None
    temperatures: int | None = None
    reliable: bool = True


def runs_agree(one: LogZEstimate, other: LogZEstimate) -> bool:
    """Whether two runs differ by no more than their 95 % intervals and AGREED."""
    allowed = AGREED + STUDENT * float(exact_arithmetic.hypot(one.standard_error, other.standard_error))
    return abs(one.log_partition - other.log_partition) <= allowed


def is_sound(runs: Sequence[LogZEstimate], bound: float = -math.inf) -> bool:
    """Enough chains count in the last run, it agrees with the one before, and log Z is not below a bound that is known."""
    last = runs[-1]
    above = last.log_partition + STUDENT * last.standard_error + AGREED >= bound
    return has_enough_chains(last) and above and all(runs_agree(*pair) for pair in pairwise(runs[-2:]))


def is_settled(runs: Sequence[LogZEstimate], bound: float = -math.inf) -> bool:
    """Whether runs need not be made longer."""
    return is_sound(runs, bound) and runs[-1].standard_error <= NARROW


def has_enough_chains(one: LogZEstimate) -> bool:
    """Whether enough chains count."""
    return (one.effective or 0.0) >= LEAST_EFFECTIVE


def single_run_estimate(one: LogZEstimate) -> LogZEstimate:
    """The estimate of a single run, reliable if enough chains count."""
    return replace(one, reliable=has_enough_chains(one))


def widened_estimate(last: LogZEstimate, others: Sequence[LogZEstimate], reliable: bool) -> LogZEstimate:
    """An estimate that, where it is not reliable, has an interval that reaches to what others say."""
    # An interval of STUDENT times this reaches as far as the others.
    drift = 0.0 if reliable else max((abs(last.log_partition - other.log_partition) for other in others), default=0.0) / STUDENT
    return replace(last, standard_error=max(last.standard_error, drift), reliable=reliable)
