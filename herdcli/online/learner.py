"""Learning from a stream of blocks: the steps of a state, and progressive validation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli import algorithm, fast
from herdcli.errors import Diverged
from herdcli.online import heldout_examples, running_centroids, tags
from herdcli.online.example_blocks import DENSE_ROWS, ExampleBlock, apply_scales, prepare_block, rescale_and_update_sizes, split_block
from herdcli.online.learner_state import BlockSource, HasClassNames, LabelledBatch, LearnerState
from herdcli.online.learners import forgetting
from herdcli.online.learners.full_covariance import learn_with_full_covariance, widen_covariances
from herdcli.online.learners.kernel_learner import GrowingMachine, learn_kernel
from herdcli.online.learners.reference_updates import settings_as_codes
from herdcli.online.learners.state_conversion import SMALLER, classifier_from_state, load_model_into_state
from herdcli.online.model import Classifier, KernelMachine, Settings
from herdcli.online.predictions import prediction_sets
from herdcli.online.text import compact_features
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

READ = 40  # bytes for each value of a block of rows: as read, with the bias, in doubles
KEPT = 2_000  # number of last progressive scores kept for calibration
SPARE = 1 << 18  # spare weights of a growing table, in addition to a quarter
STRAIN_ROWS = 100  # number of first examples whose C·v is checked


class EmptySource:
    """A source without examples."""

    steps = 0

    def block(self, step: int, expected_digest: bytes = b"") -> LabelledBatch | None:
        """Return None."""
        return None


@dataclass(frozen=True)
class OnlineLearner:
    """An online learner as an algorithm.

    columns  number of columns that a table begins with (1 + 2^bits when hashed).
    labels  encoder that knows the classes' names when the run has ended; None: they are named by their numbers.
    model   model whose learning is continued.
    coverage  the coverage of prediction sets, which examples get before they are learned; 0: no sets.
    scales  (D, 5) scales of features that are used from the first example on, if all rows are known; None: they change with the stream.
    rows    number of rows whose multipliers are kept (settings.dual).
    bits    features are hashed into 2^bits columns; the model has only those that occurred.
    spare   spare weights of a table that grows, in addition to a quarter; 0: none at all, for a few large blocks.
    centroids  whether a classifier is compared with the nearest centroid of earlier examples.
    """

    settings: Settings
    source: BlockSource
    classes: int
    columns: int = 1
    labels: HasClassNames | None = None
    model: Classifier | None = None
    coverage: float = 0.0
    scales: Array | None = None
    rows: int = 0
    bits: int = 0
    spare: int = SPARE
    centroids: bool = False
    state = LearnerState  # the type of its states

    @property
    def count(self) -> int:
        """The number of scores per example: 1 for two classes, else one per label."""
        return 1 if self.classes == 2 and self.settings.task != "multilabel" else self.classes

    @property
    def uses_best_rival(self) -> bool:
        """Whether the difference to the best other class is learned."""
        return self.count > 1 and self.settings.multiclass == "top-1" and self.settings.task != "multilabel"

    @property
    def features(self) -> int:
        """The number of features that a table begins with, without the bias."""
        return max(1, self.columns - 1)

    @property
    def full_covariance_size(self) -> int:
        """The number of weights of one full covariance; 0 if there is none."""
        full = self.settings.kernel == "none" and self.settings.covariance == "full"
        return self.features * (self.count if self.uses_best_rival else 1) if full else 0

    def init(self) -> LearnerState:
        """Return the state before the first example, or that of the model to continue."""
        count, settings = self.count, self.settings
        state = LearnerState(
            step=0,
            done=False,
            counts=np.zeros(self.classes, dtype=np.int64),
            running=np.zeros(2),
            tally=np.zeros(6),
            trace=np.zeros((3, 0)),
            score=np.zeros((0, count)),
            variance=np.zeros((0, count)),
            label=np.zeros(0, dtype=np.int64 if settings.task == "classification" else np.float64),
        )
        if settings.task == "multilabel":
            state.label = np.zeros((0, count), dtype=np.uint8)
            state.stack = np.zeros((count, 0, 2))
        elif settings.kernel != "none":
            state.machines = [KernelMachine(np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0))) for _ in range(count)]
        elif settings.covariance == "full":
            state.mean = np.zeros((count, 0))
            state.sigma = np.zeros((1 if self.uses_best_rival else count, 0, 0))
        elif settings.dual:
            state.weights, state.multipliers = np.zeros((0, count)), np.zeros((self.rows, count))
        else:
            state.table = np.zeros((0, 2, count))
        if settings.scaling != "none":
            state.sizes = np.zeros((0, 5 if settings.scaling == "standard" else 2)) if self.scales is None else self.scales
        if self.model is not None:
            load_model_into_state(state, self.model)
        if self.centroids and settings.task == "classification":
            state.centroids = running_centroids.begin_centroids(self.classes)
        if self.coverage:
            prediction_sets.begin_prediction_sets(state, self.coverage, self.model)
        if state.table is not None and self.model is None and self.columns > compact_features.LEAST:
            compact_features.begin_bias_table(state, self.columns)
        if settings.kernel == "none":
            _grow_features(state, self, self.columns if state.columns is None else 1)
        return state

    def next_batch(self, state: LearnerState) -> LabelledBatch | None:
        """Return the next batch of a state, None at the end.  Raises DataError if the input read before differs from what it learned."""
        return self.source.block(state.step, b"" if state.proof is None else state.proof.tobytes())

    def step(self, state: LearnerState) -> LearnerState:
        """Learn one block."""
        batch = self.next_batch(state)
        if batch is None:
            state.done = True
            return state
        if batch.held is not None and batch.number == 0:
            heldout_examples.begin_pass(state, self.settings.early_stop)
            if state.done:
                return state
        return _learn_batch(self, state, batch)

    def done(self, state: LearnerState) -> bool:
        """Return whether all blocks are learned or the stream has ended."""
        return state.done or (self.source.steps is not None and state.step >= self.source.steps)

    def memory(self) -> int:
        """Return the bytes of the initial weights and variances; for covariances, also of copies made for a result without bias."""
        if self.full_covariance_size:
            D = self.full_covariance_size + (self.count if self.uses_best_rival else 1)  # including the bias
            whole = 8 * D * D * (1 if self.uses_best_rival else self.count)
            return whole + whole // 8 + (0 if self.settings.bias else 2 * whole) + READ * DENSE_ROWS * self.features  # and masks
        return 16 * self.features * self.count + (8 * self.rows * self.count if self.settings.dual else 0)

    def progress(self, state: LearnerState) -> algorithm.RunProgress:
        """Return the number of steps and the progressive error."""
        seen, wrong = state.tally[:2].tolist()
        return algorithm.RunProgress(state.step, self.source.steps, f"error {wrong / seen:.4f}" if seen else "")

    def result(self, state: LearnerState) -> Classifier:
        """Return the artifact of a finished run.  Raises DataError if only one class was seen."""
        names = [str(k) for k in range(self.classes)] if self.labels is None else list(self.labels.names)
        return classifier_from_state(self.settings, self.columns, state, names, bits=self.bits)


def _grow_features(state: LearnerState, learner: OnlineLearner, width: int) -> None:
    """Enlarge the arrays for features up to `width`, with mean 0 and variance 1."""
    if state.sizes is not None and len(state.sizes) < width:
        room = max(width, min(2 * len(state.sizes), width + (1 << 20)))
        state.sizes = np.pad(state.sizes, ((0, room - len(state.sizes)), (0, 0)))
    if state.weights is not None and len(state.weights) < width:
        state.weights = np.pad(state.weights, ((0, width - len(state.weights)), (0, 0)))
    if state.stack is not None and state.stack.shape[1] < width:
        room = max(width, min(2 * state.stack.shape[1], width + (1 << 20)))
        state.stack = tags.grow_weights(state.stack, len(state.stack), room)
    if state.table is not None and len(state.table) < width:
        before = len(state.table)
        spare = min(before, max(before // 4, learner.spare // learner.count)) if learner.spare and before > 1 else 0
        state.table = _enlarge_table(state, width + spare)
        state.table[before:, 1] = 1.0
    if state.mean is not None and state.mean.shape[1] < width:
        assert state.sigma is not None
        old = state.mean.shape[1]
        groups = learner.count if learner.uses_best_rival else 1
        sigma = np.zeros((len(state.sigma), groups * width, groups * width))
        sigma[:, np.arange(groups * width), np.arange(groups * width)] = 1.0
        state.sigma = widen_covariances(state.sigma, learner.count, old, width) if old else sigma
        state.mean = np.pad(state.mean, ((0, 0), (0, width - old)))


def _enlarge_table(state: LearnerState, rows: int) -> Array:
    """Return the table with `rows` rows, new ones 0: enlarged in place if nothing else refers to it, else as a copy."""
    assert state.table is not None
    table, state.table = state.table, None
    shape = (rows, *table.shape[1:])
    try:
        table.resize(shape)
    except ValueError:
        wide = np.zeros(shape)
        wide[: len(table)] = table
        return wide
    return table


def _learn_batch(learner: OnlineLearner, state: LearnerState, batch: LabelledBatch) -> LearnerState:
    """Return the state after one more batch."""
    settings = learner.settings
    block = prepare_block(batch.block, normalize=settings.normalize, bias=settings.bias)
    if settings.task == "classification":
        np.add(state.counts, np.bincount(block.label, minlength=learner.classes), out=state.counts)
    if settings.label_noise:
        block = replace(block, label=add_label_noise(block.label, learner.classes, settings, batch.number))
    if state.columns is not None:
        block = compact_features.number_by_table_row(state, block)
    predicted = _baseline_predictions(state, batch, block.label)
    if state.sizes is not None:
        _grow_features(state, learner, block.width)
        block = rescale_and_update_sizes(block, state.sizes) if learner.scales is None else apply_scales(block, state.sizes)
    with np.errstate(all="ignore"):  # values that are no longer finite are reported once, below
        # Progressive validation: every example is scored before it is learned, so its error is one on new data.
        score, variance = learn_block(learner, state, block)
        found = progressive_errors_and_losses(settings.task, score, block.label)
    if not (np.isfinite(score).all() and np.isfinite(variance).all()):
        raise Diverged("the scores are no longer finite", hint=SMALLER)
    if state.running[0] == block.rows:
        rows = slice(0, STRAIN_ROWS)
        largest = settings.C or 0.25 * state.running[0] / max(state.running[1], 1e-300)
        # An example multiplies its own variance by 1/(1 + Cv)² (eq. 13): if Cv is large, the first example leaves almost nothing for the
        # others.
        state.tally[5] = float(variance[rows].max(initial=0.0)) * largest
    if batch.first_pass:
        _add_progressive_losses(state, *found)
        if state.coverage is not None:
            prediction_sets.add_prediction_sets(state, score, variance, block.label, numbers=settings.task == "regression")
    if batch.held is not None:
        heldout_examples.add_errors_and_losses(state, *(each[batch.held] for each in found))
    _keep_recent_scores(state, batch, score, variance, block.label)
    _keep_recent_predictions(state, batch, predicted)
    state.proof = np.frombuffer(batch.proof, dtype=np.uint8).copy() if batch.proof else None
    state.step += 1
    return state


def _baseline_predictions(state: LearnerState, batch: LabelledBatch, label: Array) -> Array | None:
    """Return the nearest centroid's predictions (n,) for a batch, before it is added to the sums; None without sums.

    label  (n,) the labels that are learned, which may have noise.
    """
    if state.centroids is None:
        return None
    block = replace(batch.block, label=label)
    if state.columns is not None:
        block = compact_features.number_by_table_row(state, block)
    last = KEPT if batch.first_pass or batch.held is None else block.rows
    predicted = running_centroids.predict_and_add_examples(state.centroids, block, last, learned=batch.first_pass)
    if predicted is None:
        state.centroids = None
    return predicted


def _keep_recent_predictions(state: LearnerState, batch: LabelledBatch, predicted: Array | None) -> None:
    """Keep the baseline's predictions of the examples whose scores are kept."""
    found = state.centroids
    if found is None or predicted is None:
        return
    if not batch.first_pass and batch.held is not None:
        predicted = predicted[batch.held]
        if batch.number == 0:
            found.predictions = found.predictions[:0]
    found.predictions = np.concatenate([found.predictions, predicted])[-KEPT:]


