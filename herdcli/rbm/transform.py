"""New rows through fitted models: hidden means as features, free energies as scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from herdcli.rbm.likelihood import row_blocks
from herdcli.rbm.model import RBM
from herdcli.rbm.units import family
from herdcli.schema import Array


def features(model: RBM, rows: Array, map: Callable[..., Any] = map) -> Array:
    """E[h | v] of every model side by side, (n, C·K) float32, for rows (n, D) in unit values."""
    result = np.empty((len(rows), model.c.size), dtype=np.float32)
    width = model.c.shape[1]

    def fill(block: slice) -> None:
        for m in range(model.count):
            result[block, m * width : (m + 1) * width] = model.harmonium(m).hidden_means(rows[block])

    list(map(fill, row_blocks(len(rows), sum(model.W.shape[1:]))))
    return result


def energies(model: RBM, rows: Array, map: Callable[..., Any] = map) -> Array:
    """Free energy of every row under every model, (n, C) float64, in nats; each has its own unknown log Z."""
    result = np.empty((len(rows), model.count))

    def fill(block: slice) -> None:
        for m in range(model.count):
            result[block, m] = model.harmonium(m).free_energy(rows[block])

    list(map(fill, row_blocks(len(rows), sum(model.W.shape[1:]))))
    return result


def feature_range(model: RBM) -> Array:
    """Lowest and highest value a hidden mean can take, (2,) float64."""
    return np.asarray(family(model.hidden_units).values, dtype=np.float64)
