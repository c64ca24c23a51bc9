"""Maximum-likelihood ICA of whitened rows: L-BFGS in relative coordinates, preconditioned by the model's own Hessian.

    L(J) = −log|det J| + E Σ_i (E_i(u_i) + log z_i),  u = J z,       J ← (I + P) J

    gradient along P    G_ij = E ψ_i(u_i) u_j − δ_ij,  ψ = E'
    curvature, without E ψ'_i u_j u_k of j ≠ k:  Σ_ij h_ij P_ij² / 2 + Σ_ij P_ij P_ji / 2,  h_ij = E ψ'_i u_j²

The 2 × 2 blocks of that curvature are kept positive and start each L-BFGS recursion; a step is halved until L falls.
Rows are first thinned out: the optimum of the thinned ones is where all rows begin.
Source: Pham & Garat (1997) for the likelihood; Ablin, Cardoso & Gramfort (2018) for the preconditioner.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.ica.experts import EXPERTS, Expert, check_integrable
from herdcli.schema import Array, array

DENSITIES = ("logistic", "student", "laplace-smooth")
MEMORY = 7
LEAST_CURVATURE = 0.01
HALVINGS = 10
THINNED = 8192  # rows of the first optimisation, where there are twice as many or more
BLOCK_ELEMENTS = 1 << 15  # outputs that stay in the cache


@dataclass(frozen=True)
class Problem:
    """Whitened rows Z (n, D) float64, a density, and the largest |G_ij| at which the fit is done.

    gamma  of every expert.      iterations  at most.
    """

    Z: Array
    density: str = "laplace-smooth"
    gamma: float = 1.0
    tolerance: float = 1e-7
    iterations: int = 500
    initial: Array | None = None
    _columns: dict[int, Array] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.density not in DENSITIES:
            raise BadUsage(f"density '{self.density}' has no curvature to go by", hint=f"use one of {', '.join(DENSITIES)}, or infomax")
        check_integrable(self.density, self.gamma)
        if len(self.Z) < 2:
            raise DataError("there must be at least two rows")

    def columns(self, stage: int) -> Array:
        """The rows of a stage as columns (D, n'), contiguous: every so many of them in stage 0, all in stage 1."""
        if stage not in self._columns:
            self._columns.clear()
            every = len(self.Z) // THINNED if stage == 0 else 1
            self._columns[stage] = np.ascontiguousarray(self.Z[:: max(1, every)].T)
        return self._columns[stage]


@dataclass
class State:
    """J and what the next step needs; `stage` 0 is on thinned rows."""

    step: int
    stage: int
    done: bool
    loss: float
    J: Array = array("M D", "filters", kind="f")
    G: Array = array("M M", "relative gradient", kind="f")
    h: Array = array("M M", "curvature h_ij", kind="f")
    moves: Array = array("m M M", "last steps P", kind="f")
    changes: Array = array("m M M", "changes of G along them", kind="f")
    trace: Array = array("T", "mean log-likelihood after each step", kind="f")


@dataclass(frozen=True)
class Evaluation:
    """L at J, its relative gradient and the curvature h."""

    loss: float
    G: Array
    h: Array


def evaluate(problem: Problem, stage: int, J: Array) -> Evaluation:
    """L, G and h over the rows of a stage, block by block."""
    columns, expert = problem.columns(stage), EXPERTS[problem.density]
    M, n = len(J), columns.shape[1]
    total, G, h = 0.0, np.zeros((M, M)), np.zeros((M, M))
    size = max(1, BLOCK_ELEMENTS // M)
    for start in range(0, n, size):
        u = J @ columns[:, start : start + size]
        energy, slope, curved = _derivatives(expert, u)
        total += energy
        G += slope @ u.T
        h += curved @ (u * u).T
    gamma = problem.gamma
    log_z = float(expert.log_z(np.full(M, gamma)).sum())
    loss = gamma * total / n + log_z - float(np.linalg.slogdet(J)[1])
    return Evaluation(loss, gamma * G / n - np.eye(M), gamma * h / n)


def _derivatives(expert: Expert, u: Array) -> tuple[float, Array, Array]:
    """Σ E, E' and E'' of a block.  tanh and log cosh share what they can."""
    if expert.name == "student":
        return float(expert.energy(u).sum()), expert.slope(u), expert.curvature(u)
    half = 0.5 if expert.name == "logistic" else 1.0  # E = (1/half) log cosh(half u) + const
    size = np.abs(u)
    size *= -2.0 * half
    decay = np.exp(size)
    slope = np.copysign((1.0 - decay) / (1.0 + decay), u)
    # log cosh(v) = |v| + log(1 + e^{−2|v|}) − log 2, and the logistic energy is 2 log cosh(u/2) + 2 log 2
    total = -0.5 * float(size.sum()) + float(np.log1p(decay, out=decay).sum())
    if half == 1.0:
        total -= u.size * np.log(2.0)
        return total, slope, 1.0 - slope * slope
    return 2.0 * total, slope, 0.5 * (1.0 - slope * slope)


def init(problem: Problem) -> State:
    """J = I, or as given; on thinned rows first where there are many."""
    D = problem.Z.shape[1]
    J = np.eye(D) if problem.initial is None else problem.initial.astype(np.float64)
    stage = 0 if len(problem.Z) >= 2 * THINNED else 1
    found = evaluate(problem, stage, J)
    none = np.zeros((0, D, D))
    return State(0, stage, False, found.loss, J, found.G, found.h, none, none, np.array([-found.loss]))


def step(problem: Problem, state: State) -> State:
    """One L-BFGS step; the move to all rows counts as one.  `done` where the gradient is below the tolerance, or L cannot fall."""
    tolerance = problem.tolerance if state.stage else 10.0 / len(problem.columns(0).T)
    state.step += 1
    if np.abs(state.G).max() <= tolerance or not _advance(problem, state):
        if state.stage == 0:
            state.stage = 1
            found = evaluate(problem, 1, state.J)
            state.loss, state.G, state.h = found.loss, found.G, found.h
            state.moves = state.changes = np.zeros((0, *state.G.shape))
        else:
            state.done = True
    state.trace = np.append(state.trace, -state.loss)
    return state


def _advance(problem: Problem, state: State) -> bool:
    """Move along the L-BFGS direction, else along the preconditioned gradient; False where neither lowers L."""
    for direction in (_direction(state), -_solve(state.h, state.G)):
        slope = float((direction * state.G).sum())
        if slope >= 0:
            continue
        size = 1.0
        for _ in range(HALVINGS):
            J = state.J + size * direction @ state.J
            found = evaluate(problem, state.stage, J)
            if found.loss < state.loss + 1e-4 * size * slope:
                break
            size *= 0.5
        else:
            continue
        state.moves = np.concatenate([state.moves, size * direction[None]])[-MEMORY:]
        state.changes = np.concatenate([state.changes, (found.G - state.G)[None]])[-MEMORY:]
        state.J, state.loss, state.G, state.h = J, found.loss, found.G, found.h
        return True
    return False


def _direction(state: State) -> Array:
    """−H⁻¹ G by the two loops of L-BFGS, with the block curvature in the middle."""
    q, pairs = state.G.copy(), []
    for move, change in zip(state.moves[::-1], state.changes[::-1], strict=True):
        inner = float((move * change).sum())
        if inner > 0:
            a = float((move * q).sum()) / inner
            pairs.append((a, inner, move, change))
            q -= a * change
    r = _solve(state.h, q)
    for a, inner, move, change in reversed(pairs):
        r += (a - float((change * r).sum()) / inner) * move
    return -r


def _solve(h: Array, G: Array) -> Array:
    """Blocks [h_ij 1; 1 h_ji] solved for (G_ij, G_ji), with smallest eigenvalues raised to LEAST_CURVATURE."""
    least = 0.5 * (h + h.T - np.sqrt((h - h.T) ** 2 + 4.0))
    lifted = h + np.maximum(LEAST_CURVATURE - least, 0.0)
    np.fill_diagonal(lifted, np.maximum(np.diag(h) + 1.0, LEAST_CURVATURE))
    determinant = lifted * lifted.T - 1.0
    np.fill_diagonal(determinant, 1.0)
    result: Array = (lifted.T * G - G.T) / determinant
    np.fill_diagonal(result, np.diag(G) / np.diag(lifted))
    return result