def _keep_recent_scores(state: LearnerState, batch: LabelledBatch, score: Array, variance: Array, label: Array) -> None:
    """Keep the last scores of examples that were evaluated before being learned, to calibrate the confidence.

    Later passes have learned all but the held-out examples: scores of the others would overstate the confidence.
    """
    if not batch.first_pass and batch.held is not None:
        if batch.number == 0:
            state.score, state.variance, state.label = state.score[:0], state.variance[:0], state.label[:0]
        score, variance, label = score[batch.held], variance[batch.held], label[batch.held]
    if state.stack is not None:
        count = len(state.stack)
        state.score, state.variance = tags.add_label_columns(state.score, count, tags.ABSENT), tags.add_label_columns(state.variance, count)
        state.label, label = tags.add_label_columns(state.label, count), tags.add_label_columns(label, count)
    state.score = np.concatenate([state.score, score])[-KEPT:]
    state.variance = np.concatenate([state.variance, variance])[-KEPT:]
    state.label = np.concatenate([state.label, label])[-KEPT:].astype(state.label.dtype)


def add_label_noise(label: Array, classes: int, settings: Settings, number: int) -> Array:
    """Return labels (n,), each replaced by another class with probability `label_noise`; the same in every pass."""
    random = generator(settings.seed, Stream.LABEL_NOISE, step=number)
    flipped = random.random(len(label)) < settings.label_noise
    shift = random.integers(1, classes, len(label))
    return np.where(flipped, (label + shift) % classes, label).astype(np.int32)


