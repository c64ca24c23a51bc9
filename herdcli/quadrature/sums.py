"""The sums that a group's embedding takes, one after the other, each in steps: how many there are, what they are of, what comes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from herdcli.numerics import real
from herdcli.quadrature import drawn, embedding, fourier, nystrom
from herdcli.quadrature.approximation import Added
from herdcli.quadrature.embedding import EmbeddingState, Map
from herdcli.quadrature.kernels import Kernel
from herdcli.quadrature.problems import Group, Problem, approximation, norm_pairs
from herdcli.quadrature.targets import Rows
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array


class Sums(Protocol):
    """One of them."""

    @property
    def steps(self) -> int:
        """Steps until they are complete."""

    def init(self) -> EmbeddingState:
        """Nothing summed yet."""

    def step(self, state: EmbeddingState, *, map: Map = map) -> EmbeddingState:
        """The next blocks."""


@dataclass(frozen=True)
class Pairs:
    """Σ_j w_j k(points_i, rows_j) over all pairs."""

    problem: embedding.Problem

    @property
    def steps(self) -> int:
        """Steps until they are complete."""
        return embedding.total_steps(self.problem)

    def init(self) -> EmbeddingState:
        """Nothing summed yet."""
        return embedding.init(self.problem)

    def step(self, state: EmbeddingState, *, map: Map = map) -> EmbeddingState:
        """The next tiles."""
        return embedding.step(self.problem, state, map=map)


@dataclass(frozen=True)
class Found:
    """An approximate embedding: μ̃ (N,) at the candidates, ‖μ̃‖², μ̃ as a function of points (n, d), and what it adds."""

    mean: Array
    norm: float
    function: Callable[[Array], Array]
    added: Added


class Plan(Protocol):
    """How one group's embedding is come to."""

    def sums(self, which: int, before: list[EmbeddingState]) -> Sums:
        """Its sums number `which`; before  the complete states of those before it."""

    def found(self, states: list[EmbeddingState]) -> Found | None:
        """The approximate embedding of complete sums, None where it is exact."""


def plan(problem: Problem, group: Group, number: int) -> Plan:
    """The plan of a group that has this number among all."""
    chosen, target = approximation(problem, group), group.target
    if chosen is None or not isinstance(target, Rows):
        return _Exact(problem, group, number)
    rows = Rows(target.X, target.weights / target.weights.sum())
    random = generator(problem.settings.rule.seed, Stream.LANDMARKS, unit=number)
    kernel, precision = problem.kernel, problem.settings.precision
    if chosen.kind == "fourier":
        drawn_at = fourier.frequencies(kernel, random, chosen.size, target.dimension)
        return _Fourier(kernel, group.points, rows, drawn_at, rows.X.mean(axis=0))
    if chosen.kind == "nystrom":
        at = rows.X[nystrom.landmarks(random, rows.weights, chosen.size)]
        return _Nystrom(kernel, group.points, precision, nystrom.Nystrom(kernel, at, rows.X, rows.weights))
    return _Drawn(kernel, group.points, precision, rows, rows.X[np.sort(rows.draw(random, chosen.size))])


@dataclass(frozen=True)
class _Exact:
    problem: Problem
    group: Group
    number: int

    def sums(self, which: int, before: list[EmbeddingState]) -> Sums:
        target = self.group.target
        if not isinstance(target, Rows):
            raise TypeError(target.name)
        pair = norm_pairs(self.problem, self.group, self.number)[which]
        return Pairs(embedding.problem(self.problem.kernel, *pair, target.weights, precision=self.problem.settings.precision))

    def found(self, states: list[EmbeddingState]) -> None:
        return None


@dataclass(frozen=True)
class _Nystrom:
    kernel: Kernel
    points: Array
    precision: str
    problem: nystrom.Nystrom

    def sums(self, which: int, before: list[EmbeddingState]) -> Sums:
        if which == 0:
            return self.problem
        alpha = self.problem.projection(before[0].sums)[0]
        return Pairs(embedding.problem(self.kernel, self.points, self.problem.landmarks, alpha, precision=self.precision))

    def found(self, states: list[EmbeddingState]) -> Found:
        alpha, norm, bound = self.problem.projection(states[0].sums)
        at = self.problem.landmarks
        return Found(states[1].sums, norm, lambda x: real.product(self.kernel.matrix(x, at), alpha), Added(distance=bound))


@dataclass(frozen=True)
class _Drawn:
    kernel: Kernel
    points: Array
    precision: str
    target: Rows
    drawn: Array

    def sums(self, which: int, before: list[EmbeddingState]) -> Sums:
        points = self.points if which == 0 else self.drawn
        share = np.full(len(self.drawn), 1.0 / len(self.drawn))
        return Pairs(embedding.problem(self.kernel, points, self.drawn, share, precision=self.precision))

    def found(self, states: list[EmbeddingState]) -> Found:
        own = self.kernel.diagonal(self.target.X)
        added = drawn.added(self.kernel, own, self.target.weights, len(self.drawn))
        return Found(states[0].sums, float(states[1].sums.mean()), lambda x: self.kernel.matrix(x, self.drawn).mean(axis=1), added)


@dataclass(frozen=True)
class _Fourier:
    kernel: Kernel
    points: Array
    target: Rows
    frequencies: Array
    centre: Array

    def sums(self, which: int, before: list[EmbeddingState]) -> Sums:
        if which == 0:
            return fourier.Characteristic(self.frequencies, self.centre, self.target.X, self.target.weights)
        return self._wave(before[0])

    def _wave(self, state: EmbeddingState) -> fourier.Wave:
        size = fourier.amplitude(self.kernel) / len(self.frequencies)
        return fourier.Wave(self.frequencies, self.centre, state.sums * size, self.points)

    def found(self, states: list[EmbeddingState]) -> Found:
        sums, wave = states[0].sums, self._wave(states[0])
        return Found(states[1].sums, fourier.norm(self.kernel, sums), wave.at, fourier.added(self.kernel, sums, len(self.points)))
