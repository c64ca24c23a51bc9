"""Folds of labelled rows, for what is learned without some of them."""

from __future__ import annotations

import numpy as np

from herdcli.rng import Stream, generator
from herdcli.schema import Array


def assign_folds(y: Array, count: int, seed: int) -> Array:
    """(n,) fold of each row, every class spread evenly over the `count` folds; drawn from the seed."""
    order = generator(seed, Stream.FOLDS).permutation(len(y))
    by_class = order[np.argsort(y[order], kind="stable")]
    assigned = np.empty(len(y), dtype=np.int64)
    assigned[by_class] = np.arange(len(y)) % count
    return assigned
