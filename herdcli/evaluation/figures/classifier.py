"""The metrics of `herd eval` for a `classifier`: errors, and the quality of its confidences on held-out examples.

They are computed on the test rows in the artifact or, without any, on the rows that calibrated it: validation rows, or
for text the last examples predicted before they were learned (the column `judged_on` names them).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from herdcli.algorithm import Map, ProgressCallback
from herdcli.errors import BadUsage, DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.metrics import heldout_examples
from herdcli.evaluation.metrics.score_collection import CollectedColumns, pack_scores_and_labels, roc_auc
from herdcli.evaluation.table import Row
from herdcli.numerics import class_baselines
from herdcli.online.model import Classifier
from herdcli.online.predictions.prediction import class_probabilities, predict_classes
from herdcli.online.predictions.prediction_sets import prediction_set_mask
from herdcli.schema import Array

BINS = 15
COLUMNS = (
    "rows",
    "judged_on",
    "error",
    "error_majority",
    "error_centroid",
    "error_linear",
    "auc",
    "log_loss",
    "brier",
    "calibration_error",
    "coverage",
    "set_size",
    "progressive_error",
    "progressive_loss",
    "progressive_coverage",
    "progressive_set_size",
)


class EvaluatedExamples:
    """Statistics of examples that a classifier has predicted, block by block: counts, and in `kept` the numbers that are needed for all.

    confusion (classes, classes)  examples by true and predicted class.      on  test or calibration.
    discordant (2, 3)  for the nearest centroid and the ridge classifier: the numbers of their errors, of examples that only they
    predict correctly, and of those that only the model predicts correctly.
    """

    def __init__(self, model: Classifier, collected: CollectedColumns | None = None, *, on: str = "test") -> None:
        self.model, self.kept, self.on = model, CollectedColumns() if collected is None else collected, on
        size = len(model.classes)
        self.confusion = np.zeros((size, size), dtype=np.int64)
        self.discordant = np.zeros((2, 3))
        self.gaps, self.held, self.sizes, self.finite = np.zeros(BINS), 0, 0, True

    @property
    def rows(self) -> int:
        """The number of examples."""
        return self.kept.count

    def add(self, score: Array, variance: Array, y: Array, baselines: Array | None = None) -> None:
        """Add examples: scores and variances (n, C), true classes (n,), and the predictions of baselines (n, 2)."""
        p, predicted = class_probabilities(score, variance, self.model.scale, self.model.link), predict_classes(score)
        size, rows = p.shape[1], np.arange(len(y))
        self.finite = self.finite and bool(np.isfinite(p).all())
        self.discordant += np.nan if baselines is None else class_baselines.count_discordant_rows(y, predicted, baselines)
        self.confusion += np.bincount(y * size + predicted, minlength=size * size).reshape(size, size)
        self.gaps = calibration_gaps(p.max(axis=1), predicted == y, self.gaps)
        # With two classes both columns have the same square, so only one is counted.
        square = ((p - np.eye(size)[y]) ** 2).sum(axis=1)
        areas = [pack_scores_and_labels(p[:, z], y == z) for z in ([1] if size == 2 else range(size))]
        self.kept.append([np.log(np.maximum(p[rows, y], 1e-15)), square, *areas])
        if self.model.coverage is not None and self.on == "test":
            among = prediction_set_mask(score, variance, self.model.coverage.threshold)
            self.held, self.sizes = self.held + int(among[rows, y].sum()), self.sizes + int(among.sum())

    def metric_columns(self) -> Row:
        """Return the columns of `metrics` for these examples."""
        found: Row = {"rows": self.rows, "judged_on": self.on}
        found["error"] = (self.rows - int(np.trace(self.confusion))) / self.rows
        found["error_majority"] = 1.0 - float(self.confusion.sum(axis=1).max()) / self.rows
        for name, (wrong, _, _) in zip(class_baselines.NAMES, self.discordant.tolist(), strict=True):
            found[f"error_{name}"] = None if np.isnan(wrong) else wrong / self.rows
        found["auc"] = self._auc()
        found["log_loss"] = float(-np.mean(self.kept.column(0)))
        found["brier"] = float(np.mean(self.kept.column(1)) / (2 if len(self.confusion) == 2 else 1))
        found["calibration_error"] = float(np.abs(self.gaps).sum() / self.rows)
        if self.model.coverage is not None and self.on == "test":
            found |= {"coverage": self.held / self.rows, "set_size": self.sizes / self.rows}
        return found

    def _auc(self) -> float | None:
        """Return the area under the ROC curve from ranks, ties counted half; None if a class does not occur."""
        count = 1 if len(self.confusion) == 2 else len(self.confusion)
        found = [roc_auc(self.kept.column(2 + z, np.uint64)) for z in range(count)]
        known = [each for each in found if each is not None]
        return float(np.mean(known)) if known else None


def metrics(
    value: Classifier | EvaluatedExamples, settings: EvaluationSettings | None, *, map: Map = map, progress: ProgressCallback | None = None
) -> Row:
    """Return every column of `COLUMNS`; None if the artifact has no held-out rows.

    error_majority     the error of predicting the most frequent class of these rows.
    error_centroid, error_linear  those of the nearest centroid and a ridge classifier of at most 10,000 training rows; for text that of
                       the nearest centroid alone, which predicts each example from earlier ones.
    auc                area under the ROC curve; for more than two classes, the mean of each class against the rest.
    coverage, set_size  those of the sets of `herd apply --want sets`, on test rows only, because calibration rows determine the sizes.
    calibration_error  expected calibration error of the most probable class, 15 bins of equal width.
    """
    model, found = value.model if isinstance(value, EvaluatedExamples) else value, evaluate_heldout_examples(value)
    result: Row = dict.fromkeys(COLUMNS)
    if model.running.seen:
        result["progressive_error"] = model.running.wrong / model.running.seen
        result["progressive_loss"] = model.running.loss / model.running.seen
    if model.coverage is not None and model.coverage.examples:
        result["progressive_coverage"] = model.coverage.share_covered
        result["progressive_set_size"] = model.coverage.mean_size(numbers=False)
    return result if found is None else result | found.metric_columns()


def evaluate_heldout_examples(value: Classifier | EvaluatedExamples) -> EvaluatedExamples | None:
    """Return the statistics of the evaluated rows; None if an artifact has none."""
    return value if isinstance(value, EvaluatedExamples) else heldout_examples.evaluate_heldout(value, EvaluatedExamples)


def heldout_predictions(value: Classifier) -> tuple[Array, Array, Array]:
    """Return class probabilities (n, classes), true and predicted classes (n,) of the held-out rows used for the metrics."""
    rows = value.holdout
    if rows is None:
        raise DataError("the classifier has no held-out rows", hint="give a file of labelled examples: herd eval MODEL --data FILE")
    _, chosen = heldout_examples.evaluation_part_and_mask(rows)
    score = rows.score[chosen]
    return class_probabilities(score, rows.variance[chosen], value.scale, value.link), rows.y[chosen], predict_classes(score)


def calibration_error(confidence: Array, is_correct: Array) -> float:
    """Return the mean distance between confidence and share of correct predictions over bins of confidence, weighted by their rows."""
    return float(np.abs(calibration_gaps(confidence, is_correct, np.zeros(BINS))).sum() / len(is_correct))


def calibration_gaps(confidence: Array, is_correct: Array, sums: Array) -> Array:
    """Return Σ of confidence minus the number of correct predictions in each bin (15,), added to `sums`."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return np.bincount(np.append(np.arange(BINS), bins), weights=np.append(sums, confidence - is_correct), minlength=BINS)


