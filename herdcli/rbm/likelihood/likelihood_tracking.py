"""Tracking of log Z along the updates of a fit, by particles that follow the parameters while these are learned.

Rows v follow p_θ(v) = f_θ(v)/Z_θ with f_θ(v) = h(v) e^{b·v + Σ_k A(x_k)}, x = c + v'W.  When learning has moved θ to θ', a row's weight is
multiplied by f_θ'(v)/f_θ(v), whose mean is Z_θ'/Z_θ, and the row takes a Gibbs sweep under θ'.  Learning starts close to independent
columns, whose log Z is known, and is itself the path from there.  Unlike annealing it meets the model's modes while they separate, when
rows can still reach them.

From θ to θ', an epoch or more apart, the path is a line, on which x is linear too.  It is divided into as many steps as keep the
conditional effective sample size; for large models into no more than cost as much as the learning in between.  Following every update
would be a longer path, because much of the movement by momentum and noise leads nowhere.  Each population is resampled by itself when
its weights spread, and populations share nothing.  Their differences therefore measure the error; if steps were too long, the largest
loss on a path is added to it.
Sources: Béreux, Decelle, Furtlehner, Rosset & Seoane (2025), sec. 4, trajectory annealed importance sampling; Del Moral, Doucet & Jasra
(2006), sec. 3; Zhou, Johansen & Aston (2016), sec. 3.3 (conditional effective sample size).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from herdcli.algorithm import Map
from herdcli.numerics import exact_arithmetic
from herdcli.rbm.learning.learning_problem import LearningProblem
from herdcli.rbm.learning.learning_state import TrackingParticles
from herdcli.rbm.learning.minibatch_statistics import map_in_order
from herdcli.rbm.likelihood.sequential_monte_carlo import POPULATIONS, pool_log_estimates, resample_if_needed
from herdcli.rbm.units.base import UnitFamily
from herdcli.rng import Stream, generator
from herdcli.schema import Array

FIGURES = ("log_partition", "standard_error", "training", "validation")  # names of the figures of each epoch
ROWS = 32  # rows of a population
PARTS = 2  # the populations of a large model are processed in this many parts
LARGE = 1 << 16  # a model with at least this many weights is large
LOST = 0.02  # each step keeps the share e^−LOST of the effective rows
POINTS = 25  # rows are carried to this many points on the path of learning
MOST_STEPS, FEWEST_STEPS = 500, 20  # largest and smallest number of steps from one point to the next
PRODUCTS = (
    5 / 3
)  # cost of a step relative to an update of learning; in large models all steps together cost as much as the updates in between
HALF = 0.7  # a step is reliable if it keeps at least the share e^−HALF of the effective rows
SHORTEST, TINY = 1e-9, 1e-2  # remaining path that counts as nothing; a step is assumed to lose at least TINY · LOST


class ParameterPoint(NamedTuple):
    """A point in parameter space, in float32: W (D, K), b (D,), c (K,)."""

    W: Array
    b: Array
    c: Array


def is_tracking_due(problem: LearningProblem, m: int, step: int) -> bool:
    """Whether rows are carried on after update number `step` of model m.

    This is the case after POINTS epochs, evenly spread and including the last, and after epochs with an evaluation on validation rows.
    """
    settings, (epoch, batch) = problem.settings, divmod(step + 1, problem.batches(m))
    if batch:
        return False
    return (
        epoch == settings.epochs
        or epoch % -(-settings.epochs // POINTS) == 0
        or bool(settings.epochs_per_evaluation and epoch % settings.epochs_per_evaluation == 0)
    )


def place_particles(problem: LearningProblem, m: int, track: TrackingParticles, initial_point: ParameterPoint) -> None:
    """Sample rows of model m from independent columns, the base rates of its rows, and carry them to the start of learning."""
    visible, hidden = problem.visible, problem.hidden
    natural = problem.base_rate_parameters_float32(m).astype(np.float64)
    base = ParameterPoint(np.zeros_like(initial_point.W), natural.astype(np.float32), initial_point.c)
    draws = generator(problem.settings.seed, Stream.TRAJECTORY, unit=problem.global_number(m))
    rows = track.values[m].reshape(-1, len(natural))
    visible.layer().sample(np.zeros_like(rows), base.b, rows, draws)
    start = float(visible.summed_log_partition(base.b.astype(np.float64))) + float(hidden.summed_log_partition(base.c.astype(np.float64)))
    track.log_weights[m], track.log_means[m] = 0.0, start
    track.W[m], track.b[m], track.c[m] = base
    move_particles_to(problem, m, track, initial_point, -1)


def move_particles_to(
    problem: LearningProblem, m: int, track: TrackingParticles, target: ParameterPoint, step: int, map: Map = map
) -> None:
    """Carry the rows of model m to the parameters `target`, after update number `step` = 0, 1, …; −1: before the first."""
    start = ParameterPoint(track.W[m], track.b[m], track.c[m])
    parts = PARTS if start.W.size >= LARGE else 1
    most = tracking_step_budget(problem, m) if start.W.size >= LARGE and step >= 0 else MOST_STEPS
    n = POPULATIONS // parts

    def part(number: int) -> float:
        draws = generator(problem.settings.seed, Stream.TRAJECTORY, unit=problem.global_number(m), step=step + 2, part=number)
        own = slice(number * n, (number + 1) * n)
        populations = TrackedPopulations(track.values[m, own], track.log_weights[m, own], track.log_means[m, own])
        return _walk_segment(ParameterSegment(problem.visible, problem.hidden, start, target), populations, draws, most)

    track.lost[m] += max(map_in_order(map, part, range(parts)))
    for own, new in zip(start, target, strict=True):
        own[...] = new


def tracking_step_budget(problem: LearningProblem, m: int) -> int:
    """Return the number of steps to the next point that take about as long as the learning in between."""
    settings, epochs = problem.settings, -(-problem.settings.epochs // POINTS)
    updates = problem.batches(m) * min(epochs, settings.epochs_per_evaluation or epochs)
    rows = len(problem.rows[m]) / problem.batches(m) * settings.steps
    return max(FEWEST_STEPS, min(MOST_STEPS, round(PRODUCTS * updates * rows / (POPULATIONS * ROWS))))


class TrackedPopulations(NamedTuple):
    """Some of the populations, updated in place: values (P, n, D), log weights (P, n), log of the mean weights before resampling (P,)."""

    values: Array
    log_weights: Array
    log_means: Array


class HiddenInputs(NamedTuple):
    """The inputs x (n, K) of hidden units at the start of a segment, their change u (n, K), both float32, and the change of b·v (n,)."""

    x: Array
    u: Array
    slope: Array

    def interpolate(self, share: float) -> Array:
        """Return the inputs (n, K) after this share of the segment."""
        found: Array = self.x + np.float32(share) * self.u
        return found


class ParameterSegment(NamedTuple):
    """The line from one point to another, for a model of two families."""

    visible: UnitFamily
    hidden: UnitFamily
    start: ParameterPoint
    end: ParameterPoint

    def interpolate(self, share: float) -> ParameterPoint:
        """Return the point after this share of the segment."""
        if share == 1.0:
            return self.end
        return ParameterPoint(*(a + np.float32(share) * (b - a) for a, b in zip(self.start, self.end, strict=True)))

    def inputs(self, v: Array) -> HiddenInputs:
        """Compute the hidden inputs of rows v (n, D) at the start of the segment, and their change until its end."""
        # On θ_s = θ + s (θ' − θ) both x_s = c_s + v'W_s and b_s·v are linear in s: products with the ends give log f_s(v) everywhere.
        x, u = (exact_arithmetic.matrix_product(v, end.W) + end.c for end in (self.start, self.end))
        u -= x
        return HiddenInputs(x, u, exact_arithmetic.matrix_product(v.astype(np.float64), self.end.b.astype(np.float64) - self.start.b))

    def log_weight_growth(self, hidden_inputs: HiddenInputs, before: float) -> Callable[[float], Array]:
        """Return the function s ↦ log f_s(v) − log f_before(v), (n,) float64."""
        here = self.hidden.summed_log_partition(hidden_inputs.interpolate(before))

        def found(s: float) -> Array:
            grown: Array = (s - before) * hidden_inputs.slope + (self.hidden.summed_log_partition(hidden_inputs.interpolate(s)) - here)
            return grown

        return found


def _walk_segment(segment: ParameterSegment, rows: TrackedPopulations, draws: np.random.Generator, max_steps: int) -> float:
    """Carry rows along the segment, in at most `max_steps` steps that keep the conditional effective sample size if possible.

    Returns the largest loss of a step beyond HALF: with too few steps, so few rows count that their estimate of Z is chance.
    """
    v, at, size, worst = rows.values.reshape(-1, rows.values.shape[-1]), 0.0, 1.0, 0.0
    for step in range(max_steps):
        least, given = (1.0 - at) / (max_steps - step), segment.inputs(v)
        length, growth, size, lost = _choose_step_length(
            segment.log_weight_growth(given, at), rows.log_weights.ravel(), at, max(size, least), least
        )
        worst = max(worst, lost - HALF)
        at = at + length if at + length < 1.0 - SHORTEST else 1.0
        rows.log_weights[...] += growth.reshape(rows.log_weights.shape)
        inputs = given.interpolate(at).reshape(*rows.log_weights.shape, -1)
        for population in range(len(rows.values)):
            _resample_populations(rows, inputs, population, draws)
        _gibbs_sweep(segment, v, inputs.reshape(len(v), -1), segment.interpolate(at), draws)
        if at == 1.0:
            break
    return worst


def _choose_step_length(
    rise: Callable[[float], Array], log_weights: Array, position: float, size: float, min_step: float
) -> tuple[float, Array, float, float]:
    """Choose a step that keeps the conditional effective sample size, unless it is already the least step.

    Returns its length, the rows' gain on it, the first length to try next, and minus the logarithm of the share of effective rows that it
    keeps.  size  the length that is tried first.
    """
    share = exact_arithmetic.exp(log_weights - exact_arithmetic.log_sum_exp(log_weights))
    while True:
        length = 1.0 - position if position + size >= 1.0 - SHORTEST else size
        growth = rise(position + length)
        # (Σ Wg)² / Σ Wg² with Σ W = 1 is 1 if all g are equal: it is the effect of this step alone on the weights.  Minus its logarithm is
        # close to the variance of log g, which grows with the square of the length.
        gain = exact_arithmetic.exp(growth - growth.max())
        lost = float(
            exact_arithmetic.log(exact_arithmetic.matrix_product(share, np.square(gain)))
            - 2.0 * exact_arithmetic.log(exact_arithmetic.matrix_product(share, gain))
        )
        best = length * math.sqrt(LOST / max(lost, TINY * LOST))
        if lost <= LOST or length <= min_step:
            return length, growth, min(max(best, min_step), 1.0), lost
        size = max(0.9 * best, min_step)


def _resample_populations(rows: TrackedPopulations, inputs: Array, population: int, draws: np.random.Generator) -> None:
    """Resample a population and its hidden inputs (P, n, K) in proportion to the weights, if fewer than half of the rows count."""
    places = resample_if_needed(rows.log_weights[population], rows.log_means[population, ...], draws)
    if places is not None:
        rows.values[population], inputs[population] = rows.values[population, places], inputs[population, places]


def _gibbs_sweep(segment: ParameterSegment, v: Array, inputs: Array, point: ParameterPoint, draws: np.random.Generator) -> None:
    """Sample hidden units given their inputs (n, K), which are overwritten, and rows v (n, D) given the hidden units, in place."""
    hidden, natural = np.empty_like(inputs), np.empty_like(v)
    segment.hidden.layer().sample(inputs, np.zeros_like(point.c), hidden, draws)
    exact_arithmetic.matrix_product(hidden, point.W.T, out=natural)
    segment.visible.layer().sample(natural, point.b, v, draws)


def tracked_log_partition(track: TrackingParticles, m: int) -> tuple[float, float]:
    """Return log Z of model m at the rows' parameters, and its standard error from the populations' differences and the steps' losses."""
    logs = (
        track.log_means[m] + exact_arithmetic.log_sum_exp(track.log_weights[m], axis=1) - exact_arithmetic.log(track.log_weights.shape[2])
    )
    found, error = pool_log_estimates(logs)
    # Sums of many small steps are nearly normal, and Z of a population is nearly log-normal: log E[Z] = μ + σ²/2.  Its error, from that of
    # the mean and the variance of P normal numbers, is √(σ²/P + σ⁴/2(P − 1)).  If one population outweighs all others, the mean of the Z
    # gives no sign of its error, but this does.
    variance = float(logs.var(ddof=1))
    normal, spread = float(logs.mean()) + 0.5 * variance, variance / len(logs) + 0.5 * variance * variance / (len(logs) - 1)
    return found, max(error, math.sqrt(spread + (found - normal) ** 2)) + float(track.lost[m])
