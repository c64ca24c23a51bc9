"""Samples of harmoniums by block Gibbs sampling: several chains, a burn-in, and every so many sweeps a row kept.

A step is one sweep of every model's chains, visible units given hidden ones and back.  Chains start at hidden states
drawn at natural parameter 0, or at given rows.  In float32, as learning samples.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from herdcli.algorithm import Counted, Progress
from herdcli.errors import BadUsage
from herdcli.rbm.gibbs import Sweeper, layer
from herdcli.rbm.likelihood import Map
from herdcli.rbm.model import Harmonium
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array


@dataclass(frozen=True)
class Problem:
    """M models of one shape, and how each of them is sampled.

    count    rows wanted of each model.  chains  0: as many as rows.  burn_in, thin  sweeps before the first row, and between two.
    means    give E[v | h] in place of the states, of the lowest layer.  start  rows (chains, D) that the chains begin at.
    given    rows (count, D), NaN where an entry is free: each chain holds the entries of its row fast.
    below    models that turn the rows of the one model into those of the layers below it, the nearest first.
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
            raise BadUsage(f"there are {len(self.given)} rows to complete and {self.width} chains")

    @property
    def width(self) -> int:
        """Chains of each model."""
        return min(self.chains or self.count, self.count)

    @property
    def rounds(self) -> int:
        """How often all chains give a row."""
        return -(-self.count // self.width)


@dataclass
class State:
    """Where the chains are, and the rows kept so far, those of the first round first.  Float32."""

    hidden: Array = array("M chains K", "hidden states", kind="f", finite=True)
    rows: Array = array("M rounds chains D", "rows kept, 0 where none are yet", kind="f")
    step: int = 0


@dataclass(frozen=True)
class Sampling(Counted[State]):
    """The algorithm; its result are the rows (count, D) float32 of each model, of the lowest layer.  map: runs over the models."""

    problem: Problem
    map: Map = map

    @property
    def state(self) -> type[State]:
        """The type of its states."""
        return State

    @property
    def steps(self) -> int:
        """Sweeps in all."""
        return self.problem.burn_in + (self.problem.rounds - 1) * self.problem.thin

    def memory(self) -> int:
        """Bytes of the rows and of a sweep's values."""
        given = self.problem
        D, K = given.models[0].W.shape
        return int(4 * len(given.models) * (given.rounds * given.width * D + given.width * (D + 3 * K)))

    def like(self) -> State:
        """Chains that are nowhere yet."""
        given = self.problem
        D, K = given.models[0].W.shape
        hidden = np.empty((len(given.models), given.width, K), dtype=np.float32)
        return State(hidden, np.zeros((len(given.models), given.rounds, given.width, D), dtype=np.float32))

    def init(self) -> State:
        """Every chain at its start."""
        state = self.like()
        _begin(self.problem, state.hidden)
        return state

    def step(self, state: State) -> State:
        """One sweep of every chain, kept if it is a round's."""
        list(self.map(partial(_sweep, self.problem, state), range(len(self.problem.models))))
        state.step += 1
        return state

    def progress(self, state: State) -> Progress:
        """With the rows that each model has given."""
        given = self.problem
        rounds = 0 if state.step < given.burn_in else (state.step - given.burn_in) // given.thin + 1
        return Progress(state.step, self.steps, f"{min(rounds * given.width, given.count)} of {given.count} rows")

    def result(self, state: State) -> list[Array]:
        """The rows (n, D) of each model, carried down to the lowest layer."""
        return _carried_down(self.problem, state)


def _begin(problem: Problem, hidden: Array) -> None:
    """Every chain at its start: hidden (models, chains, K) is filled."""
    for m, h in enumerate(problem.models):
        first = generator(problem.seed, Stream.SAMPLE, unit=m)
        if problem.start is None:
            hidden[m] = layer(h.hidden).fair_states(hidden[m].shape, first)
        else:
            _sweeper(h, first).up(problem.start.astype(np.float32), np.empty_like(hidden[m]), hidden[m])


def _sweep(problem: Problem, state: State, m: int) -> None:
    """One sweep of model m's chains."""
    sweeper = _sweeper(problem.models[m], generator(problem.seed, Stream.SAMPLE, unit=m, step=state.step + 1))
    hidden = state.hidden[m]
    means = np.empty((len(hidden), len(sweeper.b)), dtype=np.float32)
    visible = np.empty_like(means)
    sweeper.down(hidden, means, visible)
    if problem.given is not None:
        known = ~np.isnan(problem.given)
        visible[known] = means[known] = problem.given[known]
    kept, rest = divmod(state.step + 1 - problem.burn_in, problem.thin)
    if kept >= 0 and rest == 0:
        state.rows[m, kept] = means if problem.means and not problem.below else visible
    sweeper.up(visible, np.empty_like(hidden), hidden)


def _sweeper(h: Harmonium, draws: np.random.Generator) -> Sweeper:
    W, b, c = (np.ascontiguousarray(part, dtype=np.float32) for part in (h.W, h.b, h.c))
    return Sweeper(W, b, c, layer(h.visible), layer(h.hidden), draws)


def _carried_down(problem: Problem, state: State) -> list[Array]:
    """The rows (count, D) float32 of each model once all steps are done, of the lowest layer."""
    found = [kept.reshape(-1, kept.shape[-1])[: problem.count] for kept in state.rows]
    for depth, h in enumerate(problem.below):
        sweeper = _sweeper(h, generator(problem.seed, Stream.SAMPLE, unit=len(problem.models) + depth))
        for m, hidden in enumerate(found):
            found[m] = np.empty((len(hidden), len(sweeper.b)), dtype=np.float32)
            last = problem.means and depth == len(problem.below) - 1
            sweeper.down(hidden, np.empty_like(found[m]) if not last else found[m], None if last else found[m])
    return found
