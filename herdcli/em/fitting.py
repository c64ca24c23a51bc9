"""From rows and what is asked of them to an artifact: the models that are tried, their criterion, and what is known of the one kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from herdcli.em import artifacts
from herdcli.em.driver import EMFit, EMSettings, Parameters
from herdcli.em.factor.principal_axes import PrincipalAxes
from herdcli.em.mixture import gmm, kmeans
from herdcli.em.mixture.component_search import ComponentSearch, SearchResult
from herdcli.em.model_table import TABLE
from herdcli.errors import BadUsage, DataError
from herdcli.numerics import block_statistics
from herdcli.numerics.block_statistics import (
    BlockSource,
    Map,
    MarginalMoments,
    RowBlock,
    RowBlocks,
    RowMoments,
    Sums,
    total_statistics,
)
from herdcli.parts import resolve
from herdcli.records import dataclass
from herdcli.schema import Array

CRITERIA = ("bic", "aic", "icl", "valid")
MOST_COLUMNS = 500  # of a covariance that is kept for the baseline
Made = artifacts.Mixture | artifacts.Clusters | artifacts.FactorModel


@dataclass(frozen=True, kw_only=True)
class FitRows:
    """What is learned from, chosen by and kept to judge by."""

    training: block_statistics.RowReader
    valid: block_statistics.RowReader | None = None
    holdout: Array | None = None  # (h, D)
    holdout_y: Array | None = None
    feature_names: list[str] | None = None
    class_names: list[str] | None = None


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Which model is wanted.  sizes  numbers of components, factors or clusters to try; given  what to start from."""

    model: str
    sizes: tuple[int, ...]
    covariance: str = "full"
    criterion: str = "bic"
    floor: float | None = None
    init: str | None = None
    patience: int | None = None  # sizes in a row that may be worse than the best; None: all are tried
    seed: int = 0
    given: Parameters | Array | None = None
    supervised: bool = False
    classes: int | None = None  # whose components are `sizes` each; None: sizes are of all
    rotation: str = "none"
    batches: int | None = None  # minibatches of k-means
    bayes: bool = False  # variational, of gmm
    concentration: float | None = None  # of its prior over weights
    solver: str = "auto"  # of pca: auto, lapack or randomised


@dataclass(frozen=True)
class PreparedFit:
    """Rows and what is wanted of them, ready to be run: `search`, then `finished`."""

    asked: FitOptions
    rows: FitRows
    found: RowMoments | MarginalMoments
    floor: float
    base: Array | None  # (D, D), of mixtures
    search: ComponentSearch
    axes: PrincipalAxes | None = None  # of pca without a D × D covariance, in the place of the search

    def minibatch(self, map: Map = map) -> kmeans.MiniBatch | None:
        """What runs in the place of the search where minibatches are asked for."""
        if self.axes is not None or self.asked.batches is None:
            return None
        model = self.search.runs[0].model
        assert isinstance(model, kmeans.KMeans)
        return kmeans.MiniBatch(self.rows.training, model, self.asked.batches, map)

    def finished(self, search: SearchResult, map: Map = map) -> Made:
        """The artifact of what a search found."""
        value = replace(row_model(self.asked.model).assemble(self, search.fit), known=None)
        if isinstance(value, artifacts.FactorModel):
            value = value.rotated(self.asked.rotation)
        known = self._known(search)
        value = replace(value, known=known)
        if isinstance(value, artifacts.Mixture):
            known = replace(known, entropy=mean_responsibility_entropy(value, self.rows.training, map))
        if self.rows.valid is not None:
            base = baseline_density(value)
            known = replace(
                known, valid=mean_density(value.densities, self.rows.valid, map), base_valid=mean_density(base, self.rows.valid, map)
            )
        return replace(value, known=known)

    def _known(self, search: SearchResult) -> artifacts.Known:
        rows, several = self.rows, len(self.search.sizes) > 1
        return artifacts.Known(
            rows=self.found.rows,
            base_mean=self.found.mean,
            base_variance=self.found.variance,
            base_covariance=self.base,
            base_full=self._baseline_covariance(),
            missing=self.found.missing,
            holdout_y=None if rows.holdout is None else rows.holdout_y,
            feature_names=rows.feature_names,
            class_names=rows.class_names,
            supervised=self.asked.supervised,
            per_class=1 if self.asked.classes is None else search.size,
            sizes=np.array(self.search.sizes[: len(search.scores)]) if several else None,
            scores=np.array(search.scores) if several else None,
            criterion=(("bound" if self.asked.bayes else "bic") if self.asked.criterion == "bic" else self.asked.criterion)
            if several
            else None,
        )

    def _baseline_covariance(self) -> Array | None:
        """The covariance that a density is held against; None where it would be too large, or none was taken."""
        density, known = TABLE[self.asked.model].density, self.found
        return known.covariance if density and isinstance(known, RowMoments) and len(known.mean) <= MOST_COLUMNS else None


