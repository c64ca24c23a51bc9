"""A perceptron fitted by minibatches: Adam, or stochastic gradient descent with momentum.

An update follows the mean gradient g of a batch, in which rows count by their weights relative to the mean weight of all rows:

    adam  m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²,  θ ← θ − ε (m / (1 − β₁^t)) / (√(v / (1 − β₂^t)) + 10⁻⁸)
    sgd   m ← μ m − ε g,          θ ← θ + m

The order of the rows of an epoch is a function of seed, start and epoch.  Large batches are divided into parts for several threads, and
the gradients of the parts are added in their order, so the number of threads changes nothing.
Sparse rows stay so: the scaling of the columns moves into the weights of the first layer.
Source: Kingma & Ba (2015), alg. 1; Polyak (1964).
"""

from __future__ import annotations

from dataclasses import field
from functools import partial

import numpy as np

from herdcli import fast, rng
from herdcli.algorithm import Map, RunProgress
from herdcli.records import dataclass
from herdcli.regression.perceptron import backpropagation
from herdcli.regression.perceptron.early_stopping import BestParameters, PerceptronFit, is_patience_exhausted, record_evaluation
from herdcli.regression.perceptron.problem import PerceptronProblem, ValidationRows
from herdcli.regression.perceptron.scaling import ScaledRows
from herdcli.rng import Stream
from herdcli.schema import Array, DType, Matrix, array, is_sparse

FIRST_DECAY, SECOND_DECAY, SMALLEST = 0.9, 0.999, 1e-8  # β₁, β₂ and the term added to √v
ROWS_OF_A_STEP = 1 << 14
SMALLEST_PART, MOST_PARTS = 100, 8  # rows of a part of a batch, and parts of a batch
WORK_OF_A_PART = 10**8  # rows × parameters of a part; threads gain nothing from smaller ones


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
class BatchBuffers:
    """What the batches of a step share: targets and offsets (n, 2), weights (n,), memory for rows and gradients, and the penalty.

    scale         one over the mean weight.
    mean, factor  (D,) scaling of dense columns in the type of `fast.scaled_rows`.
    gradients     one (q,) for each part of a batch.
    penalty       (q,) factors of the parameters in the gradient; None: no penalty.
    """

    targets: Array
    weight: Array
    scale: float
    mean: Array
    factor: Array
    rows: Array
    gradients: list[Array]
    penalty: Array | None


