"""The hyperbolic secant, a Laplace density that is smooth at 0."""

from __future__ import annotations

from math import lgamma, log, pi

import numpy as np

from herdcli.ica.densities.base import SingleExpert, log_cosh, logit, scaled_log_cosh_derivatives
from herdcli.schema import Array


class SecantExpert(SingleExpert):
    """The hyperbolic secant density, E(u) = log cosh u."""

    name = "laplace-smooth"
    loop = 2

    def energy(self, u: Array) -> Array:
        return log_cosh(u)

    def slope(self, u: Array) -> Array:
        return np.asarray(np.tanh(u))

    def curvature(self, u: Array) -> Array:
        return np.asarray(1.0 - np.tanh(u) ** 2)

    def log_integral(self, gamma: float) -> float:
        """Return log ∫ sech^γ = log B(γ/2, ½)."""
        # y = σ(2u) has sech u = 2√(y(1 − y)) and dy = 2y(1 − y) du: the integral is 2^{γ−1} B(γ/2, γ/2), which is B(γ/2, ½) by the
        # duplication formula of Γ.
        return log(pi) if gamma == 1.0 else lgamma(0.5 * gamma) + 0.5 * log(pi) - lgamma(0.5 * gamma + 0.5)

    def sample(self, random: np.random.Generator, n: int, gamma: Array) -> Array:
        """Sample from the distribution function (2/π) atan e^u for γ = 1, else from y = σ(2u).

        y(1 − y) = sech²u / 4, so that y is Beta(γ/2, γ/2).
        """
        if (gamma != 1.0).any():
            return np.asarray(0.5 * logit(random.beta(0.5 * gamma, 0.5 * gamma, (n, len(gamma)))))
        return np.asarray(np.log(np.tan(0.5 * pi * random.uniform(1e-16, 1.0 - 1e-16, (n, len(gamma))))))

    def energy_and_derivatives(self, u: Array) -> tuple[float, Array, Array]:
        total, slope, curvature = scaled_log_cosh_derivatives(u, 1.0)
        return total - u.size * np.log(2.0), slope, curvature
