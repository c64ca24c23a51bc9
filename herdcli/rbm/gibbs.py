"""Sampling a layer given the other one, in float32, as learning does it.

A layer object turns products x'W into scaled means in place and draws states; it is what a unit
family adds to be learned by block Gibbs sampling.  The inner loops are in `herdcli.fast`.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from herdcli import fast
from herdcli.numerics import real
from herdcli.rbm.units import TWO_STATE, Family, Words
from herdcli.rbm.units import Labelled as LabelledUnits
from herdcli.records import dataclass
from herdcli.schema import Array

TOGETHER = 8  # rows whose words are drawn from sums that are made together
LARGEST_LOG_RATE = 20.0  # of a Poisson unit that is sampled


class Layer(Protocol):
    """One layer's conditional distribution.  Arrays are C-contiguous float32: natural, states (n, u); bias (u,).

    beta  the natural parameters are multiplied with it, as annealing does.
    """

    def means(self, natural: Array, bias: Array, *, scale: float = 1.0) -> None:
        """Turn natural parameters (n, u) without bias (u,) into scale · E[x | natural + bias], in place."""

    def sample(
        self, natural: Array, bias: Array, states: Array, generator: np.random.Generator, *, scale: float = 1.0, beta: float = 1.0
    ) -> None:
        """Draw `states` (n, u) at natural parameters β (natural + bias), and turn those into scale times the means, in place."""

    def fair_states(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """States (n, u) drawn at natural parameter 0, float32."""


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
        """scale·(low + gain·p) in place of natural (n, u), p = logistic(gain·(natural + bias))."""
        fast.two_state_means(natural, bias, self.gain, scale * self.low, scale * self.gain)

    def sample(
        self, natural: Array, bias: Array, states: Array, generator: np.random.Generator, *, scale: float = 1.0, beta: float = 1.0
    ) -> None:
        """States (n, u) that are high with probability p, by 16 random bits a unit and 16 a row (see fast.two_state_sample)."""
        words = uniform_words(generator, len(natural), natural.shape[1] + 1)
        fast.two_state_sample(natural, bias, beta * self.gain, scale * self.low, scale * self.gain, words, self.low, self.high, states)

    def fair_states(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """(n, u) low or high with equal probability."""
        on = generator.integers(0, 2, size=shape, dtype=np.uint8)
        return np.float32(self.low) + np.float32(self.gain) * on.astype(np.float32)


class Drawn:
    """A layer whose states NumPy draws at the means: a family adds `_mean`, in place, and `_draw`."""

    def _mean(self, natural: Array) -> None:
        raise TypeError(f"{type(self).__name__} has no mean")

    def _draw(self, mean: Array, generator: np.random.Generator) -> Array:
        raise TypeError(f"{type(self).__name__} has no states")

    def means(self, natural: Array, bias: Array, *, scale: float = 1.0) -> None:
        """scale times the means, in place of natural (n, u)."""
        natural += bias
        self._mean(natural)
        if scale != 1.0:
            natural *= np.float32(scale)

    def sample(
        self, natural: Array, bias: Array, states: Array, generator: np.random.Generator, *, scale: float = 1.0, beta: float = 1.0
    ) -> None:
        """States (n, u) drawn at the means under β (natural + bias), then scale times these means in place of natural."""
        natural += bias
        if beta != 1.0:
            natural *= np.float32(beta)
        self._mean(natural)
        states[...] = self._draw(natural, generator)
        if scale != 1.0:
            natural *= np.float32(scale)

    def fair_states(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """(n, u) draws at the mean of natural parameter 0."""
        natural = np.zeros(shape, dtype=np.float32)
        self._mean(natural)
        return self._draw(natural, generator).astype(np.float32)


@dataclass(frozen=True)
class Binomial(Drawn):
    """How many of n binary units are on."""

    replicas: int

    def _mean(self, natural: Array) -> None:
        fast.logistic(natural)
        natural *= np.float32(self.replicas)

    def _draw(self, mean: Array, generator: np.random.Generator) -> Array:
        return generator.binomial(self.replicas, np.minimum(mean.astype(np.float64) / self.replicas, 1.0))


class Normal(Drawn):
    """Real units of variance 1."""

    def _mean(self, natural: Array) -> None:
        return

    def _draw(self, mean: Array, generator: np.random.Generator) -> Array:
        return mean + real.normals(generator, mean.shape, np.float32)


class Counts(Drawn):
    """Poisson counts; natural parameters above 20 count as 20, so that what diverges is seen in the parameters."""

    def _mean(self, natural: Array) -> None:
        np.minimum(natural, np.float32(LARGEST_LOG_RATE), out=natural)
        real.exp(natural, out=natural)

    def _draw(self, mean: Array, generator: np.random.Generator) -> Array:
        return generator.poisson(mean.astype(np.float64))


@dataclass(frozen=True)
class Categorical(Drawn):
    """One of k columns is 1."""

    columns: int

    def _mean(self, natural: Array) -> None:
        units = natural.reshape(*natural.shape[:-1], natural.shape[-1] // self.columns, self.columns)
        units -= units.max(axis=-1, keepdims=True)
        real.exp(units, out=units)
        units /= units.sum(axis=-1, keepdims=True)

    def _draw(self, mean: Array, generator: np.random.Generator) -> Array:
        units = mean.reshape(*mean.shape[:-1], mean.shape[-1] // self.columns, self.columns)
        # How many of the first k − 1 sums are at most u is the state; the last sum is 1 and left out, so that rounding makes no state k.
        below = np.cumsum(units[..., :-1], axis=-1) <= generator.random((*units.shape[:-1], 1), dtype=np.float32)
        states = np.zeros(units.shape, dtype=np.float32)
        np.put_along_axis(states, below.sum(axis=-1, keepdims=True), 1.0, axis=-1)
        return states.reshape(mean.shape)


@dataclass(frozen=True)
class Drawings(Drawn):
    """Counts of N words drawn over the columns; N one for all rows, or (n,) of theirs."""

    length: int | Array

    def _mean(self, natural: Array) -> None:
        natural -= natural.max(axis=-1, keepdims=True)
        real.exp(natural, out=natural)
        lengths = np.asarray(self.length, dtype=np.float32)
        natural *= (lengths[:, None] if lengths.ndim else lengths) / natural.sum(axis=-1, keepdims=True)

    def drawn(self, shares: Array, generator: np.random.Generator) -> Array:
        """Counts (n, D) float32 of words drawn at shares (n, D) float32, which need not add up to 1."""
        return self._draw(shares, generator)

    def _draw(self, mean: Array, generator: np.random.Generator) -> Array:
        lengths = np.broadcast_to(np.asarray(self.length, dtype=np.int64), len(mean))
        ends = np.concatenate([[0], np.cumsum(lengths)])
        uniform, (n, D) = generator.random(int(ends[-1])), mean.shape
        states, sums = np.zeros(mean.shape, dtype=np.float32), np.empty((min(n, TOGETHER), D))
        for i in range(n):
            if i % TOGETHER == 0:
                rows = mean[i : i + TOGETHER]
                fast.running_sums(rows, sums[: len(rows)])
            row = sums[i % TOGETHER]
            # A uniform number falls into the j-th gap of summed shares with the probability of j.
            place = np.searchsorted(row, uniform[ends[i] : ends[i + 1]] * row[-1], side="right")
            np.add.at(states[i], np.minimum(place, D - 1), np.float32(1.0))
        return states


def exponentials(natural: Array) -> Array:
    """Shares of words to a factor, e^a (n, D) in place of natural parameters a, and log Σ_j e^{a_j} (n,) float64."""
    top = natural.max(axis=1)
    natural -= top[:, None]
    real.exp(natural, out=natural)
    found: Array = top + real.log(natural.sum(axis=1, dtype=np.float64))
    return found


@dataclass(frozen=True)
class Labelled:
    """Columns of one layer, and k more of another."""

    columns: Layer
    labels: Categorical

    def _parts(self, values: Array) -> tuple[Array, Array]:
        k = self.labels.columns
        return np.ascontiguousarray(values[..., :-k]), np.ascontiguousarray(values[..., -k:])

    def means(self, natural: Array, bias: Array, *, scale: float = 1.0) -> None:
        """scale times the means of both parts, in place of natural (n, u)."""
        parts = self._parts(natural)
        for units, part, own in zip((self.columns, self.labels), parts, self._parts(bias), strict=True):
            units.means(part, own, scale=scale)
        natural[...] = np.concatenate(parts, axis=-1)

    def sample(
        self, natural: Array, bias: Array, states: Array, generator: np.random.Generator, *, scale: float = 1.0, beta: float = 1.0
    ) -> None:
        """States (n, u) of both parts under β (natural + bias), then scale times the means in place of natural."""
        parts, drawn = self._parts(natural), self._parts(states)
        for units, part, own, into in zip((self.columns, self.labels), parts, self._parts(bias), drawn, strict=True):
            units.sample(part, own, into, generator, scale=scale, beta=beta)
        natural[...], states[...] = np.concatenate(parts, axis=-1), np.concatenate(drawn, axis=-1)

    def fair_states(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """(n, u) of both parts."""
        k = self.labels.columns
        parts = ((self.columns, shape[-1] - k), (self.labels, k))
        return np.concatenate([units.fair_states((*shape[:-1], width), generator) for units, width in parts], axis=-1)


def layer(family: Family) -> Layer:
    """The layer of a unit family."""
    if isinstance(family, LabelledUnits):
        return Labelled(layer(family.columns), Categorical(family.labels.group))
    kind = family.name.partition(":")[0]
    if kind in TWO_STATE:
        low, high = TWO_STATE[kind].values
        return TwoState(float(low), float(high))
    if kind == "rate":
        return Binomial(family.scale)
    if kind == "softmax":
        return Categorical(family.group)
    if isinstance(family, Words):
        return Drawings(family.length)
    return Normal() if kind == "gaussian" else Counts()


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
        real.product(v, self.W, out=means)
        if states is None:
            self.hidden.means(means, self.c, scale=scale)
        else:
            self.hidden.sample(means, self.c, states, self.draws, scale=scale)

    def down(self, h: Array, means: Array, states: Array | None = None, *, scale: float = 1.0) -> None:
        """Write scale · E[v | h] (n, D) for rows h (n, K), and v sampled if `states` (n, D) is given."""
        real.product(h, self.W.T, out=means)
        if states is None:
            self.visible.means(means, self.b, scale=scale)
        else:
            self.visible.sample(means, self.b, states, self.draws, scale=scale)
