"""What the models of this topic become on disk: `mixture`, `kmeans` and `factors`, each with its ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from herdcli.em.driver import Fit, Ledger
from herdcli.em.factors import MODELS, posterior
from herdcli.em.gmm import COVARIANCES
from herdcli.em.kmeans import closest
from herdcli.errors import DataError
from herdcli.schema import Array, array


@dataclass(frozen=True)
class Restarts:
    """How every restart ended."""

    objective: Array = array("R", "log-likelihood and penalty, nats a row (kmeans and pca: −squared error a row)", kind="f")
    iterations: Array = array("R", "M steps", kind="i")
    converged: Array = array("R", "ended by its tolerance, not by the number of iterations", kind="b")
    best: int = 0  # which was kept

    def validate(self) -> None:
        """Raise DataError unless one of them was kept."""
        if not 0 <= self.best < len(self.objective):
            raise DataError(f"restart {self.best} was kept of {len(self.objective)}")


def restarts(fit: Fit) -> Restarts:
    """How the restarts of a fit ended."""
    return Restarts(fit.objectives, fit.iterations, fit.converged, fit.best)


def _finite(value: object, *names: str) -> None:
    for name in names:
        if not np.isfinite(getattr(value, name)).all():
            raise DataError(f"/{name} has values that are not finite")


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """K Gaussians: p(y) = Σ_k weight_k N(y; mean_k, covariance_k)."""

    family: str  # of the covariances: full, tied, diagonal or spherical
    weight: Array = array("K", "probabilities of the components", kind="f")
    mean: Array = array("K D", "means", kind="f")
    covariance: Array = array("K D D", "covariances", kind="f")
    floor: float  # least variance in any direction
    ledger: Ledger
    restarts: Restarts
    mass: float  # Σ of the weights of the training rows
    seed: int
    holdout: Array | None = array("h D", "rows of split 2", kind="f", optional=True)

    def validate(self) -> None:
        """Raise DataError unless the weights are probabilities and the covariances positive definite."""
        _finite(self, "weight", "mean", "covariance")
        if self.family not in COVARIANCES:
            raise DataError(f"family is '{self.family}', expected one of {', '.join(COVARIANCES)}")
        if (self.weight < 0).any() or abs(float(self.weight.sum()) - 1.0) > 1e-9:
            raise DataError("/weight are not probabilities")
        if self.covariance.shape[1] != self.covariance.shape[2] or np.linalg.eigvalsh(self.covariance).min(initial=1.0) <= 0:
            raise DataError("/covariance is not positive definite")


@dataclass(frozen=True, kw_only=True)
class Clusters:
    """K centres; a row belongs to the nearest.  The ledger holds −squared distance a row in the place of log-likelihoods."""

    centre: Array = array("K D", "centres", kind="f")
    ledger: Ledger
    restarts: Restarts
    mass: float  # Σ of the weights of the training rows
    seed: int
    holdout: Array | None = array("h D", "rows of split 2", kind="f", optional=True)

    def validate(self) -> None:
        """Raise DataError unless the centres are finite."""
        _finite(self, "centre")

    def clusters(self, X: Array) -> Array:
        """(n,) nearest centres of rows (n, D)."""
        middle = self.centre.mean(axis=0)
        return closest(np.asarray(X, dtype=np.float64) - middle, self.centre - middle)[0]


@dataclass(frozen=True, kw_only=True)
class FactorModel:
    """y = loading x + mean + noise, x ~ N(0, I_K), noise ~ N(0, diag(noise)); for pca the noise is 0 and only the plane counts."""

    model: str  # fa, ppca or pca
    loading: Array = array("D K", "loadings", kind="f")
    mean: Array = array("D", "mean of the rows", kind="f")
    noise: Array = array("D", "variances of the noise", kind="f")
    floor: float  # least noise variance
    ledger: Ledger
    restarts: Restarts
    mass: float  # Σ of the weights of the training rows
    seed: int
    rotation: Array | None = array("K K", "the loadings are those of the fit times this", kind="f", optional=True)
    correlation: Array | None = array("K K", "of the factors, after promax", kind="f", optional=True)
    holdout: Array | None = array("h D", "rows of split 2", kind="f", optional=True)

    def validate(self) -> None:
        """Raise DataError unless the parameters are finite and the noise fits the model."""
        _finite(self, "loading", "mean", "noise")
        if self.model not in MODELS:
            raise DataError(f"model is '{self.model}', expected one of {', '.join(MODELS)}")
        if (self.noise < 0).any() or (self.model != "pca") != bool(self.noise.all()):
            raise DataError("/noise must be above 0, and 0 for pca")

    def scores(self, X: Array) -> Array:
        """(n, K) factor scores of rows (n, D); NaN is a missing value."""
        return posterior({"loading": self.loading, "mean": self.mean, "noise": self.noise}, X)[0]


def mixture(fit: Fit, family: str, floor: float, seed: int, holdout: Array | None = None) -> Mixture:
    """The artifact of a fitted `gmm`."""
    common: dict[str, Any] = {"ledger": fit.ledger, "restarts": restarts(fit), "mass": fit.mass, "seed": seed, "holdout": holdout}
    return Mixture(family=family, floor=floor, **dict[str, Any](fit.parameters), **common)


def clusters(fit: Fit, seed: int, holdout: Array | None = None) -> Clusters:
    """The artifact of a fitted `kmeans`."""
    return Clusters(centre=fit.parameters["centre"], ledger=fit.ledger, restarts=restarts(fit), mass=fit.mass, seed=seed, holdout=holdout)


def factor_model(fit: Fit, model: str, floor: float, seed: int, holdout: Array | None = None) -> FactorModel:
    """The artifact of a fitted `fa`, `ppca` or `pca`."""
    common: dict[str, Any] = {"ledger": fit.ledger, "restarts": restarts(fit), "mass": fit.mass, "seed": seed, "holdout": holdout}
    return FactorModel(model=model, floor=floor, **dict[str, Any](fit.parameters), **common)
