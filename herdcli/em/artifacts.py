"""The artifacts of models of rows: `Mixture`, `Clusters` and `FactorModel`, each with the ledger of its fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from herdcli.em.driver import EMFit, ObjectiveHistory, Parameters
from herdcli.em.factor.factor_analysis import MODELS, factor_posterior
from herdcli.em.factor.factor_analysis import parameter_count as factor_parameters
from herdcli.em.factor.factor_rotation import promax, varimax
from herdcli.em.mixture.gmm import COVARIANCES, mixture_posteriors, parameter_count
from herdcli.em.mixture.kmeans import nearest_centres_with_bounds
from herdcli.em.mixture.mixture_e_step import impute_rows
from herdcli.em.mixture.variational_mixture import HELD, predictive_posteriors
from herdcli.em.variance_floors import are_positive_definite, require_consistent_moments
from herdcli.errors import DataError
from herdcli.records import dataclass, former_class_getattr
from herdcli.schema import Array, array, require_image_shape

FLAT = 1e-30  # share of a mean square: a variance below it is the rounding error of a constant column, which every model raises


@dataclass(frozen=True)
class RestartOutcomes:
    """The objective, the iterations and the convergence of each restart of a fit."""

    objective: Array = array("R", "log-likelihood and penalty, nats per row (kmeans and pca: −squared error per row)", kind="f")
    iterations: Array = array("R", "M steps", kind="i")
    converged: Array = array("R", "ended by its tolerance, not by the number of iterations", kind="b")
    best: int = 0  # index of the restart that was kept

    def validate(self) -> None:
        """Raise DataError unless `best` is the index of a restart."""
        if not 0 <= self.best < len(self.objective):
            raise DataError(f"/restarts/best is {self.best}, but there are only {len(self.objective)} restarts")


def restart_outcomes(fit: EMFit) -> RestartOutcomes:
    """Return the outcomes of all restarts of a fit."""
    return RestartOutcomes(fit.objectives, fit.iterations, fit.converged, fit.best)


def _require_finite(value: object, *names: str) -> None:
    for name in names:
        if not np.isfinite(getattr(value, name)).all():
            raise DataError(f"/{name} has values that are not finite")


def _require_mass(mass: float) -> None:
    """Raise DataError unless the total weight of the training rows is positive and finite."""
    if not 0 < mass < np.inf:
        raise DataError(f"/mass is {mass:g}, but it is the weight of all training rows and must be above 0")


@dataclass(frozen=True, kw_only=True)
class FitFacts:
    """Facts about a fit besides its parameters: training and held-out rows, baseline moments, and the other sizes that were tried.

    base_mean, base_variance and base_covariance belong to the simplest model of the same rows: one Gaussian of the family, one centre, or
    independent columns.  Log-likelihoods are in nats per row; those of kmeans and pca are −squared error per row.
    """

    rows: int  # number of rows in split 0
    base_mean: Array = array("D", "mean of the training rows", kind="f")
    base_variance: Array = array("D", "their variances", kind="f")
    base_covariance: Array | None = array("D D", "their covariance, for mixtures", kind="f", optional=True)
    base_full: Array | None = array("D D", "covariance of the training rows as it is, of not too many columns", kind="f", optional=True)
    valid: float | None = None  # log-likelihood of split 1
    base_valid: float | None = None
    entropy: float = 0.0  # sum of the entropies of the training rows' responsibilities, in nats
    missing: int = 0  # number of missing values
    holdout_y: Array | None = array("h", "labels of the rows of split 2, −1 where unknown", kind="i", optional=True)
    feature_names: list[str] | None = None
    class_names: list[str] | None = None  # names of the labels' classes
    supervised: bool = False  # whether each class has its own components, in the order of the labels
    per_class: int = 1  # number of components per class; those of one class are consecutive
    sizes: Array | None = array("S", "numbers of components that were tried", kind="i", optional=True)
    scores: Array | None = array("S", "the criterion of each, the smallest was kept", kind="f", optional=True)
    criterion: str | None = None
    image_shape: Array | None = array("2", "height and width of a row seen as a picture", kind="iu", optional=True, low=1)

    @property
    def constant_columns(self) -> Array:
        """(D,) bool: the columns that have one value in all training rows."""
        return np.asarray(self.base_variance <= FLAT * np.square(self.base_mean))

    def require_matching_rows(self, columns: int, holdout: Array | None) -> None:
        """Raise DataError unless the moments are finite and have `columns` columns, and the labels match the held-out rows (h, D)."""
        if len(self.base_mean) != columns:
            raise DataError(f"/known/base_mean has {len(self.base_mean)} columns, but the model has {columns}")
        require_consistent_moments(self, columns)
        require_image_shape(self.image_shape, columns)
        if self.holdout_y is not None and (holdout is None or len(self.holdout_y) != len(holdout)):
            raise DataError("/known/holdout_y needs one label for each row of /holdout")


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """A mixture of K Gaussians: p(y) = Σ_k weight_k N(y; mean_k, covariance_k).

    After variational Bayes the parameters have a posterior: Dirichlet (concentration) and normal–Wishart (mean, precision, freedom), with
    covariance⁻¹ = freedom W.  Then weight and covariance⁻¹ are posterior means, and densities are those of the predictive Student mixture.
    """

    family: str  # family of the covariances: full, tied, diagonal or spherical
    weight: Array = array("K", "probabilities of the components", kind="f")
    mean: Array = array("K D", "means", kind="f")
    covariance: Array = array("K D D", "covariances", kind="f")
    floor: float  # least variance: by default of a column with mean variance, others in proportion; --floor: in any direction
    ledger: ObjectiveHistory
    restarts: RestartOutcomes
    mass: float  # Σ of the weights of the training rows
    seed: int
    concentration: Array | None = array("K", "α of the Dirichlet posterior, by variational Bayes", kind="f", optional=True)
    precision: Array | None = array("K", "β, in rows, of the means' posterior", kind="f", optional=True)
    freedom: Array | None = array("K", "ν of the Wishart posterior", kind="f", optional=True)
    shrinkage: float = 0.0  # rows that the common covariance counted for in that of each component
    holdout: Array | None = array("h D", "rows of split 2, NaN where a value is missing", kind="f", optional=True)
    known: FitFacts | None = None

    def validate(self) -> None:
        """Raise DataError unless the weights are probabilities and the covariances positive definite."""
        _require_finite(self, "weight", "mean", "covariance")
        _require_mass(self.mass)
        if self.family not in COVARIANCES:
            raise DataError(f"family is '{self.family}', expected one of {', '.join(COVARIANCES)}")
        given = [item is not None for item in (self.concentration, self.precision, self.freedom)]
        if any(given) != all(given):
            raise DataError("/concentration, /precision and /freedom must be all present or all absent")
        if self.freedom is not None and (self.freedom <= self.mean.shape[1] - 1).any():
            raise DataError("/freedom must be above the number of columns minus one")
        if (self.weight < 0).any() or abs(float(self.weight.sum()) - 1.0) > 1e-9:
            raise DataError("/weight does not hold probabilities, which are at least 0 and sum to 1")
        if self.covariance.shape[1] != self.covariance.shape[2] or not are_positive_definite(self.covariance):
            raise DataError("/covariance is not positive definite")
        if not 0 <= self.shrinkage < np.inf:
            raise DataError(f"/shrinkage is {self.shrinkage:g}, but it must be a number of rows, 0 or more")
        if self.known is not None:
            self.known.require_matching_rows(self.mean.shape[1], self.holdout)
        if self.known is not None and (self.known.per_class < 1 or len(self.weight) % self.known.per_class):
            raise DataError(f"{len(self.weight)} components cannot be divided into {self.known.per_class} for each class")

    @property
    def parameters(self) -> Parameters:
        """The parameters that EM fitted."""
        learned = {"weight": self.weight, "mean": self.mean, "covariance": self.covariance}
        if self.concentration is None or self.precision is None or self.freedom is None:
            return learned
        return learned | {"concentration": self.concentration, "precision": self.precision, "freedom": self.freedom}

    @property
    def occupied_components(self) -> int:
        """The number of components whose total weight is at least one row; after variational Bayes n_k = ν_k − ν₀ with ν₀ = D."""
        count = self.weight * self.mass if self.freedom is None else self.freedom - self.mean.shape[1]
        return int(np.count_nonzero(count >= HELD))

    @property
    def floors_per_constant_column(self) -> int:
        """The number of variances that the last M step raises for a constant column: one per component, or one in all if tied."""
        return 0 if self.concentration is not None else {"spherical": 0, "tied": 1}.get(self.family, len(self.weight))

    @property
    def free_parameters(self) -> int:
        """The number of fitted parameters; constant columns have none."""
        return parameter_count(len(self.mean), varying_column_count(self), self.family)

    def responsibilities(self, X: Array) -> tuple[Array, Array]:
        """Return posteriors of the components (n, K) and log densities (n,) of rows (n, D); NaN is a missing value."""
        if self.concentration is not None:
            return predictive_posteriors(self.parameters, np.asarray(X, dtype=np.float64))
        return mixture_posteriors(self.parameters, X, self.family)

    def densities(self, X: Array) -> Array:
        """Return the log densities (n,) of rows (n, D)."""
        return self.responsibilities(X)[1]

    def assign_clusters(self, X: Array) -> Array:
        """Return the most probable component (n,) of each row (n, D), or its class where classes have components of their own."""
        r = self.responsibilities(X)[0]
        several = 1 if self.known is None else self.known.per_class
        found: Array = r.reshape(len(r), -1, several).sum(axis=2).argmax(axis=1)
        return found

    def impute_missing_values(self, X: Array) -> Array:
        """Return rows (n, D) with missing values replaced by their expectations: Σ_k r_k E[y_missing | y_observed, k]."""
        r, found = self.responsibilities(X)[0], X.astype(np.float64)
        absent = np.isnan(found)
        patterns, which = np.unique(absent, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            rows = np.flatnonzero(which.ravel() == number)
            if pattern.any():
                each = [impute_rows(X[rows].astype(np.float64), pattern, m, S)[1] for m, S in zip(self.mean, self.covariance, strict=True)]
                found[np.ix_(rows, pattern)] = np.einsum("nk,knd->nd", r[rows], np.array(each)[:, :, pattern])
        return found


@dataclass(frozen=True, kw_only=True)
class Clusters:
    """K cluster centres; each row belongs to the nearest.  The ledger holds −squared distance per row instead of log-likelihoods."""

    centre: Array = array("K D", "centres", kind="f")
    ledger: ObjectiveHistory
    restarts: RestartOutcomes
    mass: float  # Σ of the weights of the training rows
    seed: int
    holdout: Array | None = array("h D", "rows of split 2, NaN where a value is missing", kind="f", optional=True)
    known: FitFacts | None = None

    def validate(self) -> None:
        """Raise DataError unless the centres are finite."""
        _require_finite(self, "centre")
        _require_mass(self.mass)
        if self.known is not None:
            self.known.require_matching_rows(self.centre.shape[1], self.holdout)

    def assign_clusters(self, X: Array) -> Array:
        """Return the index (n,) of the centre nearest to each row (n, D)."""
        middle = self.centre.mean(axis=0)
        return nearest_centres_with_bounds(np.asarray(X, dtype=np.float64) - middle, self.centre - middle)[0]

    def densities(self, X: Array) -> Array:
        """Return the −squared distances (n,) of rows (n, D) from their nearest centres."""
        found: Array = -np.square(np.asarray(X, dtype=np.float64) - self.centre[self.assign_clusters(X)]).sum(axis=1)
        return found


@dataclass(frozen=True, kw_only=True)
class FactorModel:
    """A factor model: y = loading x + mean + noise, x ~ N(0, I_K), noise ~ N(0, diag(noise)).

    For pca the noise is 0, and only the plane that the loadings span is identified.
    """

    model: str  # fa, ppca or pca
    loading: Array = array("D K", "loadings", kind="f")
    mean: Array = array("D", "mean of the rows", kind="f")
    noise: Array = array("D", "variances of the noise", kind="f")
    floor: float  # least noise variance: by default for fa of a column with mean variance, others in proportion
    ledger: ObjectiveHistory
    restarts: RestartOutcomes
    mass: float  # Σ of the weights of the training rows
    seed: int
    rotation: Array | None = array("K K", "the loadings are those of the fit times this", kind="f", optional=True)
    correlation: Array | None = array("K K", "of the factors, after promax", kind="f", optional=True)
    holdout: Array | None = array("h D", "rows of split 2, NaN where a value is missing", kind="f", optional=True)
    known: FitFacts | None = None

    def validate(self) -> None:
        """Raise DataError unless the parameters are finite and the noise fits the model."""
        _require_finite(self, "loading", "mean", "noise")
        _require_mass(self.mass)
        if self.model not in MODELS:
            raise DataError(f"model is '{self.model}', expected one of {', '.join(MODELS)}")
        if (self.noise < 0).any() or (self.model != "pca") != bool(self.noise.all()):
            raise DataError("/noise must be 0 for pca and above 0 for the other models")
        if self.known is not None:
            self.known.require_matching_rows(len(self.mean), self.holdout)

    @property
    def parameters(self) -> Parameters:
        """The parameters that EM fitted, before any rotation."""
        loading = self.loading if self.rotation is None else self.loading @ np.linalg.inv(self.rotation)
        return {"loading": loading, "mean": self.mean, "noise": self.noise}

    @property
    def floors_per_constant_column(self) -> int:
        """The number of variances that the last M step raises for a constant column."""
        return int(self.model == "fa")

    @property
    def free_parameters(self) -> int | None:
        """The number of fitted parameters, without rotations and constant columns; None for pca, which has no density."""
        return None if self.model == "pca" else factor_parameters(self.model, varying_column_count(self), self.loading.shape[1])

    def scores(self, X: Array) -> Array:
        """Return factor scores (n, K) of rows (n, D); NaN is a missing value.

        With a rotation T these are scores of the rotated factors T⁻¹ x.
        """
        found = factor_posterior(self.parameters, X)[0]
        return found if self.rotation is None else found @ np.linalg.inv(self.rotation).T

    def densities(self, X: Array) -> Array:
        """Return the log densities (n,) of rows (n, D); for pca, −squared reconstruction errors."""
        if self.model != "pca":
            return factor_posterior(self.parameters, X)[1]
        found: Array = -np.nansum(np.square(X - self.reconstruct(X)), axis=1)
        return found

    def reconstruct(self, X: Array) -> Array:
        """Return the reconstruction of rows (n, D) from their factor scores."""
        return np.asarray(self.scores(X) @ self.loading.T + self.mean)

    def impute_missing_values(self, X: Array) -> Array:
        """Return rows (n, D) with missing values replaced by their reconstruction."""
        return np.where(np.isnan(X), self.reconstruct(X), X)

    def rotate_loadings(self, name: str) -> FactorModel:
        """Return the model with loadings rotated by `varimax` or `promax`, or this model for `none`.  The likelihood does not change."""
        if name == "varimax":
            loading, rotation = varimax(self.loading)
            return replace(self, loading=loading, rotation=rotation)
        if name == "promax":
            loading, rotation, correlation = promax(self.loading)
            return replace(self, loading=loading, rotation=rotation, correlation=correlation)
        return self


def varying_column_count(value: Mixture | FactorModel) -> int:
    """Return the number of columns that vary in the training rows; without known baseline moments, all of them."""
    return int(value.mean.shape[-1]) - (0 if value.known is None else int(value.known.constant_columns.sum()))


def mixture_artifact(fit: EMFit, family: str, floor: float, seed: int, holdout: Array | None = None) -> Mixture:
    """Return the artifact of a fitted `gmm`."""
    common: dict[str, Any] = {"ledger": fit.ledger, "restarts": restart_outcomes(fit), "mass": fit.mass, "seed": seed, "holdout": holdout}
    return Mixture(family=family, floor=floor, **dict[str, Any](fit.parameters), **common)


def kmeans_artifact(fit: EMFit, seed: int, holdout: Array | None = None) -> Clusters:
    """Return the artifact of a fitted `kmeans` without duplicate centres: the first of equal centres takes all rows."""
    _, first = np.unique(fit.parameters["centre"], axis=0, return_index=True)
    centre = fit.parameters["centre"][np.sort(first)]
    return Clusters(centre=centre, ledger=fit.ledger, restarts=restart_outcomes(fit), mass=fit.mass, seed=seed, holdout=holdout)


def factor_artifact(fit: EMFit, model: str, floor: float, seed: int, holdout: Array | None = None) -> FactorModel:
    """Return the artifact of a fitted `fa`, `ppca` or `pca`."""
    common: dict[str, Any] = {"ledger": fit.ledger, "restarts": restart_outcomes(fit), "mass": fit.mass, "seed": seed, "holdout": holdout}
    return FactorModel(model=model, floor=floor, **dict[str, Any](fit.parameters), **common)


__getattr__ = former_class_getattr(__name__, Restarts="RestartOutcomes", Known="FitFacts")  # names in pickles of version 0.1
