"""Herding of fully visible models: pseudo-samples from moments alone.

    s_t = argmax over x of w_{t−1}·Φ(x),   w_t = w_{t−1} + μ − Φ(s_t)

The features Φ are x; x and all x_i x_j; or given real vectors, one per candidate.  Only counts are stored:
w_t = w_0 + t·μ − Σ Φ(s) is computed from them at each t.  With data of N rows N·w_t is an integer vector and exact;
with given real moments it differs from the exact value by one float64 rounding, however large t.
Source: Welling (2009), eq. 10–11 without hidden variables; Bach et al. (2012), sec. 5.2–5.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.herding import maximisers
from herdcli.herding.binary_features import REPRESENTATIONS, feature_count, feature_sums
from herdcli.herding.categorical_variables import CategoricalVariables
from herdcli.herding.parallel_runs import HerdingRuns
from herdcli.numerics.scores import add_standardised_energies
from herdcli.records import dataclass
from herdcli.schema import Array, array

BLOCK = 200  # iterations in one step of `iterate.run_steps`, fewer for large models
BLOCK_WORK = 2e7
Maximiser = Literal["exact", "enumerate", "rows", "coordinates"]


@dataclass(frozen=True)
class VisibleHerdingSettings:
    """The settings of fully visible herding.

    features    `x`; `x,xx`; or `rows`: the candidates are real feature vectors themselves.
    maximiser   `exact`: by sign, for `x` alone; `enumerate`: all 2^D states; `rows`: the given candidates;
                `coordinates`: single flips from the last state to a local maximum.
    """

    features: Literal["x", "x,xx", "rows"] = "x"
    maximiser: Maximiser = "exact"
    iterations: int = 2000
    burn_in: int = 1000
    energy_every: int = 1
    keep: int | None = None
    representation: Literal["spin", "binary"] = "spin"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.iterations < 1 or self.energy_every < 1:
            raise BadUsage("iterations and --energy-every must be at least 1")
        if not 0 <= self.burn_in < self.iterations:
            raise BadUsage(
                f"--burn-in {self.burn_in} must be less than --iterations {self.iterations}", hint="lower --burn-in, or raise --iterations"
            )
        if self.maximiser == "exact" and self.features != "x":
            raise BadUsage("--maximiser exact works only with --features x", hint="use --maximiser enumerate, rows or coordinates")
        if self.features == "rows" and self.maximiser != "rows":
            raise BadUsage("--features rows works only with --maximiser rows", hint="use --maximiser rows")

    @property
    def kept_state_count(self) -> int:
        """The number of states in the artifact: the last ones, without those of the burn-in."""
        after = self.iterations - self.burn_in
        return after if self.keep is None else min(self.keep, after)


OVERHEAD = 1 << 16  # bytes of objects in addition to the arrays


@dataclass(frozen=True)
class MomentSource:
    """The moments that one run matches.

    moment      (F,) int64 sums of the features over n rows, exact; or, with n = 0, float64 means.
    candidates  rows of unit values (m, D) int8 for the maximiser `rows`, or real feature vectors (m, F).  Energies are
                standardised by their spread.
    """

    units: int
    n: int
    moment: Array
    candidates: Array
    start: Array | None = None  # w_0 (F,), times n if n > 0; zero by default


def source_from_rows(x: Array, features: str) -> MomentSource:
    """Make a source from the moments of rows (n, D) of unit values."""
    return MomentSource(x.shape[1], len(x), feature_sums(x, features), x)


def source_from_moments(mean: Array, units: int, features: str, representation: str) -> MomentSource:
    """Make a source from given moments.  Raises DataError for moments that unit values cannot have."""
    low = -1.0 if representation == "spin" else 0.0
    if len(mean) != feature_count(units, features):
        raise DataError(
            f"there are {len(mean)} moments, but {units} units with the features {features} need {feature_count(units, features)}"
        )
    wrong = np.flatnonzero(~((mean >= low) & (mean <= 1.0)))
    if len(wrong):
        place = int(wrong[0])
        raise DataError(
            f"moment {place} is {mean[place]:g}, but must be from {low:g} to 1",
            hint="use --representation binary for 0 to 1, spin for -1 to 1",
        )
    return MomentSource(units, 0, np.asarray(mean, dtype=np.float64), np.empty((0, units), dtype=np.int8))


def source_from_vectors(vectors: Array) -> MomentSource:
    """Make a source from real feature vectors (m, F), whose mean is the moment."""
    if len(np.unique(vectors, axis=0)) < 2:
        raise DataError("herding needs at least two distinct rows, but there are fewer")
    exact = np.asarray(vectors, dtype=np.float64)
    return MomentSource(exact.shape[1], 0, exact.mean(axis=0), exact)


@dataclass(frozen=True)
class VisibleHerdingProblem:
    """The sources of all runs, and the rows (q, D) of unit values whose energies all runs average.

    variables  the units of which one is high in every state; None: there are none.
    """

    sources: tuple[MomentSource, ...]
    settings: VisibleHerdingSettings
    queries: Array | None = None
    variables: CategoricalVariables | None = None

    def __post_init__(self) -> None:
        D, settings = self.sources[0].units, self.settings
        if settings.maximiser == "enumerate" and D > maximisers.ENUMERABLE:
            raise BadUsage(
                f"--maximiser enumerate handles at most {maximisers.ENUMERABLE} units, but there are {D}",
                hint="use --maximiser coordinates",
            )
        if settings.maximiser == "rows" and not all(len(source.candidates) for source in self.sources):
            raise BadUsage("--maximiser rows needs rows of data, but only moments are given")

    @property
    def count(self) -> int:
        """The number of runs."""
        return len(self.sources)

    def part(self, runs: Sequence[int]) -> VisibleHerdingProblem:
        """Return the problem of some of the runs, which evolve exactly as among all: nothing in them is random."""
        return replace(self, sources=tuple(self.sources[u] for u in runs))

    @property
    def length(self) -> int:
        """The number of features, F."""
        source = self.sources[0]
        return source.units if self.settings.features == "rows" else feature_count(source.units, self.settings.features)

    @property
    def block(self) -> int:
        """The number of iterations in one step, which depends on sizes alone."""
        states = 1 << self.sources[0].units if self.settings.maximiser == "enumerate" else 1
        rows = 0 if self.queries is None else len(self.queries)
        candidates = max(len(source.candidates) for source in self.sources)
        work = len(self.sources) * (self.length + 4 * states + (rows + candidates) * self.sources[0].units)
        return int(np.clip(BLOCK_WORK // work, 1, BLOCK))


@dataclass(kw_only=True)
class VisibleRunState:
    """The state of one run: how often each feature or row was chosen."""

    counts: Array = array("F", "Σ_t Φ(s_t); for real rows how often each row was chosen", kind="i")
    x: Array = array("D", "the last state", kind="i")
    chosen: int = 0  # index of the row chosen last
    weight_norm: Array = array("T", "‖w‖ after each iteration", kind="f")
    energy: Array = array("q", "sum of standardised energies of the queried rows", kind="f", finite=True)
    states: Array = array("S P", "kept pseudo-samples: bits of x padded to bytes, or the row's index in 4 bytes", kind="u")
    averaged: int = 0


@dataclass
class VisibleHerdingState:
    """The state of all runs after `iteration` iterations."""

    step: int
    iteration: int
    runs: list[VisibleRunState]

    def validate(self) -> None:
        """Raise DataError if the iteration is not possible."""
        if not all(0 <= self.iteration <= len(run.weight_norm) for run in self.runs):
            raise DataError(f"is damaged: it is at iteration {self.iteration}, but its traces have fewer iterations")
        for run in self.runs:  # features lie within ±1: larger sums make integers wrap round, and the ascent might never end
            if run.counts.size and not -self.iteration <= run.counts.min() <= run.counts.max() <= self.iteration:
                raise DataError(f"is damaged: a count is above the number of iterations, {self.iteration}")


def _initial_state(problem: VisibleHerdingProblem) -> VisibleHerdingState:
    """Return the state of every run before its first iteration: no counts, all units low."""
    settings = problem.settings
    queried = 0 if problem.queries is None else len(problem.queries)
    runs = []
    for source in problem.sources:
        rows = settings.features == "rows"
        length = len(source.candidates) if rows else problem.length
        low = 0 if rows else REPRESENTATIONS[settings.representation][0]
        runs.append(
            VisibleRunState(
                counts=np.zeros(length, dtype=np.int64),
                x=_initial_units(source.units, low, problem.variables),
                weight_norm=np.zeros(settings.iterations),
                energy=np.zeros(queried),
                states=np.zeros((settings.kept_state_count, 4 if rows else -(-source.units // 8)), dtype=np.uint8),
            )
        )
    return VisibleHerdingState(0, 0, runs)


def _initial_units(units: int, low: int, variables: CategoricalVariables | None) -> Array:
    """Return the units (D,) before the first iteration: all low, except the first unit of each variable."""
    x = np.full(units, low, dtype=np.int8)
    return x if variables is None else variables.choose_states(np.full(units, -1.0), x, low)


@dataclass(frozen=True)
class VisibleHerding(HerdingRuns[VisibleHerdingProblem, VisibleHerdingState]):
    """Herding of fully visible models, as an algorithm (Welling 2009, eq. 10 and 11 without hidden variables)."""

    @property
    def state(self) -> type[VisibleHerdingState]:
        return VisibleHerdingState

    def init(self) -> VisibleHerdingState:
        return _initial_state(self.problem)

    def run_iterations(self, state: VisibleHerdingState, count: int, u: int) -> None:
        """Run `count` iterations of run u, in place."""
        _advance_run(self.problem, state, count, u)

    def memory(self) -> int:
        problem, settings = self.problem, self.problem.settings
        queried = 0 if problem.queries is None else len(problem.queries)
        rows = settings.features == "rows"
        m = max(len(source.candidates) for source in problem.sources)
        counted = m if rows else problem.length
        runs = (
            8 * counted
            + 8 * queried
            + 8 * settings.iterations
            + settings.kept_state_count * (4 if rows else problem.sources[0].units // 8 + 1)
        )
        # the weights, their terms and their squares; for the rows that standardise energies, scores and their terms
        return problem.count * runs + OVERHEAD + 48 * max(problem.length, counted) + (32 * (m + queried) if queried else 0)


def current_weights(source: MomentSource, run: VisibleRunState, t: int, features: str) -> Array:
    """Compute the weights w_t (F,): n·w in int64 if the moments are sums over n rows, else w in float64."""
    if features == "rows":
        found: Array = t * source.moment - run.counts.astype(np.float64) @ source.candidates
    else:
        # The sum of t updates w ← w + μ − Φ(s) (eq. 11 without hidden units); adding them one by one would round t times.
        found = t * source.moment - max(source.n, 1) * run.counts
    return found if source.start is None else found + source.start


def _advance_run(problem: VisibleHerdingProblem, state: VisibleHerdingState, count: int, u: int) -> None:
    """Run `count` iterations of run u."""
    source, run, settings = problem.sources[u], state.runs[u], problem.settings
    w = current_weights(source, run, state.iteration, settings.features)
    for t in range(state.iteration + 1, state.iteration + count + 1):
        if problem.queries is not None and t > settings.burn_in and (t - settings.burn_in - 1) % settings.energy_every == 0:
            queried = -maximisers.score_rows(w, problem.queries, settings.features)
            add_standardised_energies(run.energy, queried, -maximisers.score_rows(w, source.candidates, settings.features))
            run.averaged += 1
        if settings.features == "rows":
            run.chosen = int((source.candidates @ w).argmax())
            run.counts[run.chosen] += 1
        else:
            run.x[...] = _find_maximising_state(source, run, settings, w, problem.variables)
            run.counts += feature_sums(run.x[None, :], settings.features)
        w = current_weights(source, run, t, settings.features)
        run.weight_norm[t - 1] = np.sqrt(np.square(w.astype(np.float64)).sum()) / max(source.n, 1)
        place = t - 1 - (settings.iterations - settings.kept_state_count)
        if place >= 0:
            bits = np.packbits(run.x > 0, bitorder="little")
            run.states[place] = np.array([run.chosen], dtype="<u4").view(np.uint8) if settings.features == "rows" else bits


def _find_maximising_state(
    source: MomentSource, run: VisibleRunState, settings: VisibleHerdingSettings, w: Array, variables: CategoricalVariables | None
) -> Array:
    """Return the state (D,) that the maximiser finds for weights w."""
    if settings.maximiser == "exact":
        return maximisers.maximise_by_sign(w, settings.representation, variables)
    if settings.maximiser == "enumerate":
        return maximisers.maximise_by_enumeration(w, source.units, settings.features, settings.representation, variables)
    if settings.maximiser == "rows":
        best: Array = source.candidates[int(maximisers.score_rows(w, source.candidates, settings.features).argmax())]
        return best
    return maximisers.maximise_by_coordinates(w, run.x, settings.features, settings.representation, variables)
