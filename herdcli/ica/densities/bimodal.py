"""Two equal bumps around −1 and 1, a sub-Gaussian density."""

from __future__ import annotations

from math import log, pi

import numpy as np

from herdcli.ica.densities.base import SingleExpert, log_cosh
from herdcli.schema import Array


class BimodalExpert(SingleExpert):
    """E(u) = u²/2 − log cosh u.      Source: Lee, Girolami & Sejnowski (1999)."""

    # e^{−(u − 1)²/2} + e^{−(u + 1)²/2} = 2 e^{−½} e^{−u²/2} cosh u: E is that of both bumps together, and ∫ e^{−E} = √(2πe)
    name = "bimodal"

    def energy(self, u: Array) -> Array:
        return 0.5 * u * u - log_cosh(u)

    def slope(self, u: Array) -> Array:
        return np.asarray(u - np.tanh(u))

    def curvature(self, u: Array) -> Array:
        return np.asarray(np.tanh(u) ** 2)

    def log_integral(self, gamma: float) -> float:
        """√(2πe) for γ = 1, else by the trapezoidal rule, whose error for a smooth integrand that is 0 at both ends is that of rounding."""
        if gamma == 1.0:
            return 0.5 * log(2.0 * pi) + 0.5
        u = _grid(gamma)
        return float(np.log(_weights(gamma, u).sum() * (u[1] - u[0])))

    def sample(self, random: np.random.Generator, n: int, gamma: Array) -> Array:
        """For γ = 1 a bump and a place in it; else the distribution function is tabulated and turned round."""
        if (gamma == 1.0).all():
            return np.asarray(random.standard_normal((n, len(gamma))) + random.choice([-1.0, 1.0], (n, len(gamma))))
        uniforms, found = random.random((n, len(gamma))), np.empty((n, len(gamma)))
        for i, g in enumerate(gamma.tolist()):
            u = _grid(g)
            mass = np.cumsum(_weights(g, u))
            found[:, i] = np.interp(uniforms[:, i], mass / mass[-1], u + 0.5 * (u[1] - u[0]))
        return found


def _grid(gamma: float) -> Array:
    """Where e^{−γE} is not 0."""
    return np.asarray(np.linspace(-1.0, 1.0, 4001) * (2.0 + 12.0 / np.sqrt(gamma)))


def _weights(gamma: float, u: Array) -> Array:
    return np.asarray(np.exp(-gamma * (0.5 * u * u - log_cosh(u))))
