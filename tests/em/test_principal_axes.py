"""Principal axes of wide rows against LAPACK's of their covariance."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.em.artifacts import factor_artifact
from herdcli.em.factor import closed_form_pca, principal_axes
from herdcli.numerics.block_statistics import ArrayRows, RowBlocks, marginal_moments, row_moments


def decaying(n, D, share=0.9, seed=0):
    return np.random.default_rng(seed).normal(size=(n, D)) * share ** np.arange(D) + np.linspace(-3, 100, D)


def found(X, K, exact, weight=None, map=map):
    source = RowBlocks(ArrayRows(X, weight=weight))
    return run_algorithm(principal_axes.PrincipalAxes(source, marginal_moments(source, map), K, exact, 1e-9, map=map))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("exact", "shape"), [(True, (40, 90)), (False, (5000, 60)), (False, (50, 300))])
def test_axes_variances_and_errors_are_those_of_the_covariance(exact, shape, weighted):
    X = decaying(*shape)
    weight = np.random.default_rng(1).uniform(0, 2, len(X)) if weighted else None
    Z = X - np.average(X, axis=0, weights=weight)
    values, vectors = np.linalg.eigh(cov(Z, weight))
    fit = found(X, 5, exact, weight).fit
    expected = vectors[:, ::-1][:, :5]
    own = fit.parameters["loading"] / np.linalg.norm(fit.parameters["loading"], axis=0)
    np.testing.assert_allclose(np.abs((own * expected).sum(axis=0)), 1.0, atol=1e-8)
    assert -fit.log_likelihood == pytest.approx(values.sum() - values[::-1][:5].sum(), rel=1e-8)
    rest = values[::-1][5:].mean()
    np.testing.assert_allclose(np.linalg.norm(fit.parameters["loading"], axis=0), np.sqrt(values[::-1][:5] - rest), rtol=1e-8)


def cov(Z, weight):
    w = np.ones(len(Z)) if weight is None else weight
    return (Z * w[:, None]).T @ Z / w.sum()


def test_loadings_are_those_that_the_covariance_gives():
    X = decaying(30, 50)
    source = RowBlocks(ArrayRows(X))
    expected = closed_form_pca.ppca_closed_form(row_moments(source), 4, 1e-9)["loading"]
    for exact in (True, False):
        np.testing.assert_allclose(found(X, 4, exact).fit.parameters["loading"], expected, rtol=1e-5, atol=1e-7)


def test_a_flat_spectrum_takes_more_passes_and_ends_where_the_exact_one_does():
    X = np.random.default_rng(2).normal(size=(400, 120)) * np.linspace(1.5, 1, 120)
    fit = found(X, 3, exact=False).fit
    lead = np.linalg.eigvalsh(np.cov(X.T, bias=True))[::-1]
    assert -fit.log_likelihood == pytest.approx(lead[3:].sum(), rel=1e-6)


def test_passes_begin_with_nothing_and_end_where_one_adds_nothing():
    X = decaying(400, 60, 0.5)
    source = RowBlocks(ArrayRows(X))
    told = marginal_moments(source)
    few = principal_axes.PrincipalAxes(source, told, 3, True, 1e-9)
    begun = few.init()
    assert (begun.step, begun.span.shape, begun.axes.shape, begun.values.tolist(), begun.gained) == (0, (60, 0), (60, 3), [0.0] * 3, np.inf)
    state = few.step(begun)
    assert (state.step, state.gained, few.done(state), few.progress(state).bound) == (1, 0.0, True, 1)
    many = principal_axes.PrincipalAxes(source, told, 3, False, 1e-9)
    begun = many.init()
    assert (begun.step, begun.span.shape, many.width, many.progress(begun).bound) == (0, (60, 13), 13, principal_axes.PASSES)
    np.testing.assert_allclose(begun.span.T @ begun.span, np.eye(13), atol=1e-12)
    one, two = many.step(many.init()), many.step(many.step(many.init()))
    assert one.gained == pytest.approx(one.values.sum() / told.variance.sum())
    assert two.gained == pytest.approx((two.values.sum() - one.values.sum()) / told.variance.sum(), abs=1e-12)
    assert not many.done(one)
    one.gained = 0.0
    assert not many.done(one)  # one pass has nothing to be compared with
    two.gained = principal_axes.SETTLED
    assert many.done(two)
    two.gained, two.step = 1.0, principal_axes.PASSES
    assert many.done(two)
    fit = many.result(two).fit
    left = told.variance.sum() - two.values.sum()
    assert (fit.log_likelihood, fit.iterations.tolist(), fit.converged.tolist(), fit.mass) == (pytest.approx(-left), [0], [False], 400.0)
    assert (fit.objectives[0], fit.ledger.free_energy[0], fit.ledger.floors.tolist()) == (pytest.approx(-left), pytest.approx(left), [0])


def test_more_axes_than_rows_have_are_nought():
    X = decaying(6, 20)
    value = factor_artifact(found(X, 9, exact=True).fit, "pca", 1e-9, 0)
    assert np.count_nonzero(np.linalg.norm(value.loading, axis=0)) == 5
    np.testing.assert_allclose(value.reconstruct(X), X, atol=1e-7)
    assert value.densities(X) == pytest.approx(0, abs=1e-12)


def test_margins_are_those_of_the_rows():
    X = decaying(9000, 7) + 1e6
    weight = np.random.default_rng(3).uniform(0, 1, 9000)
    told = marginal_moments(RowBlocks(ArrayRows(X, weight=weight)))
    mean = weight @ X / weight.sum()
    np.testing.assert_allclose(told.mean, mean, rtol=1e-13)
    np.testing.assert_allclose(told.variance, weight @ (X - mean) ** 2 / weight.sum(), rtol=1e-9)
    assert (told.rows, told.missing) == (9000, 0)
    assert told.mass == pytest.approx(weight.sum())
    X[5, 2] = np.nan
    assert marginal_moments(RowBlocks(ArrayRows(X))).missing == 1


def test_threads_change_no_bit():
    from concurrent.futures import ThreadPoolExecutor

    X = decaying(9000, 40)
    with ThreadPoolExecutor(2) as pool:
        one, two = (found(X, 3, exact=False, map=m).fit.parameters["loading"] for m in (map, pool.map))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("asked", "shape", "K", "how"),
    [
        ("auto", (100, 5000), 20, "rows"),
        ("lapack", (100, 5000), 20, "rows"),
        ("randomised", (100, 5000), 20, "randomised"),
        ("auto", (20_000, 3000), 20, "randomised"),
        ("lapack", (20_000, 3000), 20, "columns"),
        ("auto", (20_000, 3000), 2000, "columns"),
        ("auto", (20_000, 300), 3, "columns"),
    ],
)
def test_what_is_cheapest_is_chosen(asked, shape, K, how):
    assert principal_axes.choose_solver(asked, *shape, K, complete=True) == how
    assert principal_axes.choose_solver(asked, *shape, K, complete=False) == "columns"
