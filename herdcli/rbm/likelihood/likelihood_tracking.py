"""log Z along the updates of a fit: particles that are carried from parameters to parameters while these are learned.

Rows v follow p_θ(v) = f_θ(v)/Z_θ with f_θ(v) = h(v) e^{b·v + Σ_k A(x_k)}, x = c + v'W.  Once learning has moved θ to θ', a row gains the
weight f_θ'(v)/f_θ(v), whose mean is Z_θ'/Z_θ, and takes a Gibbs sweep under θ'.  Learning begins beside independent columns, whose log Z
is known, and is itself the way from there: unlike annealing it meets the model's modes while they part, when rows can still reach them.
From θ to θ', an epoch or more apart, the way is a line, on which x is linear too; as many of its points are taken as keep the
conditional effective sample size, of large models no more than cost what learning costs in between.  To follow every update would be
longer: parameters that momentum and noise move about lead nowhere for the most part.  Populations are drawn anew each by itself where
their weights spread, and share nothing: what they differ by measures the error, and where steps were too long, what the longest of a way
has lost is added to it.
Sources: Béreux, Decelle, Furtlehner, Rosset & Seoane (2025), sec. 4, trajectory annealed importance sampling; Del Moral, Doucet & Jasra
(2006), sec. 3; Zhou, Johansen & Aston (2016), sec. 3.3 (conditional effective sample size).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.rbm.learning.learning_problem import LearningProblem
from herdcli.rbm.learning.learning_state import TrackingParticles
from herdcli.rbm.learning.minibatch_statistics import map_items
from herdcli.rbm.likelihood.row_likelihood import Map
from herdcli.rbm.likelihood.sequential_monte_carlo import POPULATIONS, pool_estimates, resample_if_needed
from herdcli.rbm.units.base import UnitFamily
from herdcli.rng import Stream, generator
from herdcli.schema import Array

FIGURES = ("log_partition", "standard_error", "training", "validation")  # of each epoch
ROWS = 32  # of a population
PARTS = 2  # that populations are carried in, of large models
LARGE = 1 << 16  # weights from which on a model is large
LOST = 0.02  # minus the logarithm of the share of the rows that a step keeps in effect
POINTS = 25  # of learning's way that rows are carried to
MOST_STEPS, FEWEST_STEPS = 500, 20  # from one to the next
PRODUCTS = (
    5 / 3
)  # of an update of learning, for each of a step; of large models steps take as many multiplications as the updates in between
HALF = 0.7  # minus the logarithm of the share of the rows that one step may keep and still be relied on
SHORTEST, TINY = 1e-9, 1e-2  # what is left of a way that counts as nothing; the least share of LOST that a step is taken to lose


class PathPoint(NamedTuple):
    """Parameters in float32: W (D, K), b (D,), c (K,)."""

    W: Array
    b: Array
    c: Array


def is_due(problem: LearningProblem, m: int, step: int) -> bool:
    """Whether rows are carried on after update number `step` of model m: after POINTS epochs evenly spread, the last among them, and after
    those that rows held out are looked at."""
    settings, (epoch, batch) = problem.settings, divmod(step + 1, problem.batches(m))
    if batch:
        return False
    return epoch == settings.epochs or epoch % -(-settings.epochs // POINTS) == 0 or bool(settings.every and epoch % settings.every == 0)


def begin_tracking(problem: LearningProblem, m: int, track: TrackingParticles, point: PathPoint) -> None:
    """Rows of model m drawn from independent columns, the base rates of its rows, and carried to where learning begins."""
    visible, hidden = problem.visible, problem.hidden
    natural = problem.base(m).astype(np.float64)
    base = PathPoint(np.zeros_like(point.W), natural.astype(np.float32), point.c)
    draws = generator(problem.settings.seed, Stream.TRAJECTORY, unit=problem.unit(m))
    rows = track.values[m].reshape(-1, len(natural))
    visible.layer().sample(np.zeros_like(rows), base.b, rows, draws)
    start = float(visible.summed_log_partition(base.b.astype(np.float64))) + float(hidden.summed_log_partition(base.c.astype(np.float64)))
    track.log_weights[m], track.log_means[m] = 0.0, start
    track.W[m], track.b[m], track.c[m] = base
    carry_particles(problem, m, track, point, -1)


def carry_particles(problem: LearningProblem, m: int, track: TrackingParticles, point: PathPoint, step: int, map: Map = map) -> None:
    """The rows of model m from where they are to the parameters `point`, after update number `step` = 0, 1, …; −1: before the first."""
    start = PathPoint(track.W[m], track.b[m], track.c[m])
    parts = PARTS if start.W.size >= LARGE else 1
    most = allowed_steps(problem, m) if start.W.size >= LARGE and step >= 0 else MOST_STEPS
    n = POPULATIONS // parts

    def part(number: int) -> float:
        draws = generator(problem.settings.seed, Stream.TRAJECTORY, unit=problem.unit(m), step=step + 2, part=number)
        own = slice(number * n, (number + 1) * n)
        populations = TrackedPopulations(track.values[m, own], track.log_weights[m, own], track.log_means[m, own])
        return _walk_segment(PathSegment(problem.visible, problem.hidden, start, point), populations, draws, most)

    track.lost[m] += max(map_items(map, part, range(parts)))
    for own, new in zip(start, point, strict=True):
        own[...] = new


def allowed_steps(problem: LearningProblem, m: int) -> int:
    """Steps from one point to the next that take about as long as learning takes between them."""
    settings, epochs = problem.settings, -(-problem.settings.epochs // POINTS)
    updates = problem.batches(m) * min(epochs, settings.every or epochs)
    rows = len(problem.rows[m]) / problem.batches(m) * settings.steps
    return max(FEWEST_STEPS, min(MOST_STEPS, round(PRODUCTS * updates * rows / (POPULATIONS * ROWS))))


class TrackedPopulations(NamedTuple):
    """Some of them, which are moved in place: values (P, n, D), log weights (P, n), log of the mean weights until then (P,)."""

    values: Array
    log_weights: Array
    log_means: Array


class HiddenInputs(NamedTuple):
    """Inputs x (n, K) of hidden units at the start of a way, what u (n, K) they grow by, both float32, and the growth of b·v (n,)."""

    x: Array
    u: Array
    slope: Array

    def at(self, share: float) -> Array:
        """Those (n, K) with this share of the way behind."""
        found: Array = self.x + np.float32(share) * self.u
        return found


class PathSegment(NamedTuple):
    """The line from one point to another, of a model of two families."""

    visible: UnitFamily
    hidden: UnitFamily
    start: PathPoint
    end: PathPoint

    def at(self, share: float) -> PathPoint:
        """The point that has this share of the way behind it."""
        if share == 1.0:
            return self.end
        return PathPoint(*(a + np.float32(share) * (b - a) for a, b in zip(self.start, self.end, strict=True)))

    def inputs(self, v: Array) -> HiddenInputs:
        """What rows v (n, D) give hidden units at the start, and what it grows by until the end."""
        # On θ_s = θ + s (θ' − θ) both x_s = c_s + v'W_s and b_s·v are linear in s: products with the ends give log f_s(v) everywhere.
        x, u = (exact_arithmetic.product(v, end.W) + end.c for end in (self.start, self.end))
        u -= x
        return HiddenInputs(x, u, exact_arithmetic.product(v.astype(np.float64), self.end.b.astype(np.float64) - self.start.b))

    def rise(self, hidden_inputs: HiddenInputs, before: float) -> Callable[[float], Array]:
        """s ↦ log f_s(v) − log f_before(v), (n,) float64."""
        here = self.hidden.summed_log_partition(hidden_inputs.at(before))

        def found(s: float) -> Array:
            grown: Array = (s - before) * hidden_inputs.slope + (self.hidden.summed_log_partition(hidden_inputs.at(s)) - here)
            return grown

        return found


def _walk_segment(segment: PathSegment, rows: TrackedPopulations, draws: np.random.Generator, most: int) -> float:
    """All the way, by as many steps as the conditional effective sample size asks for, at most so many.

    Returns the largest loss of one of them beyond HALF: where steps are too few, so few rows count that what they say of Z is chance.
    """
    v, at, size, worst = rows.values.reshape(-1, rows.values.shape[-1]), 0.0, 1.0, 0.0
    for step in range(most):
        least, given = (1.0 - at) / (most - step), segment.inputs(v)
        length, growth, size, lost = _step_length(segment.rise(given, at), rows.log_weights.ravel(), at, max(size, least), least)
        worst = max(worst, lost - HALF)
        at = at + length if at + length < 1.0 - SHORTEST else 1.0
        rows.log_weights[...] += growth.reshape(rows.log_weights.shape)
        inputs = given.at(at).reshape(*rows.log_weights.shape, -1)
        for population in range(len(rows.values)):
            _resample(rows, inputs, population, draws)
        _gibbs_sweep(segment, v, inputs.reshape(len(v), -1), segment.at(at), draws)
        if at == 1.0:
            break
    return worst


def _step_length(
    rise: Callable[[float], Array], log_weights: Array, at: float, size: float, least: float
) -> tuple[float, Array, float, float]:
    """A length that keeps the conditional effective sample size, unless it is the least there is, what rows gain on it, what the next may
    be like, and minus the logarithm of the share of the rows that this one keeps.  size  what is tried first."""
    share = exact_arithmetic.exp(log_weights - exact_arithmetic.log_sum_exp(log_weights))
    while True:
        length = 1.0 - at if at + size >= 1.0 - SHORTEST else size
        growth = rise(at + length)
        # (Σ Wg)² / Σ Wg² with Σ W = 1 is 1 where all g are alike: what this step alone does to the weights.  Minus its logarithm is near to
        # the variance of log g, which grows as the square of the length.
        gain = exact_arithmetic.exp(growth - growth.max())
        lost = float(
            exact_arithmetic.log(exact_arithmetic.product(share, np.square(gain)))
            - 2.0 * exact_arithmetic.log(exact_arithmetic.product(share, gain))
        )
        best = length * math.sqrt(LOST / max(lost, TINY * LOST))
        if lost <= LOST or length <= least:
            return length, growth, min(max(best, least), 1.0), lost
        size = max(0.9 * best, least)


def _resample(rows: TrackedPopulations, inputs: Array, population: int, draws: np.random.Generator) -> None:
    """The rows of a population and the hidden units' inputs (P, n, K) in proportion to their weights, if fewer than half of them count."""
    places = resample_if_needed(rows.log_weights[population], rows.log_means[population, ...], draws)
    if places is not None:
        rows.values[population], inputs[population] = rows.values[population, places], inputs[population, places]


