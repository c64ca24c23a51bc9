"""Principal components against the singular value decomposition, on tall and on wide matrices."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.errors import DataError
from herdcli.numerics import principal_components as module
from herdcli.numerics.principal_components import fit_principal_components


@pytest.fixture(params=[(40, 12), (12, 40)], ids=["tall", "wide"])
def rows(request):
    n, D = request.param
    return np.random.default_rng(3).normal(size=(n, D)) * np.linspace(1, 3, D) + np.arange(D)


def test_eigenvalues_and_directions_are_those_of_the_singular_value_decomposition(rows):
    found = fit_principal_components(rows, 5)
    _, singular, right = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    np.testing.assert_allclose(found.eigenvalues, singular[:5] ** 2 / len(rows), rtol=1e-12)
    np.testing.assert_allclose(np.abs(np.sum(found.components * right[:5], axis=1)), 1, rtol=1e-10)
    np.testing.assert_allclose(found.components @ found.components.T, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(found.mean, rows.mean(axis=0))
    assert found.total == pytest.approx(np.var(rows, axis=0).sum())


def test_all_components_give_the_rows_back(rows):
    found = fit_principal_components(rows)
    np.testing.assert_allclose(found.project(rows) @ found.components + found.mean, rows, atol=1e-11)
    assert found.rank == len(found.components) == min(rows.shape[1], len(rows) - 1)


def test_largest_entry_of_a_component_is_positive_and_turning_all_rows_round_changes_nothing(rows):
    found, turned = fit_principal_components(rows), fit_principal_components(-rows)
    largest = np.abs(found.components).argmax(axis=1)
    assert (found.components[np.arange(len(largest)), largest] > 0).all()
    np.testing.assert_allclose(turned.components, found.components, atol=1e-9)


def test_directions_without_variance_are_left_out():
    rows = np.random.default_rng(0).integers(0, 255, size=(30, 3)) @ np.random.default_rng(1).integers(-3, 4, size=(3, 50))
    found = fit_principal_components(rows, 10)
    assert found.rank == len(found.components) == 3
    np.testing.assert_allclose(found.project(rows) @ found.components + found.mean, rows, atol=1e-9)


def test_components_of_weak_directions_stay_orthogonal():
    random = np.random.default_rng(5)
    rows = random.normal(size=(20, 60)) * np.logspace(0, -5, 60)
    components = fit_principal_components(rows).components
    np.testing.assert_allclose(components @ components.T, np.eye(len(components)), atol=1e-12)


def test_a_given_mean_takes_the_place_of_the_rows_own(rows):
    found = fit_principal_components(rows, 3, mean=np.zeros(rows.shape[1]))
    np.testing.assert_allclose(found.eigenvalues, np.linalg.svd(rows, compute_uv=False)[:3] ** 2 / len(rows))


def test_the_trace_and_rank_count_components_that_were_left_out(rows):
    found = fit_principal_components(rows, 2)
    assert len(found.components) == len(found.eigenvalues) == 2
    assert found.total == pytest.approx(np.var(rows, axis=0).sum())
    assert found.rank == min(rows.shape[1], len(rows) - 1)
    first = found.keep_leading(1)
    np.testing.assert_array_equal(first.components, found.components[:1])
    np.testing.assert_array_equal(first.eigenvalues, found.eigenvalues[:1])
    assert len(found.keep_leading(9).components) == 2


def test_blocks_of_rows_have_the_covariance_of_all(monkeypatch):
    rows = np.random.default_rng(3).normal(size=(50, 4)) + 5
    for block in (1, 12, 40, 1 << 20):
        monkeypatch.setattr(module, "BLOCK", block)
        mean, square = module.mean_and_covariance(rows)
        np.testing.assert_allclose(mean, rows.mean(axis=0))
        np.testing.assert_allclose(square, np.cov(rows.T, bias=True), rtol=1e-12)


def test_rows_that_differ_by_rounding_alone_are_alike():
    """Rows that are 0.1 times a whole number, the same in each, leave a variance of rounding; one row of one differs by nothing."""
    for rows in (np.full((5, 1), 1e8) + 0.1, np.tile([0.1, 0.7, 1e6], (9, 1)), np.ones((1, 4))):
        with pytest.raises(DataError, match="but all rows are equal"):
            fit_principal_components(rows)
    tiny = np.array([[1e6, 0.0], [1e6 + 1e-6, 0.0]])
    assert fit_principal_components(tiny).eigenvalues[0] == pytest.approx(2.5e-13, rel=1e-3)


def test_bytes_are_centred_without_overflow():
    rows = np.random.default_rng(2).integers(0, 256, size=(300, 4), dtype=np.uint8)
    np.testing.assert_allclose(
        fit_principal_components(rows).eigenvalues, fit_principal_components(rows.astype(float)).eigenvalues, rtol=1e-12
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((0, 3)), "principal components need rows, but there are none"),
        (np.full((7, 3), 0.1), "principal components need rows that differ, but all rows are equal"),
    ],
)
def test_rows_without_variance_are_refused(rows, message):
    with pytest.raises(DataError, match=f"^{message}$"):
        fit_principal_components(rows)
