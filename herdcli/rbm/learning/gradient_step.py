"""The step along a minibatch's statistics: centring, penalties, decay and momentum, in slices of the visible units."""

from __future__ import annotations

from functools import partial

import numpy as np

from herdcli import fast
from herdcli.algorithm import Map
from herdcli.numerics import exact_arithmetic
from herdcli.rbm.learning.gradients import subtract_matrix_product, uncentre_gradient
from herdcli.rbm.learning.learning_problem import LearningProblem
from herdcli.rbm.learning.learning_state import LearningState
from herdcli.rbm.learning.minibatch_statistics import BatchStatistics, map_in_order, select_batch_rows, slice_visible_units
from herdcli.rbm.units.base import UnitFamily
from herdcli.records import dataclass
from herdcli.schema import Array

MEAN_SHARE = 0.01  # weight of a minibatch in the running hidden means, and in those of the Fisher matrix
SQUARES = ("W_square", "b_square", "c_square")
KEPT, TINY = 0.999, 1e-8  # adam: decay of the mean square, and the least value of its root
DAMPED = 0.1  # damping of the Fisher matrix in natural updates, relative to its mean


@dataclass(frozen=True)
class SparsityPenalty:
    """A penalty that lowers the inputs of hidden units whose running mean exceeds the target.

    With the mean r (D,) of the rows and the excess e (K,) of the running means over the target, the cost times r e' is subtracted from
    G_W, and the cost times e from G_c.
    Source: Hinton (2010), sec. 11.
    """

    rows: Array
    excess: Array
    cost: np.float32


def apply_gradient_step(
    problem: LearningProblem, state: LearningState, m: int, order: Array, step: int, statistics: BatchStatistics, map: Map = map
) -> list[float]:
    """Move model m along the statistics of the rows in `order`.  Returns the largest absolute values of W, b and c."""
    settings = problem.settings
    if state.hidden_mean is not None:
        # An exponential average: a minibatch n updates ago has the weight 0.01 · 0.99ⁿ.
        state.hidden_mean[m] += np.float32(MEAN_SHARE) * (statistics.hidden - state.hidden_mean[m])
    penalty = _sparsity_penalty(problem, state, m, order)
    c, rates = statistics.c.copy(), StepRates.from_problem(problem, m, step)
    if settings.optimizer == "natural":
        return _apply_natural_gradient(problem, state, m, statistics, rates, penalty)
    work = partial(_update_visible_slice, problem, state, m, statistics, c, penalty, rates, step)
    ends = map_in_order(map, work, slice_visible_units(len(statistics.b), len(order)))
    if settings.centering:
        for _, follows in ends:
            statistics.c[...] -= np.float32(rates.share / problem.visible.scale) * follows
    if penalty is not None:
        statistics.c[...] -= penalty.cost * penalty.excess
    everything = slice(None)
    return [
        ends[0][0] if len(ends) == 1 else float(np.max([largest for largest, _ in ends])),
        _apply_parameter_gradient(problem, state, m, "b", everything, statistics.b, (rates.b, 0.0), step),
        _apply_parameter_gradient(problem, state, m, "c", everything, statistics.c, (rates.c, 0.0), step),
    ]


def _apply_parameter_gradient(
    problem: LearningProblem, state: LearningState, m: int, name: str, units: slice, G: Array, rate: tuple[float, float], step: int
) -> float:
    """Move some of the parameters `name` along their gradient, with a rate and a decay.  Returns the largest of them."""
    settings = problem.settings
    x, velocity, square = state.parameters_with_momentum(m, name, units)
    if square is None:
        return fast.momentum_step(x, velocity, G, rate[0], settings.momentum, rate[1])
    _adam_step(x, velocity, square, G, rate, settings.momentum, step + 1)
    return float(np.abs(x).max(initial=0.0))


