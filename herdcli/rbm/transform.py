"""New rows through fitted models: hidden means as features, free energies as scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from herdcli.rbm.learning import Selected
from herdcli.rbm.likelihood import row_blocks
from herdcli.rbm.model import RBM, Harmonium
from herdcli.rbm.units import family
from herdcli.schema import Array


def features(model: RBM, rows: Array, map: Callable[..., Any] = map) -> Array:
    """E[h | v] of every model side by side, (n, C·K) float32, for rows (n, D) in unit values; of rate units as proportions."""
    result = np.empty((len(rows), model.c.size), dtype=np.float32)
    width, models = model.c.shape[1], model.harmoniums()

    def fill(block: slice) -> None:
        for m, h in enumerate(models):
            result[block, m * width : (m + 1) * width] = h.hidden_means(rows[block]) / h.hidden.scale

    list(map(fill, row_blocks(len(rows), sum(model.W.shape[1:]))))
    return result


def energies(models: Sequence[Harmonium], rows: Array | Selected, map: Callable[..., Any] = map) -> Array:
    """Free energy of every row (n, D) under every model, (n, C) float64, in nats; each model has its own unknown log Z."""
    result = np.empty((len(rows), len(models)))

    def fill(block: slice) -> None:
        part = rows[block].astype(np.float64)
        for m, h in enumerate(models):
            result[block, m] = h.free_energy(part)

    list(map(fill, row_blocks(len(rows), sum(models[0].W.shape))))
    return result


def feature_range(model: RBM) -> Array | None:
    """Lowest and highest value a feature can take, (2,) float64; None if there is none."""
    units = family(model.hidden_units)
    return None if units.range is None else np.array(units.range) / units.scale
