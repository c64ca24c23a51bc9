"""Learning by gradients: of the likelihood, exactly or by Gibbs chains (CD and persistent), and of the pseudo-likelihood.

Source: Teh (2003), 2.53; Hinton (2002); Besag (1975).
"""

from __future__ import annotations

import numpy as np

from herdcli.markov.learning.learners import LearnedFactors, LearningSettings, SizedLearner, empty_residual
from herdcli.markov.learning.log_linear_models import ExactExpectations, LogLinearParameters
from herdcli.markov.method import Stepwise
from herdcli.markov.model.constraints import LearningProblem, StateRows
from herdcli.markov.model.full_conditionals import FullConditionals, make_full_conditionals
from herdcli.numerics import lbfgs
from herdcli.numerics.block_statistics import (
    BLOCK,
    PASS_BLOCKS,
    ArrayRows,
    BlockSource,
    BlockStatistics,
    RowBlock,
    RowBlocks,
    Sums,
    sum_statistics,
)
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array


@dataclass
class GradientDescentState:
    """The state of a minimisation, and the largest gradient of each iteration."""

    now: lbfgs.LBFGSState
    residual: Array
    step: int


@dataclass
class SampledGradientState:
    """θ, its mean over the second half of the run, the chains, and the largest sampled gradient of each iteration."""

    theta: Array
    mean: Array
    chains: Array
    residual: Array
    step: int


class _SmoothMinimisation(SizedLearner, Stepwise[GradientDescentState]):
    """A base class of minimisations by L-BFGS; subclasses define `objective`."""

    state = GradientDescentState

    def __init__(self, problem: LearningProblem, settings: LearningSettings) -> None:
        self.problem, self.settings, self.steps = problem, settings, settings.iterations
        self.parameters = LogLinearParameters(problem)

    def objective(self, theta: Array) -> tuple[float, Array]:
        """Return the value to be minimised, and its gradient."""
        raise TypeError("a subclass says what is minimised")

    def init(self) -> GradientDescentState:
        """Return the state at θ = 0."""
        return GradientDescentState(lbfgs.initial_lbfgs_state(self.objective, np.zeros(len(self.parameters.target))), empty_residual(), 0)

    def step(self, state: GradientDescentState) -> GradientDescentState:
        """Do one step of L-BFGS."""
        now = lbfgs.lbfgs_step(self.objective, state.now)
        return GradientDescentState(now, np.append(state.residual, np.abs(now.gradient).max()), state.step + 1)

    def meets_criterion(self, state: GradientDescentState) -> bool:
        """Return True if the gradient is at most the tolerance, or only rounding errors are left."""
        return self.converged(state) or state.now.stuck

    def progress_text(self, state: GradientDescentState) -> str:
        """The objective, and its largest remaining slope."""
        return f"objective {state.now.value:.6g}, gradient {state.residual[-1]:.3g}"

    def converged(self, state: GradientDescentState) -> bool:
        """Return True if the gradient is at most the tolerance.  A gradient of NaN is not."""
        return bool(np.abs(state.now.gradient).max() <= self.settings.tolerance)

    def result(self, state: GradientDescentState) -> LearnedFactors:
        """Return the factors."""
        return LearnedFactors(self.parameters.factors(state.now.x), self.converged(state), state.step, state.residual)


class ExactGradient(_SmoothMinimisation):
    """Gradient learning with exact expectations: −log-likelihood of the targets, plus the penalty."""

    def __init__(self, problem: LearningProblem, settings: LearningSettings) -> None:
        super().__init__(problem, settings)
        self.expect = ExactExpectations(problem, settings)

    def bytes_needed(self) -> tuple[int, str]:
        """Return the bytes that the junction tree needs, and a description."""
        return self.expect.bytes_needed()

    def objective(self, theta: Array) -> tuple[float, Array]:
        """Compute log Z − θ·target + ½ penalty |θ|², and its gradient."""
        marginals, log_z = self.expect(self.parameters.log_tables(theta))
        target, penalty = self.parameters.target, self.settings.penalty
        # The negative of 6.9; its gradient E_P f − E_P̂ f is that of 2.53 with the other sign.
        value = log_z - float(theta @ target) + 0.5 * penalty * float(theta @ theta)
        return value, self.parameters.compute_expectations(marginals) - target + penalty * theta


