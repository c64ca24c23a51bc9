"""The Gaussian density, which only decorrelates outputs."""

from __future__ import annotations

from math import log, pi

import numpy as np

from herdcli.ica.densities.base import SingleExpert
from herdcli.schema import Array


class GaussianExpert(SingleExpert):
    """The Gaussian density, E(u) = u²/2.      Source: Makin, sec. 6.7.1."""

    name = "gaussian-cdf"

    def energy(self, u: Array) -> Array:
        return 0.5 * u * u

    def slope(self, u: Array) -> Array:
        return u

    def curvature(self, u: Array) -> Array:
        return np.ones_like(u)

    def log_integral(self, gamma: float) -> float:
        return 0.5 * log(2.0 * pi / gamma)

    def sample(self, random: np.random.Generator, n: int, gamma: Array) -> Array:
        return np.asarray(random.standard_normal((n, len(gamma))) / np.sqrt(gamma))
