"""The row model of k-means."""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map
from herdcli.em import artifacts
from herdcli.em.driver import EM, EMFit, EMSettings
from herdcli.em.fitting import FitOptions, FitRows, PreparedFit, RowModel
from herdcli.em.mixture import kmeans
from herdcli.em.mixture.component_search import ComponentSearch
from herdcli.errors import BadUsage
from herdcli.numerics import block_statistics
from herdcli.numerics.block_statistics import BlockSource, RemoteSource


class ClusterModels(RowModel):
    """K-means with one number of clusters, which only the user can choose."""

    def prepare(self, rows: FitRows, options: FitOptions, settings: EMSettings, source: BlockSource, map: Map) -> PreparedFit:
        if len(options.sizes) > 1:
            raise BadUsage(
                "k-means has no likelihood, so it cannot choose the number of clusters", hint="use --components N, or --model gmm"
            )
        given = options.given if isinstance(options.given, np.ndarray) else None
        # bounds take 24 bytes per row, too much for rows on disk; rows in other processes have no bounds here
        in_memory = isinstance(rows.training, block_statistics.ArrayRows) and not isinstance(source, RemoteSource)
        init = options.init or "kmeans++"
        model = kmeans.prepare_kmeans(
            source, options.sizes[0], init=init, seed=options.seed, start_centres=given, bounded=in_memory, map=map
        )
        return PreparedFit(options, rows, model.found, 0.0, None, ComponentSearch(options.sizes, (EM(model, source, settings, map),)))

    def assemble(self, prepared: PreparedFit, fit: EMFit) -> artifacts.Clusters:
        return artifacts.kmeans_artifact(fit, prepared.asked.seed, prepared.rows.holdout)
