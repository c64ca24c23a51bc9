"""Conditional gradients that can also remove weight: away steps, pairwise steps and blended pairwise steps.

In each iteration w = argmin ⟨g − μ, Φ(x)⟩ is the best candidate; a is the worst and s the best of the atoms in use:

away      g moves towards Φ(w), or away from Φ(a) if that descends faster
    pairwise  weight moves from a to w
    bpcg      weight moves from a to s while that descends faster than w, else g moves towards Φ(w)

with exact line search, clipped where a weight reaches 0.
Source: Guélat & Marcotte (1986); Lacoste-Julien & Jaggi (2015); Tsuji, Tanaka & Pokutta (2022).
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import DataError
from herdcli.numerics import exact_arithmetic
from herdcli.quadrature.rules.candidate_space import TIE, CandidateSpace
from herdcli.quadrature.rules.rule import Rule, SelectedAtoms, SelectionTask
from herdcli.records import dataclass
from herdcli.schema import Array, array, require_valid_indices

PER_ATOM = 50  # iterations allowed per requested atom


@dataclass
class ActiveSetState:
    """The atoms in use and their weights.  `active_set_step` counts iterations; `size` atoms are in use."""

    step: int
    size: int
    ended: str  # "" while running, otherwise the reason for the end
    index: Array = array("m", "candidates in use", kind="i")
    weight: Array = array("m", "their weights, of sum 1", kind="f", finite=True)
    mmd: Array = array("m", "‖g − μ‖ when t = 1 … m atoms were last in use, NaN where they never were", kind="f")
    gap: Array = array("m", "duality gap then", kind="f")
    running: Array = array("N", "g at the candidates", kind="f", finite=True)

    def validate(self) -> None:
        """Raise DataError unless the atoms in use are candidates."""
        if not 1 <= self.size <= len(self.index):
            raise DataError(f"is damaged: it lists {self.size} atoms, but has space for {len(self.index)}")
        require_valid_indices("/index", self.index[: self.size], len(self.running), "a candidate")


@dataclass(frozen=True)
class ActiveSetProblem:
    """A space with candidates, a rule (away, pairwise or bpcg), and the requested number of atoms."""

    space: CandidateSpace
    rule: str
    count: int


def initial_state(problem: ActiveSetProblem) -> ActiveSetState:
    """Return the state with one atom: the candidate nearest to μ."""
    space, count = problem.space, problem.count
    first = space.first_best_index(space.single_point_scores)
    state = ActiveSetState(
        step=0,
        size=1,
        ended="",
        index=np.full(count, -1, dtype=np.int64),
        weight=np.zeros(count),
        mmd=np.full(count, np.nan),
        gap=np.full(count, np.nan),
        running=space.points.values(space.candidates[first]),
    )
    state.index[0], state.weight[0] = first, 1.0
    _record_trace(problem, state)
    return state


def extend_state(problem: ActiveSetProblem, state: ActiveSetState) -> ActiveSetState:
    """Return the same state with memory for the problem's number of atoms."""
    room = max(0, problem.count - len(state.index))
    state.index = np.concatenate([state.index, np.full(room, -1, dtype=np.int64)])
    state.weight = np.concatenate([state.weight, np.zeros(room)])
    state.mmd, state.gap = (np.concatenate([trace, np.full(room, np.nan)]) for trace in (state.mmd, state.gap))
    if room and state.ended in ("count", "cap"):
        state.ended = ""
    return state


def total_steps(problem: ActiveSetProblem) -> int:
    """Return the largest number of iterations, for any number of atoms; each iteration descends, so the last atoms are the best."""
    return PER_ATOM * problem.count


