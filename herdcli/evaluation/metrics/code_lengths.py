"""Code lengths: entropies of distributions, and the cost and refund of latent variables (bits back).

Sending a row y with a latent x from the posterior r costs −log p(x, y) nats for both; the free choice of x from r returns H(r):

    Σ_x r(x) (−log p(x, y)) − H(r) = −log p(y) + KL(r ‖ p(x | y)),

the free energy, which is −log p(y) if r is the posterior.  With the most probable x only, it costs −log p(y) − log max p(x | y).
Source: Makin, sec. 4.2 and 6.7.3; Hinton & Zemel (1994).
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from herdcli.em.artifacts import FactorModel, Mixture
from herdcli.em.fitting import FittedArtifact
from herdcli.numerics.block_statistics import Sums
from herdcli.schema import Array

MetricValue = float | None


def entropy(p: Array) -> float:
    """Return H(p) = −Σ p log p, in nats."""
    return -float(scipy.special.xlogy(p, p).sum())


def cross_entropy(p: Array, q: Array) -> float:
    """Return H(p, q) = −Σ p log q in nats: the mean length of the best code for q if p is true.

    It is infinite if q is 0 where p is not.
    """
    return -float(scipy.special.xlogy(p, q).sum())


def kl_divergence(p: Array, q: Array) -> float:
    """Return KL(p ‖ q) = H(p, q) − H(p) ≥ 0, in nats."""
    return cross_entropy(p, q) - entropy(p)


def densities_and_sums(value: FittedArtifact, X: Array) -> tuple[Array, Sums]:
    """Return densities (n,) of rows (n, D), and the sums over these rows from which `code_length_columns` computes lengths."""
    if not isinstance(value, Mixture):
        return value.densities(X), {"gaps": np.array([float(np.count_nonzero(np.isnan(X)))])} if isinstance(value, FactorModel) else {}
    r, evidence = value.responsibilities(X)
    refund = -scipy.special.xlogy(r, r).sum(axis=1)
    # Σ r (−log p(x, y)) with log p(x, y) = log r(x) + log p(y)
    soft = -(scipy.special.xlogy(r, r).sum(axis=1) + r.sum(axis=1) * evidence)
    # A row sent with x sampled from r costs Σ r (−log p(x, y)) = −log p(y) + H(r), and bits-back returns H(r).  With its most
    # probable x only, it costs −log p(y) − log max r (Makin, sec. 6.7.3).
    hard = -(np.log(r.max(axis=1)) + evidence)
    return evidence, {"codes": np.array([soft.sum(), refund.sum(), hard.sum()])}


def code_length_columns(value: FittedArtifact, sums: Sums) -> dict[str, MetricValue]:
    """Return mean nats per row from sums over all rows (`rows`, `own` the densities).

    They are code_length and bits_back; for mixtures also code_length_hard.
    """
    if isinstance(value, Mixture):
        soft, refund, hard = (sums["codes"] / sums["rows"][0]).tolist()
        return {"code_length": soft, "bits_back": refund, "code_length_hard": hard}
    return _factor_code_lengths(value, sums) if isinstance(value, FactorModel) else {}


def _factor_code_lengths(value: FactorModel, sums: Sums) -> dict[str, MetricValue]:
    """Return the code lengths of factors with noise, whose posterior is N(m, V) with H = ½ log |2πe V|; None for incomplete rows.

    It is a density: lengths are relative to a grid that sender and receiver share.
    """
    if value.model == "pca" or sums["gaps"][0]:
        return {"code_length": None, "bits_back": None}
    C, noise = value.parameters["loading"], value.noise
    K = C.shape[1]
    # ½ log|2πe V| with V = (I + C'Ψ⁻¹C)⁻¹.
    refund = 0.5 * (K * math.log(2 * math.pi * math.e) - float(np.linalg.slogdet(np.eye(K) + C.T @ (C / noise[:, None]))[1]))
    return {"code_length": -float(sums["own"][0] / sums["rows"][0]) + refund, "bits_back": refund}
