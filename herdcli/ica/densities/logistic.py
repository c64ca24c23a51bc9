"""The logistic density."""

from __future__ import annotations

from math import lgamma, log

import numpy as np

from herdcli.ica.densities.base import SingleExpert, log_cosh, logit, scaled_log_cosh_derivatives
from herdcli.schema import Array


class LogisticExpert(SingleExpert):
    """The logistic density, E(u) = −log σ(u)σ(−u), with the logistic function σ.      Source: Teh (2003), eq. 4.42."""

    name = "logistic"
    loop = 1

    def energy(self, u: Array) -> Array:
        # −log σ(u)σ(−u) = log (2 + e^u + e^{−u}) = 2 log (2 cosh u/2), with derivative tanh u/2: no exponential
        # overflows.
        return 2.0 * (log_cosh(0.5 * u) + log(2.0))

    def slope(self, u: Array) -> Array:
        return np.asarray(np.tanh(0.5 * u))

    def curvature(self, u: Array) -> Array:
        return np.asarray(0.5 * (1.0 - np.tanh(0.5 * u) ** 2))

    def log_integral(self, gamma: float) -> float:
        """Return log ∫ (σ(u)σ(−u))^γ du = log B(γ, γ), with y = σ(u), dy = y(1 − y) du."""
        return 0.0 if gamma == 1.0 else 2.0 * lgamma(gamma) - lgamma(2.0 * gamma)

    def sample(self, random: np.random.Generator, n: int, gamma: Array) -> Array:
        """Sample y = σ(u) from Beta(γ, γ), which is uniform for γ = 1, and return u."""
        if (gamma != 1.0).any():
            return logit(random.beta(gamma, gamma, (n, len(gamma))))
        return np.asarray(random.logistic(size=(n, len(gamma))))

    def energy_and_derivatives(self, u: Array) -> tuple[float, Array, Array]:
        # E = 2 log cosh(u/2) + 2 log 2, so both constants cancel
        total, slope, curvature = scaled_log_cosh_derivatives(u, 0.5)
        return 2.0 * total, slope, 0.5 * curvature
