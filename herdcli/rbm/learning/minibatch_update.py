"""One minibatch of one model and the figures recorded with it; see `minibatch_statistics` for statistics and `gradient_step` for steps."""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import Diverged
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.row_selection import SelectedRows
from herdcli.numerics.scores import add_standardised_energies
from herdcli.numerics.streamed_rows import StreamedRows
from herdcli.rbm.learning import sparse_updates, validation
from herdcli.rbm.learning.gradient_step import StepRates, apply_gradient_step
from herdcli.rbm.learning.learned_variances import log_deviation_gradient, update_log_deviations
from herdcli.rbm.learning.learning_problem import LearningProblem
from herdcli.rbm.learning.learning_state import BestModels, LearningState, ParameterMeans, TrackingParticles
from herdcli.rbm.learning.minibatch_statistics import (
    BatchStatistics,
    RemoteGroups,
    batch_statistics,
    make_block_sweeper,
    restart_some_chains,
    select_batch_rows,
)
from herdcli.rbm.likelihood import likelihood_tracking
from herdcli.rbm.likelihood.row_likelihood import row_blocks
from herdcli.rbm.model import Harmonium
from herdcli.rbm.normalizability import project_to_normalisable
from herdcli.schema import Array

FAST = ("W_fast", "b_fast", "c_fast")
LARGEST = 1e3  # larger parameters have diverged