def active_set_step(problem: ActiveSetProblem, state: ActiveSetState) -> ActiveSetState:
    """Run one iteration.

    `ended` becomes count (enough atoms are in use), gap or rounding (nothing descends), or cap (too many iterations).
    """
    space, n = problem.space, state.size
    # The slopes ⟨g − μ, Φ(x)⟩ of all candidates, and their mean over the atoms, ⟨g − μ, g⟩: directions descend relative to it.
    slope = state.running - space.embedding
    index, weight = state.index[:n], state.weight[:n]
    local = slope[index]
    level = float(exact_arithmetic.matrix_product(local, weight))
    w, a, s = space.first_best_index(-slope), int(np.argmax(local)), int(np.argmin(local))
    # Frank–Wolfe gap ⟨g − μ, g − Φ(w)⟩, which bounds the objective's distance from its minimum, and away gap ⟨g − μ, Φ(a) − g⟩.
    towards, away = level - float(slope[w]), float(local[a]) - level
    if towards <= TIE * space.scale:
        return _end_run(state, "gap")
    # Blended pairwise: a step within the support if its slope ⟨g − μ, Φ(a) − Φ(s)⟩ is at least the Frank–Wolfe gap, so that atoms are added
    # only when they pay (Tsuji et al. 2022).
    if problem.rule == "bpcg" and float(local[a] - local[s]) >= towards:
        moved = _pairwise_step(problem, state, a, int(index[s]))
    elif problem.rule == "pairwise":
        moved = _pairwise_step(problem, state, a, w)
    elif problem.rule == "away" and away > towards and n > 1:
        moved = _away_step(problem, state, a)
    else:
        moved = _forward_step(problem, state, w)
    state.step += 1
    _record_trace(problem, state)
    if not moved:
        return _end_run(state, "rounding")
    if state.size == problem.count:
        return _end_run(state, "count")
    return _end_run(state, "cap") if state.step >= total_steps(problem) else state


def _end_run(state: ActiveSetState, reason: str) -> ActiveSetState:
    state.ended = reason
    return state


def _inner_products(problem: ActiveSetProblem, state: ActiveSetState) -> tuple[float, float]:
    """Compute ⟨g, g⟩ and ⟨g, μ⟩ from the values at the atoms."""
    index, weight = state.index[: state.size], state.weight[: state.size]
    return float(exact_arithmetic.matrix_product(weight, state.running[index])), float(
        exact_arithmetic.matrix_product(weight, problem.space.embedding[index])
    )


def _record_trace(problem: ActiveSetProblem, state: ActiveSetState) -> None:
    quadratic, linear = _inner_products(problem, state)
    slope = state.running - problem.space.embedding
    state.mmd[state.size - 1] = problem.space.mmd_from_terms(quadratic, linear)
    state.gap[state.size - 1] = max(0.0, quadratic - linear - float(slope.min()))


def _forward_step(problem: ActiveSetProblem, state: ActiveSetState, w: int) -> bool:
    """Apply g ← (1−ρ) g + ρ Φ(w)."""
    space = problem.space
    quadratic, linear = _inner_products(problem, state)
    cross, own = float(state.running[w]), float(space.diagonal[w])
    # Descent of ½‖g − μ‖² along Φ(w) − g: slope ⟨g − μ, g − Φ(w)⟩, curvature ‖g − Φ(w)‖² (Lacoste-Julien & Jaggi 2015, alg. 1).
    rate = _clipped_line_search(quadratic - linear - (cross - float(space.embedding[w])), quadratic - 2 * cross + own, 1.0)
    state.weight[: state.size] *= 1 - rate
    state.running *= 1 - rate
    state.running += rate * space.points.values(space.candidates[w])
    _add_weight(state, w, rate)
    _drop_zero_weights(state)
    return rate > 0


def _away_step(problem: ActiveSetProblem, state: ActiveSetState, a: int) -> bool:
    """Apply g ← (1+ρ) g − ρ Φ(a), where a is a position among the atoms."""
    space, index = problem.space, int(state.index[a])
    quadratic, linear = _inner_products(problem, state)
    cross, own, held = float(state.running[index]), float(space.diagonal[index]), float(state.weight[a])
    # Along g − Φ(a) the weight of a is (1+ρ) w_a − ρ, which reaches 0 at ρ = w_a/(1 − w_a): the largest step within the hull
    # (Lacoste-Julien & Jaggi 2015, alg. 1).
    largest = held / (1 - held)
    rate = _clipped_line_search((cross - float(space.embedding[index])) - (quadratic - linear), quadratic - 2 * cross + own, largest)
    state.weight[: state.size] *= 1 + rate
    state.weight[a] = 0.0 if rate == largest else state.weight[a] - rate
    state.running *= 1 + rate
    state.running -= rate * space.points.values(space.candidates[index])
    _drop_zero_weights(state)
    return rate > 0


