"""Bootstrap particle filter and forward-filter backward-smoother, for any model in time with a transition and an emission.  ADDED.

    time         ancestor ~ w, by systematic resampling;   x_t ~ p(x_t | ancestor)
    measurement  w_t ∝ p(y_t | x_t),   p(y_t | y_<t) ≈ mean of p(y_t | x_t)
    smoothing    w̃_t(m) = Σ_n w̃_{t+1}(n) w_t(m) p(x_{t+1}^n | x_t^m) / Σ_j w_t(j) p(x_{t+1}^n | x_t^j)

The smoother keeps the particles and changes their weights; it costs T N² densities.  Particles are resampled at every step.
Source: Gordon, Salmond & Smith (1993); Doucet, Godsill & Andrieu (2000), sec. 4; Kitagawa (1996) for systematic resampling; Makin,
sec. 2.2.2, has the idea and no effective sample size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import numpy as np

from herdcli.em.driver import Parameters
from herdcli.em.mixture.gaussian_densities import LOG_TAU
from herdcli.em.sequence.forward_backward import HiddenChain
from herdcli.em.sequence.sequences import Sequences
from herdcli.numerics.block_statistics import Map
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

SLAB = 1 << 20  # densities of pairs at one time


class StateSpaceModel(Protocol):
    """What the filter asks of a model and one sequence."""

    @property
    def steps(self) -> int:
        """T."""
        ...

    def first(self, count: int, random: np.random.Generator) -> Array:
        """(N, …) states drawn at the first row."""
        ...

    def next(self, x: Array, t: int, random: np.random.Generator) -> Array:
        """(N, …) states at row t + 1 drawn from those x at row t."""
        ...

    def transition(self, x: Array, after: Array, t: int) -> Array:
        """(N, M) log p(after_m at row t + 1 | x_n at row t)."""
        ...

    def emission(self, x: Array, t: int) -> Array:
        """(N,) log p(y_t | x)."""
        ...


@dataclass(frozen=True)
class ParticleCloud:
    """Particles (T, N, …), their weights (T, N), effective sample sizes (T,), and log p(y)."""

    particles: Array
    weight: Array
    effective: Array
    log_likelihood: float

    @property
    def mean(self) -> Array:
        """(T, K)."""
        return np.asarray(np.einsum("tn,tnk->tk", self.weight, self.particles))


@dataclass(frozen=True)
class ParticleMoments:
    """Means and standard deviations (T, K), effective sample sizes (T,) and log p(y)."""

    mean: Array
    deviation: Array
    effective: Array
    log_likelihood: float


def systematic_resampling(weight: Array, u: float) -> Array:
    """(N,) ancestors, the places where (u + n)/N falls among the sums of weights: each is drawn ⌊N w⌋ or ⌈N w⌉ times."""
    edges = np.cumsum(weight)
    places = (u + np.arange(len(weight))) / len(weight) * edges[-1]
    return np.asarray(np.minimum(np.searchsorted(edges, places, side="right"), len(weight) - 1))


def bootstrap_filter(system: StateSpaceModel, count: int, seed: int, unit: int = 0) -> ParticleCloud:
    """The filter.  seed, unit  of the random numbers; a row's are a function of them and its place."""
    random = generator(seed, Stream.PARTICLES, unit=unit)
    x = system.first(count, random)
    particles, weight, effective = np.empty((system.steps, *x.shape), x.dtype), np.empty((system.steps, count)), np.empty(system.steps)
    evidence = 0.0
    for t in range(system.steps):
        log = system.emission(x, t)
        most = log.max()
        if not np.isfinite(most):  # no particle can have emitted the row: all are as good
            log, most = np.zeros(count), 0.0
            evidence = -np.inf
        w = np.exp(log - most)
        # Particles were drawn by their last weights and count alike now: p(y_t | y_<t) ≈ Σ p(y_t | x_n)/N, an unbiased estimate of p(y) as
        # a product.
        evidence += float(most + np.log(w.mean()))
        w /= w.sum()
        particles[t], weight[t], effective[t] = x, w, 1.0 / np.square(w).sum()
        if t + 1 < system.steps:
            random = generator(seed, Stream.PARTICLES, unit=unit, step=t + 1)
            x = system.next(x[systematic_resampling(w, random.random())], t, random)
    return ParticleCloud(particles, weight, effective, evidence)


