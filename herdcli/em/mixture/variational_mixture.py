"""Variational Bayes for mixtures of Gaussians: a posterior distribution over the parameters instead of point estimates.

    p(θ) = Dir(π; α₀) Π_k N(μ_k; m₀, (β₀ Λ_k)⁻¹) W(Λ_k; W₀, ν₀),     q(θ) of the same form with α_k, β_k, m_k, W_k, ν_k.

    E   r_nk ∝ exp(E log π_k + ½ E log |Λ_k| − D/(2β_k) − ½ ν_k (y_n − m_k)' W_k (y_n − m_k))
    M   α_k = α₀ + n_k,  β_k = β₀ + n_k,  ν_k = ν₀ + n_k,  m_k = (β₀ m₀ + n_k ȳ_k) / β_k,
        W_k⁻¹ = W₀⁻¹ + n_k S_k + β₀ n_k / β_k (ȳ_k − m₀)(ȳ_k − m₀)'

Rows are assumed to be known to within the floor: a variance f_d = floor · scale_d² of column d is added to every row's square,
yy' + diag f.  Without it, a direction in which rows do not vary (a constant column, two equal columns) would become the more certain
the more rows a component has.  Then E log |Λ_k| would grow by log n_k, and large components would take the rows of small ones.

Both steps lower F = −Σ_n log Σ_k exp(…) + KL(q(θ) ‖ p(θ)) ≥ −log p(rows), so that −F is a lower bound of the evidence.
Source: Teh (2003), alg. 2.2; Attias (2000); Bishop (2006), sec. 10.2.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import scipy

from herdcli.em.driver import Parameters
from herdcli.em.mixture.gaussian_densities import (
    LOG_TAU,
    PreparedGaussians,
    log_determinants,
    normalise_log_joint,
    precision_roots,
    prepare_gaussians,
)
from herdcli.em.mixture.gmm import GMM
from herdcli.em.mixture.mixture_e_step import impute_rows
from herdcli.errors import BadUsage
from herdcli.numerics.block_statistics import Sums
from herdcli.records import dataclass
from herdcli.schema import Array

HELD = 1.0  # a component counts as empty if the weight of its rows is below this


@dataclass(frozen=True)
class MixturePrior:
    """The hyperparameters of the prior: α₀, β₀, ν₀, m₀ (D,) and W₀⁻¹ (D, D)."""

    concentration: float
    precision: float
    freedom: float
    mean: Array
    scatter: Array


@dataclass(frozen=True)
class VariationalGMM(GMM):
    """The variational mixture for `driver.EM`, made by `make_variational_gmm`.

    Parameters: the expectations of those of GMM (weight, mean, (ν W)⁻¹), and concentration α, precision β, freedom ν, each (K,).
    The `log_likelihood` of its ledger is Σ log Σ_k exp(…), the bound without the KL.
    """

    prior: MixturePrior | None = None

    @property
    def known(self) -> MixturePrior:
        """The prior."""
        assert self.prior is not None
        return self.prior

    @property
    def value_variances(self) -> Array:
        """The variance f (D,) with which the values of every row are known."""
        return np.asarray(self.floor * self.scale**2)

    def start(self, restart: int) -> Parameters:
        """Return q(θ) given the rows nearest to the initial centres."""
        begun = super().start(restart)
        if "concentration" in begun:
            return begun
        return self._parameter_posterior(begun["weight"] * self.found.mass, begun["mean"], begun["covariance"])

    def _parameter_posterior(self, count: Array, mean: Array, covariance: Array) -> Parameters:
        """Return q(θ) given weights n_k (K,), means (K, D) and covariances (K, D, D) of the components' rows: the M step."""
        prior = self.known
        beta, nu, alpha = prior.precision + count, prior.freedom + count, prior.concentration + count
        away = mean - prior.mean
        m = prior.mean + (count / beta)[:, None] * away
        # W⁻¹ gathers n S + n ȳȳ' + β₀ m₀m₀' − β m m' = n S + (β₀ n/β)(ȳ − m₀)(ȳ − m₀)', which is never negative; the sums apart would
        # cancel.
        shrunk = prior.precision * count / beta
        own = covariance + np.diag(self.value_variances)
        scatter = prior.scatter + count[:, None, None] * own + shrunk[:, None, None] * away[:, :, None] * away[:, None, :]
        scatter = 0.5 * (scatter + scatter.transpose(0, 2, 1))
        learned = {"weight": alpha / alpha.sum(), "mean": m, "covariance": scatter / nu[:, None, None]}
        return learned | {"concentration": alpha, "precision": beta, "freedom": nu}

    def _expected_log_corrections(self, parameters: Parameters) -> Array:
        """Return ½ (E log |Λ_k| − log |ν_k W_k|) − D / (2β_k) − ½ Σ_d ν_k W_k,dd f_d, (K,)."""
        D, roots = len(self.found.mean), self._precision_roots(parameters)
        known = 0.5 * np.einsum("kid,d->k", np.square(roots), self.value_variances)
        found: Array = (
            0.5 * (_digamma_sums(parameters["freedom"], D) + D * np.log(2.0 / parameters["freedom"])) - 0.5 * D / parameters["precision"]
        )
        return np.asarray(found - known)

    def _log_weight(self, parameters: Parameters) -> Array:
        """Return E log π_k = ψ(α_k) − ψ(Σ α)."""
        alpha = parameters["concentration"]
        # The mean of log π_k under Dir(α) is the derivative of its log normaliser Σ log Γ(α_k) − log Γ(Σ α).
        found: Array = scipy.special.digamma(alpha) - scipy.special.digamma(alpha.sum())
        return found

    def _prepared_gaussians(self, parameters: Parameters) -> PreparedGaussians:
        roots, spread = precision_roots(parameters["covariance"]), float(self.found.variance.sum())
        weight, extra = self._log_weight(parameters), self._expected_log_corrections(parameters)
        return prepare_gaussians(weight, parameters["mean"], roots, self.found.mean, spread, diagonal=False, extra=extra)

    def _log_constants(self, parameters: Parameters, roots: Array) -> Array:
        D = len(self.found.mean)
        found: Array = (
            self._log_weight(parameters) + 0.5 * (log_determinants(roots) - D * LOG_TAU) + self._expected_log_corrections(parameters)
        )
        return found

    def maximise(self, parameters: Parameters, sums: Sums) -> tuple[Parameters, int]:
        """Return the posterior of the parameters given the responsibilities; the prior takes the place of a floor."""
        count, first, second = self.component_moments(parameters, sums)
        used = count > 0
        shift = np.divide(first, count[:, None], out=np.zeros_like(first), where=used[:, None])
        covariance = np.divide(second, count[:, None, None], out=np.zeros_like(second), where=used[:, None, None])
        covariance -= shift[:, :, None] * shift[:, None, :]
        return self._parameter_posterior(count, sums["reference"] + shift, covariance), 0

    def penalty(self, parameters: Parameters) -> float:
        """Return −KL(q(θ) ‖ p(θ))."""
        prior, D = self.known, len(self.found.mean)
        alpha, beta, nu = parameters["concentration"], parameters["precision"], parameters["freedom"]
        roots = precision_roots(parameters["covariance"])  # of ν W
        weights = (
            scipy.special.gammaln(alpha.sum())
            - scipy.special.gammaln(alpha).sum()
            - scipy.special.gammaln(len(alpha) * prior.concentration)
        )
        weights += len(alpha) * scipy.special.gammaln(prior.concentration) + float(
            (alpha - prior.concentration) @ self._log_weight(parameters)
        )
        # E_Λ KL(N(m, (βΛ)⁻¹) ‖ N(m₀, (β₀Λ)⁻¹)), with E Λ = ν W
        ratio, away = prior.precision / beta, np.einsum("kij,kj->ki", roots, parameters["mean"] - prior.mean)
        means = 0.5 * (D * (ratio - 1.0 - np.log(ratio)) + prior.precision * np.square(away).sum(axis=1))
        # KL of Wishart distributions, with log normaliser −ν/2 log |W| − νD/2 log 2 − log Γ_D(ν/2)
        log_w = log_determinants(roots) - D * np.log(nu)
        log_w0 = -float(np.linalg.slogdet(prior.scatter)[1])
        expected = _digamma_sums(nu, D) + D * np.log(2.0) + log_w
        trace = np.einsum("kia,ab,kib->k", roots, prior.scatter, roots)
        wisharts = _log_wishart_normaliser(log_w, nu, D) - _log_wishart_normaliser(log_w0, np.array(prior.freedom), D)
        wisharts += 0.5 * (nu - prior.freedom) * expected - 0.5 * nu * D + 0.5 * trace
        return -float(weights + means.sum() + wisharts.sum())


