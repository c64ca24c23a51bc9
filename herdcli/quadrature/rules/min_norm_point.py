"""The minimum-norm-point rule: after each new atom, the exact minimum over the hull of all atoms in use.

Source: Wolfe (1976); Bach, Lacoste-Julien & Obozinski (2012), sec. 3.2.  The minor steps are those of `simplex`.
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import DataError
from herdcli.numerics import exact_arithmetic
from herdcli.quadrature import simplex
from herdcli.quadrature.rules.candidate_space import TIE, CandidateSpace
from herdcli.quadrature.rules.rule import Rule, SelectedAtoms, SelectionTask, max_distinct_atoms
from herdcli.quadrature.simplex import Hull
from herdcli.records import dataclass
from herdcli.schema import Array, array, require_valid_indices

PER_ATOM = 10  # major cycles allowed per requested atom
PATIENCE = 5  # after this many consecutive refused or useless atoms the limit of rounding is assumed


@dataclass
class MinNormPointState:
    """The hull in use.  `major_cycle` counts major cycles; `ended` is the reason for the end, "" while running."""

    step: int
    hull: Hull
    ended: str
    stalled: int
    mmd: Array = array("m", "‖g − μ‖ when t = 1 … m atoms were last in use, NaN where they never were", kind="f")
    gap: Array = array("m", "duality gap then", kind="f")
    running: Array = array("N", "g at the candidates", kind="f", finite=True)
    refused: Array = array("r", "candidates that lie in the affine hull of the atoms to rounding", kind="i")

    def validate(self) -> None:
        """Raise DataError unless the atoms in use are candidates."""
        if not 1 <= self.hull.size <= min(len(self.hull.ids), len(self.mmd)):
            raise DataError(f"is damaged: it lists {self.hull.size} atoms, but has space for {min(len(self.hull.ids), len(self.mmd))}")
        for name, places in (("/hull/ids", self.hull.ids[: self.hull.size]), ("/refused", self.refused)):
            require_valid_indices(name, places, len(self.running), "a candidate")


@dataclass(frozen=True)
class MinNormPointProblem:
    """A space with candidates, and the requested number of atoms."""

    space: CandidateSpace
    count: int


def initial_state(problem: MinNormPointProblem) -> MinNormPointState:
    """Return the state with one atom: the candidate nearest to μ."""
    space = problem.space
    first = space.first_best_index(space.single_point_scores)
    hull = simplex.allocate_hull(problem.count, space.scale)
    simplex.add_point(hull, first, np.zeros(0), float(space.diagonal[first]), float(space.embedding[first]))
    state = MinNormPointState(
        step=0,
        hull=hull,
        ended="",
        stalled=0,
        mmd=np.full(problem.count, np.nan),
        gap=np.full(problem.count, np.nan),
        running=space.points.values(space.candidates[first]),
        refused=np.zeros(0, dtype=np.int64),
    )
    _record_trace(problem, state)
    return state


def extend_state(problem: MinNormPointProblem, state: MinNormPointState) -> MinNormPointState:
    """Return the same state with memory for the problem's number of atoms."""
    room = max(0, problem.count - len(state.mmd))
    state.hull = simplex.enlarge_hull(state.hull, problem.count)
    state.mmd, state.gap = (np.concatenate([trace, np.full(room, np.nan)]) for trace in (state.mmd, state.gap))
    if room and state.ended in ("count", "cap"):
        state.ended = ""
    return state


def total_steps(problem: MinNormPointProblem) -> int:
    """Return the largest number of major cycles, for any number of atoms."""
    return PER_ATOM * problem.count + 100


