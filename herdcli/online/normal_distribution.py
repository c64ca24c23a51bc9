"""The standard normal distribution without SciPy, whose import takes longer than most runs: Φ, log Φ and quantiles."""

from __future__ import annotations

from math import log, pi

import numpy as np

from herdcli import fast
from herdcli.schema import Array

FAR = -30.0  # for smaller arguments Φ is near the smallest double, and log Φ is computed from its expansion


def normal_quantile(p: float) -> float:
    """Return Φ⁻¹(p), 0 < p < 1.  Source: Wichura (1988), as in the standard library."""
    from statistics import NormalDist

    return NormalDist().inv_cdf(p)


def normal_cdf(x: Array) -> Array:
    """Return Φ(x) = ½ erfc(−x/√2) elementwise, for any shape."""
    out = np.empty(x.size)
    fast.normal_cdf(np.ascontiguousarray(x, dtype=np.float64).ravel(), out)
    return out.reshape(x.shape)


def log_normal_cdf(x: Array) -> Array:
    """Return log Φ(x) elementwise, for any shape; in the far tail −x²/2 − log(−x√2π) + log(1 − x⁻² + 3x⁻⁴ − 15x⁻⁶)."""
    # Φ(−30) = 4.9e−198 is a normal float64, so its logarithm keeps all digits.
    near = np.log(normal_cdf(np.maximum(x, FAR)))
    if not (x < FAR).any():
        return np.asarray(near)
    far = np.minimum(x, FAR)
    u = 1.0 / far**2
    # Φ(x) = φ(x)/|x| · (1 − x⁻² + 3x⁻⁴ − 15x⁻⁶ + …), by parts; the first omitted term is 105 x⁻⁸, 1.6e−10 at −30.
    tail = -0.5 * far**2 - np.log(-far) - 0.5 * log(2.0 * pi) + np.log1p(u * (-1.0 + u * (3.0 - 15.0 * u)))
    return np.where(x < FAR, tail, near)
