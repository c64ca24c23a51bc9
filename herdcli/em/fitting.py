"""Fits of row models from data and options to an artifact: the candidate models, their criterion, and facts about the chosen one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from herdcli.algorithm import Map
from herdcli.em import artifacts
from herdcli.em.driver import EMFit, EMSettings, Parameters
from herdcli.em.factor.principal_axes import PrincipalAxes
from herdcli.em.mixture import gmm, kmeans
from herdcli.em.mixture.component_search import ComponentSearch, SearchResult
from herdcli.em.model_table import TABLE
from herdcli.errors import BadUsage, DataError
from herdcli.numerics import block_statistics
from herdcli.numerics.block_statistics import BlockSource, MarginalMoments, RowBlock, RowBlocks, RowMoments, Sums, sum_statistics
from herdcli.parts import instantiate_class
from herdcli.records import dataclass
from herdcli.schema import Array

CRITERIA = ("bic", "aic", "icl", "valid")
MOST_COLUMNS = 500  # the covariance is kept for the baseline if there are at most this many columns
FittedArtifact = artifacts.Mixture | artifacts.Clusters | artifacts.FactorModel


@dataclass(frozen=True, kw_only=True)
class FitRows:
    """The training, validation and held-out rows of a fit."""

    training: block_statistics.RowReader
    valid: block_statistics.RowReader | None = None
    holdout: Array | None = None  # (h, D)
    holdout_y: Array | None = None
    feature_names: list[str] | None = None
    class_names: list[str] | None = None
    image_shape: Array | None = None  # (2,) if rows are images


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """The options of a fit.

    sizes  numbers of components, factors or clusters to try
    given  initial parameters
    """

    model: str
    sizes: tuple[int, ...]
    covariance: str = "full"
    criterion: str = "bic"
    floor: float | None = None
    init: str | None = None
    patience: int | None = None  # consecutive sizes that may be worse than the best; None: all sizes are tried
    seed: int = 0
    given: Parameters | Array | None = None
    supervised: bool = False
    classes: int | None = None  # number of classes, each with `sizes` components; None: sizes count all components
    rotation: str = "none"
    batches: int | None = None  # number of minibatches of k-means
    bayes: bool = False  # fit gmm by variational Bayes
    concentration: float | None = None  # concentration of the prior over its weights
    solver: str = "auto"  # solver of pca: auto, lapack or randomised
    shrinkage: float | None = None  # rows that the common covariance counts for, see `covariance_prior`; None: as the rows require


@dataclass(frozen=True)
class PreparedFit:
    """A fit that is ready to run: run `search`, then call `artifact_from_search` on its result."""

    asked: FitOptions
    rows: FitRows
    found: RowMoments | MarginalMoments
    floor: float
    base: Array | None  # (D, D), for mixtures
    search: ComponentSearch
    axes: PrincipalAxes | None = None  # algorithm that takes the place of the search, for pca without a D × D covariance

    def minibatch(self, map: Map = map) -> kmeans.MiniBatch | None:
        """Return the minibatch algorithm that takes the place of the search, or None if no minibatches are requested."""
        if self.axes is not None or self.asked.batches is None:
            return None
        model = self.search.runs[0].model
        assert isinstance(model, kmeans.KMeans)
        return kmeans.MiniBatch(self.rows.training, model, self.asked.batches, map)

    def artifact_from_search(self, search: SearchResult, map: Map = map) -> FittedArtifact:
        """Return the artifact of the result of a search."""
        value = replace(row_model(self.asked.model).assemble(self, search.fit), known=None)
        if isinstance(value, artifacts.FactorModel):
            value = value.rotate_loadings(self.asked.rotation)
        known = self._fit_facts(search)
        value = replace(value, known=known)
        if isinstance(value, artifacts.Mixture):
            known = replace(known, entropy=mean_responsibility_entropy(value, self.rows.training, map))
        if self.rows.valid is not None:
            base = baseline_log_density(value)
            known = replace(
                known,
                valid=mean_log_density(value.densities, self.rows.valid, map),
                base_valid=mean_log_density(base, self.rows.valid, map),
            )
        return replace(value, known=known)

    def _fit_facts(self, search: SearchResult) -> artifacts.FitFacts:
        rows, several = self.rows, len(self.search.sizes) > 1
        return artifacts.FitFacts(
            rows=self.found.rows,
            base_mean=self.found.mean,
            base_variance=self.found.variance,
            base_covariance=self.base,
            base_full=self._baseline_covariance(),
            missing=self.found.missing,
            holdout_y=None if rows.holdout is None else rows.holdout_y,
            feature_names=rows.feature_names,
            class_names=rows.class_names,
            image_shape=rows.image_shape,
            supervised=self.asked.supervised,
            per_class=1 if self.asked.classes is None else search.size,
            sizes=np.array(self.search.sizes[: len(search.scores)]) if several else None,
            scores=np.array(search.scores) if several else None,
            criterion=(("bound" if self.asked.bayes else "bic") if self.asked.criterion == "bic" else self.asked.criterion)
            if several
            else None,
        )

    def _baseline_covariance(self) -> Array | None:
        """Return the covariance of the baseline density; None if it would be too large or was not computed."""
        density, known = TABLE[self.asked.model].density, self.found
        return known.covariance if density and isinstance(known, RowMoments) and len(known.mean) <= MOST_COLUMNS else None


class RowModel(ABC):
    """A model of rows, identified by its name in the table."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def prepare(self, rows: FitRows, options: FitOptions, settings: EMSettings, source: BlockSource, map: Map) -> PreparedFit:
        """Return the fit, ready to run.  Raises BadUsage and DataError if the model cannot be fitted.

        source  blocks of the training rows
        """

    @abstractmethod
    def assemble(self, prepared: PreparedFit, fit: EMFit) -> FittedArtifact:
        """Return the artifact of one fit, with parameters only and no further facts about the rows."""


