"""Facility location: rows S that make Σ_i w_i max_{u in S} k(x_i, x_u) large, chosen one at a time by the largest gain.

The sum is monotone and submodular (similarities below 0 count as 0), so the greedy choice reaches at least 1 − 1/e of the optimum.  A row's
gain never increases, so an earlier value is a bound: only rows whose bound may be the largest are computed again, some at a time.
Source: Nemhauser, Wolsey & Fisher (1978), sec. 4; Minoux (1978) for the bounds.
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import DataError
from herdcli.numerics import exact_arithmetic
from herdcli.quadrature.kernels.kernel_blocks import KernelColumns
from herdcli.quadrature.rules.rule import Rule, SelectedAtoms, SelectionTask
from herdcli.records import dataclass
from herdcli.schema import Array, array, require_valid_indices

BLOCK = 1 << 17  # kernel values of rows whose gains are computed together
TIE = 2.0**-40  # gains that differ by less, relative to the sum, are equal: the lowest row is chosen


@dataclass
class FacilityState:
    """The rows chosen so far.  `facility_step` counts them; later entries are not chosen yet."""

    step: int
    ended: str
    index: Array = array("m", "row of each atom", kind="i")
    value: Array = array("m", "the sum of t = 1 … m rows", kind="f")
    best: Array = array("N", "similarity of each row to its nearest atom, at least 0", kind="f", finite=True)
    bound: Array = array("N", "gains as they were last computed; −inf of atoms", kind="f")

    def validate(self) -> None:
        """Raise DataError unless atoms are rows."""
        if not 0 <= self.step <= len(self.index):
            raise DataError(f"is damaged: it has {self.step} atoms, but space for {len(self.index)}")
        require_valid_indices("/index", self.index[: self.step], len(self.best), "a row")


@dataclass(frozen=True)
class FacilityProblem:
    """Kernel values of the rows (N, d), their weights (N,) of sum 1, and the requested number of rows."""

    columns: KernelColumns
    weights: Array
    count: int


def initial_state(problem: FacilityProblem) -> FacilityState:
    """Return the state without rows or bounds."""
    n = len(problem.weights)
    return FacilityState(0, "", np.full(problem.count, -1, dtype=np.int64), np.zeros(problem.count), np.zeros(n), np.full(n, np.inf))


def facility_step(problem: FacilityProblem, state: FacilityState) -> FacilityState:
    """Choose the row of the largest gain, the lowest of rows that are equal to rounding."""
    t, n = state.step, len(problem.weights)
    # Lazy evaluation (Minoux 1978): gains never increase, so rows whose old gain is below the best new one need not be computed.
    order, leader = np.argsort(-state.bound, kind="stable"), -np.inf
    size = max(1, BLOCK // n)
    for start in range(0, n, size):
        some = order[start : start + size]
        # Equal gains count as ties: a row may be the choice if its bound is not below the leader's gain, to rounding.
        if state.bound[some[0]] < leader - _tie_tolerance(state):
            break
        state.bound[some] = np.minimum(state.bound[some], _coverage_gains(problem, state, some))
        leader = max(leader, float(state.bound[some].max()))
    chosen = int(np.flatnonzero(state.bound >= state.bound.max() - _tie_tolerance(state))[0])
    # The coverage of each row is the similarity to its nearest atom; the objective is its weighted sum.
    np.maximum(state.best, problem.columns.compute(problem.columns.points[chosen : chosen + 1])[0], out=state.best)
    state.index[t], state.value[t] = chosen, float(exact_arithmetic.matrix_product(problem.weights, state.best))
    state.bound[chosen] = -np.inf
    state.step = t + 1
    if state.step == problem.count:
        state.ended = "count"
    return state


def _tie_tolerance(state: FacilityState) -> float:
    return TIE * float(state.value[state.step - 1]) if state.step else 0.0


def _coverage_gains(problem: FacilityProblem, state: FacilityState, rows: Array) -> Array:
    """Compute Σ_i w_i (k(x_i, row) − best_i)₊ (r,)."""
    values = problem.columns.compute(problem.columns.points[rows])
    values -= state.best
    return np.asarray(exact_arithmetic.matrix_product(np.maximum(values, 0.0, out=values), problem.weights))


class FacilityLocationRule(Rule):
    """The rule that chooses rows one at a time by their gain in coverage."""

    field = "located"

    def steps(self, n: int, count: int) -> int:
        """Return the number of steps, one per row."""
        return count

    def count_kernel_values(self, n: int, count: int) -> int:
        """Return the number of kernel values: all pairs once, and gains that are computed again."""
        return n * (n + 16 * count)

    def working_bytes(self, n: int, d: int, count: int) -> int:
        """Return the size of blocks of kernel values, and of the arrays for each row."""
        return super().working_bytes(n, d, count) + 8 * (3 * BLOCK + 4 * n)

    def make_problem(self, task: SelectionTask) -> FacilityProblem:
        """Return the kernel values of the rows and their weights."""
        space = task.space
        return FacilityProblem(KernelColumns(space.kernel, space.candidates, space.points), task.weights, task.count)

    def begin(self, problem: FacilityProblem, saved: FacilityState | None) -> FacilityState:
        """Return the state without rows."""
        return initial_state(problem)

    def step(self, problem: FacilityProblem, state: FacilityState) -> FacilityState:
        """Choose one more row."""
        return facility_step(problem, state)

    def atoms(self, state: FacilityState) -> Array:
        """Return the rows so far."""
        return state.index

    def selected_atoms(self, state: FacilityState) -> SelectedAtoms:
        """Return the rows so far with equal weights."""
        m = len(state.index)
        return SelectedAtoms(state.ended, state.index, np.full(m, 1.0 / max(m, 1)), np.full(m, np.nan), np.full(m, np.nan))
