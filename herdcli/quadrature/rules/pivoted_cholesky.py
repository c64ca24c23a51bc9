"""Randomly pivoted Cholesky: atoms sampled with probability proportional to the residual of k(x, x) after the earlier atoms.

With the atoms S so far the residual kernel is k(x, y) − k(x, S) K⁻¹ k(S, y); its diagonal d is the squared distance of Φ(x) from their
span.  A candidate is sampled with the probability w_x d(x)/Σ w d, w the rows' weights; its column adds a row to the factor F, K ≈ F'F.

The weights are the best of any sign: w = K⁻¹ z, z = μ at the atoms.  With L the factor at the atoms and y = L⁻¹ z,

    MMD² = ‖μ‖² − z'K⁻¹z = ‖μ‖² − Σ y_t²,      w = L'⁻¹ y.

Source: Chen, Epperly, Tropp & Webber (2025), randomly pivoted Cholesky, alg. 1; Epperly & Moreno (2023) for quadrature.
"""

from __future__ import annotations

import math

import numpy as np

from herdcli.errors import DataError
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.symmetric_matrices import solve_lower
from herdcli.quadrature.rules.candidate_space import CandidateSpace
from herdcli.quadrature.rules.rule import Rule, SelectedAtoms, SelectionTask
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array, require_valid_indices

NOTHING = 1e-13  # a residual of at most this share of k(x, x) is rounding


@dataclass
class CholeskyState:
    """The atoms so far.  `cholesky_step` counts them; later entries are not chosen yet."""

    step: int
    ended: str
    index: Array = array("m", "candidate of each atom", kind="i")
    factor: Array = array("m N", "row t of F, at the candidates", kind="f")
    residual: Array = array("N", "what the atoms leave of k(x, x)", kind="f", finite=True)
    along: Array = array("m", "y, the coordinates of μ", kind="f", finite=True)
    mmd: Array = array("m", "‖μ − Σ w Φ‖ of the best weights of t = 1 … m atoms", kind="f")

    def validate(self) -> None:
        """Raise DataError unless atoms are candidates."""
        if not 0 <= self.step <= len(self.index):
            raise DataError(f"is damaged: it has {self.step} atoms, but space for {len(self.index)}")
        require_valid_indices("/index", self.index[: self.step], len(self.residual), "a candidate")


@dataclass(frozen=True)
class CholeskyProblem:
    """A space with candidates, weights (N,) for sampling pivots, and the requested number of atoms."""

    space: CandidateSpace
    weights: Array
    count: int
    seed: int = 0
    unit: int = 0


def initial_state(problem: CholeskyProblem) -> CholeskyState:
    """Return the state without atoms: all of k(x, x) remains."""
    count, total = problem.count, len(problem.space.candidates)
    return CholeskyState(
        step=0,
        ended="",
        index=np.full(count, -1, dtype=np.int64),
        factor=np.zeros((count, total)),
        residual=problem.space.diagonal.astype(np.float64),
        along=np.zeros(count),
        mmd=np.full(count, np.nan),
    )


def sample_pivot(weights: Array, residual: Array, uniform: float) -> int:
    """Return the candidate at a level in [0, 1) of the distribution ∝ weights·residual (N,), −1 if nothing remains."""
    edges = np.cumsum(weights * residual)
    if not edges[-1] > 0:
        return -1
    found = int(np.searchsorted(edges, uniform * edges[-1], side="right"))
    return min(found, int(np.flatnonzero(weights * residual)[-1]))


def cholesky_step(problem: CholeskyProblem, state: CholeskyState) -> CholeskyState:
    """Add one atom.  `ended` becomes count, or rounding if the candidates' span is exhausted."""
    space, t = problem.space, state.step
    # Pivot: a candidate drawn in proportion to w_x d(x), its weight times its squared distance from the span of the atoms.
    level = float(generator(problem.seed, Stream.PIVOTS, unit=problem.unit, step=t).random())
    chosen = sample_pivot(problem.weights, state.residual, level)
    if chosen < 0:
        state.ended = "rounding"
        return state
    # Its row of the factor is the residual kernel's column, divided by its pivot: F_t = (k(s, ·) − Σ_{u<t} F_u(s) F_u)/√d(s).
    earlier = np.ascontiguousarray(state.factor[:t, chosen])
    root = math.sqrt(float(state.residual[chosen]))
    row = space.points.values(space.candidates[chosen])
    row -= exact_arithmetic.matrix_product(earlier, state.factor[:t])
    row /= root
    row[chosen] = root
    state.index[t], state.factor[t] = chosen, row
    # L is lower triangular with rows F[:, s_t]', so y_t is the remainder of z(s_t) in forward substitution.
    state.along[t] = (float(space.embedding[chosen]) - float(exact_arithmetic.matrix_product(earlier, state.along[:t]))) / root
    # d ← d − F_t².  Exact arithmetic keeps d ≥ 0; what rounding leaves is cut, so that no atom or multiple of one is drawn again.
    state.residual -= np.square(row)
    state.residual[state.residual <= NOTHING * space.diagonal] = 0.0
    state.residual[chosen] = 0.0
    state.mmd[t] = math.sqrt(max(0.0, space.norm - float(np.square(state.along[: t + 1]).sum())))
    state.step = t + 1
    if state.step == problem.count:
        state.ended = "count"
    return state


def best_atom_weights(state: CholeskyState) -> Array:
    """Compute the weights w = L'⁻¹ y (t,) of the atoms so far."""
    t = state.step
    lower = np.ascontiguousarray(state.factor[:t, state.index[:t]].T)
    return solve_lower(np.tril(lower), state.along[:t], transposed=True)


class CholeskyRule(Rule):
    """The rule that samples pivots by their residuals."""

    field = "pivoted"

    def steps(self, n: int, count: int) -> int:
        """Return the number of steps, one per atom."""
        return count

    def working_bytes(self, n: int, d: int, count: int) -> int:
        """Return the size of the factor at the candidates, and of that at the atoms."""
        return super().working_bytes(n, d, count) + 8 * n * count + 8 * count**2

    def count_kernel_values(self, n: int, count: int) -> int:
        """Return the number of kernel values: a column of the candidates for each atom."""
        return n * count

    def make_problem(self, task: SelectionTask) -> CholeskyProblem:
        """Return the space, and the weights for sampling pivots."""
        return CholeskyProblem(task.space, task.weights, task.count, task.seed, task.unit)

    def begin(self, problem: CholeskyProblem, saved: CholeskyState | None) -> CholeskyState:
        """Return the state without atoms."""
        return initial_state(problem)

    def step(self, problem: CholeskyProblem, state: CholeskyState) -> CholeskyState:
        """Add one atom."""
        return cholesky_step(problem, state)

    def latest_mmd(self, state: CholeskyState) -> float | None:
        """Return the MMD of the best weights of the atoms so far."""
        return float(state.mmd[state.step - 1]) if state.step else None

    def selected_atoms(self, state: CholeskyState) -> SelectedAtoms:
        """Return the atoms so far, with the best weights."""
        n = state.step
        return SelectedAtoms(state.ended, state.index[:n].copy(), best_atom_weights(state), state.mmd[:n].copy(), np.full(n, np.nan))