def smooth_particles(system: StateSpaceModel, cloud: ParticleCloud) -> ParticleCloud:
    """The same particles with the weights of all rows."""
    weight = cloud.weight.copy()
    for t in range(len(weight) - 2, -1, -1):
        weight[t] = _backward_weights(system, cloud, weight[t + 1], t)
    return ParticleCloud(cloud.particles, weight, 1.0 / np.square(weight).sum(axis=1), cloud.log_likelihood)


def _backward_weights(system: StateSpaceModel, cloud: ParticleCloud, after: Array, t: int) -> Array:
    """Weights of row t, of those of row t + 1, a slab of the later particles at a time."""
    count = cloud.weight.shape[1]
    found = np.zeros(count)
    at_once = max(1, SLAB // count)
    with np.errstate(divide="ignore"):
        own = np.log(cloud.weight[t])[:, None]
    for first in range(0, count, at_once):
        part = slice(first, first + at_once)
        joint = system.transition(cloud.particles[t], cloud.particles[t + 1][part], t) + own
        most = joint.max(axis=0)
        joint -= np.where(np.isfinite(most), most, 0.0)
        np.exp(joint, out=joint)
        whole = joint.sum(axis=0)
        # `joint` has w_t(m) p(x_n | x_m) in column n; over its sum it is p(m | n), and later weights are handed down by it.
        found += joint @ np.divide(after[part], whole, out=np.zeros(len(whole)), where=whole > 0)
    return np.asarray(found / found.sum())


def filter_and_smooth(system: StateSpaceModel, count: int, seed: int, *, unit: int = 0, smooth: bool = True) -> ParticleMoments:
    """Moments of real states by all rows, or with `smooth` off by those up to each."""
    cloud = bootstrap_filter(system, count, seed, unit)
    cloud = smooth_particles(system, cloud) if smooth else cloud
    second = np.einsum("tn,tnk->tk", cloud.weight, np.square(cloud.particles - cloud.mean[:, None]))
    return ParticleMoments(cloud.mean, np.sqrt(second), cloud.effective, cloud.log_likelihood)


@dataclass(frozen=True)
class LinearGaussianModel:
    """A linear dynamical system and a sequence (T, D), NaN where a value is missing, with its controls (T, m) or None."""

    p: Parameters
    Y: Array
    U: Array | None = None

    @property
    def steps(self) -> int:
        """T."""
        return len(self.Y)

    @cached_property
    def _roots(self) -> dict[str, Array]:
        return {name: np.linalg.cholesky(self.p[name]) for name in ("start_covariance", "process")}

    def _ahead(self, x: Array, t: int) -> Array:
        found: Array = x @ self.p["transition"].T + self.p["drift"]
        return found if self.U is None else found + self.p["control"] @ self.U[t]

    def first(self, count: int, random: np.random.Generator) -> Array:
        """Draws of the first state."""
        noise = random.standard_normal((count, len(self.p["drift"])))
        return np.asarray(self.p["start_mean"] + noise @ self._roots["start_covariance"].T)

    def next(self, x: Array, t: int, random: np.random.Generator) -> Array:
        """Draws of the state after x."""
        return np.asarray(self._ahead(x, t) + random.standard_normal(x.shape) @ self._roots["process"].T)

    def transition(self, x: Array, after: Array, t: int) -> Array:
        """log N(after; A x + B u + a, Q), by whitened distances."""
        L = self._roots["process"]
        a, b = np.linalg.solve(L, self._ahead(x, t).T), np.linalg.solve(L, after.T)
        cross = a.T @ b
        # |L⁻¹(x' − Ax)|² of all pairs by one product: |a|² + |b|² − 2 a·b.
        squares = np.square(a).sum(axis=0)[:, None] + np.square(b).sum(axis=0) - 2.0 * cross
        return np.asarray(-0.5 * (squares + len(L) * LOG_TAU) - np.log(np.diag(L)).sum())

    def emission(self, x: Array, t: int) -> Array:
        """log N(y; C x + c, R) of the values that are there."""
        there = ~np.isnan(self.Y[t])
        if not there.any():
            return np.zeros(len(x))
        L = np.linalg.cholesky(self.p["noise"][np.ix_(there, there)])
        e = self.Y[t, there] - x @ self.p["loading"][there].T - self.p["mean"][there]
        white = np.linalg.solve(L, e.T)
        return np.asarray(-0.5 * (np.square(white).sum(axis=0) + len(L) * LOG_TAU) - np.log(np.diag(L)).sum())


@dataclass(frozen=True)
class DiscreteChainModel:
    """A chain with K states: first states (K,), transitions (K, K) with a row for each state now, and log p(y_t | state) (T, K)."""

    initial: Array
    move: Array
    emitted: Array

    @property
    def steps(self) -> int:
        """T."""
        return len(self.emitted)

    @cached_property
    def _logs(self) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.move))

    def first(self, count: int, random: np.random.Generator) -> Array:
        """Draws of the first state."""
        edges = np.cumsum(self.initial)
        return np.asarray(np.minimum(np.searchsorted(edges, random.random(count) * edges[-1], side="right"), len(edges) - 1))

    def next(self, x: Array, t: int, random: np.random.Generator) -> Array:
        """Draws of the state after x."""
        edges = np.cumsum(self.move, axis=1)[x]
        found: Array = (edges <= (random.random(len(x)) * edges[:, -1])[:, None]).sum(axis=1)
        return np.asarray(np.minimum(found, self.move.shape[1] - 1))

    def transition(self, x: Array, after: Array, t: int) -> Array:
        """Their logs."""
        return np.asarray(self._logs[x[:, None], after])

    def emission(self, x: Array, t: int) -> Array:
        """Its logs."""
        return np.asarray(self.emitted[t, x])


