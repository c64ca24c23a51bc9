"""NumPy loops of optimisers: updates of all parameters of a model at once, by Adam and by momentum."""

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
