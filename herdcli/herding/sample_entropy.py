"""Measures of how much a run's pseudo-samples vary, and how far they are from the distribution of maximum entropy.

Source: Bach, Lacoste-Julien & Obozinski (2012), sec. 5.3.
"""

from __future__ import annotations

import numpy as np

from herdcli.herding import maximisers
from herdcli.herding.binary_features import REPRESENTATIONS, feature_count, pair_indices
from herdcli.schema import Array

MOST_STATES = {"x": 20, "x,xx": 12}  # units up to which the distribution is enumerated
ITERATIONS = 200
TOLERANCE = 1e-10  # largest difference between a fitted moment and its target
SUFFICIENT = 1e-4  # share of the decrease predicted by the slope that a step must achieve
ROUNDING = 1e-15  # a decrease below this share of 1 + Σ|w|, the size of the scores in a value, is rounding


def unit_entropy_bits(mean: Array, representation: str) -> Array:
    """Compute the entropy in bits of two-state units with these means (any shape)."""
    low, high = REPRESENTATIONS[representation]
    p = np.clip((mean - low) / (high - low), 0.0, 1.0)
    q = 1.0 - p
    logs = [np.log2(part, out=np.zeros_like(part), where=part > 0.0) for part in (p, q)]
    result: Array = -(p * logs[0] + q * logs[1])
    return result


def effective_state_count(states: Array) -> float:
    """Compute e^H, where H is the entropy of the empirical distribution of rows `states` (S, B); S if all rows are distinct."""
    if not len(states):
        return 0.0
    counts = np.unique(states, axis=0, return_counts=True)[1]
    p = counts / counts.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


def state_frequencies(x: Array) -> Array:
    """Compute the frequencies (2^D,) of states among rows x (S, D), in the order of `maximisers.enumerate_states`."""
    index = (x > 0) @ (1 << np.arange(x.shape[1]))
    return np.asarray(np.bincount(index, minlength=1 << x.shape[1]) / len(x))


def fit_max_entropy(mean: Array, units: int, features: str, representation: str) -> Array | None:
    """Compute the distribution (2^D,) of maximum entropy among those with these feature means; None if the fit does not converge.

    mean  (F,) of `x` or `x,xx`.  For `x` the units are independent; for pairs the exponential family of the
    features is fitted by Newton's method with halved steps on its convex dual, log Z(w) − w·mean.
    """
    low, high = REPRESENTATIONS[representation]
    states = maximisers.enumerate_states(units, representation)
    if features == "x":
        on = (mean - low) / (high - low)
        return np.asarray(np.prod(np.where(states > 0, on, 1.0 - on), axis=1))
    i, j = pair_indices(units)
    table = np.concatenate([states, states[:, i] * states[:, j]], axis=1).astype(np.float64)
    w = np.zeros(feature_count(units, features))

    def dual(w: Array) -> tuple[float, Array]:
        score = table @ w
        top = score.max()
        weight = np.exp(score - top)
        return float(top + np.log(weight.sum()) - w @ mean), weight / weight.sum()

    value, p = dual(w)
    for _ in range(ITERATIONS):
        gradient = p @ table - mean
        if np.abs(gradient).max() < TOLERANCE:
            return p
        # The gradient of the dual is E_w Φ − mean and its Hessian Cov_w Φ: convex, and 0 along combinations of features that do not vary
        # under p; 1e−12 of the trace keeps the system regular.
        centred = table - p @ table
        hessian = (centred * p[:, None]).T @ centred
        hessian[np.diag_indices_from(hessian)] += 1e-12 * max(1.0, float(np.trace(hessian)))
        direction = -np.linalg.solve(hessian, gradient)
        size = 1.0
        while size > 1e-10:
            trial, trial_p = dual(w + size * direction)
            # Near the minimum a Newton step changes the value by less than rounding, but it still leads to the minimum.
            if trial <= value + SUFFICIENT * size * float(gradient @ direction) + ROUNDING * (1.0 + float(np.abs(w).sum())):
                break
            size /= 2.0
        else:
            return p if np.abs(gradient).max() < 1e-6 else None
        w, value, p = w + size * direction, trial, trial_p
    return None