def state_probabilities(
    system: DiscreteChainModel, count: int, seed: int, *, unit: int = 0, smooth: bool = True
) -> tuple[Array, ParticleCloud]:
    """(T, K) probabilities of discrete states by all rows, or with `smooth` off by those up to each, and the particles behind them."""
    cloud = bootstrap_filter(system, count, seed, unit)
    cloud = smooth_particles(system, cloud) if smooth else cloud
    K = len(system.initial)
    rows = [np.bincount(x, w, minlength=K) for x, w in zip(cloud.particles, cloud.weight, strict=True)]
    return np.array(rows), cloud


def memory_needed(longest: int, count: int, states: int) -> int:
    """Bytes of N particles of K numbers at each step of the longest sequence, their weights and ancestors, and of all pairs of them."""
    return 8 * longest * count * (states + 3) + 16 * count * count


def filter_lds(
    parameters: Parameters, Y: Array, offsets: Array, U: Array | None, count: int, seed: int, smooth: bool, map: Map = map
) -> ParticleMoments:
    """Moments of the states of rows Y (n, D) with controls U (n, M), sequence s from offsets[s] on; each has a stream of its own."""

    def one(s: int) -> ParticleMoments:
        own = slice(offsets[s], offsets[s + 1])
        system = LinearGaussianModel(parameters, Y[own], None if U is None else U[own])
        return filter_and_smooth(system, count, seed, unit=s, smooth=smooth)

    parts = list(map(one, range(len(offsets) - 1)))
    mean, deviation, effective = (np.concatenate([getattr(part, name) for part in parts]) for name in ("mean", "deviation", "effective"))
    return ParticleMoments(mean, deviation, effective, sum(part.log_likelihood for part in parts))


def filter_hmm(
    states: HiddenChain, logs: Callable[[Array], Array], sequences: Sequences, count: int, seed: int, smooth: bool, map: Map = map
) -> tuple[Array, Array]:
    """Probabilities (n, K) of the states of all sequences, and effective sample sizes (n,).  logs: (T, K) log p(y | k) of rows (T, D)."""

    def one(s: int) -> tuple[Array, Array]:
        system = DiscreteChainModel(states.initial, states.transition, logs(sequences.take(s, s + 1).X))
        told, cloud = state_probabilities(system, count, seed, unit=s, smooth=smooth)
        return told, cloud.effective

    told, effective = zip(*map(one, range(sequences.count)), strict=True)
    return np.concatenate(told), np.concatenate(effective)
