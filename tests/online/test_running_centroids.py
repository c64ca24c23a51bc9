"""The nearest centroid of a stream against one fitted to the same rows by another program's formula."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.numerics.class_baselines import UNKNOWN
from herdcli.online import running_centroids
from herdcli.online.example_blocks import block_from_rows
from herdcli.online.running_centroids import begin_centroids, model_baselines, predict_and_add_examples


def nearest(X, y, weight, rows, classes):
    """Nearest centroid of columns divided by their standard deviations, row by row."""
    mean = np.average(X, axis=0, weights=weight)
    scale = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    scale[scale == 0] = 1.0
    centre = np.full((classes, X.shape[1]), np.inf)
    for z in range(classes):
        if weight[y == z].sum() > 0:
            centre[z] = np.average(X[y == z], axis=0, weights=weight[y == z])
    return np.array([np.argmin([np.square((row - each) / scale).sum() for each in centre]) for row in rows])


def rows_of(random, n=700, columns=5):
    y = random.integers(0, 3, n)
    X = (random.normal(size=(n, columns)) + random.normal(size=(3, columns))[y]) * (random.random((n, columns)) < 0.7)
    X = X * 10.0 ** np.arange(columns)
    X[:, -1] = 4.0  # a constant column
    return X, y, random.choice([0.0, 0.5, 3.0], n)


def test_examples_are_predicted_by_those_before_them():
    X, y, weight = rows_of(np.random.default_rng(0))
    found = begin_centroids(3)
    first = predict_and_add_examples(found, block_from_rows(X, y, slice(0, 100), weight), 0)
    assert (first == UNKNOWN).all()
    predicted = predict_and_add_examples(found, block_from_rows(X, y, slice(100, 700), weight), 500)
    assert (predicted[:100] == UNKNOWN).all()
    for begin, end in ((200, 401), (401, 700)):  # computed at 200 examples, and anew at twice as many
        assert predicted[begin - 100 : end - 100] == pytest.approx(nearest(X[:begin], y[:begin], weight[:begin], X[begin:end], 3))


def test_the_model_has_those_of_all_examples():
    X, y, weight = rows_of(np.random.default_rng(1))
    found = begin_centroids(3)
    for begin in range(0, 700, 70):
        predict_and_add_examples(found, block_from_rows(X, y, slice(begin, begin + 70), weight), 10)
    made = model_baselines(found, 5)
    assert made is not None
    assert made.linear is None
    assert made.predictions(X)[:, 0] == pytest.approx(nearest(X, y, weight, X, 3))
    assert (made.predictions(X)[:, 1] == UNKNOWN).all()
    wide = model_baselines(found, 8)  # columns that no example has
    assert wide is not None
    assert wide.predictions(np.pad(X, ((0, 0), (0, 3))))[:, 0] == pytest.approx(made.predictions(X)[:, 0])


def test_a_later_pass_adds_nothing_and_a_share_of_many_examples_counts_for_all(monkeypatch):
    monkeypatch.setattr(running_centroids, "COMPLETE", 100)
    X, y, _ = rows_of(np.random.default_rng(2))
    found = begin_centroids(3)
    for begin in range(0, 700, 100):
        predict_and_add_examples(found, block_from_rows(X, y, slice(begin, begin + 100)), 0)
    assert found.sums[:-1, 0].sum() == pytest.approx(700)
    assert found.sums[-1, -1] == pytest.approx(700 * 16.0)
    before = found.sums.copy()
    predict_and_add_examples(found, block_from_rows(X, y, slice(0, 100)), 100, learned=False)
    assert np.array_equal(found.sums, before)
    assert found.counts.tolist() == [700, 700]


def test_features_beyond_the_largest_number_of_sums_are_left_out(monkeypatch):
    X, y, _ = rows_of(np.random.default_rng(3))
    monkeypatch.setattr(running_centroids, "MOST_SUMS", 7)  # one column of 3 classes and squares: the constant
    assert predict_and_add_examples(begin_centroids(3), block_from_rows(X, y, slice(0, 100)), 10) is None
    monkeypatch.setattr(running_centroids, "MOST_SUMS", 4 * X.shape[1])  # the last column is left out
    found, narrow = begin_centroids(3), begin_centroids(3)
    predicted = predict_and_add_examples(found, block_from_rows(X, y, slice(0, 100)), 10)
    assert predicted.tolist() == predict_and_add_examples(narrow, block_from_rows(X[:, :-1], y, slice(0, 100)), 10).tolist()
    assert np.array_equal(found.sums[:, : X.shape[1]], narrow.sums[:, : X.shape[1]])
    monkeypatch.setattr(running_centroids, "MOST_KEPT", 17)
    assert model_baselines(found, 5) is None


def test_weights_are_computed_a_few_columns_at_a_time_and_empty_rows_have_the_constants(monkeypatch):
    X, y, weight = rows_of(np.random.default_rng(6), n=60)
    whole, found = begin_centroids(4), begin_centroids(4)  # a class without examples
    predict_and_add_examples(whole, block_from_rows(X, y, slice(None), weight), 30)
    monkeypatch.setattr(running_centroids, "CHUNK", 2)
    predict_and_add_examples(found, block_from_rows(X, y, slice(None), weight), 30)
    assert found.weights == pytest.approx(whole.weights, rel=1e-12)
    rows = np.zeros((4, 5))
    rows[1] = X[0]
    predicted = predict_and_add_examples(found, block_from_rows(rows, y[:4], slice(None)), 4, learned=False)
    constants = int(np.argmax(found.weights[:, 0]))
    assert predicted[[0, 2, 3]].tolist() == [constants] * 3
    assert predicted[1] == np.argmax(found.weights[:, 1:] @ X[0] + found.weights[:, 0])
