"""Rules that add one atom at a time, so that m atoms are the first m of any longer run.

With g = Σ_u w_u Φ(x_u), each step chooses x = argmin ⟨g − μ, Φ(x)⟩ over the candidates and moves g ← (1−ρ) g + ρ Φ(x):

    herding      ρ_t = 1/(t+1): equal weights.  w_0 = 0, score t·μ − Σ k; with init mean w_0 = μ, (t+1)·μ − Σ k
    line-search  ρ_t minimises ‖(1−ρ) g + ρ Φ(x) − μ‖, clipped to [0, 1]
    open-loop    ρ_t = 2/(t+2)
    step         ρ_t given
    greedy       ρ_t = 1/(t+1), and x instead minimises ‖(t g + Φ(x))/(t+1) − μ‖: score (t+1)·μ − Σ k − ½ k(x, x)
    random, sobol   draws from the target, equal weights

t counts the atoms so far; the first atom has ρ_0 = 1.  With w_0 = 0 all first atoms tie.  init zero chooses candidate 0;
init nearest the one of largest μ(x) − ½ k(x, x), which is nearest to μ.  t² MMD_t² ≤ Σ_i ‖μ − Φ(x_i)‖² holds for both, and the
choice of nearest does not depend on the order of the rows.  Source: Bach, Lacoste-Julien & Obozinski (2012), sec. 3.2
and 4, with the corrected weights; Chen, Welling & Smola (2010) for init mean.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from herdcli.errors import BadUsage, DataError, IncompletePart
from herdcli.numerics import exact_arithmetic
from herdcli.quadrature import sobol_sequence
from herdcli.quadrature.kernels.stein_kernels import ScoreTarget
from herdcli.quadrature.rules.candidate_space import CandidateSpace, prefix_mmds
from herdcli.quadrature.rules.local_search import SearchBox, polish_atom
from herdcli.quadrature.rules.rule import Rule, SelectedAtoms, SelectionTask
from herdcli.quadrature.rules.rule_table import TABLE, rules_reading_option
from herdcli.quadrature.targets import RowTarget, Target
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array, require_valid_indices

EQUAL = tuple(rules_reading_option("refine"))
DRAWN = tuple(name for name, entry in TABLE.items() if entry.draws)


@dataclass(frozen=True)
class RuleSettings:
    """The settings of a sequential rule.

    rule    name of a rule in the table whose path is SequentialRule.
    rates   ρ_1, ρ_2, … of `greedy_step`; the last one repeats.
    unique  whether a candidate can be chosen only once.
    init    initialisation of rules that add one candidate at a time; auto: nearest if the target is rows, zero for closed forms.
    """

    rule: str = "herding"
    init: Literal["auto", "nearest", "zero", "mean"] = "auto"
    rates: tuple[float, ...] = ()
    unique: bool = False
    seed: int = 0
    unit: int = 0


@dataclass
class SequenceState:
    """The atoms so far.  `greedy_step` counts them (t); entries from t on are not chosen yet."""

    step: int
    quadratic: float  # for equal-weight rules the sum Σ_uv k over pairs of atoms, for others the square ⟨g, g⟩ = w'Kw; see `inner_products`
    linear: float  # for equal-weight rules the sum Σ_u μ(x_u), for others ⟨g, μ⟩ = w'z
    best: int  # the next candidate, −1 if none
    index: Array = array("m", "candidate of each atom, −1 for a point that is none", kind="i")
    atoms: Array = array("m d", "the points", kind="f", finite=True)
    embedding: Array = array("m", "μ at the points", kind="f", finite=True)
    rate: Array = array("m", "ρ with which each atom came in", kind="f", finite=True)
    mmd: Array = array("m", "‖g_t − μ‖ of t = 1 … m atoms", kind="f")
    gap: Array = array("m", "duality gap of g_t, NaN without candidates", kind="f")
    running: Array = array("N", "g at the candidates; of equal-weight rules Σ_u k", kind="f", finite=True)

    def validate(self) -> None:
        """Raise DataError unless atoms are candidates, and no more than fit into the arrays."""
        require_valid_indices("/index", self.index, len(self.running), "a candidate", low=-1)
        if not 0 <= self.step <= len(self.index) or not -1 <= self.best < max(1, len(self.running)):
            raise DataError(
                f"is damaged: the run is at atom {self.step} of {len(self.index)} and candidate {self.best} of {len(self.running)}"
            )


@dataclass(frozen=True)
class SequenceProblem:
    """A space, a target for rules that sample from it, and the settings."""

    space: CandidateSpace
    target: Target
    settings: RuleSettings
    polish: SearchBox | None = None
    count: int = 0  # number of atoms, for rules that are run by a selection


def initialisation_name(rule: str, init: Literal["auto", "nearest", "zero", "mean"], target: Target) -> str:
    """Return the initialisation that `initial_state` uses: nearest, zero or mean; zero for rules that sample."""
    if rule in DRAWN:
        return "zero"
    if rule == "greedy":
        return "nearest"
    return init if init != "auto" else "nearest" if isinstance(target, (RowTarget, ScoreTarget)) else "zero"


def initial_state(problem: SequenceProblem, count: int) -> SequenceState:
    """Return a state for `count` atoms, none chosen.  Raises DataError if there are too few candidates for `unique`."""
    space, settings = problem.space, problem.settings
    total = len(space.candidates)
    if settings.rule not in DRAWN and total == 0:
        raise BadUsage("there are no candidates to choose from", hint="use --candidates with grid:N, sobol:N, sample:N, cube:D or a FILE")
    if settings.unique and count > total:
        raise DataError(
            f"--unique needs {count} different atoms, but there are only {total} candidates",
            hint="choose fewer atoms, or leave out --unique",
        )
    state = SequenceState(
        step=0,
        quadratic=0.0,
        linear=0.0,
        best=-1,
        index=np.full(count, -1, dtype=np.int64),
        atoms=np.zeros((count, problem.target.dimension)),
        embedding=np.zeros(count),
        rate=np.zeros(count),
        mmd=np.zeros(count),
        gap=np.full(count, np.nan),
        running=np.zeros(total),
    )
    _update_next_candidate(problem, state)
    return state


def extend_state(problem: SequenceProblem, state: SequenceState, count: int) -> SequenceState:
    """Return the same state with memory for `count` atoms, from which the run continues."""
    if count < state.step:
        raise BadUsage(f"the file to continue already has {state.step} atoms, more than the requested {count}")
    empty = initial_state(problem, count)
    for name in ("index", "atoms", "embedding", "rate", "mmd", "gap"):
        getattr(empty, name)[: state.step] = getattr(state, name)[: state.step]
    return replace(empty, step=state.step, quadratic=state.quadratic, linear=state.linear, best=state.best, running=state.running)


def greedy_step(problem: SequenceProblem, state: SequenceState) -> SequenceState:
    """Add one atom."""
    space, settings, t = problem.space, problem.settings, state.step
    # Linear minimisation, x_{t+1} = argmin ⟨g_t − μ, Φ(x)⟩ (Bach et al. 2012, eq. 4), was done at the end of the last step.
    index, atom = _choose_atom(problem, state)
    values = space.points.values(atom) if len(space.candidates) else state.running
    # The terms of the update by the reproducing property: ⟨Φ, Φ⟩ = k(x, x), ⟨Φ, μ⟩ = μ(x) and ⟨g, Φ⟩ = g(x).  A point that is no
    # candidate has no entry in the running sums, so g(x) = Σ_u w_u k(x_u, x) is summed anew.
    if index >= 0:
        own, z, cross = float(space.diagonal[index]), float(space.embedding[index]), float(state.running[index])
    else:
        row = space.kernel.matrix(atom[None], np.vstack([state.atoms[:t], atom[None]]))[0]
        own, z = float(row[-1]), float(space.mean(atom[None])[0])
        cross = float(exact_arithmetic.matrix_product(row[:-1], np.ones(t) if settings.rule in EQUAL else sequence_weights(state)))
    state.index[t], state.atoms[t], state.embedding[t] = index, atom, z
    state.step = t + 1
    if settings.rule in EQUAL:
        # Σ_uv k over t+1 atoms is Σ_uv k over t atoms plus the new row and column, 2 Σ_u k(x_u, x) + k(x, x).  All sums are divided by
        # t + 1 or its square only when they are used, so that no rounding accumulates (Chen et al. 2010).
        state.rate[t] = 1.0 / (t + 1)
        state.quadratic += 2.0 * cross + own
        state.linear += z
        if len(space.candidates):
            state.running += values
    else:
        # ‖(1−ρ) g + ρ Φ‖² = (1−ρ)² ⟨g, g⟩ + 2ρ(1−ρ) ⟨g, Φ⟩ + ρ² k(x, x), with ⟨g, Φ⟩ = g(x) by the reproducing property;
        # ⟨g, μ⟩ and g at the candidates are linear in g (Bach et al. 2012, sec. 3.2).
        rate = _choose_step_size(problem, state, t, cross, own, z)
        state.rate[t] = rate
        state.quadratic = (
            exact_arithmetic.integer_power(1 - rate, 2) * state.quadratic
            + 2 * rate * (1 - rate) * cross
            + exact_arithmetic.integer_power(rate, 2) * own
        )
        state.linear = (1 - rate) * state.linear + rate * z
        state.running *= 1 - rate
        values *= rate
        state.running += values
    # The objective, eq. 3, as ‖g − μ‖² = ⟨g, g⟩ − 2⟨g, μ⟩ + ‖μ‖².
    state.mmd[t] = space.mmd_from_terms(*inner_products(settings.rule, state))
    _update_next_candidate(problem, state)
    return state


def inner_products(rule: str, state: SequenceState) -> tuple[float, float]:
    """Compute ⟨g, g⟩ and ⟨g, μ⟩ of the t ≥ 1 atoms so far; with equal weights 1/t from the sums in the state."""
    t = state.step if rule in EQUAL else 1
    return state.quadratic / t**2, state.linear / t


def sequence_weights(state: SequenceState) -> Array:
    """Compute the weights w_u = ρ_{u−1} Π_{v=u}^{t−1} (1 − ρ_v) (t,), which sum to 1."""
    # Atom u entered with weight ρ_{u−1}, and every later step multiplied the existing weights by 1 − ρ_v.
    rate = state.rate[: state.step]
    kept = np.concatenate([np.cumprod((1.0 - rate)[:0:-1])[::-1], [1.0]])[: len(rate)]
    return np.asarray(rate * kept)


def _choose_atom(problem: SequenceProblem, state: SequenceState) -> tuple[int, Array]:
    """Return the candidate index (−1 for none) and the point of the next atom."""
    space, settings, t = problem.space, problem.settings, state.step
    if settings.rule in DRAWN:
        return _draw_atom(problem, t)
    index = state.best
    atom = space.candidates[index]
    if problem.polish is None:
        return index, atom
    equal = settings.rule == "herding"
    w = np.full(t, 1.0 / max(t, 1)) if equal else sequence_weights(state)
    pull = (t + 1.0) / max(t, 1) if equal and settings.init == "mean" else float(t > 0 or settings.init == "mean")
    # The best candidate is the start of a continuous minimisation of ⟨Σ_u w_u Φ(x_u) − pull·μ, Φ(x)⟩ over the box.
    better = polish_atom(problem.polish, space, state.atoms[:t], w, pull, atom)
    return (index, atom) if better is None else (-1, better)


def _draw_atom(problem: SequenceProblem, t: int) -> tuple[int, Array]:
    """Sample atom number t: an index for rows, a point for other targets."""
    target, settings = problem.target, problem.settings
    own_rows = isinstance(target, RowTarget) and target.X is problem.space.candidates
    if settings.rule == "sobol":
        u = sobol_sequence.sobol_points(1, target.dimension, start=t)
        if own_rows and isinstance(target, RowTarget):
            index = int(target.row_indices_at_levels(u)[0])
            return index, target.X[index]
        return -1, target.quantile(u)[0]
    if settings.rule != "random":
        raise IncompletePart(f"rule {settings.rule} draws nothing that is known")
    random = generator(settings.seed, Stream.ATOMS, unit=settings.unit, step=t)
    if own_rows and isinstance(target, RowTarget):
        index = int(target.draw(random, 1)[0])
        return index, target.X[index]
    return -1, target.sample(random, 1)[0]


def _choose_step_size(problem: SequenceProblem, state: SequenceState, t: int, cross: float, own: float, z: float) -> float:
    """Compute ρ_t of the rules with unequal weights."""
    settings = problem.settings
    if t == 0:
        return 1.0
    if settings.rule == "open-loop":
        return 2.0 / (t + 2.0)
    if settings.rule == "step":
        return settings.rates[min(t, len(settings.rates)) - 1]
    if settings.rule != "line-search":
        raise IncompletePart(f"rule {settings.rule} has no step sizes")
    # f(ρ) = ½‖(1−ρ) g + ρ Φ − μ‖² has f'(0) = −⟨g − μ, g − Φ⟩ and f'' = ‖g − Φ‖², so its minimum is at
    # ρ = ⟨g − μ, g − Φ⟩/‖g − Φ‖²; beyond 1 it would leave the hull (Bach et al. 2012, sec. 3.2).
    length = state.quadratic - 2.0 * cross + own
    slope = (state.quadratic - state.linear) - (cross - z)
    return min(1.0, max(0.0, slope / length)) if length > 0 else 0.0


def _update_next_candidate(problem: SequenceProblem, state: SequenceState) -> None:
    """Compute the next candidate and the duality gap of the weights so far: max_x ⟨g − μ, g − Φ(x)⟩."""
    space, settings, t = problem.space, problem.settings, state.step
    if not len(space.candidates):
        return
    # The next atom is argmin ⟨g − μ, Φ(x)⟩ = argmax μ(x) − g(x).  With equal weights the score is t times this, t μ(x) − Σ_u k(x_u, x).
    # The gap max_x ⟨g − μ, g − Φ(x)⟩ = ⟨g, g⟩ − ⟨g, μ⟩ + max_x (μ(x) − g(x)) is an upper bound of ½‖g − μ‖² minus its minimum (Jaggi 2013).
    score = t * space.embedding if settings.rule in EQUAL else space.embedding * float(t > 0)
    score -= state.running
    if t:
        quadratic, linear = inner_products(settings.rule, state)
        best = float(score.max()) / (t if settings.rule in EQUAL else 1)
        state.gap[t - 1] = max(0.0, quadratic - linear + best)
    if settings.rule == "greedy":
        # (t+1)² ‖(t g + Φ(x))/(t+1) − μ‖² is, up to terms without x, 2 Σ_u k(x_u, x) + k(x, x) − 2(t+1) μ(x) (Riabiz et al. 2022, alg. 1,
        # where μ = 0); without atoms it is the score of `nearest`.
        score += space.single_point_scores
    # ‖Φ(x) − μ‖² = k(x, x) − 2μ(x) + ‖μ‖² is smallest where μ(x) − ½k(x, x) is largest.  If herding begins with w_0 = μ, the score contains
    # μ once more than there are atoms: (t + 1) μ − Σ k.
    begun = "" if settings.rule == "greedy" else initialisation_name(settings.rule, settings.init, problem.target)
    if begun == "nearest" and t == 0:
        score = space.single_point_scores.copy()
    if begun == "mean" and (settings.rule == "herding" or t == 0):
        score += space.embedding
    # Herding without replacement: atoms in use are not minimised over, so the bounds of the module's head do not apply.
    if settings.unique:
        score[state.index[:t]] = -np.inf
    state.best = space.first_best_index(score, t + 1.0 if settings.rule in EQUAL else 1.0)


def state_from_atoms(space: CandidateSpace, index: Array) -> SequenceState:
    """Return the state that a sequential rule would have after choosing candidates (m,) as atoms of equal weight."""
    m, atoms, z = len(index), space.candidates[index], space.embedding[index]
    # Equal weights, eq. 2: all sums are those over the atoms, divided by m or m² only when they are used.
    running = space.points.weighted_kernel_sums(atoms, np.ones(m))
    return SequenceState(
        step=m,
        quadratic=float(running[index].sum()),
        linear=float(exact_arithmetic.matrix_product(z, np.ones(m))),
        best=-1,
        index=index.copy(),
        atoms=atoms,
        embedding=z,
        rate=1.0 / np.arange(1, m + 1),
        mmd=prefix_mmds(space, atoms, z),
        gap=np.full(m, np.nan),
        running=running,
    )


class SequentialRule(Rule):
    """The rules that add one atom at a time."""

    field = "sequence"

    def steps(self, n: int, count: int) -> int:
        """Return the number of steps, one per atom."""
        return count

    def make_problem(self, task: SelectionTask) -> SequenceProblem:
        """Return the problem, including the polishing of atoms that need not be candidates."""
        settings = RuleSettings(self.name, task.init, task.rates, task.unique, task.seed, task.unit)
        return SequenceProblem(task.space, task.target, settings, task.polish, task.count)

    def begin(self, problem: SequenceProblem, saved: SequenceState | None) -> SequenceState:
        """Return the state without atoms, or that of an earlier run."""
        return extend_state(problem, saved, problem.count) if saved else initial_state(problem, problem.count)

    def step(self, problem: SequenceProblem, state: SequenceState) -> SequenceState:
        """Add one atom, if more are requested."""
        return greedy_step(problem, state) if state.step < problem.count else state

    def is_finished(self, problem: SequenceProblem, state: SequenceState) -> bool:
        """Whether all atoms are chosen."""
        return state.step == problem.count

    def selected_atoms(self, state: SequenceState) -> SelectedAtoms:
        """Return the atoms so far."""
        n = state.step
        weight = np.full(n, 1.0 / n) if self.equal else sequence_weights(state)
        return SelectedAtoms("", state.index[:n], weight, state.mmd[:n], state.gap[:n])
