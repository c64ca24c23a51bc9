"""The distribution closest to a table that has given expectations of features: one scaling of a feature cluster.

q(x) ∝ p(x) exp(δ·f(x)) with Σ q f = target; δ minimises log Σ p e^{δ·f} − δ·target, convex, by Newton's method.
Source: Teh (2003), 6.30; Csiszár (1975).
"""

from __future__ import annotations

import numpy as np

from herdcli.numerics import symmetric_matrices
from herdcli.schema import Array

STEPS = 100
LONGEST = 30.0  # largest step, in the exponent
PRECISION = 1e-14


def fit_feature_tilt(p: Array, features: Array, target: Array) -> Array | None:
    """Return exp(δ·f − log normaliser) for each cell; None if no distribution on the support of p has these expectations.

    p         (cells,), sums to one.
    features  (d, cells).
    target    (d,).
    """
    f = features - target[:, None]
    on = p > 0
    if ((f[:, on].min(axis=1) > PRECISION) | (f[:, on].max(axis=1) < -PRECISION)).any():
        return None
    delta, log_p = np.zeros(len(f)), np.log(np.where(on, p, 1.0))
    value, q = _dual_objective(delta, f, log_p, on)
    finished = False  # True if the last step was so short that the next one is lost in rounding
    for _ in range(STEPS):
        gradient = f @ q
        if np.abs(gradient).max() <= PRECISION or finished:
            break
        # With f shifted by the target, log Σ p e^{δ·f} has gradient E_q f and Hessian Cov_q f.  Linearly dependent features make it
        # singular.  Least squares then gives the shortest step, and any δ with the same δ·f gives the same q.
        hessian = (f * q) @ f.T - np.outer(gradient, gradient)
        direction = -symmetric_matrices.least_squares(hessian, gradient, rcond=1e-13)[0]
        reach = np.abs(direction @ f).max()
        length = min(1.0, LONGEST / reach) if reach > 0 else 0.0
        slope = float(gradient @ direction)
        finished = length == 1.0 and -slope < 1e-14
        while True:
            tried = delta + length * direction
            after, made = _dual_objective(tried, f, log_p, on)
            if finished or after <= value + 1e-4 * length * slope or length < 1e-12:
                break
            length /= 2
        delta, value, q = tried, after, made
    if not np.abs(f @ q).max() <= 1e-6 * max(1.0, float(np.abs(features).max())):
        return None
    ratio: Array = np.divide(q, p, out=np.zeros_like(p), where=on)
    return ratio


def _dual_objective(delta: Array, f: Array, log_p: Array, on: Array) -> tuple[float, Array]:
    logs = np.where(on, log_p + delta @ f, -np.inf)
    top = logs.max()
    q = np.exp(logs - top)
    total = q.sum()
    return float(top + np.log(total)), q / total
