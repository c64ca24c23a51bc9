"""Verification of the closed forms: the paper's objective (7) + (8) is minimised numerically for random examples.

    ½ (μ−μ_i)'Σ⁻¹(μ−μ_i) + C ℓ(y μ·x) + ½ tr (A−I)'Σ⁻¹(A−I)Σ + ½ C λ x'AΣA'x

with ℓ the half squared hinge, the log loss or the half squared loss and λ = 1, ¼, 1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.online.learners.reference_updates import diagonal_update, full_update
from herdcli.online.model import LOSSES, Settings
from herdcli.rng import Stream, generator
from herdcli.schema import Array

CURVATURE = {"squared-hinge": 1.0, "log": 0.25, "squared": 1.0}
TOLERANCE = 1e-6


def verification_rows(examples: int, dimension: int, seed: int) -> list[dict[str, str | float | int | None]]:
    """Return the rows of a table: the largest distance of a closed form from the numerical minimiser, by covariance and loss."""
    rows: list[dict[str, str | float | int | None]] = []
    for covariance in ("full", "diagonal"):
        for loss in LOSSES:
            settings = Settings(covariance=covariance, loss=loss, form="exact")
            gaps = [_relative_gaps(settings, dimension, generator(seed, Stream.SAMPLE, step=k)) for k in range(examples)]
            mean, spread = np.max(gaps, axis=0).tolist()
            rows.append({"covariance": covariance, "loss": loss, "examples": examples, "mean_gap": mean, "covariance_gap": spread})
    return rows


def _relative_gaps(settings: Settings, d: int, random: np.random.Generator) -> tuple[float, float]:
    """Return relative distances of mean and covariance between closed form and minimiser for one random example."""
    x, y, mu = random.standard_normal(d), float(random.choice([-1.0, 1.0])), 0.3 * random.standard_normal(d)
    factor = random.standard_normal((d, d)) / np.sqrt(d)
    sigma = factor @ factor.T + 0.2 * np.eye(d) if settings.covariance == "full" else np.diag(random.uniform(0.2, 2.0, d))
    settings = replace(settings, C=float(np.exp(random.uniform(-2, 2))))
    if settings.loss == "squared-hinge" and y * (mu @ x) >= 1:
        y = -y
    if settings.covariance == "full":
        closed_mean, closed = full_update(mu, sigma, x, y, settings)
    else:
        closed_mean, diagonal = diagonal_update(mu, np.diag(sigma), x, y, settings)
        closed = np.diag(diagonal)
    best_mean, best = (
        _minimise_mean(mu, sigma, x, y, settings),
        _minimise_covariance(sigma, x, settings.C, settings.covariance, settings.loss),
    )
    return (
        float(np.abs(closed_mean - best_mean).max() / max(1.0, np.abs(best_mean).max())),
        float(np.abs(closed - best).max() / np.abs(best).max()),
    )


def _minimise_mean(mu: Array, sigma: Array, x: Array, y: float, settings: Settings) -> Array:
    from scipy.optimize import minimize

    precision, C = np.linalg.inv(sigma), settings.C

    def objective(w: Array) -> tuple[float, Array]:
        # Eq. 7: ½ (w − μ)'Σ⁻¹(w − μ) has the gradient Σ⁻¹(w − μ), and the loss at the margin m = y w·x the gradient ℓ'(m) y x.
        m, away = y * (w @ x), precision @ (w - mu)
        value, slope = _loss_and_slope(settings.loss, float(m))
        return float(0.5 * (w - mu) @ away + C * value), away + C * slope * y * x

    return np.asarray(minimize(objective, mu, jac=True, method="BFGS", options={"gtol": 1e-12, "maxiter": 2000}).x)


def _loss_and_slope(name: str, m: float) -> tuple[float, float]:
    """Return value and slope of a loss at a margin."""
    if name == "log":
        return float(np.logaddexp(0.0, -m)), float(-1.0 / (1.0 + np.exp(m)))
    short = 1.0 - m if name == "squared" else max(0.0, 1.0 - m)
    return 0.5 * short**2, -short


def _minimise_covariance(sigma: Array, x: Array, C: float, covariance: str, loss: str) -> Array:
    """Return AΣA' for the A, full or diagonal, that minimises (8)."""
    from scipy.optimize import minimize

    d, precision, full = len(x), np.linalg.inv(sigma), covariance == "full"
    weight = C * CURVATURE[loss]

    def objective(flat: Array) -> tuple[float, Array]:
        A = flat.reshape(d, d) if full else np.diag(flat)
        # In A, ½ tr (A − I)'Σ⁻¹(A − I)Σ has the gradient Σ⁻¹(A − I)Σ, and ½ Cλ x'AΣA'x has Cλ x (ΣA'x)'; eq. 11 is where they cancel.
        away, Ax = precision @ (A - np.eye(d)) @ sigma, A.T @ x
        value = 0.5 * np.trace((A - np.eye(d)).T @ away) + 0.5 * weight * Ax @ sigma @ Ax
        slope = away + weight * np.outer(x, sigma @ Ax)
        return float(value), slope.ravel() if full else np.diag(slope)

    start = np.eye(d).ravel() if full else np.ones(d)
    found = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-12, "maxiter": 5000}).x
    A = found.reshape(d, d) if full else np.diag(found)
    return np.asarray(A @ sigma @ A.T)