def row_model(name: str) -> RowModel:
    """Return the row model of this name.  Raises BadUsage for other names."""
    if name not in TABLE or TABLE[name].sequences:
        raise BadUsage(f"unknown model '{name}', expected {', '.join(each for each, entry in TABLE.items() if not entry.sequences)}")
    found: RowModel = instantiate_class(TABLE[name].path, RowModel, name)
    return found


def prepare_fit(rows: FitRows, options: FitOptions, settings: EMSettings, map: Map = map, source: BlockSource | None = None) -> PreparedFit:
    """Return a fit that is ready to run.  Raises BadUsage and DataError if the model cannot be fitted.

    source  the blocks of the training rows, where other processes hold them.
    """
    source = source or RowBlocks(rows.training)
    return row_model(options.model).prepare(rows, options, settings, source, map)


def require_enough_rows(moments: RowMoments, sizes: tuple[int, ...], what: str) -> None:
    """Raise DataError if there are fewer rows than the largest number of components to try."""
    if moments.rows < max(sizes):
        raise DataError(f"{moments.rows} rows are too few for {max(sizes)} {what}", hint=f"use --components {moments.rows} or fewer")


def add_size_criterion(prepared: PreparedFit, map: Map) -> PreparedFit:
    """Return the fit with a criterion added if there are several sizes to choose from.

    Raises DataError if the criterion needs validation rows and there are none.
    """
    if len(prepared.search.sizes) == 1:
        return prepared
    if prepared.asked.criterion == "valid" and prepared.rows.valid is None:
        raise DataError("has no validation rows, which --criterion valid needs", hint="use --split .6,.2,.2, or --criterion bic")

    def score(size: int, fit: EMFit) -> float:
        if prepared.asked.bayes and prepared.asked.criterion != "valid":
            return float(fit.ledger.free_energy[-1])
        value = replace(row_model(prepared.asked.model).assemble(prepared, fit), known=prepared._fit_facts(SearchResult(fit, size, ())))
        if prepared.asked.criterion == "valid":
            assert prepared.rows.valid is not None
            return -mean_log_density(value.densities, prepared.rows.valid, map)
        spread = (
            mean_responsibility_entropy(value, prepared.rows.training, map)
            if prepared.asked.criterion == "icl" and isinstance(value, artifacts.Mixture)
            else 0.0
        )
        return information_criteria(value, spread)[prepared.asked.criterion]

    return replace(prepared, search=replace(prepared.search, score=score, patience=prepared.asked.patience))


