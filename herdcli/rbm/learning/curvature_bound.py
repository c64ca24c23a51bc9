"""How steep the log-likelihood of a harmonium can be: the largest eigenvalue of its rows' covariance, of words the square of their number.

The Fisher matrix of the weights of one hidden unit is, where units do not depend on each other, Cov(v) times the variance of the unit, so
that the largest eigenvalue λ of Cov(v) says how fast a direction of the weights can be followed.  On most rows it is a few units; on
patches of pictures, whose pixels are bright or dark together, most of the trace.
Source: Montavon & Müller (2012), sec. 2, the condition of the centred Hessian.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.schema import Array

MOST_ROWS, MOST_ENTRIES = 1000, 1 << 22  # that it is seen in, evenly spread
ITERATIONS = 20
COMMON = 3.0  # what the squared length of the mean row of counts of words weighs beside the number of words


def largest_moment(rows: Any) -> float:
    """The largest eigenvalue of the covariance of rows (n, D), in their units squared, by the power method on at most MOST_ROWS of them.

    rows  anything of a length and a shape that gives the rows of an array of numbers; 0 where all are the same or there are none.
    """
    if not len(rows):
        return 0.0
    most = max(1, min(MOST_ROWS, MOST_ENTRIES // max(1, rows.shape[1])))
    chosen = np.arange(0, len(rows), max(1, -(-len(rows) // most)))
    seen: Array = np.asarray(rows[chosen], dtype=np.float32)
    seen = seen - seen.mean(axis=0)
    lengths = np.square(seen).sum(axis=1)
    direction, found = seen[int(lengths.argmax())], 0.0
    for _ in range(ITERATIONS):
        size = float(np.sqrt(exact_arithmetic.dot(direction, direction)))
        if not size > 0.0:
            return 0.0
        direction = direction / np.float32(size)
        direction = exact_arithmetic.product(exact_arithmetic.product(seen, direction), seen) / np.float32(len(seen))
        found = float(np.sqrt(exact_arithmetic.dot(direction, direction)))
    return found


def mean_squared_total(rows: Any) -> float:
    """The mean of (Σ_j v_j)² over rows (n, D) of counts, an array or a CSR matrix; 0 where there are none."""
    lengths = np.asarray(rows.sum(axis=1), dtype=np.float64).ravel()
    return float(np.square(lengths).mean()) if lengths.size else 0.0


def count_shift(rows: Any) -> float:
    """By how much, about, an update at the rate 1 shifts what rows (n, D) of counts, an array or a CSR matrix, give a hidden unit.

    The larger of the root mean square of their numbers of words, of what is a row's own, and of COMMON |v̄|², of the mean row v̄: noise
    along it moves all rows' inputs together, and units that are on, or off, for all rows learn no more.  0 where there are none.
    """
    if not rows.shape[0]:
        return 0.0
    mean = np.asarray(rows.sum(axis=0), dtype=np.float64).ravel() / rows.shape[0]
    return max(float(np.sqrt(mean_squared_total(rows))), COMMON * float(exact_arithmetic.dot(mean, mean)))
