"""The nearest centroid and the ridge classifier against their definitions, and when a classifier loses to them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from herdcli.errors import DataError
from herdcli.evaluation.verdicts import baseline_loss_findings
from herdcli.numerics.class_baselines import UNKNOWN, average_baselines, count_discordant_rows, fit_baselines


def rows(random: np.random.Generator, n: int, columns: int = 4) -> tuple[np.ndarray, np.ndarray]:
    y = random.integers(0, 3, n)
    return random.normal(size=(n, columns)) * 10.0 ** np.arange(columns) + np.outer(y, np.arange(columns)) + 7.0, y


def by_definition(X: np.ndarray, y: np.ndarray, new: np.ndarray, penalty: float = 1.0) -> np.ndarray:
    """Distances to centroids of standardised columns, and least squares with rows of the penalty below."""
    mean, scale = X.mean(axis=0), X.std(axis=0)
    Z, other = (X - mean) / scale, (new - mean) / scale
    centre = np.stack([Z[y == k].mean(axis=0) for k in range(3)])
    nearest = np.square(other[:, None] - centre).sum(axis=2).argmin(axis=1)
    target = np.where(y[:, None] == np.arange(3), 1.0, -1.0)
    above = np.vstack([Z, np.sqrt(penalty) * np.eye(Z.shape[1])])
    beta = np.linalg.lstsq(above, np.vstack([target - target.mean(axis=0), np.zeros((Z.shape[1], 3))]), rcond=None)[0]
    return np.column_stack([nearest, (other @ beta + target.mean(axis=0)).argmax(axis=1)])


@pytest.mark.parametrize(("n", "columns"), [(200, 4), (30, 8)])
@pytest.mark.parametrize("sparse", [False, True])
def test_predictions_are_those_of_the_definitions(n, columns, sparse):
    random = np.random.default_rng(0)
    (X, y), (new, _) = rows(random, n, columns), rows(random, 300, columns)
    convert = csr_matrix if sparse else np.asarray
    found = fit_baselines(convert(X), y, 3)
    assert found is not None
    assert (found.predictions(convert(new)) == by_definition(X, y, new)).all()


def test_more_columns_than_rows_are_solved_by_rows():
    random = np.random.default_rng(1)
    X, y = random.normal(size=(20, 60)), np.arange(20) % 3
    new = random.normal(size=(50, 60))
    found = fit_baselines(X, y, 3)
    assert found is not None
    assert (found.predictions(new) == by_definition(X, y, new)).all()


def test_weights_are_copies_and_weight_0_is_absence():
    random = np.random.default_rng(2)
    X, y = rows(random, 90)
    weight = random.integers(0, 3, 90)
    copies, weighted = fit_baselines(np.repeat(X, weight, axis=0), np.repeat(y, weight), 3), fit_baselines(X, y, 3, weight.astype(float))
    for name in ("centroid", "linear"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(copies, name), rtol=1e-9, atol=1e-12)


def test_a_constant_column_and_a_class_without_rows_change_nothing():
    random = np.random.default_rng(3)
    (X, y), (new, _) = rows(random, 100), rows(random, 100)
    plain = fit_baselines(X, y, 3).predictions(new)
    beside = fit_baselines(np.insert(X, 1, 0.1, axis=1), y, 4).predictions(np.insert(new, 1, 0.1, axis=1))
    assert (plain == beside).all()


def test_too_large_equations_leave_the_nearest_centroid_alone(monkeypatch):
    from herdcli.numerics import class_baselines

    monkeypatch.setattr(class_baselines, "MOST_SOLVED", 3)
    X, y = rows(np.random.default_rng(4), 50)
    found = fit_baselines(X, y, 3)
    assert found.linear is None
    assert (found.predictions(X)[:, 1] == UNKNOWN).all()
    assert np.isnan(count_discordant_rows(y, y, found.predictions(X))[1]).all()
    monkeypatch.setattr(class_baselines, "MOST_WEIGHTS", 14)
    assert fit_baselines(X, y, 3) is None
    with pytest.raises(DataError, match="must be 3 × 6"):
        found.require_shape(3, 5)


def test_a_loss_is_found_by_mcnemars_statistic():
    """Six rows that the baseline alone gets right, of none that the model does: p = .03; five: .06."""
    y, own = np.zeros(100, dtype=int), np.ones(100, dtype=int)
    own[:94], theirs = 0, np.zeros((100, 2), dtype=int)
    theirs[95:, 1] = 1
    found = count_discordant_rows(y, own, theirs)
    np.testing.assert_array_equal(found, [[0, 6, 0], [5, 1, 0]])
    assert baseline_loss_findings(found, 100) == ["worse than nearest centroid"]
    assert baseline_loss_findings(found, 10_000) == []  # six of 10,000 rows are few
    assert baseline_loss_findings(np.array([[0.0, 5, 0], [np.nan] * 3]), 100) == []
    assert baseline_loss_findings(np.array([[0.0, 0, 9], [1.0, 20, 3]]), 100) == ["worse than a linear model"]


def test_baselines_of_shards_are_averaged():
    """The mean of their scores predicts as the baselines of all rows do where shards are alike."""
    random = np.random.default_rng(3)
    X, y = rows(random, 4000)
    parts = [fit_baselines(X[k::4], y[k::4], 3) for k in range(4)]
    whole = fit_baselines(X, y, 3)
    made = average_baselines(parts, X.shape[1])
    assert made is not None
    assert (made.predictions(X) == whole.predictions(X)).mean() > 0.97
    lacking = fit_baselines(X[y < 2], y[y < 2], 3)
    both = average_baselines([lacking, whole], X.shape[1] + 2)
    np.testing.assert_allclose(both.centroid[2], [*whole.centroid[2, :-1], 0, 0, whole.centroid[2, -1]])
    assert average_baselines([whole, None], 4) is None
    turned = whole.reorder_columns(np.array([2, 0, 3, 1]))
    np.testing.assert_array_equal(turned.predictions(X[:, [2, 0, 3, 1]]), whole.predictions(X))


def test_wide_sparse_rows_are_predicted_many_at_a_time(monkeypatch):
    """Rows of hashed words have 2^18 columns: slices by their dense size would be single rows."""
    random = np.random.default_rng(8)
    few, y = (random.random((60, 50)) < 0.1) * 1.0, random.integers(0, 3, 60)
    X = csr_matrix(few)
    X.resize((60, 1 << 18))
    found, slices, plain = fit_baselines(X, y, 3), [], csr_matrix.__getitem__
    monkeypatch.setattr(csr_matrix, "__getitem__", lambda self, key: slices.append(key) or plain(self, key))
    made = found.predictions(X)
    assert len(slices) == 1
    assert (made[:, 0] == (few @ found.centroid[:, :50].T + found.centroid[:, -1]).argmax(axis=1)).all()
