"""Folds of labelled rows for cross-fitting."""

from __future__ import annotations

import numpy as np

from herdcli.rng import Stream, generator
from herdcli.schema import Array


def assign_stratified_folds(y: Array, count: int, seed: int) -> Array:
    """Assign each row to one of `count` folds (n,), with every class spread evenly; the folds depend on the seed."""
    order = generator(seed, Stream.FOLDS).permutation(len(y))
    by_class = order[np.argsort(y[order], kind="stable")]
    assigned = np.empty(len(y), dtype=np.int64)
    assigned[by_class] = np.arange(len(y)) % count
    return assigned
