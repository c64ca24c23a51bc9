"""The nearest centroid of a stream: sums of each class, and predictions of examples before they are added to the sums.

A stream is read once, so the baseline of its classifier is progressive as the classifier is: an example is predicted by the centroids of
earlier examples.  Columns are divided by their standard deviations over these examples.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from herdcli.numerics import class_baselines
from herdcli.numerics.class_baselines import UNKNOWN, ClassBaselines
from herdcli.numerics.freed_memory import release_freed_memory
from herdcli.online.example_blocks import ExampleBlock
from herdcli.records import dataclass
from herdcli.schema import Array

LARGE = 1 << 18  # with more sums than this, earlier copies are returned to the system
CHUNK = 1 << 13  # columns whose weights are computed at a time
GROWTH = 2  # centroids are computed anew after so many times the examples
COMPLETE = 10_000  # first examples that are all added to the sums
SHARE = 0.1  # share of later examples, those at the ends of blocks, that is added
MOST_SUMS = 1 << 18  # largest number of sums; features that appear later, which are rarer, are left out
MOST_KEPT = 1 << 17  # largest number of weights that are stored in the model


@dataclass
class RunningCentroids:
    """Sums over a stream's examples of C classes, and the scores of the centroids as of the last time they were computed."""

    sums: Array  # (C + 1, D) Σ w x of each class and Σ w x² of all; column 0: the weight of each class, and 0
    weights: Array  # (C, E) weights of the scores, E ≤ D; column 0: the constants
    counts: Array  # (2,) examples so far, and those when the weights were computed
    predictions: Array  # (n,) classes of the examples whose scores are kept

    free_axes: ClassVar[dict[str, tuple[int, ...]]] = {"sums": (1,), "weights": (1,), "predictions": (0,)}

    @property
    def classes(self) -> int:
        """The number C of classes."""
        return len(self.weights)


def begin_centroids(classes: int) -> RunningCentroids:
    """Return the sums before the first example."""
    return RunningCentroids(np.zeros((classes + 1, 1)), np.zeros((classes, 1)), np.zeros(2, dtype=np.int64), np.zeros(0, dtype=np.int64))


def predict_and_add_examples(
    centroids: RunningCentroids, block: ExampleBlock, rows_to_predict: int, *, learned: bool = True
) -> Array | None:
    """Predict examples of a block and add them to the sums; return classes (n,), −1 where not predicted, or None beyond MOST_SUMS.

    block  without a bias, with its labels.
    rows_to_predict   the number of last examples to predict, each by the centroids of examples before it.
    learned  whether examples are added to the sums; in later passes they were added before.
    """
    width = MOST_SUMS // (centroids.classes + 1)
    if width < 2:
        return None
    block = block.drop_features_beyond(width)
    start, predicted = max(0, block.rows - rows_to_predict), np.full(block.rows, UNKNOWN, dtype=np.int64)
    if learned:
        _add_examples(centroids, block.part(0, start))
    while start < block.rows:
        # Weights are computed anew when examples have doubled, so that their cost stays a small part of that of the stream.
        seen, computed = centroids.counts.tolist()
        if seen >= GROWTH * computed + 1 or (seen > computed and not learned):
            _compute_weights(centroids)
            computed = seen
        end = min(block.rows, start + max(1, int(GROWTH * computed) + 1 - seen)) if learned else block.rows
        part = block.part(start, end)
        predicted[start:end] = _predict_classes(centroids, part)
        if learned:
            _add_examples(centroids, part)
        start = end
    return predicted


def model_baselines(centroids: RunningCentroids, features: int, columns: Array | None = None) -> ClassBaselines | None:
    """Return the nearest-centroid classifier of all examples, for rows of `features` features; None if it is too large or not finite.

    columns  (K,) of hashed features: the column of each sum, 1 + the number of a feature; column 0 first.
    """
    if columns is not None:
        return _hashed_baselines(centroids, columns)
    if not centroids.sums[:, 0].any() or centroids.classes * (features + 1) > MOST_KEPT:
        return None
    _compute_weights(centroids)
    width = min(features, centroids.weights.shape[1] - 1)
    made = np.zeros((centroids.classes, features + 1))
    made[:, :width], made[:, -1] = centroids.weights[:, 1 : width + 1], centroids.weights[:, 0]
    return ClassBaselines(made) if np.isfinite(made).all() else None


