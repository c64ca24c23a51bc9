"""Energies of whitened rows, E(z), with their gradients in z, in the filters J and in the weights γ.

| class             | E(z)                                     | source                                             |
|-------------------|------------------------------------------|----------------------------------------------------|
| LinearExperts     | Σ_i γ_i E_i(u_i), u = J z                | Teh (2003), eq. 4.16, 4.19                         |
| TopographicEnergy | Σ_k γ_k log(1 + Σ_i P_ki u_i²)           | Welling, Hinton & Osindero (2003); Teh, sec. 4.8   |
| ManifoldEnergy    | −½ log det F'F, F = diag(f'(u)) J        | Teh (2003), eq. 4.27: uniform on the outputs' manifold |

Arrays have the type of J, float32 in learning; energies are float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from herdcli import fast
from herdcli.ica.densities.base import Expert
from herdcli.ica.experts import EXPERTS, combine_experts
from herdcli.records import dataclass
from herdcli.schema import Array

NARROW = 4096  # up to this many filters × dimensions, compiled leapfrog steps are faster than two matrix products
MANIFOLD_ROWS = 64  # rows whose D × D matrices are in memory at one time


class RowEnergy(Protocol):
    """An energy over whitened rows z (n, D), for learning and sampling."""

    @property
    def J(self) -> Array:
        """The filters (M, D)."""
        ...

    @property
    def gamma(self) -> Array:
        """The weights of the experts."""
        ...

    def energy(self, z: Array) -> Array:
        """Return E (n,) float64."""
        ...

    def gradient(self, z: Array) -> Array:
        """Return ∂E/∂z (n, D)."""
        ...

    def laplacian(self, z: Array) -> Array:
        """Return Σ_d ∂²E/∂z_d² (n,)."""
        ...

    def parameters(self, z: Array, weights: bool = True) -> tuple[Array, Array]:
        """Return the gradients of Σ E over the rows, (∂/∂J (M, D), ∂/∂γ (len γ,)); the second is 0 without `weights`."""
        ...

    def leapfrog_trajectory(self, z: Array, momentum: Array, epsilon: float, steps: int) -> tuple[Array, Array]:
        """Return z and momentum after `steps` leapfrog steps, in new arrays."""
        ...


def take_leapfrog_steps(energy: RowEnergy, z: Array, momentum: Array, epsilon: float, steps: int) -> tuple[Array, Array]:
    """Take `steps` leapfrog steps along any energy, with half steps of the momentum at both ends.

    Source: Teh (2003), eq. 4.38 and 4.40; Neal (1993), sec. 5.
    """
    size = z.dtype.type(epsilon)
    half = z.dtype.type(0.5) * size
    # Hamilton's equations of H = E + ½|k|² (eq. 4.34) are dz/dτ = k, dk/dτ = −∂E/∂z (eq. 4.36, 4.37).  Kicks of ε and drifts of ε
    # alternate; two half kicks in a row are one whole kick (second form of eq. 4.40).  Each is a shear, so the map preserves volume
    # and, run with −k, retraces itself.
    z, momentum = z.copy(), momentum - half * energy.gradient(z)
    for t in range(steps):
        z += size * momentum
        momentum -= (size if t < steps - 1 else half) * energy.gradient(z)
    return z, momentum


@dataclass(frozen=True)
class LinearExperts:
    """The energy of independent experts on linear filters.  J (M, D), gamma (M,)."""

    J: Array
    gamma: Array
    expert: Expert

    def energy(self, z: Array) -> Array:
        u = z @ self.J.T
        if u.dtype != np.float32 or self.expert.loop is None:
            result: Array = (self.gamma * self.expert.energy(u)).sum(axis=1, dtype=np.float64)
            return result
        found = np.empty(len(z))
        fast.expert_energy(u, self.gamma, self.expert.loop, found)
        return found

    def slope(self, z: Array) -> tuple[Array, Array]:
        """Return outputs u and ∂E/∂u, both (n, M)."""
        u = z @ self.J.T
        return u, self._weighted_slope(u.copy())

    def _weighted_slope(self, u: Array) -> Array:
        if u.dtype == np.float32 and self.expert.loop is not None:
            fast.expert_slope(u, self.gamma, self.expert.loop)
            return u
        result: Array = self.gamma * self.expert.slope(u)
        return result

    def gradient(self, z: Array) -> Array:
        # u = Jz, so that ∂E/∂z = J'(γ ∘ E'(u)) and ∂E/∂J = (γ ∘ E'(u)) z': one slope serves both.
        result: Array = self._weighted_slope(z @ self.J.T) @ self.J
        return result

    def laplacian(self, z: Array) -> Array:
        # ∂²E/∂z_d² = Σ_i γ_i E''(u_i) J_id², and Σ_d J_id² = |J_i|².
        curvature = self.gamma * self.expert.curvature(z @ self.J.T)
        result: Array = curvature @ (self.J**2).sum(axis=1)
        return result

    def parameters(self, z: Array, weights: bool = True) -> tuple[Array, Array]:
        u, slope = self.slope(z)
        by_gamma = self.expert.energy(u).sum(axis=0) if weights and self.expert.learns_gamma else np.zeros_like(self.gamma)
        return slope.T @ z, by_gamma

    def leapfrog_trajectory(self, z: Array, momentum: Array, epsilon: float, steps: int) -> tuple[Array, Array]:
        if z.dtype != np.float32 or self.expert.loop is None:
            return take_leapfrog_steps(self, z, momentum, epsilon, steps)
        number, (M, D) = self.expert.loop, self.J.shape
        if M * D <= NARROW and M <= 2 * D:
            return self._leapfrog_compiled(z, momentum, epsilon, steps, number)
        z, momentum = z.copy(), momentum.copy()
        u, down = np.empty((len(z), M), dtype=np.float32), np.empty_like(z)
        for t in range(steps + 1):
            np.matmul(z, self.J.T, out=u)
            fast.expert_slope(u, self.gamma, number)
            np.matmul(u, self.J, out=down)
            down *= np.float32(epsilon if 0 < t < steps else 0.5 * epsilon)
            momentum -= down
            if t < steps:
                np.multiply(momentum, np.float32(epsilon), out=down)
                z += down
        return z, momentum

    def _leapfrog_compiled(self, z: Array, momentum: Array, epsilon: float, steps: int, number: int) -> tuple[Array, Array]:
        """Return the trajectory computed by compiled steps of the outputs."""
        M, D = self.J.shape
        J, gamma = self.J, self.gamma
        if M % 8:
            J, gamma = np.zeros((-(-M // 8) * 8, D), dtype=np.float32), np.zeros(-(-M // 8) * 8, dtype=np.float32)
            J[:M], gamma[:M] = self.J, self.gamma
        n, size = len(z), np.float32(epsilon)
        start = np.concatenate([z, momentum]) @ J.T
        sums = np.empty((2 * n, len(J)), dtype=np.float32)
        scratch = np.empty(fast.leapfrog_scratch(len(J)), dtype=np.float32)
        fast.leapfrog(start[:n], start[n:], J @ J.T, gamma, number, epsilon, steps, sums[:n], sums[n:], scratch)
        down = sums @ J
        # Momenta change by multiples of J' alone: after the kick at step t k_t = k − J'a_t, with a_t the sum of slopes times steps, and z
        # moves by ε Σ_t k_t = ε (L k − J'Σ a_t).  The loop computes a_L and Σ_{t<L} a_t; it needs only Jz, Jk and JJ'.
        return z + size * (np.float32(steps) * momentum - down[n:]), momentum - down[:n]


@dataclass(frozen=True)
class TopographicEnergy:
    """Student energies of locally pooled squared outputs.  J (M, D), gamma (K,), pooling P (K, M) ≥ 0."""

    J: Array
    gamma: Array
    pooling: Array

    def energy(self, z: Array) -> Array:
        pooled = np.square(z @ self.J.T) @ self.pooling.T
        result: Array = (self.gamma * np.log1p(pooled)).sum(axis=1, dtype=np.float64)
        return result

    def _slope(self, u: Array) -> tuple[Array, Array]:
        """Return the pooled squares (n, K) and ∂E/∂u (n, M) by backpropagation."""
        pooled = np.square(u) @ self.pooling.T
        # v_k = Σ_i P_ki u_i²: ∂E/∂u_i = Σ_k γ_k/(1 + v_k) · 2 P_ki u_i.
        return pooled, 2.0 * u * ((self.gamma / (1.0 + pooled)) @ self.pooling)

    def gradient(self, z: Array) -> Array:
        result: Array = self._slope(z @ self.J.T)[1] @ self.J
        return result

    def laplacian(self, z: Array) -> Array:
        """Return Σ_k γ_k (Δv_k / (1 + v_k) − |∇v_k|² / (1 + v_k)²), v = P u²."""
        u = z @ self.J.T
        pooled = 1.0 + np.square(u) @ self.pooling.T
        # Δ log(1 + v) = Δv/(1 + v) − |∇v|²/(1 + v)², with ∇v_k = Σ_i 2 P_ki u_i J_i and Δv_k = Σ_i 2 P_ki |J_i|².
        first = (self.gamma / pooled) @ (2.0 * self.pooling @ (self.J**2).sum(axis=1))
        second = np.zeros(len(z))
        for k, row in enumerate(self.pooling):
            down = (2.0 * u * row) @ self.J
            second += self.gamma[k] * np.square(down).sum(axis=1) / pooled[:, k] ** 2
        result: Array = first - second
        return result

    def parameters(self, z: Array, weights: bool = True) -> tuple[Array, Array]:
        pooled, slope = self._slope(z @ self.J.T)
        return slope.T @ z, np.log1p(pooled).sum(axis=0)

    def leapfrog_trajectory(self, z: Array, momentum: Array, epsilon: float, steps: int) -> tuple[Array, Array]:
        return take_leapfrog_steps(self, z, momentum, epsilon, steps)


@dataclass(frozen=True)
class ManifoldEnergy:
    """The energy from the volume element of the map z → f(Jz), f' = density.  J (M, D), M ≥ D; γ is not used.

    With s_i = f'(u_i)² and G = J' diag(s) J, the leverages h_i = s_i J_i G⁻¹ J_i' sum to D, and
    ∂E/∂u_i = h_i E_i'(u_i) with E_i = −log f': a square map has h = 1 and equals `LinearExperts`, up to a constant.
    """

    J: Array
    gamma: Array
    expert: Expert

    def _parts(self, u: Array) -> tuple[Array, Array, Array]:
        """Return log det G (n,), s (n, M) and G (n, D, D), the last two up to e^{−2 top}; top avoids underflow of s."""
        energies = self.expert.energy(u) + self.expert.log_z(self.gamma)
        # s_i = e^{−2E_i} may underflow for all i at once.  With s e^{2 top} in its place, G grows by e^{2 top} and log det G
        # by 2 D top, and G⁻¹ shrinks by the same factor, so that s G⁻¹, from which slopes are computed, does not change.
        top = energies.min(axis=1, keepdims=True)
        s = np.exp(2.0 * (top - energies))
        G = np.matmul(self.J.T, s[:, :, np.newaxis] * self.J)
        _, logs = np.linalg.slogdet(G)
        return logs - 2.0 * top[:, 0] * self.J.shape[1], s, G

    def _solve_metric(self, G: Array) -> Array:
        """Return J G⁻¹ (n, M, D); NaN for rows so far out that G is singular by rounding, which learning then steps back from."""
        right = np.broadcast_to(self.J.T, (len(G), *self.J.T.shape))
        try:
            found = np.linalg.solve(G, right)
        except np.linalg.LinAlgError:
            found, sound = np.full(right.shape, np.nan, dtype=G.dtype), np.linalg.slogdet(G)[0] > 0
            found[sound] = np.linalg.solve(G[sound], right[sound])
        return found.transpose(0, 2, 1)

    def energy(self, z: Array) -> Array:
        blocks = _row_parts(z)
        return np.concatenate([-0.5 * self._parts(rows @ self.J.T)[0].astype(np.float64) for rows in blocks])

    def _slope(self, z: Array) -> tuple[Array, Array]:
        """Return ∂E/∂u (n, M) at constant outer J, and Σ_n ∂E/∂J at constant u."""
        slopes, direct = [], np.zeros_like(self.J)
        for rows in _row_parts(z):
            u = rows @ self.J.T
            _, s, G = self._parts(u)
            solved = self._solve_metric(G)
            # d(−½ log det G) = −½ tr G⁻¹ dG, G = Σ_i s_i J_i'J_i.  In u_i, ds_i = −2 s_i E_i' du_i: the slope is s_i J_i G⁻¹J_i' E_i' = h_i
            # E_i'. In J at constant u, dG = Σ s_i (dJ_i'J_i + J_i'dJ_i): the slope is −s_i J_i G⁻¹, row i of −J^{−T} where J is square.
            weighted = s[:, :, np.newaxis] * solved
            slopes.append((weighted * self.J).sum(axis=2) * self.expert.slope(u))
            direct -= weighted.sum(axis=0)
        return np.concatenate(slopes), direct

    def gradient(self, z: Array) -> Array:
        result: Array = self._slope(z)[0] @ self.J
        return result

    def laplacian(self, z: Array, width: float = 1e-4) -> Array:
        """Return the Laplacian by central differences of the gradient, at the cost of 2D gradients."""
        result = np.zeros(len(z))
        for d in range(z.shape[1]):
            shift = np.zeros(z.shape[1], dtype=z.dtype)
            shift[d] = width
            result += (self.gradient(z + shift) - self.gradient(z - shift))[:, d] / (2.0 * width)
        return result

    def parameters(self, z: Array, weights: bool = True) -> tuple[Array, Array]:
        slope, direct = self._slope(z)
        return direct + slope.T @ z, np.zeros_like(self.gamma)

    def leapfrog_trajectory(self, z: Array, momentum: Array, epsilon: float, steps: int) -> tuple[Array, Array]:
        return take_leapfrog_steps(self, z, momentum, epsilon, steps)


def _row_parts(z: Array) -> list[Array]:
    return [z[start : start + MANIFOLD_ROWS] for start in range(0, len(z), MANIFOLD_ROWS)]


def make_energy(
    J: Array, gamma: Array, experts: str | Sequence[str], *, topography: Array | None = None, density: str | None = None
) -> RowEnergy:
    """Return the energy of a fit: of one expert or one per output, of "infomax" with its density, or pooled by a topography."""
    names = [experts] if isinstance(experts, str) else experts
    if topography is not None:
        return TopographicEnergy(J, gamma, topography)
    if names[0] == "infomax":
        return ManifoldEnergy(J, gamma, EXPERTS[density or "logistic"])
    return LinearExperts(J, gamma, combine_experts(names))


def normalisable_weight_floor(gamma: Array, D: int, margin: float = 1e-3) -> float:
    """Return the least floor τ for which max(γ, τ) gives a normalisable product of Student experts in D dimensions.

    With M filters in general position and γ sorted ascending, e^{−E} has a finite integral where
    2 Σ_{i ≤ M − D + k} γ_(i) > k for k = 1 … D.  In a subspace of k dimensions D − k filters may be silent.
    `margin` is the relative distance kept from that boundary.  Returns −inf if γ is already inside.
    """
    # In a subspace of k dimensions D − k filters are 0.  Along its rays e^{−E} falls as r^{−2Σγ} over the others, and ∫ r^{k−1}
    # r^{−2Σγ} dr is finite where 2Σγ > k.  The worst case is that the D − k largest γ are silent, which leaves the M − D + k smallest.
    ordered = np.sort(gamma.astype(np.float64))
    need = 0.5 * (1.0 + margin) * np.arange(1, D + 1)
    counts = len(ordered) - D + np.arange(1, D + 1)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    if (sums[counts] >= need).all():
        return -np.inf
    floor = -np.inf
    for count, bound in zip(counts.tolist(), need.tolist(), strict=True):
        if sums[count] < bound:  # Σ max(γ_(i), τ) ≥ r τ + Σ_{i > r} γ_(i) for every r, and = for the right one
            raised = np.arange(1, count + 1)
            floor = max(floor, float(((bound - (sums[count] - sums[raised])) / raised).min()))
    return floor


def raise_weights_to_normalisable(gamma: Array, D: int) -> tuple[Array, int]:
    """Return γ raised to the least floor, 0 or above, that makes the Student product normalisable, and how many were raised.

    Below 0 an expert would reward large outputs; many others can outweigh it, and the integral is still finite.
    """
    floor = max(0.0, normalisable_weight_floor(gamma, D))
    low = gamma < floor
    return np.where(low, gamma.dtype.type(floor), gamma), int(np.count_nonzero(low))
