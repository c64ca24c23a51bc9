"""The standard normal distribution: its quantiles, and log Φ where Φ underflows.  (scipy.stats takes a second to import.)"""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array


def normal_quantile(p: float) -> float:
    """Φ⁻¹(p), 0 < p < 1."""
    from scipy.special import ndtri

    return float(ndtri(p))


def normal_cdf(x: Array) -> Array:
    """Φ(x) elementwise."""
    from scipy.special import ndtr

    return np.asarray(ndtr(x))


def log_normal_cdf(x: Array) -> Array:
    """log Φ(x) elementwise, accurate in the tail."""
    from scipy.special import log_ndtr

    return np.asarray(log_ndtr(x))