def confusion_rows(value: Classifier) -> list[Row]:
    """Return one row per true class with the counts of its examples by predicted class."""
    p, y, predicted = heldout_predictions(value)
    size = p.shape[1]
    table = np.bincount(y * size + predicted, minlength=size * size).reshape(size, size)
    return [{"class": name} | dict(zip(value.classes, line, strict=True)) for name, line in zip(value.classes, table.tolist(), strict=True)]


def mcnemar_test(first: Classifier, second: Classifier) -> Row:
    """Return McNemar's test on the examples that only one of two classifiers gets wrong: exact up to 1000, else χ² with correction.

    The correction is the continuity correction.  Raises DataError unless both were evaluated on the same rows.
    """
    _, y, a = heldout_predictions(first)
    _, other, b = heldout_predictions(second)
    if first.classes != second.classes or not np.array_equal(y, other):
        raise DataError(
            "the two classifiers were not evaluated on the same rows", hint="give the rows: herd eval A B --mcnemar --data FILE"
        )
    only_first, only_second = int(((a != y) & (b == y)).sum()), int(((a == y) & (b != y)).sum())
    return {
        "rows": len(y),
        "error_a": float(np.mean(a != y)),
        "error_b": float(np.mean(b != y)),
        "only_a_wrong": only_first,
        "only_b_wrong": only_second,
        "p": sign_test(only_first, only_second),
    }