def information_criteria(value: FittedArtifact, classification_entropy: float) -> dict[str, float]:
    """Return AIC, BIC and, for mixtures, ICL; an empty dictionary for models without a density.

    ICL = BIC + 2 Σ_n H(r_n), where Σ_n H(r_n), the classification entropy, is `classification_entropy`.  Source: Biernacki, Celeux &
    Govaert (2000).
    """
    parameters = None if isinstance(value, artifacts.Clusters) else value.free_parameters
    if parameters is None or (isinstance(value, artifacts.Mixture) and value.concentration is not None):
        return {}
    found = gmm.information_criteria(float(value.ledger.log_likelihood[-1]) * value.mass, value.mass, parameters)
    return found | ({"icl": found["bic"] + 2 * classification_entropy} if isinstance(value, artifacts.Mixture) else {})


def baseline_log_density(value: FittedArtifact) -> Callable[[Array], Array]:
    """Return the density of the simplest model: one Gaussian of the family, one centre, or independent columns."""
    known = value.known
    assert known is not None
    centre, variance = known.base_mean, known.base_variance
    if isinstance(value, artifacts.Clusters) or (isinstance(value, artifacts.FactorModel) and value.model == "pca"):
        return lambda X: -np.nansum(np.square(X - centre), axis=1)
    covariance = known.base_covariance if known.base_covariance is not None else np.diag(np.where(variance > 0, variance, value.floor))
    one = {"weight": np.ones(1), "mean": centre[None], "covariance": covariance[None]}
    return lambda X: gmm.mixture_posteriors(one, X)[1]


def mean_log_density(densities: Callable[[Array], Array], rows: block_statistics.RowReader, map: Map = map) -> float:
    """Return the weighted mean of the log densities of the rows.  densities  returns log densities (n,)."""

    def statistics(block: RowBlock) -> Sums:
        w = np.ones(len(block.X)) if block.weight is None else block.weight
        return {"sum": np.array([w @ densities(block.X), w.sum()])}

    found = sum_statistics(RowBlocks(rows), statistics, map)["sum"]
    return float(found[0] / found[1])


def mean_responsibility_entropy(value: artifacts.Mixture, rows: block_statistics.RowReader, map: Map = map) -> float:
    """Return Σ_n w_n H(r_n), the weighted entropy of the responsibilities of rows.

    A labelled row has only the components of its label; the result is 0 where that is one component.
    """
    several = 1 if value.known is None else value.known.per_class
    own = np.arange(len(value.weight)) // several

    def statistics(block: RowBlock) -> Sums:
        r = value.responsibilities(block.X)[0]
        if block.labels is not None and several > 1:
            r = np.where((block.labels >= 0)[:, None] & (own != block.labels[:, None]), 0.0, r)
            r = r / np.maximum(r.sum(axis=1, keepdims=True), 1e-300)
        along = np.ascontiguousarray(r.T)  # one component per row, so that the sum runs along contiguous memory
        H = -(along * np.log(np.where(along > 0, along, 1.0))).sum(axis=0)
        if block.labels is not None and several == 1:
            H[block.labels >= 0] = 0.0
        return {"sum": np.array([H.sum() if block.weight is None else block.weight @ H])}

    return float(sum_statistics(RowBlocks(rows), statistics, map)["sum"][0])
