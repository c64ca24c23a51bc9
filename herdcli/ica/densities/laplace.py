"""The Laplace density."""

from __future__ import annotations

from math import log

import numpy as np

from herdcli.ica.densities.base import SingleExpert
from herdcli.schema import Array


class LaplaceExpert(SingleExpert):
    """The Laplace density, E(u) = |u|."""

    name = "laplace"

    def energy(self, u: Array) -> Array:
        return np.asarray(np.abs(u))

    def slope(self, u: Array) -> Array:
        return np.asarray(np.sign(u))

    def curvature(self, u: Array) -> Array:
        return np.zeros_like(u)

    def log_integral(self, gamma: float) -> float:
        return log(2.0 / gamma)

    def sample(self, random: np.random.Generator, n: int, gamma: Array) -> Array:
        return np.asarray(random.laplace(size=(n, len(gamma))) / gamma)