def _gibbs_sweep(segment: PathSegment, v: Array, inputs: Array, point: PathPoint, draws: np.random.Generator) -> None:
    """Hidden units given their inputs (n, K), overwritten, and rows v (n, D) given the hidden units, in place."""
    hidden, natural = np.empty_like(inputs), np.empty_like(v)
    segment.hidden.layer().sample(inputs, np.zeros_like(point.c), hidden, draws)
    exact_arithmetic.product(hidden, point.W.T, out=natural)
    segment.visible.layer().sample(natural, point.b, v, draws)


def tracked_log_partition(track: TrackingParticles, m: int) -> tuple[float, float]:
    """log Z of model m where its rows stand, and its standard error, from what the populations differ by and what steps have lost."""
    logs = (
        track.log_means[m] + exact_arithmetic.log_sum_exp(track.log_weights[m], axis=1) - exact_arithmetic.log(track.log_weights.shape[2])
    )
    found, error = pool_estimates(logs)
    # Sums of many small steps are near to normal, and Z of a population to log-normal: log E[Z] = μ + σ²/2, whose error by that of the mean
    # and the variance of P normal numbers is √(σ²/P + σ⁴/2(P − 1)).  Where one population outweighs all others, the mean of the Z knows
    # nothing of what it lacks, and this does.
    variance = float(logs.var(ddof=1))
    normal, spread = float(logs.mean()) + 0.5 * variance, variance / len(logs) + 0.5 * variance * variance / (len(logs) - 1)
    return found, max(error, math.sqrt(spread + (found - normal) ** 2)) + float(track.lost[m])
