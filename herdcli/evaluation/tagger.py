"""What `herd eval` says about a `tagger`: the labels that examples are given beside those that they have.

Figures are of the test rows in the artifact; where there are none, of the rows that calibrated it (`judged_on`), which also decided the
thresholds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from herdcli.errors import DataError
from herdcli.evaluation import held
from herdcli.evaluation.classifier import calibration_error
from herdcli.online.tags import Tagger, confidences, given
from herdcli.schema import Array

RANKED = (1, 3, 5)
COLUMNS = (
    *("rows", "judged_on", "hamming", "hamming_none", "micro_f1", "macro_f1", "subset_accuracy"),
    *(f"precision_at_{k}" for k in RANKED),
    *("labels", "labels_given", "log_loss", "calibration_error", "progressive_hamming", "progressive_loss"),
)


def metrics(value: Tagger, settings: Any, *, map: Any = map, progress: Any = None) -> dict[str, Any]:
    """Every column of `COLUMNS`; None where the artifact has no held-out rows, and precision_at_k where there are fewer than k labels.

    hamming         share of pairs of a row and a label that are wrong.   hamming_none  the same where no row is given any label.
    micro_f1        2 TP/(2 TP + FP + FN) over all pairs; macro_f1 the mean of that of each label, 0 where it is neither there nor given.
    subset_accuracy share of rows that are given exactly their labels.
    precision_at_k  share of the k labels of the highest scores that are a row's own.
    labels, labels_given  of a row on average.   log_loss, calibration_error  a pair's, of the probabilities of `herd apply`.
    """
    result: dict[str, Any] = dict.fromkeys(COLUMNS)
    if seen := value.running.seen:
        result |= {"progressive_hamming": value.missed / seen, "progressive_loss": value.running.loss / seen}
    if value.holdout is None:
        return result
    score, p, y, told = judged(value)
    result |= {"rows": len(y), "judged_on": held.rows_of(value.holdout)[0]}
    result |= {"hamming": float(np.mean(told != y)), "hamming_none": float(np.mean(y))}
    result |= {"micro_f1": f1(told.reshape(-1, 1), y.reshape(-1, 1)), "macro_f1": f1(told, y)}
    result |= {"subset_accuracy": float(np.mean((told == y).all(axis=1))), "labels": float(y.sum(axis=1).mean())}
    result["labels_given"] = float(told.sum(axis=1).mean())
    order = np.argsort(-score, axis=1, kind="stable")
    for k in RANKED:
        if k <= y.shape[1]:
            result[f"precision_at_{k}"] = float(np.take_along_axis(y, order[:, :k], axis=1).mean())
    own = np.where(y, p, 1.0 - p)
    result["log_loss"] = float(-np.mean(np.log(np.maximum(own, 1e-15))))
    result["calibration_error"] = calibration_error(np.maximum(p, 1.0 - p).ravel(), ((p > 0.5) == y).ravel())
    return result


def judged(value: Tagger) -> tuple[Array, Array, Array, Array]:
    """Scores, probabilities, labels and those that are given, (n, C) each, of the held-out rows that figures are made of."""
    rows = value.holdout
    if rows is None:
        raise DataError("the tagger has no held-out rows", hint="name labelled examples: herd eval MODEL --data FILE")
    _, chosen = held.rows_of(rows)
    score = rows.score[chosen]
    return score, confidences(value, score, rows.variance[chosen]), rows.y[chosen] > 0, given(value, score)


def f1(told: Array, y: Array) -> float:
    """The mean over columns of 2 TP/(2 TP + FP + FN), bool (n, C) each; 0 of a column where nothing is there and nothing is given."""
    both = told.sum(axis=0) + y.sum(axis=0)
    return float(np.mean(2.0 * (told & y).sum(axis=0) / np.maximum(both, 1)))
