"""The experts of filter outputs: lookup by name, several combined as one, and the choice of the expert for an output.

| name           | E(u)             | p(u)                                   |
|----------------|------------------|----------------------------------------|
| student        | log(1 + u²)      | Student's t with 2γ − 1 degrees of freedom, scaled by 1/√(2γ − 1) |
| logistic       | −log σ(u)σ(−u)   | logistic, squashed by σ                |
| laplace        | abs(u)           | Laplace                                |
| laplace-smooth | log cosh u       | hyperbolic secant                      |
| gaussian-cdf   | u²/2             | Gaussian: only decorrelates            |
| bimodal        | u²/2 − log cosh u | equal Gaussians around −1 and 1: sub-Gaussian |

The first four have heavier tails than a Gaussian (super-Gaussian).  They cannot separate sub-Gaussian sources, such as uniform ones,
sines and square waves; `choose_density_signs` returns the kind of each output.

Source: Teh (2003), eq. 4.42 and 4.43; Hinton & Teh (2001) for the degrees of freedom; Makin, sec. 6.7.1;
Lee, Girolami & Sejnowski (1999) for the bimodal density.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log

import numpy as np

from herdcli.errors import BadUsage
from herdcli.ica.densities.base import Expert
from herdcli.ica.expert_table import TABLE
from herdcli.parts import LazyParts
from herdcli.records import dataclass
from herdcli.schema import Array

SMALLEST = 1e-150  # least variance by which an output is divided
NEWTON = 50  # largest number of steps
AUTO = "auto"  # in place of a name: a density for each output, super-Gaussian or bimodal by `choose_density_signs`
SUB = "bimodal"
EXPERTS: Mapping[str, Expert] = LazyParts(TABLE, Expert)


def choose_density_signs(u: Array) -> Array:
    """Return 1 for outputs that a super-Gaussian density separates, −1 for those that need the bimodal one, (M,).

    u  (M, n), centred.
    Small rotations of two outputs are stable where κ_i κ_j > 1, κ = E u² E ψ'(u) / E uψ(u) at E uψ(u) = 1 (Pham & Garat
    1997; Cardoso & Laheld 1996); κ > 1 for both is sufficient.  With ψ = tanh that is K = E u² E ψ'(u) − E uψ(u) > 0.  The bimodal
    density's ψ = u − tanh u turns K into −K.  K is that of outputs with variance 1, so that no change of density changes its sign.
    Source: Lee, Girolami & Sejnowski (1999), eq. 34 and 35.
    """
    deviation = np.sqrt(np.maximum(np.square(u).mean(axis=1, keepdims=True), SMALLEST))
    scaled = u / deviation
    slope = np.tanh(scaled)
    # E u² = 1 and ψ' = 1 − tanh² here; for a Gaussian E uψ = E ψ' (Stein), so that K = 0, the border between the two kinds.
    K = 1.0 - np.square(slope).mean(axis=1) - (scaled * slope).mean(axis=1)
    return np.where(K < 0, -1, 1)


def density_names(signs: Array, super_gaussian: str) -> list[str]:
    """Return the density of each output from its sign; `super_gaussian` is the super-Gaussian one."""
    return [SUB if sign < 0 else super_gaussian for sign in signs.tolist()]


def fit_output_scale(expert: Expert, u: Array) -> float:
    """Return the a > 0 that maximises log a − E E(a u) of one output u (n,): E aψ = 1 at a u, by Newton steps in log a."""
    size = exp(-0.5 * log(max(float(np.square(u).mean()), SMALLEST)))
    for _ in range(NEWTON):
        v = size * u
        pull = v * expert.slope(v)
        # In t = log a, v = a u: d/dt (t − E E(v)) = 1 − E vψ(v), with slope −E (vψ + v²ψ').  The step is limited to a factor e, since ψ
        # may saturate and the slope may be near 0 far from the maximum.
        step = float((pull.mean() - 1.0) / (pull + v * v * expert.curvature(v)).mean())
        size *= exp(-min(max(step, -1.0), 1.0))
        if abs(step) < 1e-10:
            break
    return size


@dataclass(frozen=True)
class MixedExperts(Expert):
    """The experts of several outputs as one, over u (n, M).  groups  each expert, with the mask (M,) of its outputs."""

    groups: tuple[tuple[Expert, Array], ...]
    name: str = "mixed"

    def energy(self, u: Array) -> Array:
        return self._evaluate_by_group("energy", u)

    def slope(self, u: Array) -> Array:
        return self._evaluate_by_group("slope", u)

    def curvature(self, u: Array) -> Array:
        return self._evaluate_by_group("curvature", u)

    def log_z(self, gamma: Array) -> Array:
        return self._evaluate_by_group("log_z", gamma)

    def _evaluate_by_group(self, method: str, u: Array) -> Array:
        found = np.empty_like(u)
        for expert, chosen in self.groups:
            found[..., chosen] = getattr(expert, method)(u[..., chosen])
        return found

    def sample(self, random: np.random.Generator, n: int, gamma: Array) -> Array:
        found = np.empty((n, len(gamma)))
        for expert, chosen in self.groups:
            found[:, chosen] = expert.sample(random, n, gamma[chosen])
        return found


def combine_experts(names: Sequence[str]) -> Expert:
    """Return the experts of M outputs as one, over u (n, M); its name is theirs if all have the same, else "mixed"."""
    if len(set(names)) == 1:
        return EXPERTS[names[0]]
    return MixedExperts(tuple((EXPERTS[name], np.array([one == name for one in names])) for name in dict.fromkeys(names)))


def require_integrable(name: str, gamma: float) -> None:
    """Raise BadUsage if ∫ e^{−γE(u)} du is not finite: Student experts with γ ≤ ½.

    name  the name of an expert; other names have no bound.
    """
    if name in EXPERTS and not gamma > EXPERTS[name].least_gamma:
        least = {0.5: "½"}.get(EXPERTS[name].least_gamma, f"{EXPERTS[name].least_gamma:g}")
        raise BadUsage(f"gamma {gamma:g} is not above {least}: the {name.capitalize()} density has no finite integral")
