"""Rows of grey values as rows of zeros and ones, drawn once."""

from __future__ import annotations

import numpy as np

from herdcli.rng import Stream, generator
from herdcli.schema import Array

BLOCK = 1024  # rows that are drawn together; their bits are a function of (seed, number of the block)


def drawn(X: Array, limits: tuple[float, float], seed: int) -> Array:
    """uint8 (n, D), 1 with the probability (x − low)/(high − low) of the rows X (n, D), whose values are within the limits (low, high).

    Source: Salakhutdinov & Murray (2008), sec. 5.2, who draw the digits once and keep them.
    """
    low, high = limits
    on = np.empty(X.shape, dtype=np.uint8)
    for number, start in enumerate(range(0, len(X), BLOCK)):
        rows = slice(start, start + BLOCK)
        shares = (X[rows].astype(np.float64) - low) / (high - low)
        on[rows] = generator(seed, Stream.BINARIZED, step=number).random(shares.shape) < shares
    return on
