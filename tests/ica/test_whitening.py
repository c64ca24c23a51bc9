"""Whitening: unit covariance, its inverse, what is dropped, and that both ways to the components agree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from herdcli.errors import BadUsage, DataError
from herdcli.ica import whitening
from herdcli.schema import check_arrays


def correlated(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Rows with a mean and variances that fall off."""
    rng = np.random.default_rng(seed)
    return 3.0 + rng.normal(size=(rows, columns)) @ rng.normal(size=(columns, columns)) * 0.7 ** np.arange(columns)


@pytest.mark.parametrize("method", ["pca", "zca"])
def test_whitened_rows_have_the_identity_as_covariance(method):
    X = correlated(500, 8)
    Z = whitening.fit_whitening(X, method=method).apply(X)
    assert np.allclose(Z.mean(axis=0), 0.0, atol=1e-10)
    assert np.allclose(Z.T @ Z / len(Z), np.eye(8), atol=1e-9)


def test_zca_is_the_inverse_square_root_of_the_covariance():
    X = correlated(300, 5)
    forward = whitening.fit_whitening(X, method="zca").forward
    assert np.allclose(forward, forward.T)
    assert np.allclose(forward @ np.cov(X.T, bias=True) @ forward, np.eye(5), atol=1e-9)


@pytest.mark.parametrize("method", ["pca", "zca", "centre"])
@pytest.mark.parametrize("log", [False, True])
def test_undoing_gives_the_rows_back(method, log):
    X = np.abs(correlated(200, 6))
    fitted = whitening.fit_whitening(X, method=method, log=log)
    check_arrays(fitted)
    assert np.allclose(fitted.undo(fitted.apply(X)), X)
    assert np.allclose(fitted.forward @ fitted.backward, np.eye(6))


def test_components_are_the_largest_and_undoing_projects_on_them():
    X = correlated(200, 6)
    fitted = whitening.fit_whitening(X, components=2)
    values, vectors = np.linalg.eigh(np.cov(X.T, bias=True))
    projector = vectors[:, -2:] @ vectors[:, -2:].T
    assert np.allclose(fitted.variance, values[:-3:-1])
    assert np.allclose(fitted.undo(fitted.apply(X)), X.mean(axis=0) + (X - X.mean(axis=0)) @ projector)
    assert fitted.kept_variance_fraction == pytest.approx(values[-2:].sum() / values.sum())
    assert fitted.dropped == 0


def test_as_few_components_are_kept_as_have_a_share_of_the_variance():
    X = correlated(300, 5)
    values = np.linalg.eigvalsh(np.cov(X.T, bias=True))[::-1]
    for count in range(1, 6):
        share = values[:count].sum() / values.sum()
        for asked, kept in ((share, count), (share - 1e-6, count), (min(1.0, share + 1e-6), min(5, count + 1))):
            fitted = whitening.fit_whitening(X, share=asked)
            assert len(fitted.forward) == len(fitted.variance) == kept
            assert fitted.kept_variance_fraction >= asked - 1e-9
    with pytest.raises(BadUsage, match="zca keeps all 5 components, so it cannot keep a share of the variance"):
        whitening.fit_whitening(X, method="zca", share=0.5)
    for components in (1, 5):
        assert len(whitening.fit_whitening(X, components=components).forward) == components
    with pytest.raises(BadUsage, match="cannot keep 0 components of 5 columns"):
        whitening.fit_whitening(X, components=0)


def test_whitening_by_factors_is_that_of_rows_over_their_noise():
    """z = Θ^−½ U'Ψ^−½ (x − m): uncorrelated, by descending power, and back to what the factors have of a row."""
    random = np.random.default_rng(0)
    X = random.standard_normal((400, 2)) @ random.standard_normal((2, 6)) + random.standard_normal((400, 6)) * np.arange(1, 7) / 4 + 2.0
    fitted = whitening.fit_whitening(X, method="fa", components=2)
    Z = fitted.apply(X)
    np.testing.assert_allclose(Z.T @ Z / 400, np.eye(2), atol=1e-6)
    np.testing.assert_allclose(fitted.forward @ fitted.backward, np.eye(2), atol=1e-9)
    np.testing.assert_allclose(fitted.variance, np.square(fitted.backward).sum(axis=0))
    assert fitted.variance[0] > fitted.variance[1]
    assert (fitted.dropped, fitted.method, fitted.total) == (0, "fa", pytest.approx(X.var(axis=0).sum()))
    with pytest.raises(BadUsage, match="--whiten fa needs a number of components"):
        whitening.fit_whitening(X, method="fa")
    left, _, right = np.linalg.svd(fitted.forward, full_matrices=False)
    np.testing.assert_allclose(fitted.filters_in_row_axes(np.eye(2)), left @ right)
    doubled = np.column_stack([X, X[:, 0]])
    assert whitening.fit_whitening(doubled, method="fa", components=2).dropped == 1


def test_rows_are_whitened_block_by_block_and_the_bad_one_is_named(monkeypatch):
    X = np.abs(correlated(20, 4))
    fitted = whitening.fit_whitening(X, log=True)
    whole = fitted.apply(X)
    np.testing.assert_allclose(whole, (np.log1p(X) - fitted.mean) @ fitted.forward.T)
    monkeypatch.setattr(whitening, "BLOCK", 3)
    np.testing.assert_allclose(fitted.apply(X), whole)
    X[13, 2] = -0.1
    with pytest.raises(DataError, match="first in row 13"):
        fitted.apply(X)
    assert whitening.find_constant_columns(np.array([[1.0, 2, 3], [1, 5, 3]])).tolist() == [0, 2]
    for changes in ({"mean": np.zeros(0)}, {"forward": np.zeros((0, 4))}):
        with pytest.raises(DataError, match="the whitening keeps no components"):
            replace(fitted, **changes).validate()


