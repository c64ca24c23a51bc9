"""Shards whose races chose different learners are merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from herdcli.online.block_sources import MemorySource
from herdcli.online.example_blocks import block_from_rows
from herdcli.online.learner import OnlineLearner
from herdcli.online.learners.model_merging import merge_models
from herdcli.online.learners.state_conversion import classifier_from_state
from herdcli.online.mixed_merging import learner_names, learners_differ, with_common_covariances
from herdcli.online.model import Classifier, Settings
from herdcli.online.predictions.prediction import class_probabilities, make_scorer, predict_classes
from herdcli.online.predictions.score_calibration import calibrate_on_all

LEARNERS = [
    Settings(algorithm="arow", C=1.0, bias=True, scaling="standard"),
    Settings(algorithm="pa1", C=0.1, bias=True, scaling="standard"),
    Settings(algorithm="nherd", C=0.1, bias=True, scaling="standard", multiclass="one-vs-rest"),
    Settings(algorithm="perceptron", bias=True, scaling="standard"),
    Settings(algorithm="arow", C=1.0, bias=True, scaling="standard", covariance="full", multiclass="one-vs-rest"),
]


def stream(classes: int, rows: int, seed: int) -> tuple[Any, Any]:
    """Rows about 3 with noisy linear classes."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 8))
    scores = X @ np.random.default_rng(5).normal(size=(8, classes)) + 0.7 * random.normal(size=(rows, classes))
    return X * np.logspace(-1, 2, 8) + 3.0, scores.argmax(axis=1)


def learned(settings: Settings, X: Any, y: Any, classes: int) -> Classifier:
    """A model of one pass."""
    algorithm = OnlineLearner(settings, MemorySource(X, y), classes, X.shape[1] + 1)
    state = algorithm.init()
    while not algorithm.done(state):
        state = algorithm.step(state)
    return classifier_from_state(settings, X.shape[1] + 1, state, [str(k) for k in range(classes)])


def judged(model: Classifier, X: Any, y: Any) -> tuple[float, float]:
    """Error and mean log-loss of rows."""
    score, variance = make_scorer(model)(block_from_rows(X, y, slice(None)))
    chances = class_probabilities(score, variance, model.scale, model.link)[np.arange(len(y)), y]
    return float((predict_classes(score) != y).mean()), float(-np.log(np.maximum(chances, 1e-12)).mean())


def shards(learners: Sequence[Settings], classes: int, rows: int = 1500) -> list[Classifier]:
    """A calibrated model of each shard of a stream."""
    X, y = stream(classes, rows * len(learners), 1)
    parts = [slice(rows * k, rows * (k + 1)) for k in range(len(learners))]
    return [calibrate_on_all(learned(settings, X[part], y[part], classes)) for settings, part in zip(learners, parts, strict=True)]


@pytest.mark.parametrize("classes", [2, 4])
def test_a_mixed_model_is_no_worse_than_its_parts(classes: int) -> None:
    models = shards(LEARNERS[: 4 if classes == 2 else 5], classes)
    X, y = stream(classes, 4000, 2)
    assert learners_differ(models)
    whole = merge_models(models, "precision")
    error, loss = judged(whole, X, y)
    alone = np.array([judged(model, X, y) for model in models])
    assert error <= alone[:, 0].min() + 0.01
    assert loss <= np.median(alone[:, 1])
    assert whole.running.examples == sum(model.running.examples for model in models)


def test_the_same_shards_give_the_same_model() -> None:
    models = shards(LEARNERS[:2], 2)
    first, again = (merge_models(models, "precision") for _ in range(2))
    assert first.mean is not None
    assert again.mean is not None
    assert first.mean.tobytes() == again.mean.tobytes()
    assert learner_names(models) == ["arow", "pa1"]


def test_examples_weigh_the_scores_of_a_shard() -> None:
    models = shards(LEARNERS[:2], 2)
    large = replace(models[0], running=replace(models[0].running, examples=10**9))
    mean, own = merge_models([large, models[1]], "precision").mean, merge_models([large, large], "precision").mean
    assert mean is not None
    assert own is not None
    apart = np.arccos(float(mean[0] @ own[0] / np.linalg.norm(mean) / np.linalg.norm(own)))
    assert apart < 0.01  # but for the common means of features


@pytest.mark.parametrize(("classes", "form"), [(2, "top-1"), (3, "one-vs-rest"), (3, "top-1")])
def test_a_diagonal_covariance_is_merged_with_a_full_one_by_precision(classes: int, form: str) -> None:
    plain = Settings(algorithm="arow", C=1.0, multiclass=form)
    models = shards([plain, replace(plain, covariance="full")], classes, 400)
    assert not learners_differ(models)
    common = with_common_covariances(models)
    assert all(model.covariance is not None for model in common)
    assert common[0].covariance is not None
    assert models[0].variance is not None
    assert np.array_equal(np.diagonal(common[0].covariance, axis1=1, axis2=2).ravel(), models[0].variance.ravel())
    whole = merge_models(models, "precision")
    first, second = (np.linalg.inv(np.asarray(model.covariance)) for model in common)
    width = first.shape[1]
    precision = first + second - np.eye(width)
    means = [np.asarray(model.mean).reshape(len(first), width, 1) for model in common]
    np.testing.assert_allclose(
        np.asarray(whole.mean).reshape(len(first), width, 1), np.linalg.solve(precision, first @ means[0] + second @ means[1])
    )


def test_wide_models_are_merged_by_their_variances() -> None:
    full = Classifier(
        ["0", "1"], Settings(covariance="full"), *_nothing(), mean=np.ones((1, 3)), covariance=np.diag([0.5, 0.25, 1.0])[None]
    )
    wide = Classifier(["0", "1"], Settings(), *_nothing(), mean=np.ones((1, 2000)), variance=np.full((1, 2000), 0.5), text="svmlight")
    whole = merge_models([replace(full, text="svmlight"), wide], "precision")
    assert whole.variance is not None
    np.testing.assert_allclose(whole.variance[0, :4], [1 / 3, 1 / 5, 1 / 2, 1 / 2])


def _nothing() -> tuple[Any, Any]:
    from herdcli.online.learners.model_merging import empty_progress
    from herdcli.online.model import RunningTotals

    return RunningTotals(examples=1), empty_progress()
