"""Naive mean field and TAP on Boltzmann machines, with covariances by linear response.

    mean field  m_i = σ(Σ_j W_ij m_j + b_i)                                                        (2.38)
    TAP         m_i = σ(Σ_j W_ij m_j + b_i + ½(1 − 2 m_i) Σ_j W_ij² m_j (1 − m_j))                 (2.44, its sign corrected)

Units of one colour are updated together, so that a sweep of mean field never increases the free energy (2.37).
Covariances are ∂m_i/∂b_j, the inverse of the second derivatives of the free energy (2.48, 2.49).  Source: Teh (2003), sec. 2.4.

Observed marginals (generalised inference, sec. 5.5) are constraints m_i = p_i on the free energy.  Its constrained minimum has these m_i,
and satisfies the equations above for all others.  Iterative scaling with mean field or TAP inside (5.16) has the same fixed point, but need
not converge to it: for two units with weight 5, biases −2.5 and means 0.3 it is a saddle of the free energy with their multipliers.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import diags
from scipy.special import expit

from herdcli.markov.bethe import starts
from herdcli.markov.method import InferenceResult, InferenceSettings, ToTolerance
from herdcli.markov.model.beliefs import make_convergence_attributes
from herdcli.markov.model.boltzmann import colour_units, to_boltzmann_machine
from herdcli.markov.model.network import Factor, Network
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass
class MeanFieldState:
    """Means (N,), and one residual and free energy per sweep."""

    mean: Array
    residual: Array
    free_energy: Array
    step: int


class MeanField(ToTolerance[MeanFieldState, InferenceSettings]):
    """The algorithms `mean-field` and `tap`."""

    state = MeanFieldState

    def __init__(self, network: Network, settings: InferenceSettings) -> None:
        self.network, self.settings, self.steps, self.note = network, settings, settings.iterations, ""
        self.machine = to_boltzmann_machine(network, settings.algorithm)
        self.squares = self.machine.W.multiply(self.machine.W).tocsr() * (settings.algorithm == "tap")
        self.observed = {i: float(p[1]) for i, p in network.stored_marginals().items() if len(p) == 2}
        fixed = self.machine.held | np.isin(np.arange(network.count), list(self.observed))
        self.colours = [part[~fixed[part]] for part in colour_units(self.machine.W)]
        self.rows = [(part, self.machine.W[part], self.squares[part]) for part in self.colours]

    def init(self) -> MeanFieldState:
        """Return means of one half, or random ones; 0 for variables fixed by evidence, and the observed means."""
        cardinality = self.network.cardinality
        last = starts.make_initial_marginals(self.settings, cardinality)[np.cumsum(cardinality) - 1]
        mean = np.where(self.machine.held, 0.0, last)
        for i, p in self.observed.items():
            mean[i] = p
        return MeanFieldState(mean, np.empty(0), np.empty(0), 0)

    def step(self, state: MeanFieldState) -> MeanFieldState:
        """Do one sweep, colour by colour; TAP solves each unit's equation for its own m by Newton's method."""
        m, largest = state.mean, 0.0
        for part, W, squares in self.rows:
            # ∂F/∂m_i = logit m_i − Σ_j W_ij m_j − b_i − ½(1 − 2m_i) Σ_j W_ij² m_j (1 − m_j): in 2.43 the factor m_i (1 − m_i) has slope
            # 1 − 2m_i.  All m_j of other colours are fixed, and no unit of this colour is in the sums, so the sweep is coordinate
            # descent on 2.37.
            field, reaction = W @ m + self.machine.b[part], squares @ (m * (1 - m))
            new = _solve_mean(field, reaction, m[part])
            largest = max(largest, float(np.abs(new - m[part]).max(initial=0.0)))
            m[part] = (1 - self.settings.damping) * new + self.settings.damping * m[part]
        return MeanFieldState(m, np.append(state.residual, largest), np.append(state.free_energy, self.free_energy(m)), state.step + 1)

    def free_energy(self, m: Array) -> float:
        """Compute 2.37; for TAP with the third term of Plefka's expansion (2.43)."""
        variance = m * (1 - m)
        # W is symmetric and contains each pair twice: half of 2.37's pairs, a quarter for the ½ Σ_(ij) of 2.43.
        energy = -0.5 * m @ (self.machine.W @ m) - self.machine.b @ m - 0.25 * variance @ (self.squares @ variance)
        entropy = sum(float(np.sum(p * np.log(np.where(p > 0, p, 1.0)))) for p in (m, 1 - m))
        return float(energy + entropy - self.machine.constant)

    def bytes_needed(self, state: MeanFieldState) -> tuple[int, str]:
        """Return the bytes of the dense inverse, and their purpose in words."""
        free = int((~self.machine.held).sum())
        return 24 * free**2 if self.settings.linear_response else 8 * free, "the linear response"

    def result(self, state: MeanFieldState) -> InferenceResult:
        """Return marginals of units, and of pairs as if independent; with linear response also covariances."""
        m, held = state.mean, self.machine.held
        nodes = [np.ones(1) if held[i] else np.array([1 - m[i], m[i]]) for i in range(len(m))]
        pairs = {tuple(sorted(i for i in scope if not held[i])) for scope, _ in self.network.factors()}
        cliques: list[Factor] = [(pair, np.outer(nodes[pair[0]], nodes[pair[1]])) for pair in sorted(pairs) if len(pair) == 2]
        energy = self.free_energy(m)
        warning = self._tap_domain_fault(m) if self.settings.algorithm == "tap" else ""
        covariance = self.covariance(m) if self.settings.linear_response else None
        attributes = make_convergence_attributes(
            energy, self.meets_criterion(state), state.step, state.residual, state.free_energy, covariance=covariance
        )
        return InferenceResult(nodes, cliques, attributes, f"{warning}; use --algorithm bp or ups" if warning else "")

    def _tap_domain_fault(self, m: Array) -> str:
        """Return the reason why TAP is not valid here, "" if it is.

        Plefka's expansion in the couplings converges for the model of Sherrington & Kirkpatrick while Σ_j J_ij² (1 − s_j²)² < 1
        with s = 2m − 1 and J = W/4 (spins of ±1), that is Σ_j W_ij² (m_j(1 − m_j))² < 1.  Also, on any network TAP's terms are
        corrections only while the free energy stays above its lower bound: the smallest energy minus the logarithm of the number of states.
        Source: Plefka (1982), eq. 12.
        """
        variance = m * (1 - m)
        largest = float((self.squares @ variance**2).max(initial=0.0))
        if largest >= 1:
            return (
                f"tap is not valid for this network: the largest Σ_j W_ij² (m_j(1 − m_j))² is {largest:.3g}, but Plefka's expansion "
                "needs less than 1"
            )
        W, b, held = self.machine.W, self.machine.b, self.machine.held
        most = float(np.maximum(b[~held], 0.0).sum() + 0.5 * np.maximum(W.data, 0.0).sum()) + self.machine.constant
        most += float((~held).sum()) * np.log(2.0)
        if -self.free_energy(m) > most + 1e-9 * abs(most):
            return f"tap is not valid for this network: its log Z of {-self.free_energy(m):.6g} is above the upper bound {most:.6g}"
        return ""

    def covariance(self, m: Array) -> Array:
        """Compute the (N, N) covariances of x_i and x_j, observed ones under their multipliers.

        They are zero if evidence fixes one of the variables or a mean is 0 or 1.
        """
        variance = m * (1 - m)
        free = np.flatnonzero(~self.machine.held & (variance > 0))
        skew = 1 - 2 * m
        # C⁻¹ = ∂b/∂m = ∇²F (2.47).  Diagonal entries: 1/(m_i (1 − m_i)), to which TAP adds Σ_j W_ij² m_j (1 − m_j), from its term with
        # ½(1 − 2m_i).  Off-diagonal entries: −W_ij − ½ W_ij² (1 − 2m_i)(1 − 2m_j).  With W² = 0 this is 2.49.
        curvature = diags(1 / variance[free] + (self.squares @ variance)[free])
        mixed = self.machine.W + 0.5 * diags(skew) @ self.squares @ diags(skew)
        made = np.zeros((len(m), len(m)))
        made[np.ix_(free, free)] = np.linalg.inv((curvature - mixed[free][:, free]).toarray())
        return made


def _solve_mean(field: Array, reaction: Array, start: Array) -> Array:
    """Solve logit m = field + ½(1 − 2m)·reaction for m.

    There is one root, because the left side increases and the right one decreases with m.
    """
    t = np.log(np.clip(start, 1e-300, None)) - np.log1p(-np.clip(start, None, 1 - 1e-16))
    low, high = field - 0.5 * reaction, field + 0.5 * reaction
    t = np.clip(t, low, high)
    for _ in range(100):
        m = expit(t)
        excess = t - field - 0.5 * (1 - 2 * m) * reaction
        low, high = np.where(excess < 0, t, low), np.where(excess > 0, t, high)
        # In t = logit m, dm/dt = m (1 − m), so d excess/dt = 1 + m (1 − m) reaction ≥ 1; |1 − 2m| ≤ 1 bounds the root by field ± ½
        # reaction.
        newton = t - excess / (1 + reaction * m * (1 - m))
        following = np.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
        if np.array_equal(following, t) or np.abs(following - t).max(initial=0.0) < 1e-15 * (1 + np.abs(t).max(initial=0.0)):
            t = following
            break
        t = following
    result: Array = expit(t)
    return result
