"""What `herd eval` says about a `classifier`: errors and the quality of its confidences on held-out examples.

Figures are of the test rows in the artifact; where there are none, of the rows that calibrated it: validation rows, or
for text the last examples judged before they were learned (column `judged_on` says which).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.online.model import Classifier
from herdcli.online.predict import probabilities, winners
from herdcli.online.sets import members
from herdcli.schema import Array

CALIBRATION, TEST = 1, 2
BINS = 15
COLUMNS = (
    "rows",
    "judged_on",
    "error",
    "error_majority",
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

Row = dict[str, Any]


def metrics(value: Classifier, settings: Any, *, map: Any = map, progress: Any = None) -> dict[str, Any]:
    """Every column of `COLUMNS`; None where the artifact has no held-out rows.

    error_majority     of the commonest class of these rows for all of them.
    auc                area under the ROC curve, of more than two classes the mean of each against the rest.
    coverage, set_size  of the sets of `herd apply --want sets`, on test rows alone: those that calibrated it decided their size.
    calibration_error  expected calibration error of the likeliest class, 15 bins of equal width.
    """
    result: dict[str, Any] = dict.fromkeys(COLUMNS)
    if value.running.seen:
        result["progressive_error"] = value.running.wrong / value.running.seen
        result["progressive_loss"] = value.running.loss / value.running.seen
    if value.coverage is not None and value.coverage.examples:
        result["progressive_coverage"] = value.coverage.reached
        result["progressive_set_size"] = value.coverage.mean_size(numbers=False)
    if value.holdout is None:
        return result
    p, y, predicted = judged(value)
    result |= {"rows": len(y), "judged_on": "test" if (value.holdout.split == TEST).any() else "calibration"}
    right, own, top = predicted == y, p[np.arange(len(y)), y], p.max(axis=1)
    truth = np.eye(p.shape[1])[y]
    result["error"] = float(np.mean(~right))
    result["error_majority"] = 1.0 - float(np.bincount(y).max()) / len(y)
    result["auc"] = auc(p, y)
    result["log_loss"] = float(-np.mean(np.log(np.maximum(own, 1e-15))))
    # Of two classes both columns have the same square, and one of them is counted.
    result["brier"] = float(np.mean(((p - truth) ** 2).sum(axis=1)) / (2 if p.shape[1] == 2 else 1))
    result["calibration_error"] = calibration_error(top, right)
    if value.coverage is not None and result["judged_on"] == "test":
        chosen = value.holdout.split == TEST
        held = members(value.holdout.score[chosen], value.holdout.variance[chosen], value.coverage.threshold)
        result |= {"coverage": float(held[np.arange(len(y)), y].mean()), "set_size": float(held.sum(axis=1).mean())}
    return result


def judged(value: Classifier) -> tuple[Array, Array, Array]:
    """Class probabilities (n, classes), true and predicted classes (n,) of the held-out rows that figures are made of."""
    held = value.holdout
    if held is None:
        raise DataError("the classifier has no held-out rows", hint="name labelled examples: herd eval MODEL --data FILE")
    chosen = held.split == (TEST if (held.split == TEST).any() else CALIBRATION)
    score = held.score[chosen]
    return probabilities(score, held.variance[chosen], value.scale, value.link), held.y[chosen], winners(score)


def auc(p: Array, y: Array) -> float | None:
    """Area under the ROC curve by ranks, ties counted half; None where a class does not occur."""
    classes = [1] if p.shape[1] == 2 else range(p.shape[1])
    found = [_auc(p[:, z], y == z) for z in classes]
    known = [area for area in found if area is not None]
    return float(np.mean(known)) if known else None


def _auc(score: Array, positive: Array) -> float | None:
    count, total = int(positive.sum()), len(positive)
    if count in (0, total):
        return None
    _, place, sizes = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(sizes) - (sizes - 1) / 2.0)[place]
    # Mann & Whitney: the positives' ranks sum to n(n + 1)/2 among themselves and one for each negative below them; ties have mean ranks,
    # and count half.
    return float((rank[positive].sum() - count * (count + 1) / 2) / (count * (total - count)))


def calibration_error(confidence: Array, right: Array) -> float:
    """Mean distance between confidence and share of right answers over bins of confidence, weighted by their rows."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gap = np.bincount(bins, weights=confidence - right, minlength=BINS)
    return float(np.abs(gap).sum() / len(right))


def confusion(value: Classifier) -> list[Row]:
    """A row per true class: how many of its examples were given to each class."""
    p, y, predicted = judged(value)
    size = p.shape[1]
    table = np.bincount(y * size + predicted, minlength=size * size).reshape(size, size)
    return [{"class": name} | dict(zip(value.classes, line, strict=True)) for name, line in zip(value.classes, table.tolist(), strict=True)]


def mcnemar(first: Classifier, second: Classifier) -> dict[str, Any]:
    """McNemar's test on examples that one of two classifiers gets wrong: exact up to 1000 of them, else χ² with continuity correction.

    Raises DataError unless both were judged on the same rows.
    """
    _, y, a = judged(first)
    _, other, b = judged(second)
    if first.classes != second.classes or not np.array_equal(y, other):
        raise DataError("the two classifiers were not judged on the same rows", hint="name them: herd eval A B --mcnemar --data FILE")
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
    """Two-sided p of so many cases each way when both ways are equally likely."""
    from scipy.special import bdtr, erfc

    total = first + second
    if total == 0:
        return 1.0
    if total <= 1000:
        # Cases that differ are heads or tails of a fair coin: twice the tail P(X ≤ min) of B(n, ½).
        return float(min(1.0, 2.0 * bdtr(min(first, second), total, 0.5)))
    statistic = max(0.0, abs(first - second) - 1) / np.sqrt(total)
    return float(erfc(statistic / np.sqrt(2.0)))


def tournament(results: Sequence[Row]) -> list[Row]:
    """Win fractions of every pair of algorithms over the tasks both took part in, as the edges of a graph.

    results  rows with `task`, `algorithm`, `error` and perhaps `noise`.  The algorithm with more wins is on top; an edge
    is `plain` below 60 % of tasks, `arrow` from there, `bold` above 80 %.  p: sign test, ties left out.
    Source: Crammer & Lee (2010), Fig. 4.
    """
    if not results or not {"task", "algorithm", "error"} <= set(results[0]):
        raise BadUsage("a tournament needs columns task, algorithm and error")
    edges: list[Row] = []
    for noise in sorted({row.get("noise") or 0.0 for row in results}):
        errors: dict[str, dict[str, float]] = {}
        for row in results:
            if (row.get("noise") or 0.0) == noise:
                errors.setdefault(row["algorithm"], {})[row["task"]] = row["error"]
        names = sorted(errors)
        pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
        found = [_edge(a, b, errors[a], errors[b]) for a, b in pairs]
        edges += [{"noise": noise} | edge for edge in sorted(found, key=lambda edge: -edge["fraction"]) if edge["tasks"]]
    if not edges:
        raise BadUsage("no two algorithms took part in the same task")
    return edges


def _edge(a: str, b: str, errors_a: dict[str, float], errors_b: dict[str, float]) -> Row:
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