def sign_test(first: int, second: int) -> float:
    """Return the two-sided p-value of these numbers of cases if both outcomes are equally likely."""
    from scipy.special import bdtr, erfc

    total = first + second
    if total == 0:
        return 1.0
    if total <= 1000:
        # The differing cases are flips of a fair coin: twice the tail P(X ≤ min) of B(n, ½).
        return float(min(1.0, 2.0 * bdtr(min(first, second), total, 0.5)))
    statistic = max(0.0, abs(first - second) - 1) / np.sqrt(total)
    return float(erfc(statistic / np.sqrt(2.0)))


def tournament_edges(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the edges of a graph with the win fractions of every pair of algorithms over the tasks that both took part in.

    results  rows with `task`, `algorithm`, `error` and perhaps `noise`.  The algorithm with more wins comes first; an edge
    is `plain` below 60 % of tasks, `arrow` from there, `bold` above 80 %.  p: sign test without ties.
    Source: Crammer & Lee (2010), Fig. 4.
    """
    if not results or not {"task", "algorithm", "error"} <= set(results[0]):
        raise BadUsage("a tournament needs a table with the columns task, algorithm and error")
    edges: list[dict[str, Any]] = []
    for noise in sorted({row.get("noise") or 0.0 for row in results}):
        errors: dict[str, dict[str, float]] = {}
        for row in results:
            if (row.get("noise") or 0.0) == noise:
                errors.setdefault(row["algorithm"], {})[row["task"]] = row["error"]
        names = sorted(errors)
        pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
        found = [_tournament_edge(a, b, errors[a], errors[b]) for a, b in pairs]
        edges += [{"noise": noise} | edge for edge in sorted(found, key=lambda edge: -edge["fraction"]) if edge["tasks"]]
    if not edges:
        raise BadUsage("a tournament needs at least two algorithms with results for the same task")
    return edges


def _tournament_edge(a: str, b: str, errors_a: dict[str, float], errors_b: dict[str, float]) -> dict[str, Any]:
    tasks = sorted(set(errors_a) & set(errors_b))
    wins = sum(errors_a[task] < errors_b[task] for task in tasks)
    losses = sum(errors_a[task] > errors_b[task] for task in tasks)
    if losses > wins:
        a, b, wins, losses = b, a, losses, wins
    fraction = wins / len(tasks) if tasks else 0.0
    edge = "bold" if fraction > 0.8 else "arrow" if fraction >= 0.6 else "plain"
    ties = len(tasks) - wins - losses
    return {
        "top": a,
        "bottom": b,
        "tasks": len(tasks),
        "wins": wins,
        "losses": losses,
        "ties": ties,
        "fraction": fraction,
        "edge": edge,
    } | {"p": sign_test(wins, losses)}
