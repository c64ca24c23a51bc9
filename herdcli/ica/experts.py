"""Energies E(u) of one filter output, which are −log of a density up to a constant, with their derivatives.

| name           | E(u)             | p(u)                                   |
|----------------|------------------|----------------------------------------|
| student        | log(1 + u²)      | Student's t with 2γ − 1 degrees of freedom, scaled by 1/√(2γ − 1) |
| logistic       | −log σ(u)σ(−u)   | logistic, squashed by σ                |
| laplace        | abs(u)           | Laplace                                |
| laplace-smooth | log cosh u       | hyperbolic secant                      |
| gaussian-cdf   | u²/2             | Gaussian: decorrelates, and no more    |

Source: Teh (2003), eq. 4.42 and 4.43; Hinton & Teh (2001) for the degrees of freedom; Makin, sec. 6.7.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import lgamma, log, pi

import numpy as np

from herdcli.errors import BadUsage
from herdcli.schema import Array


@dataclass(frozen=True)
class Expert:
    """One energy.  energy, slope and curvature are E, E' and E'' of u, elementwise; γ multiplies all three.

    log_z    log ∫ e^{−γE(u)} du for weights γ.
    sample   draws of the density for γ (M,), in an (n, M) array.
    """

    name: str
    energy: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    curvature: Callable[[Array], Array]
    log_z: Callable[[Array], Array]
    sample: Callable[[np.random.Generator, int, Array], Array]

    @property
    def learns_gamma(self) -> bool:
        """Can γ be learned?  Only the Student density keeps its form."""
        return self.name == "student"


def _log_cosh(u: Array) -> Array:
    size = np.abs(u)
    return size + np.log1p(np.exp(-2.0 * size)) - log(2.0)


def _student_log_z(gamma: Array) -> Array:
    """log B(½, γ − ½), infinite for γ ≤ ½."""
    values = [0.5 * log(pi) + lgamma(g - 0.5) - lgamma(g) if g > 0.5 else np.inf for g in np.atleast_1d(gamma).tolist()]
    return np.array(values)


def _student_sample(random: np.random.Generator, n: int, gamma: Array) -> Array:
    """u = z / √χ²_ν, ν = 2γ − 1."""
    return np.asarray(random.standard_normal((n, len(gamma))) / np.sqrt(random.chisquare(2.0 * gamma - 1.0, (n, len(gamma)))))


def _secant_sample(random: np.random.Generator, n: int, gamma: Array) -> Array:
    """The distribution function is (2/π) atan e^u."""
    return np.asarray(np.log(np.tan(0.5 * pi * random.uniform(1e-16, 1.0 - 1e-16, (n, len(gamma))))))


def _constant(value: float) -> Callable[[Array], Array]:
    return lambda gamma: np.full(np.shape(gamma), value)


EXPERTS: dict[str, Expert] = {
    expert.name: expert
    for expert in (
        Expert(
            "student",
            lambda u: np.log1p(u * u),
            lambda u: 2.0 * u / (1.0 + u * u),
            lambda u: 2.0 * (1.0 - u * u) / (1.0 + u * u) ** 2,
            _student_log_z,
            _student_sample,
        ),
        Expert(
            "logistic",
            lambda u: 2.0 * (_log_cosh(0.5 * u) + log(2.0)),
            lambda u: np.tanh(0.5 * u),
            lambda u: 0.5 * (1.0 - np.tanh(0.5 * u) ** 2),
            _constant(0.0),
            lambda random, n, gamma: random.logistic(size=(n, len(gamma))),
        ),
        Expert(
            "laplace", np.abs, np.sign, np.zeros_like, _constant(log(2.0)), lambda random, n, gamma: random.laplace(size=(n, len(gamma)))
        ),
        Expert("laplace-smooth", _log_cosh, np.tanh, lambda u: 1.0 - np.tanh(u) ** 2, _constant(log(pi)), _secant_sample),
        Expert(
            "gaussian-cdf",
            lambda u: 0.5 * u * u,
            lambda u: u,
            np.ones_like,
            _constant(0.5 * log(2.0 * pi)),
            lambda random, n, gamma: random.standard_normal((n, len(gamma))),
        ),
    )
}


def check_integrable(expert: str, gamma: float) -> None:
    """Raise BadUsage where ∫ e^{−γE(u)} du is not finite: Student experts with γ ≤ ½."""
    if expert == "student" and not gamma > 0.5:
        raise BadUsage(f"gamma {gamma:g} is not above ½: the Student density has no finite integral")