@dataclass(frozen=True)
class MinibatchDescent:
    """One start of a fit by minibatches.

    problem  the problem, whose rows give targets, offsets and weights.
    columns  (n, D) as of `batch_columns`: unscaled, dense or CSR.
    start    (q,).
    """

    problem: PerceptronProblem
    rows: ScaledRows
    columns: Matrix
    start: Array
    settings: BatchSettings
    validation: ValidationRows
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
        settings, n, work = self.settings, self.rows.count, self._batch_buffers(state)
        order = rng.generator(settings.seed, Stream.SHUFFLE, unit=self.restart, step=state.epoch).permutation(n)
        end = min(state.place + max(ROWS_OF_A_STEP, settings.batch_size), n)
        with np.errstate(over="ignore", invalid="ignore"):
            while state.place < end:
                chosen = order[state.place : state.place + settings.batch_size]
                self._add_batch_gradient(state, chosen, work)
                state.updates += 1
                self._update(state, work)
                state.place += len(chosen)
        state.step += 1
        if state.place >= n:
            self._end_epoch(state)
        return state

    def _batch_buffers(self, state: BatchState) -> BatchBuffers:
        """Return memory for one batch, and what all batches have in common."""
        rows, kind = self.rows, state.theta.dtype
        weight = np.ones(rows.count) if rows.rows.weight is None else rows.rows.weight
        batch = min(self.settings.batch_size, rows.count)
        parts = -(-batch // rows_per_part(batch, state.theta.size))
        # single precision resolves the difference of a byte from a mean
        scale = kind if self.columns.dtype == np.uint8 else np.dtype(np.float64)
        penalty = (self.problem.l2 * self.problem.penalty_mask).astype(kind) if self.problem.l2 else None
        return BatchBuffers(
            rows.targets,
            weight,
            float(rows.count / weight.sum()),
            rows.scaling.mean.astype(scale),
            rows.scaling.factor.astype(scale),
            np.empty((batch, 0 if is_sparse(self.columns) else self.columns.shape[1]), kind),
            [np.empty_like(state.theta) for _ in range(parts)],
            penalty,
        )

    def _add_batch_gradient(self, state: BatchState, row_indices: Array, work: BatchBuffers) -> None:
        """Compute the mean gradient of a batch with its penalty, and add its loss to that of the epoch."""
        size = rows_per_part(len(work.rows), state.theta.size)
        bounds = [(start, min(start + size, len(row_indices))) for start in range(0, len(row_indices), size)]
        tasks = [(row_indices, *bound, into) for bound, into in zip(bounds, work.gradients, strict=False)]
        run = partial(self._part_gradient, state, work)
        for loss, mass in self.map(run, tasks) if len(tasks) > 1 else map(run, tasks):
            state.total += loss
            state.mass += mass
        gradient = work.gradients[0]
        for other in work.gradients[1 : len(tasks)]:
            np.add(gradient, other, out=gradient)
        if work.penalty is not None:
            np.add(gradient, work.penalty * state.theta, out=gradient)

    def _part_gradient(self, state: BatchState, work: BatchBuffers, task: tuple[Array, int, int, Array]) -> tuple[float, float]:
        """Write the gradient of rows [start, stop) of a batch, divided by the rows of the batch; return their loss and weight."""
        batch, start, stop, gradient = task
        chosen, shape, scaling = batch[start:stop], self.problem.architecture, self.rows.scaling
        target, weight = work.targets[chosen], work.weight[chosen]
        layers, into, sparse = shape.layers(state.theta), shape.layers(gradient), is_sparse(self.columns)
        with np.errstate(over="ignore", invalid="ignore"):  # of a rate that is too large; the loss of the epoch is not finite then
            if sparse:
                layers[0], rows = scaling.fold_into_layer(layers[0]), self.columns[chosen]
            else:
                rows = work.rows[start:stop]
                fast.scaled_rows(self.columns, chosen, work.mean, work.factor, rows)
            passed = backpropagation.forward(layers, shape.activation_function, rows)
            loss, slope, _ = self.problem.family.loss_and_derivatives(passed.eta.astype(np.float64) + target[:, 1:], target[:, 0])
            delta = (slope * (weight * (work.scale / len(batch)))[:, None]).astype(state.theta.dtype)
            backpropagation.backward(layers, shape.activation_function, passed, delta, into)
            if sparse:
                scaling.unfold_gradient(into[0])
            return float(weight @ loss), float(weight.sum())

    def _update(self, state: BatchState, work: BatchBuffers) -> None:
        """Update θ and its moments in place."""
        settings = self.settings
        if settings.optimizer == "sgd":
            fast.momentum_update(state.theta, state.first, work.gradients[0], settings.learning_rate, settings.momentum)
            return
        # ε m̂ / (√v̂ + 10⁻⁸), with the bias corrections of both moments moved into the rate and the added term.
        root = float(np.sqrt(1 - SECOND_DECAY**state.updates))
        rate = settings.learning_rate * root / (1 - FIRST_DECAY**state.updates)
        decays = (FIRST_DECAY, SECOND_DECAY)
        fast.adam_update(state.theta, state.first, state.second, work.gradients[0], rate, *decays, SMALLEST * root)

    def _end_epoch(self, state: BatchState) -> None:
        theta = state.theta.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = state.total / state.mass + self.problem.penalty(theta)
        state.trace = np.append(state.trace, mean)
        state.epoch, state.place, state.total, state.mass = state.epoch + 1, 0, 0.0, 0.0
        record_evaluation(state.best, theta, self.validation.loss(self.problem, theta[None], self.map))

    def done(self, state: BatchState) -> bool:
        """Return whether all epochs are over, the loss is not finite, or early stopping applies."""
        broken = len(state.trace) > 0 and not np.isfinite(state.trace[-1])
        return state.epoch >= self.settings.epochs or broken or is_patience_exhausted(state.best, self.settings.patience)

    def progress(self, state: BatchState) -> RunProgress:
        """Return progress in epochs, with the loss of the last one."""
        share = (state.epoch + state.place / self.rows.count) / self.settings.epochs
        figure = f"loss {state.trace[-1]:.6g}" if len(state.trace) else ""
        return RunProgress(state.epoch, self.settings.epochs, figure, share)

    def result(self, state: BatchState) -> PerceptronFit:
        """Return the best parameters."""
        last = float(state.trace[-1]) if len(state.trace) else float("inf")
        loss = state.best.loss if self.validation.rows is not None else last
        ended = bool(np.isfinite(last)) and (is_patience_exhausted(state.best, self.settings.patience) or self.settings.patience == 0)
        return PerceptronFit(state.best.theta, loss, state.trace, state.best.losses, ended, self.restart)


def rows_per_part(batch_size: int, parameters: int) -> int:
    """Return the number of rows of a part of a batch; it depends on nothing else, so the number of threads changes no bit."""
    return max(SMALLEST_PART, WORK_OF_A_PART // parameters, -(-batch_size // MOST_PARTS))


def batch_columns(rows: ScaledRows, dtype: str) -> Matrix:
    """Return the columns of all rows (n, D) for minibatches, without a copy where that is possible.

    Dense rows are in a type that `fast.scaled_rows` reads, and each batch is scaled as it is read.  CSR rows are in `dtype`.
    """
    X = _bool_as_uint8(rows.rows.X)
    if is_sparse(X):
        return X.astype(dtype, copy=False)
    return np.ascontiguousarray(X, dtype=_batch_dtype(X.dtype))


def _bool_as_uint8(X: Matrix) -> Matrix:
    """Return dense rows of bool as uint8 in the same memory, others unchanged."""
    return X.view(np.uint8) if not is_sparse(X) and X.dtype == bool else X


def _batch_dtype(stored_dtype: DType) -> DType:
    """Return the type in which dense rows of another type are read: the smallest of uint8, float32 and float64 with the same values."""
    return next(kind for kind in map(np.dtype, (np.uint8, np.float32, np.float64)) if kind.itemsize == 8 or np.can_cast(stored_dtype, kind))


def batch_bytes(problem: PerceptronProblem, X: Matrix, batch_size: int, dtype: str) -> int:
    """Return the bytes of a copy of the rows X (n, D), if there is one, of a batch's layers and of parameter vectors."""
    size, widths = np.dtype(dtype).itemsize, sum(problem.architecture.widths)
    if is_sparse(X):
        copied = 0 if X.dtype == dtype else X.nnz * size
    else:
        X = _bool_as_uint8(X)
        read = _batch_dtype(X.dtype)
        copied = 0 if read == X.dtype and X.flags.c_contiguous else X.size * read.itemsize
    batch, parameters = min(batch_size, problem.rows.count), problem.architecture.parameters
    parts = -(-batch // rows_per_part(batch, parameters))
    return copied + size * (4 * batch * widths + (5 + parts) * parameters)
