"""Variational Bayes of mixtures: the exact evidence of one component, scikit-learn's updates, a bound that never falls, the predictive."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import multigammaln
from scipy.stats import beta, multivariate_t

from herdcli.em.driver import EM, EMSettings, run_em
from herdcli.em.mixture import gmm, variational_mixture
from herdcli.em.mixture.gaussian_densities import normalise_log_joint, quadratic_features
from herdcli.errors import BadUsage
from herdcli.numerics.block_statistics import ArrayRows, RowBlocks


def rows(n=300, seed=0):
    """Three clusters in three columns."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3)) @ random.normal(size=(3, 3)) + 2.0
    return X + np.array([[0, 0, 0], [9, 0, 0], [0, 12, 3]])[np.arange(n) % 3]


def model_of(X, K, **options):
    source = RowBlocks(ArrayRows(X))
    return variational_mixture.make_variational_gmm(gmm.prepare_gmm(source, K, floor=options.pop("floor", 0.0)), **options), source


def fitted(X, K, iterations=300, **options):
    model, source = model_of(X, K, **options)
    return model, run_em(EM(model, source, EMSettings(iterations, 1e-12, 3)))


def test_the_bound_of_one_component_is_the_evidence():
    """∫ Π N(y_n; μ, Λ⁻¹) p(μ, Λ) in closed form: π^(−nD/2) Γ_D(ν/2)/Γ_D(ν₀/2) |W₀⁻¹|^(ν₀/2) / |W⁻¹|^(ν/2) (β₀/β)^(D/2)."""
    X = rows()
    model, fit = fitted(X, 1)
    n, D = X.shape
    prior, q = model.known, fit.parameters
    assert q["freedom"][0] == prior.freedom + n
    away = X.mean(axis=0) - prior.mean
    scatter = prior.scatter + n * np.cov(X.T, bias=True) + prior.precision * n / (prior.precision + n) * np.outer(away, away)
    nu = prior.freedom + n
    evidence = -0.5 * n * D * np.log(np.pi) + multigammaln(nu / 2, D) - multigammaln(prior.freedom / 2, D)
    evidence += 0.5 * prior.freedom * np.linalg.slogdet(prior.scatter)[1] - 0.5 * nu * np.linalg.slogdet(scatter)[1]
    evidence += 0.5 * D * np.log(prior.precision / (prior.precision + n))
    assert -fit.ledger.free_energy[-1] * n == pytest.approx(evidence, rel=1e-12)


@pytest.mark.parametrize("concentration", [0.7, 2.5])
def test_the_penalty_of_weights_is_the_divergence_of_their_dirichlets(concentration):
    """Of two components, Beta(α_1, α_2) from Beta(α_0, α_0), by an integral; means and covariances as in the prior."""
    model, _ = model_of(rows(), 2, concentration=concentration)
    prior, alpha = model.known, np.array([3.2, 0.9])
    same = {"precision": np.full(2, prior.precision), "freedom": np.full(2, prior.freedom), "mean": np.tile(prior.mean, (2, 1))}
    q = same | {"concentration": alpha, "covariance": np.tile(prior.scatter / prior.freedom, (2, 1, 1)), "weight": alpha / alpha.sum()}

    def terms(x):
        return beta.pdf(x, *alpha) * (beta.logpdf(x, *alpha) - beta.logpdf(x, concentration, concentration))

    divergence = quad(terms, 0, 0.5, limit=200)[0] + quad(terms, 0.5, 1, limit=200)[0]
    assert model.penalty(q) == pytest.approx(-divergence, rel=1e-6)


def test_the_bound_never_falls_and_components_that_are_not_needed_empty():
    model, fit = fitted(rows(), 6)
    assert fit.ledger.largest_rise < 1e-12
    assert fit.ledger.kl.min() >= -1e-12
    assert len(fit.ledger.free_energy) > 10
    held = fit.parameters["concentration"] - model.known.concentration
    assert np.count_nonzero(held > 1) == 3
    assert held.sum() == pytest.approx(300)


def test_every_iteration_is_that_of_scikit_learn():
    """Same prior and responsibilities: α, m and W⁻¹/ν agree for ten iterations.  Its own lower bound falls on the way; ours does not."""
    mixture = pytest.importorskip("sklearn.mixture", reason="scikit-learn is a benchmark extra")
    X = rows()
    model, source = model_of(X, 5)
    start = model.start(0)
    ready = model._prepared_gaussians(start)
    joint = ready.log_joint(quadratic_features(X - ready.centre, False), X)
    normalise_log_joint(joint)
    prior = model.known
    theirs = mixture.BayesianGaussianMixture(
        n_components=5,
        reg_covar=0,
        weight_concentration_prior_type="dirichlet_distribution",
        weight_concentration_prior=prior.concentration,
        mean_precision_prior=prior.precision,
        mean_prior=prior.mean,
        degrees_of_freedom_prior=prior.freedom,
        covariance_prior=prior.scatter,
    )
    theirs._check_parameters(X)
    theirs._initialize(X, joint.T.copy())
    (block,) = source.take(0, 1)
    q = start
    for _ in range(10):
        q, _ = model.maximise(q, model.complete_statistics(q, model.expect(q)(block)))
        np.testing.assert_allclose(q["concentration"], theirs.weight_concentration_, atol=1e-8)
        np.testing.assert_allclose(q["mean"], theirs.means_, atol=1e-8)
        np.testing.assert_allclose(q["covariance"], theirs.covariances_, atol=1e-8)
        theirs._m_step(X, theirs._e_step(X)[1])


def test_densities_are_those_of_student_distributions_also_with_gaps():
    X = rows()
    _, fit = fitted(X, 3, 20)
    q, D = fit.parameters, X.shape[1]
    freedom = q["freedom"] + 1 - D
    shape = [S * nu * (1 + b) / (b * f) for S, nu, b, f in zip(q["covariance"], q["freedom"], q["precision"], freedom, strict=True)]

    def mixed(Y, kept):
        parts = zip(q["weight"], q["mean"], shape, freedom, strict=True)
        return np.log(sum(w * multivariate_t(m[kept], S[np.ix_(kept, kept)], f).pdf(Y[:, kept]) for w, m, S, f in parts))

    responsibilities, density = variational_mixture.predictive_posteriors(q, X)
    np.testing.assert_allclose(density, mixed(X, [0, 1, 2]), atol=1e-12)
    np.testing.assert_allclose(responsibilities.sum(axis=1), 1.0)
    holes = X.copy()
    holes[:, 1] = np.nan
    np.testing.assert_allclose(variational_mixture.predictive_posteriors(q, holes)[1], mixed(X, [0, 2]), atol=1e-12)


def test_a_smaller_concentration_keeps_no_more_components():
    X = rows(150, seed=3)
    held = [int(np.count_nonzero(fitted(X, 8, 100, concentration=a)[1].parameters["freedom"] > 3 + 1)) for a in (1e-3, 10.0)]
    assert held[0] <= held[1]


def test_what_is_refused():
    X = rows(50)
    with pytest.raises(BadUsage, match="--bayes uses full covariances, not diagonal"):
        variational_mixture.make_variational_gmm(gmm.prepare_gmm(RowBlocks(ArrayRows(X)), 2, covariance="diagonal"))
    X[3, 1] = np.nan
    with pytest.raises(BadUsage, match="1 values are missing, which --bayes cannot use"):
        variational_mixture.make_variational_gmm(gmm.prepare_gmm(RowBlocks(ArrayRows(X)), 2))
