"""A bootstrap particle filter and a forward-filtering backward smoother, for any model with a transition and an emission.  ADDED.

    time         ancestor ~ w, by systematic resampling;   x_t ~ p(x_t | ancestor)
    measurement  w_t ∝ p(y_t | x_t),   p(y_t | y_<t) ≈ mean of p(y_t | x_t)
    smoothing    w̃_t(m) = Σ_n w̃_{t+1}(n) w_t(m) p(x_{t+1}^n | x_t^m) / Σ_j w_t(j) p(x_{t+1}^n | x_t^j)

The smoother keeps the particles and changes their weights; it costs T N² densities.  Particles are resampled at every step.
Source: Gordon, Salmond & Smith (1993); Doucet, Godsill & Andrieu (2000), sec. 4; Kitagawa (1996) for systematic resampling.  Makin,
sec. 2.2.2, has the idea but no effective sample size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import numpy as np

from herdcli.algorithm import Map
from herdcli.em.driver import Parameters
from herdcli.em.mixture.gaussian_densities import LOG_TAU
from herdcli.em.sequence.forward_backward import HiddenChain
from herdcli.em.sequence.sequences import Sequences
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

SLAB = 1 << 20  # densities of pairs computed at one time


class StateSpaceModel(Protocol):
    """A state space model with one sequence of observations, for the particle filter."""

    @property
    def steps(self) -> int:
        """The number of steps, T."""
        ...

    def sample_first_states(self, count: int, random: np.random.Generator) -> Array:
        """Sample states (N, …) at the first row."""
        ...

    def sample_next_states(self, x: Array, t: int, random: np.random.Generator) -> Array:
        """Sample states (N, …) at row t + 1 given the states x at row t."""
        ...

    def transition_log_probabilities(self, x: Array, next_states: Array, t: int) -> Array:
        """Return log p(after_m at row t + 1 | x_n at row t), (N, M)."""
        ...

    def emission_log_likelihoods(self, x: Array, t: int) -> Array:
        """Return log p(y_t | x), (N,)."""
        ...


@dataclass(frozen=True)
class ParticleCloud:
    """Weighted particles: particles (T, N, …), weights (T, N), effective sample sizes (T,), and log p(y)."""

    particles: Array
    weight: Array
    effective: Array
    log_likelihood: float

    @property
    def mean(self) -> Array:
        """The weighted means (T, K) of the particles."""
        return np.asarray(np.einsum("tn,tnk->tk", self.weight, self.particles))


@dataclass(frozen=True)
class ParticleMoments:
    """Moments of the particles: means and standard deviations (T, K), effective sample sizes (T,), and log p(y)."""

    mean: Array
    deviation: Array
    effective: Array
    log_likelihood: float


def systematic_resampling(weight: Array, u: float) -> Array:
    """Return ancestors (N,), the indices where (u + n)/N falls among the cumulated weights.

    Each particle is drawn ⌊N w⌋ or ⌈N w⌉ times.
    """
    edges = np.cumsum(weight)
    places = (u + np.arange(len(weight))) / len(weight) * edges[-1]
    return np.asarray(np.minimum(np.searchsorted(edges, places, side="right"), len(weight) - 1))


def bootstrap_filter(system: StateSpaceModel, count: int, seed: int, unit: int = 0) -> ParticleCloud:
    """Return the filtered particles.

    seed, unit  determine the random numbers; those of a row are a function of these two and of the row's index.
    """
    random = generator(seed, Stream.PARTICLES, unit=unit)
    x = system.sample_first_states(count, random)
    particles, weight, effective = np.empty((system.steps, *x.shape), x.dtype), np.empty((system.steps, count)), np.empty(system.steps)
    evidence = 0.0
    for t in range(system.steps):
        log = system.emission_log_likelihoods(x, t)
        most = log.max()
        if not np.isfinite(most):  # no particle can have emitted the row: all are equally good
            log, most = np.zeros(count), 0.0
            evidence = -np.inf
        w = np.exp(log - most)
        # Particles were resampled by their last weights and count equally: p(y_t | y_<t) ≈ Σ p(y_t | x_n)/N, whose product is an unbiased
        # estimate of p(y).
        evidence += float(most + np.log(w.mean()))
        w /= w.sum()
        particles[t], weight[t], effective[t] = x, w, 1.0 / np.square(w).sum()
        if t + 1 < system.steps:
            random = generator(seed, Stream.PARTICLES, unit=unit, step=t + 1)
            x = system.sample_next_states(x[systematic_resampling(w, random.random())], t, random)
    return ParticleCloud(particles, weight, effective, evidence)


def smooth_particles(system: StateSpaceModel, cloud: ParticleCloud) -> ParticleCloud:
    """Return the same particles with weights given all rows."""
    weight = cloud.weight.copy()
    for t in range(len(weight) - 2, -1, -1):
        weight[t] = _backward_weights(system, cloud, weight[t + 1], t)
    return ParticleCloud(cloud.particles, weight, 1.0 / np.square(weight).sum(axis=1), cloud.log_likelihood)


def _backward_weights(system: StateSpaceModel, cloud: ParticleCloud, next_weights: Array, t: int) -> Array:
    """Return the weights of row t from those of row t + 1, computed for a slab of the later particles at a time."""
    count = cloud.weight.shape[1]
    found = np.zeros(count)
    at_once = max(1, SLAB // count)
    with np.errstate(divide="ignore"):
        own = np.log(cloud.weight[t])[:, None]
    for first in range(0, count, at_once):
        part = slice(first, first + at_once)
        joint = system.transition_log_probabilities(cloud.particles[t], cloud.particles[t + 1][part], t) + own
        most = joint.max(axis=0)
        joint -= np.where(np.isfinite(most), most, 0.0)
        np.exp(joint, out=joint)
        whole = joint.sum(axis=0)
        # `joint` has w_t(m) p(x_n | x_m) in column n; divided by its sum it is p(m | n), which passes the later weights back.
        found += joint @ np.divide(next_weights[part], whole, out=np.zeros(len(whole)), where=whole > 0)
    return np.asarray(found / found.sum())


def filter_and_smooth(system: StateSpaceModel, count: int, seed: int, *, unit: int = 0, smooth: bool = True) -> ParticleMoments:
    """Return the moments of real states given all rows, or with `smooth` off given those up to each."""
    cloud = bootstrap_filter(system, count, seed, unit)
    cloud = smooth_particles(system, cloud) if smooth else cloud
    second = np.einsum("tn,tnk->tk", cloud.weight, np.square(cloud.particles - cloud.mean[:, None]))
    return ParticleMoments(cloud.mean, np.sqrt(second), cloud.effective, cloud.log_likelihood)


@dataclass(frozen=True)
class LinearGaussianModel:
    """A linear dynamical system with a sequence (T, D), NaN where a value is missing, and its controls (T, m) or None."""

    p: Parameters
    Y: Array
    U: Array | None = None

    @property
    def steps(self) -> int:
        """The number of steps, T."""
        return len(self.Y)

    @cached_property
    def _roots(self) -> dict[str, Array]:
        return {name: np.linalg.cholesky(self.p[name]) for name in ("start_covariance", "process")}

    def _predict_state_means(self, x: Array, t: int) -> Array:
        found: Array = x @ self.p["transition"].T + self.p["drift"]
        return found if self.U is None else found + self.p["control"] @ self.U[t]

    def sample_first_states(self, count: int, random: np.random.Generator) -> Array:
        """Sample first states."""
        noise = random.standard_normal((count, len(self.p["drift"])))
        return np.asarray(self.p["start_mean"] + noise @ self._roots["start_covariance"].T)

    def sample_next_states(self, x: Array, t: int, random: np.random.Generator) -> Array:
        """Sample the states after x."""
        return np.asarray(self._predict_state_means(x, t) + random.standard_normal(x.shape) @ self._roots["process"].T)

    def transition_log_probabilities(self, x: Array, next_states: Array, t: int) -> Array:
        """Return log N(after; A x + B u + a, Q), by whitened distances."""
        L = self._roots["process"]
        a, b = np.linalg.solve(L, self._predict_state_means(x, t).T), np.linalg.solve(L, next_states.T)
        cross = a.T @ b
        # |L⁻¹(x' − Ax)|² of all pairs by one product: |a|² + |b|² − 2 a·b.
        squares = np.square(a).sum(axis=0)[:, None] + np.square(b).sum(axis=0) - 2.0 * cross
        return np.asarray(-0.5 * (squares + len(L) * LOG_TAU) - np.log(np.diag(L)).sum())

    def emission_log_likelihoods(self, x: Array, t: int) -> Array:
        """Return log N(y; C x + c, R) of the observed values."""
        there = ~np.isnan(self.Y[t])
        if not there.any():
            return np.zeros(len(x))
        L = np.linalg.cholesky(self.p["noise"][np.ix_(there, there)])
        e = self.Y[t, there] - x @ self.p["loading"][there].T - self.p["mean"][there]
        white = np.linalg.solve(L, e.T)
        return np.asarray(-0.5 * (np.square(white).sum(axis=0) + len(L) * LOG_TAU) - np.log(np.diag(L)).sum())


@dataclass(frozen=True)
class DiscreteChainModel:
    """A Markov chain with K states: initial probabilities (K,), transitions (K, K) by row, and log p(y_t | state) (T, K)."""

    initial: Array
    move: Array
    emitted: Array

    @property
    def steps(self) -> int:
        """The number of steps, T."""
        return len(self.emitted)

    @cached_property
    def _logs(self) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.move))

    def sample_first_states(self, count: int, random: np.random.Generator) -> Array:
        """Sample first states."""
        edges = np.cumsum(self.initial)
        return np.asarray(np.minimum(np.searchsorted(edges, random.random(count) * edges[-1], side="right"), len(edges) - 1))

    def sample_next_states(self, x: Array, t: int, random: np.random.Generator) -> Array:
        """Sample the states after x."""
        edges = np.cumsum(self.move, axis=1)[x]
        found: Array = (edges <= (random.random(len(x)) * edges[:, -1])[:, None]).sum(axis=1)
        return np.asarray(np.minimum(found, self.move.shape[1] - 1))

    def transition_log_probabilities(self, x: Array, next_states: Array, t: int) -> Array:
        """Return the log transition probabilities of all pairs of states."""
        return np.asarray(self._logs[x[:, None], next_states])

    def emission_log_likelihoods(self, x: Array, t: int) -> Array:
        """Return the log-likelihoods of the states x at row t."""
        return np.asarray(self.emitted[t, x])


def estimate_state_probabilities(
    system: DiscreteChainModel, count: int, seed: int, *, unit: int = 0, smooth: bool = True
) -> tuple[Array, ParticleCloud]:
    """Return probabilities (T, K) of discrete states given all rows, or with `smooth` off given those up to each, and the particles."""
    cloud = bootstrap_filter(system, count, seed, unit)
    cloud = smooth_particles(system, cloud) if smooth else cloud
    K = len(system.initial)
    rows = [np.bincount(x, w, minlength=K) for x, w in zip(cloud.particles, cloud.weight, strict=True)]
    return np.array(rows), cloud


def particle_filter_bytes(longest: int, count: int, states: int) -> int:
    """Return the bytes that `count` particles need: their states, weights and ancestors at each step, and numbers for all their pairs."""
    return 8 * longest * count * (states + 3) + 16 * count * count


def particle_filter_lds(
    parameters: Parameters, Y: Array, offsets: Array, U: Array | None, count: int, seed: int, smooth: bool, map: Map = map
) -> ParticleMoments:
    """Return the moments of the states of rows Y (n, D) with controls U (n, M); sequence s begins at offsets[s].

    Each sequence has its own stream of random numbers.
    """

    def one(s: int) -> ParticleMoments:
        own = slice(offsets[s], offsets[s + 1])
        system = LinearGaussianModel(parameters, Y[own], None if U is None else U[own])
        return filter_and_smooth(system, count, seed, unit=s, smooth=smooth)

    parts = list(map(one, range(len(offsets) - 1)))
    mean, deviation, effective = (np.concatenate([getattr(part, name) for part in parts]) for name in ("mean", "deviation", "effective"))
    return ParticleMoments(mean, deviation, effective, sum(part.log_likelihood for part in parts))


def particle_filter_hmm(
    states: HiddenChain, logs: Callable[[Array], Array], sequences: Sequences, count: int, seed: int, smooth: bool, map: Map = map
) -> tuple[Array, Array]:
    """Return probabilities (n, K) of the states of all sequences, and effective sample sizes (n,).

    logs  a function from rows (T, D) to (T, K) log p(y | k).
    """

    def one(s: int) -> tuple[Array, Array]:
        system = DiscreteChainModel(states.initial, states.transition, logs(sequences.take(s, s + 1).X))
        told, cloud = estimate_state_probabilities(system, count, seed, unit=s, smooth=smooth)
        return told, cloud.effective

    told, effective = zip(*map(one, range(sequences.count)), strict=True)
    return np.concatenate(told), np.concatenate(effective)
