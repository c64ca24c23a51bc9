"""Standard deviations of Gaussian visible units, learned together with the weights.

Let v = m + e^s z, where z has a harmonium of Gaussian units of variance 1.  Then log p(v) = log p(z) − Σ_j s_j: the partition function is
that of z and does not depend on s, so that the gradient needs no second phase,

    ∂ log p/∂s_j = z_j (z_j − b_j − (W E[h | z])_j) − 1.

Source: Krizhevsky (2009), sec. 1.2, for the density; log deviations, as in Cho, Ilin & Raiko (2011), sec. 3.2, keep them positive.
"""

from __future__ import annotations

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.schema import Array

FARTHEST = 0.1  # largest change of a log deviation in one update


def log_deviation_gradient(sweeper: GibbsSweeper, z: Array) -> Array:
    """Compute the gradient (D,) of the mean log-likelihood along the log deviations.

    z (n, D) float32 are the rows divided by the current deviations.
    """
    h, natural = np.empty((len(z), len(sweeper.c)), dtype=np.float32), np.empty_like(z)
    exact_arithmetic.matrix_product(z, sweeper.W, out=h)
    sweeper.hidden.means(h, sweeper.c)
    exact_arithmetic.matrix_product(h, sweeper.W.T, out=natural)
    natural += sweeper.b
    # ∂z/∂s = −z, and ∂ log p/∂z = b + W E[h | z] − z; the density of v is that of z over Π e^s.
    found: Array = (z * (z - natural)).mean(axis=0) - np.float32(1.0)
    return found


def update_log_deviations(log_scale: Array, gradient: Array, rate: float) -> None:
    """Move log deviations (D,) along their gradient, in place, by at most FARTHEST."""
    log_scale += np.clip(np.float32(rate) * gradient, -FARTHEST, FARTHEST)
