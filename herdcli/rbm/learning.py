"""Contrastive divergence (CD-k) and persistent contrastive divergence of M harmoniums side by side.

A step is one minibatch of every model: with n rows v and m chain states (v~, h~) after k sweeps,

    G_W = 1/n Σ v E[h|v]' − 1/m Σ v~ E[h|v~]',   Δ ← μ Δ + ε_t (G − λ W),   W ← W + Δ,

and likewise the biases, without λ.  CD starts its chains at the rows of the minibatch, persistent
CD where the last step left them.  Hidden units drive the chain by sampled states and enter the
statistics by their means; visible units of the chain are sampled.  ε_t falls linearly to 0.
Source: Hinton (2002); Tieleman (2008); Hinton (2010), "A practical guide", sec. 3, 4, 8, 9, 10.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from herdcli import fast
from herdcli.errors import BadUsage, DataError, Diverged
from herdcli.numerics.scores import accumulate
from herdcli.rbm.gibbs import Sweeper, layer
from herdcli.rbm.likelihood import row_blocks, summed_log_partition
from herdcli.rbm.phases import Scratch, contrastive, persistent
from herdcli.rbm.units import family
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array

BLOCK = 512  # rows that are in float32 at one time
INITIAL_SCALE = 0.01  # standard deviation of the first weights; Hinton (2010), sec. 8.1
LARGEST = 1e3  # parameters beyond it have diverged


@dataclass(frozen=True)
class Settings:
    """What a fit depends on besides its rows."""

    hidden: int = 100
    algorithm: str = "cd"  # "cd" or "pcd"
    steps: int = 1  # k, Gibbs sweeps per update
    chains: int = 0  # persistent chains of pcd; 0: as many as the batch
    epochs: int = 100
    batch_size: int = 20  # 0: all rows
    learning_rate: float = 0.05  # at the start
    rate_decay: str = "linear"  # falls linearly to 0 over the run, or "none"
    momentum: float = 0.9
    weight_decay: float = 1e-4  # λ of the penalty λ/2 |W|²
    visible_units: str = "binary"
    hidden_units: str = "binary"
    average_scores: int = 0  # last updates of each model over which the energies of rows to score are averaged
    seed: int = 0

    def __post_init__(self) -> None:
        if self.algorithm not in ("cd", "pcd"):
            raise BadUsage(f"unknown algorithm '{self.algorithm}', expected cd or pcd")
        if self.rate_decay not in ("linear", "none"):
            raise BadUsage(f"unknown rate_decay '{self.rate_decay}', expected linear or none")
        for name, least in (("hidden", 1), ("steps", 1), ("chains", 0), ("epochs", 1), ("batch_size", 0), ("average_scores", 0)):
            if getattr(self, name) < least:
                raise BadUsage(f"{name} must be at least {least}, not {getattr(self, name)}")
        if not (self.learning_rate > 0 and 0 <= self.momentum < 1 and self.weight_decay >= 0):
            raise BadUsage("learning_rate must be above 0, momentum in [0, 1) and weight_decay at least 0")
        family(self.visible_units), family(self.hidden_units)


@dataclass
class State:
    """M models and all that their future depends on.  Float32 but for the trace."""

    step: int
    W: Array = array("M D K", "pair weights", kind="f")
    b: Array = array("M D", "visible biases", kind="f")
    c: Array = array("M K", "hidden biases", kind="f")
    W_velocity: Array = array("M D K", "last update of W", kind="f")
    b_velocity: Array = array("M D", "last update of b", kind="f")
    c_velocity: Array = array("M K", "last update of c", kind="f")
    trace: Array = array("E M", "mean squared error of one-sweep reconstruction means, per visible unit", kind="f")
    chain: Array | None = array("M C K", "hidden states of the persistent chains", kind="f", optional=True)
    energy: Array | None = array("n M", "sum of the standardised energies of the rows to score", kind="f", optional=True)


@dataclass(frozen=True)
class Selected:
    """Rows (n, D) of a matrix that models share, gathered when they are asked for: base[index]."""

    base: Array
    index: Array

    @property
    def shape(self) -> tuple[int, int]:
        """(n, D)."""
        return len(self.index), self.base.shape[1]

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, chosen: Array | slice) -> Array:
        rows: Array = self.base[self.index[chosen]]
        return rows


@dataclass(frozen=True)
class Problem:
    """The rows (n_m, D) of each of M models, uint8 or int8 in unit values, and the settings.

    scored  rows (n, D) whose energies under every model are averaged over its last updates.
    Raises DataError unless every model has rows, all of one width, with values of the visible units.
    """

    rows: Sequence[Array | Selected]
    settings: Settings
    scored: Array | None = None
    _orders: dict[int, tuple[int, Array]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _scratch: threading.local = field(default_factory=threading.local, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        allowed = family(self.settings.visible_units).values
        if not self.rows:
            raise DataError("no models to learn")
        for index, selected in enumerate(self.rows):
            where, rows = f"rows of model {index}", selected[:]
            if rows.ndim != 2 or rows.shape[1] != self.rows[0].shape[1] or rows.shape[1] == 0:
                raise DataError(f"shape {rows.shape}, expected (n, {self.rows[0].shape[-1]})", where=where)
            if len(rows) == 0:
                raise DataError("there are none", where=where)
            if not np.isin((rows.min(), rows.max()), allowed).all() or (allowed[0] == -1 and not rows.all()):
                raise DataError(f"values other than {allowed[0]} and {allowed[1]}", where=where)
        if self.scored is not None and not 0 < self.settings.average_scores <= min(map(self.updates, range(len(self.rows)))):
            raise BadUsage(f"average_scores must be from 1 to the number of updates, not {self.settings.average_scores}")

    def batches(self, model: int) -> int:
        """Minibatches in an epoch of one model."""
        n = len(self.rows[model])
        return -(-n // (self.settings.batch_size or n))

    def updates(self, model: int) -> int:
        """Minibatches in all of one model."""
        return self.settings.epochs * self.batches(model)

    @property
    def chains(self) -> int:
        """Persistent chains per model: as set, else as many as the largest minibatch."""
        most = max(map(len, self.rows))
        return self.settings.chains or min(self.settings.batch_size or most, most)

    def order(self, model: int, epoch: int) -> Array:
        """The order of a model's rows in one epoch, (n,).  A function of (seed, model, epoch), kept while it is used."""
        held, order = self._orders.get(model, (-1, None))
        if held != epoch or order is None:
            order = generator(self.settings.seed, Stream.SHUFFLE, unit=model, step=epoch).permutation(len(self.rows[model]))
            self._orders[model] = (epoch, order)
        return order

    def scratch(self) -> Scratch:
        """This thread's working arrays."""
        if not hasattr(self._scratch, "arrays"):
            batch = max(-(-len(rows) // self.batches(m)) for m, rows in enumerate(self.rows))
            most = max(batch, self.chains) if self.settings.algorithm == "pcd" else batch
            self._scratch.arrays = Scratch.of(min(BLOCK, most), self.rows[0].shape[1], self.settings.hidden)
        arrays: Scratch = self._scratch.arrays
        return arrays


@dataclass(frozen=True)
class _Sums:
    """Statistics of the rows minus those of the chain, each divided by its number."""

    W: Array
    b: Array
    c: Array
    error: float  # summed squared reconstruction error of the rows


def total_steps(problem: Problem) -> int:
    """Steps until the model with most minibatches is done."""
    return max(map(problem.updates, range(len(problem.rows))))


def memory(problem: Problem) -> int:
    """Bytes of a State and of the float64 models that are made of it in the end."""
    settings = problem.settings
    D, K, chains = int(problem.rows[0].shape[1]), settings.hidden, problem.chains if settings.algorithm == "pcd" else 0
    return len(problem.rows) * ((4 + 4 + 8) * (D * K + D + K) + 4 * chains * K + 8 * settings.epochs)


def init(problem: Problem) -> State:
    """W ~ N(0, 0.01²), b at the data's log-odds (one row of each value added), c = 0; chains at fair states."""
    settings = problem.settings
    M, D, K = len(problem.rows), problem.rows[0].shape[1], settings.hidden
    visible, hidden = layer(family(settings.visible_units)), layer(family(settings.hidden_units))
    values = family(settings.visible_units).values
    persistent = settings.algorithm == "pcd"
    W, chain = np.empty((M, D, K), dtype=np.float32), np.empty((M, problem.chains if persistent else 0, K), dtype=np.float32)
    b = np.empty((M, D), dtype=np.float32)
    for m, rows in enumerate(problem.rows):
        first = generator(settings.seed, Stream.INITIAL, unit=m)
        W[m] = first.standard_normal((D, K), dtype=np.float32) * np.float32(INITIAL_SCALE)
        b[m] = visible.bias_for((rows[:].sum(axis=0, dtype=np.int64) + sum(values)) / (len(rows) + 2))
        chain[m] = hidden.fair_states(chain[m].shape, first)
    return State(
        step=0,
        W=W,
        b=b,
        c=np.zeros((M, K), dtype=np.float32),
        W_velocity=np.zeros_like(W),
        b_velocity=np.zeros_like(b),
        c_velocity=np.zeros((M, K), dtype=np.float32),
        trace=np.zeros((settings.epochs, M)),
        chain=chain if persistent else None,
        energy=None if problem.scored is None else np.zeros((len(problem.scored), M)),
    )


def step(problem: Problem, state: State, map: Callable[..., Iterable[Any]] = map) -> State:
    """One minibatch of every model that is not done yet; `state` is updated in place.

    map  runs the models of the step, which touch disjoint parts of the state; it may use threads.
    Raises Diverged if a parameter is not finite or beyond 1e3.
    """
    active = [m for m in range(len(problem.rows)) if state.step < problem.updates(m)]
    list(map(lambda model: _update(problem, state, model), active))
    state.step += 1
    return state


def _update(problem: Problem, state: State, m: int) -> None:
    """One minibatch of model m."""
    settings, batches = problem.settings, problem.batches(m)
    epoch, batch = divmod(state.step, batches)
    n = len(problem.rows[m])
    order = problem.order(m, epoch)[batch * n // batches : (batch + 1) * n // batches]
    sums = _statistics(problem, state, m, order, reconstruct=settings.algorithm == "cd" or batch == 0)
    state.trace[epoch, m] += sums.error / (problem.rows[m].shape[1] * (n if settings.algorithm == "cd" else len(order)))
    left = 1.0 - state.step / problem.updates(m) if settings.rate_decay == "linear" else 1.0
    rate = settings.learning_rate * left
    largest = [
        fast.momentum_step(state.W[m], state.W_velocity[m], sums.W, rate, settings.momentum, settings.weight_decay),
        fast.momentum_step(state.b[m], state.b_velocity[m], sums.b, rate, settings.momentum, 0.0),
        fast.momentum_step(state.c[m], state.c_velocity[m], sums.c, rate, settings.momentum, 0.0),
    ]
    if not np.max(largest) <= LARGEST:
        which = f"model {m}" if len(problem.rows) > 1 else "the model"
        raise Diverged(
            f"{which} diverged in epoch {epoch + 1}: parameters beyond {LARGEST:g} or not finite",
            hint=f"lower the learning rate (it is {settings.learning_rate:g})",
        )
    if state.energy is not None and problem.scored is not None and state.step >= problem.updates(m) - settings.average_scores:
        _score(problem, state, m, problem.scored, state.energy[:, m])


def _score(problem: Problem, state: State, m: int, rows: Array, total: Array) -> None:
    """Add to `total` (n,) the free energies of `rows` under model m, standardised by those of its training rows.

    Source: Welling (2009), sec. 10, for models that learn as for models that herd.
    """
    hidden = family(problem.settings.hidden_units)

    def free_energy(v: Array | Selected) -> Array:
        result = np.empty(len(v))
        for block in row_blocks(len(v), sum(state.W[m].shape)):
            part = v[block].astype(np.float32)
            result[block] = -(part @ state.b[m]) - summed_log_partition(hidden, part @ state.W[m] + state.c[m])
        return result

    accumulate(total, free_energy(rows), free_energy(problem.rows[m]))


def _statistics(problem: Problem, state: State, m: int, order: Array, *, reconstruct: bool) -> _Sums:
    """Statistics of the rows in `order` minus those of model m's chains, summed over blocks of BLOCK rows."""
    settings, scratch = problem.settings, problem.scratch()
    visible, hidden = (layer(family(units)) for units in (settings.visible_units, settings.hidden_units))
    draws = generator(settings.seed, Stream.GIBBS, unit=m, step=state.step)
    sweeper = Sweeper(state.W[m], state.b[m], state.c[m], visible, hidden, draws)
    n = len(order)
    chains = n if state.chain is None else problem.chains
    W, b, c, error = scratch.pairs, np.zeros_like(sweeper.b), np.zeros_like(sweeper.c), 0.0
    for start in range(0, max(n, chains), BLOCK):
        rows = problem.rows[m][order[start : start + BLOCK]]
        if state.chain is None:
            block = contrastive(sweeper, rows, settings.steps, n, scratch)
        else:
            block = persistent(sweeper, rows, state.chain[m, start : start + BLOCK], settings.steps, (n, chains), reconstruct, scratch)
        pairs = block.pairs(scratch)
        W = pairs if max(n, chains) <= BLOCK else pairs + W if start else pairs.copy()
        signs = np.full(len(block.v), -1.0 / chains, dtype=np.float32)
        signs[: len(rows)] = 1.0 / n
        b += signs @ block.v
        c += block.h.sum(axis=0)
        error += block.error
    return _Sums(W, b, c, error)