class RowModel(ABC):
    """A model of rows, by its name in the table."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def prepare(self, rows: FitRows, options: FitOptions, settings: EMSettings, source: BlockSource, map: Map) -> PreparedFit:
        """What there is to run.  Raises BadUsage and DataError for what cannot be learned.      source  blocks of the training rows."""

    @abstractmethod
    def assemble(self, prepared: PreparedFit, fit: EMFit) -> Made:
        """The artifact of one fit, without what is known beside it."""


def row_model(name: str) -> RowModel:
    """A model of rows by its name.  Raises BadUsage for others."""
    if name not in TABLE or TABLE[name].sequences:
        raise BadUsage(f"unknown model '{name}', expected {', '.join(each for each, entry in TABLE.items() if not entry.sequences)}")
    found: RowModel = resolve(TABLE[name].path, RowModel, name)
    return found


def prepare_fit(rows: FitRows, options: FitOptions, settings: EMSettings, map: Map = map, source: BlockSource | None = None) -> PreparedFit:
    """What there is to run.  Raises BadUsage and DataError for what cannot be learned.

    source  the blocks of the training rows, where other processes have them.
    """
    source = source or RowBlocks(rows.training)
    return row_model(options.model).prepare(rows, options, settings, source, map)


def require_enough_rows(moments: RowMoments, sizes: tuple[int, ...], what: str) -> None:
    """Raise DataError for fewer rows than the most components that are tried."""
    if moments.rows < max(sizes):
        raise DataError(f"{moments.rows} rows are too few for {max(sizes)} {what}", hint=f"--components {moments.rows} or fewer")


def add_criterion(prepared: PreparedFit, map: Map) -> PreparedFit:
    """With a criterion where there is a choice of sizes.  Raises DataError for that of validation rows without any."""
    if len(prepared.search.sizes) == 1:
        return prepared
    if prepared.asked.criterion == "valid" and prepared.rows.valid is None:
        raise DataError("has no rows in split 1, which --criterion valid needs", hint="--split .6,.2,.2, or --criterion bic")

    def score(size: int, fit: EMFit) -> float:
        if prepared.asked.bayes and prepared.asked.criterion != "valid":
            return float(fit.ledger.free_energy[-1])
        value = replace(row_model(prepared.asked.model).assemble(prepared, fit), known=prepared._known(SearchResult(fit, size, ())))
        if prepared.asked.criterion == "valid":
            assert prepared.rows.valid is not None
            return -mean_density(value.densities, prepared.rows.valid, map)
        spread = (
            mean_responsibility_entropy(value, prepared.rows.training, map)
            if prepared.asked.criterion == "icl" and isinstance(value, artifacts.Mixture)
            else 0.0
        )
        return information_criteria(value, spread)[prepared.asked.criterion]

    return replace(prepared, search=replace(prepared.search, score=score, patience=prepared.asked.patience))


def information_criteria(value: Made, spread: float) -> dict[str, float]:
    """AIC, BIC and, for mixtures, ICL, whose classification entropy Σ_n H(r_n) is `spread`; nothing for models without a density.

    ICL = BIC + 2 Σ_n H(r_n).  Source: Biernacki, Celeux & Govaert (2000).
    """
    parameters = None if isinstance(value, artifacts.Clusters) else value.free_parameters
    if parameters is None or (isinstance(value, artifacts.Mixture) and value.concentration is not None):
        return {}
    found = gmm.information_criteria(float(value.ledger.log_likelihood[-1]) * value.mass, value.mass, parameters)
    return found | ({"icl": found["bic"] + 2 * spread} if isinstance(value, artifacts.Mixture) else {})


def baseline_density(value: Made) -> Callable[[Array], Array]:
    """Densities of the simplest model: one Gaussian of the family, one centre, or independent columns."""
    known = value.known
    assert known is not None
    centre, variance = known.base_mean, known.base_variance
    if isinstance(value, artifacts.Clusters) or (isinstance(value, artifacts.FactorModel) and value.model == "pca"):
        return lambda X: -np.nansum(np.square(X - centre), axis=1)
    covariance = known.base_covariance if known.base_covariance is not None else np.diag(np.where(variance > 0, variance, value.floor))
    one = {"weight": np.ones(1), "mean": centre[None], "covariance": covariance[None]}
    return lambda X: gmm.mixture_posteriors(one, X)[1]


def mean_density(densities: Callable[[Array], Array], rows: block_statistics.RowReader, map: Map = map) -> float:
    """Mean of the densities of rows, by their weights."""

    def statistics(block: RowBlock) -> Sums:
        w = np.ones(len(block.X)) if block.weight is None else block.weight
        return {"sum": np.array([w @ densities(block.X), w.sum()])}

    found = total_statistics(RowBlocks(rows), statistics, map)["sum"]
    return float(found[0] / found[1])


def mean_responsibility_entropy(value: artifacts.Mixture, rows: block_statistics.RowReader, map: Map = map) -> float:
    """Σ_n w_n H(r_n) of the responsibilities of rows, among the components that their labels leave; 0 where that is one."""
    several = 1 if value.known is None else value.known.per_class
    own = np.arange(len(value.weight)) // several

    def statistics(block: RowBlock) -> Sums:
        r = value.responsibilities(block.X)[0]
        if block.labels is not None and several > 1:
            r = np.where((block.labels >= 0)[:, None] & (own != block.labels[:, None]), 0.0, r)
            r = r / np.maximum(r.sum(axis=1, keepdims=True), 1e-300)
        along = np.ascontiguousarray(r.T)  # a component after the other, so that the sum runs along memory
        H = -(along * np.log(np.where(along > 0, along, 1.0))).sum(axis=0)
        if block.labels is not None and several == 1:
            H[block.labels >= 0] = 0.0
        return {"sum": np.array([H.sum() if block.weight is None else block.weight @ H])}

    return float(total_statistics(RowBlocks(rows), statistics, map)["sum"][0])
