"""Samples of harmoniums by block Gibbs sampling, with several chains, a burn-in and thinning.

A step is one sweep of every model's chains, visible units given hidden ones and vice versa.  Chains start at hidden states
sampled at natural parameter 0, or at given rows.  Sampling is in float32, as in learning.

Chains that mix badly each explore a different part of the model.  From half the burn-in on, sums and squares of hidden means are recorded
for the first chains, in two halves of the sweeps.  If these sequences differ from each other by more than they vary within themselves,
R̂ = √((L − 1)/L + B/W) is above 1.  Source: Gelman & Rubin (1992); in halves: Gelman et al. (2013), sec. 11.4.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from herdcli.algorithm import FixedLengthAlgorithm, HasStateShapes, Map, RunProgress
from herdcli.errors import BadUsage
from herdcli.rbm.model import Harmonium
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array

WATCHED = 64  # chains of each model whose hidden means are compared
SHORTEST = 20  # R̂ is reported only if each half has at least this many sweeps
LEAST = 1e-4  # a variance of a hidden mean between chains counts as zero if it is at most this


@dataclass(frozen=True)
class SamplingProblem:
    """M models of the same shape, and the settings of their sampling.

    count    rows of each model.  chains  0: as many as rows.  burn_in, thin  sweeps before the first row, and between two rows.
    means    return E[v | h] instead of the states, for the lowest layer.  start  rows (chains, D) at which the chains start.
    given    rows (count, D), NaN for free entries: each chain holds the given entries of its row fixed.
    below    models that convert the rows of a single model into those of the layers below it, the nearest first.
    """

    models: tuple[Harmonium, ...]
    count: int = 100
    chains: int = 0
    burn_in: int = 1000
    thin: int = 100
    means: bool = False
    seed: int = 0
    start: Array | None = None
    given: Array | None = None
    below: tuple[Harmonium, ...] = ()

    def __post_init__(self) -> None:
        for name, least in (("count", 1), ("chains", 0), ("burn_in", 1), ("thin", 1)):
            if getattr(self, name) < least:
                raise BadUsage(f"{name} must be at least {least}, not {getattr(self, name)}")
        if self.given is not None and len(self.given) != self.width:
            raise BadUsage(f"there are {len(self.given)} rows to complete, but {self.width} chains; each row needs one chain")

    @property
    def width(self) -> int:
        """The number of chains of each model."""
        return min(self.chains or self.count, self.count)

    @property
    def rounds(self) -> int:
        """The number of times that all chains return a row."""
        return -(-self.count // self.width)


@dataclass
class SamplingState:
    """The states of the chains, and the rows kept so far, those of the first round first.  Float32."""

    hidden: Array = array("M chains K", "hidden states", kind="f", finite=True)
    rows: Array = array("M rounds chains D", "rows kept, 0 where none are yet", kind="f")
    sums: Array | None = array("M 2 w K", "of hidden means of the first chains, in the halves", kind="f", optional=True)
    squares: Array | None = array("M 2 w K", "the same of their squares", kind="f", optional=True)
    step: int = 0


@dataclass(frozen=True)
class SampledRows:
    """The sampled rows (count, D) float32 of each model, of the lowest layer.

    disagreement  the largest R̂ of a hidden mean; None if the chains were too short, or none were run.
    """

    rows: list[Array]
    disagreement: float | None = None


@dataclass(frozen=True)
class BlockGibbsSampling(FixedLengthAlgorithm[SamplingState], HasStateShapes[SamplingState]):
    """Block Gibbs sampling as an algorithm; its result is the rows of each model, and their R̂.  map: runs over the models."""

    problem: SamplingProblem
    map: Map = map
    state = SamplingState  # the type of its states

    @property
    def steps(self) -> int:
        """The total number of sweeps."""
        return self.problem.burn_in + (self.problem.rounds - 1) * self.problem.thin

    def memory(self) -> int:
        """The size of the rows and of a sweep's values in bytes."""
        given = self.problem
        D, K = given.models[0].W.shape
        watched = 32 * len(given.models) * min(given.width, WATCHED) * K
        return int(4 * len(given.models) * (given.rounds * given.width * D + given.width * (D + 3 * K)) + watched)

    def state_template(self) -> SamplingState:
        """Return a state without initial hidden states."""
        given = self.problem
        D, K = given.models[0].W.shape
        hidden = np.empty((len(given.models), given.width, K), dtype=np.float32)
        rows = np.zeros((len(given.models), given.rounds, given.width, D), dtype=np.float32)
        sums, squares = np.zeros((2, len(given.models), 2, min(given.width, WATCHED), K))
        return SamplingState(hidden, rows, sums, squares)

    def init(self) -> SamplingState:
        """Return the initial state of every chain."""
        state = self.state_template()
        _initialise_chains(self.problem, state.hidden)
        return state

    def step(self, state: SamplingState) -> SamplingState:
        """Run one sweep of every chain.  Rows are kept after the burn-in, and then after every `thin` sweeps (a round)."""
        list(self.map(partial(_sweep_chains, self.problem, state), range(len(self.problem.models))))
        state.step += 1
        return state

    def progress(self, state: SamplingState) -> RunProgress:
        """Return the progress with the number of rows of each model."""
        given = self.problem
        rounds = 0 if state.step < given.burn_in else (state.step - given.burn_in) // given.thin + 1
        return RunProgress(state.step, self.steps, f"{min(rounds * given.width, given.count)} of {given.count} rows")

    def result(self, state: SamplingState) -> SampledRows:
        """Return the rows (n, D) of each model, carried down to the lowest layer."""
        kept = [rows.reshape(-1, rows.shape[-1])[: self.problem.count] for rows in state.rows]
        return SampledRows(convert_to_lowest_layer(self.problem, kept), _largest_rhat(self.problem, state))


