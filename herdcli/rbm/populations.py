"""log Z of harmoniums too large to enumerate: populations of annealed chains that are drawn anew when their weights spread.

Rows walk from a mixture of independent units (`modes`) to the model through

    f_β(v) = Σ_m π_m q_m(v)^{1−β} · e^{β b·v + Σ_k A(β x_k)},      x = c + v'W,      0 = β_0 < … < β_T = 1.

Between two temperatures a row's weight grows by f_{β'}(v) / f_β(v), and a Gibbs sweep under β' follows: the component m given v, the
hidden units given v, the visible units given both.  Where the effective number of rows of a population falls below half,
its rows are drawn anew in proportion to their weights.  Each population's product of mean weights is an unbiased estimate of Z
over that of the start; populations share nothing, so that what they differ by measures the error, whatever its cause.
A pilot places the temperatures: steps between which the conditional effective sample size is the same.
Source: Neal (2001); Del Moral, Doucet & Jasra (2006), sec. 3; Zhou, Johansen & Aston (2016), sec. 3.3 (conditional ESS).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from herdcli.algorithm import Counted, Progress
from herdcli.errors import BadUsage
from herdcli.rbm.annealing import Estimate, gain
from herdcli.rbm.gibbs import layer
from herdcli.rbm.likelihood import Map
from herdcli.rbm.model import Harmonium
from herdcli.rbm.modes import Base, drawn
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array

POPULATIONS = 8
TEMPERATURES_PER_STEP = 10
CONDITIONAL = 0.95  # share of the rows that a step of the pilot keeps in effect
PILOT_ROWS = 64
FEWEST, PILOT_MOST = 50, 2000  # temperatures of the first run, and of the pilot
WIDER = 1.5  # how much more than their standard error the populations' skewed estimates ask for: scripts/check_likelihood.py
STUDENT = 2.3646  # 97.5 % point of Student's t with POPULATIONS − 1 degrees of freedom


@dataclass(frozen=True)
class Problem:
    """M models to anneal, each from its own base along its own temperatures (T + 1,) from 0 to 1.

    level  which run of several this is: each has random numbers of its own.
    """

    models: tuple[Harmonium, ...]
    bases: tuple[Base, ...]
    betas: tuple[Array, ...]
    chains: int = 100
    seed: int = 0
    level: int = 0

    @property
    def rows(self) -> int:
        """Rows of one population."""
        return max(2, -(-self.chains // POPULATIONS))


@dataclass
class State:
    """Where the populations are: rows in unit values, float32, and weights in nats."""

    values: Array = array("M P n D", "visible units, float32", kind="f")
    labels: Array = array("M P n", "components", kind="iu")
    log_weights: Array = array("M P n", "log weight since rows were last drawn anew", kind="f")
    log_means: Array = array("M P", "log of the mean weights until then", kind="f")
    ancestors: Array = array("M P n", "first row that a row descends from", kind="iu")
    step: int = 0


@dataclass(frozen=True)
class Found:
    """What came of a run: estimates of each model's log Z, and its base with the shares that the run found."""

    estimates: list[Estimate]
    bases: tuple[Base, ...]