def _adam_step(x: Array, mean: Array, square: Array, G: Array, rate: tuple[float, float], momentum_decay: float, t: int) -> None:
    """Apply step number t = 1, 2, … of Adam, with decay that does not enter the means.

    m ← μ m + (1 − μ) G,  s ← κ s + (1 − κ) G²,  x ← x − ε λ x + ε (m/(1 − μ^t)) / (√(s/(1 − κ^t)) + δ).
    Source: Kingma & Ba (2015), algorithm 1; Loshchilov & Hutter (2019), algorithm 2.
    """
    mean *= np.float32(momentum_decay)
    mean += np.float32(1.0 - momentum_decay) * G
    square *= np.float32(KEPT)
    square += np.float32(1.0 - KEPT) * np.square(G)
    # In means that start at 0 the total weight is (1 − μ) Σ_i μ^i = 1 − μ^t; divided by this weight the means are unbiased.
    root = np.sqrt(square / np.float32(1.0 - float(exact_arithmetic.integer_power(KEPT, t))))
    root += np.float32(TINY)
    x *= np.float32(1.0 - rate[0] * rate[1])
    x += np.float32(rate[0] / (1.0 - float(exact_arithmetic.integer_power(momentum_decay, t)))) * (mean / root)


def fisher_diagonal(v: Array, h: Array, visible_mean: Array, hidden_mean: Array, hidden: UnitFamily) -> tuple[Array, Array, Array]:
    """Compute the diagonal of the Fisher matrix of the centred model, of W (D, K), b (D,), c (K,).

    It is estimated from samples v (m, D) with E[h | v] (m, K).  For an exponential family it is the variance of the sufficient
    statistics (v_j − μ_j)(h_k − λ_k), v_j and h_k.
    Source: Amari (1998), sec. 2; Grosse & Salakhutdinov (2015), sec. 4, whose centred statistics make the matrix nearly diagonal.
    """
    m, low, high = len(v), v - visible_mean, h - hidden_mean
    alpha, beta, gamma = (h.dtype.type(part) for part in hidden.variance_function)
    # E[(h − λ)² | v] = Var[h | v] + (E[h | v] − λ)²: hidden units are summed out, not sampled.
    square = alpha + (beta + gamma * h) * h + np.square(high)
    W = exact_arithmetic.matrix_product(np.square(low).T, square) / h.dtype.type(m) - np.square(
        exact_arithmetic.matrix_product(low.T, high) / h.dtype.type(m)
    )
    b = np.square(low).mean(axis=0) - np.square(low.mean(axis=0))
    c = square.mean(axis=0) - np.square(high.mean(axis=0))
    return W, b, c


def _apply_natural_gradient(
    problem: LearningProblem, state: LearningState, m: int, statistics: BatchStatistics, rates: StepRates, penalty: SparsityPenalty | None
) -> list[float]:
    """Move model m along the gradient of the centred model divided by the diagonal of its Fisher matrix, times the diagonal's mean."""
    settings, mean = problem.settings, training_row_mean(problem, state, m)
    assert state.hidden_mean is not None
    hidden_mean = state.hidden_mean[m]
    seen = fisher_diagonal(*statistics.chain_values_and_means(), mean, hidden_mean, problem.hidden)
    G = statistics.pair_statistics(slice(None))
    subtract_matrix_product(G, np.column_stack((statistics.b, mean)), np.stack((hidden_mean, statistics.c)))
    if penalty is not None:
        G -= penalty.cost * np.outer(penalty.rows, penalty.excess)
        statistics.c[...] -= penalty.cost * penalty.excess
    for gradient, name, new in zip((G, statistics.b, statistics.c), SQUARES, seen, strict=True):
        diagonal = getattr(state, name)[m]
        # Running means start at 0, which biases those of the first updates by the same factor; it cancels because they are used relative to
        # their own mean.
        diagonal += np.float32(MEAN_SHARE) * (new - diagonal)
        level = max(float(diagonal.mean(dtype=np.float64)), TINY)
        gradient *= np.float32(level) / (np.maximum(diagonal, 0.0) + np.float32(DAMPED * level))
    # Biases of the usual parametrisation follow a change of W, as in `uncentre_gradient`.
    statistics.b[...] -= np.float32(rates.share / problem.hidden.scale) * exact_arithmetic.matrix_product(G, hidden_mean)
    statistics.c[...] -= np.float32(rates.share / problem.visible.scale) * exact_arithmetic.matrix_product(mean, G)
    decay = settings.weight_decay * problem.visible.scale * problem.hidden.scale
    return [
        fast.momentum_step(getattr(state, name)[m], getattr(state, f"{name}_velocity")[m], gradient, rate, settings.momentum, lost)
        for name, gradient, rate, lost in (("W", G, rates.W, decay), ("b", statistics.b, rates.b, 0.0), ("c", statistics.c, rates.c, 0.0))
    ]