def _digamma_sums(nu: Array, D: int) -> Array:
    """Return Σ_i ψ((ν + 1 − i) / 2), i = 1 … D, (K,)."""
    found: Array = scipy.special.digamma(0.5 * (nu[:, None] - np.arange(D))).sum(axis=1)
    return found


def _log_wishart_normaliser(log_w: Array | float, nu: Array, D: int) -> Array:
    """Return log B(W, ν) of a Wishart distribution."""
    found: Array = -0.5 * nu * log_w - 0.5 * nu * D * np.log(2.0) - scipy.special.multigammaln(0.5 * nu, D)
    return found


def make_variational_gmm(model: GMM, *, concentration: float | None = None, prior: MixturePrior | None = None) -> VariationalGMM:
    """Return a mixture with the default prior: α₀ = 1/K, β₀ = 1, ν₀ = D, m₀ and W₀⁻¹ the mean and covariance of all rows.

    The columns' floors are added to the covariance, so that it is positive definite despite constant columns.
    Raises BadUsage for missing values and for covariances that are not full.
    """
    if model.covariance != "full":
        raise BadUsage(f"--bayes uses full covariances, not {model.covariance}", hint="leave out --covariance")
    if model.found.missing:
        raise BadUsage(f"{model.found.missing} values are missing, which --bayes cannot use", hint="leave out --bayes")
    D = len(model.found.mean)
    scatter = model.found.covariance + np.diag(model.floor * model.scale**2)
    made = prior or MixturePrior(concentration or 1.0 / model.components, 1.0, float(D), model.found.mean, scatter)
    return VariationalGMM(**{field.name: getattr(model, field.name) for field in fields(GMM)}, prior=made)


