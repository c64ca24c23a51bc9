"""From rows and what is asked of them to an artifact: the models that are tried, their criterion, and what is known of the one kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from herdcli.em import artifacts, factor_analysis, gmm, kmeans
from herdcli.em.component_search import ComponentSearch, SearchResult
from herdcli.em.driver import EM, EMFit, EMSettings, Parameters
from herdcli.em.principal_axes import PrincipalAxes, choose_solver
from herdcli.em.variance_floors import column_floors
from herdcli.em.variational_mixture import variational_gmm
from herdcli.errors import BadUsage, DataError
from herdcli.numerics import block_statistics
from herdcli.numerics.block_statistics import (
    BlockSource,
    Map,
    MarginalMoments,
    RemoteSource,
    RowBlock,
    RowBlocks,
    RowMoments,
    Sums,
    marginal_moments,
    total_statistics,
)
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

    def finished(self, found: SearchResult, map: Map = map) -> Made:
        """The artifact of what a search found."""
        value = replace(_assemble(self, found.size, found.fit), known=None)
        if isinstance(value, artifacts.FactorModel):
            value = value.rotated(self.asked.rotation)
        known = self._known(found)
        value = replace(value, known=known)
        if isinstance(value, artifacts.Mixture):
            known = replace(known, entropy=mean_responsibility_entropy(value, self.rows.training, map))
        if self.rows.valid is not None:
            base = baseline_density(value)
            known = replace(
                known, valid=mean_density(value.densities, self.rows.valid, map), base_valid=mean_density(base, self.rows.valid, map)
            )
        return replace(value, known=known)

    def _known(self, found: SearchResult) -> artifacts.Known:
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
            per_class=1 if self.asked.classes is None else found.size,
            sizes=np.array(self.search.sizes[: len(found.scores)]) if several else None,
            scores=np.array(found.scores) if several else None,
            criterion=(("bound" if self.asked.bayes else "bic") if self.asked.criterion == "bic" else self.asked.criterion)
            if several
            else None,
        )

    def _baseline_covariance(self) -> Array | None:
        """The covariance that a density is held against; None where it would be too large, or none was taken."""
        density, known = self.asked.model in ("gmm", "fa", "ppca"), self.found
        return known.covariance if density and isinstance(known, RowMoments) and len(known.mean) <= MOST_COLUMNS else None


def prepare_fit(rows: FitRows, asked: FitOptions, settings: EMSettings, map: Map = map, source: BlockSource | None = None) -> PreparedFit:
    """What there is to run.  Raises BadUsage and DataError for what cannot be learned.

    source  the blocks of the training rows, where other processes have them.
    """
    source = source or RowBlocks(rows.training)
    if asked.model == "gmm":
        return _prepare_mixtures(rows, asked, settings, source, map)
    if asked.model == "kmeans":
        return _prepare_clusters(rows, asked, settings, source, map)
    return _prepare_factors(rows, asked, settings, source, map)


def _prepare_mixtures(rows: FitRows, asked: FitOptions, settings: EMSettings, source: BlockSource, map: Map) -> PreparedFit:
    given = asked.given if isinstance(asked.given, dict) else None
    if given is not None and not asked.bayes:
        given = {name: given[name] for name in ("weight", "mean", "covariance")}
    init, size = asked.init or "kmeans++", asked.sizes[0]
    each, several = asked.classes or 1, asked.classes is not None
    first = gmm.prepare_gmm(
        source, each * size, covariance=asked.covariance, floor=asked.floor, init=init, seed=asked.seed, given=given, map=map
    )
    if isinstance(asked.given, np.ndarray):
        first = first.start_from_means(asked.given)
    _require_enough_rows(first.found, tuple(each * size for size in asked.sizes), "components")
    models = [replace(first, components=each * size, per_class=size if several else 1) for size in asked.sizes]
    if asked.bayes:
        models = [variational_gmm(model, concentration=asked.concentration) for model in models]
    search = ComponentSearch(asked.sizes, tuple(EM(model, source, settings, map) for model in models))
    made = PreparedFit(asked, rows, first.found, first.floor, first.base(), search)
    return _add_criterion(made, map)


def _prepare_clusters(rows: FitRows, asked: FitOptions, settings: EMSettings, source: BlockSource, map: Map) -> PreparedFit:
    if len(asked.sizes) > 1:
        raise BadUsage("k-means has no likelihood to choose a number of clusters by", hint="--components N, or --model gmm")
    given = asked.given if isinstance(asked.given, np.ndarray) else None
    # bounds take 24 bytes a row, and rows on disk are many; those with other processes have no bounds here
    in_memory = isinstance(rows.training, block_statistics.RowTable) and not isinstance(source, RemoteSource)
    init = asked.init or "kmeans++"
    model = kmeans.prepare_kmeans(source, asked.sizes[0], init=init, seed=asked.seed, given=given, bounded=in_memory, map=map)
    return PreparedFit(asked, rows, model.found, 0.0, None, ComponentSearch(asked.sizes, (EM(model, source, settings, map),)))


def _prepare_factors(rows: FitRows, asked: FitOptions, settings: EMSettings, source: BlockSource, map: Map) -> PreparedFit:
    if len(asked.sizes) > 1 and asked.model == "pca":
        raise BadUsage("pca has no likelihood to choose a number of factors by", hint="--components N, or --model ppca")
    if asked.criterion == "icl":
        raise BadUsage("--criterion icl is for mixtures", hint="--criterion bic, aic or valid")
    wide = _prepare_axes(rows, asked, source, map) if asked.model == "pca" and asked.given is None and asked.init in (None, "pca") else None
    if wide is not None:
        return wide
    given = asked.given if isinstance(asked.given, dict) else None
    init, size = asked.init or ("newton" if asked.model == "fa" else "pca"), asked.sizes[0]
    first, short = factor_analysis.prepare_factors(
        asked.model, source, size, floor=asked.floor, init=init, seed=asked.seed, given=given, map=map
    )
    top = replace(first, factors=asked.sizes[-1])
    if top.factors > (most := len(first.found.mean) - (asked.model != "pca")):
        message = f"{top.factors} factors of {len(first.found.mean)} columns cannot be learned by {asked.model}"
        raise BadUsage(message, hint=f"--components from 1 to {most}")
    models = [replace(first, factors=size) for size in asked.sizes]
    search = ComponentSearch(asked.sizes, tuple(EM(model, short, settings, map) for model in models))
    return _add_criterion(PreparedFit(asked, rows, first.found, first.floor, None, search), map)


def _prepare_axes(rows: FitRows, asked: FitOptions, source: BlockSource, map: Map) -> PreparedFit | None:
    """Pca without the D × D covariance, where that pays or is asked for; None: by the covariance.

    Raises DataError for rows with gaps, of which a randomised range knows nothing.
    """
    n, D, K = rows.training.count, rows.training.columns, asked.sizes[0]
    if K > D or choose_solver(asked.solver, n, D, K, complete=True) == "columns":
        return None
    found = marginal_moments(source, map)
    if found.missing and asked.solver == "randomised":
        many = "1 value is" if found.missing == 1 else f"{found.missing} values are"
        raise DataError(f"{many} missing, which --solver randomised cannot use", hint="--solver lapack")
    how = choose_solver(asked.solver, n, D, K, complete=not found.missing)
    if how == "columns":
        return None
    floor = column_floors(found.variance, found.mean, None)[0]
    axes = PrincipalAxes(source, found, K, how == "rows", floor, asked.seed, map)
    return PreparedFit(asked, rows, found, floor, None, ComponentSearch(asked.sizes, ()), axes)


def _require_enough_rows(found: RowMoments, sizes: tuple[int, ...], what: str) -> None:
    if found.rows < max(sizes):
        raise DataError(f"{found.rows} rows are too few for {max(sizes)} {what}", hint=f"--components {found.rows} or fewer")


def _add_criterion(made: PreparedFit, map: Map) -> PreparedFit:
    """With a criterion where there is a choice."""
    if len(made.search.sizes) == 1:
        return made
    if made.asked.criterion == "valid" and made.rows.valid is None:
        raise DataError("has no rows in split 1, which --criterion valid needs", hint="--split .6,.2,.2, or --criterion bic")

    def score(size: int, fit: EMFit) -> float:
        if made.asked.bayes and made.asked.criterion != "valid":
            return float(fit.ledger.free_energy[-1])
        value = replace(_assemble(made, size, fit), known=made._known(SearchResult(fit, size, ())))
        if made.asked.criterion == "valid":
            assert made.rows.valid is not None
            return -mean_density(value.densities, made.rows.valid, map)
        spread = (
            mean_responsibility_entropy(value, made.rows.training, map)
            if made.asked.criterion == "icl" and isinstance(value, artifacts.Mixture)
            else 0.0
        )
        return information_criteria(value, spread)[made.asked.criterion]

    return replace(made, search=replace(made.search, score=score, patience=made.asked.patience))


def _assemble(made: PreparedFit, size: int, fit: EMFit) -> Made:
    """The artifact of one fit, without what is known beside it."""
    asked, holdout = made.asked, made.rows.holdout
    if asked.model == "gmm":
        return artifacts.mixture_artifact(fit, asked.covariance, made.floor, asked.seed, holdout)
    if asked.model == "kmeans":
        return artifacts.kmeans_artifact(fit, asked.seed, holdout)
    return artifacts.factor_artifact(fit, asked.model, made.floor, asked.seed, holdout)


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
