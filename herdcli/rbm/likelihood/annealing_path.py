"""Walks of rows from a mixture of independent units to a harmonium, and the pilot run that chooses their temperatures."""

from __future__ import annotations

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.rbm.likelihood import sequential_monte_carlo
from herdcli.rbm.likelihood.annealed_importance import hidden_log_partition_change
from herdcli.rbm.likelihood.mean_field_modes import BaseMixture, sample_base_mixture
from herdcli.rbm.model import Harmonium
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array


@dataclass
class TemperatureWalk:
    """Rows (n, D) that are moved in place through a model's temperatures, and the mixture components they are in."""

    h: Harmonium
    base: BaseMixture
    v: Array
    labels: Array
    W: Array
    c: Array
    biases: Array
    x: Array
    _seen: tuple[Array, Array] | None = None  # log q_m(v) (n, M) and b·v (n,), cached until v changes

    @classmethod
    def allocate(cls, h: Harmonium, base: BaseMixture, v: Array, labels: Array) -> TemperatureWalk:
        """Allocate working arrays in float32 for rows v (n, D) in the components `labels` (n,) of the base."""
        W, c, biases = (part.astype(np.float32) for part in (h.W, h.c, base.biases))
        return cls(h, base, v, labels, W, c, biases, exact_arithmetic.matrix_product(v, W))

    def gains(self, before: float, beta: float) -> Array:
        """Compute log f_β(v) − log f_{β'}(v) with β' = `before`, (n,) float64."""
        terms, own = self._row_terms()
        mixture = [exact_arithmetic.log_sum_exp((1.0 - at) * terms + self.base.log_shares, axis=1) for at in (before, beta)]
        # log f at `beta` minus log f at `before`, for the terms of f in `population_annealing`: mixture, visible biases, hidden
        # log-partitions.
        linear = (beta - before) * own
        result: Array = linear + hidden_log_partition_change(self.h.hidden, self.x + self.h.c, before, beta) + mixture[1] - mixture[0]
        return result

    def _row_terms(self) -> tuple[Array, Array]:
        if self._seen is None:
            v = self.v.astype(np.float64)
            self._seen = self.base.component_log_densities(v), exact_arithmetic.matrix_product(v, self.h.b)
        return self._seen

    def select(self, row_indices: Array) -> None:
        """Resample the rows: row i becomes a copy of row places[i], places (n,)."""
        self._seen = None if self._seen is None else (self._seen[0][row_indices], self._seen[1][row_indices])
        self.v[...], self.labels[...], self.x[...] = self.v[row_indices], self.labels[row_indices], self.x[row_indices]

    def sweep(self, beta: float, draws: np.random.Generator) -> None:
        """Sample the component, the hidden units and the visible units given each other under β."""
        if beta < 1.0 and len(self.biases) > 1:
            terms = (1.0 - beta) * self._row_terms()[0] + self.base.log_shares
            share = np.cumsum(exact_arithmetic.exp(terms - terms.max(axis=1, keepdims=True)), axis=1)
            self.labels[...] = (share < share[:, -1:] * draws.random((len(share), 1))).sum(axis=1)
        hidden, natural = np.empty_like(self.x), np.empty_like(self.v)
        self.h.hidden.layer().sample(self.x, self.c, hidden, draws, beta=beta)
        exact_arithmetic.matrix_product(hidden, self.W.T, out=natural)
        # Given component m and h, v has the natural parameters (1 − β) a_m + β (b + Wh); `sample` multiplies all by β.
        natural += np.float32((1.0 - beta) / beta) * self.biases[self.labels]
        self.h.visible.layer().sample(natural, self.h.b.astype(np.float32), self.v, draws, beta=beta)
        exact_arithmetic.matrix_product(self.v, self.W, out=self.x)
        self._seen = None


def choose_temperatures(h: Harmonium, base: BaseMixture, seed: int, unit: int = 0) -> Array:
    """Choose temperatures (T + 1,) from 0 to 1, each as far from the last as the conditional effective sample size allows."""
    draws = generator(seed, Stream.PILOT, unit=unit)
    labels, values = sample_base_mixture(h, base, sequential_monte_carlo.PILOT_ROWS, draws)
    population = sequential_monte_carlo.ParticlePopulation.with_equal_weights(
        TemperatureWalk.allocate(h, base, values, labels), sequential_monte_carlo.PILOT_ROWS
    )
    return sequential_monte_carlo.choose_positions(population, 1.0, draws, lambda rows, before: rows.find_next_position(before, 1.0))