def predictive_posteriors(parameters: Parameters, X: Array) -> tuple[Array, Array]:
    """Return posteriors (n, K) and log densities (n,) of rows (n, D) under the predictive mixture of Student distributions.

    p(y | rows) = Σ_k α_k / Σα St(y; m_k, (1 + β_k) / (β_k (ν_k + 1 − D)) W_k⁻¹, ν_k + 1 − D).  NaN is a missing value; its entries are
    left out of m and W⁻¹.
    """
    K, D = parameters["mean"].shape
    freedom = parameters["freedom"] + 1.0 - D
    beta, nu = parameters["precision"], parameters["freedom"]
    # The shape is (1 + β)/(β(ν + 1 − D)) W⁻¹, i.e. ν(1 + β)/(β(ν + 1 − D)) times `covariance` = (νW)⁻¹ (Bishop 2006, eq. 10.81 and 10.82).
    shape = parameters["covariance"] * (nu * (1.0 + beta) / (beta * freedom))[:, None, None]
    joint = np.repeat(np.log(parameters["weight"])[:, None], len(X), axis=1)
    patterns, which = np.unique(np.isnan(X), axis=0, return_inverse=True)
    for number, missing in enumerate(patterns):
        rows, d = np.flatnonzero(which.ravel() == number), int((~missing).sum())
        for k in range(K if d else 0):
            # For the Gaussian with this shape log N = level − ½ Δ², from which Δ² is computed.
            there = ~missing
            gaussian, _, _ = impute_rows(X[rows], missing, parameters["mean"][k], shape[k])
            level = 0.5 * (-float(np.linalg.slogdet(shape[k][np.ix_(there, there)])[1]) - d * LOG_TAU)
            squares = np.maximum(2.0 * (level - gaussian), 0.0)
            constant = (
                scipy.special.gammaln(0.5 * (freedom[k] + d)) - scipy.special.gammaln(0.5 * freedom[k]) - 0.5 * d * np.log(0.5 * freedom[k])
            )
            joint[k, rows] += constant + level - 0.5 * (freedom[k] + d) * np.log1p(squares / freedom[k])
    evidence = normalise_log_joint(joint)
    return joint.T.copy(), evidence
