"""Swap refinement: each atom in turn is replaced by the candidate that lowers the MMD most; the MMD never increases.

Let S = Σ k over the atoms without the removed one.  The candidate x that replaces it minimises
(2 S(x) + k(x, x))/m² − 2 μ(x)/m.  Weights are equal.
"""

from __future__ import annotations

import numpy as np

from herdcli.quadrature.rules.candidate_space import TIE, CandidateSpace
from herdcli.records import dataclass
from herdcli.schema import Array, array, require_valid_indices


@dataclass
class SwapState:
    """Atoms of equal weight.  `swap_step` counts positions visited, m of them per pass; `swaps` counts replaced atoms."""

    step: int
    swaps: int
    swaps_before: int  # number of swaps before the current pass
    quadratic: float  # the sum Σ_uv k over pairs of atoms, m² times ⟨g, g⟩
    linear: float  # the sum Σ_u μ(x_u), m times ⟨g, μ⟩
    index: Array = array("m", "candidate of each atom, −1 for a point that is none", kind="i")
    atoms: Array = array("m d", "the points", kind="f", finite=True)
    embedding: Array = array("m", "μ at the points", kind="f", finite=True)
    running: Array = array("N", "Σ_u k at the candidates", kind="f", finite=True)
    mmd: Array = array("p", "MMD at the start and after each pass", kind="f")

    def validate(self) -> None:
        """Raise DataError unless atoms are candidates."""
        require_valid_indices("/index", self.index, len(self.running), "a candidate", low=-1)


@dataclass(frozen=True)
class SwapProblem:
    """A space with candidates, the number of passes, and whether a candidate can be chosen only once."""

    space: CandidateSpace
    passes: int
    unique: bool = False


def initial_state(problem: SwapProblem, index: Array, atoms: Array, embedding: Array) -> SwapState:
    """Return the state of m atoms: candidate indices (m,) (−1: none), points (m, d), μ at them (m,)."""
    space = problem.space
    running = space.points.weighted_kernel_sums(atoms, np.ones(len(atoms)))
    state = SwapState(
        0,
        0,
        0,
        _kernel_quadratic_form(space, atoms),
        float(embedding.sum()),
        index.copy(),
        atoms.copy(),
        embedding.copy(),
        running,
        np.zeros(0),
    )
    _record_trace(problem, state)
    return state


def _kernel_quadratic_form(space: CandidateSpace, atoms: Array) -> float:
    block = max(1, (1 << 20) // len(atoms))
    return float(sum(space.kernel.matrix(atoms[i : i + block], atoms).sum() for i in range(0, len(atoms), block)))


def total_steps(problem: SwapProblem, state: SwapState) -> int:
    """Return the number of positions in all passes."""
    return problem.passes * len(state.index)


def swap_step(problem: SwapProblem, state: SwapState) -> SwapState:
    """Visit one position; a pass without swaps ends the run."""
    space, m = problem.space, len(state.index)
    u = state.step % m
    out = state.atoms[u]
    # Take the atom at position u out of the running sums: `cross` is Σ_{v≠u} k(x_u, x_v).
    row = space.kernel.matrix(out[None], state.atoms)[0]
    own, cross = float(row[u]), float(row.sum()) - float(row[u])
    old = space.points.values(out)
    state.running -= old
    # m² MMD² of the other atoms and x is const + 2 S(x) + k(x, x) − 2m μ(x), where S(x) sums k over the others; the score is minus half of
    # this.  The present atom has S = `cross` and the score `present`; it stays unless a candidate has a larger score.
    score = float(m) * space.embedding
    score -= state.running
    score -= 0.5 * space.diagonal
    if problem.unique:
        score[np.delete(state.index, u)] = -np.inf
    best = space.first_best_index(score, float(m))
    present = m * float(state.embedding[u]) - cross - 0.5 * own
    # Only a swap that descends by more than rounding is made: MMD falls with every swap, so no set of atoms recurs.
    if score[best] > present + TIE * space.scale * m:
        _replace_atom(problem, state, u, best, cross, own)
    else:
        state.running += old
    state.step += 1
    if state.step % m == 0:
        _record_trace(problem, state)
        if state.swaps == state.swaps_before:
            state.step = total_steps(problem, state)
        state.swaps_before = state.swaps
    return state


def _replace_atom(problem: SwapProblem, state: SwapState, u: int, best: int, cross: float, own: float) -> None:
    """Put candidate `best` at position u, whose atom has k summed to `cross` with the others and `own` with itself."""
    space = problem.space
    # Σ_uv k decreases by 2 `cross` + `own` with the atom and increases by 2 S(x) + k(x, x) with the candidate; `running` is S, without the
    # atom.
    state.quadratic += 2.0 * (float(state.running[best]) - cross) + float(space.diagonal[best]) - own
    state.linear += float(space.embedding[best]) - float(state.embedding[u])
    state.index[u], state.atoms[u], state.embedding[u] = best, space.candidates[best], space.embedding[best]
    state.running += space.points.values(space.candidates[best])
    state.swaps += 1


def _record_trace(problem: SwapProblem, state: SwapState) -> None:
    m = len(state.index)
    state.mmd = np.append(state.mmd, problem.space.mmd_from_terms(state.quadratic / m**2, state.linear / m))
