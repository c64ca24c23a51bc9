"""The row models of Gaussian mixtures, by maximum likelihood or variational Bayes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.algorithm import Map
from herdcli.em import artifacts
from herdcli.em.driver import EM, EMFit, EMSettings
from herdcli.em.fitting import FitOptions, FitRows, PreparedFit, RowModel, add_size_criterion, require_enough_rows
from herdcli.em.mixture import gmm
from herdcli.em.mixture.component_search import ComponentSearch
from herdcli.em.mixture.variational_mixture import make_variational_gmm
from herdcli.numerics.block_statistics import BlockSource


class MixtureModels(RowModel):
    """Gaussian mixtures of several sizes."""

    def prepare(self, rows: FitRows, options: FitOptions, settings: EMSettings, source: BlockSource, map: Map) -> PreparedFit:
        given = options.given if isinstance(options.given, dict) else None
        if given is not None and not options.bayes:
            given = {name: given[name] for name in ("weight", "mean", "covariance")}
        init, size = options.init or "kmeans++", options.sizes[0]
        each, several = options.classes or 1, options.classes is not None
        first = gmm.prepare_gmm(
            source, each * size, covariance=options.covariance, floor=options.floor, init=init, seed=options.seed, start=given, map=map
        )
        if isinstance(options.given, np.ndarray):
            first = first.start_from_means(options.given)
        require_enough_rows(first.found, tuple(each * size for size in options.sizes), "components")
        models = [replace(first, components=each * size, per_class=size if several else 1) for size in options.sizes]
        if options.bayes:
            models = [make_variational_gmm(model, concentration=options.concentration) for model in models]
        else:
            models = [model.with_shrinkage(options.shrinkage) for model in models]
        search = ComponentSearch(options.sizes, tuple(EM(model, source, settings, map) for model in models))
        made = PreparedFit(options, rows, first.found, first.floor, first.single_gaussian_covariance(), search)
        return add_size_criterion(made, map)

    def assemble(self, prepared: PreparedFit, fit: EMFit) -> artifacts.Mixture:
        value = artifacts.mixture_artifact(fit, prepared.asked.covariance, prepared.floor, prepared.asked.seed, prepared.rows.holdout)
        models = [run.model for run in prepared.search.runs if isinstance(run.model, gmm.GMM)]
        prior = next((model.shrinkage for model in models if model.components == len(value.weight)), None)
        return replace(value, shrinkage=0.0 if prior is None else prior.rows)
