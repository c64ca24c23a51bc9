"""Features and scores of new rows by fitted models: hidden means are the features, free energies the scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from herdcli.algorithm import Map
from herdcli.numerics.row_selection import select_rows
from herdcli.rbm.likelihood.row_likelihood import row_blocks
from herdcli.rbm.model import RBM, Harmonium
from herdcli.rbm.units import unit_family
from herdcli.schema import Array, Matrix, is_sparse


def hidden_unit_means(model: RBM, rows: Matrix, map: Map = map) -> Array:
    """Compute E[h | v] of all models as columns (n, C·K) float32, for rows (n, D) in unit values; for rate units as proportions."""
    result = np.empty((rows.shape[0], model.c.size), dtype=np.float32)
    width, models = model.c.shape[1], model.harmoniums()

    def fill(block: slice) -> None:
        for m, h in enumerate(models):
            result[block, m * width : (m + 1) * width] = h.hidden_means(rows[block]) / h.hidden.scale

    list(map(fill, row_blocks(rows.shape[0], sum(model.W.shape[1:]))))
    return result


def free_energies_by_model(models: Sequence[Harmonium], rows: Matrix, map: Map = map) -> Array:
    """Compute the free energy (n, C) float64, in nats, of every row (n, D) under every model.

    Each model has its own unknown log Z.

    rows  an array, a CSR matrix or rows selected from one.
    """
    D, K = models[0].W.shape
    count, sparse = rows.shape[0], is_sparse(select_rows(rows, slice(0, 0)))
    result = np.empty((count, len(models)))

    def fill(block: slice) -> None:
        part = select_rows(rows, block).astype(np.float64)
        for m, h in enumerate(models):
            result[block, m] = h.free_energy(part)

    list(map(fill, row_blocks(count, K if sparse else D + K)))
    return result


def hidden_mean_range(model: RBM) -> Array | None:
    """Return the lowest and highest value of a feature, (2,) float64; None if it has no bounds."""
    units = unit_family(model.hidden_units)
    return None if units.range is None else np.array(units.range) / units.scale