def _pairwise_step(problem: ActiveSetProblem, state: ActiveSetState, a: int, to: int) -> bool:
    """Move weight from atom number a to candidate `to`."""
    space, start = problem.space, int(state.index[a])
    values = space.points.values(space.candidates[to])
    down = values - space.points.values(space.candidates[start])
    slope = state.running - space.embedding
    # Along Φ(to) − Φ(a): slope ⟨g − μ, Φ(a) − Φ(to)⟩, curvature ‖Φ(to) − Φ(a)‖² = k(to, to) + k(a, a) − 2 k(to, a), and the step
    # is at most the weight that a has (Lacoste-Julien & Jaggi 2015, alg. 2).
    curvature = float(space.diagonal[to]) + float(space.diagonal[start]) - 2 * float(values[start])
    held = float(state.weight[a])
    rate = _clipped_line_search(float(slope[start] - slope[to]), curvature, held)
    state.weight[a] = 0.0 if rate == held else held - rate
    _add_weight(state, to, rate)
    down *= rate
    state.running += down
    _drop_zero_weights(state)
    return rate > 0


def _clipped_line_search(slope: float, curvature: float, largest: float) -> float:
    return min(largest, max(0.0, slope / curvature)) if curvature > 0 else 0.0


def _add_weight(state: ActiveSetState, candidate: int, amount: float) -> None:
    """Add weight to a candidate, which becomes the last atom if it is not in use."""
    held = np.flatnonzero(state.index[: state.size] == candidate)
    if len(held):
        state.weight[held[0]] += amount
    elif amount > 0:
        dropped = np.flatnonzero(state.weight[: state.size] == 0)
        place = int(dropped[0]) if len(dropped) and state.size == len(state.index) else state.size
        state.index[place], state.weight[place] = candidate, amount
        state.size = max(state.size, place + 1)


def _drop_zero_weights(state: ActiveSetState) -> None:
    """Remove atoms without weight."""
    kept = np.flatnonzero(state.weight[: state.size] > 0)
    n = len(kept)
    state.index[:n], state.weight[:n] = state.index[kept], state.weight[kept]
    state.index[n : state.size], state.weight[n : state.size] = -1, 0.0
    state.size = n


class ActiveSetRule(Rule):
    """The rules that can remove weight from atoms in use, as conditional gradients."""

    field = "active"

    def steps(self, n: int, count: int) -> int:
        """Return the largest number of iterations."""
        return PER_ATOM * count

    def make_problem(self, task: SelectionTask) -> ActiveSetProblem:
        """Return the space and the number of atoms."""
        return ActiveSetProblem(task.space, self.name, task.count)

    def begin(self, problem: ActiveSetProblem, saved: ActiveSetState | None) -> ActiveSetState:
        """Return the state with one atom, or that of an earlier run."""
        return initial_state(problem) if saved is None else extend_state(problem, saved)

    def step(self, problem: ActiveSetProblem, state: ActiveSetState) -> ActiveSetState:
        """Run one iteration."""
        return active_set_step(problem, state)

    def latest_mmd(self, state: ActiveSetState) -> float:
        """Return the MMD of the atoms in use."""
        return float(state.mmd[state.size - 1])

    def selected_atoms(self, state: ActiveSetState) -> SelectedAtoms:
        """Return the atoms in use."""
        n = state.size
        return SelectedAtoms(state.ended, state.index[:n].copy(), state.weight[:n].copy(), state.mmd[:n], state.gap[:n])