@dataclass(frozen=True)
class PseudoLikelihoodStatistics(BlockStatistics):
    """Statistics of a block of rows: −Σ_n w_n Σ_i log P(x_i | the others), and its slopes by the log tables of the first `count` factors.

    given  the factors that contain each variable.
    logs   the log tables of all factors, flat.
    """

    given: FullConditionals
    logs: list[Array]
    count: int

    def __call__(self, block: RowBlock) -> Sums:
        """Compute the statistics from the conditional of each variable."""
        x, weight = block.X.astype(np.int64), np.ones(len(block.X)) if block.weight is None else block.weight
        given, cells, rows = self.given, self.given.cells(x), np.arange(len(x))
        slopes = [np.zeros(len(table)) for table in self.logs[: self.count]]
        value = 0.0
        for i in range(x.shape[1]):
            p = given.conditional_probabilities(i, x, cells, self.logs)
            with np.errstate(divide="ignore"):
                value -= float(weight @ np.log(p[rows, x[:, i]]))
            p *= weight[:, None]
            # ∂(−log P(x_i | rest))/∂ log f_a of the cell with x_i = y is P(y | rest) − [y = x_i] for every factor a over i: 2.63 for a
            # table's entries.
            p[rows, x[:, i]] -= weight
            for a in given.owners[i]:
                if a >= self.count:
                    continue
                stride = int(given.strides[a, i])
                cell = (cells[:, a] - stride * x[:, i])[:, None] + stride * np.arange(p.shape[1])
                slopes[a] += np.bincount(cell.ravel(), p.ravel(), len(slopes[a]))
        return {"value": np.array([value]), "slopes": np.concatenate([*slopes, np.zeros(0)])}


class PseudoLikelihood(_SmoothMinimisation):
    """The algorithm `pseudo-likelihood`: −mean over rows of Σ_i log P(x_i | the others), plus the penalty.

    source  the rows' blocks.
    """

    def __init__(self, problem: LearningProblem, settings: LearningSettings) -> None:
        super().__init__(problem, settings)
        assert isinstance(problem.rows, StateRows)
        self.source: BlockSource = RowBlocks(ArrayRows(problem.rows.x, None, problem.rows.weight))
        self.given, self.fixed = _conditionals_with_base(problem)

    def bytes_needed(self) -> tuple[int, str]:
        """Return the bytes that the factor cells of the rows in the current blocks need, and a description."""
        rows = min(PASS_BLOCKS * BLOCK, self.source.count * BLOCK)
        return 8 * rows * (len(self.problem.cardinality) + len(self.given.strides)), "the rows"

    def objective(self, theta: Array) -> tuple[float, Array]:
        """Compute the objective over all rows, block by block."""
        count = len(self.problem.clusters)
        logs = [*self.parameters.log_tables(theta), *self.fixed]
        sums = sum_statistics(self.source, PseudoLikelihoodStatistics(self.given, logs, count))
        ends = np.cumsum([len(table) for table in logs[:count]])
        gradient = self.parameters.compute_expectations(np.split(sums["slopes"], ends)[:count])
        penalty = self.settings.penalty
        return float(sums["value"][0]) + 0.5 * penalty * float(theta @ theta), gradient + penalty * theta


