"""The `tagger` artifact: a Gaussian over linear classifiers, one per label, for examples with any number of labels.

Each label is learned against its absence, from an example's margin m = y μ·x with y = 1 if the example has the label, else −1.  An example
gets the labels whose scores are above their thresholds.  A label that occurs late in a stream begins with the block that contains it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli import fast
from herdcli.errors import DataError, Diverged
from herdcli.online import heldout_examples
from herdcli.online.example_blocks import ExampleBlock
from herdcli.online.model import (
    LINKS,
    Classifier,
    Progress,
    RunningTotals,
    Settings,
    require_features,
    require_finite_above,
    require_settings,
)
from herdcli.online.model import require_weights as require_weights_of
from herdcli.online.predictions.prediction import class_probabilities, fit_confidence_link
from herdcli.online.text.quadratic_features import require_valid_pairs
from herdcli.records import dataclass
from herdcli.schema import Array, array

if TYPE_CHECKING:
    from herdcli.fast.numpy_online import Rule
    from herdcli.online.learner_state import LearnerState

LEAST = 5  # least number of calibration examples with a label for fitting its threshold
ABSENT = -1.0  # score of a label that had not occurred


@dataclass(frozen=True)
class HeldoutTagScores:
    """Scores of examples before (or without) being learned."""

    score: Array = array("n C", "μ·x of each label", kind="f")
    variance: Array = array("n C", "x'Σx of each label", kind="f")
    y: Array = array("n C", "1 where the example has the label", kind="u")
    split: Array = array("n", "1 calibration, 2 test", kind="u")


@dataclass(frozen=True)
class Tagger(Classifier):
    """A linear classifier for each of C labels over d features (d + 1 with a bias, which is then column 0).

    It has the fields of a classifier, with labels in place of classes and a row of weights for each label.  The error of
    its progress is the share of labels that an example has and does not get, or the other way round.  Its loss is the mean over labels.
    """

    holdout: HeldoutTagScores | None = None  # type: ignore[assignment]
    threshold: Array | None = array("C", "score above which an example is given the label", kind="f", optional=True)
    missed: float = 0.0  # sum of the shares of wrong labels over the examples evaluated progressively

    @property
    def count(self) -> int:
        """The number of scores, one per label."""
        return len(self.classes)

    def validate(self) -> None:
        """Raise DataError unless the arrays fit the labels and each other, and all numbers are valid."""
        if not self.classes or len(set(self.classes)) < len(self.classes) or self.machines:
            raise DataError("has no labels, two labels with the same name, or support vectors")
        require_settings(self.settings, "multilabel")
        require_weights_of(self)
        require_features(self)
        require_valid_pairs(self.interactions, self.text == "vw", self.bits)
        if self.threshold is None or len(self.threshold) != self.count:
            raise DataError("needs 'threshold' with a number for each label")
        if np.isnan(self.threshold).any():
            raise DataError("dataset 'threshold' has values that are not numbers")
        if self.link not in LINKS[:2]:
            raise DataError(f"the link that turns scores into probabilities is '{self.link}', expected {', '.join(LINKS[:2])}")
        if not 0 < self.scale < np.inf or not 0 <= self.missed < np.inf:
            raise DataError(
                f"scale is {self.scale:g} and missed {self.missed:g}, but both must be finite, scale above 0, missed at least 0"
            )
        counts = [getattr(self.running, declared.name) for declared in fields(self.running)]
        if not all(0 <= number < np.inf for number in counts):
            raise DataError("the stored running error and loss must be finite and not negative")
        if self.holdout is not None:
            _require_heldout(self.holdout, self.count)


def _require_heldout(heldout: HeldoutTagScores, count: int) -> None:
    if heldout.score.shape[1] != count:
        raise DataError(f"holdout has {heldout.score.shape[1]} scores for each example, but there are {count} labels")
    require_finite_above(heldout.score, "holdout/score")
    require_finite_above(heldout.variance, "holdout/variance", 0.0)
    if heldout.y.size and heldout.y.max() > 1:
        raise DataError("dataset 'holdout/y' has values other than 0 and 1")
    if not np.isin(heldout.split, (1, 2)).all():
        raise DataError("dataset 'holdout/split' has parts other than 1 and 2")


def add_label_columns(values: Array, count: int, fill: float = 0.0) -> Array:
    """Return an array (n, C') with further columns for labels up to `count`, which had not occurred."""
    missing = count - values.shape[1]
    return np.pad(values, ((0, 0), (0, missing)), constant_values=fill) if missing > 0 else values


def grow_weights(stack: Array, count: int, width: int) -> Array:
    """Return weights (C', D', 2), means and variances, enlarged for more labels and features: mean 0 and variance 1."""
    labels, room = max(count, len(stack)), max(width, stack.shape[1])
    if (labels, room) == stack.shape[:2]:
        return stack
    wide = np.zeros((labels, room, 2))
    wide[:, :, 1] = 1.0
    wide[: len(stack), : stack.shape[1]] = stack
    return wide


def learn_block(stack: Array, block: ExampleBlock, rule: Rule, running: Array) -> tuple[Array, Array, int]:
    """Learn a block label by label; return scores and variances (n, C) before each example was learned, and the number of updates.

    stack (C, D, 2), changed.   block  its labels are (n, C), 1 or 0.   running [examples, Σ|x|²], updated once for all labels.
    """
    count, updates, after = len(stack), 0, running
    score, variance = np.zeros((block.rows, count)), np.zeros((block.rows, count))
    own, spread = np.zeros(block.rows), np.zeros(block.rows)
    for z in range(count):
        label, after = np.ascontiguousarray(block.label[:, z], dtype=np.int32), running.copy()
        examples = (block.pointer, block.index, block.value, label, block.weight)
        updates += fast.learn_binary(stack[z][:, :, None], *examples, rule, after, own, spread, None)
        score[:, z], variance[:, z] = own * np.where(label > 0, 1.0, -1.0), spread
    running[:] = after
    return score, variance, updates


def tag_errors_and_losses(score: Array, label: Array) -> tuple[Array, Array]:
    """Return the share of wrong labels (n,) of each example, and the mean over labels of ½ max(0, 1 − m)²."""
    if not score.shape[1]:
        return np.zeros(len(score)), np.zeros(len(score))
    margin = np.where(label > 0, score, -score)
    return np.mean((score > 0.0) != (label > 0), axis=1), np.mean(0.5 * np.maximum(0.0, 1.0 - margin) ** 2, axis=1)


def tagger_from_state(settings: Settings, columns: int, state: LearnerState, names: Sequence[str]) -> Tagger:
    """Return the artifact of a finished run, with its labels sorted.  Raises DataError if no example has any."""
    if not names:
        raise DataError("no example has a label", hint="a line is: 1,3,7 | feature feature:value …")
    heldout_examples.restore_best_weights(state)
    assert state.stack is not None
    seen, wrong, loss, updates, refused = state.tally[:5].tolist()
    first = 0 if settings.bias else 1
    touched = np.flatnonzero((state.stack != np.array([0.0, 1.0])).any(axis=(0, 2)))
    used = max(2, int(touched[-1]) + 1 if len(touched) else 2, min(columns, state.stack.shape[1]))
    weights = grow_weights(state.stack, len(names), 2)[:, first:used]
    if not np.isfinite(weights).all():
        raise Diverged("the weights or their variances are no longer finite", hint="use a smaller --C, or --normalize l2")
    made = Tagger(
        classes=list(names),
        settings=settings,
        running=RunningTotals(int(state.running[0]), float(state.running[1]), int(seen), 0, loss, int(updates), int(refused)),
        progress=Progress(state.trace[0].astype(np.int64), state.trace[1].copy(), state.trace[2].copy()),
        passes=heldout_examples.pass_records(state),
        mean=np.ascontiguousarray(weights[:, :, 0]),
        variance=np.ascontiguousarray(weights[:, :, 1]),
        threshold=np.zeros(len(names)),
        missed=wrong,
    )
    if state.sizes is not None:
        made = _add_scales(made, np.pad(state.sizes[:used], ((0, max(0, used - len(state.sizes))), (0, 0)))[first:])
    if len(state.label):
        score, variance = add_label_columns(state.score, len(names), ABSENT), add_label_columns(state.variance, len(names))
        y = add_label_columns(state.label, len(names)).astype(np.uint8)
        made = replace(made, holdout=HeldoutTagScores(score, variance, y, np.ones(len(y), dtype=np.uint8)))
    return reorder_labels(made, sorted(names, key=label_sort_key))


def _add_scales(tagger: Tagger, scales: Array) -> Tagger:
    found = tagger.with_scales(scales)
    assert isinstance(found, Tagger)
    return found


def label_sort_key(name: str) -> tuple[bool, float, str]:
    """Return the sort key of a label: numbers by their size, then texts."""
    try:
        return (False, float(name), name)
    except ValueError:
        return (True, 0.0, name)


def reorder_labels(model: Tagger, names: Sequence[str]) -> Tagger:
    """Return the model with these labels, in this order; an unknown one has mean 0, variance 1 and is never assigned."""
    known = {name: place for place, name in enumerate(model.classes)}
    place = np.array([known.get(name, -1) for name in names], dtype=np.int64)
    there = place >= 0

    def rows(values: Array, fill: float) -> Array:
        return np.where(there.reshape(-1, *([1] * (values.ndim - 1))), values[np.maximum(place, 0)], fill).astype(values.dtype)

    assert model.mean is not None
    assert model.variance is not None
    assert model.threshold is not None
    held = model.holdout
    if held is not None:
        score, variance, y = rows(held.score.T, ABSENT).T, rows(held.variance.T, 0.0).T, rows(held.y.T, 0.0).T
        held = replace(held, score=np.ascontiguousarray(score), variance=np.ascontiguousarray(variance), y=np.ascontiguousarray(y))
    mean, variances, threshold = rows(model.mean, 0.0), rows(model.variance, 1.0), rows(model.threshold, np.inf)
    return replace(model, classes=list(names), mean=mean, variance=variances, threshold=threshold, holdout=held)


def assign_labels(model: Tagger, score: Array) -> Array:
    """Return a mask (n, C) of the labels that examples with these scores get."""
    assert model.threshold is not None
    return np.asarray(score > model.threshold)


def label_confidences(model: Tagger, score: Array, variance: Array) -> Array:
    """Return P(label) (n, C) of each label by itself: F(g m/√(1 + v))."""
    flat = class_probabilities(score.reshape(-1, 1), variance.reshape(-1, 1), model.scale, model.link)[:, 1]
    return np.asarray(flat.reshape(score.shape))


def calibrate_tagger(model: Tagger) -> Tagger:
    """Return the model with thresholds and confidence scale from the calibration part of its held-out scores, if it has any."""
    held = model.holdout
    if held is None or not (chosen := held.split == 1).any():
        return model
    score, y = held.score[chosen], held.y[chosen]
    threshold = np.array([best_f1_threshold(score[:, z], y[:, z]) for z in range(model.count)])
    flat = (score.reshape(-1, 1), held.variance[chosen].reshape(-1, 1), y.reshape(-1).astype(np.int64))
    scale, link = fit_confidence_link(*flat)
    return replace(model, threshold=threshold, scale=scale, link=link)


def best_f1_threshold(score: Array, y: Array) -> float:
    """Return the threshold with the highest F₁ on held-out examples (n,), halfway between two scores; 0 if too few have the label.

    Source: Yang, "A study of thresholding strategies for text categorization", SIGIR 2001 (SCut).
    """
    if y.sum() < LEAST:
        return 0.0
    order = np.argsort(-score, kind="stable")
    ranked, hits = score[order], np.cumsum(y[order], dtype=np.int64)
    # If the k highest get the label, F₁ = 2 TP/(2 TP + FP + FN) = 2 hits_k/(k + positives).
    found = 2.0 * hits / (np.arange(1, len(y) + 1) + hits[-1])
    last = np.append(np.diff(ranked) != 0, True)  # equal scores are on one side
    k = int(np.argmax(np.where(last, found, -1.0)))
    return float(ranked[k] - 1.0) if k + 1 == len(y) else float(0.5 * (ranked[k] + ranked[k + 1]))
