"""Energies E(u) of one filter output, which are −log of a density up to a constant, with their derivatives.

| name           | E(u)             | p(u)                                   |
|----------------|------------------|----------------------------------------|
| student        | log(1 + u²)      | Student's t with 2γ − 1 degrees of freedom, scaled by 1/√(2γ − 1) |
| logistic       | −log σ(u)σ(−u)   | logistic, squashed by σ                |
| laplace        | abs(u)           | Laplace                                |
| laplace-smooth | log cosh u       | hyperbolic secant                      |
| gaussian-cdf   | u²/2             | Gaussian: decorrelates, and no more    |
| bimodal        | u²/2 − log cosh u | Gaussians around −1 and 1, alike: sub-Gaussian |

The first four are heavier-tailed than a Gaussian, super-Gaussian, and cannot tell sources apart that are sub-Gaussian, such as
uniform ones, sines and square waves: `density_signs` says of each output which it is.

Source: Teh (2003), eq. 4.42 and 4.43; Hinton & Teh (2001) for the degrees of freedom; Makin, sec. 6.7.1;
Lee, Girolami & Sejnowski (1999) for the bimodal density.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, lgamma, log, pi

import numpy as np

from herdcli.errors import BadUsage
from herdcli.records import dataclass
from herdcli.schema import Array

SMALLEST = 1e-150  # variance that an output is divided by
NEWTON = 50  # steps at most


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
    # With u = tan θ, ∫ (1 + u²)^{−γ} du = ∫ cos^{2γ−2} θ dθ over (−π/2, π/2) = B(½, γ − ½) = √π Γ(γ − ½)/Γ(γ).
    values = [0.5 * log(pi) + lgamma(g - 0.5) - lgamma(g) if g > 0.5 else np.inf for g in np.atleast_1d(gamma).tolist()]
    return np.array(values)


def _student_sample(random: np.random.Generator, n: int, gamma: Array) -> Array:
    """u = z / √χ²_ν, ν = 2γ − 1."""
    # t = z √ν/√χ²_ν has the density ∝ (1 + t²/ν)^{−(ν+1)/2}; u = t/√ν has (1 + u²)^{−γ} with γ = (ν + 1)/2.
    return np.asarray(random.standard_normal((n, len(gamma))) / np.sqrt(random.chisquare(2.0 * gamma - 1.0, (n, len(gamma)))))


def _secant_sample(random: np.random.Generator, n: int, gamma: Array) -> Array:
    """The distribution function is (2/π) atan e^u for γ = 1; else y = σ(2u) has y(1 − y) = sech²u / 4, and so is Beta(γ/2, γ/2)."""
    if (gamma != 1.0).any():
        return np.asarray(0.5 * _logit(random.beta(0.5 * gamma, 0.5 * gamma, (n, len(gamma)))))
    return np.asarray(np.log(np.tan(0.5 * pi * random.uniform(1e-16, 1.0 - 1e-16, (n, len(gamma))))))


def _logistic_sample(random: np.random.Generator, n: int, gamma: Array) -> Array:
    """y = σ(u) is Beta(γ, γ), uniform for γ = 1."""
    if (gamma != 1.0).any():
        return _logit(random.beta(gamma, gamma, (n, len(gamma))))
    return np.asarray(random.logistic(size=(n, len(gamma))))


def _bimodal_sample(random: np.random.Generator, n: int, gamma: Array) -> Array:
    """For γ = 1 a bump and a place in it; else the distribution function is tabulated and turned round."""
    if (gamma == 1.0).all():
        return np.asarray(random.standard_normal((n, len(gamma))) + random.choice([-1.0, 1.0], (n, len(gamma))))
    uniforms, found = random.random((n, len(gamma))), np.empty((n, len(gamma)))
    for i, g in enumerate(gamma.tolist()):
        u = _bimodal_grid(g)
        mass = np.cumsum(_bimodal_weights(g, u))
        found[:, i] = np.interp(uniforms[:, i], mass / mass[-1], u + 0.5 * (u[1] - u[0]))
    return found


def _logit(y: Array) -> Array:
    inside = np.clip(y, 1e-300, 1.0 - 1e-16)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _bimodal_grid(g: float) -> Array:
    """Where e^{−γE} of the bimodal density is not 0."""
    return np.asarray(np.linspace(-1.0, 1.0, 4001) * (2.0 + 12.0 / np.sqrt(g)))


def _bimodal_weights(g: float, u: Array) -> Array:
    return np.asarray(np.exp(-g * (0.5 * u * u - _log_cosh(u))))


def _for_each(log_integral: Callable[[float], float]) -> Callable[[Array], Array]:
    return lambda gamma: np.array([log_integral(g) for g in np.ravel(gamma).tolist()])


def _secant_log_z(g: float) -> float:
    """∫ sech^γ = B(γ/2, ½)."""
    # y = σ(2u) has sech u = 2√(y(1 − y)) and dy = 2y(1 − y) du: the integral is 2^{γ−1} B(γ/2, γ/2), which is B(γ/2, ½) by the duplication
    # formula of Γ.
    return log(pi) if g == 1.0 else lgamma(0.5 * g) + 0.5 * log(pi) - lgamma(0.5 * g + 0.5)


def _logistic_log_z(g: float) -> float:
    """∫ (σ(u)σ(−u))^γ du = B(γ, γ), with y = σ(u), dy = y(1 − y) du."""
    return 0.0 if g == 1.0 else 2.0 * lgamma(g) - lgamma(2.0 * g)


def _bimodal_log_z(g: float) -> float:
    """√(2πe) for γ = 1, else by the trapezoidal rule, whose error for a smooth integrand that is 0 at both ends is that of rounding."""
    if g == 1.0:
        return 0.5 * log(2.0 * pi) + 0.5
    u = _bimodal_grid(g)
    return float(np.log(_bimodal_weights(g, u).sum() * (u[1] - u[0])))


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
            # −log σ(u)σ(−u) = log (2 + e^u + e^{−u}) = 2 log (2 cosh u/2), which is tanh u/2 when differentiated once: no exponential
            # overflows.
            lambda u: 2.0 * (_log_cosh(0.5 * u) + log(2.0)),
            lambda u: np.tanh(0.5 * u),
            lambda u: 0.5 * (1.0 - np.tanh(0.5 * u) ** 2),
            _for_each(_logistic_log_z),
            _logistic_sample,
        ),
        Expert(
            "laplace",
            np.abs,
            np.sign,
            np.zeros_like,
            _for_each(lambda g: log(2.0 / g)),
            lambda random, n, gamma: random.laplace(size=(n, len(gamma))) / gamma,
        ),
        Expert("laplace-smooth", _log_cosh, np.tanh, lambda u: 1.0 - np.tanh(u) ** 2, _for_each(_secant_log_z), _secant_sample),
        Expert(
            "gaussian-cdf",
            lambda u: 0.5 * u * u,
            lambda u: u,
            np.ones_like,
            _for_each(lambda g: 0.5 * log(2.0 * pi / g)),
            lambda random, n, gamma: random.standard_normal((n, len(gamma))) / np.sqrt(gamma),
        ),
        # e^{−(u − 1)²/2} + e^{−(u + 1)²/2} = 2 e^{−½} e^{−u²/2} cosh u: E is that of both bumps together, and ∫ e^{−E} = √(2πe)
        Expert(
            "bimodal",
            lambda u: 0.5 * u * u - _log_cosh(u),
            lambda u: u - np.tanh(u),
            lambda u: np.tanh(u) ** 2,
            _for_each(_bimodal_log_z),
            _bimodal_sample,
        ),
    )
}
AUTO = "auto"  # instead of a name: a density for each output, super-Gaussian or bimodal by `density_signs`
SUB = "bimodal"


def density_signs(u: Array) -> Array:
    """1 for outputs that a super-Gaussian density separates, −1 for those that need the bimodal one, (M,).      u  (M, n), centred.

    Small rotations of two outputs are pulled back where κ_i κ_j > 1, κ = E u² E ψ'(u) / E uψ(u) at E uψ(u) = 1 (Pham & Garat
    1997; Cardoso & Laheld 1996); κ > 1 of both will do.  With ψ = tanh that is K = E u² E ψ'(u) − E uψ(u) > 0.  The bimodal
    density's ψ = u − tanh u turns K into −K.  K is of outputs with variance 1, so that no change of density changes its sign.
    Source: Lee, Girolami & Sejnowski (1999), eq. 34 and 35.
    """
    deviation = np.sqrt(np.maximum(np.square(u).mean(axis=1, keepdims=True), SMALLEST))
    scaled = u / deviation
    slope = np.tanh(scaled)
    # E u² = 1 and ψ' = 1 − tanh² here; for a Gaussian E uψ = E ψ' (Stein), so that K = 0: the border between the two kinds.
    K = 1.0 - np.square(slope).mean(axis=1) - (scaled * slope).mean(axis=1)
    return np.where(K < 0, -1, 1)


def density_names(signs: Array, above: str) -> list[str]:
    """The density of each output by its sign; `above` is the super-Gaussian one."""
    return [SUB if sign < 0 else above for sign in signs.tolist()]


def best_scale(expert: Expert, u: Array) -> float:
    """a > 0 at which log a − E E(a u) of one output u (n,) is largest: E aψ = 1 at a u, by Newton's steps in log a."""
    size = exp(-0.5 * log(max(float(np.square(u).mean()), SMALLEST)))
    for _ in range(NEWTON):
        v = size * u
        pull = v * expert.slope(v)
        # By t = log a, v = a u: d/dt (t − E E(v)) = 1 − E vψ(v), whose slope is −E (vψ + v²ψ').  The step is held to a factor e, since ψ
        # may saturate and the slope be near 0 far from the maximum.
        step = float((pull.mean() - 1.0) / (pull + v * v * expert.curvature(v)).mean())
        size *= exp(-min(max(step, -1.0), 1.0))
        if abs(step) < 1e-10:
            break
    return size


def combine_experts(names: Sequence[str]) -> Expert:
    """The experts of M outputs as one, over u (n, M); its name is theirs where all have the same, else "mixed"."""
    if len(set(names)) == 1:
        return EXPERTS[names[0]]
    groups = [(EXPERTS[name], np.array([one == name for one in names])) for name in dict.fromkeys(names)]

    def joined(what: str) -> Callable[[Array], Array]:
        def of(u: Array) -> Array:
            found = np.empty_like(u)
            for expert, chosen in groups:
                found[..., chosen] = getattr(expert, what)(u[..., chosen])
            return found

        return of

    def sample(random: np.random.Generator, n: int, gamma: Array) -> Array:
        found = np.empty((n, len(gamma)))
        for expert, chosen in groups:
            found[:, chosen] = expert.sample(random, n, gamma[chosen])
        return found

    return Expert("mixed", joined("energy"), joined("slope"), joined("curvature"), joined("log_z"), sample)


def check_integrable(expert: str, gamma: float) -> None:
    """Raise BadUsage where ∫ e^{−γE(u)} du is not finite: Student experts with γ ≤ ½."""
    if expert == "student" and not gamma > 0.5:
        raise BadUsage(f"gamma {gamma:g} is not above ½: the Student density has no finite integral")
