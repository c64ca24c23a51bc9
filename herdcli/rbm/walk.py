"""Rows that walk from a mixture of independent units to a harmonium, and the pilot that places the temperatures of the way."""

from __future__ import annotations

import numpy as np

from herdcli.numerics import real
from herdcli.rbm.annealing import gain
from herdcli.rbm.gibbs import layer
from herdcli.rbm.model import Harmonium
from herdcli.rbm.modes import Base, drawn
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

CONDITIONAL = 0.95  # share of the rows that a step of the pilot keeps in effect
PILOT_ROWS = 64
FEWEST, PILOT_MOST = 50, 2000  # temperatures of the first run, and of the pilot


@dataclass
class Walk:
    """Rows (n, D) that a model's temperatures are taken through in place, and the components they are in."""

    h: Harmonium
    base: Base
    v: Array
    labels: Array
    W: Array
    c: Array
    biases: Array
    x: Array
    _seen: tuple[Array, Array] | None = None  # log q_m(v) (n, M) and b·v (n,), until v moves

    @classmethod
    def of(cls, h: Harmonium, base: Base, v: Array, labels: Array) -> Walk:
        """Working arrays in float32, of rows v (n, D) that are in components `labels` (n,) of the base."""
        W, c, biases = (part.astype(np.float32) for part in (h.W, h.c, base.biases))
        return cls(h, base, v, labels, W, c, biases, real.product(v, W))

    def gains(self, before: float, beta: float) -> Array:
        """log f_β(v) − log f_{β'}(v) with β' = `before`, (n,) float64."""
        terms, own = self._of_rows()
        mixture = [real.log_sum_exp((1.0 - at) * terms + self.base.log_shares, axis=1) for at in (before, beta)]
        # log f at `beta` less log f at `before`, term by term of f as `populations` has it: mixture, visible biases, hidden log-partitions.
        linear = (beta - before) * own
        result: Array = linear + gain(self.h.hidden, self.x + self.h.c, before, beta) + mixture[1] - mixture[0]
        return result

    def _of_rows(self) -> tuple[Array, Array]:
        if self._seen is None:
            v = self.v.astype(np.float64)
            self._seen = self.base.densities(v), real.product(v, self.h.b)
        return self._seen

    def select(self, places: Array) -> None:
        """Rows drawn anew: row i becomes what row places[i] is, places (n,)."""
        self._seen = None if self._seen is None else (self._seen[0][places], self._seen[1][places])
        self.v[...], self.labels[...], self.x[...] = self.v[places], self.labels[places], self.x[places]

    def sweep(self, beta: float, draws: np.random.Generator) -> None:
        """Component, hidden units and visible units given each other under β."""
        if beta < 1.0 and len(self.biases) > 1:
            terms = (1.0 - beta) * self._of_rows()[0] + self.base.log_shares
            share = np.cumsum(real.exp(terms - terms.max(axis=1, keepdims=True)), axis=1)
            self.labels[...] = (share < share[:, -1:] * draws.random((len(share), 1))).sum(axis=1)
        hidden, natural = np.empty_like(self.x), np.empty_like(self.v)
        layer(self.h.hidden).sample(self.x, self.c, hidden, draws, beta=beta)
        real.product(hidden, self.W.T, out=natural)
        # Given component m and h, v has the natural parameters (1 − β) a_m + β (b + Wh); `sample` multiplies all by β.
        natural += np.float32((1.0 - beta) / beta) * self.biases[self.labels]
        layer(self.h.visible).sample(natural, self.h.b.astype(np.float32), self.v, draws, beta=beta)
        real.product(self.v, self.W, out=self.x)
        self._seen = None


def effective(log_weights: Array) -> float:
    """(Σ w)² / Σ w² of log weights (n,), a number from 1 to n."""
    weights = real.exp(log_weights - log_weights.max())
    return float(real.power(weights.sum(), 2) / np.square(weights).sum())


def drawn_anew(log_weights: Array, draws: np.random.Generator) -> Array:
    """Places (n,) in proportion to their weights, by systematic resampling."""
    share = np.cumsum(real.exp(log_weights - log_weights.max()))
    # Points 1/n apart: a row of share p is drawn ⌊np⌋ or ⌈np⌉ times, n p on average (Kitagawa 1996).
    at = (np.arange(len(share)) + draws.random()) / len(share)
    places: Array = np.searchsorted(share / share[-1], at)  # at ≤ 1, which is the last share
    return places


def pilot(h: Harmonium, base: Base, seed: int, unit: int = 0) -> Array:
    """Temperatures (T + 1,) from 0 to 1, each as far from the last as the conditional effective sample size allows.

    With normalised weights W_i so far and growth g_i over the next step it is (Σ W g)² / Σ W g², as a share of all.
    """
    draws = generator(seed, Stream.PILOT, unit=unit)
    labels, values = drawn(h, base, PILOT_ROWS, draws)
    walk, log_weights, betas = Walk.of(h, base, values, labels), np.zeros(PILOT_ROWS), [0.0]
    while betas[-1] < 1.0 and len(betas) <= PILOT_MOST:
        beta = _furthest(walk, log_weights, betas[-1])
        log_weights += walk.gains(betas[-1], beta)
        if effective(log_weights) < 0.5 * PILOT_ROWS:
            walk.select(drawn_anew(log_weights, draws))
            log_weights.fill(0.0)
        walk.sweep(beta, draws)
        betas.append(beta)
    return np.array([*betas[:-1], 1.0])


def _furthest(walk: Walk, log_weights: Array, before: float) -> float:
    """The largest next temperature that keeps the conditional effective sample size, by bisection."""

    def kept(beta: float) -> bool:
        # (Σ Wg)² / Σ Wg² with Σ W = 1 is 1 where all g are alike: what this step alone does to the weights (Zhou et al. 2016, sec. 3.3).
        growth = walk.gains(before, beta)
        share = real.exp(log_weights - real.log_sum_exp(log_weights))
        growth = real.exp(growth - growth.max())
        return bool(real.power(real.product(share, growth), 2) >= CONDITIONAL * real.product(share, np.square(growth)))

    if kept(1.0):
        return 1.0
    low, high = before, 1.0
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if kept(middle) else (low, middle)
    return low if low > before else high


def refined(betas: Array, level: int) -> Array:
    """2^level times as many temperatures as betas (t,) has (at least FEWEST · 2^level), spaced as the pilot's."""
    count = max(len(betas) - 1, FEWEST) << level
    finer: Array = np.interp(np.linspace(0.0, len(betas) - 1.0, count + 1), np.arange(len(betas)), betas)
    return finer