def run_minibatch(
    problem: LearningProblem, state: LearningState, m: int, map: Map = map, remote_groups: RemoteGroups | None = None
) -> None:
    """Run one minibatch of model m.

    `map` may run its blocks of rows and slices of weights on threads; `remote_groups` are other processes that compute its groups.
    """
    settings, batches, step = problem.settings, problem.batches(m), state.step + problem.earlier_run_minibatches(m)
    epoch, batch = divmod(step, batches)
    n = len(problem.rows[m])
    order = problem.order(m, epoch)[batch * n // batches : (batch + 1) * n // batches]
    if settings.algorithm == "rpcd":
        restart_some_chains(problem, state, m, order, step)
    each = not settings.has_persistent_chains and state.lag is None
    if state.lag is not None:
        error, largest = sparse_updates.run_sparse_minibatch(problem, state, m, state.lag, order, step, map)
    else:
        found = batch_statistics(problem, state, m, order, step, reconstruct=each or batch == 0, map=map, remote_groups=remote_groups)
        error, largest = found.error, _apply_minibatch_gradient(problem, state, m, order, step, found, map)
    state.trace[epoch, m] += error / (problem.rows[m].shape[1] * (n if each else len(order)) * problem.visible.scale**2)
    for index, units in ((1, problem.visible), (2, problem.hidden)):
        if units.standard_normal and np.isfinite(largest[index]):
            largest[index] = 0.0  # a bias encodes a mean and has no natural bound
    if not np.max(largest) <= LARGEST:
        which = f"model {problem.global_number(m)}" if len(problem.rows) > 1 or problem.units else "the model"
        raise Diverged(
            f"{which} diverged in epoch {epoch + 1}: parameters are above {LARGEST:g} or not finite",
            hint=f"lower --learning-rate (it is {settings.learning_rate:g})",
        )
    if state.energy is not None and problem.scored is not None and step >= problem.updates(m) - settings.average_scores:
        _add_standardised_energies(problem, state, m, problem.scored, state.energy[:, m])
    if state.mean is not None:
        _update_parameter_means(state, state.mean, m, step - problem.updates(m) + min(settings.average, problem.updates(m)))
    if state.track is not None and likelihood_tracking.is_tracking_due(problem, m, step):
        _update_tracked_likelihood(problem, state, state.track, m, step, map)
    if state.best is not None and batch == batches - 1:
        _evaluate_if_due(problem, state, state.best, m, epoch + 1)


def _apply_minibatch_gradient(
    problem: LearningProblem, state: LearningState, m: int, order: Array, step: int, statistics: BatchStatistics, map: Map
) -> list[float]:
    """Move all parameters of model m along the statistics.  Returns the largest absolute values of W, b and c."""
    gradient = None if state.log_scale is None else _variance_gradient(problem, state, m, order, step)
    largest = apply_gradient_step(problem, state, m, order, step, statistics, map)
    if state.log_scale is not None and gradient is not None:
        update_log_deviations(state.log_scale[m], gradient, StepRates.from_problem(problem, m, step).b)
    constrain_weights_in_place(problem, m, state.W[m])
    _update_fast_weights(problem, state, m, statistics)
    return largest


def _variance_gradient(problem: LearningProblem, state: LearningState, m: int, order: Array, step: int) -> Array:
    """Compute the gradient along the log deviations (D,), which is 0 in constant columns and in those of a label."""
    found = log_deviation_gradient(make_block_sweeper(problem, state, m, step), select_batch_rows(problem, state, m, order))
    found[problem.constant_columns(m)] = 0.0
    if problem.visible.labels is not None:
        found[-problem.visible.labels.group :] = 0.0
    return found


def _update_parameter_means(state: LearningState, mean: ParameterMeans, m: int, number: int) -> None:
    """Include the parameters of update number 0, 1, … in the running means, if it is one of the last."""
    if number >= 0:
        for name in ("W", "b", "c"):
            total = getattr(mean, name)[m]
            if number == 0:
                total[...] = 0.0  # in a continued run the means are those of its first end
            # The mean of n + 1 numbers is that of n moved by 1/(n + 1) of the way to the new one; the sum itself is never stored.
            total += (getattr(state, name)[m] - total) / np.float32(number + 1)


def _update_tracked_likelihood(
    problem: LearningProblem, state: LearningState, track: TrackingParticles, m: int, step: int, map: Map
) -> None:
    """Carry the particles that track log Z to the current parameters, or to the means at the end, and record the epoch's figures."""
    ended = state.mean if state.mean is not None and step == problem.updates(m) - 1 else state
    point = likelihood_tracking.ParameterPoint(ended.W[m], ended.b[m], ended.c[m])
    likelihood_tracking.move_particles_to(problem, m, track, point, step, map)
    W, b, c = (part.astype(np.float64) for part in point)
    h = Harmonium(W, b, c, problem.visible, problem.hidden)
    log_z, error = likelihood_tracking.tracked_log_partition(track, m)
    scale = None if state.log_scale is None else state.log_scale[m]
    training, held = (
        np.nan if rows is None else validation.mean_unnormalised_log_density(h, rows, scale) - log_z
        for rows in (problem.rows[m], None if problem.valid is None else problem.valid[m])
    )
    track.figures[step // problem.batches(m), m] = log_z, error, training, held


def _evaluate_if_due(problem: LearningProblem, state: LearningState, best: BestModels, m: int, epochs: int) -> None:
    """Evaluate model m on validation rows if an evaluation is due.

    The model is kept if it is the best, and stopped if it has not improved for long.
    """
    settings = problem.settings
    if problem.valid is None or (epochs % settings.epochs_per_evaluation and epochs < settings.epochs):
        return
    W, b, c = (np.asarray(part[m], dtype=np.float64) for part in (state.W, state.b, state.c))
    h, number = Harmonium(W, b, c, problem.visible, problem.hidden), -(-epochs // settings.epochs_per_evaluation) - 1
    base = problem.base_rate_parameters(m)
    known = None if state.track is None else float(state.track.figures[epochs - 1, m, 0])
    log_z = validation.validation_log_partition(h, base, settings.seed + problem.global_number(m), known)
    best.figures[number, m] = validation.validation_figures(h, problem.valid[m], problem.rows[m], log_z)
    if best.error is not None:
        best.error[number, m] = validation.label_error_rate(h, problem.valid[m])
    if best.densities is not None and problem.told is not None:
        best.densities[number, m] = validation.row_log_densities(h, problem.told[:], log_z)
    if problem.known is not None:
        best.figures[number, m, 2] = np.nan  # the known part of a training row has another free energy than the whole row
    looks = criterion_from_figures(best.figures)[:, m]
    if not best.epoch[m] or looks[number] > np.nanmax(looks[:number], initial=-np.inf):
        best.W[m], best.b[m], best.c[m], best.epoch[m] = state.W[m], state.b[m], state.c[m], epochs
    if settings.patience and epochs - best.epoch[m] >= settings.patience * settings.epochs_per_evaluation:
        best.stopped[m] = epochs


def criterion_from_figures(figures: Array) -> Array:
    """Return the criterion to maximise (V, M): the log-likelihood, or the pseudo-likelihood if a model has none."""
    chosen: Array = np.where(np.isnan(figures[..., 0]), figures[..., 1], figures[..., 0])
    return chosen


def known_criterion_mask(figures: Array) -> Array:
    known: Array = ~np.isnan(criterion_from_figures(figures))
    return known


def constrain_weights_in_place(problem: LearningProblem, m: int, W: Array) -> None:
    """Project weights (D, K) of model m, in place, onto the set that learning allows."""
    if problem.settings.non_negative:
        np.maximum(W, 0.0, out=W)
    project_to_normalisable(problem.visible, problem.hidden, W)
    W[problem.constant_columns(m)] = 0.0


def _update_fast_weights(problem: LearningProblem, state: LearningState, m: int, statistics: BatchStatistics) -> None:
    """Let fast weights decay and follow the gradient at a rate of their own.  Source: Tieleman & Hinton (2009), sec. 3."""
    settings = problem.settings
    if settings.algorithm != "fpcd":
        return
    rate, above, below = settings.fast_rate or settings.learning_rate, problem.visible.scale, problem.hidden.scale
    for name, gradient, scale in zip(FAST, (statistics.W, statistics.b, statistics.c), (above * below, above, below), strict=True):
        part = getattr(state, name)[m]
        part *= np.float32(settings.fast_decay)
        part += np.float32(rate / scale) * gradient


def _add_standardised_energies(problem: LearningProblem, state: LearningState, m: int, rows: Array, total: Array) -> None:
    """Add to `total` (n,) the free energies of `rows` under model m, standardised by the free energies of this model's training rows.

    Source: Welling (2009), sec. 10, applied to learning as to herding.
    """

    def free_energy(v: Array | SelectedRows | StreamedRows) -> Array:
        result = np.empty(len(v))
        for block in row_blocks(len(v), sum(state.W[m].shape)):
            part = v[block].astype(np.float32)
            inputs = exact_arithmetic.matrix_product(part, state.W[m]) + state.c[m]
            result[block] = -exact_arithmetic.matrix_product(part, state.b[m]) - problem.hidden.summed_log_partition(inputs)
            if not problem.visible.two_state:
                result[block] -= problem.visible.log_base_measure(part)
        return result

    add_standardised_energies(total, free_energy(rows), free_energy(problem.rows[m]))
