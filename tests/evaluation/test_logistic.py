"""Multinomial logistic regression against its optimality conditions and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.evaluation.baselines import logistic


def problem(rows: int = 200, width: int = 4, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping classes: labels drawn from a logistic model."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, width))
    logits = X @ random.normal(size=(width, classes)) + random.normal(size=classes)
    return X, (logits + random.gumbel(size=logits.shape)).argmax(axis=1)


def gradient(found: logistic.LogisticFit, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of the penalised loss in the C(d + 1) parameters, from the formula."""
    residual = found.probabilities(X) - np.eye(len(found.intercept))[y]
    return np.column_stack([residual.T @ X + found.penalty * found.W, residual.sum(axis=0)])


@pytest.mark.parametrize("penalty", [0.0, 0.1, 10.0])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_fit_is_stationary(penalty, classes):
    X, y = problem(classes=classes)
    found = logistic.fit_logistic(X, y, classes, penalty)
    assert found.converged
    assert not found.separable
    assert np.abs(gradient(found, X, y)).max() < 1e-4
    np.testing.assert_allclose(found.W.sum(axis=0), 0, atol=1e-12)
    assert found.loss == pytest.approx(-np.log(found.probabilities(X)[np.arange(len(y)), y]).sum())
    assert found.loss == pytest.approx(found.log_loss(X, y))


def test_both_solvers_find_the_same_minimum(monkeypatch):
    X, y = problem()
    newton = logistic.fit_logistic(X, y, 3, 0.5)
    monkeypatch.setattr(logistic, "NEWTON_SIZE", 0)
    quasi = logistic.fit_logistic(X, y, 3, 0.5)
    assert quasi.converged
    np.testing.assert_allclose(quasi.W, newton.W, atol=1e-4)
    np.testing.assert_allclose(quasi.intercept, newton.intercept, atol=1e-4)


@pytest.mark.parametrize("penalty", [0.05, 2.0])
def test_fit_agrees_with_scikit_learn(penalty):
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = problem(rows=300, width=6, classes=4)
    theirs = linear_model.LogisticRegression(C=1 / penalty, tol=1e-10, max_iter=10_000).fit(X, y)
    ours = logistic.fit_logistic(X, y, 4, penalty)
    np.testing.assert_allclose(ours.W, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.probabilities(X), theirs.predict_proba(X), atol=1e-5)


def test_start_changes_the_way_not_the_end():
    X, y = problem()
    cold = logistic.fit_logistic(X, y, 3, 0.2)
    warm = logistic.fit_logistic(X, y, 3, 0.2, start=logistic.fit_logistic(X, y, 3, 100.0))
    np.testing.assert_allclose(warm.W, cold.W, atol=1e-5)


@pytest.mark.parametrize("size", [10_000, 0])
def test_separable_rows_without_penalty_end_with_every_row_right(size, monkeypatch):
    monkeypatch.setattr(logistic, "NEWTON_SIZE", size)
    X = np.array([[0.0], [1.0], [10.0], [11.0], [20.0], [21.0]])
    y = np.array([0, 0, 1, 1, 2, 2])
    found = logistic.fit_logistic(X, y, 3)
    assert found.separable
    assert found.converged
    assert found.loss < 1e-4 * len(y)
    assert np.isfinite(found.W).all()
    np.testing.assert_array_equal(found.probabilities(X).argmax(axis=1), y)


def test_quasi_separable_rows_without_penalty_end():
    """Classes that touch in one point: the loss has an infimum of 2 log 2 and no minimum."""
    X = np.array([[-2.0], [-1.0], [0.0], [0.0], [1.0], [2.0]])
    found = logistic.fit_logistic(X, np.array([0, 0, 0, 1, 1, 1]), 2)
    assert not found.separable
    assert found.loss == pytest.approx(2 * np.log(2), abs=1e-4)


def test_a_class_without_rows_is_never_predicted():
    X, y = problem(classes=2)
    found = logistic.fit_logistic(X, y, 3, 1.0)
    assert found.probabilities(X)[:, 2].max() < 1e-4


def test_constant_and_repeated_features_do_no_harm():
    X, y = problem()
    wide = np.column_stack([X, X, np.ones(len(X)), np.zeros(len(X))])
    plain, doubled = logistic.fit_logistic(X, y, 3, 0.0), logistic.fit_logistic(wide, y, 3, 0.0)
    np.testing.assert_allclose(doubled.probabilities(wide), plain.probabilities(X), atol=1e-4)


def test_hard_start_does_not_make_newton_overshoot():
    """Features of very different size and a far start: undamped Newton diverges here."""
    X, y = problem(rows=60)
    X = X * np.array([1e-3, 1.0, 1.0, 1e3])
    start = logistic.LogisticFit(np.full((3, 4), 0.0) + np.array([[5.0], [-5.0], [0.0]]), np.zeros(3), 0.0, 0.0, True, False)
    found = logistic.fit_logistic(X, y, 3, 1e-3, start=start)
    assert found.converged
    assert found.loss <= start.log_loss(X, y)
    assert found.loss == pytest.approx(logistic.fit_logistic(X, y, 3, 1e-3).loss, rel=1e-6)


def test_folds_are_even_in_every_class_and_depend_on_the_seed():
    y = np.repeat([0, 1, 2], [50, 25, 10])
    assigned = logistic.assign_stratified_folds(y, 5, seed=1)
    for label in range(3):
        counts = np.bincount(assigned[y == label], minlength=5)
        assert counts.max() - counts.min() <= 1
    np.testing.assert_array_equal(assigned, logistic.assign_stratified_folds(y, 5, seed=1))
    assert (assigned != logistic.assign_stratified_folds(y, 5, seed=2)).any()


def test_penalty_is_strong_for_noise_and_weak_for_signal():
    random = np.random.default_rng(0)
    X, y = problem(rows=400)
    noise = logistic.choose_penalty(X, random.permutation(y), 3, seed=0)
    signal = logistic.choose_penalty(X, y, 3, seed=0)
    assert noise > 10 * signal
    assert logistic.fit_penalised_logistic(X, y, 3, penalty=None, seed=0).penalty == signal
    assert logistic.fit_penalised_logistic(X, y, 3, penalty=0.25, seed=0).penalty == 0.25


@pytest.mark.parametrize(("rows", "classes", "penalty"), [(0, 3, 0.0), (10, 1, 0.0), (10, 3, -1.0)])
def test_impossible_fits_are_refused(rows, classes, penalty):
    with pytest.raises(ValueError, match="needs rows, two classes and a penalty"):
        logistic.fit_logistic(np.zeros((rows, 2)), np.zeros(rows, dtype=int), classes, penalty)
