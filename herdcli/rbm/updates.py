"""One minibatch of one model: statistics, penalties, the step along the gradient, and what is noted of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli import fast
from herdcli.errors import Diverged
from herdcli.numerics import real
from herdcli.numerics.rows import Selected
from herdcli.numerics.scores import accumulate
from herdcli.rbm import validation
from herdcli.rbm.gibbs import Sweeper, layer
from herdcli.rbm.gradients import EXACT_PHASES, Sums, centre, make_sparse
from herdcli.rbm.likelihood import row_blocks
from herdcli.rbm.model import Harmonium
from herdcli.rbm.phases import contrastive, persistent
from herdcli.rbm.problem import BLOCK, Problem
from herdcli.rbm.proper import project
from herdcli.rbm.state import Best, Mean, State
from herdcli.rbm.units import TwoState
from herdcli.rng import Stream, generator
from herdcli.schema import Array

FAST = ("W_fast", "b_fast", "c_fast")
MEAN_SHARE = 0.01  # of a minibatch in the running hidden means
LARGEST = 1e3  # parameters beyond it have diverged


def update(problem: Problem, state: State, m: int) -> None:
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
    # Statistics enter as proportions on weights of counts: W ← W + ε (G/(n_v n_h) − λW).  So the rate on G is ε/(n_v n_h), and λ grows by
    # as much to stay what it is.  The rates of Teh (2003), sec. 3.5.3, work in this reading alone.
    rate, bias_rate = settings.learning_rate * left, (settings.bias_rate or settings.learning_rate) * left
    above, below = problem.visible.scale, problem.hidden.scale  # statistics are of counts, rates are meant for proportions
    both = above * below
    decay = settings.weight_decay * both
    largest = [
        fast.momentum_step(state.W[m], state.W_velocity[m], sums.W, rate / both, settings.momentum, decay),
        fast.momentum_step(state.b[m], state.b_velocity[m], sums.b, bias_rate / above, settings.momentum, 0.0),
        fast.momentum_step(state.c[m], state.c_velocity[m], sums.c, bias_rate / below, settings.momentum, 0.0),
    ]
    constrain(problem, m, state.W[m])
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
            # The mean of n + 1 numbers is that of n moved by 1/(n + 1) of the way to the new one; the sum is never held.
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
    looks = criterion(best.figures)[:, m]
    if not best.epoch[m] or looks[number] > np.nanmax(looks[:number], initial=-np.inf):
        best.W[m], best.b[m], best.c[m], best.epoch[m] = state.W[m], state.b[m], state.c[m], epochs
    if settings.patience and epochs - best.epoch[m] >= settings.patience * settings.every:
        best.stopped[m] = epochs


def criterion(figures: Array) -> Array:
    """What is to be high (V, M): the log-likelihood; where a model has none the pseudo-likelihood."""
    chosen: Array = np.where(np.isnan(figures[..., 0]), figures[..., 1], figures[..., 0])
    return chosen


def seen(figures: Array) -> Array:
    known: Array = ~np.isnan(criterion(figures))
    return known


def _adjust(problem: Problem, state: State, m: int, order: Array, sums: Sums) -> None:
    """Add to the gradient what penalties and centering ask for; move the running means of hidden units on."""
    settings = problem.settings
    if state.hidden_mean is not None:
        mean = state.hidden_mean[m]
        # An exponential average: a minibatch n updates ago has the share 0.01 · 0.99ⁿ.
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


def constrain(problem: Problem, m: int, W: Array) -> None:
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
            inputs = real.product(part, state.W[m]) + state.c[m]
            result[block] = -real.product(part, state.b[m]) - problem.hidden.summed_log_partition(inputs)
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
        b += real.product(signs, block.v)
        c += block.h.sum(axis=0)
        if state.hidden_mean is not None:
            hidden += block.h[: len(rows)].sum(axis=0)
        error += block.error
    return Sums(W, b, c, error, hidden)
