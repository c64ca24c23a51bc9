"""Maximum-likelihood ICA of whitened rows: L-BFGS in relative coordinates, preconditioned by the model's own Hessian.

    L(J) = −log|det J| + E Σ_i (E_i(u_i) + log z_i),  u = J z,       J ← (I + P) J

    gradient along P    G_ij = E ψ_i(u_i) u_j − δ_ij,  ψ = E'
    curvature, without E ψ'_i u_j u_k of j ≠ k:  Σ_ij h_ij P_ij² / 2 + Σ_ij P_ij P_ji / 2,  h_ij = E ψ'_i u_j²

The 2 × 2 blocks of that curvature are kept positive and start each L-BFGS recursion; a step is halved until L falls.
Rows are first thinned: the fit to all rows starts at the optimum of the thinned ones.  Sums over rows are computed block by block, so
that rows may be in memory, in a file, or in other processes, with the same filters as result.

With the density "auto" each output has sech or the bimodal density, E = u²/2 − log cosh u, by the sign of `experts.choose_density_signs`.
The signs are checked during the fit and once more where the gradient is small.
Source: Pham & Garat (1997) for the likelihood; Ablin, Cardoso & Gramfort (2018) for the preconditioner;
Lee, Girolami & Sejnowski (1999) for densities by sign.
"""

from __future__ import annotations

from dataclasses import field
from functools import partial

import numpy as np

from herdcli.algorithm import HasStateShapes, Map, RunProgress
from herdcli.errors import BadUsage, DataError
from herdcli.ica import likelihood
from herdcli.ica.expert_table import SEPARATING, TABLE
from herdcli.ica.experts import AUTO, choose_density_signs, density_names, require_integrable
from herdcli.ica.likelihood import SUPER, LikelihoodEvaluation, LikelihoodSums, read_every_nth_row
from herdcli.ica.model import ICATrace
from herdcli.ica.results import ICAFit
from herdcli.ica.whitening import make_row_blocks
from herdcli.numerics.block_statistics import BlockSource, RowReader
from herdcli.numerics.lbfgs import apply_inverse_hessian
from herdcli.records import dataclass
from herdcli.schema import Array, array

DENSITIES = tuple(name for name in SEPARATING if TABLE[name].smooth)
THINNED = 8192  # rows of the first optimisation, if there are at least twice as many
CHOSEN_BY = 2 * THINNED  # evenly spaced rows from which a sign is computed
LOOKED = (10, 5)  # signs are checked after the first steps up to this number, then at this interval, and at the end
SWITCHES = 10  # largest number of changes of the density of one output, which prevents endless switching
MEMORY = 7
LEAST_CURVATURE = 0.01
HALVINGS = 25  # halvings of a step: outputs that are 0 in nearly all rows make the likelihood sharply curved
ROUNDING = 1e-12  # a gain below this share of L counts as none
WORK = 6  # arrays of a block's outputs that a thread needs