@dataclass(frozen=True)
class Populations(Counted[State]):
    """The algorithm; a step is ten temperatures.  map: runs over models and populations."""

    problem: Problem
    map: Map = map

    @property
    def state(self) -> type[State]:
        """The type of its states."""
        return State

    @property
    def steps(self) -> int:
        """Steps until the model with most temperatures is done."""
        return max(-(-(len(betas) - 1) // TEMPERATURES_PER_STEP) for betas in self.problem.betas)

    def memory(self) -> int:
        """Bytes of the state, and of the hidden units of a population while it is annealed."""
        given = self.problem
        (D, K), rows = given.models[0].W.shape, POPULATIONS * given.rows
        return int(len(given.models) * rows * (4 * D + 24) + given.rows * (16 * D + 16 * K))

    def init(self) -> State:
        """Every population drawn from its base.  Raises BadUsage for fewer than 2 chains."""
        if self.problem.chains < 2:
            raise BadUsage(f"annealing needs at least 2 chains, not {self.problem.chains}")
        return _begun(self.problem)

    def step(self, state: State) -> State:
        """Ten temperatures further."""
        list(self.map(partial(_anneal, self.problem, state), *zip(*_places(self.problem), strict=True)))
        state.step += 1
        return state

    def progress(self, state: State) -> Progress:
        """With the inverse temperature β that the model furthest behind is at."""
        at = min(betas[min(state.step * TEMPERATURES_PER_STEP, len(betas) - 1)] for betas in self.problem.betas)
        return Progress(state.step, self.steps, f"β {at:.2f}")

    def result(self, state: State) -> Found:
        """The estimates, and the bases of a longer run."""
        return Found(_estimates(self.problem, state), _reshared(self.problem, state))


def _begun(problem: Problem) -> State:
    """Every population drawn from its base."""
    M, n, D = len(problem.models), problem.rows, problem.models[0].W.shape[0]
    shape = (M, POPULATIONS, n)
    state = State(
        values=np.empty((*shape, D), dtype=np.float32),
        labels=np.zeros(shape, dtype=np.int64),
        log_weights=np.zeros(shape),
        log_means=np.zeros(shape[:2]),
        ancestors=np.tile(np.arange(n), (M, POPULATIONS, 1)),
    )
    for m, p in _places(problem):
        draws = _draws(problem, m, p, 0)
        state.labels[m, p], state.values[m, p] = drawn(problem.models[m], problem.bases[m], n, draws)
    return state


def _places(problem: Problem) -> Iterator[tuple[int, int]]:
    return ((m, p) for m in range(len(problem.models)) for p in range(POPULATIONS))


def _draws(problem: Problem, m: int, p: int, step: int) -> np.random.Generator:
    unit = (m * POPULATIONS + p) * 64 + problem.level  # fewer than 64 runs, each twice as long as the last
    return generator(problem.seed, Stream.POPULATIONS, unit=unit, step=step)


def _anneal(problem: Problem, state: State, m: int, p: int) -> None:
    first = state.step * TEMPERATURES_PER_STEP
    betas = problem.betas[m][first : first + TEMPERATURES_PER_STEP + 1]
    draws = _draws(problem, m, p, state.step + 1)
    walk = Walk.of(problem.models[m], problem.bases[m], state.values[m, p], state.labels[m, p])
    log_weights = state.log_weights[m, p]
    for before, beta in pairwise(betas.tolist()):
        log_weights += walk.gains(before, beta)
        if effective(log_weights) < 0.5 * len(log_weights):
            places = _drawn_anew(log_weights, draws)
            state.log_means[m, p] += _log_mean(log_weights)
            log_weights.fill(0.0)
            walk.select(places)
            state.ancestors[m, p] = state.ancestors[m, p][places]
        walk.sweep(beta, draws)


@dataclass
class Walk:
    """Rows (n, D) that a model's temperatures are taken through in place, and the components they are in."""

    h: Harmonium
    base: Base
    v: Array
    labels: Array
    W: Array
    c: Array
    biases: Array
    x: Array

    @classmethod
    def of(cls, h: Harmonium, base: Base, v: Array, labels: Array) -> Walk:
        """Working arrays in float32."""
        W, c, biases = (part.astype(np.float32) for part in (h.W, h.c, base.biases))
        return cls(h, base, v, labels, W, c, biases, v @ W)

    def gains(self, before: float, beta: float) -> Array:
        """log f_β(v) − log f_{β'}(v) with β' = `before`, (n,) float64."""
        v = self.v.astype(np.float64)
        mixture = [np.logaddexp.reduce(self.base.log_density(v, 1.0 - at), axis=1) for at in (before, beta)]
        result: Array = (beta - before) * (v @ self.h.b) + gain(self.h.hidden, self.x + self.h.c, before, beta) + mixture[1] - mixture[0]
        return result

    def select(self, places: Array) -> None:
        """Rows drawn anew."""
        self.v[...], self.labels[...], self.x[...] = self.v[places], self.labels[places], self.x[places]

    def sweep(self, beta: float, draws: np.random.Generator) -> None:
        """Component, hidden units and visible units given each other under β."""
        if beta < 1.0 and len(self.biases) > 1:
            terms = self.base.log_density(self.v.astype(np.float64), 1.0 - beta)
            share = np.cumsum(np.exp(terms - terms.max(axis=1, keepdims=True)), axis=1)
            self.labels[...] = (share < share[:, -1:] * draws.random((len(share), 1))).sum(axis=1)
        hidden, natural = np.empty_like(self.x), np.empty_like(self.v)
        layer(self.h.hidden).sample(self.x, self.c, hidden, draws, beta=beta)
        np.matmul(hidden, self.W.T, out=natural)
        natural += np.float32((1.0 - beta) / beta) * self.biases[self.labels]
        layer(self.h.visible).sample(natural, self.h.b.astype(np.float32), self.v, draws, beta=beta)
        np.matmul(self.v, self.W, out=self.x)


def effective(log_weights: Array) -> float:
    """(Σ w)² / Σ w²."""
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / np.square(weights).sum())


def _log_mean(log_weights: Array) -> float:
    return float(np.logaddexp.reduce(log_weights) - np.log(len(log_weights)))


def _drawn_anew(log_weights: Array, draws: np.random.Generator) -> Array:
    """Places (n,) in proportion to their weights, by systematic resampling."""
    share = np.cumsum(np.exp(log_weights - log_weights.max()))
    at = (np.arange(len(share)) + draws.random()) / len(share)
    places: Array = np.minimum(np.searchsorted(share / share[-1], at), len(share) - 1)
    return places


def pilot(h: Harmonium, base: Base, seed: int, unit: int = 0) -> Array:
    """Temperatures (T + 1,) from 0 to 1, each as far from the last as the conditional effective sample size allows.

    With normalised weights W_i so far and growth g_i over the next step it is (Σ W g)² / Σ W g², as a share of all.
    """
    draws = generator(seed, Stream.PILOT, unit=unit)
    labels, values = drawn(h, base, PILOT_ROWS, draws)
    walk, log_weights, betas = Walk.of(h, base, values, labels), np.zeros(PILOT_ROWS), [0.0]
    while betas[-1] < 1.0 and len(betas) <= PILOT_MOST:
        beta = _furthest(walk, log_weights, betas[-1])
        log_weights += walk.gains(betas[-1], beta)
        if effective(log_weights) < 0.5 * PILOT_ROWS:
            walk.select(_drawn_anew(log_weights, draws))
            log_weights.fill(0.0)
        walk.sweep(beta, draws)
        betas.append(beta)
    return np.array([*betas[:-1], 1.0])


def _furthest(walk: Walk, log_weights: Array, before: float) -> float:
    """The largest next temperature that keeps the conditional effective sample size, by bisection."""

    def kept(beta: float) -> bool:
        growth = walk.gains(before, beta)
        share = np.exp(log_weights - np.logaddexp.reduce(log_weights))
        growth = np.exp(growth - growth.max())
        return bool((share @ growth) ** 2 >= CONDITIONAL * (share @ np.square(growth)))

    if kept(1.0):
        return 1.0
    low, high = before, 1.0
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if kept(middle) else (low, middle)
    return low if low > before else high


def refined(betas: Array, level: int) -> Array:
    """2^level times as many temperatures (at least FEWEST · 2^level), spaced as the pilot's."""
    count = max(len(betas) - 1, FEWEST) << level
    finer: Array = np.interp(np.linspace(0.0, len(betas) - 1.0, count + 1), np.arange(len(betas)), betas)
    return finer


def _reshared(problem: Problem, state: State) -> tuple[Base, ...]:
    """The bases with the shares that a finished run found."""
    found = []
    for m, base in enumerate(problem.bases):
        log_weights = (state.log_weights[m] + state.log_means[m][:, None]).ravel()
        found.append(base.shared_by(state.values[m].reshape(len(log_weights), -1).astype(np.float64), log_weights))
    return tuple(found)


def _estimates(problem: Problem, state: State) -> list[Estimate]:
    """log Z of each model once all steps are done: the log of the populations' mean, with an error from what they differ by.

    effective  (Σ w)² / Σ w² of what the first rows' descendants weigh, over all populations: rows that were drawn anew from one are one.
    """
    found = []
    for m, h in enumerate(problem.models):
        start = float(h.hidden.summed_log_partition(np.zeros(h.W.shape[1])))
        each = state.log_means[m] + np.logaddexp.reduce(state.log_weights[m], axis=1) - np.log(problem.rows)
        top = each.max()
        shares = np.exp(each - top)
        error = WIDER * float(shares.std(ddof=1) / shares.mean() / np.sqrt(len(shares)))
        families = np.array(
            [
                np.bincount(ancestors, np.exp(log_weights - log_weights.max()), minlength=problem.rows)
                for ancestors, log_weights in zip(state.ancestors[m], state.log_weights[m], strict=True)
            ]
        )
        families *= (shares / families.sum(axis=1))[:, None]
        count = float(families.sum() ** 2 / np.square(families).sum())
        found.append(Estimate(start + float(top + np.log(shares.mean())), error, count, len(problem.betas[m]) - 1))
    return found
