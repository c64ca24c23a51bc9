"""Factor analysis and its limits against closed forms, scikit-learn and the digits' known answers."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from herdcli.em import driver
from herdcli.em.factor import closed_form_pca, factor_analysis, factor_rotation
from herdcli.errors import BadUsage
from herdcli.numerics import block_statistics

DIGITS = Path(__file__).resolve().parents[2] / "data" / "digits.h5"


def data(n: int = 400, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.normal(size=(n, 2)) @ random.normal(size=(2, 6)) * 2 + random.normal(size=(n, 6)) * np.linspace(0.3, 1.5, 6) + 7.0


def fit(name: str, X: np.ndarray, K: int, iterations: int = 200, weight=None, **options) -> driver.EMFit:
    model, source = factor_analysis.prepare_factors(
        name, block_statistics.RowBlocks(block_statistics.ArrayRows(X, weight=weight)), K, **options
    )
    return driver.run_em(driver.EM(model, source, driver.EMSettings(iterations, 0.0, patience=iterations + 1)))


def gaussian(X: np.ndarray, p: dict) -> float:
    covariance = p["loading"] @ p["loading"].T + np.diag(p["noise"])
    z = X - p["mean"]
    return float(
        np.mean(-0.5 * (np.einsum("nd,nd->n", z, np.linalg.solve(covariance, z.T).T) + np.linalg.slogdet(2 * np.pi * covariance)[1]))
    )


@pytest.mark.parametrize(("K", "expected"), [(5, -168.521188), (10, -160.062174), (20, -150.975716)])
def test_ppca_of_the_digits(K: int, expected: float) -> None:
    with h5py.File(DIGITS) as file:
        X, split = np.asarray(file["X"], dtype=np.float64), np.asarray(file["split"])
    found = block_statistics.row_moments(block_statistics.RowBlocks(block_statistics.ArrayRows(X[split == 0])))
    p = closed_form_pca.ppca_closed_form(found, K, 0.0)
    assert factor_analysis.factor_posterior(p, X[split == 2])[1].mean() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["fa", "ppca"])
@pytest.mark.parametrize("holes", [False, True])
def test_log_likelihood_is_that_of_the_marginal_gaussian(name: str, holes: bool) -> None:
    X = data()
    if holes:
        X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    found = fit(name, X, 2, 40)
    p, total = found.parameters, 0.0
    for row in X:
        o = ~np.isnan(row)
        total += gaussian(row[None, o], {key: value[o] for key, value in p.items()}) if o.any() else 0.0
    assert found.log_likelihood == pytest.approx(total / len(X), abs=1e-11)
    assert found.ledger.largest_rise < 1e-11
    assert found.ledger.kl.min() > -1e-11
    assert factor_analysis.factor_posterior(p, X)[1].mean() == pytest.approx(total / len(X), abs=1e-11)


def test_moments_and_rows_take_the_same_steps() -> None:
    X = data()
    w = np.random.default_rng(2).random(len(X))
    for name in factor_analysis.MODELS:
        model, short = factor_analysis.prepare_factors(
            name, block_statistics.RowBlocks(block_statistics.ArrayRows(X, weight=w)), 2, init="random"
        )
        long = block_statistics.RowBlocks(block_statistics.ArrayRows(X, weight=w))
        a, b = (driver.run_em(driver.EM(model, source, driver.EMSettings(5, 0.0))) for source in (short, long))
        assert a.ledger.free_energy == pytest.approx(b.ledger.free_energy, abs=1e-10)
        assert a.parameters["loading"] == pytest.approx(b.parameters["loading"], abs=1e-10)


def test_ppca_by_em_reaches_its_closed_form() -> None:
    X = data()
    found = fit("ppca", X, 2, 600, init="random")
    exact = closed_form_pca.ppca_closed_form(
        block_statistics.row_moments(block_statistics.RowBlocks(block_statistics.ArrayRows(X))), 2, 0.0
    )
    p = found.parameters
    assert p["noise"] == pytest.approx(exact["noise"], rel=1e-6)
    assert p["loading"] @ p["loading"].T == pytest.approx(exact["loading"] @ exact["loading"].T, abs=1e-5)
    assert found.log_likelihood == pytest.approx(gaussian(X, exact), abs=1e-9)


def test_fa_at_its_optimum() -> None:
    decomposition = pytest.importorskip("sklearn.decomposition")
    X = data()
    found = fit("fa", X, 2, 1000)
    p = found.parameters
    assert np.diag(p["loading"] @ p["loading"].T) + p["noise"] == pytest.approx(X.var(axis=0), rel=1e-5)
    assert p["mean"] == pytest.approx(X.mean(axis=0), abs=1e-9)
    rival = decomposition.FactorAnalysis(2, tol=1e-12, max_iter=20_000, svd_method="lapack").fit(X)
    assert found.log_likelihood == pytest.approx(rival.score(X), abs=1e-7)
    assert factor_analysis.factor_posterior(p, X)[1].mean() == pytest.approx(found.log_likelihood, abs=1e-10)


def test_pca_by_em_is_the_subspace_of_the_closed_form() -> None:
    X = data()
    found = fit("pca", X, 2, 300, init="random")
    axes, variance = closed_form_pca.pca_closed_form(
        block_statistics.row_moments(block_statistics.RowBlocks(block_statistics.ArrayRows(X))), 2
    )
    q = np.linalg.qr(found.parameters["loading"])[0]
    assert np.linalg.svd(q.T @ axes)[1] == pytest.approx([1.0, 1.0], abs=1e-10)
    assert -found.log_likelihood == pytest.approx(X.var(axis=0).sum() - variance.sum(), rel=1e-10)
    assert found.ledger.largest_rise < 1e-12


def test_pca_of_rows_with_gaps_fills_a_plane_exactly() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 2)) @ random.normal(size=(2, 6)) + 3.0
    broken = np.where(random.random(X.shape) < 0.15, np.nan, X)
    found = fit("pca", broken, 2, 400)
    p = found.parameters
    assert factor_analysis.factor_posterior(p, broken)[0] @ p["loading"].T + p["mean"] == pytest.approx(X, abs=1e-4)


def test_constant_columns_are_floored_and_told() -> None:
    X = data()
    X[:, 3] = 2.0
    found = fit("fa", X, 2, 20)
    assert found.ledger.floors.max() >= 1
    assert found.parameters["noise"][3] > 0
    assert found.ledger.largest_rise < 1e-9


def test_too_many_factors_are_refused() -> None:
    with pytest.raises(BadUsage, match="fa cannot learn 6 factors from 6 columns"):
        fit("fa", data(), 6)
    with pytest.raises(BadUsage, match="unknown model 'nmf'"):
        fit("nmf", data(), 2)


def test_varimax_finds_simple_structure_and_is_a_rotation() -> None:
    random = np.random.default_rng(0)
    simple = np.kron(np.eye(3), np.ones((4, 1))) * random.uniform(0.5, 1.5, (12, 1))
    turned = simple @ np.linalg.qr(random.normal(size=(3, 3)))[0]
    L, R = factor_rotation.varimax(turned)
    assert pytest.approx(np.eye(3), abs=1e-12) == R.T @ R
    assert turned @ R == pytest.approx(L, abs=1e-12)
    order = np.abs(L)[::4].argmax(axis=1)
    assert sorted(order) == [0, 1, 2]
    assert np.abs(L[:, order]) == pytest.approx(simple, abs=1e-6)


def test_varimax_has_the_largest_variance_of_squared_loadings_of_all_angles_and_promax_regresses_on_fourth_powers() -> None:
    loading = np.random.default_rng(4).normal(size=(7, 2))
    L, R = factor_rotation.varimax(loading)
    angles = np.linspace(0, np.pi / 2, 20_001)
    c, s = np.cos(angles), np.sin(angles)
    turned = loading @ np.moveaxis(np.array([[c, -s], [s, c]]), 2, 0)
    assert np.square(L).var(axis=0).sum() == pytest.approx(np.square(turned).var(axis=1).sum(axis=1).max(), rel=1e-7)
    oblique, T, correlation = factor_rotation.promax(loading)
    wanted = np.linalg.lstsq(L, np.abs(L) ** 4 * np.sign(L), rcond=None)[0]
    inverse = np.linalg.inv(wanted)
    size = np.sqrt(np.diag(inverse @ inverse.T))
    assert pytest.approx(wanted * size, abs=1e-12) == R.T @ T
    assert correlation == pytest.approx(inverse @ inverse.T / np.outer(size, size), abs=1e-12)
    assert oblique == pytest.approx(loading @ T, abs=1e-12)


def test_promax_keeps_the_covariance_and_finds_oblique_factors() -> None:
    random = np.random.default_rng(0)
    simple = np.kron(np.eye(2), np.ones((5, 1))) * random.uniform(0.5, 1.5, (10, 1))
    phi = np.array([[1.0, 0.5], [0.5, 1.0]])
    loading = simple @ np.linalg.cholesky(phi)
    L, T, correlation = factor_rotation.promax(loading)
    assert L @ correlation @ L.T == pytest.approx(loading @ loading.T, abs=1e-10)
    assert np.diag(correlation) == pytest.approx([1.0, 1.0])
    assert loading @ T == pytest.approx(L, abs=1e-12)
    assert abs(correlation[0, 1]) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("init", ["newton", "random"])
def test_noise_at_its_floor_costs_the_ledger_no_digits(init) -> None:
    """Columns of variance 100 that 25 factors leave a millionth of: sums of squares, not differences, keep what is left."""
    random = np.random.default_rng(0)
    X = 10.0 * random.normal(size=(300, 25)) @ random.normal(size=(25, 50)) / 5.0 + 1e-3 * random.normal(size=(300, 50))
    found = fit("fa", X, 25, 30, init=init)
    assert found.parameters["noise"].min() < 1e-3
    assert found.ledger.largest_rise < 1e-11
    S = np.cov(X.T, bias=True)
    C, noise = found.parameters["loading"], found.parameters["noise"]
    model = C @ C.T + np.diag(noise)
    exact = -0.5 * (50 * np.log(2 * np.pi) + np.linalg.slogdet(model)[1] + np.trace(np.linalg.solve(model, S)))
    assert found.log_likelihood == pytest.approx(exact, abs=1e-7)


@pytest.mark.parametrize(("init", "near"), [("pca", 1e-8), ("random", 1e-4)])
def test_ppca_learns_nothing_from_columns_of_one_value(init: str, near: float) -> None:
    """The noise is that of the columns that vary: the axes and densities of the rows without the others, whose noise is the floor."""
    random = np.random.default_rng(11)
    X = random.normal(size=(300, 2)) @ random.normal(size=(2, 4)) * 2 + 0.5 * random.normal(size=(300, 4)) + [1.0, 5.0, -3.0, 0.0]
    plain = fit("ppca", X, 2, 1500, init=init).parameters
    whole = fit("ppca", np.insert(X, [1, 3], [[3.0, -0.1]], axis=1), 2, 1500, init=init).parameters
    varies, floor = [0, 2, 3, 5], 1e-6 * X.var(axis=0).mean()
    np.testing.assert_allclose(whole["noise"], np.where(np.isin(np.arange(6), varies), plain["noise"][0], floor), rtol=near)
    np.testing.assert_array_equal(np.delete(whole["loading"], varies, axis=0), 0.0)
    covariance = [p["loading"] @ p["loading"].T + np.diag(p["noise"]) for p in (plain, whole)]
    np.testing.assert_allclose(covariance[1][np.ix_(varies, varies)], covariance[0], rtol=near, atol=100 * near)
    values = np.linalg.eigvalsh(np.cov(X.T, bias=True))
    np.testing.assert_allclose(plain["noise"], values[:2].mean(), rtol=near)
