"""Whether whole numbers in a target are counts or names of classes."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, xlogy

from herdcli.schema import Array

CLASS_NAMES = ("label", "labels", "class", "classes")  # columns whose numbers are names, whatever they look like
LARGEST = 10_000  # number that is taken for a count
NEAR = 0.1  # of the mean, that the least count may be from 0
LEAST_VALUES = 4  # different ones, below which whole numbers are names of classes


def is_whole(y: Array) -> bool:
    """Whether all values are whole numbers, none below 0."""
    return bool((y >= 0).all() and (y == np.floor(y)).all())


def may_be_counts(y: Array) -> bool:
    """Whether whole numbers (n,) begin near 0 and have several values of which the largest is rare."""
    if not is_whole(y) or y.max() > LARGEST or y.min() > max(1.0, NEAR * float(y.mean())):
        return False
    frequency = np.bincount(y.astype(np.int64))
    return bool(np.count_nonzero(frequency) >= LEAST_VALUES and 2 * frequency[-1] <= frequency.max())


def are_counts(y: Array) -> bool:
    """Whether whole numbers (n,) from 0 on look like counts: a law of counts describes them better than a share for each number.

    The law is the negative binomial of their mean and variance, or Poisson's where they vary no more than that.  BIC decides, so that the
    number of shares counts; codes of classes lack the tail that every law of counts has.
    """
    if not may_be_counts(y) or y.min() > 0:
        return False
    frequency = np.bincount(y.astype(np.int64))
    values = np.flatnonzero(frequency)
    n, there = len(y), frequency[values]
    shares = (there * np.log(there / n)).sum()
    law, parameters = _log_law(values.astype(np.float64), float(y.mean()), float(y.var()))
    return bool(-2 * (there @ law) + parameters * np.log(n) < -2 * shares + (len(values) - 1) * np.log(n))


def _log_law(k: Array, mean: float, variance: float) -> tuple[Array, int]:
    """The log-probabilities (m,) of counts (m,) under the law of a mean and a variance, and how many parameters it has."""
    if variance <= mean * (1 + 1e-9):
        return k * np.log(mean) - mean - gammaln(k + 1), 1
    size = mean * mean / (variance - mean)
    share = size / (size + mean)
    found: Array = gammaln(k + size) - gammaln(size) - gammaln(k + 1) + size * np.log(share) + xlogy(k, 1 - share)
    return found, 2
