"""Estimates of log Z of harmoniums too large to enumerate, by populations of annealed chains that are resampled when weights spread.

Rows walk from a mixture of independent units (`mean_field_modes`) to the model through

    f_β(v) = Σ_m π_m q_m(v)^{1−β} · e^{β b·v + Σ_k A(β x_k)},      x = c + v'W,      0 = β_0 < … < β_T = 1.

Between two temperatures a row's weight grows by f_{β'}(v) / f_β(v), and a Gibbs sweep under β' follows: the component m given v, the
hidden units given v, the visible units given both.  When the effective number of rows of a population falls below half,
its rows are resampled in proportion to their weights.  Each population's product of mean weights is an unbiased estimate of Z
relative to that of the initial distribution.  Populations share nothing, so that their differences measure the error, whatever its cause.
A pilot run chooses the temperatures, with the same conditional effective sample size in all steps.
Source: Neal (2001); Del Moral, Doucet & Jasra (2006), sec. 3; Zhou, Johansen & Aston (2016), sec. 3.3 (conditional ESS).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np

from herdcli.algorithm import FixedLengthAlgorithm, Map, RunProgress
from herdcli.errors import BadUsage
from herdcli.numerics import exact_arithmetic
from herdcli.rbm.likelihood.annealing_path import TemperatureWalk
from herdcli.rbm.likelihood.log_z_estimates import LogZEstimate
from herdcli.rbm.likelihood.mean_field_modes import BaseMixture, sample_base_mixture
from herdcli.rbm.likelihood.sequential_monte_carlo import POPULATIONS, ParticlePopulation, pool_log_estimates
from herdcli.rbm.model import Harmonium
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array

TEMPERATURES_PER_STEP = 10


@dataclass(frozen=True)
class PopulationProblem:
    """M models to anneal, each from its own base along its own temperatures (T + 1,) from 0 to 1.

    level  the number of this run; each run has random numbers of its own.
    """

    models: tuple[Harmonium, ...]
    bases: tuple[BaseMixture, ...]
    betas: tuple[Array, ...]
    chains: int = 100
    seed: int = 0
    level: int = 0

    @property
    def rows(self) -> int:
        """The number of rows of one population."""
        return max(2, -(-self.chains // POPULATIONS))


@dataclass
class PopulationState:
    """The state of the populations: rows in unit values, float32, and weights in nats."""

    values: Array = array("M P n D", "visible units, float32", kind="f")
    labels: Array = array("M P n", "components", kind="iu")
    log_weights: Array = array("M P n", "log weight since the last resampling", kind="f")
    log_means: Array = array("M P", "log of the mean weights until then", kind="f")
    ancestors: Array = array("M P n", "first row that a row descends from", kind="iu")
    step: int = 0


@dataclass(frozen=True)
class PopulationEstimates:
    """The result of a run: the estimate of each model's log Z, and its base with the shares that the run found."""

    estimates: list[LogZEstimate]
    bases: tuple[BaseMixture, ...]


