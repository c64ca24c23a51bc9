"""Factor analysis: its likelihood equations, scikit-learn's, and rows whitened by it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from herdcli.artifacts import load
from herdcli.errors import BadUsage, DataError
from herdcli.ica import whitening
from herdcli.numerics import factor_model

DIGITS = Path(__file__).resolve().parents[2] / "data" / "digits.h5"


def noisy(n=3000, seed=0):
    """Eight columns of two factors and very unlike noises: X, Λ, Ψ."""
    random = np.random.default_rng(seed)
    loadings, noise = random.standard_normal((8, 2)), np.array([0.1, 0.3, 0.2, 8.0, 0.4, 20.0, 0.5, 0.2])
    X = random.laplace(size=(n, 2)) / np.sqrt(2) @ loadings.T + np.sqrt(noise) * random.standard_normal((n, 8)) + 3.0
    return X, loadings, noise


def test_the_likelihood_equations_hold():
    """∂/∂Ψ: diag(Σ⁻¹ (Σ − S) Σ⁻¹) = 0, and ∂/∂Λ: Σ⁻¹ (Σ − S) Σ⁻¹ Λ = 0."""
    S = np.cov(noisy()[0].T, bias=True)
    found = factor_model.fit_factors(S, 2)
    model = found.loadings @ found.loadings.T + np.diag(found.noise)
    score = np.linalg.solve(model, np.linalg.solve(model, model - S).T)
    assert np.abs(np.diag(score) * found.noise).max() < 1e-6
    assert np.abs(score @ found.loadings).max() < 1e-6


def test_columns_without_noise_of_their_own_are_no_hindrance():
    """Twenty factors of the digits leave two pixels at the least noise (Heywood cases); all others fulfil Σ_ii = S_ii."""
    X = load(str(DIGITS)).value.X.astype(float)
    X = X[:, X.var(axis=0) > 0]
    S = np.cov(X.T, bias=True)
    found = factor_model.fit_factors(S, 20)
    inside = found.noise > 1.001 * factor_model.LEAST * np.diag(S)
    assert 1 <= np.count_nonzero(~inside) <= 5
    model = np.square(found.loadings).sum(axis=1) + found.noise
    np.testing.assert_allclose(model[inside], np.diag(S)[inside], rtol=1e-7)


def test_slope_and_curvature_are_those_of_the_value():
    """By central differences, with factors that reach above the noise and one that does not."""
    S = np.cov(noisy(200)[0].T, bias=True)
    for x in (np.log(0.3 * np.diag(S)), np.log(np.linspace(0.2, 2.0, 8) * np.diag(S))):
        _, gradient, (whole, part) = factor_model._negative_profile_likelihood(S, x, 3)
        for i, step in enumerate(1e-6 * np.eye(8)):
            (high, up, _), (low, down, _) = (
                factor_model._negative_profile_likelihood(S, x + step, 3),
                factor_model._negative_profile_likelihood(S, x - step, 3),
            )
            assert gradient[i] == pytest.approx((high - low) / 2e-6, abs=1e-7)
            np.testing.assert_allclose(whole[i], (up - down) / 2e-6, atol=1e-6)
        assert np.linalg.eigvalsh(part)[0] > -1e-12


def test_the_noises_are_found():
    X, loadings, noise = noisy(40_000)
    found = factor_model.fit_factors(np.cov(X.T, bias=True), 2)
    np.testing.assert_allclose(found.noise, noise, rtol=0.08)
    np.testing.assert_allclose(found.loadings @ found.loadings.T, loadings @ loadings.T, atol=0.25)


def test_scikit_learn_agrees():
    decomposition = pytest.importorskip("sklearn.decomposition", reason="the extra ica is not installed")
    X = noisy()[0]
    theirs = decomposition.FactorAnalysis(2, tol=1e-10, max_iter=10_000, svd_method="lapack").fit(X)
    found = factor_model.fit_factors(np.cov(X.T, bias=True), 2)
    np.testing.assert_allclose(found.noise, theirs.noise_variance_, rtol=1e-4)
    np.testing.assert_allclose(found.loadings @ found.loadings.T, theirs.components_.T @ theirs.components_, atol=1e-4)


def test_whitened_rows_are_white_and_closer_to_the_factors_than_principal_components():
    X, loadings, noise = noisy()
    fitted = whitening.fit_whitening(X, method="fa", components=2)
    Z = fitted.apply(X)
    np.testing.assert_allclose(Z.T @ Z / len(Z), np.eye(2), atol=1e-10)
    np.testing.assert_allclose(fitted.forward @ fitted.backward, np.eye(2), atol=1e-10)
    assert fitted.method == "fa"
    assert (np.diff(fitted.variance) <= 0).all()
    assert 0 < fitted.kept_variance_fraction < 1
    axes = fitted.filters_in_row_axes(np.eye(2))
    np.testing.assert_allclose(axes @ axes.T, np.eye(2), atol=1e-10)

    def signal(one):
        """Share of the outputs' variance that comes from the factors, the worst direction."""
        return np.linalg.eigvalsh(one.forward @ loadings @ loadings.T @ one.forward.T)[0]

    best = 1 - 1 / (1 + np.linalg.eigvalsh(loadings.T / noise @ loadings)[0])  # of any two outputs
    assert signal(fitted) == pytest.approx(best, rel=0.05)
    assert signal(whitening.fit_whitening(X, method="pca", components=2)) < 0.1 * best


