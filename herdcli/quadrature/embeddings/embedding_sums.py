"""The sums that a group's embedding requires, one after the other: their number, their steps, and the embedding made from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from herdcli.algorithm import Map
from herdcli.numerics import exact_arithmetic
from herdcli.quadrature.embeddings import nystrom, random_fourier, subsampled_embedding
from herdcli.quadrature.embeddings.approximation import EmbeddingErrorBounds
from herdcli.quadrature.kernels import kernel_sums
from herdcli.quadrature.kernels.kernel_functions import Kernel
from herdcli.quadrature.kernels.kernel_sums import EmbeddingState
from herdcli.quadrature.selection_problem import SelectionGroup, SelectionProblem, group_approximation, kernel_sum_inputs
from herdcli.quadrature.targets import RowTarget
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array


class EmbeddingSums(Protocol):
    """One of the sums."""

    @property
    def steps(self) -> int:
        """The number of steps until the sums are complete."""

    def init(self) -> EmbeddingState:
        """Return the state before the first step."""

    def step(self, state: EmbeddingState, *, map: Map = map) -> EmbeddingState:
        """Add the next blocks."""


@dataclass(frozen=True)
class PairSums:
    """The sums Σ_j w_j k(points_i, rows_j) over all pairs."""

    problem: kernel_sums.EmbeddingProblem

    @property
    def steps(self) -> int:
        """The number of steps until the sums are complete."""
        return kernel_sums.total_steps(self.problem)

    def init(self) -> EmbeddingState:
        """Return the state before the first step."""
        return kernel_sums.initial_state(self.problem)

    def step(self, state: EmbeddingState, *, map: Map = map) -> EmbeddingState:
        """Add the next tiles."""
        return kernel_sums.embedding_step(self.problem, state, map=map)


@dataclass(frozen=True)
class ApproximateEmbedding:
    """An approximate embedding: μ̃ (N,) at the candidates, ‖μ̃‖², μ̃ as a function of points (n, d), and the bounds of its error."""

    mean: Array
    norm: float
    function: Callable[[Array], Array]
    added: EmbeddingErrorBounds


class EmbeddingPlan(Protocol):
    """The way in which one group's embedding is computed."""

    def make_sums(self, number: int, earlier_states: list[EmbeddingState]) -> EmbeddingSums:
        """Return the sums number `number`; before  the complete states of the earlier sums."""

    def approximate_embedding(self, states: list[EmbeddingState]) -> ApproximateEmbedding | None:
        """Return the approximate embedding from complete sums, None if it is exact."""


def make_embedding_plan(problem: SelectionProblem, group: SelectionGroup, number: int) -> EmbeddingPlan:
    """Return the plan of a group that has this number among all groups."""
    chosen, target = group_approximation(problem, group), group.target
    if chosen is None or not isinstance(target, RowTarget):
        return _ExactPlan(problem, group, number)
    rows = RowTarget(target.X, target.weights / target.weights.sum())
    random = generator(problem.settings.rule.seed, Stream.LANDMARKS, unit=number)
    kernel, precision = problem.kernel, problem.settings.precision
    if chosen.kind == "fourier":
        drawn_at = random_fourier.sample_frequencies(kernel, random, chosen.size, target.dimension)
        return _FourierPlan(kernel, group.points, rows, drawn_at, rows.X.mean(axis=0))
    if chosen.kind == "nystrom":
        at = rows.X[nystrom.sample_landmarks(random, rows.weights, chosen.size)]
        return _NystromPlan(kernel, group.points, precision, nystrom.NystromSums(kernel, at, rows.X, rows.weights))
    return _SubsamplePlan(kernel, group.points, precision, rows, rows.X[np.sort(rows.draw(random, chosen.size))])


@dataclass(frozen=True)
class _ExactPlan:
    problem: SelectionProblem
    group: SelectionGroup
    number: int

    def make_sums(self, number: int, earlier_states: list[EmbeddingState]) -> EmbeddingSums:
        target = self.group.target
        if not isinstance(target, RowTarget):
            raise TypeError(target.name)
        pair = kernel_sum_inputs(self.problem, self.group, self.number)[number]
        return PairSums(
            kernel_sums.make_embedding_problem(self.problem.kernel, *pair, target.weights, precision=self.problem.settings.precision)
        )

    def approximate_embedding(self, states: list[EmbeddingState]) -> None:
        return None


@dataclass(frozen=True)
class _NystromPlan:
    kernel: Kernel
    points: Array
    precision: str
    problem: nystrom.NystromSums

    def make_sums(self, number: int, earlier_states: list[EmbeddingState]) -> EmbeddingSums:
        if number == 0:
            return self.problem
        alpha = self.problem.solve_projection(earlier_states[0].sums)[0]
        return PairSums(
            kernel_sums.make_embedding_problem(self.kernel, self.points, self.problem.landmarks, alpha, precision=self.precision)
        )

    def approximate_embedding(self, states: list[EmbeddingState]) -> ApproximateEmbedding:
        alpha, norm, bound = self.problem.solve_projection(states[0].sums)
        at = self.problem.landmarks
        return ApproximateEmbedding(
            states[1].sums,
            norm,
            lambda x: exact_arithmetic.matrix_product(self.kernel.matrix(x, at), alpha),
            EmbeddingErrorBounds(distance=bound),
        )


@dataclass(frozen=True)
class _SubsamplePlan:
    kernel: Kernel
    points: Array
    precision: str
    target: RowTarget
    drawn: Array

    def make_sums(self, number: int, earlier_states: list[EmbeddingState]) -> EmbeddingSums:
        points = self.points if number == 0 else self.drawn
        share = np.full(len(self.drawn), 1.0 / len(self.drawn))
        return PairSums(kernel_sums.make_embedding_problem(self.kernel, points, self.drawn, share, precision=self.precision))

    def approximate_embedding(self, states: list[EmbeddingState]) -> ApproximateEmbedding:
        own = self.kernel.diagonal(self.target.X)
        added = subsampled_embedding.subsampling_error_bounds(self.kernel, own, self.target.weights, len(self.drawn))
        return ApproximateEmbedding(
            states[0].sums, float(states[1].sums.mean()), lambda x: self.kernel.matrix(x, self.drawn).mean(axis=1), added
        )


@dataclass(frozen=True)
class _FourierPlan:
    kernel: Kernel
    points: Array
    target: RowTarget
    frequencies: Array
    centre: Array

    def make_sums(self, number: int, earlier_states: list[EmbeddingState]) -> EmbeddingSums:
        if number == 0:
            return random_fourier.CharacteristicSums(self.frequencies, self.centre, self.target.X, self.target.weights)
        return self._make_fourier_embedding(earlier_states[0])

    def _make_fourier_embedding(self, state: EmbeddingState) -> random_fourier.FourierEmbedding:
        size = random_fourier.kernel_amplitude(self.kernel) / len(self.frequencies)
        return random_fourier.FourierEmbedding(self.frequencies, self.centre, state.sums * size, self.points)

    def approximate_embedding(self, states: list[EmbeddingState]) -> ApproximateEmbedding:
        sums, wave = states[0].sums, self._make_fourier_embedding(states[0])
        return ApproximateEmbedding(
            states[1].sums,
            random_fourier.embedding_squared_norm(self.kernel, sums),
            wave.at,
            random_fourier.fourier_error_bounds(self.kernel, sums, len(self.points)),
        )
