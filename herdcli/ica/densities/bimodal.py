"""The bimodal density: two equal bumps around −1 and 1, which is sub-Gaussian."""

from __future__ import annotations

from math import log, pi

import numpy as np

from herdcli.ica.densities.base import SingleExpert, log_cosh
from herdcli.schema import Array


class BimodalExpert(SingleExpert):
    """The bimodal density, E(u) = u²/2 − log cosh u.      Source: Lee, Girolami & Sejnowski (1999)."""

    # E is the energy of a sum of two Gaussian bumps: e^{−(u − 1)²/2} + e^{−(u + 1)²/2} = 2 e^{−½} e^{−u²/2} cosh u, and ∫ e^{−E} = √(2πe).
    name = "bimodal"

    def energy(self, u: Array) -> Array:
        return 0.5 * u * u - log_cosh(u)

    def slope(self, u: Array) -> Array:
        return np.asarray(u - np.tanh(u))

    def curvature(self, u: Array) -> Array:
        return np.asarray(np.tanh(u) ** 2)

    def log_integral(self, gamma: float) -> float:
        """Return log √(2πe) for γ = 1, else the logarithm by the trapezoidal rule.

        Its error for a smooth integrand that is 0 at both ends is only rounding error.
        """
        if gamma == 1.0:
            return 0.5 * log(2.0 * pi) + 0.5
        u = _support_grid(gamma)
        return float(np.log(_density_on_grid(gamma, u).sum() * (u[1] - u[0])))

    def sample(self, random: np.random.Generator, n: int, gamma: Array) -> Array:
        """Sample a bump and a point in it for γ = 1; otherwise invert the tabulated distribution function."""
        if (gamma == 1.0).all():
            return np.asarray(random.standard_normal((n, len(gamma))) + random.choice([-1.0, 1.0], (n, len(gamma))))
        uniforms, found = random.random((n, len(gamma))), np.empty((n, len(gamma)))
        for i, g in enumerate(gamma.tolist()):
            u = _support_grid(g)
            mass = np.cumsum(_density_on_grid(g, u))
            found[:, i] = np.interp(uniforms[:, i], mass / mass[-1], u + 0.5 * (u[1] - u[0]))
        return found


def _support_grid(gamma: float) -> Array:
    """Return the points where e^{−γE} is not 0."""
    return np.asarray(np.linspace(-1.0, 1.0, 4001) * (2.0 + 12.0 / np.sqrt(gamma)))


def _density_on_grid(gamma: float, u: Array) -> Array:
    return np.asarray(np.exp(-gamma * (0.5 * u * u - log_cosh(u))))
