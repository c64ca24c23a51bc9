"""Adaptive conformal prediction: the bound that holds for any stream, exact coverage of exchangeable rows, the same bits in pieces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from herdcli.errors import DataError
from herdcli.online.block_sources import MemorySource
from herdcli.online.example_blocks import block_from_rows
from herdcli.online.learner import OnlineLearner
from herdcli.online.model import Settings
from herdcli.online.predictions import coverage
from herdcli.online.predictions.coverage import ALPHA, RATE, Coverage, adapt_thresholds, prediction_set_threshold, quantile_rank
from herdcli.online.predictions.prediction import make_scorer
from herdcli.online.predictions.prediction_sets import calibrate_prediction_sets, prediction_set_mask


def tally(level: float) -> np.ndarray:
    return np.array([level, 1.0 - level, 0.0, 0.0, 0.0, 0.0])


STREAMS = {
    "jumps": lambda t, random: random.standard_normal(len(t)) + 5.0 * (t // 700 % 3),
    "grows": lambda t, random: random.exponential(size=len(t)) * (1.0 + t),
    "shrinks": lambda t, random: random.exponential(size=len(t)) / (1.0 + t),
    "ties": lambda t, random: np.zeros(len(t)),
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("rate", [RATE, 0.05])
def test_the_long_run_coverage_is_within_the_proven_bound(name, level, rate):
    for T in (50, 400, 3_000):
        own = STREAMS[name](np.arange(T), np.random.default_rng(0))
        bounds, _ = adapt_thresholds(tally(level), np.zeros(0), own, rate)
        alpha = 1.0 - level
        assert abs(np.mean(own > bounds) - alpha) <= (max(alpha, 1 - alpha) + rate) / (rate * T) + 1e-12


def test_an_adversary_cannot_break_the_bound():
    """Whatever the threshold, the next score is just above it while there is one."""
    count, recent, wrong, T = tally(0.9), np.zeros(0), 0, 2_000
    score, rate = 0.0, 0.02
    for _ in range(T):
        before = count.copy()
        bound, after = adapt_thresholds(count, recent, np.array([score]), rate)
        wrong += bool(score > bound[0])
        recent = after
        assert -rate <= count[ALPHA] <= 1 + rate
        assert before[ALPHA] + rate * (0.1 - bool(score > bound[0])) == pytest.approx(count[ALPHA], abs=1e-15)
        score = float(recent.max()) + 1.0
    assert abs(wrong / T - 0.1) <= (0.9 + rate) / (rate * T)


def test_thresholds_are_order_statistics_of_the_scores_of_late(monkeypatch):
    monkeypatch.setattr(coverage, "RECENT", 40)
    own = np.random.default_rng(1).standard_normal(300).round(1)  # with ties
    bounds, recent = adapt_thresholds(tally(0.8), np.zeros(0), own, 0.03)
    assert np.array_equal(recent, own[-40:])
    alpha = 0.2
    for t, score in enumerate(own):
        window = np.concatenate([[-np.inf], np.sort(own[max(0, t - 40) : t]), [np.inf]])
        place = min(max(int(np.ceil((len(window) - 1) * (1 - alpha) - 1e-9)), 0), len(window) - 1)
        assert bounds[t] == window[place]
        alpha += 0.03 * (0.2 - (score > bounds[t]))


def test_the_threshold_of_a_calibration_set_is_the_exact_one():
    scores = np.random.default_rng(2).permutation(np.arange(1.0, 100.0))
    assert prediction_set_threshold(scores, 0.1) == 90.0  # ⌈100 · 0.9⌉
    assert prediction_set_threshold(scores, 0.01) == 99.0
    assert prediction_set_threshold(scores, 0.009) == np.inf
    assert prediction_set_threshold(np.zeros(0), 0.1) == np.inf
    assert [quantile_rank(9, alpha) for alpha in (-0.1, 0.0, 0.1, 1.0, 1.2)] == [10, 10, 9, 0, 0]


def stream(rows: int, seed: int, drift: bool, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Rows of Gaussian classes, whose labels turn round half way if they drift."""
    random = np.random.default_rng(seed)
    y = random.integers(classes, size=rows)
    X = random.standard_normal((rows, 6))
    X[np.arange(rows), y] += 1.5
    if drift:
        y[rows // 2 :] = (y[rows // 2 :] + 1) % classes
    return X, y


def learned(X, y, classes, level=0.9, rows=1_000, task="classification"):
    settings = Settings(algorithm="arow", C=1.0, bias=True, task=task, loss="squared" if task == "regression" else "squared-hinge")
    learner = OnlineLearner(settings, MemorySource(X, y, rows=rows), classes, X.shape[1] + 1, coverage=level)
    state = learner.init()
    while not learner.done(state):
        state = learner.step(state)
    return learner.result(state)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_a_stream_whose_labels_turn_round_is_covered_in_the_long_run(level):
    X, y = stream(4_000, 0, drift=True)
    found = learned(X, y, 3, level).coverage
    assert found.examples == 4_000
    assert abs(found.share_covered - level) <= (max(level, 1 - level) + RATE) / (RATE * 4_000)
    assert 1.0 <= found.mean_size(numbers=False) <= 3.0
    # a fixed quantile of the first half, by comparison, falls below in the second
    first = learned(X[:2_000], y[:2_000], 3, level)
    fixed = calibrate_prediction_sets(first)
    score, variance = make_scorer(fixed)(block_from_rows(X, y, slice(2_000, 4_000)))
    assert prediction_set_mask(score, variance, fixed.coverage.threshold)[np.arange(2_000), y[2_000:]].mean() < level - 0.2


def test_blocks_make_no_difference():
    X, y = stream(900, 3, drift=True)
    one, other = (learned(X, y, 3, rows=rows).coverage for rows in (1_000, 77))
    assert np.array_equal(one.recent, other.recent)
    assert {k: v for k, v in vars(one).items() if k != "recent"} == {k: v for k, v in vars(other).items() if k != "recent"}


def test_sets_of_exchangeable_rows_cover_what_was_asked_for():
    """Mean over calibration sets and test rows of 60 splits, within four standard errors of ⌈(n + 1)(1 − α)⌉/(n + 1)."""
    n, tests, level, found = 199, 200, 0.9, []
    for seed in range(60):
        X, y = stream(n + tests + 300, seed, drift=False)
        model = learned(X[:300], y[:300], 3, level)
        score, variance = make_scorer(model)(block_from_rows(X, y, slice(300, None)))
        held = type(model.holdout)(score[:n], variance[:n], y[300 : 300 + n], np.ones(n, dtype=np.uint8))
        bound = calibrate_prediction_sets(replace(model, holdout=held)).coverage
        assert bound.calibrated == n
        found.append(prediction_set_mask(score[n:], variance[n:], bound.threshold)[np.arange(tests), y[300 + n :]].mean())
    # coverage of a split is Beta(180, 20) distributed, and that of its test rows Binomial about it
    deviation = np.sqrt(0.9 * 0.1 * (1 / (n + 2) + 1 / tests) / 60)
    assert abs(np.mean(found) - 0.9) < 4 * deviation


def test_numbers_have_intervals():
    random = np.random.default_rng(5)
    X = random.standard_normal((3_000, 3))
    y = X @ np.array([1.0, -2.0, 0.5]) + random.standard_normal(3_000) * np.where(np.arange(3_000) < 1_500, 1.0, 3.0)
    made = calibrate_prediction_sets(learned(X, y, 2, task="regression"))
    found = made.coverage
    assert abs(found.share_covered - 0.9) <= 0.905 / (RATE * 3_000)
    assert 2 * 1.645 < found.mean_size(numbers=True) < 2 * 3 * 1.645 * 1.2
    last = np.abs(made.holdout.y - made.holdout.score[:, 0])
    assert found.threshold == np.sort(last)[int(np.ceil(2_001 * 0.9)) - 1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"level": 1.0},
        {"rate": 0.0},
        {"alpha": np.nan},
        {"alpha": 1e308},
        {"covered": 3},
        {"unbounded": -1},
        {"threshold": np.nan},
        {"recent": np.array([np.inf])},
    ],
)
def test_impossible_figures_are_refused(wrong):
    Coverage(level=0.9, examples=2).validate()
    with pytest.raises(DataError, match=r"^(coverage: |dataset .coverage.recent)"):
        Coverage(**{"level": 0.9, "examples": 2, **wrong}).validate()