def learn_block(learner: OnlineLearner, state: LearnerState, block: ExampleBlock) -> tuple[Array, Array]:
    """Run the loops on one block and return scores and variances (n, C) before each example was learned.

    Evidence fades between parts of the block.
    """
    if not learner.settings.half_life:
        return _run_loops(learner, state, block)
    found, step = [], forgetting.fading_interval(learner.settings.half_life)
    for part in split_block(block, forgetting.fading_row_ends(block.weight, block.rows, int(state.running[0]), step)):
        begin = int(state.running[0])
        found.append(_run_loops(learner, state, part))
        if int(state.running[0]) // step > begin // step:
            forgetting.fade_evidence(state, step / learner.settings.half_life)
    score, variance = zip(*found, strict=True)
    return np.concatenate(score), np.concatenate(variance)


def _run_loops(learner: OnlineLearner, state: LearnerState, block: ExampleBlock) -> tuple[Array, Array]:
    rule, count = settings_as_codes(learner.settings), learner.count
    if state.stack is not None:
        _grow_features(state, learner, block.width)
        state.stack = tags.grow_weights(state.stack, block.label.shape[1], block.width)
        labelled = replace(block, label=tags.add_label_columns(block.label, len(state.stack)))
        score, variance, updates = tags.learn_block(state.stack, labelled, rule, state.running)
        state.tally[3] += updates
        return score, variance
    score, variance = np.zeros((block.rows, count)), np.zeros((block.rows, count))
    target = np.ascontiguousarray(block.label, dtype=np.float64) if learner.settings.task == "regression" else None
    label = block.label.astype(np.int32) if target is None else np.zeros(block.rows, dtype=np.int32)
    examples = (block.pointer, block.index, block.value, label, block.weight)
    if learner.settings.kernel != "none":
        width = max(block.width, *(machine.support.shape[1] for machine in state.machines))
        growing = [GrowingMachine(machine, width) for machine in state.machines]
        found = learn_kernel(
            growing, block.to_dense(width), block.label, block.weight, rule, learner.settings, state.running, score, variance
        )
        state.tally[3:5] += found
        state.machines = [machine.without_spare_capacity() for machine in growing]
        return score, variance
    _grow_features(state, learner, block.width)
    if target is not None and learner.settings.scaling == "standard" and not state.running[0] and len(target):
        _set_bias(state, float(target[0]))
    if state.weights is not None:
        assert state.multipliers is not None
        assert block.place is not None
        C, rivals, squares = learner.settings.C, learner.uses_best_rival, np.zeros(block.rows)
        places = np.ascontiguousarray(block.place, dtype=np.int64)
        state.tally[3] += fast.learn_dual(state.weights, *examples, places, C, rivals, state.multipliers, state.running, score, squares)
        variance[:] = squares[:, None]
    elif state.table is None:
        assert state.mean is not None
        assert state.sigma is not None
        dense = block.to_dense(state.mean.shape[1])
        state.tally[3] += learn_with_full_covariance(
            state.mean, state.sigma, dense, label, block.weight, rule, learner.uses_best_rival, state.running, score, variance, target
        )
    elif count == 1:
        state.tally[3] += fast.learn_binary(state.table, *examples, rule, state.running, score[:, 0], variance[:, 0], target)
        if target is None:
            score[:, 0] *= np.where(label > 0, 1.0, -1.0)  # from margins to scores
    else:
        state.tally[3] += fast.learn_multiclass(state.table, *examples, rule, learner.uses_best_rival, state.running, score, variance)
    return score, variance


