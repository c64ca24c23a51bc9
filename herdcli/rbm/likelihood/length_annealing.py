"""Estimates of log Z of word counts at every length, by populations of hidden states that are annealed along the lengths.

Hidden states of rows of N words have  p_N(h) ∝ h(h) e^{c·h + N G(h)},  G(h) = log Σ_j e^{b_j + (W h)_j}.  Without words they are
independent, log Z_0 = Σ A(c); from there the chains are annealed along the number of words itself:

    Z_{N+s} / Z_N = E_{p_N}[e^{s G(h)}],

so that one run gives log Z of all lengths that it passes, without interpolation.  After each step a Gibbs sweep at the new length
follows: N words given h, and h given these.  N may be fractional.  For N + r words, r < 1, a sweep of N words, which is in detailed balance
with p_N, is a proposal that is accepted with probability min(1, e^{r (G(h') − G(h))}).  Populations, resampling and the pilot
are those of `sequential_monte_carlo`.
Source: Neal (2001); Del Moral, Doucet & Jasra (2006), sec. 3; the model: Salakhutdinov & Hinton (2009).
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np

from herdcli.algorithm import FixedLengthAlgorithm, Map, ProgressCallback, RunProgress, run_algorithm
from herdcli.errors import BadUsage
from herdcli.numerics import exact_arithmetic
from herdcli.rbm.likelihood import sequential_monte_carlo, word_counts
from herdcli.rbm.likelihood.log_z_estimates import (
    LogZEstimate,
    has_converged,
    is_last_run_reliable,
    single_run_estimate,
    widen_if_unreliable,
)
from herdcli.rbm.likelihood.sequential_monte_carlo import POPULATIONS, ParticlePopulation
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units.words import MultinomialLayer, softmax_weights_in_place
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array

LEVELS = 6  # most runs, each with twice the sweeps of the last
STRIDE = 8  # a step is at most an eighth of the words so far: only short steps find hidden states that only long rows have
PLACES_PER_STEP = 10


@dataclass(frozen=True)
class LengthEstimates:
    """Estimates of log Z (L,) for each length of rows.

    mean  the estimate of the mean of log Z over rows, with its error, effective chains, sweeps and the agreement of runs.
    """

    log_z: Array
    mean: LogZEstimate


@dataclass
class LengthWalk:
    """The state of a walk: hidden states (n, K) float32, which are overwritten, and what depends on them.

    growth  G (n,) float64 of each.  shares  the words' shares given each (n, D) float32, up to a factor.
    """

    W: Array
    b: Array
    c: Array
    h: Harmonium
    hidden: Array
    growth: Array
    shares: Array

    @classmethod
    def allocate(cls, h: Harmonium, hidden: Array) -> LengthWalk:
        """Allocate working arrays in float32 for hidden states (n, K)."""
        W, b, c = (np.ascontiguousarray(part, dtype=np.float32) for part in (h.W, h.b, h.c))
        walk = cls(W, b, c, h, hidden, np.empty(len(hidden)), np.empty((len(hidden), len(b)), dtype=np.float32))
        walk._update_shares()
        return walk

    def gains(self, before: float, after: float) -> Array:
        """Compute the growth of the log weights between two numbers of words, (n,) float64."""
        found: Array = (after - before) * self.growth
        return found

    def sweep(self, position: float, draws: np.random.Generator) -> None:
        """Sample words given hidden states, and hidden states given words; a fractional word is accepted or rejected."""
        whole, rest = divmod(position, 1.0)
        inputs = exact_arithmetic.matrix_product(MultinomialLayer(int(whole)).draw_word_counts(self.shares, draws), self.W)
        own, growth = self.hidden.copy(), self.growth
        self.h.hidden.layer().sample(inputs, self.c, self.hidden, draws)
        self._update_shares()
        left = draws.random(len(own)) >= exact_arithmetic.exp(np.minimum(rest * (self.growth - growth), 0.0))
        if left.any():
            self.hidden[left] = own[left]
            self._update_shares()

    def _update_shares(self) -> None:
        exact_arithmetic.matrix_product(self.hidden, self.W.T, out=self.shares)
        self.shares += self.b
        self.growth = softmax_weights_in_place(self.shares)

    def select(self, row_indices: Array) -> None:
        """Resample the rows: row i becomes a copy of row places[i], places (n,)."""
        for part in (self.hidden, self.growth, self.shares):
            part[...] = part[row_indices]


@dataclass(frozen=True)
class LengthProblem:
    """A model whose populations are annealed along places (T + 1,), numbers of words from 0.

    lengths  sorted (L,), with `counts` (L,) rows each.  level  the number of this run; each run has random numbers of its own.
    """

    h: Harmonium
    lengths: Array
    counts: Array
    places: Array
    chains: int = 100
    seed: int = 0
    unit: int = 0
    level: int = 0

    @property
    def rows(self) -> int:
        """The number of rows of one population."""
        return max(2, -(-self.chains // POPULATIONS))

    def draws(self, p: int, step: int) -> np.random.Generator:
        """Return the random numbers of a population's step."""
        return generator(self.seed, Stream.POPULATIONS, unit=(self.unit * POPULATIONS + p) * 64 + self.level, step=step)


