"""Detection of counts: whether whole numbers in a target are counts or codes of classes."""

from __future__ import annotations

import numpy as np
from scipy.special import fdtrc, gammaln, xlogy

from herdcli.schema import Array

CLASS_NAMES = ("label", "labels", "class", "classes")  # columns whose numbers are classes, whatever they look like
LARGEST = 10_000  # largest number that is accepted as a count
NEAR = 0.1  # largest distance of the least count from 0, relative to the mean
LEAST_VALUES = 4  # whole numbers with fewer distinct values than this are codes of classes
SIZES = (*np.geomspace(0.1, 100.0, 13).tolist(), np.inf)  # sizes of negative binomials that are tried if there is an excess of zeros
BISECTIONS = 50  # halvings of the range of a mean
LEVEL = 0.05  # level of the test that columns follow the order of the numbers


def are_nonnegative_integers(y: Array) -> bool:
    """Return whether all values are non-negative whole numbers."""
    return bool((y >= 0).all() and (y == np.floor(y)).all())


def may_be_counts(y: Array) -> bool:
    """Return whether whole numbers (n,) begin near 0 and have several values of which the largest is rare."""
    if not are_nonnegative_integers(y) or y.max() > LARGEST or y.min() > max(1.0, NEAR * float(y.mean())):
        return False
    frequency = np.bincount(y.astype(np.int64))
    return bool(np.count_nonzero(frequency) >= LEAST_VALUES and 2 * frequency[-1] <= frequency.max())


def look_like_counts(y: Array) -> bool:
    """Return whether whole numbers (n,) from 0 look like counts: a count distribution fits better than a probability per number.

    The count distribution is the negative binomial of their mean and variance, or Poisson's if they vary no more than that; or one with an
    excess of zeros, if the most frequent number above 0 is not 1.  BIC decides, so that the number of probabilities matters; codes of
    classes lack the tail that every count distribution has.
    """
    if not may_be_counts(y) or y.min() > 0:
        return False
    frequency = np.bincount(y.astype(np.int64))
    values = np.flatnonzero(frequency)
    n, there = len(y), frequency[values]
    shares = (there * np.log(there / n)).sum()
    mean, variance = float(y.mean()), float(y.var())
    varies = variance > mean * (1 + 1e-9)
    law = _log_count_probabilities(values.astype(np.float64), mean, mean * mean / (variance - mean) if varies else np.inf)
    criterion = -2 * (there @ law) + (2 if varies else 1) * np.log(n)
    # Codes in the order of frequencies fall from the first on, as counts with an excess of zeros may, but counts often have a peak above 0.
    if frequency[1:].argmax() > 0:
        criterion = min(criterion, _zero_inflated_bic(values[1:].astype(np.float64), there[1:], int(there[0])))
    return bool(criterion < -2 * shares + (len(values) - 1) * np.log(n))


def _log_count_probabilities(k: Array, mean: float, size: float) -> Array:
    """Return log-probabilities (m,) of counts (m,) under the negative binomial of this mean and size r, Poisson's if r is infinite.

    The variance is mean + mean²/r.
    """
    if np.isinf(size):
        return np.asarray(k * np.log(mean) - mean - gammaln(k + 1))
    share = size / (size + mean)
    return np.asarray(gammaln(k + size) - gammaln(size) - gammaln(k + 1) + size * np.log(share) + xlogy(k, 1 - share))


def _zero_inflated_bic(k: Array, multiplicities: Array, zeros: int) -> float:
    """Return the BIC of counts k (m,) above 0, each `multiplicities` (m,) times, and more zeros than their distribution has; inf if there
    are fewer.

    For each size, the truncated negative binomial is an exponential family, whose maximum of likelihood has the mean of the counts.
    Source: Mullahy (1986), hurdle models.
    """
    above, least = float(multiplicities.sum()), np.inf
    n, goal = above + zeros, float(multiplicities @ k) / above
    for size in SIZES:
        low, high = np.log(goal) - 20.0, np.log(goal)
        for _ in range(BISECTIONS):
            mean = float(np.exp(0.5 * (low + high)))
            none = float(np.exp(_log_count_probabilities(np.zeros(1), mean, size)[0]))
            low, high = (low, 0.5 * (low + high)) if mean > goal * (1.0 - none) else (0.5 * (low + high), high)
        if zeros >= none * n:
            likelihood = multiplicities @ (_log_count_probabilities(k, mean, size) - np.log1p(-none))
            least = min(least, -2 * likelihood + (2 if np.isinf(size) else 3) * np.log(n))
    return float(least - 2 * (xlogy(zeros, zeros / n) + above * np.log(above / n)))


def contradicts_count_order(X: Array, y: Array) -> bool:
    """Return whether the columns of X (n, D) contradict that whole numbers y (n,) are counts, at a level of .05.

    Under a generalised linear model, the mean of a column over the rows of each count rises or falls with the counts.  Over
    the rows of each class it goes up and down with their codes, though codes in the order of frequencies are distributed like counts.
    The residual squares of the best monotone means, relative to those within classes, are compared with F for the number of values less 2,
    which is more than their degrees of freedom.  Columns are combined by Bonferroni's inequality.
    Source: Barlow, Bartholomew, Bremner & Brunk (1972), ch. 3; lack of fit against replicates.
    """
    values, place, count = np.unique(y, return_inverse=True, return_counts=True)
    n, K, D = len(y), len(values), X.shape[1]
    if n <= K or K < LEAST_VALUES or not D:
        return False
    least = 1.0
    for column in X.T:
        mean = np.bincount(place, weights=column - column.mean()) / count
        within = float(np.square(column - column.mean() - mean[place]).sum()) / (n - K)
        left = min(_isotonic_residual_squares(mean, count), _isotonic_residual_squares(-mean, count)) / (K - 2)
        if left > 0:
            least = min(least, float(fdtrc(K - 2, n - K, left / within)) if within > 0 else 0.0)
    return bool(least * D < LEVEL)


def _isotonic_residual_squares(mean: Array, count: Array) -> float:
    """Return the weighted residual squares of the rising sequence nearest to means (K,), by pooling adjacent violators."""
    pools: list[tuple[float, float]] = []  # value and weight
    sizes: list[int] = []
    for value, weight in zip(mean.tolist(), count.tolist(), strict=True):
        pools.append((value, weight))
        sizes.append(1)
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (last, own), (before, other) = pools.pop(), pools.pop()
            pools.append(((last * own + before * other) / (own + other), own + other))
            sizes[-2:] = [sizes[-2] + sizes[-1]]
    fitted = np.repeat([value for value, _ in pools], sizes)
    return float(count @ np.square(mean - fitted))