@dataclass(frozen=True)
class MaximumLikelihoodProblem:
    """Whitened rows Z (n, D), a density, and the tolerance of the largest |G_ij|.

    Z      float64, or rows that are read block by block.     gamma  of every expert.      iterations  at most.
    elsewhere  the blocks of the rows, if other processes hold them.
    """

    Z: Array | RowReader
    density: str = AUTO
    gamma: float = 1.0
    tolerance: float = 1e-7
    iterations: int = 1000
    initial: Array | None = None
    elsewhere: BlockSource | None = None
    _kept: dict[str, Array] = field(default_factory=dict, init=False, repr=False, compare=False)
    _sources: dict[int, BlockSource] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.density not in (AUTO, *DENSITIES):
            allowed = ", ".join((AUTO, *DENSITIES))
            raise BadUsage(f"density '{self.density}' does not work with maximum likelihood", hint=f"use one of {allowed}, or infomax")
        require_integrable(self.density, self.gamma)
        if self.count < 2:
            raise DataError("there must be at least two rows")

    @property
    def count(self) -> int:
        """The number of rows, n."""
        return len(self.Z) if isinstance(self.Z, np.ndarray) else self.Z.count

    @property
    def dimensions(self) -> int:
        """The number of dimensions, D."""
        return int(self.Z.shape[1]) if isinstance(self.Z, np.ndarray) else self.Z.columns

    def source(self, stage: int) -> BlockSource:
        """Return the blocks of a stage: of thinned rows in stage 0, of all rows in stage 1."""
        if stage not in self._sources:
            self._sources[stage] = (self.elsewhere or make_row_blocks(self.Z)) if stage else make_row_blocks(self.read_thinned_rows())
        return self._sources[stage]

    def count_rows(self, stage: int) -> int:
        """Return the number of rows of a stage."""
        return self.count if stage else len(self.read_thinned_rows())

    def read_thinned_rows(self) -> Array:
        """Return the rows of stage 0, (n', D)."""
        return self._read_every_nth("thinned", max(1, self.count // THINNED))

    def rows_for_signs(self, stage: int) -> Array:
        """Return the rows from which signs are computed, (n', D)."""
        return self._read_every_nth("looked at", -(-self.count // CHOSEN_BY)) if stage else self.read_thinned_rows()

    def _read_every_nth(self, name: str, step: int) -> Array:
        if name not in self._kept:
            self._kept[name] = read_every_nth_row(self.source(1), step)
        return self._kept[name]

    def experts(self, state: MaximumLikelihoodState) -> list[str]:
        """Return the name of each output's density."""
        return [self.density] * len(state.J) if state.signs is None else density_names(state.signs, SUPER)


@dataclass
class MaximumLikelihoodState:
    """The filters J and the history that the next step needs; `stage` 0 is on thinned rows."""

    step: int
    stage: int
    done: bool
    loss: float
    J: Array = array("M D", "filters", kind="f", finite=True)
    G: Array = array("M M", "relative gradient", kind="f", finite=True)
    h: Array = array("M M", "curvature h_ij", kind="f", finite=True)
    moves: Array = array("m M M", "last steps P", kind="f", finite=True)
    changes: Array = array("m M M", "changes of G along them", kind="f", finite=True)
    trace: Array = array("T", "mean log-likelihood after each step", kind="f")
    signs: Array | None = array("M", "for the density auto, 1 for sech and -1 for the bimodal density", kind="i", optional=True)
    switched: Array | None = array("M", "for the density auto, how often that of each output has changed", kind="i", optional=True)


def evaluate_stage(
    problem: MaximumLikelihoodProblem, stage: int, J: Array, signs: Array | None = None, map: Map = map
) -> LikelihoodEvaluation:
    """Return L, G and h over the rows of a stage, block by block.      signs  (M,) for "auto"."""
    source = problem.source(stage)
    return likelihood.evaluate_likelihood(source, problem.count_rows(stage), LikelihoodSums(J, problem.density, signs), problem.gamma, map)


def _initial_state(problem: MaximumLikelihoodProblem, map: Map) -> MaximumLikelihoodState:
    D = problem.dimensions
    J = np.eye(D) if problem.initial is None else problem.initial.astype(np.float64)
    stage = 0 if problem.count >= 2 * THINNED else 1
    chosen = _density_signs(problem, stage, J) if problem.density == AUTO else None
    found = evaluate_stage(problem, stage, J, chosen, map)
    none = np.zeros((0, D, D))
    more = {} if chosen is None else {"signs": chosen, "switched": np.zeros(D, dtype=np.int64)}
    return MaximumLikelihoodState(0, stage, False, found.loss, J, found.G, found.h, none, none, np.array([-found.loss]), **more)


def _lbfgs_step(problem: MaximumLikelihoodProblem, state: MaximumLikelihoodState, map: Map) -> MaximumLikelihoodState:
    tolerance = problem.tolerance if state.stage else 10.0 / problem.count_rows(0)
    state.step += 1
    arrived = bool(np.abs(state.G).max() <= tolerance) or not _line_search(problem, state, map)
    if arrived and state.stage == 0:
        state.stage = 1
        _choose_densities(problem, state)
        _restart_lbfgs(problem, state, map)
    elif arrived or state.step <= LOOKED[0] or state.step % LOOKED[1] == 0:
        changed = _choose_densities(problem, state)
        state.done = arrived and not changed
        if changed:
            _restart_lbfgs(problem, state, map)
    state.trace = np.append(state.trace, -state.loss)
    return state


def _density_signs(problem: MaximumLikelihoodProblem, stage: int, J: Array) -> Array:
    return choose_density_signs(J @ problem.rows_for_signs(stage).T)


def _choose_densities(problem: MaximumLikelihoodProblem, state: MaximumLikelihoodState) -> bool:
    """Set the density of each output from its sign unless it changed too often; return whether any changed."""
    if state.signs is None or state.switched is None:
        return False
    changed = (_density_signs(problem, state.stage, state.J) != state.signs) & (state.switched < SWITCHES)
    state.signs, state.switched = np.where(changed, -state.signs, state.signs), state.switched + changed
    return bool(changed.any())


def _restart_lbfgs(problem: MaximumLikelihoodProblem, state: MaximumLikelihoodState, map: Map) -> None:
    """Recompute L, G and h for other rows or densities, and discard the L-BFGS history."""
    found = evaluate_stage(problem, state.stage, state.J, state.signs, map)
    state.loss, state.G, state.h = found.loss, found.G, found.h
    state.moves = state.changes = np.zeros((0, *state.G.shape))


def _line_search(problem: MaximumLikelihoodProblem, state: MaximumLikelihoodState, map: Map) -> bool:
    """Move along the L-BFGS direction, else along the preconditioned gradient; return False if neither lowers L."""
    for direction in (_lbfgs_direction(state), -_solve_pair_blocks(state.h, state.G)):
        slope = float((direction * state.G).sum())
        if slope >= 0:
            continue
        size = 1.0
        for _ in range(HALVINGS):
            J = state.J + size * direction @ state.J
            found = evaluate_stage(problem, state.stage, J, state.signs, map)
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


def _lbfgs_direction(state: MaximumLikelihoodState) -> Array:
    """Return −H⁻¹ G by L-BFGS, with the block curvature in place of the usual multiple of I."""
    return -apply_inverse_hessian(state.G, state.moves, state.changes, partial(_solve_pair_blocks, state.h))


def _solve_pair_blocks(h: Array, G: Array) -> Array:
    """Solve the blocks [h_ij 1; 1 h_ji] for (G_ij, G_ji), with smallest eigenvalues raised to LEAST_CURVATURE."""
    # The block [a 1; 1 b] has the eigenvalues ½ (a + b ± √((a − b)² + 4)); raising both diagonals by δ raises them by δ.  The diagonal of G
    # only has h_ii + 1, from ½ h_ii P_ii² + ½ P_ii².
    least = 0.5 * (h + h.T - np.sqrt((h - h.T) ** 2 + 4.0))
    lifted = h + np.maximum(LEAST_CURVATURE - least, 0.0)
    np.fill_diagonal(lifted, np.maximum(np.diag(h) + 1.0, LEAST_CURVATURE))
    determinant = lifted * lifted.T - 1.0
    np.fill_diagonal(determinant, 1.0)
    # [a 1; 1 b]⁻¹ (g, g') has the first entry (b g − g')/(ab − 1); transposing gives the second.
    result: Array = (lifted.T * G - G.T) / determinant
    np.fill_diagonal(result, np.diag(G) / np.diag(lifted))
    return result


@dataclass(frozen=True)
class MaximumLikelihood(HasStateShapes[MaximumLikelihoodState]):
    """Maximum-likelihood ICA as an algorithm.  map: a map over blocks of rows, which may use threads."""

    problem: MaximumLikelihoodProblem
    map: Map = map

    @property
    def state(self) -> type[MaximumLikelihoodState]:
        return MaximumLikelihoodState

    def state_template(self) -> MaximumLikelihoodState:
        """Return J = I without evaluations, as a template for checkpoints."""
        D = self.problem.dimensions
        square, none = np.zeros((D, D)), np.zeros((0, D, D))
        counts = np.zeros(D, dtype=np.int64) if self.problem.density == AUTO else None
        return MaximumLikelihoodState(0, 0, False, 0.0, np.eye(D), square, square, none, none, np.zeros(1), counts, counts)

    def init(self) -> MaximumLikelihoodState:
        """Return J = I or the given filters, on thinned rows if there are many rows."""
        return _initial_state(self.problem, self.map)

    def step(self, state: MaximumLikelihoodState) -> MaximumLikelihoodState:
        """Take one L-BFGS step; the change to all rows counts as one."""
        return _lbfgs_step(self.problem, state, self.map)

    def done(self, state: MaximumLikelihoodState) -> bool:
        """Return whether the gradient is below the tolerance, L cannot fall, or all iterations are used."""
        return state.done or state.step >= self.problem.iterations

    def memory(self) -> int:
        """Return the bytes of the L-BFGS history, the state, the thinned rows and a block's outputs."""
        n, D = self.problem.count, self.problem.dimensions
        kept = (2 * THINNED * D if n >= 2 * THINNED else n * D) + (min(CHOSEN_BY, n) * D if self.problem.density == AUTO else 0)
        return 8 * ((4 * MEMORY + 12) * D * D + kept + WORK * max(likelihood.BLOCK_ELEMENTS, D))

    def progress(self, state: MaximumLikelihoodState) -> RunProgress:
        """Return the likelihood and the largest entry of the gradient, which falls to the tolerance."""
        return RunProgress(state.step, self.problem.iterations, f"log likelihood {-state.loss:.4f}, gradient {np.abs(state.G).max():.1e}")

    def result(self, state: MaximumLikelihoodState) -> ICAFit:
        """Return the filters, marked as unconverged if the gradient is not below the tolerance."""
        problem, left = self.problem, float(np.abs(state.G).max())
        # The minimum of the parabola with slope G and curvature H is ½ G'H⁻¹G lower; if rounding hides that, the run has converged.
        ended = left <= problem.tolerance or 0.5 * float((state.G * _solve_pair_blocks(state.h, state.G)).sum()) <= ROUNDING * max(
            1.0, abs(state.loss)
        )
        return ICAFit(
            state.J,
            np.full(len(state.J), problem.gamma),
            ICATrace(np.arange(len(state.trace)), state.trace),
            state.step,
            "log_likelihood",
            {"experts": problem.experts(state)},
            chosen=problem.density == AUTO,
            unconverged="" if ended else f"the largest entry of the gradient is {left:.2g}",
        )
