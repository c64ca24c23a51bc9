"""Learning of a recurrent temporal RBM: minibatches of pieces of sequences, momentum, decay; the gradient is in `gradients`.

A step of the algorithm is one minibatch.  With the mean gradient G over its rows, Δ ← μ Δ + ε_t (G − λ θ), θ ← θ + Δ, where λ applies to
the weights W, U and V alone, and ε_t falls linearly to 0.  A sequence longer than the window is learned in pieces.  Each piece starts in
the last state of the piece before it, from the last update with that piece, so that states have a longer memory than the gradient.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from herdcli import fast
from herdcli.algorithm import FixedLengthAlgorithm, HasStateShapes, Map, RunProgress
from herdcli.errors import DataError, Diverged
from herdcli.rbm.recurrent.exact_sums import require_few_states
from herdcli.rbm.recurrent.gradients import backpropagate_through_time, contrastive_phase_differences, exact_phase_differences
from herdcli.rbm.recurrent.likelihood import EvaluationSequences, validation_criterion
from herdcli.rbm.recurrent.model import (
    NAMES,
    Parameters,
    RecurrentModel,
    SequenceHistory,
    StepHarmoniums,
    TimeOrder,
    compute_step_harmoniums,
)
from herdcli.rbm.recurrent.settings import RecurrentSettings
from herdcli.rbm.units import unit_family
from herdcli.rbm.units.base import Layer, UnitFamily
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array

LARGEST = 1e3  # larger parameters have diverged
WEIGHTS = ("W", "U", "V")


@dataclass(frozen=True)
class SequencePieces:
    """Pieces of sequences, each at most a window long.

    Piece p has the rows begin[p] … end[p] − 1; first, whether its sequence starts with it.
    """

    begin: Array
    end: Array
    first: Array

    @classmethod
    def from_offsets(cls, offsets: Array, window: int) -> SequencePieces:
        """Split sequences that start at offsets (S + 1,) into pieces of lengths as even as possible."""
        begin, end, first = [], [], []
        for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            count = -(-(stop - start) // window)
            edges = [start + (stop - start) * k // count for k in range(count + 1)]
            begin += edges[:-1]
            end += edges[1:]
            first += [True] + [False] * (count - 1)
        return cls(np.array(begin), np.array(end), np.array(first))

    def __len__(self) -> int:
        return len(self.begin)

    def rows(self, piece_indices: Array) -> tuple[Array, Array]:
        """Return the row indices (n,) of some of the pieces (k,), concatenated, and the start of each piece among them (k + 1,)."""
        lengths = self.end[piece_indices] - self.begin[piece_indices]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return np.repeat(self.begin[piece_indices] - offsets[:-1], lengths) + np.arange(offsets[-1]), offsets


@dataclass(frozen=True)
class RecurrentProblem:
    """Rows (n, D) of training sequences in unit values, the start of each sequence (S + 1,), held-out sequences, and the settings.

    Raises DataError unless rows have values of the visible units, BadUsage if their exact gradient has too many states.
    """

    rows: Array
    offsets: Array
    settings: RecurrentSettings
    held: EvaluationSequences | None = None

    def __post_init__(self) -> None:
        if not len(self.rows):
            raise DataError("there are no training rows")
        self.visible.require_rows(self.rows)
        if self.settings.algorithm == "exact":
            require_few_states(RecurrentModel(self.zero_parameters.float64(), self.visible, self.hidden))

    @property
    def visible(self) -> UnitFamily:
        """The family of the visible units."""
        return unit_family(self.settings.visible_units)

    @property
    def hidden(self) -> UnitFamily:
        """The family of the hidden units."""
        return unit_family(self.settings.hidden_units)

    @cached_property
    def layers(self) -> tuple[Layer, Layer]:
        """The layers that sample visible and hidden units."""
        return self.visible.layer(), self.hidden.layer()

    @cached_property
    def pieces(self) -> SequencePieces:
        """The pieces that are learned from."""
        return SequencePieces.from_offsets(self.offsets, self.settings.window)

    @cached_property
    def constant_columns(self) -> Array:
        """The constant columns (D,), whose weights stay 0."""
        return np.asarray((self.rows == self.rows[:1]).all(axis=0))

    @property
    def batches(self) -> int:
        """The number of minibatches in an epoch."""
        return -(-len(self.pieces) // (self.settings.batch_size or len(self.pieces)))

    @property
    def zero_parameters(self) -> Parameters:
        """Zero parameters, float32."""
        D, K = self.rows.shape[1], self.settings.hidden
        shapes = {"W": (D, K), "U": (K, K), "V": (K, D), "b": (D,), "c": (K,), "b_first": (D,), "c_first": (K,)}
        return Parameters(**{name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()})

    def batch(self, step: int) -> Array:
        """Return the pieces of a minibatch."""
        epoch, number = divmod(step, self.batches)
        order = generator(self.settings.seed, Stream.SHUFFLE, step=epoch).permutation(len(self.pieces))
        n = len(order)
        return np.asarray(order[number * n // self.batches : (number + 1) * n // self.batches])


@dataclass
class RecurrentState:
    """The learning state; float32 except for the figures."""

    step: int
    now: Parameters
    velocity: Parameters
    best: Parameters
    carried: Array = array("P K", "the state that each piece of a sequence begins in, 0 where the sequence begins", kind="f", finite=True)
    trace: Array = array("E", "mean squared error of one-sweep reconstruction means, per visible unit", kind="f")
    figures: Array = array("V", "measures on held-out sequences; NaN where none were evaluated", kind="f")
    best_epoch: int = 0  # epochs behind the best; 0: none was evaluated
    stopped: int = 0  # epochs after which the run stopped; 0: it has not


@dataclass(frozen=True)
class RecurrentLearning(FixedLengthAlgorithm[RecurrentState], HasStateShapes[RecurrentState]):
    """The learning algorithm; its result is the last state, with the best parameters in place of the last if sequences were held out."""

    problem: RecurrentProblem
    map: Map = map
    state = RecurrentState  # the type of its states

    @property
    def steps(self) -> int:
        """The total number of minibatches."""
        return self.problem.settings.epochs * self.problem.batches

    def done(self, state: RecurrentState) -> bool:
        """Whether no minibatch is left."""
        return state.stopped > 0 or state.step >= self.steps

    def memory(self) -> int:
        """The size of a state, and of a minibatch's statistics, in bytes."""
        given, settings = self.problem, self.problem.settings
        D, K = given.rows.shape[1], settings.hidden
        rows = min(len(given.rows), (settings.batch_size or len(given.pieces)) * settings.window)
        return int(16 * (2 * D * K + K * K + 2 * D + 2 * K) + 4 * K * len(given.pieces) + 4 * rows * (6 * D + 8 * K))

    def state_template(self) -> RecurrentState:
        """Return a state with empty arrays."""
        given, nothing = self.problem, self.problem.zero_parameters
        settings = given.settings
        looks = -(-settings.epochs // settings.validate_every) if given.held is not None and settings.validate_every else 0
        carried = np.zeros((len(given.pieces), settings.hidden), dtype=np.float32)
        return RecurrentState(
            0, nothing, nothing.map_arrays(np.copy), nothing.map_arrays(np.copy), carried, np.zeros(settings.epochs), np.full(looks, np.nan)
        )

    def init(self) -> RecurrentState:
        """Initialise W, U, V ~ N(0, 0.1²), b at the rows' base rates, and all else to 0; pieces start in the states of these parameters."""
        given, state = self.problem, self.state_template()
        settings, p = given.settings, state.now
        first = generator(settings.seed, Stream.INITIAL)
        scale = settings.initial_scale / math.sqrt(given.visible.scale * given.hidden.scale)
        for name in WEIGHTS:
            getattr(p, name)[...] = first.standard_normal(getattr(p, name).shape, dtype=np.float32) * np.float32(scale)
        p.b[...] = given.visible.base_rate_parameters(given.rows)
        _constrain_parameters(given, p)
        steps = TimeOrder.from_offsets(given.offsets)
        found = self._step_harmoniums(
            p, steps, given.rows[steps.chosen].astype(np.float32), SequenceHistory.empty(steps.count, settings.hidden)
        )
        later = ~given.pieces.first
        state.carried[later] = steps.to_sequence_order(found.r)[given.pieces.begin[later] - 1]
        state.best = p.map_arrays(np.copy)
        return state

    def step(self, state: RecurrentState) -> RecurrentState:
        """Run one minibatch; `state` is updated in place.  Raises Diverged if a parameter is not finite or beyond 1e3."""
        given, settings = self.problem, self.problem.settings
        which, p = given.batch(state.step), state.now
        rows, offsets = given.pieces.rows(which)
        steps = TimeOrder.from_offsets(offsets)
        v = np.ascontiguousarray(given.rows[rows[steps.chosen]], dtype=np.float32)
        # Forward: states r_t of all pieces in parallel, and the biases b_t, c_t of each step's RBM that they determine.
        before = SequenceHistory(state.carried[which], given.pieces.first[which]).select(steps.ranks)
        driven = self._step_harmoniums(p, steps, v, before)
        # Backward: statistics of each step's RBM (CD, or exact), sent through r_t by back-propagation in time.
        gradient, error = self._compute_gradient(p, steps, v, before, driven, state.step)
        epoch = state.step // given.batches
        state.trace[epoch] += error / (given.rows.size * given.visible.scale**2)
        self._pass_final_states(state, which, steps, driven)
        self._apply_gradient_step(state, gradient)
        state.step += 1
        if state.step % given.batches == 0 and given.held is not None and settings.validate_every:
            self._evaluate_if_due(state, given.held, state.step // given.batches)
        return state

    def _step_harmoniums(self, p: Parameters, steps: TimeOrder, v: Array, history: SequenceHistory) -> StepHarmoniums:
        hidden, still = self.problem.layers[1], np.zeros_like(p.c)

        def mean(natural: Array) -> Array:
            hidden.means(natural, still)
            return natural

        return compute_step_harmoniums(p, steps, v, history, mean)

    def _compute_gradient(
        self, p: Parameters, steps: TimeOrder, v: Array, history: SequenceHistory, harmoniums: StepHarmoniums, step: int
    ) -> tuple[Parameters, float]:
        given, settings = self.problem, self.problem.settings
        if settings.algorithm == "exact":
            model = RecurrentModel(p.float64(), given.visible, given.hidden)
            v, harmoniums = (
                v.astype(np.float64),
                StepHarmoniums(*(part.astype(np.float64) for part in (harmoniums.r, harmoniums.b, harmoniums.c))),
            )
            p, phases = model.p, exact_phase_differences(model, harmoniums, v)
        else:
            phases = contrastive_phase_differences(
                p, harmoniums, v, given.layers, settings.steps, generator(settings.seed, Stream.GIBBS, step=step)
            )
        return backpropagate_through_time(p, steps, v, history, harmoniums, phases, given.hidden), phases.error

    def _pass_final_states(self, state: RecurrentState, piece_indices: Array, steps: TimeOrder, harmoniums: StepHarmoniums) -> None:
        """Pass the last states of these pieces (k,) to the pieces that follow them."""
        first = self.problem.pieces.first
        after = piece_indices[steps.ranks] + 1
        on = after < len(first)
        on[on] = ~first[after[on]]
        state.carried[after[on]] = harmoniums.r[steps.last_rows[on]]

    def _apply_gradient_step(self, state: RecurrentState, gradient: Parameters) -> None:
        """Apply the step along the gradient."""
        given, settings = self.problem, self.problem.settings
        rate = settings.learning_rate * (1.0 - state.step / self.steps if settings.rate_decay == "linear" else 1.0)
        # Statistics enter as proportions if a unit counts n replicas, as for an RBM (`rbm.learning.gradient_step`).
        above, below = given.visible.scale, given.hidden.scale
        scales = {"W": above * below, "U": below * below, "V": above * below, "b": above, "b_first": above, "c": below, "c_first": below}
        largest = []
        for name in NAMES:
            own, moved, slope = (getattr(part, name) for part in (state.now, state.velocity, gradient))
            decay = settings.weight_decay * scales[name] if name in WEIGHTS else 0.0
            slope = np.ascontiguousarray(slope, dtype=np.float32)
            # Δ ← μ Δ + ε (G − λ θ), θ ← θ + Δ, the rate divided by the replicas of the units so that it is one of proportions.
            top = fast.momentum_step(own, moved, slope, rate / scales[name], settings.momentum, decay)
            largest.append(0.0 if name in ("b", "b_first") and given.visible.standard_normal and np.isfinite(top) else top)
        _constrain_parameters(given, state.now)
        if not np.max(largest) <= LARGEST:
            raise Diverged(
                f"the model diverged in epoch {state.step // given.batches + 1}: parameters are above {LARGEST:g} or not finite",
                hint=f"lower --learning-rate (it is {settings.learning_rate:g})",
            )

    def _evaluate_if_due(self, state: RecurrentState, heldout: EvaluationSequences, epoch: int) -> None:
        """Evaluate the model on held-out sequences if an evaluation is due.

        The model is kept if it is the best; learning stops if none has been better for long.
        """
        settings = self.problem.settings
        if epoch % settings.validate_every and epoch < settings.epochs:
            return
        number = -(-epoch // settings.validate_every) - 1
        model = RecurrentModel(state.now.float64(), self.problem.visible, self.problem.hidden)
        state.figures[number] = validation_criterion(model, heldout, settings.seed, map=self.map)
        if not state.best_epoch or state.figures[number] > np.nanmax(state.figures[:number], initial=-np.inf):
            state.best, state.best_epoch = state.now.map_arrays(np.copy), epoch
        if settings.patience and epoch - state.best_epoch >= settings.patience * settings.validate_every:
            state.stopped = epoch

    def progress(self, state: RecurrentState) -> RunProgress:
        """Return the progress with the reconstruction error of the last complete epoch, and the best figure on held-out sequences."""
        ended = min(state.step // self.problem.batches, len(state.trace))
        figure = f"error {state.trace[ended - 1]:.3g}" if ended else ""
        if state.best_epoch:
            figure += f", valid {np.nanmax(state.figures):.4g}"
        return RunProgress(state.step, self.steps, figure)

    def result(self, state: RecurrentState) -> RecurrentState:
        """Return the last state, with the best parameters in place of the last."""
        if state.best_epoch:
            state.now = state.best
        if state.stopped:
            state.trace[state.stopped :] = np.nan
        return state


def _constrain_parameters(problem: RecurrentProblem, p: Parameters) -> None:
    """Set links that are not requested, and weights of constant columns, to 0."""
    if problem.settings.links == "none":
        p.U[...] = 0.0
        p.b_first[...] = 0.0
        p.c_first[...] = 0.0
    if problem.settings.links != "both":
        p.V[...] = 0.0
    p.W[problem.constant_columns] = 0.0
    p.V[:, problem.constant_columns] = 0.0