@dataclass(frozen=True)
class PopulationAnnealing(FixedLengthAlgorithm[PopulationState]):
    """Population annealing as an algorithm; a step is ten temperatures.  map: runs over models and populations."""

    problem: PopulationProblem
    map: Map = map
    state = PopulationState  # the type of its states

    @property
    def steps(self) -> int:
        """The number of steps until the model with the most temperatures is finished."""
        return max(-(-(len(betas) - 1) // TEMPERATURES_PER_STEP) for betas in self.problem.betas)

    def memory(self) -> int:
        """The size in bytes of the state, and of the hidden units of a population while it is annealed."""
        given = self.problem
        (D, K), rows = given.models[0].W.shape, POPULATIONS * given.rows
        return int(len(given.models) * rows * (4 * D + 24) + given.rows * (16 * D + 16 * K))

    def init(self) -> PopulationState:
        """Sample every population from its base.  Raises BadUsage for fewer than 2 chains."""
        if self.problem.chains < 2:
            raise BadUsage(f"population annealing needs at least 2 chains, not {self.problem.chains}")
        return _initial_state(self.problem)

    def step(self, state: PopulationState) -> PopulationState:
        """Anneal every population by ten temperatures."""
        list(self.map(partial(_anneal_population, self.problem, state), *zip(*_population_indices(self.problem), strict=True)))
        state.step += 1
        return state

    def progress(self, state: PopulationState) -> RunProgress:
        """Return the progress with the inverse temperature β of the model that is furthest behind."""
        at = min(betas[min(state.step * TEMPERATURES_PER_STEP, len(betas) - 1)] for betas in self.problem.betas)
        return RunProgress(state.step, self.steps, f"β {at:.2f}")

    def result(self, state: PopulationState) -> PopulationEstimates:
        """Return the estimates, and the bases for a longer run."""
        return PopulationEstimates(_log_z_estimates(self.problem, state), _bases_with_updated_shares(self.problem, state))


def _initial_state(problem: PopulationProblem) -> PopulationState:
    """Sample every population from its base."""
    M, n, D = len(problem.models), problem.rows, problem.models[0].W.shape[0]
    shape = (M, POPULATIONS, n)
    state = PopulationState(
        values=np.empty((*shape, D), dtype=np.float32),
        labels=np.zeros(shape, dtype=np.int64),
        log_weights=np.zeros(shape),
        log_means=np.zeros(shape[:2]),
        ancestors=np.tile(np.arange(n), (M, POPULATIONS, 1)),
    )
    for m, p in _population_indices(problem):
        draws = _population_generator(problem, m, p, 0)
        state.labels[m, p], state.values[m, p] = sample_base_mixture(problem.models[m], problem.bases[m], n, draws)
    return state


def _population_indices(problem: PopulationProblem) -> Iterator[tuple[int, int]]:
    return ((m, p) for m in range(len(problem.models)) for p in range(POPULATIONS))


def _population_generator(problem: PopulationProblem, m: int, p: int, step: int) -> np.random.Generator:
    unit = (m * POPULATIONS + p) * 64 + problem.level  # fewer than 64 runs, each twice as long as the last
    return generator(problem.seed, Stream.POPULATIONS, unit=unit, step=step)


def _anneal_population(problem: PopulationProblem, state: PopulationState, m: int, p: int) -> None:
    first = state.step * TEMPERATURES_PER_STEP
    betas = problem.betas[m][first : first + TEMPERATURES_PER_STEP + 1]
    draws = _population_generator(problem, m, p, state.step + 1)
    walk = TemperatureWalk.allocate(problem.models[m], problem.bases[m], state.values[m, p], state.labels[m, p])
    rows = ParticlePopulation(walk, state.log_weights[m, p], state.log_means[m, p, ...], state.ancestors[m, p])
    for before, beta in pairwise(betas.tolist()):
        # w ← w f_{β'}(v)/f_β(v) before the move under β', so the product of mean weights stays unbiased however badly chains mix.
        rows.reweight_and_sweep(before, beta, draws)


def _bases_with_updated_shares(problem: PopulationProblem, state: PopulationState) -> tuple[BaseMixture, ...]:
    """Return the bases with the shares that a finished run found."""
    found = []
    for m, base in enumerate(problem.bases):
        log_weights = (state.log_weights[m] + state.log_means[m][:, None]).ravel()
        found.append(base.with_updated_shares(state.values[m].reshape(len(log_weights), -1).astype(np.float64), log_weights))
    return tuple(found)


def _log_z_estimates(problem: PopulationProblem, state: PopulationState) -> list[LogZEstimate]:
    """Return log Z of each model after all steps: the log of the populations' mean, with an error from their differences.

    effective  (Σ w)² / Σ w² of the weights of the first rows' descendants, over all populations: all descendants of a row count as one.
    """
    found = []
    for m, h in enumerate(problem.models):
        start = float(h.hidden.summed_log_partition(np.zeros(h.W.shape[1])))
        # log Z of each population: the means until its last resampling, times the mean weight since then.
        each = state.log_means[m] + exact_arithmetic.log_sum_exp(state.log_weights[m], axis=1) - exact_arithmetic.log(problem.rows)
        log_z, error = pool_log_estimates(each)
        shares = exact_arithmetic.exp(each - each.max())
        # Descendants of one first row are dependent, so they count as one in the effective number of rows.
        families = np.array(
            [
                np.bincount(ancestors, exact_arithmetic.exp(log_weights - log_weights.max()), minlength=problem.rows)
                for ancestors, log_weights in zip(state.ancestors[m], state.log_weights[m], strict=True)
            ]
        )
        families *= (shares / families.sum(axis=1))[:, None]
        count = float(exact_arithmetic.integer_power(families.sum(), 2) / np.square(families).sum())
        found.append(LogZEstimate(start + log_z, error, count, len(problem.betas[m]) - 1))
    return found
