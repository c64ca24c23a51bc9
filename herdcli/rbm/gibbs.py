"""Sampling a layer given the other one, in float32, as learning does it.

A layer object turns products x'W into scaled means in place and draws states; it is what a unit
family adds to be learned by block Gibbs sampling.  The inner loops are in `herdcli.fast`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from herdcli import fast
from herdcli.rbm.units import Family
from herdcli.schema import Array


class Layer(Protocol):
    """One layer's conditional distribution.  Arrays are C-contiguous float32: natural, states (n, u); bias (u,)."""

    def means(self, natural: Array, bias: Array, *, scale: float = 1.0) -> None:
        """Turn natural parameters without bias into scale · E[x | natural + bias], in place."""

    def sample(self, natural: Array, bias: Array, states: Array, generator: np.random.Generator, *, scale: float = 1.0) -> None:
        """`means`, and draw `states` from the same distribution."""

    def fair_states(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """States drawn at natural parameter 0, float32."""

    def bias_for(self, mean: Array) -> Array:
        """The natural parameter that has this mean; infinite at the ends of the range."""


@dataclass(frozen=True)
class TwoState:
    """Units with values low and high: P(high | a) = logistic((high − low)·a)."""

    low: float
    high: float

    @property
    def gain(self) -> float:
        """high − low, what the natural parameter is multiplied with in the log-odds."""
        return self.high - self.low

    def means(self, natural: Array, bias: Array, *, scale: float = 1.0) -> None:
        fast.two_state_means(natural, bias, self.gain, scale * self.low, scale * self.gain)

    def sample(self, natural: Array, bias: Array, states: Array, generator: np.random.Generator, *, scale: float = 1.0) -> None:
        words = uniform_words(generator, len(natural), natural.shape[1] + 1)
        fast.two_state_sample(natural, bias, self.gain, scale * self.low, scale * self.gain, words, self.low, self.high, states)

    def fair_states(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        on = generator.integers(0, 2, size=shape, dtype=np.uint8)
        return np.float32(self.low) + np.float32(self.gain) * on.astype(np.float32)

    def bias_for(self, mean: Array) -> Array:
        odds: Array = (np.asarray(mean, dtype=np.float64) - self.low) / (self.high - np.asarray(mean, dtype=np.float64))
        return np.log(odds) / self.gain


def layer(family: Family) -> Layer:
    """The layer of a unit family."""
    low, high = family.values
    return TwoState(float(low), float(high))


def uniform_words(generator: np.random.Generator, rows: int, columns: int) -> Array:
    """(rows, columns) uint16, independent and uniform, 64 bits of the bit generator for four of them."""
    count = rows * columns
    raw: Array = generator.bit_generator.random_raw(-(-count // 4))
    return raw.view(np.uint16)[:count].reshape(rows, columns)


@dataclass(frozen=True)
class Sweeper:
    """The two half-sweeps of block Gibbs sampling in one model: W (D, K), b (D,), c (K,) float32."""

    W: Array
    b: Array
    c: Array
    visible: Layer
    hidden: Layer
    draws: np.random.Generator

    def up(self, v: Array, means: Array, states: Array | None = None, *, scale: float = 1.0) -> None:
        """Write scale · E[h | v] (n, K) for rows v (n, D), and h sampled if `states` (n, K) is given."""
        np.matmul(v, self.W, out=means)
        if states is None:
            self.hidden.means(means, self.c, scale=scale)
        else:
            self.hidden.sample(means, self.c, states, self.draws, scale=scale)

    def down(self, h: Array, means: Array, states: Array | None = None, *, scale: float = 1.0) -> None:
        """Write scale · E[v | h] (n, D) for rows h (n, K), and v sampled if `states` (n, D) is given."""
        np.matmul(h, self.W.T, out=means)
        if states is None:
            self.visible.means(means, self.b, scale=scale)
        else:
            self.visible.sample(means, self.b, states, self.draws, scale=scale)