def test_logarithms_are_taken_once():
    X = np.exp(noisy()[0] / 5)
    once = whitening.fit_whitening(np.log1p(X), method="fa", components=2)
    fitted = whitening.fit_whitening(X, method="fa", components=2, log=True)
    np.testing.assert_allclose(fitted.mean, once.mean, rtol=1e-12)
    np.testing.assert_allclose(fitted.forward, once.forward, rtol=1e-9)
    Z = fitted.apply(X)
    np.testing.assert_allclose(Z.T @ Z / len(Z), np.eye(2), atol=1e-10)


def test_what_is_refused():
    X = noisy(100)[0]
    with pytest.raises(BadUsage, match="--whiten fa needs a number of components"):
        whitening.fit_whitening(X, method="fa")
    with pytest.raises(BadUsage, match="8 columns determine at most 4 factors, not 5") as refused:
        whitening.fit_whitening(X, method="fa", components=5)
    assert refused.value.hint == "use --components 4"
    X[:, 3] = 1.0
    with pytest.raises(DataError, match="column 3 is constant"):
        whitening.fit_whitening(X, method="fa", components=2)


def test_columns_determine_as_many_factors_as_ledermann_says():
    """(D − k)² ≥ D + k: the largest k is (2 D + 1 − √(8 D + 1)) / 2, rounded down."""
    for D in range(1, 60):
        assert factor_model.max_identifiable_factors(D) == int((2 * D + 1 - np.sqrt(8 * D + 1)) / 2 + 1e-9)


def test_noises_begin_at_what_other_columns_leave():
    """(1 − k / 2D) / (S⁻¹)_ii; half the variance where the correlations are singular, or there is none."""
    S = np.cov(noisy(200)[0].T, bias=True)
    least = 1e-6 * np.diag(S)
    np.testing.assert_allclose(factor_model._initial_noise_variances(S, 2, least), (1 - 2 / 16) / np.diag(np.linalg.inv(S)), rtol=1e-9)
    wider = np.zeros((9, 9))
    wider[:8, :8] = S
    expected = [*((1 - 2 / 18) / np.diag(np.linalg.inv(S))), 0.0]
    np.testing.assert_allclose(factor_model._initial_noise_variances(wider, 2, np.append(least, 1e-6)), expected, rtol=1e-9)
    singular = np.ones((3, 3)) * 4
    np.testing.assert_array_equal(factor_model._initial_noise_variances(singular, 1, np.full(3, 1e-6)), [2.0, 2.0, 2.0])


def test_a_column_of_nearly_no_noise_ends_at_its_least():
    """One factor is a column itself: its noise falls to 10⁻⁶ of its variance, and the others' regressions on it are known."""
    random = np.random.default_rng(0)
    first = random.standard_normal(4000)
    X = np.column_stack([first, *(0.5 * first + random.standard_normal(4000) for _ in range(3))])
    S = np.cov(X.T, bias=True)
    found = factor_model.fit_factors(S, 1)
    if found.noise[0] <= 1.001 * factor_model.LEAST * S[0, 0]:
        np.testing.assert_allclose(found.loadings[1:, 0] * np.sign(found.loadings[0, 0]), S[0, 1:] / np.sqrt(S[0, 0]), rtol=1e-4)
    best = [
        factor_model._negative_profile_likelihood(S, np.log(found.noise * np.exp(step)), 1)[0]
        for step in 1e-3 * np.vstack([np.zeros(4), np.eye(4), -np.eye(4)])
    ]
    inside = found.noise > 1.001 * factor_model.LEAST * np.diag(S)
    assert all(value >= best[0] for value in np.array(best[1:5])[inside])
    assert all(value >= best[0] for value in np.array(best[5:])[inside])


def test_columns_that_share_nothing_keep_their_variances():
    S = np.diag([1.0, 2.0, 3.0, 4.0, 5.0])
    found = factor_model.fit_factors(S, 2)
    np.testing.assert_allclose(found.loadings @ found.loadings.T + np.diag(found.noise), S, atol=1e-6)
    assert found.vectors.shape == (5, 2)
    assert (found.values >= 1).all()