@dataclass
class LengthState:
    """The state of the populations, and their estimates for the lengths already passed."""

    hidden: Array = array("P n K", "hidden units, float32", kind="f")
    log_weights: Array = array("P n", "log weight since the last resampling", kind="f")
    log_means: Array = array("P", "log of the mean weights until then", kind="f")
    ancestors: Array = array("P n", "first row that a row descends from", kind="iu")
    log_z: Array = array("P L", "log Z of each length", kind="f")
    squares: Array = array("P L", "squared share of each first row's descendants, summed", kind="f")
    step: int = 0


@dataclass(frozen=True)
class LengthAnnealing(FixedLengthAlgorithm[LengthState]):
    """Annealing along lengths as an algorithm; a step is ten places.  map: runs over populations."""

    problem: LengthProblem
    map: Map = map
    state = LengthState  # the type of its states

    @property
    def steps(self) -> int:
        """The number of steps until the last place."""
        return -(-(len(self.problem.places) - 1) // PLACES_PER_STEP)

    def memory(self) -> int:
        """The size in bytes of the state, and of the words of a population while it is annealed."""
        (D, K), rows = self.problem.h.W.shape, POPULATIONS * self.problem.rows
        return int(rows * (4 * K + 16) + self.problem.rows * (16 * D + 8 * K) + 16 * POPULATIONS * len(self.problem.lengths))

    def init(self) -> LengthState:
        """Start from rows without words: hidden states sampled at their biases.  Raises BadUsage for fewer than 2 chains."""
        given, h = self.problem, self.problem.h
        if given.chains < 2:
            raise BadUsage(f"annealed importance sampling needs at least 2 chains, not {given.chains}")
        shape = (POPULATIONS, given.rows)
        hidden = np.empty((*shape, len(h.c)), dtype=np.float32)
        for p in range(POPULATIONS):
            h.hidden.layer().sample(np.zeros_like(hidden[p]), h.c.astype(np.float32), hidden[p], given.draws(p, 0))
        start = float(h.hidden.summed_log_partition(np.array(h.c, dtype=np.float64)))
        said = (POPULATIONS, len(given.lengths))  # log Z of rows without words is known, and no step passes it
        ancestors = np.tile(np.arange(given.rows), (POPULATIONS, 1))
        known = np.full(said, start), np.full(said, 1.0 / given.rows)
        return LengthState(hidden, np.zeros(shape), np.full(POPULATIONS, start), ancestors, *known)

    def step(self, state: LengthState) -> LengthState:
        """Anneal every population by ten places."""
        list(self.map(partial(_anneal_population, self.problem, state), range(POPULATIONS)))
        state.step += 1
        return state

    def progress(self, state: LengthState) -> RunProgress:
        """Return the progress with the number of words of the rows."""
        places = self.problem.places
        return RunProgress(state.step, self.steps, f"{int(places[min(state.step * PLACES_PER_STEP, len(places) - 1)])} words")

    def result(self, state: LengthState) -> LengthEstimates:
        """Return log Z of each length, and of the mean over rows with its standard error."""
        top = state.log_z.max(axis=0)
        shares = exact_arithmetic.exp(state.log_z - top)
        log_z = top + exact_arithmetic.log(shares.mean(axis=0))
        weight = self.problem.counts / self.problem.counts.sum()
        # By the delta method the error of the mean of log Z over rows is the mean of each population's relative deviations.
        error = sequential_monte_carlo.log_mean_standard_error(exact_arithmetic.matrix_product(shares / shares.mean(axis=0), weight))
        count = exact_arithmetic.matrix_product(np.square(shares.sum(axis=0)) / (np.square(shares) * state.squares).sum(axis=0), weight)
        return LengthEstimates(
            log_z, LogZEstimate(float(exact_arithmetic.matrix_product(log_z, weight)), error, float(count), len(self.problem.places) - 1)
        )


def _anneal_population(problem: LengthProblem, state: LengthState, p: int) -> None:
    """Anneal one population by ten places, with its estimates for the lengths between them."""
    first, lengths = state.step * PLACES_PER_STEP, problem.lengths
    draws, walk = problem.draws(p, state.step + 1), LengthWalk.allocate(problem.h, state.hidden[p])
    rows = ParticlePopulation(walk, state.log_weights[p], state.log_means[p, ...], state.ancestors[p])
    for before, after in pairwise(problem.places[first : first + PLACES_PER_STEP + 1].tolist()):
        for i in np.flatnonzero((lengths > before) & (lengths <= after)):
            reached = rows.log_weights + walk.gains(before, lengths[i])
            total = exact_arithmetic.log_sum_exp(reached)
            state.log_z[p, i] = rows.log_mean + total - exact_arithmetic.log(len(reached))
            state.squares[p, i] = np.square(np.bincount(rows.ancestors, exact_arithmetic.exp(reached - total))).sum()
        rows.reweight_and_sweep(before, after, draws)


def choose_annealing_lengths(h: Harmonium, longest: int, seed: int, unit: int) -> Array:
    """Choose lengths (T + 1,) from 0 to the longest, each as far from the last as the conditional effective sample size allows."""
    draws = generator(seed, Stream.PILOT, unit=unit)
    hidden = np.empty((sequential_monte_carlo.PILOT_ROWS, len(h.c)), dtype=np.float32)
    h.hidden.layer().sample(np.zeros_like(hidden), h.c.astype(np.float32), hidden, draws)

    def step(rows: ParticlePopulation, before: float) -> float:
        return rows.find_next_position(before, min(longest, before + max(1.0, before / STRIDE)))

    return sequential_monte_carlo.choose_positions(
        ParticlePopulation.with_equal_weights(LengthWalk.allocate(h, hidden), sequential_monte_carlo.PILOT_ROWS), longest, draws, step
    )


def log_partitions_by_length(
    h: Harmonium,
    lengths: Array,
    counts: Array,
    *,
    chains: int,
    max_sweeps: int,
    seed: int,
    unit: int = 0,
    map: Map = map,
    progress: ProgressCallback | None = None,
) -> LengthEstimates:
    """Compute log Z_N of sorted lengths N (L,) with `counts` (L,) rows each.

    If the hidden states are few enough it is the sum over all of them; otherwise it is annealed.
    """
    if word_counts.can_enumerate_hidden(h):
        return LengthEstimates(word_counts.exact_log_partitions(h, lengths), LogZEstimate(0.0, 0.0))
    return anneal_log_partitions(h, lengths, counts, chains=chains, max_sweeps=max_sweeps, seed=seed, unit=unit, map=map, progress=progress)


def anneal_log_partitions(
    h: Harmonium,
    lengths: Array,
    counts: Array,
    *,
    chains: int,
    max_sweeps: int,
    seed: int,
    unit: int = 0,
    single_run: bool = False,
    map: Map = map,
    progress: ProgressCallback | None = None,
) -> LengthEstimates:
    """Estimate log Z_N of sorted lengths N (L,) with `counts` (L,) rows each, by annealing.

    Runs end once two agree, or if the next would take more sweeps than `max_sweeps`.  single_run  one run only.
    """
    first, found = choose_annealing_lengths(h, int(lengths[-1]), seed, unit), list[LengthEstimates]()
    for level in range(LEVELS):
        places = sequential_monte_carlo.refine_positions(first, level)
        if found and len(places) - 1 > max_sweeps:
            break
        problem = LengthProblem(h, lengths, counts, places, chains, seed, unit, level)
        found.append(run_algorithm(LengthAnnealing(problem, map), watch=progress))
        if single_run:
            return LengthEstimates(found[0].log_z, single_run_estimate(found[0].mean))
        if level and has_converged([run.mean for run in found]):
            break
    runs = [run.mean for run in found]
    return LengthEstimates(found[-1].log_z, widen_if_unreliable(runs[-1], runs[-2:-1], len(runs) > 1 and is_last_run_reliable(runs)))
