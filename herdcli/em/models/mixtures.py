"""Gaussian mixtures, by maximum likelihood or variational Bayes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.em import artifacts
from herdcli.em.driver import EM, EMFit, EMSettings
from herdcli.em.fitting import FitOptions, FitRows, PreparedFit, RowModel, add_criterion, require_enough_rows
from herdcli.em.mixture import gmm
from herdcli.em.mixture.component_search import ComponentSearch
from herdcli.em.mixture.variational_mixture import variational_gmm
from herdcli.numerics.block_statistics import BlockSource, Map


class MixtureModels(RowModel):
    """Gaussian mixtures of several sizes."""

    def prepare(self, rows: FitRows, asked: FitOptions, settings: EMSettings, source: BlockSource, map: Map) -> PreparedFit:
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
        require_enough_rows(first.found, tuple(each * size for size in asked.sizes), "components")
        models = [replace(first, components=each * size, per_class=size if several else 1) for size in asked.sizes]
        if asked.bayes:
            models = [variational_gmm(model, concentration=asked.concentration) for model in models]
        search = ComponentSearch(asked.sizes, tuple(EM(model, source, settings, map) for model in models))
        made = PreparedFit(asked, rows, first.found, first.floor, first.base(), search)
        return add_criterion(made, map)

    def assemble(self, made: PreparedFit, fit: EMFit) -> artifacts.Mixture:
        return artifacts.mixture_artifact(fit, made.asked.covariance, made.floor, made.asked.seed, made.rows.holdout)
