"""The step that a minibatch's statistics lead to: centring, penalties, decay and momentum, in slices of the visible units."""

from __future__ import annotations

from functools import partial

import numpy as np

from herdcli import fast
from herdcli.rbm.gradients import centre_pairs
from herdcli.rbm.likelihood import Map
from herdcli.rbm.minibatch import Statistics, each, slices
from herdcli.rbm.problem import Problem
from herdcli.rbm.state import State
from herdcli.records import dataclass
from herdcli.schema import Array

MEAN_SHARE = 0.01  # of a minibatch in the running hidden means


@dataclass(frozen=True)
class Penalty:
    """What lowers the inputs of hidden units that are on too much, by their running mean's excess over the target.

    G_W loses the cost times r e', G_c the cost times e, with the mean r (D,) of the rows and the excess e (K,).
    Source: Hinton (2010), sec. 11.
    """

    rows: Array
    excess: Array
    cost: np.float32


def descend(problem: Problem, state: State, m: int, order: Array, step: int, found: Statistics, map: Map = map) -> list[float]:
    """Move model m along the statistics of the rows in `order`; the largest absolute values of W, b and c."""
    settings = problem.settings
    if state.hidden_mean is not None:
        # An exponential average: a minibatch n updates ago has the share 0.01 · 0.99ⁿ.
        state.hidden_mean[m] += np.float32(MEAN_SHARE) * (found.hidden - state.hidden_mean[m])
    penalty = _penalty(problem, state, m, order)
    c, rates = found.c.copy(), Rates.of(problem, m, step)
    work = partial(_slice, problem, state, m, found, c, penalty, rates)
    ends = each(map, work, slices(len(found.b), len(order)))
    if settings.centering:
        for _, follows in ends:
            found.c[...] -= np.float32(rates.share / problem.visible.scale) * follows
    if penalty is not None:
        found.c[...] -= penalty.cost * penalty.excess
    return [
        max(largest for largest, _ in ends) if all(largest == largest for largest, _ in ends) else float("nan"),
        fast.momentum_step(state.b[m], state.b_velocity[m], found.b, rates.b, settings.momentum, 0.0),
        fast.momentum_step(state.c[m], state.c_velocity[m], found.c, rates.c, settings.momentum, 0.0),
    ]


@dataclass(frozen=True)
class Rates:
    """The rates of one update for W, b and c, and the weights' rate over the biases'."""

    W: float
    b: float
    c: float
    share: float

    @classmethod
    def of(cls, problem: Problem, m: int, step: int) -> Rates:
        """Those of an update of model m."""
        settings = problem.settings
        left = 1.0 - step / problem.updates(m) if settings.rate_decay == "linear" else 1.0
        # Statistics enter as proportions on weights of counts: W ← W + ε (G/(n_v n_h) − λW).  So the rate on G is ε/(n_v n_h), and λ grows
        # by as much to stay what it is.  The rates of Teh (2003), sec. 3.5.3, work in this reading alone.
        rate, bias_rate = settings.learning_rate * left, (settings.bias_rate or settings.learning_rate) * left
        above, below = problem.visible.scale, problem.hidden.scale  # statistics are of counts, rates are meant for proportions
        share = settings.learning_rate / (settings.bias_rate or settings.learning_rate)
        return cls(rate / (above * below), bias_rate / above, bias_rate / below, share)


def _penalty(problem: Problem, state: State, m: int, order: Array) -> Penalty | None:
    settings = problem.settings
    if not settings.sparsity_target or problem.hidden.range is None or state.hidden_mean is None:
        return None
    low, high = problem.hidden.range
    excess = (state.hidden_mean[m] - low) / (high - low) - settings.sparsity_target
    rows = problem.rows[m][order].mean(axis=0, dtype=np.float32)
    return Penalty(rows, excess.astype(np.float32) * np.float32(problem.hidden.scale), np.float32(settings.sparsity_cost))


def _slice(
    problem: Problem, state: State, m: int, found: Statistics, c: Array, penalty: Penalty | None, rates: Rates, units: slice
) -> tuple[float, Array]:
    """The step of some visible units' weights, with their part of the biases' gradient: the largest weight, and what G_c follows by.

    c  (K,) the hidden biases' gradient before any slice.
    """
    settings, G, follows = problem.settings, found.pairs(units), np.zeros_like(c)
    if settings.centering and state.hidden_mean is not None:
        share, mean = rates.share / problem.hidden.scale, problem.visible_mean(m)[units]
        follows = centre_pairs(G, found.b[units], c, mean, state.hidden_mean[m], visible_share=share)
    if penalty is not None:
        G -= penalty.cost * np.outer(penalty.rows[units], penalty.excess)
    both = problem.visible.scale * problem.hidden.scale
    if settings.l1_decay:
        G -= np.float32(settings.l1_decay * both) * np.sign(state.W[m, units])
    decay = settings.weight_decay * both
    return fast.momentum_step(state.W[m, units], state.W_velocity[m, units], G, rates.W, settings.momentum, decay), follows
