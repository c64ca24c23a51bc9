"""Separation of sources by their time structure: joint diagonalisation of the lagged covariances of whitened rows (SOBI).

Rows z_t in order of time, z = V s with V orthogonal and sources that are uncorrelated at every lag:

    C_l = ½ E[z_t z_{t−l}' + z_{t−l} z_t'] = V diag(ρ_1(l), …, ρ_D(l)) V',      l = 1 … L

so that V diagonalises all C_l at once.  Densities do not matter: Gaussian sources are separated too, but not two sources with the same
autocorrelations ρ(l).  A sweep rotates every pair of columns by the angle that minimises the off-diagonal entries.
Source: Belouchrani, Abed-Meraim, Cardoso & Moulines (1997); the angle is that of Cardoso & Souloumiac (1996).
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from herdcli.algorithm import HasStateShapes, RunProgress
from herdcli.errors import BadUsage
from herdcli.ica.experts import choose_density_signs, density_names
from herdcli.ica.model import ICATrace
from herdcli.ica.results import ICAFit
from herdcli.records import dataclass
from herdcli.schema import Array, array

LAGS = 100
SUPER = "laplace-smooth"
BLOCK = 1 << 14  # rows multiplied at one time


@dataclass(frozen=True)
class SOBIProblem:
    """Whitened rows Z (n, D) in order of time, lags 1 … `lags`, and the tolerance for the sine of a sweep's largest rotation."""

    Z: Array
    lags: int = LAGS
    tolerance: float = 1e-7
    iterations: int = 500

    def __post_init__(self) -> None:
        n, D = self.Z.shape
        if self.lags >= n:
            raise BadUsage(f"{self.lags} lags are too many for {n} rows", hint=f"use --lags {max(1, n // 4)}")
        if not np.allclose(self.Z.T @ self.Z / n, np.eye(D), atol=1e-6):
            raise BadUsage("sobi needs whitened rows", hint="use --whiten zca or pca")

    def experts(self, J: Array) -> list[str]:
        """Return the density of each output by its sign, since the time structure determines none."""
        return density_names(choose_density_signs(J @ self.Z.T), SUPER)


@dataclass
class SOBIState:
    """The rotation so far, and the covariances rotated by it."""

    step: int
    turned: float  # the largest |sin| of a rotation in the last sweep
    J: Array = array("D D", "filters, V'", kind="f", finite=True)
    C: Array = array("L D D", "J C_l J'", kind="f", finite=True)
    trace: Array = array("T", "what is left off the diagonals, mean square over lags", kind="f")


def lagged_covariances(Z: Array, lags: int) -> Array:
    """Return C_l (L, D, D) for l = 1 … L, symmetric, each a mean over the n − l pairs of rows."""
    n, D = Z.shape
    found = np.zeros((lags, D, D))
    for start in range(0, n, BLOCK):
        rows = Z[start : start + BLOCK]
        for lag in range(1, lags + 1):
            later = Z[start + lag : start + lag + len(rows)]
            found[lag - 1] += rows[: len(later)].T @ later
    found /= (n - np.arange(1, lags + 1))[:, np.newaxis, np.newaxis]
    result: Array = 0.5 * (found + found.transpose(0, 2, 1))
    return result


def _initial_state(problem: SOBIProblem) -> SOBIState:
    C = lagged_covariances(problem.Z, problem.lags)
    return SOBIState(0, np.inf, np.eye(problem.Z.shape[1]), C, np.array([_off_diagonal_energy(C)]))


def _jacobi_sweep(state: SOBIState) -> SOBIState:
    state.turned = 0.0
    for p, q in combinations(range(len(state.J)), 2):
        c, s = _jacobi_rotation(state.C, p, q)
        state.turned = max(state.turned, abs(s))
        R = np.array([[c, s], [-s, c]])
        state.J[[p, q]] = R @ state.J[[p, q]]
        state.C[:, [p, q]] = R @ state.C[:, [p, q]]
        state.C[:, :, [p, q]] = state.C[:, :, [p, q]] @ R.T
    state.step += 1
    state.trace = np.append(state.trace, _off_diagonal_energy(state.C))
    return state


