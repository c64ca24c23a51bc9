"""Student's t density."""

from __future__ import annotations

from math import lgamma, log, pi

import numpy as np

from herdcli.ica.densities.base import Expert
from herdcli.schema import Array


class StudentExpert(Expert):
    """The density with E(u) = log(1 + u²): Student's t with ν = 2γ − 1 degrees of freedom, scaled by 1/√ν.

    Source: Teh (2003), eq. 4.43; Hinton & Teh (2001) for the degrees of freedom.
    """

    name = "student"
    learns_gamma = True
    least_gamma = 0.5
    loop = 0

    def energy(self, u: Array) -> Array:
        return np.asarray(np.log1p(u * u))

    def slope(self, u: Array) -> Array:
        return 2.0 * u / (1.0 + u * u)

    def curvature(self, u: Array) -> Array:
        return np.asarray(2.0 * (1.0 - u * u) / (1.0 + u * u) ** 2)

    def log_z(self, gamma: Array) -> Array:
        """Return log B(½, γ − ½), infinite for γ ≤ ½."""
        # With u = tan θ, ∫ (1 + u²)^{−γ} du = ∫ cos^{2γ−2} θ dθ over (−π/2, π/2) = B(½, γ − ½) = √π Γ(γ − ½)/Γ(γ).
        values = [0.5 * log(pi) + lgamma(g - 0.5) - lgamma(g) if g > 0.5 else np.inf for g in np.atleast_1d(gamma).tolist()]
        return np.array(values)

    def sample(self, random: np.random.Generator, n: int, gamma: Array) -> Array:
        """Sample u = z / √χ²_ν."""
        # t = z √ν/√χ²_ν has the density ∝ (1 + t²/ν)^{−(ν+1)/2}; u = t/√ν has (1 + u²)^{−γ} with γ = (ν + 1)/2.
        return np.asarray(random.standard_normal((n, len(gamma))) / np.sqrt(random.chisquare(2.0 * gamma - 1.0, (n, len(gamma)))))