def training_row_mean(problem: LearningProblem, state: LearningState, m: int) -> Array:
    """Compute the mean (D,) float32 of a model's rows in the values that it learns from."""
    mean = problem.visible_mean(m)
    return mean if state.log_scale is None else mean * exact_arithmetic.exp(-state.log_scale[m])


@dataclass(frozen=True)
class StepRates:
    """The rates of one update for W, b and c, and the ratio of the weights' rate to the biases' rate."""

    W: float
    b: float
    c: float
    share: float

    @classmethod
    def from_problem(cls, problem: LearningProblem, m: int, step: int) -> StepRates:
        """Return the rates of an update of model m."""
        settings = problem.settings
        left = settings.learning_rate_factor(step / problem.updates(m))
        # Statistics enter as proportions and change weights of counts: W ← W + ε (G/(n_v n_h) − λW).  So the rate on G is ε/(n_v n_h), and
        # λ is multiplied by n_v n_h to keep its effect.  The rates of Teh (2003), sec. 3.5.3, work only in this reading.
        rate, bias_rate = settings.learning_rate * left, (settings.bias_rate or settings.learning_rate) * left
        above, below = problem.visible.scale, problem.hidden.scale  # statistics are of counts, rates are defined for proportions
        share = settings.learning_rate / (settings.bias_rate or settings.learning_rate)
        return cls(rate / (above * below), bias_rate / above, bias_rate / below, share)


def _sparsity_penalty(problem: LearningProblem, state: LearningState, m: int, order: Array) -> SparsityPenalty | None:
    settings = problem.settings
    if not settings.sparsity_target or problem.hidden.range is None or state.hidden_mean is None:
        return None
    low, high = problem.hidden.range
    excess = (state.hidden_mean[m] - low) / (high - low) - settings.sparsity_target
    rows = (problem.rows[m][order] if state.log_scale is None else select_batch_rows(problem, state, m, order)).mean(
        axis=0, dtype=np.float32
    )
    return SparsityPenalty(rows, excess.astype(np.float32) * np.float32(problem.hidden.scale), np.float32(settings.sparsity_cost))


def _uses_fused_update(optimizer: str, l1_decay: float) -> bool:
    """Whether centring, decay and momentum are one compiled pass over the weights.

    Exact arithmetic keeps its products, so that its histories are reproduced byte for byte.
    """
    return optimizer == "momentum" and not l1_decay and not exact_arithmetic.is_exact()


def _update_visible_slice(
    problem: LearningProblem,
    state: LearningState,
    m: int,
    statistics: BatchStatistics,
    c: Array,
    penalty: SparsityPenalty | None,
    rates: StepRates,
    step: int,
    units: slice,
) -> tuple[float, Array]:
    """Apply the step to the weights of some visible units, with their part of the biases' gradient.

    Returns the largest weight, and the correction of G_c.  c  (K,) the gradient of the hidden biases before any slice.
    """
    settings, G, follows = problem.settings, statistics.pair_statistics(units), np.zeros_like(c)
    if (
        settings.centering
        and state.hidden_mean is not None
        and penalty is None
        and _uses_fused_update(settings.optimizer, settings.l1_decay)
    ):
        x, velocity, _ = state.parameters_with_momentum(m, "W", units)
        share, decay = rates.share / problem.hidden.scale, settings.weight_decay * problem.visible.scale * problem.hidden.scale
        means = training_row_mean(problem, state, m)[units], state.hidden_mean[m]
        largest = fast.centred_momentum_step(
            x, velocity, G, statistics.b[units], *means, c, share, rates.W, settings.momentum, decay, follows
        )
        return largest, follows
    if settings.centering and state.hidden_mean is not None:
        share, mean = rates.share / problem.hidden.scale, training_row_mean(problem, state, m)[units]
        follows = uncentre_gradient(G, statistics.b[units], c, mean, state.hidden_mean[m], visible_share=share)
    if penalty is not None:
        G -= penalty.cost * np.outer(penalty.rows[units], penalty.excess)
    both = problem.visible.scale * problem.hidden.scale
    if settings.l1_decay:
        G -= np.float32(settings.l1_decay * both) * np.sign(state.W[m, units])
    decay = settings.weight_decay * both
    return _apply_parameter_gradient(problem, state, m, "W", units, G, (rates.W, decay), step), follows
