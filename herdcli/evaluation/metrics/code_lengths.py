"""Lengths of codes: entropies of distributions, what latent variables cost and refund (bits back).

Sending a row y with latent x of posterior r takes −log p(x, y) nats for both; the freedom to choose x by r gives H(r) back:

    Σ_x r(x) (−log p(x, y)) − H(r) = −log p(y) + KL(r ‖ p(x | y)),

the free energy, which is −log p(y) where r is the posterior.  The likeliest x alone costs −log p(y) − log max p(x | y).
Source: Makin, sec. 4.2 and 6.7.3; Hinton & Zemel (1994).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import xlogy

from herdcli.em.artifacts import FactorModel, Mixture
from herdcli.em.fitting import Made
from herdcli.numerics.block_statistics import Sums
from herdcli.schema import Array

Figure = float | None


def entropy(p: Array) -> float:
    """H(p) = −Σ p log p, nats."""
    return -float(xlogy(p, p).sum())


def cross_entropy(p: Array, q: Array) -> float:
    """H(p, q) = −Σ p log q, nats: the mean length of the best code for q when p is true.  Infinite where q rules out what p has."""
    return -float(xlogy(p, q).sum())


def kl_divergence(p: Array, q: Array) -> float:
    """KL(p ‖ q) = H(p, q) − H(p) ≥ 0, nats."""
    return cross_entropy(p, q) - entropy(p)


def density_sums(value: Made, X: Array) -> tuple[Array, Sums]:
    """Densities (n,) of rows (n, D), and sums over these of what `code_length_columns` makes lengths of."""
    if not isinstance(value, Mixture):
        return value.densities(X), {"gaps": np.array([float(np.count_nonzero(np.isnan(X)))])} if isinstance(value, FactorModel) else {}
    r, evidence = value.responsibilities(X)
    refund = -xlogy(r, r).sum(axis=1)
    # Σ r (−log p(x, y)) with log p(x, y) = log r(x) + log p(y)
    soft = -(xlogy(r, r).sum(axis=1) + r.sum(axis=1) * evidence)
    # Sent with x drawn from r a row costs Σ r (−log p(x, y)) = −log p(y) + H(r), of which bits-back returns H(r); with its likeliest x
    # alone −log p(y) − log max r (Makin, sec. 6.7.3).
    hard = -(np.log(r.max(axis=1)) + evidence)
    return evidence, {"codes": np.array([soft.sum(), refund.sum(), hard.sum()])}


def code_length_columns(value: Made, sums: Sums) -> dict[str, Figure]:
    """Mean nats a row, of the sums over all rows (`rows`, `own` the densities): code_length and bits_back, of mixtures code_length_hard."""
    if isinstance(value, Mixture):
        soft, refund, hard = (sums["codes"] / sums["rows"][0]).tolist()
        return {"code_length": soft, "bits_back": refund, "code_length_hard": hard}
    return _factor_code_lengths(value, sums) if isinstance(value, FactorModel) else {}


def _factor_code_lengths(value: FactorModel, sums: Sums) -> dict[str, Figure]:
    """Of factors with noise, whose posterior is N(m, V), H = ½ log |2πe V|; rows without gaps, else None.  A density: lengths
    are relative to a grid that sender and receiver share."""
    if value.model == "pca" or sums["gaps"][0]:
        return {"code_length": None, "bits_back": None}
    C, noise = value.parameters["loading"], value.noise
    K = C.shape[1]
    # ½ log|2πe V| with V = (I + C'Ψ⁻¹C)⁻¹.
    refund = 0.5 * (K * math.log(2 * math.pi * math.e) - float(np.linalg.slogdet(np.eye(K) + C.T @ (C / noise[:, None]))[1]))
    return {"code_length": -float(sums["own"][0] / sums["rows"][0]) + refund, "bits_back": refund}
