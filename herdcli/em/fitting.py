"""From rows and what is asked of them to an artifact: the models that are tried, their criterion, and what is known of the one kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from herdcli.em import artifacts, factors, gmm, kmeans
from herdcli.em.axes import Axes, chosen
from herdcli.em.bayes import variational
from herdcli.em.driver import EM, Fit, Parameters, Settings
from herdcli.em.floors import of_columns
from herdcli.em.search import Found, Search
from herdcli.errors import BadUsage, DataError
from herdcli.numerics import blocks
from herdcli.numerics.blocks import Block, Blocks, Map, Margins, Moments, Source, Spread, Sums, margins, total
from herdcli.records import dataclass
from herdcli.schema import Array

CRITERIA = ("bic", "aic", "icl", "valid")
MOST_COLUMNS = 500  # of a covariance that is kept for the baseline
Made = artifacts.Mixture | artifacts.Clusters | artifacts.FactorModel


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What is learned from, chosen by and kept to judge by."""

    training: blocks.Rows
    valid: blocks.Rows | None = None
    holdout: Array | None = None  # (h, D)
    holdout_y: Array | None = None
    feature_names: list[str] | None = None
    class_names: list[str] | None = None


@dataclass(frozen=True, kw_only=True)
class Asked:
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
class Fitting:
    """Rows and what is wanted of them, ready to be run: `search`, then `finished`."""

    asked: Asked
    rows: Rows
    found: Moments | Margins
    floor: float
    base: Array | None  # (D, D), of mixtures
    search: Search
    axes: Axes | None = None  # of pca without a D × D covariance, in the place of the search

    def minibatch(self, map: Map = map) -> kmeans.MiniBatch | None:
        """What runs in the place of the search where minibatches are asked for."""
        if self.axes is not None or self.asked.batches is None:
            return None
        model = self.search.runs[0].model
        assert isinstance(model, kmeans.KMeans)
        return kmeans.MiniBatch(self.rows.training, model, self.asked.batches, map)

    def finished(self, found: Found, map: Map = map) -> Made:
        """The artifact of what a search found."""
        value = replace(_made(self, found.size, found.fit), known=None)
        if isinstance(value, artifacts.FactorModel):
            value = value.rotated(self.asked.rotation)
        known = self._known(found)
        value = replace(value, known=known)
        if isinstance(value, artifacts.Mixture):
            known = replace(known, entropy=entropy(value, self.rows.training, map))
        if self.rows.valid is not None:
            base = base_densities(value)
            known = replace(known, valid=mean(value.densities, self.rows.valid, map), base_valid=mean(base, self.rows.valid, map))
        return replace(value, known=known)

    def _known(self, found: Found) -> artifacts.Known:
        rows, several = self.rows, len(self.search.sizes) > 1
        return artifacts.Known(
            rows=self.found.rows,
            base_mean=self.found.mean,
            base_variance=self.found.variance,
            base_covariance=self.base,
            base_full=self._covariance(),
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

    def _covariance(self) -> Array | None:
        """The covariance that a density is held against; None where it would be too large, or none was taken."""
        density, known = self.asked.model in ("gmm", "fa", "ppca"), self.found
        return known.covariance if density and isinstance(known, Moments) and len(known.mean) <= MOST_COLUMNS else None


def fitting(rows: Rows, asked: Asked, settings: Settings, map: Map = map, source: Source | None = None) -> Fitting:
    """What there is to run.  Raises BadUsage and DataError for what cannot be learned.

    source  the blocks of the training rows, where other processes have them.
    """
    source = source or Blocks(rows.training)
    if asked.model == "gmm":
        return _mixtures(rows, asked, settings, source, map)
    if asked.model == "kmeans":
        return _clusters(rows, asked, settings, source, map)
    return _factors(rows, asked, settings, source, map)


def _mixtures(rows: Rows, asked: Asked, settings: Settings, source: Source, map: Map) -> Fitting:
    given = asked.given if isinstance(asked.given, dict) else None
    if given is not None and not asked.bayes:
        given = {name: given[name] for name in ("weight", "mean", "covariance")}
    init, size = asked.init or "kmeans++", asked.sizes[0]
    each, several = asked.classes or 1, asked.classes is not None
    first = gmm.gmm(source, each * size, covariance=asked.covariance, floor=asked.floor, init=init, seed=asked.seed, given=given, map=map)
    if isinstance(asked.given, np.ndarray):
        first = first.begun_at(asked.given)
    _enough(first.found, tuple(each * size for size in asked.sizes), "components")
    models = [replace(first, components=each * size, per_class=size if several else 1) for size in asked.sizes]
    if asked.bayes:
        models = [variational(model, concentration=asked.concentration) for model in models]
    search = Search(asked.sizes, tuple(EM(model, source, settings, map) for model in models))
    made = Fitting(asked, rows, first.found, first.floor, first.base(), search)
    return _scored(made, map)


def _clusters(rows: Rows, asked: Asked, settings: Settings, source: Source, map: Map) -> Fitting:
    if len(asked.sizes) > 1:
        raise BadUsage("k-means has no likelihood to choose a number of clusters by", hint="--components N, or --model gmm")
    given = asked.given if isinstance(asked.given, np.ndarray) else None
    # bounds take 24 bytes a row, and rows on disk are many; those with other processes have no bounds here
    in_memory = isinstance(rows.training, blocks.Table) and not isinstance(source, Spread)
    init = asked.init or "kmeans++"
    model = kmeans.kmeans(source, asked.sizes[0], init=init, seed=asked.seed, given=given, bounded=in_memory, map=map)
    return Fitting(asked, rows, model.found, 0.0, None, Search(asked.sizes, (EM(model, source, settings, map),)))


def _factors(rows: Rows, asked: Asked, settings: Settings, source: Source, map: Map) -> Fitting:
    if len(asked.sizes) > 1 and asked.model == "pca":
        raise BadUsage("pca has no likelihood to choose a number of factors by", hint="--components N, or --model ppca")
    if asked.criterion == "icl":
        raise BadUsage("--criterion icl is for mixtures", hint="--criterion bic, aic or valid")
    wide = _axes(rows, asked, source, map) if asked.model == "pca" and asked.given is None and asked.init in (None, "pca") else None
    if wide is not None:
        return wide
    given = asked.given if isinstance(asked.given, dict) else None
    init, size = asked.init or ("newton" if asked.model == "fa" else "pca"), asked.sizes[0]
    first, short = factors.factors(asked.model, source, size, floor=asked.floor, init=init, seed=asked.seed, given=given, map=map)
    top = replace(first, factors=asked.sizes[-1])
    if top.factors > (most := len(first.found.mean) - (asked.model != "pca")):
        message = f"{top.factors} factors of {len(first.found.mean)} columns cannot be learned by {asked.model}"
        raise BadUsage(message, hint=f"--components from 1 to {most}")
    models = [replace(first, factors=size) for size in asked.sizes]
    search = Search(asked.sizes, tuple(EM(model, short, settings, map) for model in models))
    return _scored(Fitting(asked, rows, first.found, first.floor, None, search), map)


def _axes(rows: Rows, asked: Asked, source: Source, map: Map) -> Fitting | None:
    """Pca without the D × D covariance, where that pays or is asked for; None: by the covariance.

    Raises DataError for rows with gaps, of which a randomised range knows nothing.
    """
    n, D, K = rows.training.count, rows.training.columns, asked.sizes[0]
    if K > D or chosen(asked.solver, n, D, K, complete=True) == "columns":
        return None
    found = margins(source, map)
    if found.missing and asked.solver == "randomised":
        many = "1 value is" if found.missing == 1 else f"{found.missing} values are"
        raise DataError(f"{many} missing, which --solver randomised cannot use", hint="--solver lapack")
    how = chosen(asked.solver, n, D, K, complete=not found.missing)
    if how == "columns":
        return None
    floor = of_columns(found.variance, found.mean, None)[0]
    axes = Axes(source, found, K, how == "rows", floor, asked.seed, map)
    return Fitting(asked, rows, found, floor, None, Search(asked.sizes, ()), axes)


def _enough(found: Moments, sizes: tuple[int, ...], what: str) -> None:
    if found.rows < max(sizes):
        raise DataError(f"{found.rows} rows are too few for {max(sizes)} {what}", hint=f"--components {found.rows} or fewer")


def _scored(made: Fitting, map: Map) -> Fitting:
    """With a criterion where there is a choice."""
    if len(made.search.sizes) == 1:
        return made
    if made.asked.criterion == "valid" and made.rows.valid is None:
        raise DataError("has no rows in split 1, which --criterion valid needs", hint="--split .6,.2,.2, or --criterion bic")

    def score(size: int, fit: Fit) -> float:
        if made.asked.bayes and made.asked.criterion != "valid":
            return float(fit.ledger.free_energy[-1])
        value = replace(_made(made, size, fit), known=made._known(Found(fit, size, ())))
        if made.asked.criterion == "valid":
            assert made.rows.valid is not None
            return -mean(value.densities, made.rows.valid, map)
        spread = entropy(value, made.rows.training, map) if made.asked.criterion == "icl" and isinstance(value, artifacts.Mixture) else 0.0
        return criteria(value, spread)[made.asked.criterion]

    return replace(made, search=replace(made.search, score=score, patience=made.asked.patience))


def _made(made: Fitting, size: int, fit: Fit) -> Made:
    """The artifact of one fit, without what is known beside it."""
    asked, holdout = made.asked, made.rows.holdout
    if asked.model == "gmm":
        return artifacts.mixture(fit, asked.covariance, made.floor, asked.seed, holdout)
    if asked.model == "kmeans":
        return artifacts.clusters(fit, asked.seed, holdout)
    return artifacts.factor_model(fit, asked.model, made.floor, asked.seed, holdout)


def criteria(value: Made, spread: float) -> dict[str, float]:
    """AIC, BIC and, for mixtures, ICL, whose classification entropy Σ_n H(r_n) is `spread`; nothing for models without a density.

    ICL = BIC + 2 Σ_n H(r_n).  Source: Biernacki, Celeux & Govaert (2000).
    """
    parameters = None if isinstance(value, artifacts.Clusters) else value.free_parameters
    if parameters is None or (isinstance(value, artifacts.Mixture) and value.concentration is not None):
        return {}
    found = gmm.criteria(float(value.ledger.log_likelihood[-1]) * value.mass, value.mass, parameters)
    return found | ({"icl": found["bic"] + 2 * spread} if isinstance(value, artifacts.Mixture) else {})


def base_densities(value: Made) -> Callable[[Array], Array]:
    """Densities of the simplest model: one Gaussian of the family, one centre, or independent columns."""
    known = value.known
    assert known is not None
    centre, variance = known.base_mean, known.base_variance
    if isinstance(value, artifacts.Clusters) or (isinstance(value, artifacts.FactorModel) and value.model == "pca"):
        return lambda X: -np.nansum(np.square(X - centre), axis=1)
    covariance = known.base_covariance if known.base_covariance is not None else np.diag(np.where(variance > 0, variance, value.floor))
    one = {"weight": np.ones(1), "mean": centre[None], "covariance": covariance[None]}
    return lambda X: gmm.of_mixture(one, X)[1]


def mean(densities: Callable[[Array], Array], rows: blocks.Rows, map: Map = map) -> float:
    """Mean of the densities of rows, by their weights."""

    def statistics(block: Block) -> Sums:
        w = np.ones(len(block.X)) if block.weight is None else block.weight
        return {"sum": np.array([w @ densities(block.X), w.sum()])}

    found = total(Blocks(rows), statistics, map)["sum"]
    return float(found[0] / found[1])


def entropy(value: artifacts.Mixture, rows: blocks.Rows, map: Map = map) -> float:
    """Σ_n w_n H(r_n) of the responsibilities of rows, among the components that their labels leave; 0 where that is one."""
    several = 1 if value.known is None else value.known.per_class
    own = np.arange(len(value.weight)) // several

    def statistics(block: Block) -> Sums:
        r = value.responsibilities(block.X)[0]
        if block.labels is not None and several > 1:
            r = np.where((block.labels >= 0)[:, None] & (own != block.labels[:, None]), 0.0, r)
            r = r / np.maximum(r.sum(axis=1, keepdims=True), 1e-300)
        along = np.ascontiguousarray(r.T)  # a component after the other, so that the sum runs along memory
        H = -(along * np.log(np.where(along > 0, along, 1.0))).sum(axis=0)
        if block.labels is not None and several == 1:
            H[block.labels >= 0] = 0.0
        return {"sum": np.array([H.sum() if block.weight is None else block.weight @ H])}

    return float(total(Blocks(rows), statistics, map)["sum"][0])
