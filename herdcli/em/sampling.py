"""Samples of new rows from mixtures and factor models."""

from __future__ import annotations

import numpy as np

from herdcli.em.artifacts import FactorModel, Mixture
from herdcli.rng import Stream, generator
from herdcli.schema import Array


def sample_mixture(model: Mixture, count: int, seed: int, *, means: bool = False) -> tuple[Array, Array]:
    """Sample rows (count, D) and their components (count,).

    means  return the component means instead of sampled rows.
    After variational Bayes the samples come from the predictive mixture of Student distributions.  A Gaussian row is scaled by
    √(f/χ²_f), with f = ν + 1 − D and the shape matrix of `variational_mixture.predictive_posteriors`.
    """
    random, D = generator(seed, Stream.ROWS), model.mean.shape[1]
    which = random.choice(len(model.weight), size=count, p=model.weight / model.weight.sum())
    noise = random.standard_normal((count, D))
    shape = model.covariance
    if model.freedom is not None and model.precision is not None:
        freedom = model.freedom + 1.0 - D
        # covariance = (νW)⁻¹; the shape is (1 + β)/(β f) W⁻¹ (Bishop 2006, eq. 10.81 and 10.82)
        shape = shape * (model.freedom * (1.0 + model.precision) / (model.precision * freedom))[:, None, None]
        noise *= np.sqrt(freedom[which] / random.chisquare(freedom[which]))[:, None]
    X = model.mean[which].astype(np.float64)
    for k in np.unique(which) if not means else ():
        rows = which == k
        X[rows] += noise[rows] @ np.linalg.cholesky(shape[k]).T
    return X, which


def sample_factors(model: FactorModel, count: int, seed: int, *, means: bool = False) -> Array:
    """Sample rows (count, D): y = C x + c + noise.  means  leave out the noise."""
    random, p = generator(seed, Stream.ROWS), model.parameters
    D, K = p["loading"].shape
    x, noise = random.standard_normal((count, K)), random.standard_normal((count, D))
    found: Array = x @ p["loading"].T + p["mean"]
    return found if means else found + noise * np.sqrt(p["noise"])