def major_cycle(problem: MinNormPointProblem, state: MinNormPointState) -> MinNormPointState:
    """Run one major cycle.

    `ended` becomes count (enough atoms are in use), gap or rounding (nothing descends), or cap (too many cycles).
    """
    space, hull = problem.space, state.hull
    if hull.size == problem.count:
        return _end_run(state, "count")
    # Major cycle, linear minimisation over the candidates: the gradient of ½‖g − μ‖² at Φ(x) is ⟨g − μ, Φ(x)⟩ = g(x) − μ(x).
    slope = state.running - space.embedding
    index = hull.ids[: hull.size]
    level = float(exact_arithmetic.matrix_product(slope[index], hull.weight[: hull.size]))
    # The slope is `level` at all atoms in use, as their weights minimise over their hull; without rounding none of them could be the next.
    slope[index] = level
    slope[state.refused] = level
    best = space.first_best_index(-slope)
    if level - slope[best] <= TIE * space.scale or state.stalled >= PATIENCE:
        return _end_run(state, "gap" if state.stalled < PATIENCE else "rounding")
    # The candidate of least slope joins the support, and minor cycles minimise over the hull of it (Bach et al. 2012, sec. 3.2, after
    # Wolfe 1976).  g at the candidates is summed anew from the new weights, so rounding does not accumulate over cycles.
    before = _hull_objective(hull)
    row = space.kernel.matrix(space.candidates[best : best + 1], space.candidates[index])[0]
    if simplex.add_point(hull, best, row, float(space.diagonal[best]), float(space.embedding[best])):
        simplex.move_to_hull_minimum(hull)
        state.stalled = 0 if _hull_objective(hull) < before else state.stalled + 1
        state.refused = state.refused[:0] if not state.stalled else state.refused
        index = hull.ids[: hull.size]
        state.running = space.points.weighted_kernel_sums(space.candidates[index], hull.weight[: hull.size])
        _record_trace(problem, state)
    else:
        # A candidate in the affine hull of the support would make the factor singular: it is left out until a cycle descends.
        state.refused = np.append(state.refused, best)
        state.stalled += 1
    state.step += 1
    if hull.size == problem.count:
        return _end_run(state, "count")
    return _end_run(state, "cap") if state.step >= total_steps(problem) else state


def _hull_objective(hull: Hull) -> float:
    quadratic, linear = simplex.quadratic_and_linear_terms(hull)
    return 0.5 * quadratic - linear


def _end_run(state: MinNormPointState, reason: str) -> MinNormPointState:
    state.ended = reason
    return state


def _record_trace(problem: MinNormPointProblem, state: MinNormPointState) -> None:
    # The duality gap max_x ⟨g − μ, g − Φ(x)⟩ = ⟨g, g⟩ − ⟨g, μ⟩ − min_x (g(x) − μ(x)) bounds how much the objective can still fall.
    quadratic, linear = simplex.quadratic_and_linear_terms(state.hull)
    state.mmd[state.hull.size - 1] = problem.space.mmd_from_terms(quadratic, linear)
    slope = state.running - problem.space.embedding
    state.gap[state.hull.size - 1] = max(0.0, quadratic - linear - float(slope.min()))


class MinNormPointRule(Rule):
    """The rule that finds the best weights of the atoms in use after each new atom."""

    field = "hull"

    def steps(self, n: int, count: int) -> int:
        """Return the largest number of major cycles."""
        return PER_ATOM * count + 100

    def working_bytes(self, n: int, d: int, count: int) -> int:
        """Return the size of the Gram matrix of the atoms, its factors and their copies."""
        return int(32 * max_distinct_atoms(n, count) ** 2)

    def make_problem(self, task: SelectionTask) -> MinNormPointProblem:
        """Return the space and the number of atoms."""
        return MinNormPointProblem(task.space, task.count)

    def begin(self, problem: MinNormPointProblem, saved: MinNormPointState | None) -> MinNormPointState:
        """Return the state with one atom, or that of an earlier run."""
        return initial_state(problem) if saved is None else extend_state(problem, saved)

    def step(self, problem: MinNormPointProblem, state: MinNormPointState) -> MinNormPointState:
        """Run one major cycle."""
        return major_cycle(problem, state)

    def latest_mmd(self, state: MinNormPointState) -> float:
        """Return the MMD of the atoms in use."""
        return float(state.mmd[state.hull.size - 1])

    def selected_atoms(self, state: MinNormPointState) -> SelectedAtoms:
        """Return the atoms in use."""
        n = state.hull.size
        return SelectedAtoms(state.ended, state.hull.ids[:n].copy(), state.hull.weight[:n].copy(), state.mmd[:n], state.gap[:n])
