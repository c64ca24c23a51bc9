"""Figures of classifiers against scikit-learn and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.errors import BadUsage, DataError
from herdcli.evaluation.figures import classifier
from herdcli.online.model import Classifier, HeldoutScores, Progress, RunningTotals, Settings
from herdcli.online.predictions.prediction import class_probabilities


def judged(score: np.ndarray, y: np.ndarray, classes: int = 2, split: np.ndarray | None = None) -> Classifier:
    """A classifier with these held-out scores, of test rows unless said otherwise."""
    split = np.full(len(y), 2, dtype=np.uint8) if split is None else split
    return Classifier(
        [str(z) for z in range(classes)],
        Settings(),
        RunningTotals(seen=10, wrong=3, loss=2.0),
        Progress(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0)),
        holdout=HeldoutScores(score, np.ones_like(score), y, split),
    )


@pytest.mark.parametrize("classes", [2, 4])
def test_figures_agree_with_scikit_learn(classes):
    sklearn = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(0)
    score = np.round(random.standard_normal((300, 1 if classes == 2 else classes)), 1)  # ties among them
    y = random.integers(0, classes, 300)
    found = classifier.metrics(judged(score, y, classes), None)
    p = class_probabilities(score, np.ones_like(score), 1.0)
    assert found["log_loss"] == pytest.approx(sklearn.log_loss(y, p))
    assert found["error"] == pytest.approx(1 - sklearn.accuracy_score(y, (score[:, 0] > 0) if classes == 2 else score.argmax(axis=1)))
    expected = sklearn.roc_auc_score(y, p[:, 1]) if classes == 2 else sklearn.roc_auc_score(y, p, multi_class="ovr")
    assert found["auc"] == pytest.approx(expected)
    brier = ((p - np.eye(classes)[y]) ** 2).sum(axis=1).mean()
    assert found["brier"] == pytest.approx(sklearn.brier_score_loss(y, p[:, 1]) if classes == 2 else brier)
    assert found["progressive_error"] == 0.3


def test_test_rows_are_taken_where_there_are_any():
    score, y = np.array([[1.0], [1.0], [-1.0]]), np.array([1, 0, 1])
    split = np.array([2, 1, 1], dtype=np.uint8)
    assert classifier.metrics(judged(score, y, split=split), None)["judged_on"] == "test"
    assert classifier.metrics(judged(score, y, split=np.ones(3, dtype=np.uint8)), None)["rows"] == 3


def test_calibration_error_by_hand():
    confidence, right = np.array([0.55, 0.55, 0.95, 0.95]), np.array([True, False, True, True])
    assert classifier.calibration_error(confidence, right) == pytest.approx((2 * 0.05 + 2 * 0.05) / 4)


def test_confusion_counts_every_row():
    score, y = np.array([[1.0], [-1.0], [1.0], [-1.0]]), np.array([1, 1, 0, 0])
    assert classifier.confusion_rows(judged(score, y)) == [{"class": "0", "0": 1, "1": 1}, {"class": "1", "0": 1, "1": 1}]


def test_mcnemar_is_the_exact_sign_test():
    y = np.ones(20, dtype=np.int64)
    a = judged(np.where(np.arange(20) < 9, -1.0, 1.0)[:, None], y)
    b = judged(np.where(np.arange(20) == 15, -1.0, 1.0)[:, None], y)
    found = classifier.mcnemar_test(a, b)
    assert (found["only_a_wrong"], found["only_b_wrong"]) == (9, 1)
    assert found["p"] == pytest.approx(2 * (1 + 10) / 2**10)
    with pytest.raises(DataError, match="not evaluated on the same rows"):
        classifier.mcnemar_test(a, judged(np.ones((19, 1)), y[:19]))


def test_sign_test_of_many_cases_nears_the_exact_one():
    binomtest = pytest.importorskip("scipy.stats").binomtest
    assert classifier.sign_test(600, 500) == pytest.approx(binomtest(500, 1100).pvalue, rel=0.05)
    assert classifier.sign_test(0, 0) == 1.0


def test_tournament_counts_wins_over_common_tasks():
    rows = [
        {"task": f"t{k}", "algorithm": name, "noise": 0.0, "error": error}
        for name, errors in {"A": (1, 1, 1, 2, 5), "B": (2, 2, 2, 1, 5)}.items()
        for k, error in enumerate(errors)
    ] + [{"task": "alone", "algorithm": "A", "noise": 0.0, "error": 0}]
    (edge,) = classifier.tournament_edges(rows)
    assert edge == {
        "noise": 0.0, "top": "A", "bottom": "B", "tasks": 5, "wins": 3, "losses": 1, "ties": 1, "fraction": 0.6, "edge": "arrow", "p": 0.625
    }  # fmt: skip
    with pytest.raises(BadUsage, match="columns task, algorithm and error"):
        classifier.tournament_edges([{"file": "x"}])
