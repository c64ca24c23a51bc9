"""The two half-sweeps of block Gibbs sampling, in float32, as used in learning."""

from __future__ import annotations

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.rbm.units.base import Layer
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class GibbsSweeper:
    """The two half-sweeps of block Gibbs sampling in one model: W (D, K), b (D,), c (K,) float32."""

    W: Array
    b: Array
    c: Array
    visible: Layer
    hidden: Layer
    draws: np.random.Generator

    def update_hidden(self, v: Array, means: Array, states: Array | None = None, *, scale: float = 1.0) -> None:
        """Write scale · E[h | v] (n, K) for rows v (n, D), and h sampled if `states` (n, K) is given."""
        exact_arithmetic.matrix_product(v, self.W, out=means)
        if states is None:
            self.hidden.means(means, self.c, scale=scale)
        else:
            self.hidden.sample(means, self.c, states, self.draws, scale=scale)

    def update_visible(self, h: Array, means: Array, states: Array | None = None, *, scale: float = 1.0) -> None:
        """Write scale · E[v | h] (n, D) for rows h (n, K), and v sampled if `states` (n, D) is given."""
        exact_arithmetic.matrix_product(h, self.W.T, out=means)
        if states is None:
            self.visible.means(means, self.b, scale=scale)
        else:
            self.visible.sample(means, self.b, states, self.draws, scale=scale)
