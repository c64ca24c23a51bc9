"""A perceptron fitted by minibatches: Adam, or stochastic gradient descent with momentum.

An update follows the mean gradient g of a batch, in which rows count by their weights relative to the mean weight of all rows:

    adam  m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²,  θ ← θ − ε (m / (1 − β₁^t)) / (√(v / (1 − β₂^t)) + 10⁻⁸)
    sgd   m ← μ m − ε g,          θ ← θ + m

The order of the rows of an epoch is a function of seed, start and epoch.  One processor computes a batch, so threads change nothing.
Source: Kingma & Ba (2015), alg. 1; Polyak (1964).
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from herdcli import rng
from herdcli.algorithm import RunProgress
from herdcli.numerics.block_statistics import Map
from herdcli.records import dataclass
from herdcli.regression.perceptron import backpropagation
from herdcli.regression.perceptron.early_stopping import BestParameters, PerceptronFit, look, waited
from herdcli.regression.perceptron.problem import PerceptronProblem, Validation
from herdcli.rng import Stream
from herdcli.schema import Array, array

FIRST_DECAY, SECOND_DECAY, SMALLEST = 0.9, 0.999, 1e-8  # β₁, β₂ and the term added to √v
ROWS_OF_A_STEP = 1 << 14


@dataclass(frozen=True)
class BatchSettings:
    """Settings of a fit by minibatches.  optimizer  adam or sgd.  dtype  of products: float64 or float32.  momentum  of sgd."""

    optimizer: str
    epochs: int
    batch_size: int
    learning_rate: float
    momentum: float
    patience: int
    seed: int
    dtype: str = "float64"


@dataclass
class BatchState:
    """The state of a fit: parameters θ (q,), the moments of their gradients, and the position in the epoch."""

    step: int
    theta: Array = array("q", "parameters", kind="f")
    first: Array = array("q", "m", kind="f")
    second: Array = array("v", "v of adam", kind="f")
    trace: Array = array("T", "penalised mean loss of each epoch while it went on", kind="f")
    best: BestParameters = field(kw_only=True)
    epoch: int = 0
    place: int = 0  # number of rows of this epoch already used
    updates: int = 0
    total: float = 0.0  # total loss of these rows
    mass: float = 0.0  # total weight of these rows


@dataclass(frozen=True)
class MinibatchDescent:
    """One start of a fit by minibatches.

    rows (n, D) of the settings' dtype, y (n,), offset (n,) and weight (n,) double; start (q,).
    """

    problem: PerceptronProblem
    rows: Array
    y: Array
    offset: Array
    weight: Array
    start: Array
    settings: BatchSettings
    validation: Validation
    restart: int
    map: Map = map
    state = BatchState

    def init(self) -> BatchState:
        """Return the state before the first batch."""
        kind = np.dtype(self.settings.dtype)
        theta = self.start.astype(kind)
        second = np.zeros_like(theta) if self.settings.optimizer == "adam" else np.zeros(0, dtype=kind)
        best = BestParameters(theta=self.start.copy(), losses=np.zeros(0))
        return BatchState(0, theta, np.zeros_like(theta), second, np.zeros(0), best=best)

    def step(self, state: BatchState) -> BatchState:
        """Process the next batches of an epoch; at its end evaluate the validation rows."""
        settings, n = self.settings, len(self.rows)
        order = rng.generator(settings.seed, Stream.SHUFFLE, unit=self.restart, step=state.epoch).permutation(n)
        end = min(state.place + max(ROWS_OF_A_STEP, settings.batch_size), n)
        scale = float(n / self.weight.sum())
        gradient = np.empty_like(state.theta)
        penalty = (self.problem.l2 * self.problem.penalised).astype(state.theta.dtype) if self.problem.l2 else None
        while state.place < end:
            chosen = order[state.place : state.place + settings.batch_size]
            self._batch_gradient(state, chosen, gradient, scale)
            if penalty is not None:
                gradient += penalty * state.theta
            state.updates += 1
            self._update(state, gradient)
            state.place += len(chosen)
        state.step += 1
        if state.place >= n:
            self._end_epoch(state)
        return state

    def _batch_gradient(self, state: BatchState, chosen: Array, gradient: Array, scale: float) -> None:
        """Compute the mean gradient of a batch, and add its loss to that of the epoch."""
        shape, family, weight = self.problem.architecture, self.problem.family, self.weight[chosen]
        layers = shape.layers(state.theta)
        passed = backpropagation.forward(layers, shape.function, self.rows[chosen])
        with np.errstate(over="ignore", invalid="ignore"):
            loss, slope, _ = family.terms(passed.eta.astype(np.float64) + self.offset[chosen, None], self.y[chosen])
        delta = (slope * (weight * (scale / len(chosen)))[:, None]).astype(state.theta.dtype)
        backpropagation.backward(layers, shape.function, passed, delta, shape.layers(gradient))
        state.total += float(weight @ loss)
        state.mass += float(weight.sum())

    def _update(self, state: BatchState, gradient: Array) -> None:
        """Update θ and its moments in place."""
        settings, kind = self.settings, state.theta.dtype.type
        if settings.optimizer == "sgd":
            state.first *= kind(settings.momentum)
            gradient *= kind(settings.learning_rate)
            state.first -= gradient
            state.theta += state.first
            return
        state.first *= kind(FIRST_DECAY)
        state.second *= kind(SECOND_DECAY)
        state.first += kind(1 - FIRST_DECAY) * gradient
        gradient *= gradient
        gradient *= kind(1 - SECOND_DECAY)
        state.second += gradient
        # ε m̂ / (√v̂ + 10⁻⁸), with the bias corrections of both moments moved into the rate and the added term.
        root = np.sqrt(1 - SECOND_DECAY**state.updates)
        rate = settings.learning_rate * root / (1 - FIRST_DECAY**state.updates)
        np.sqrt(state.second, out=gradient)
        gradient += kind(SMALLEST * root)
        np.divide(state.first, gradient, out=gradient)
        gradient *= kind(rate)
        state.theta -= gradient

    def _end_epoch(self, state: BatchState) -> None:
        theta = state.theta.astype(np.float64)
        mean = state.total / state.mass + self.problem.penalty(theta)
        state.trace = np.append(state.trace, mean)
        state.epoch, state.place, state.total, state.mass = state.epoch + 1, 0, 0.0, 0.0
        look(state.best, theta, self.validation.loss(self.problem, theta[None], self.map))

    def done(self, state: BatchState) -> bool:
        """Return whether all epochs are over, the loss is not finite, or early stopping applies."""
        broken = len(state.trace) > 0 and not np.isfinite(state.trace[-1])
        return state.epoch >= self.settings.epochs or broken or waited(state.best, self.settings.patience)

    def progress(self, state: BatchState) -> RunProgress:
        """Return progress in epochs, with the loss of the last one."""
        share = (state.epoch + state.place / len(self.rows)) / self.settings.epochs
        figure = f"loss {state.trace[-1]:.6g}" if len(state.trace) else ""
        return RunProgress(state.epoch, self.settings.epochs, figure, share)

    def result(self, state: BatchState) -> PerceptronFit:
        """Return the best parameters."""
        last = float(state.trace[-1]) if len(state.trace) else float("inf")
        loss = state.best.loss if self.validation.rows is not None else last
        ended = bool(np.isfinite(last)) and (waited(state.best, self.settings.patience) or self.settings.patience == 0)
        return PerceptronFit(state.best.theta, loss, state.trace, state.best.losses, ended, self.restart)


def batch_bytes(problem: PerceptronProblem, batch_size: int, dtype: str) -> int:
    """Return the bytes of the rows, of a batch's layers and of parameter vectors."""
    size, widths, rows = np.dtype(dtype).itemsize, sum(problem.architecture.widths), problem.rows.count
    return size * (rows * problem.features + 4 * min(batch_size, rows) * widths + 6 * problem.architecture.parameters)
