"""The metrics of `herd eval` for a `tagger`: its predicted labels compared with the true ones.

They are computed on the test rows in the artifact or, without any, on the rows that calibrated it and its thresholds (`judged_on`).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from herdcli.algorithm import Map, ProgressCallback
from herdcli.errors import DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures.classifier import BINS, calibration_gaps
from herdcli.evaluation.metrics import heldout_examples
from herdcli.evaluation.table import Row
from herdcli.numerics import block_statistics
from herdcli.numerics.block_statistics import BlockRows, RowBlocks, take_block_rows
from herdcli.online.tags import HeldoutTagScores, Tagger, assign_labels, label_confidences
from herdcli.records import dataclass
from herdcli.schema import Array

RANKED = (1, 3, 5)
COLUMNS = (
    *("rows", "judged_on", "hamming", "hamming_none", "micro_f1", "macro_f1", "subset_accuracy"),
    *(f"precision_at_{k}" for k in RANKED),
    *("labels", "labels_given", "log_loss", "calibration_error", "progressive_hamming", "progressive_loss"),
)


def metrics(
    value: Tagger | EvaluatedTags, settings: EvaluationSettings, *, map: Map = map, progress: ProgressCallback | None = None
) -> Row:
    """Return every column of `COLUMNS`; None without held-out rows, and precision_at_k is None for fewer than k labels.

    hamming         share of wrong (row, label) pairs.   hamming_none  the same if no label is predicted for any row.
    micro_f1        2 TP/(2 TP + FP + FN) over all pairs; macro_f1 the mean over labels, 0 for a label neither present nor predicted.
    subset_accuracy share of rows whose predicted labels are exactly the true ones.
    precision_at_k  share of true labels among the k labels with the highest scores.
    labels, labels_given  true and predicted labels per row.   log_loss, calibration_error  per pair, for the probabilities of `herd apply`.
    """
    examples, value = evaluate_heldout_tags(value, map), value.model if isinstance(value, EvaluatedTags) else value
    result: Row = dict.fromkeys(COLUMNS)
    if seen := value.running.seen:
        result |= {"progressive_hamming": value.missed / seen, "progressive_loss": value.running.loss / seen}
    if examples is None:
        return result
    found = examples.sums
    rows, labels = int(found["rows"][0]), value.count
    result |= {"rows": rows, "judged_on": examples.on}
    wrong, there, given, exact = found["counts"].tolist()
    result |= {"hamming": wrong / (rows * labels), "hamming_none": there / (rows * labels)}
    both, own = found["both"], found["own"] + found["given"]
    result |= {"micro_f1": macro_f1(both.sum(keepdims=True), own.sum(keepdims=True)), "macro_f1": macro_f1(both, own)}
    result |= {"subset_accuracy": exact / rows, "labels": there / rows, "labels_given": given / rows}
    result |= {f"precision_at_{k}": hits / (rows * k) for k, hits in zip(RANKED, found["hits"].tolist(), strict=True) if k <= labels}
    result["log_loss"] = -float(found["loss"][0]) / (rows * labels)
    result["calibration_error"] = float(np.abs(found["gaps"]).sum() / (rows * labels))
    return result


@dataclass(frozen=True)
class EvaluatedTags:
    """A tagger and blocks (`HeldoutTagScores`) of the examples that evaluate it.  on  test or calibration."""

    model: Tagger
    source: block_statistics.BlockSource
    on: str = "test"
    map: Map = map

    @cached_property
    def sums(self) -> block_statistics.Sums:
        """Return sums over all examples: `counts` of wrong, present and predicted pairs, and of examples with exactly their labels.

        There are also, by label, those present (`own`), predicted, and both; `hits` among the first of each; losses, calibration gaps,
        and the number of scores that are not finite.
        """
        return block_statistics.sum_statistics(self.source, self._sums, self.map)

    def _sums(self, heldout: HeldoutTagScores) -> block_statistics.Sums:
        score, p, y = heldout.score, label_confidences(self.model, heldout.score, heldout.variance), heldout.y > 0
        told, order = assign_labels(self.model, score), np.argsort(-score, axis=1, kind="stable")
        exact = np.count_nonzero((told == y).all(axis=1))
        counts = [np.count_nonzero(told != y), np.count_nonzero(y), np.count_nonzero(told), exact]
        found = {"both": (told & y).sum(axis=0), "own": y.sum(axis=0), "given": told.sum(axis=0), "counts": np.array(counts)}
        found["hits"] = np.array([np.count_nonzero(np.take_along_axis(y, order[:, :k], axis=1)) for k in RANKED])
        sums = {name: item.astype(np.float64) for name, item in found.items()}
        sums["loss"] = np.array([np.log(np.maximum(np.where(y, p, 1.0 - p), 1e-15)).sum()])
        sums["gaps"] = calibration_gaps(np.maximum(p, 1.0 - p).ravel(), ((p > 0.5) == y).ravel(), np.zeros(BINS))
        return sums | {"rows": np.array([float(len(y))]), "infinite": np.array([float(np.count_nonzero(~np.isfinite(score)))])}


def evaluate_heldout_tags(value: Tagger | EvaluatedTags, map: Map = map) -> EvaluatedTags | None:
    """Return the evaluated examples; None if an artifact has none."""
    if isinstance(value, EvaluatedTags):
        return value
    if value.holdout is None:
        return None
    on, chosen = heldout_examples.evaluation_part_and_mask(value.holdout)
    rows = BlockRows(take_block_rows(value.holdout, chosen), int(chosen.sum()), value.holdout.y.shape[1])
    return EvaluatedTags(value, RowBlocks(rows), on, map)


def heldout_predictions(value: Tagger) -> tuple[Array, Array, Array, Array]:
    """Return scores, probabilities, true and predicted labels, (n, C) each, of the held-out rows used for the metrics."""
    rows = value.holdout
    if rows is None:
        raise DataError("the tagger has no held-out rows", hint="give a file of labelled examples: herd eval MODEL --data FILE")
    _, chosen = heldout_examples.evaluation_part_and_mask(rows)
    score = rows.score[chosen]
    return score, label_confidences(value, score, rows.variance[chosen]), rows.y[chosen] > 0, assign_labels(value, score)


def macro_f1(true_positives: Array, divisors: Array) -> float:
    """Return the mean over labels of 2 TP/(2 TP + FP + FN): `true_positives` is TP (C,), `divisors` the divisor; 0 for a divisor of 0."""
    return float(np.mean(2.0 * true_positives / np.maximum(divisors, 1)))