def _hashed_baselines(centroids: RunningCentroids, columns: Array) -> ClassBaselines | None:
    """Return the nearest-centroid classifier of hashed features: weights of those that have sums, in the order of their numbers."""
    if not centroids.sums[:, 0].any():
        return None
    _compute_weights(centroids)
    width = min(len(columns), centroids.weights.shape[1])
    order = 1 + np.argsort(columns[1:width])
    made = np.column_stack([centroids.weights[:, order], centroids.weights[:, 0]])
    return ClassBaselines(made, columns=columns[order].astype(np.int64) - 1) if np.isfinite(made).all() else None


def _add_examples(centroids: RunningCentroids, part: ExampleBlock) -> None:
    """Add examples to the sums: all of the first COMPLETE, and of later ones a share with as much more weight."""
    if not part.rows:
        return
    seen, factor = int(centroids.counts[0]), 1.0
    centroids.counts[0] += part.rows
    if seen >= COMPLETE:
        chosen = max(1, round(SHARE * part.rows))
        part, factor = part.part(part.rows - chosen, part.rows), part.rows / chosen
    if part.width > centroids.sums.shape[1]:
        room = max(part.width, centroids.sums.shape[1] * 5 // 4)
        centroids.sums = np.pad(centroids.sums, ((0, 0), (0, room - centroids.sums.shape[1])))
        if centroids.sums.size > LARGE:
            release_freed_memory()
    mass = np.full(part.rows, factor) if part.weight is None else part.weight * factor
    label = part.label.astype(np.int64)
    row = np.repeat(np.arange(part.rows), np.diff(part.pointer))
    # Σ w x of the row's class and Σ w x² of all classes, at the row's non-zero entries.
    moment, width = part.value * mass[row], centroids.sums.shape[1]
    flat = centroids.sums.reshape(-1)
    np.add.at(flat, label[row] * width + part.index, moment)
    np.add.at(flat, centroids.classes * width + part.index.astype(np.int64), moment * part.value)
    centroids.sums[:-1, 0] += np.bincount(label, mass, centroids.classes)


def _compute_weights(centroids: RunningCentroids) -> None:
    """Compute the weights of the scores from the sums."""
    centroids.counts[1] = centroids.counts[0]
    count, total = centroids.sums[:-1, 0], float(centroids.sums[:-1, 0].sum())
    if not total > 0:
        return
    sums, square = centroids.sums[:-1, 1:], centroids.sums[-1, 1:]
    # Var x = E x² − (E x)², with a floor for the rounding of this difference.
    mean = sums.sum(axis=0) / total
    scale = class_baselines.standard_deviations(square / total - mean * mean, mean)
    with np.errstate(all="ignore"):  # values that are not finite end in no stored baseline
        centroids.weights = np.empty((centroids.classes, 0))  # its memory is free before the new ones are allocated
        if centroids.sums.size > LARGE:
            release_freed_memory()
        weights, constant = np.empty_like(centroids.sums[:-1]), np.zeros(centroids.classes)
        for start in range(0, len(mean), CHUNK):  # the constant is a sum over columns, as the scores are
            part = slice(start, start + CHUNK)
            made = class_baselines.centroid_weights(sums[:, part], count, mean[part], scale[part])
            weights[:, 1:][:, part] = made[:, :-1]
            constant += made[:, -1]
        weights[:, 0] = np.where(count > 0, constant, class_baselines.NEVER)
        centroids.weights = weights


def _predict_classes(centroids: RunningCentroids, part: ExampleBlock) -> Array:
    """Return the classes (r,) of examples with the largest score, the first of equals."""
    known = part.drop_features_beyond(centroids.weights.shape[1])
    scores = np.repeat(centroids.weights[:, :1], known.rows, axis=1)
    filled = np.flatnonzero(np.diff(known.pointer))
    if len(filled):  # `reduceat` has no empty sums
        for own, weights in zip(scores, centroids.weights, strict=True):
            own[filled] += np.add.reduceat(weights.take(known.index) * known.value, known.pointer[filled])
    return np.asarray(np.argmax(scores, axis=0))