def test_covariance_and_gram_matrix_give_the_same_components():
    X = correlated(40, 6)
    wide = np.hstack([X, np.zeros((40, 60))])  # more columns than rows: the Gram matrix is the smaller one
    narrow, dual = whitening.fit_whitening(X), whitening.fit_whitening(wide)
    assert dual.dropped == 60
    assert np.allclose(dual.variance, narrow.variance)
    assert np.allclose(dual.forward[:, :6], narrow.forward)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_directions_without_variance_are_dropped_and_counted(dtype):
    X = correlated(300, 5).astype(dtype)
    X = np.hstack([X, X[:, :1] + 2 * X[:, 1:2], np.full((300, 1), 0.1, dtype=dtype)])  # a combination and a constant channel
    fitted = whitening.fit_whitening(X, method="zca")
    assert (fitted.method, fitted.dropped, len(fitted.forward)) == ("pca", 2, 5)
    assert np.allclose(fitted.undo(fitted.apply(X)), X, atol=1e-5)


def test_fewer_rows_than_columns_leave_one_component_less_than_rows():
    fitted = whitening.fit_whitening(correlated(10, 30), components=20)
    assert len(fitted.forward) == 9
    assert fitted.dropped == 21


def test_integers_are_whitened_as_the_same_floats():
    X = np.random.default_rng(0).integers(0, 256, size=(100, 4), dtype=np.uint8)
    assert np.array_equal(whitening.fit_whitening(X).forward, whitening.fit_whitening(X.astype(np.float64)).forward)


@pytest.mark.parametrize(
    ("X", "options", "error", "message"),
    [
        (np.ones((1, 3)), {}, DataError, "principal components need rows that differ, but all rows are equal"),
        (np.full((7, 3), 0.1), {}, DataError, "principal components need rows that differ, but all rows are equal"),
        (np.full((7, 3), 0.1), {"method": "centre"}, DataError, "principal components need rows that differ, but all rows are equal"),
        (np.eye(3), {"components": 4}, BadUsage, "cannot keep 4 components of 3 columns"),
        (np.eye(3), {"method": "zca", "components": 2}, BadUsage, "--whiten zca keeps all 3 components, so it cannot keep 2"),
        (
            np.eye(3) - 1,
            {"log": True},
            DataError,
            "/X has negative values, first in row 0, but log(1 + x) needs values of 0 or more",
        ),
    ],
)
def test_rows_that_cannot_be_whitened_are_refused(X, options, error, message):
    with pytest.raises(error) as caught:
        whitening.fit_whitening(X, **options)
    assert str(caught.value) == message


def test_other_columns_are_refused():
    fitted = whitening.fit_whitening(correlated(20, 4), components=2)
    with pytest.raises(DataError, match=r"^/X has 5 columns, but the whitening was fitted to 4$"):
        fitted.apply(np.ones((2, 5)))
    with pytest.raises(DataError, match=r"^/X has 4 columns, but the whitening keeps 2$"):
        fitted.undo(np.ones((2, 4)))
    logged = whitening.fit_whitening(np.abs(correlated(20, 4)), log=True)
    with pytest.raises(DataError, match=r"^/X has negative values, first in row 1, but log\(1 \+ x\) needs values of 0 or more$"):
        logged.apply(np.array([[0.0] * 4, [-1.0] * 4]))


def test_filters_turned_to_the_rows_axes_do_to_zca_rows_what_they_did_to_pca_rows():
    X = correlated(100, 5)
    J = np.random.default_rng(1).normal(size=(7, 5))
    pca, zca = whitening.fit_whitening(X), whitening.fit_whitening(X, method="zca")
    assert np.allclose(zca.apply(X) @ pca.filters_in_row_axes(J).T, pca.apply(X) @ J.T)
    assert np.array_equal(zca.filters_in_row_axes(J), J)


@pytest.mark.parametrize("units", [[1, 1, 1e-6, 1e-6], [1e9, 1e-9, 1.0, 1e3]])
@pytest.mark.parametrize(("method", "components"), [("zca", None), ("pca", None), ("pca", 3), ("fa", 1)])
def test_columns_of_unlike_units_keep_their_directions(units, method, components):
    """Multiplying columns changes no rank and no whitened row, but for what small units would have cost by rounding."""
    X = correlated(500, 4)
    deviation = X.std(axis=0)
    plain = whitening.fit_whitening(X / deviation, method=method, components=components)
    scaled = whitening.fit_whitening(X / deviation * units, method=method, components=components)
    assert (len(scaled.forward), scaled.dropped, scaled.method) == (len(plain.forward), 0, plain.method)
    np.testing.assert_allclose(scaled.apply(X / deviation * units), plain.apply(X / deviation), atol=1e-6)
    np.testing.assert_allclose(scaled.undo(scaled.apply(X * units)) / units, plain.undo(plain.apply(X)), atol=1e-6)
    J = np.eye(len(plain.forward))
    if method != "fa":
        np.testing.assert_allclose(scaled.filters_in_row_axes(J), plain.filters_in_row_axes(J), atol=1e-6)


def test_few_rows_of_unlike_units_span_one_direction_less_than_rows():
    X = correlated(5, 8) * [1, 1e-7, 1, 1, 1e7, 1, 1, 1]
    assert len(whitening.fit_whitening(X).forward) == 4


def test_a_constant_column_among_unlike_units_is_dropped_alone():
    X = np.column_stack([correlated(300, 3) * [1, 1e-8, 1e8], np.full(300, 1e-3)])
    fitted = whitening.fit_whitening(X)
    assert (len(fitted.forward), fitted.dropped) == (3, 1)