def _jacobi_rotation(C: Array, p: int, q: int) -> tuple[float, float]:
    """Return (cos θ, sin θ) of the rotation of p and q that minimises the entries (p, q) of all C_l.

    With h_l = (C_pp − C_qq, 2 C_pq), the rotated entry is ½ h·(−sin 2θ, cos 2θ): (cos 2θ, sin 2θ) is the first eigenvector of Σ h h'.
    """
    across, along = C[:, p, p] - C[:, q, q], 2.0 * C[:, p, q]
    on, off = float(across @ across - along @ along), float(2.0 * across @ along)
    # The first eigenvector of [a b; b d] lies along (a − d + √((a − d)² + 4b²), 2b), here on = a − d and off = 2b.  Its first entry is not
    # negative, so that |θ| ≤ π/4: the inner rotation, which does not swap p and q.
    theta = 0.5 * np.arctan2(off, on + np.hypot(on, off))
    return float(np.cos(theta)), float(np.sin(theta))


def _off_diagonal_energy(C: Array) -> float:
    return float((np.square(C).sum() - np.square(np.diagonal(C, axis1=1, axis2=2)).sum()) / len(C))


def find_indistinguishable_pairs(problem: SOBIProblem, state: SOBIState, sigmas: float = 4.0) -> list[tuple[int, int]]:
    """Return pairs of outputs that SOBI cannot separate: their autocorrelations differ by less than `sigmas` · √(2/n)."""
    told = np.diagonal(state.C, axis1=1, axis2=2)
    error = np.sqrt(2.0 / len(problem.Z))
    return [(p, q) for p, q in combinations(range(len(state.J)), 2) if np.abs(told[:, p] - told[:, q]).max() < sigmas * error]


@dataclass(frozen=True)
class JointDiagonalisation(HasStateShapes[SOBIState]):
    """SOBI as an algorithm."""

    problem: SOBIProblem

    @property
    def state(self) -> type[SOBIState]:
        return SOBIState

    def state_template(self) -> SOBIState:
        """Return a state without rotation and covariances, as a template for checkpoints."""
        D = self.problem.Z.shape[1]
        return SOBIState(0, np.inf, np.eye(D), np.zeros((self.problem.lags, D, D)), np.zeros(1))

    def init(self) -> SOBIState:
        """Return a state without rotation."""
        return _initial_state(self.problem)

    def step(self, state: SOBIState) -> SOBIState:
        """Make one sweep over all pairs of outputs."""
        return _jacobi_sweep(state)

    def done(self, state: SOBIState) -> bool:
        """Return whether all rotations of the last sweep were below the tolerance, or all iterations are used."""
        return state.turned <= self.problem.tolerance or state.step >= self.problem.iterations

    def memory(self) -> int:
        """Return the bytes of the lagged covariances, and of a copy while they are symmetrised."""
        D: int = self.problem.Z.shape[1]
        return 8 * (3 * self.problem.lags * D * D + BLOCK * D)

    def progress(self, state: SOBIState) -> RunProgress:
        """Return the largest rotation of the last sweep, which falls to the tolerance."""
        return RunProgress(state.step, self.problem.iterations, f"turned by {state.turned:.1e}")

    def result(self, state: SOBIState) -> ICAFit:
        """Return the rotation, marked as unconverged if the last sweep still rotated."""
        problem, turned = self.problem, state.turned
        pairs = find_indistinguishable_pairs(problem, state)
        return ICAFit(
            state.J,
            np.ones(len(state.J)),
            ICATrace(np.arange(len(state.trace)), -state.trace),
            state.step,
            "contrast",
            {"experts": problem.experts(state.J)},
            (f"{len(pairs)} pairs of outputs have the same autocorrelations: their rotation is not identifiable",) if pairs else (),
            chosen=True,
            unconverged="" if turned <= problem.tolerance else f"the last sweep turned by {turned:.2g}",
        )