def _set_bias(state: LearnerState, target: float) -> None:
    """Set the bias of a regression to the first target: it begins with variance 1, and targets may have any mean."""
    if state.table is not None:
        state.table[0, 0, 0] = target
    elif state.mean is not None:
        state.mean[0, 0] = target


def true_margins(score: Array, label: Array) -> Array:
    """Return the margin (n,) of the true class: y μ·x for two classes, else its score less the best other one."""
    if score.shape[1] == 1:
        return np.asarray(score[:, 0] * np.where(label > 0, 1.0, -1.0))
    rows = np.arange(len(label))
    own, others = score[rows, label], score.copy()
    others[rows, label] = -np.inf
    return np.asarray(own - others.max(axis=1))


def progressive_errors_and_losses(task: str, score: Array, label: Array) -> tuple[Array, Array]:
    """Return error and loss (n,) of each example from its scores.

    They are whether it is wrong and ½ max(0, 1 − m)²; for regression |y − m| and (y − m)².
    """
    if task == "multilabel":
        return tags.tag_errors_and_losses(score, tags.add_label_columns(label, score.shape[1]))
    if task == "regression":
        residual = label - score[:, 0]
        return np.abs(residual), residual**2
    margin = true_margins(score, label)
    return (~(margin > 0.0)).astype(float), 0.5 * np.maximum(0.0, 1.0 - margin) ** 2


def _add_progressive_losses(state: LearnerState, wrong: Array, loss: Array) -> None:
    """Add errors and losses of examples before they were learned, an unbiased estimate; record the trace at each power of two."""
    seen = int(state.tally[0])
    sums = np.cumsum(np.concatenate([[state.tally[2]], loss]))  # summed in sequence, for any block sizes
    mistakes = np.cumsum(np.concatenate([[state.tally[1]], wrong]))
    marks = [1 << k for k in range(seen.bit_length(), (seen + len(loss)).bit_length())]
    for mark in marks:
        point = [mark, mistakes[mark - seen] / mark, sums[mark - seen] / mark]
        state.trace = np.concatenate([state.trace, np.array(point)[:, None]], axis=1)
    state.tally[:3] = seen + len(loss), mistakes[-1], sums[-1]
