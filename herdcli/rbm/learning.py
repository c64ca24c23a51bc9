"""Learning M harmoniums side by side: minibatches, momentum, decay; the gradients are in `phases` and `gradients`.

A step is one minibatch of every model: with n rows v and m chain states (v~, h~) after k sweeps,

    G_W = 1/n Σ v E[h|v]' − 1/m Σ v~ E[h|v~]',   Δ ← μ Δ + ε_t (G − λ W),   W ← W + Δ,

and likewise the biases, without λ.  CD starts its chains at the rows of the minibatch, persistent
CD where the last step left them.  Hidden units drive the chain by sampled states and enter the
statistics by their means; visible units of the chain are sampled.  ε_t falls linearly to 0.
The other algorithms differ in the second term of G: chains driven by fast weights too, rows with one unit changed
(pseudo-likelihood), or the model's own expectation (exact).  Rates are those of values as data show them: where a unit
counts n replicas, its statistics enter as proportions, count/n.
Source: Hinton (2002); Tieleman (2008); Tieleman & Hinton (2009); Hinton (2010), "A practical guide", sec. 3, 4, 8, 9, 10;
Teh (2003), sec. 2.5.2 and 3.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from herdcli import fast
from herdcli.algorithm import Counted, Progress
from herdcli.errors import Diverged
from herdcli.numerics.rows import Selected
from herdcli.numerics.scores import accumulate
from herdcli.rbm import validation
from herdcli.rbm.gibbs import Sweeper, layer
from herdcli.rbm.gradients import EXACT_PHASES, Sums, centre, make_sparse
from herdcli.rbm.likelihood import row_blocks
from herdcli.rbm.model import Harmonium
from herdcli.rbm.phases import contrastive, persistent
from herdcli.rbm.problem import BLOCK, Begun, Problem
from herdcli.rbm.proper import project
from herdcli.rbm.settings import Settings
from herdcli.rbm.units import TwoState
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array

__all__ = ["Learning", "Problem", "Selected", "Settings", "State"]

FAST = ("W_fast", "b_fast", "c_fast")
MEAN_SHARE = 0.01  # of a minibatch in the running hidden means
LARGEST = 1e3  # parameters beyond it have diverged


@dataclass
class Best:
    """The best of the models that were looked at, and what was seen."""

    W: Array = array("M D K", "pair weights", kind="f", finite=True)
    b: Array = array("M D", "visible biases", kind="f", finite=True)
    c: Array = array("M K", "hidden biases", kind="f", finite=True)
    figures: Array = array("V M 3", "validation.FIGURES of each look, NaN where there was none", kind="f")
    epoch: Array = array("M", "epochs behind the best; 0: none was looked at yet", kind="i")
    stopped: Array = array("M", "epochs behind a model that has stopped; 0: it has not", kind="i")


@dataclass
class Mean:
    """The means of the parameters over the last updates."""

    W: Array = array("M D K", "pair weights", kind="f", finite=True)
    b: Array = array("M D", "visible biases", kind="f", finite=True)
    c: Array = array("M K", "hidden biases", kind="f", finite=True)


@dataclass
class State:
    """M models and all that their future depends on.  Float32 but for the trace."""

    step: int
    W: Array = array("M D K", "pair weights", kind="f", finite=True)
    b: Array = array("M D", "visible biases", kind="f", finite=True)
    c: Array = array("M K", "hidden biases", kind="f", finite=True)
    W_velocity: Array = array("M D K", "last update of W", kind="f", finite=True)
    b_velocity: Array = array("M D", "last update of b", kind="f", finite=True)
    c_velocity: Array = array("M K", "last update of c", kind="f", finite=True)
    trace: Array = array("E M", "mean squared error of one-sweep reconstruction means, per visible unit", kind="f")
    chain: Array | None = array("M C K", "hidden states of the persistent chains", kind="f", optional=True, finite=True)
    W_fast: Array | None = array("M D K", "what fast weights add to W in the chains", kind="f", optional=True)
    b_fast: Array | None = array("M D", "the same of b", kind="f", optional=True)
    c_fast: Array | None = array("M K", "the same of c", kind="f", optional=True)
    hidden_mean: Array | None = array("M K", "running mean of the hidden means of rows", kind="f", optional=True)
    best: Best | None = None
    mean: Mean | None = None
    energy: Array | None = array("n M", "sum of the standardised energies of the rows to score", kind="f", optional=True)


@dataclass(frozen=True)
class Learning(Counted[State]):
    """The algorithm that learns the models of a problem; a step is one minibatch of every model that is not done yet.

    map  runs the models of the step, which touch disjoint parts of the state; it may use threads.
    """

    problem: Problem
    map: Callable[..., Iterable[Any]] = map

    @property
    def state(self) -> type[State]:
        """The type of its states."""
        return State

    @property
    def steps(self) -> int:
        """Steps until the model with most minibatches is done."""
        return max(self.problem.updates(m) - self.problem.behind(m) for m in range(len(self.problem.rows)))

    def _active(self, state: State) -> list[int]:
        """The models that are not done yet."""
        given = self.problem
        unfinished = [m for m in range(len(given.rows)) if state.step < given.updates(m) - given.behind(m)]
        return unfinished if state.best is None else [m for m in unfinished if not state.best.stopped[m]]

    def done(self, state: State) -> bool:
        """Whether no model is left to learn."""
        return not self._active(state)

    def memory(self) -> int:
        """Bytes of a State and of the float64 models that are made of it in the end."""
        problem, settings = self.problem, self.problem.settings
        D, K, chains = int(problem.rows[0].shape[1]), settings.hidden, problem.chains if settings.persistent else 0
        per_weight = 4 + 4 + 8 + 4 * ((settings.algorithm == "fpcd") + (settings.every > 0) + (settings.average > 0))
        return len(problem.rows) * (per_weight * (D * K + D + K) + 4 * chains * K + 8 * settings.epochs)

    def like(self) -> State:
        """Models without weights."""
        return _begun(self.problem, drawn=False)

    def init(self) -> State:
        """Every model before its first minibatch."""
        return _begun(self.problem)

    def step(self, state: State) -> State:
        """One minibatch of every model that is not done yet; `state` is updated in place.

        Raises Diverged if a parameter is not finite or beyond 1e3.
        """
        list(self.map(partial(_update, self.problem, state), self._active(state)))
        state.step += 1
        return state

    def progress(self, state: State) -> Progress:
        """With the reconstruction error of the last whole epoch, the largest of all models."""
        given = self.problem
        ended = [min((state.step + given.behind(m)) // given.batches(m), len(state.trace)) for m in range(len(given.rows))]
        figure = f"error {max(state.trace[epochs - 1, m] for m, epochs in enumerate(ended)):.3g}" if all(ended) else ""
        if state.best is not None and state.best.epoch.all():
            figure += f", valid {_criterion(state.best.figures).max(axis=0, where=_seen(state.best.figures), initial=-np.inf).min():.4g}"
        return Progress(state.step, self.steps, figure)

    def result(self, state: State) -> State:
        """The last state, with the best models in the place of the last where learning could stop, or with the means."""
        other = state.best if self.problem.settings.patience else state.mean
        if other is not None:
            state.W, state.b, state.c = other.W, other.b, other.c
        if state.best is not None:
            for m in np.flatnonzero(state.best.stopped):
                state.trace[state.best.stopped[m] :, m] = np.nan
        return state


def _begun(problem: Problem, drawn: bool = True) -> State:
    """W ~ N(0, 0.01²), smaller for units of many replicas, b at the data's base rates, c = 0; chains at fair states."""
    settings = problem.settings
    M, D, K = len(problem.rows), problem.rows[0].shape[1], settings.hidden
    hidden = layer(problem.hidden)
    W, chain = np.empty((M, D, K), dtype=np.float32), np.empty((M, problem.chains if settings.persistent else 0, K), dtype=np.float32)
    b, c = np.empty((M, D), dtype=np.float32), np.zeros((M, K), dtype=np.float32)
    scale = settings.initial_scale / math.sqrt(problem.visible.scale * problem.hidden.scale)
    for m, rows in enumerate(problem.rows if drawn else ()):
        first = generator(settings.seed, Stream.INITIAL, unit=problem.unit(m))
        W[m] = first.standard_normal((D, K), dtype=np.float32) * np.float32(scale)
        b[m] = problem.visible.base_rate(rows)
        chain[m] = hidden.fair_states(chain[m].shape, first)
        if problem.start is not None:
            W[m], b[m], c[m] = problem.start
        if problem.begun is not None:
            W[m], b[m], c[m] = problem.begun.W[m], problem.begun.b[m], problem.begun.c[m]
        _constrain(problem, m, W[m])
    fast_weights = {name: np.zeros_like(part) for name, part in zip(FAST, (W, b, c), strict=True)} if settings.algorithm == "fpcd" else {}
    means = settings.centering or settings.sparsity_target > 0
    state = State(
        step=0,
        W=W,
        b=b,
        c=c,
        W_velocity=np.zeros_like(W),
        b_velocity=np.zeros_like(b),
        c_velocity=np.zeros((M, K), dtype=np.float32),
        trace=np.zeros((settings.epochs, M)),
        chain=chain if settings.persistent else None,
        hidden_mean=np.tile(problem.hidden.mean(np.zeros(K)).astype(np.float32), (M, 1)) if means else None,
        energy=None if problem.scored is None else np.zeros((len(problem.scored), M)),
        best=_unseen(W, b, c, settings.looks) if settings.every else None,
        mean=Mean(np.zeros_like(W), np.zeros_like(b), np.zeros_like(c)) if settings.average else None,
        **fast_weights,
    )
    return state if problem.begun is None else _gone_on(problem.begun, state)


