"""The base class of experts: an energy E(u) of one filter output, −log of a density up to a constant, with its derivatives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import log

import numpy as np

from herdcli.schema import Array


class Expert(ABC):
    """The energy of one output.  energy, slope and curvature are E, E' and E'' of u, elementwise; γ multiplies all three.

    name          the name in --expert and --density and in artifacts.
    learns_gamma  whether γ can be learned: whether the density keeps its form, and `log_z` is known, for every γ.
    least_gamma   the γ above which e^{−γE} has a finite integral.
    loop          its number in `fast.expert_energy`, `expert_slope` and `leapfrog`; None: computed by NumPy.
    """

    name: str
    learns_gamma: bool = False
    least_gamma: float = 0.0
    loop: int | None = None

    @abstractmethod
    def energy(self, u: Array) -> Array:
        """Return E(u)."""

    @abstractmethod
    def slope(self, u: Array) -> Array:
        """Return E'(u)."""

    @abstractmethod
    def curvature(self, u: Array) -> Array:
        """Return E''(u)."""

    @abstractmethod
    def log_z(self, gamma: Array) -> Array:
        """Return log ∫ e^{−γE(u)} du for weights γ (M,)."""

    @abstractmethod
    def sample(self, random: np.random.Generator, n: int, gamma: Array) -> Array:
        """Sample from the density for γ (M,), as an (n, M) array."""

    def energy_and_derivatives(self, u: Array) -> tuple[float, Array, Array]:
        """Return Σ E, E' and E'' of a block of outputs u (M, b)."""
        return float(self.energy(u).sum()), self.slope(u), self.curvature(u)


class SingleExpert(Expert):
    """An expert whose normalising constant depends on γ alone, so that each γ needs one number."""

    def log_z(self, gamma: Array) -> Array:
        return np.array([self.log_integral(g) for g in np.ravel(gamma).tolist()])

    @abstractmethod
    def log_integral(self, gamma: float) -> float:
        """Return log ∫ e^{−γE(u)} du."""


def log_cosh(u: Array) -> Array:
    """Return log cosh u for any shape, without overflow."""
    size = np.abs(u)
    return np.asarray(size + np.log1p(np.exp(-2.0 * size)) - log(2.0))


def logit(y: Array) -> Array:
    """Return log y/(1 − y) for any shape, finite at both ends."""
    inside = np.clip(y, 1e-300, 1.0 - 1e-16)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def scaled_log_cosh_derivatives(u: Array, inner_scale: float) -> tuple[float, Array, Array]:
    """Return sum, slope and curvature of (1/half) log cosh(half u), the sum up to a constant, sharing common terms."""
    # tanh v = (1 − e^{−2|v|})/(1 + e^{−2|v|}) with the sign of v, and log cosh v = |v| + log(1 + e^{−2|v|}) − log 2
    size = np.abs(u)
    size *= -2.0 * inner_scale
    decay = np.exp(size)
    slope = np.copysign((1.0 - decay) / (1.0 + decay), u)
    total = -0.5 * float(size.sum()) + float(np.log1p(decay, out=decay).sum())
    return total, slope, 1.0 - slope * slope
