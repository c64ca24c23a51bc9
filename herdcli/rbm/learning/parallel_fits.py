"""Learning of M harmoniums in parallel: minibatches, momentum, decay; the gradients are in `phases` and `gradients`.

A step is one minibatch of every model: with n rows v and m chain states (v~, h~) after k sweeps,

    G_W = 1/n Σ v E[h|v]' − 1/m Σ v~ E[h|v~]',   Δ ← μ Δ + ε_t (G − λ W),   W ← W + Δ,

and likewise for the biases, without λ.  CD starts its chains at the rows of the minibatch, persistent
CD at the states of the previous step.  Hidden units of the chain are sampled for the next half-sweep, but enter the
statistics by their means; visible units of the chain are sampled.  ε_t falls linearly to 0.
The other algorithms differ in the second term of G: chains driven by fast weights too, rows with one unit changed
(pseudo-likelihood), or the model's own expectation (exact).  Rates are defined for values as the data show them: if a unit
counts n replicas, its statistics enter as proportions, count/n.
Source: Hinton (2002); Tieleman (2008); Tieleman & Hinton (2009); Hinton (2010), "A practical guide", sec. 3, 4, 8, 9, 10;
Teh (2003), sec. 2.5.2 and 3.4.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from herdcli.algorithm import FixedLengthAlgorithm, HasStateShapes, Map, RunProgress
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.row_selection import SelectedRows
from herdcli.numerics.streamed_rows import StreamedRows
from herdcli.rbm.learning import sparse_updates, validation
from herdcli.rbm.learning.gradient_step import SQUARES
from herdcli.rbm.learning.learning_problem import InitialModels, LearningProblem
from herdcli.rbm.learning.learning_state import BestModels, LearningState, ParameterMeans, TrackingParticles
from herdcli.rbm.learning.minibatch_statistics import RemoteGroups
from herdcli.rbm.learning.minibatch_update import (
    FAST,
    constrain_weights_in_place,
    criterion_from_figures,
    known_criterion_mask,
    run_minibatch,
)
from herdcli.rbm.likelihood import likelihood_tracking
from herdcli.rbm.likelihood.sequential_monte_carlo import POPULATIONS
from herdcli.rbm.settings import Settings
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

__all__ = ["RBMLearning", "LearningProblem", "SelectedRows", "Settings", "LearningState"]


@dataclass(frozen=True)
class RBMLearning(FixedLengthAlgorithm[LearningState], HasStateShapes[LearningState]):
    """The learning of the models of a problem, as an algorithm; a step is one minibatch of every unfinished model.

    map   runs the models of a step, which change disjoint parts of the state, or the blocks of a single one; it may use threads.
    away  other processes that compute the groups of blocks of a single model.
    """

    problem: LearningProblem
    map: Map = map
    away: RemoteGroups | None = None
    state = LearningState  # the type of its states

    @property
    def steps(self) -> int:
        """The number of steps until the model with the most minibatches is finished."""
        return max(self.problem.updates(m) - self.problem.earlier_run_minibatches(m) for m in range(len(self.problem.rows)))

    def _unfinished_models(self, state: LearningState) -> list[int]:
        """Return the models that are not finished."""
        given = self.problem
        unfinished = [m for m in range(len(given.rows)) if state.step < given.updates(m) - given.earlier_run_minibatches(m)]
        return unfinished if state.best is None else [m for m in unfinished if not state.best.stopped[m]]

    def done(self, state: LearningState) -> bool:
        """Whether all models are finished."""
        return not self._unfinished_models(state)

    def memory(self) -> int:
        """The size in bytes of a LearningState and of the float64 models that are made of it in the end."""
        problem, settings = self.problem, self.problem.settings
        D, K, chains = int(problem.rows[0].shape[1]), settings.hidden, problem.chains if settings.has_persistent_chains else 0
        more = (settings.algorithm == "fpcd", settings.epochs_per_evaluation > 0, settings.average > 0, settings.optimizer != "momentum")
        per_weight = 4 + 4 + 8 + 4 * sum(more) + 8 * settings.track_likelihood
        tracked = settings.track_likelihood * POPULATIONS * likelihood_tracking.ROWS * (8 * D + 32 * K)
        each = per_weight * (D * K + D + K) + 4 * chains * settings.temperatures * K + 8 * settings.epochs + tracked
        read = sum(rows.memory for rows in problem.rows if isinstance(rows, StreamedRows))
        return read + len(problem.rows) * each

    def state_template(self) -> LearningState:
        """Return a state without initial weights."""
        return _initial_state(self.problem, randomise=False)

    def init(self) -> LearningState:
        """Return the state of every model before its first minibatch."""
        return _initial_state(self.problem)

    def step(self, state: LearningState) -> LearningState:
        """Run one minibatch of every unfinished model; `state` is updated in place.

        Raises Diverged if a parameter is not finite or beyond 1e3.
        """
        active = self._unfinished_models(state)
        if len(active) == 1:
            run_minibatch(self.problem, state, active[0], self.map, self.away)
        else:
            list(self.map(partial(run_minibatch, self.problem, state), active))
        state.step += 1
        return state

    def progress(self, state: LearningState) -> RunProgress:
        """Return the progress with the reconstruction error of the last complete epoch, the largest of all models."""
        given = self.problem
        ended = [min((state.step + given.earlier_run_minibatches(m)) // given.batches(m), len(state.trace)) for m in range(len(given.rows))]
        figure = f"error {max(state.trace[epochs - 1, m] for m, epochs in enumerate(ended)):.3g}" if all(ended) else ""
        if state.best is not None and state.best.epoch.all():
            figures = state.best.figures
            least = criterion_from_figures(figures).max(axis=0, where=known_criterion_mask(figures), initial=-np.inf).min()
            figure += f", valid {least:.4g}"
        return RunProgress(state.step, self.steps, figure + self._describe_tracked_likelihood(state))

    def _describe_tracked_likelihood(self, state: LearningState) -> str:
        """Describe the last tracked log-likelihoods, for the model whose training rows have the lowest."""
        known = [] if state.track is None else [part[np.isfinite(part[:, 0])] for part in state.track.figures.transpose(1, 0, 2)]
        if not known or not all(map(len, known)):
            return ""
        lowest = min((part[-1] for part in known), key=lambda figures: float(figures[2]))
        return f", tracked {lowest[2]:.4g}" + (f", validation {lowest[3]:.4g}" if np.isfinite(lowest[3]) else "")

    def result(self, state: LearningState) -> LearningState:
        """Return the last state, with the best models in place of the last if early stopping is on, or with the parameter means."""
        other = state.best if self.problem.settings.patience else state.mean
        if other is not None:
            state.W, state.b, state.c = other.W, other.b, other.c
        if state.best is not None:
            for m in np.flatnonzero(state.best.stopped):
                state.trace[state.best.stopped[m] :, m] = np.nan
                if state.track is not None:
                    state.track.figures[state.best.stopped[m] :, m] = np.nan
        return state


def _initial_state(problem: LearningProblem, randomise: bool = True) -> LearningState:
    """Return the initial state: W ~ N(0, 0.01²), smaller for units of many replicas, b at the data's base rates, c = 0.

    Persistent chains start at fair states.
    """
    settings = problem.settings
    M, D, K = len(problem.rows), problem.rows[0].shape[1], settings.hidden
    hidden = problem.hidden.layer()
    W = np.empty((M, D, K), dtype=np.float32)
    chain = np.empty((M, problem.chains * settings.temperatures if settings.has_persistent_chains else 0, K), dtype=np.float32)
    b, c = np.empty((M, D), dtype=np.float32), np.zeros((M, K), dtype=np.float32)
    scale = settings.initial_scale / math.sqrt(problem.visible.scale * problem.hidden.scale)
    for m in range(M if randomise else 0):
        first = generator(settings.seed, Stream.INITIAL, unit=problem.global_number(m))
        W[m] = exact_arithmetic.standard_normals(first, (D, K), np.float32) * np.float32(scale)
        b[m] = problem.base_rate_parameters(m)
        chain[m] = hidden.sample_unbiased_states(chain[m].shape, first)
        if problem.start is not None:
            W[m], b[m], c[m] = problem.start
        if problem.begun is not None:
            W[m], b[m], c[m] = problem.begun.W[m], problem.begun.b[m], problem.begun.c[m]
        constrain_weights_in_place(problem, m, W[m])
    fast_weights = {name: np.zeros_like(part) for name, part in zip(FAST, (W, b, c), strict=True)} if settings.algorithm == "fpcd" else {}
    means = settings.centering or settings.sparsity_target > 0 or settings.optimizer == "natural"
    squares = {name: np.zeros_like(part) for name, part in zip(SQUARES, (W, b, c), strict=True)} if settings.optimizer != "momentum" else {}
    R = settings.temperatures
    tempered = {"betas": np.tile(np.linspace(1.0, 0.0, R), (M, 1)), "rejected": np.full((M, R - 1), 0.5)} if R > 1 else {}
    state = LearningState(
        step=0,
        W=W,
        b=b,
        c=c,
        W_velocity=np.zeros_like(W),
        b_velocity=np.zeros_like(b),
        c_velocity=np.zeros((M, K), dtype=np.float32),
        trace=np.zeros((settings.epochs, M)),
        chain=chain if settings.has_persistent_chains else None,
        hidden_mean=np.tile(problem.hidden.mean(np.zeros(K)).astype(np.float32), (M, 1)) if means else None,
        energy=None if problem.scored is None else np.zeros((len(problem.scored), M)),
        best=_allocate_best_models(problem, W, b, c) if settings.epochs_per_evaluation else None,
        mean=ParameterMeans(np.zeros_like(W), np.zeros_like(b), np.zeros_like(c)) if settings.average else None,
        log_scale=np.zeros_like(b) if settings.learn_variances else None,
        track=_allocate_tracking_particles(W, b, c, settings.epochs) if settings.track_likelihood else None,
        lag=sparse_updates.allocate_lagged_weights(M, D, K) if problem.uses_sparse_updates else None,
        **fast_weights,
        **squares,
        **tempered,
    )
    if problem.begun is not None:
        state = _resume_state(problem.begun, state)
    if state.track is not None and randomise:
        _place_tracking_particles(problem, state, state.track)
    if state.lag is not None and randomise:
        for m in range(M):
            sparse_updates.apply_pending_updates(problem, state, m, state.lag)
    return state


def _allocate_tracking_particles(W: Array, b: Array, c: Array, epochs: int) -> TrackingParticles:
    """Allocate tracking particles, not yet placed."""
    (M, D), shape = b.shape, (len(b), POPULATIONS, likelihood_tracking.ROWS)
    figures = np.full((epochs, M, len(likelihood_tracking.FIGURES)), np.nan)
    return TrackingParticles(
        np.zeros((*shape, D), np.float32),
        np.zeros(shape),
        np.zeros(shape[:2]),
        np.zeros(M),
        W.copy(),
        b.copy(),
        c.copy(),
        figures,
    )


def _place_tracking_particles(problem: LearningProblem, state: LearningState, track: TrackingParticles) -> None:
    """Place the particles of every model at the start of learning: the saved ones, or ones carried there from independent columns."""
    kept = None if problem.begun is None else problem.begun.state
    for m in range(len(state.W)):
        if kept is not None and kept.track_values is not None and kept.track_log_weights is not None and kept.track_log_means is not None:
            track.values[m], track.log_weights[m] = kept.track_values[m], kept.track_log_weights[m]
            track.log_means[m] = kept.track_log_means[m]
            track.lost[m] = 0.0 if kept.track_lost is None else kept.track_lost[m]
        else:
            likelihood_tracking.place_particles(problem, m, track, likelihood_tracking.ParameterPoint(state.W[m], state.b[m], state.c[m]))
    if problem.begun is not None and problem.begun.tracked is not None:
        track.figures[: len(problem.begun.tracked)] = problem.begun.tracked


def _allocate_best_models(problem: LearningProblem, W: Array, b: Array, c: Array) -> BestModels:
    """Allocate the results of evaluations on validation rows."""
    count, looks = len(W), problem.settings.evaluation_count
    figures = np.full((looks, count, len(validation.FIGURES)), np.nan)
    best = BestModels(W.copy(), b.copy(), c.copy(), figures, np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64))
    if problem.settings.joint != "none":
        best.error = np.full((looks, count), np.nan)
    if problem.told is not None:
        best.densities = np.full((looks, count, len(problem.told)), np.nan, dtype=np.float32)
    return best


def _resume_state(initial_models: InitialModels, state: LearningState) -> LearningState:
    """Return the first state of a run that continues from another one's last."""
    if initial_models.trace is not None:
        state.trace[: len(initial_models.trace)] = initial_models.trace
    for name, part in {} if initial_models.state is None else vars(initial_models.state).items():
        own = getattr(state, name, None)
        if own is not None and part is not None and own.shape == part.shape:
            setattr(state, name, part.copy())
    return state