def _unseen(W: Array, b: Array, c: Array, looks: int) -> Best:
    count = len(W)
    figures = np.full((looks, count, len(validation.FIGURES)), np.nan)
    return Best(W.copy(), b.copy(), c.copy(), figures, np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64))


def _gone_on(begun: Begun, state: State) -> State:
    """The first state of a run that goes on from another one's last."""
    if begun.trace is not None:
        state.trace[: len(begun.trace)] = begun.trace
    for name, part in {} if begun.state is None else vars(begun.state).items():
        own = getattr(state, name)
        if own is not None and part is not None and own.shape == part.shape:
            setattr(state, name, part.copy())
    return state


def _update(problem: Problem, state: State, m: int) -> None:
    """One minibatch of model m."""
    settings, batches, step = problem.settings, problem.batches(m), state.step + problem.behind(m)
    epoch, batch = divmod(step, batches)
    n = len(problem.rows[m])
    order = problem.order(m, epoch)[batch * n // batches : (batch + 1) * n // batches]
    each = not settings.persistent
    sums = _statistics(problem, state, m, order, step, reconstruct=each or batch == 0)
    _adjust(problem, state, m, order, sums)
    state.trace[epoch, m] += sums.error / (problem.rows[m].shape[1] * (n if each else len(order)) * problem.visible.scale**2)
    left = 1.0 - step / problem.updates(m) if settings.rate_decay == "linear" else 1.0
    rate, bias_rate = settings.learning_rate * left, (settings.bias_rate or settings.learning_rate) * left
    above, below = problem.visible.scale, problem.hidden.scale  # statistics are of counts, rates are meant for proportions
    both = above * below
    decay = settings.weight_decay * both
    largest = [
        fast.momentum_step(state.W[m], state.W_velocity[m], sums.W, rate / both, settings.momentum, decay),
        fast.momentum_step(state.b[m], state.b_velocity[m], sums.b, bias_rate / above, settings.momentum, 0.0),
        fast.momentum_step(state.c[m], state.c_velocity[m], sums.c, bias_rate / below, settings.momentum, 0.0),
    ]
    _constrain(problem, m, state.W[m])
    _move_fast_weights(problem, state, m, sums)
    for index, units in ((1, problem.visible), (2, problem.hidden)):
        if units.name == "gaussian" and np.isfinite(largest[index]):
            largest[index] = 0.0  # a bias is a mean and has no natural bound
    if not np.max(largest) <= LARGEST:
        which = f"model {problem.unit(m)}" if len(problem.rows) > 1 or problem.units else "the model"
        raise Diverged(
            f"{which} diverged in epoch {epoch + 1}: parameters beyond {LARGEST:g} or not finite",
            hint=f"lower the learning rate (it is {settings.learning_rate:g})",
        )
    if state.energy is not None and problem.scored is not None and step >= problem.updates(m) - settings.average_scores:
        _score(problem, state, m, problem.scored, state.energy[:, m])
    if state.mean is not None:
        _average(state, state.mean, m, step - problem.updates(m) + min(settings.average, problem.updates(m)))
    if state.best is not None and batch == batches - 1:
        _look(problem, state, state.best, m, epoch + 1)


def _average(state: State, mean: Mean, m: int, number: int) -> None:
    """Take the parameters of an update into the running means, if it is one of the last: number 0, 1, …"""
    if number >= 0:
        for name in ("W", "b", "c"):
            total = getattr(mean, name)[m]
            total += (getattr(state, name)[m] - total) / np.float32(number + 1)


def _look(problem: Problem, state: State, best: Best, m: int, epochs: int) -> None:
    """See how model m does on rows held out, if it is time to; keep it if it does best, stop it if it has not done better for long."""
    settings = problem.settings
    if problem.valid is None or (epochs % settings.every and epochs < settings.epochs):
        return
    W, b, c = (np.asarray(part[m], dtype=np.float64) for part in (state.W, state.b, state.c))
    h, number = Harmonium(W, b, c, problem.visible, problem.hidden), -(-epochs // settings.every) - 1
    base = problem.visible.base_rate(problem.rows[m])
    best.figures[number, m] = validation.figures(h, problem.valid[m], problem.rows[m], base, settings.seed, problem.unit(m))
    criterion = _criterion(best.figures)[:, m]
    if not best.epoch[m] or criterion[number] > np.nanmax(criterion[:number], initial=-np.inf):
        best.W[m], best.b[m], best.c[m], best.epoch[m] = state.W[m], state.b[m], state.c[m], epochs
    if settings.patience and epochs - best.epoch[m] >= settings.patience * settings.every:
        best.stopped[m] = epochs


def _criterion(figures: Array) -> Array:
    """What is to be high (V, M): the log-likelihood; where a model has none the pseudo-likelihood."""
    chosen: Array = np.where(np.isnan(figures[..., 0]), figures[..., 1], figures[..., 0])
    return chosen


def _seen(figures: Array) -> Array:
    seen: Array = ~np.isnan(_criterion(figures))
    return seen


def _adjust(problem: Problem, state: State, m: int, order: Array, sums: Sums) -> None:
    """Add to the gradient what penalties and centering ask for; move the running means of hidden units on."""
    settings = problem.settings
    if state.hidden_mean is not None:
        mean = state.hidden_mean[m]
        mean += np.float32(MEAN_SHARE) * (sums.hidden - mean)
        if settings.centering:
            share = settings.learning_rate / (settings.bias_rate or settings.learning_rate)
            shares = {"visible_share": share / problem.hidden.scale, "hidden_share": share / problem.visible.scale}
            centre(sums, problem.visible_mean(m), mean, **shares)
        if settings.sparsity_target and problem.hidden.range is not None:
            low, high = problem.hidden.range
            excess = (mean - low) / (high - low) - settings.sparsity_target
            rows = problem.rows[m][order].mean(axis=0, dtype=np.float32)
            make_sparse(sums, rows, excess.astype(np.float32) * np.float32(problem.hidden.scale), settings.sparsity_cost)
    if settings.l1_decay:
        both = problem.visible.scale * problem.hidden.scale
        sums.W -= np.float32(settings.l1_decay * both) * np.sign(state.W[m])


def _constrain(problem: Problem, m: int, W: Array) -> None:
    """Weights (D, K) of model m, in place, into the set where learning keeps them."""
    if problem.settings.non_negative:
        np.maximum(W, 0.0, out=W)
    project(problem.visible, problem.hidden, W)
    W[problem.constant(m)] = 0.0


def _move_fast_weights(problem: Problem, state: State, m: int, sums: Sums) -> None:
    """Fast weights decay and follow the gradient at a rate of their own.  Source: Tieleman & Hinton (2009), sec. 3."""
    settings = problem.settings
    if settings.algorithm != "fpcd":
        return
    rate, above, below = settings.fast_rate or settings.learning_rate, problem.visible.scale, problem.hidden.scale
    for name, gradient, scale in zip(FAST, (sums.W, sums.b, sums.c), (above * below, above, below), strict=True):
        part = getattr(state, name)[m]
        part *= np.float32(settings.fast_decay)
        part += np.float32(rate / scale) * gradient


def _score(problem: Problem, state: State, m: int, rows: Array, total: Array) -> None:
    """Add to `total` (n,) the free energies of `rows` under model m, standardised by those of its training rows.

    Source: Welling (2009), sec. 10, for models that learn as for models that herd.
    """

    def free_energy(v: Array | Selected) -> Array:
        result = np.empty(len(v))
        for block in row_blocks(len(v), sum(state.W[m].shape)):
            part = v[block].astype(np.float32)
            result[block] = -(part @ state.b[m]) - problem.hidden.summed_log_partition(part @ state.W[m] + state.c[m])
            if not isinstance(problem.visible, TwoState):
                result[block] -= problem.visible.log_base(part)
        return result

    accumulate(total, free_energy(rows), free_energy(problem.rows[m]))


def _statistics(problem: Problem, state: State, m: int, order: Array, step: int, *, reconstruct: bool) -> Sums:
    """Statistics of the rows in `order` minus those of model m's second phase, summed over blocks of BLOCK rows."""
    settings, scratch = problem.settings, problem.scratch()
    draws = generator(settings.seed, Stream.GIBBS, unit=problem.unit(m), step=step)
    sweeper = Sweeper(state.W[m], state.b[m], state.c[m], layer(problem.visible), layer(problem.hidden), draws)
    if settings.algorithm in EXACT_PHASES:
        rows = problem.rows[m][order].astype(np.float32)
        return EXACT_PHASES[settings.algorithm](sweeper, problem.visible, problem.hidden, rows)
    driving = sweeper
    if state.W_fast is not None and state.b_fast is not None and state.c_fast is not None:
        W_now, b_now, c_now = state.W[m] + state.W_fast[m], state.b[m] + state.b_fast[m], state.c[m] + state.c_fast[m]
        driving = replace(sweeper, W=W_now, b=b_now, c=c_now)
    n = len(order)
    chains = n if state.chain is None else problem.chains
    W, b, c, error, hidden = scratch.pairs, np.zeros_like(sweeper.b), np.zeros_like(sweeper.c), 0.0, np.zeros_like(sweeper.c)
    for start in range(0, max(n, chains), BLOCK):
        rows = problem.rows[m][order[start : start + BLOCK]]
        if state.chain is None:
            block = contrastive(sweeper, rows, settings.steps, n, scratch, settings.mean_field)
        else:
            chain = state.chain[m, start : start + BLOCK]
            block = persistent(sweeper, driving, rows, chain, settings.steps, (n, chains), reconstruct, scratch)
        pairs = block.pairs(scratch)
        W = pairs if max(n, chains) <= BLOCK else pairs + W if start else pairs.copy()
        signs = np.full(len(block.v), -1.0 / chains, dtype=np.float32)
        signs[: len(rows)] = 1.0 / n
        b += signs @ block.v
        c += block.h.sum(axis=0)
        if state.hidden_mean is not None:
            hidden += block.h[: len(rows)].sum(axis=0)
        error += block.error
    return Sums(W, b, c, error, hidden)
