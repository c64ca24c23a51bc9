"""Activation functions ψ of hidden units, with their first and second derivatives.

tanh      tanh a               1 − ψ²          −2 ψ (1 − ψ²)
relu      max(a, 0)            1[a > 0]        0
logistic  1/(1 + e^−a)         ψ (1 − ψ)       (1 − 2ψ) ψ (1 − ψ)
softplus  log(1 + e^a)         1/(1 + e^−a)    ψ' (1 − ψ')
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class Activation:
    """An activation as functions of a layer's inputs and outputs.

    value      ψ(a), in new memory.
    slope      ψ'(a), from a and ψ(a).
    curvature  ψ''(a), from a and ψ(a).
    rectified  whether half of the units are initially 0, for which the initial weights compensate.
    """

    value: Callable[[Array], Array]
    slope: Callable[[Array, Array], Array]
    curvature: Callable[[Array, Array], Array]
    rectified: bool = False


def _logistic(a: Array) -> Array:
    # ½ + ½ tanh(a/2), which never overflows and keeps the type
    half = a.dtype.type(0.5)
    return np.asarray(half + half * np.tanh(half * a))


def _softplus(a: Array) -> Array:
    return np.asarray(np.logaddexp(a.dtype.type(0), a))


def _tanh_slope(a: Array, value: Array) -> Array:
    return np.asarray(1 - value * value)


def _tanh_curvature(a: Array, value: Array) -> Array:
    return np.asarray(-2 * value * (1 - value * value))


def _relu_slope(a: Array, value: Array) -> Array:
    return (a > 0).astype(a.dtype)


def _relu_curvature(a: Array, value: Array) -> Array:
    return np.zeros_like(a)


def _logistic_slope(a: Array, value: Array) -> Array:
    return np.asarray(value * (1 - value))


def _logistic_curvature(a: Array, value: Array) -> Array:
    return np.asarray((1 - 2 * value) * value * (1 - value))


def _softplus_slope(a: Array, value: Array) -> Array:
    return _logistic(a)


def _softplus_curvature(a: Array, value: Array) -> Array:
    slope = _logistic(a)
    return np.asarray(slope * (1 - slope))


BY_NAME = {
    "tanh": Activation(np.tanh, _tanh_slope, _tanh_curvature),
    "relu": Activation(lambda a: np.maximum(a, a.dtype.type(0)), _relu_slope, _relu_curvature, rectified=True),
    "logistic": Activation(_logistic, _logistic_slope, _logistic_curvature),
    "softplus": Activation(_softplus, _softplus_slope, _softplus_curvature),
}