def _conditionals_with_base(problem: LearningProblem) -> tuple[FullConditionals, list[Array]]:
    """Return the conditionals over clusters and base factors, and the log tables of the latter."""
    scopes = [*(cluster.scope for cluster in problem.clusters), *(scope for scope, _ in problem.base_factors)]
    with np.errstate(divide="ignore"):
        fixed = [np.log(table).ravel() for _, table in problem.base_factors]
    return make_full_conditionals(problem.cardinality, scopes), fixed


class SampledGradient(SizedLearner, Stepwise[SampledGradientState]):
    """Gradient learning with chains: θ increases by rate·(target − mean over chains).

    The rate falls to 0, and θ is averaged over the second half.
    """

    state = SampledGradientState

    def __init__(self, problem: LearningProblem, settings: LearningSettings) -> None:
        self.problem, self.settings, self.steps = problem, settings, settings.iterations
        self.parameters = LogLinearParameters(problem)
        self.given, self.fixed = _conditionals_with_base(problem)

    def bytes_needed(self) -> tuple[int, str]:
        """Return the bytes that the chains need, and a description."""
        return 16 * self.settings.chains * (len(self.problem.cardinality) + len(self.given.strides)), "the chains"

    def init(self) -> SampledGradientState:
        """Return θ = 0 and chains that start at data rows; if there are no rows, at uniformly random states."""
        zero = np.zeros(len(self.parameters.target))
        return SampledGradientState(zero, zero.copy(), self._draw_initial_chains(0), empty_residual(), 0)

    def _draw_initial_chains(self, step: int) -> Array:
        random = generator(self.settings.seed, Stream.LEARNING, unit=1, step=step)
        rows = self.problem.rows
        if not isinstance(rows, StateRows):
            shape = (self.settings.chains, len(self.problem.cardinality))
            return (random.random(shape) * self.problem.cardinality).astype(np.int64)
        return rows.x[random.choice(len(rows.x), self.settings.chains, p=rows.weight)].astype(np.int64)

    def step(self, state: SampledGradientState) -> SampledGradientState:
        """Do some sweeps of every chain, and one update."""
        if self.settings.expectations == "cd":
            state.chains = self._draw_initial_chains(state.step)
        logs = [*self.parameters.log_tables(state.theta), *self.fixed]
        random = generator(self.settings.seed, Stream.LEARNING, step=state.step)
        # Negative phase: Gibbs sweeps at the present θ; with `cd` from data rows, otherwise from where the chains were left.
        for _ in range(self.settings.sweeps):
            self.given.gibbs_sweep(state.chains, logs, random)
        cells = self.given.cells(state.chains)
        marginals = [np.bincount(cells[:, a], minlength=len(logs[a])) / len(state.chains) for a in range(len(self.problem.clusters))]
        # 2.53 with the mean over chains for E_P f.  Chains that begin at rows and do a few sweeps give contrastive divergence (2.61 without
        # its last term), chains that continue give the persistent variant.
        gradient = self.parameters.target - self.parameters.compute_expectations(marginals) - self.settings.penalty * state.theta
        state.theta = state.theta + self.settings.learning_rate * (1 - state.step / self.steps) * gradient
        state.step += 1
        # Polyak averaging: the mean over the second half removes most of the noise that a falling rate leaves.
        kept = state.step - self.steps // 2
        if kept > 0:
            state.mean += (state.theta - state.mean) / kept
        state.residual = np.append(state.residual, np.abs(gradient).max())
        return state

    def progress_text(self, state: SampledGradientState) -> str:
        """The largest sampled slope."""
        return f"gradient {state.residual[-1]:.3g}"

    def result(self, state: SampledGradientState) -> LearnedFactors:
        """Return the factors of the mean of θ."""
        return LearnedFactors(self.parameters.factors(state.mean), True, state.step, state.residual)


def make_gradient_learner(problem: LearningProblem, settings: LearningSettings) -> ExactGradient | SampledGradient:
    """Return the gradient learner for the expectations that the settings name."""
    return ExactGradient(problem, settings) if settings.expectations == "exact" else SampledGradient(problem, settings)
