"""Estimates of log Z and the criteria of their reliability: enough effective chains, and agreement between runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from herdcli.numerics import exact_arithmetic
from herdcli.records import dataclass

STUDENT = 2.3646  # 97.5 % point of Student's t with smc.POPULATIONS − 1 degrees of freedom
LEAST_EFFECTIVE = 20.0  # an estimate is reliable only with at least this many effective chains
AGREED = 0.1  # successive runs agree if they differ by at most this many nats beyond their errors
NARROW = 0.15  # no longer run is made if the standard error is at most this many nats


@dataclass(frozen=True)
class LogZEstimate:
    """An estimate of log Z in nats with its standard error.

    effective, temperatures  the effective number of chains and the number of temperatures; None if log Z is exact.
    """

    log_partition: float
    standard_error: float
    effective: float | None = None
    temperatures: int | None = None
    reliable: bool = True


def runs_agree(first: LogZEstimate, second: LogZEstimate) -> bool:
    """Return whether two runs differ by at most their 95 % intervals and AGREED."""
    allowed = AGREED + STUDENT * float(exact_arithmetic.hypot(first.standard_error, second.standard_error))
    return abs(first.log_partition - second.log_partition) <= allowed


def is_last_run_reliable(runs: Sequence[LogZEstimate], bound: float = -math.inf) -> bool:
    """Return whether the last run is reliable.

    It is if enough of its chains are effective, it agrees with the run before, and log Z is not below a known bound.
    """
    last = runs[-1]
    above = last.log_partition + STUDENT * last.standard_error + AGREED >= bound
    return has_enough_chains(last) and above and all(runs_agree(*pair) for pair in pairwise(runs[-2:]))


def has_converged(runs: Sequence[LogZEstimate], bound: float = -math.inf) -> bool:
    """Return whether no longer run is needed."""
    return is_last_run_reliable(runs, bound) and runs[-1].standard_error <= NARROW


def has_enough_chains(run: LogZEstimate) -> bool:
    """Return whether enough chains are effective."""
    return (run.effective or 0.0) >= LEAST_EFFECTIVE


def single_run_estimate(run: LogZEstimate) -> LogZEstimate:
    """Return the estimate of a single run, which is reliable if enough chains are effective."""
    return replace(run, reliable=has_enough_chains(run))


def widen_if_unreliable(last: LogZEstimate, others: Sequence[LogZEstimate], reliable: bool) -> LogZEstimate:
    """Return the last estimate; if it is not reliable, its interval is widened to include the other estimates."""
    # An interval of STUDENT times this error reaches as far as the others.
    drift = 0.0 if reliable else max((abs(last.log_partition - other.log_partition) for other in others), default=0.0) / STUDENT
    return replace(last, standard_error=max(last.standard_error, drift), reliable=reliable)
