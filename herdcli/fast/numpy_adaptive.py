"""NumPy loops of minibatches: their scaled rows, and updates of all parameters of a model at once, by Adam and by momentum."""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array


def require_same_shape(*arrays: Array) -> None:
    """Raise ValueError unless all arrays have one shape and one type, float32 or float64."""
    if any(each.shape != arrays[0].shape or each.dtype != arrays[0].dtype or each.dtype.itemsize < 4 for each in arrays):
        raise ValueError("parameters, moments and gradient have one length and one type")


def adam_update(
    theta: Array, first: Array, second: Array, gradient: Array, rate: float, decay: float, second_decay: float, least: float
) -> None:
    """Update m ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g², θ ← θ − ε m / (√v + least) in place; g is overwritten.

    All four (q,) have one type, float32 or float64; `decay` is β₁, `second_decay` β₂, and `rate` ε.
    Source: Kingma & Ba (2015), alg. 1.
    """
    require_same_shape(theta, first, second, gradient)
    kind = theta.dtype.type
    first *= kind(decay)
    first += kind(1 - decay) * gradient
    gradient *= gradient
    gradient *= kind(1 - second_decay)
    second *= kind(second_decay)
    second += gradient
    np.sqrt(second, out=gradient)
    gradient += kind(least)
    np.divide(first, gradient, out=gradient)
    gradient *= kind(rate)
    theta -= gradient


def momentum_update(theta: Array, velocity: Array, gradient: Array, rate: float, momentum: float) -> None:
    """Update m ← μ m − ε g, θ ← θ + m in place; g is overwritten.  All three (q,) have one type, float32 or float64.

    Source: Polyak (1964).
    """
    require_same_shape(theta, velocity, gradient)
    kind = theta.dtype.type
    velocity *= kind(momentum)
    gradient *= kind(rate)
    velocity -= gradient
    theta += velocity


ROW_TYPES = (np.uint8, np.float32, np.float64)  # of the rows that `scaled_rows` reads


def require_rows(X: Array, chosen: Array, mean: Array, factor: Array, out: Array) -> None:
    """Raise ValueError unless rows, indices, scaling and result fit each other."""
    kind = out.dtype if X.dtype == np.uint8 else np.float64
    if X.dtype not in ROW_TYPES or not X.flags.c_contiguous or out.dtype not in ROW_TYPES[1:] or not mean.dtype == factor.dtype == kind:
        raise ValueError("rows are of uint8, float32 or float64 in C order, the scaling of float64, or for uint8 of the result's type")
    if out.shape != (len(chosen), X.shape[1]) or not mean.shape == factor.shape == (X.shape[1],):
        raise ValueError("rows, scaling and result have one number of columns")
    if len(chosen) and not 0 <= int(chosen.min()) <= int(chosen.max()) < len(X):
        raise ValueError("an index is outside the rows")


def scaled_rows(X: Array, chosen: Array, mean: Array, factor: Array, out: Array) -> None:
    """Write (x − mean) · factor of chosen rows into out (m, D), of float32 or float64.

    X             (n, D), of uint8, float32 or float64, in C order.
    chosen        (m,) int64.
    mean, factor  (D,) in the type that is computed in: that of `out` for uint8, else float64.
    """
    require_rows(X, chosen, mean, factor, out)
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.subtract(X[chosen], mean, dtype=mean.dtype)
        found *= factor
        out[:] = found