def _initialise_chains(problem: SamplingProblem, hidden: Array) -> None:
    """Set every chain to its start: hidden (models, chains, K) is filled."""
    for m, h in enumerate(problem.models):
        first = generator(problem.seed, Stream.SAMPLE, unit=m)
        if problem.start is None:
            hidden[m] = h.hidden.layer().sample_unbiased_states(hidden[m].shape, first)
        else:
            make_gibbs_sweeper(h, first).update_hidden(problem.start.astype(np.float32), np.empty_like(hidden[m]), hidden[m])


def _sweep_chains(problem: SamplingProblem, state: SamplingState, m: int) -> None:
    """Run one sweep of model m's chains."""
    sweeper = make_gibbs_sweeper(problem.models[m], generator(problem.seed, Stream.SAMPLE, unit=m, step=state.step + 1))
    hidden = state.hidden[m]
    means = np.empty((len(hidden), len(sweeper.b)), dtype=np.float32)
    visible = np.empty_like(means)
    sweeper.update_visible(hidden, means, visible)
    if problem.given is not None:
        known = ~np.isnan(problem.given)
        visible[known] = means[known] = problem.given[known]
    kept, rest = divmod(state.step + 1 - problem.burn_in, problem.thin)
    if kept >= 0 and rest == 0:
        state.rows[m, kept] = means if problem.means and not problem.below else visible
    hidden_means = np.empty_like(hidden)
    sweeper.update_hidden(visible, hidden_means, hidden)
    half = _rhat_half(problem, state.step)
    if state.sums is not None and state.squares is not None and half is not None:
        seen = hidden_means[: state.sums.shape[2]].astype(np.float64)
        state.sums[m, half] += seen
        state.squares[m, half] += np.square(seen)


def _rhat_sweeps(problem: SamplingProblem) -> tuple[int, int]:
    """Return the first sweep that is recorded for R̂, and the number of sweeps of a half."""
    first, last = problem.burn_in // 2, problem.burn_in + (problem.rounds - 1) * problem.thin
    return first, (last - first) // 2


def _rhat_half(problem: SamplingProblem, step: int) -> int | None:
    """Return the half (0 or 1) that a sweep belongs to; None before them, and for an odd one at the end."""
    first, length = _rhat_sweeps(problem)
    return (step - first) // length if length and 0 <= step - first < 2 * length else None


def _largest_rhat(problem: SamplingProblem, state: SamplingState) -> float | None:
    """Compute the largest R̂ of a hidden mean.  Only chains that hold the same entries fixed are compared with each other."""
    length = _rhat_sweeps(problem)[1]
    if state.sums is None or state.squares is None or length < SHORTEST:
        return None
    means = state.sums / length  # (M, 2, w, K)
    within = np.maximum(state.squares / length - np.square(means), 0.0).mean(axis=(1, 2)) * (length / (length - 1))
    held = None if problem.given is None else problem.given[: means.shape[2]]
    alike = np.zeros(means.shape[2], dtype=int) if held is None else _distinct_row_indices(held)
    between, freedom = np.zeros(within.shape), 0
    for group in range(int(alike.max()) + 1):
        some = means[:, :, alike == group].reshape(len(means), -1, means.shape[-1])
        between += np.square(some - some.mean(axis=1, keepdims=True)).sum(axis=1)
        freedom += some.shape[1] - 1
    between /= freedom
    told = between > LEAST
    if not told.any():
        return 1.0
    # B/L of the papers is the variance of the sequences' means, here `between`; a unit that never changes in any chain has W = 0.
    return float(np.sqrt((length - 1) / length + between[told] / np.maximum(within[told], 1e-9)).max())


def _distinct_row_indices(rows: Array) -> Array:
    """Return for each row its index (n,) among the distinct rows of (n, D), with NaN equal to NaN."""
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(np.asarray(row).tobytes(), len(numbers)) for row in rows])


def make_gibbs_sweeper(h: Harmonium, draws: np.random.Generator) -> GibbsSweeper:
    """Return the half-sweeps of a model in float32."""
    W, b, c = (np.ascontiguousarray(part, dtype=np.float32) for part in (h.W, h.b, h.c))
    return GibbsSweeper(W, b, c, h.visible.layer(), h.hidden.layer(), draws)


def convert_to_lowest_layer(problem: SamplingProblem, rows: list[Array]) -> list[Array]:
    """Convert rows (count, D) of each model to rows of the lowest layer, float32."""
    for depth, h in enumerate(problem.below):
        sweeper = make_gibbs_sweeper(h, generator(problem.seed, Stream.SAMPLE, unit=len(problem.models) + depth))
        for m, hidden in enumerate(rows):
            rows[m] = np.empty((len(hidden), len(sweeper.b)), dtype=np.float32)
            last = problem.means and depth == len(problem.below) - 1
            sweeper.update_visible(hidden, np.empty_like(rows[m]) if not last else rows[m], None if last else rows[m])
    return rows
