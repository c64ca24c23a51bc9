"""K-means."""

from __future__ import annotations

import numpy as np

from herdcli.em import artifacts
from herdcli.em.driver import EM, EMFit, EMSettings
from herdcli.em.fitting import FitOptions, FitRows, PreparedFit, RowModel
from herdcli.em.mixture import kmeans
from herdcli.em.mixture.component_search import ComponentSearch
from herdcli.errors import BadUsage
from herdcli.numerics import block_statistics
from herdcli.numerics.block_statistics import BlockSource, Map, RemoteSource


class ClusterModels(RowModel):
    """One number of clusters, which nothing but a user can choose."""

    def prepare(self, rows: FitRows, asked: FitOptions, settings: EMSettings, source: BlockSource, map: Map) -> PreparedFit:
        if len(asked.sizes) > 1:
            raise BadUsage("k-means has no likelihood to choose a number of clusters by", hint="--components N, or --model gmm")
        given = asked.given if isinstance(asked.given, np.ndarray) else None
        # bounds take 24 bytes a row, and rows on disk are many; those with other processes have no bounds here
        in_memory = isinstance(rows.training, block_statistics.RowTable) and not isinstance(source, RemoteSource)
        init = asked.init or "kmeans++"
        model = kmeans.prepare_kmeans(source, asked.sizes[0], init=init, seed=asked.seed, given=given, bounded=in_memory, map=map)
        return PreparedFit(asked, rows, model.found, 0.0, None, ComponentSearch(asked.sizes, (EM(model, source, settings, map),)))

    def assemble(self, made: PreparedFit, fit: EMFit) -> artifacts.Clusters:
        return artifacts.kmeans_artifact(fit, made.asked.seed, made.rows.holdout)
