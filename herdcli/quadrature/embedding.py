"""Kernel sums over points: a point against all candidates, weighted atoms, and the n² mean embedding.

The Gaussian kernel goes through compiled tiles (`fast.gaussian_*`), as do other radial kernels and Bernoulli's
(`fast.kernel_*`), explicit features through their moments, every
other kernel through `kernel.matrix` in blocks.  Tiles and the order of their sums depend on the number of points
alone, so any number of workers gives the same bits.
Source: Chen, Welling & Smola (2010), the embedding μ(x) = E k(x, X); the tiling is ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from herdcli import fast
from herdcli.fast.numpy_embedding import KINDS
from herdcli.numerics.kernels import (
    Bernoulli,
    Composite,
    Constant,
    Energy,
    Features,
    Gaussian,
    Hamming,
    InverseMultiquadric,
    Kernel,
    Laplace,
    Matern,
    Polynomial,
    RationalQuadratic,
    length,
)
from herdcli.schema import Array, array

LANES = 16
ROWS, COLUMNS = 256, 8192  # of a tile
BLAS_FROM = 33  # columns from which products of rows are left to BLAS
TILES_PER_STEP = 64
GENERIC_BLOCK = 1 << 20  # entries of a block of kernel values
Map = Callable[..., Iterable[Any]]


class Evaluator(Protocol):
    """Kernel values between arbitrary rows and the n fixed points."""

    def values(self, row: Array) -> Array:
        """(n,) float64 k(row, x_i) for one row (d,); the caller may overwrite it."""

    def combine(self, rows: Array, weights: Array) -> Array:
        """(n,) Σ_u w_u k(row_u, x_i)."""


def evaluator(kernel: Kernel, points: Array) -> Evaluator:
    """The fastest evaluator of a kernel on points (n, d) float64."""
    if isinstance(kernel, Features):
        return FeaturePoints(kernel, points)
    if isinstance(kernel, Gaussian):
        return GaussianPoints(kernel, points)
    return GenericPoints(kernel, points) if profile(kernel, points.shape[1]) is None else RadialPoints(kernel, points)


class GenericPoints:
    """Any kernel, by `kernel.matrix`."""

    def __init__(self, kernel: Kernel, points: Array) -> None:
        self.kernel, self.points = kernel, points

    def values(self, row: Array) -> Array:
        return np.ascontiguousarray(self.kernel.matrix(self.points, row[None])[:, 0])

    def combine(self, rows: Array, weights: Array) -> Array:
        out = np.empty(len(self.points))
        block = max(1, GENERIC_BLOCK // max(1, len(rows)))
        for start in range(0, len(out), block):
            out[start : start + block] = self.kernel.matrix(self.points[start : start + block], rows) @ weights
        return out


class FeaturePoints(GenericPoints):
    """Explicit features: weighted atoms by their moments, whatever their number."""

    def combine(self, rows: Array, weights: Array) -> Array:
        return moment_embedding(self.kernel, self.points, weights @ rows, (rows * weights[:, None]).T @ rows)[0]


class GaussianPoints:
    """The Gaussian kernel as 2^(−|a−b|²/2) on points as columns, centred, scaled by √(log₂ e)/ℓ and padded to LANES."""

    def __init__(self, kernel: Gaussian, points: Array, *, centre: Array | None = None, dtype: type = np.float64) -> None:
        self.count = len(points)
        self.scale = math.sqrt(math.log2(math.e)) / length(kernel.bandwidth)
        self.centre = points.mean(axis=0) if centre is None else centre
        self.dtype = dtype
        self.columns = self.packed(points)

    def packed(self, rows: Array) -> Array:
        """(d, n) columns of rows (n, d), n padded with zeros."""
        columns: Array = np.zeros((rows.shape[1], -(-len(rows) // LANES) * LANES), dtype=self.dtype)
        np.multiply((rows - self.centre).T, self.scale, out=columns[:, : len(rows)], casting="same_kind")
        return columns

    def values(self, row: Array) -> Array:
        out = np.empty(self.columns.shape[1])
        fast.gaussian_values((row - self.centre) * self.scale, self.columns, out)
        return out[: self.count]

    def combine(self, rows: Array, weights: Array) -> Array:
        atoms = self.packed(rows)
        padded = np.zeros(atoms.shape[1])
        padded[: len(weights)] = weights
        out = np.empty(self.columns.shape[1])
        fast.gaussian_tile(self.columns, np.ones(len(out)), atoms, padded, True, out, None)
        return out[: self.count]


@dataclass(frozen=True)
class Profile:
    """A kernel as factor·u + offset + ½(|x| + |y|)·norms, u one of fast's KINDS on columns times `scale`."""

    kind: int
    scale: float = 1.0
    factor: float = 1.0
    offset: float = 0.0
    norms: float = 0.0


def profile(kernel: Kernel, dimension: int) -> Profile | None:
    """The kernel as compiled tiles compute it, None where they do not.

    2^−u with u = s log₂ e is e^−s, so columns carry the kernel's rate and log₂ e.
    """
    binary = math.log2(math.e)
    if isinstance(kernel, Laplace):
        return Profile(KINDS.index("laplace"), binary / length(kernel.bandwidth))
    if isinstance(kernel, Matern):
        return Profile(KINDS.index(f"matern{kernel.twice}2"), binary * kernel.rate())
    if isinstance(kernel, InverseMultiquadric):
        return Profile(KINDS.index("inverse-multiquadric"), 1.0 / length(kernel.bandwidth))
    if isinstance(kernel, RationalQuadratic) and kernel.alpha == 1:
        return Profile(KINDS.index("rational-quadratic"), math.sqrt(0.5) / length(kernel.bandwidth))
    if isinstance(kernel, Energy):
        return Profile(KINDS.index("distance"), factor=-0.5, norms=1.0)
    if isinstance(kernel, Hamming) and kernel.scale is None:
        return Profile(KINDS.index("unequal"), factor=-1.0 / dimension, offset=1.0)
    return Profile(KINDS.index(f"bernoulli{kernel.order}")) if isinstance(kernel, Bernoulli) else None


class RadialPoints:
    """A kernel with a `Profile` on points as columns, padded to LANES."""

    def __init__(self, kernel: Kernel, points: Array) -> None:
        found = profile(kernel, points.shape[1])
        if found is None:
            raise TypeError(kernel.text())
        self.kernel, self.profile, self.count = kernel, found, len(points)
        self.shifted = found.kind not in (KINDS.index("unequal"), *(i for i, name in enumerate(KINDS) if "bernoulli" in name))
        self.centre = points.mean(axis=0) if self.shifted and len(points) else np.zeros(points.shape[1])
        self.columns = self.packed(points)
        self.norms = self.norms_of(points)

    def packed(self, rows: Array) -> Array:
        """(d, n) columns of rows (n, d), n padded with zeros."""
        columns: Array = np.zeros((rows.shape[1], -(-len(rows) // LANES) * LANES))
        moved = rows - self.centre if self.shifted else rows
        if isinstance(self.kernel, Bernoulli):  # the circle: {x}, and 1 stays 1
            moved = np.where((rows < 0) | (rows > 1), rows - np.floor(rows), rows)
        np.multiply(moved.T, self.profile.scale, out=columns[:, : len(rows)])
        return columns

    def norms_of(self, rows: Array) -> Array:
        """(n,) ½|x| where the kernel has it, else 0."""
        return 0.5 * self.kernel.norms(rows) if isinstance(self.kernel, Energy) else np.zeros(len(rows))

    def values(self, row: Array) -> Array:
        out = np.empty(self.columns.shape[1])
        fast.kernel_values(self.profile.kind, np.ascontiguousarray(self.packed(row[None])[:, 0]), self.columns, out)
        return np.asarray(out[: self.count] * self.profile.factor + (self.profile.offset + self.norms_of(row[None])[0]) + self.norms)

    def combine(self, rows: Array, weights: Array) -> Array:
        atoms = self.packed(rows)
        padded = np.zeros(atoms.shape[1])
        padded[: len(weights)] = weights
        out = np.empty(self.columns.shape[1])
        fast.kernel_tile(self.profile.kind, self.columns, np.ones(len(out)), atoms, padded, out, None)
        return self.completed(out[: self.count], self.norms, weights, self.norms_of(rows))

    def completed(self, sums: Array, norms: Array, weights: Array, other: Array) -> Array:
        """(n,) Σ_j w_j k(x_i, y_j) from Σ_j w_j u_ij, half norms of x_i (n,), weights and half norms of y_j (m,)."""
        total = float(weights.sum())
        return np.asarray(sums * self.profile.factor + (self.profile.offset * total + float(weights @ other)) + norms * total)


@dataclass
class EmbeddingState:
    """Sums so far.  `step` counts strips of rows."""

    step: int
    sums: Array = array("n", "Σ_j w_j k(y_i, x_j), complete when every strip is done", kind="f")


@dataclass(frozen=True)
class Problem:
    """The embedding of weighted rows at points: sums_i = Σ_j w_j k(points_i, rows_j).

    points (n, d), rows (N, d) float64; `symmetric` says they are the same array, and half the work is done.
    """

    kernel: Kernel
    points: Array
    rows: Array
    weights: Array  # (N,)
    symmetric: bool
    plan: Plan


class Plan(Protocol):
    """How a kernel's tiles are computed."""

    size: tuple[int, int]

    def tile(self, rows: slice, columns: slice, both: bool) -> tuple[Array, Array | None]:
        """Sums over the columns for `rows`, and with `both` sums over the rows for `columns`."""


def problem(kernel: Kernel, points: Array, rows: Array, weights: Array, *, precision: str = "float64") -> Problem:
    """The embedding of rows with weights at points; pass the same array twice for the symmetric case."""
    plan: Plan
    if isinstance(kernel, Gaussian):
        plan = GaussianPlan(kernel, points, rows, weights, np.float32 if precision == "float32" else np.float64)
    elif profile(kernel, points.shape[1]) is not None:
        plan = RadialPlan(kernel, points, rows, weights)
    else:
        plan = GenericPlan(kernel, points, rows, weights)
    return Problem(kernel, points, rows, weights, points is rows, plan)


def init(problem: Problem) -> EmbeddingState:
    """Nothing summed yet."""
    return EmbeddingState(0, np.zeros(len(problem.points)))


def strips_per_step(size: tuple[int, int], rows: int) -> int:
    """Strips of one step: about TILES_PER_STEP tiles."""
    return max(1, TILES_PER_STEP // max(1, -(-rows // size[1])))


def count_steps(kernel: Kernel, points: int, rows: int) -> int:
    """Steps of the embedding of so many rows at so many points."""
    compiled = isinstance(kernel, Gaussian) or profile(kernel, 1) is not None
    size = GaussianPlan.size if compiled else GenericPlan.size
    strips = math.ceil(points / size[0])
    return math.ceil(strips / strips_per_step(size, rows))


def total_steps(problem: Problem) -> int:
    """Steps until the sums are complete."""
    return count_steps(problem.kernel, len(problem.points), len(problem.rows))


def step(problem: Problem, state: EmbeddingState, *, map: Map = map) -> EmbeddingState:
    """Add the tiles of the next strips, in one order whatever `map` runs them on."""
    per_step = strips_per_step(problem.plan.size, len(problem.rows))
    tiles = [tile for strip in range(state.step * per_step, (state.step + 1) * per_step) for tile in _tiles(problem, strip)]
    for (rows, columns, both), (down, across) in zip(tiles, map(lambda tile: problem.plan.tile(*tile), tiles), strict=True):
        state.sums[rows] += down
        if both and across is not None:
            state.sums[columns] += across
    state.step += 1
    return state


def _tiles(problem: Problem, strip: int) -> Iterator[tuple[slice, slice, bool]]:
    """(rows, columns, both sums wanted?) of a strip: all columns, or in the symmetric case those from the diagonal on."""
    height, width = problem.plan.size
    start, stop = strip * height, min((strip + 1) * height, len(problem.points))
    if start >= stop:
        return
    total = len(problem.rows)
    first = 0
    if problem.symmetric:
        yield slice(start, stop), slice(start, stop), False
        first = stop
    for left in range(first, total, width):
        yield slice(start, stop), slice(left, min(left + width, total)), problem.symmetric


class GenericPlan:
    """Tiles by `kernel.matrix`."""

    size = (ROWS, GENERIC_BLOCK // ROWS)

    def __init__(self, kernel: Kernel, points: Array, rows: Array, weights: Array) -> None:
        self.kernel, self.points, self.rows, self.weights = kernel, points, rows, weights

    def tile(self, rows: slice, columns: slice, both: bool) -> tuple[Array, Array | None]:
        values = self.kernel.matrix(self.points[rows], self.rows[columns])
        return values @ self.weights[columns], self.weights[rows] @ values if both else None


class RadialPlan:
    """Compiled tiles of a kernel with a `Profile`."""

    size = (ROWS, COLUMNS)

    def __init__(self, kernel: Kernel, points: Array, rows: Array, weights: Array) -> None:
        self.right = RadialPoints(kernel, rows)
        self.left = self.right
        if points is not rows:
            self.left = RadialPoints(kernel, points)
            self.left.centre = self.right.centre
            self.left.columns = self.left.packed(points)
        self.weights = weights

    def tile(self, rows: slice, columns: slice, both: bool) -> tuple[Array, Array | None]:
        wide = slice(columns.start, -(-columns.stop // LANES) * LANES)
        a, b = self.left.columns[:, rows], self.right.columns[:, wide]
        weights, own = self.weights[columns], self.weights[rows] if both else np.ones(rows.stop - rows.start)
        padded = np.zeros(b.shape[1])
        padded[: len(weights)] = weights
        down, across = np.empty(a.shape[1]), np.zeros(b.shape[1])
        fast.kernel_tile(self.left.profile.kind, a, np.ascontiguousarray(own), b, padded, down, across if both else None)
        here, there = self.left.norms[rows], self.right.norms[columns]
        other = self.right.completed(across[: len(weights)], there, own, here) if both else None
        return self.left.completed(down, here, weights, there), other


class GaussianPlan:
    """Compiled tiles.  Of rows that are not far out |x|²/2 moves from the exponent into the weights (see fast.gaussian_tile).

    A tile with far rows is taken in parts: only what meets a far row is computed from differences.
    """

    size = (ROWS, COLUMNS)

    def __init__(self, kernel: Gaussian, points: Array, rows: Array, weights: Array, dtype: type) -> None:
        centre = rows.mean(axis=0)
        self.right = GaussianPoints(kernel, rows, centre=centre, dtype=dtype)
        self.left = self.right if points is rows else GaussianPoints(kernel, points, centre=centre, dtype=dtype)
        halves = [0.5 * np.square(side.columns, dtype=np.float64).sum(axis=0) for side in (self.left, self.right)]
        self.far = [half > (60.0 if dtype == np.float64 else 28.0) for half in halves]
        # of the finished sums, left and right; 1 for far rows, whose kernel values are complete
        self.factors = [np.where(far, 1.0, np.exp2(-half)) for far, half in zip(self.far, halves, strict=True)]
        self.weights = np.zeros(self.right.columns.shape[1])
        self.weights[: len(weights)] = weights

    def tile(self, rows: slice, columns: slice, both: bool) -> tuple[Array, Array | None]:
        wide = slice(columns.start, -(-columns.stop // LANES) * LANES)
        weights = self.weights[wide]
        if wide.stop > columns.stop:
            weights = weights.copy()
            weights[columns.stop - columns.start :] = 0
        near = Tile(self.left.columns[:, rows], self.weights[rows] if both else None, self.right.columns[:, wide], weights)
        far = self.far[0][rows], self.far[1][wide]
        factors = self.factors[0][rows], self.factors[1][wide]
        down, across = near.products(*factors) if not far[0].any() and not far[1].any() else _parted(near, *far, *factors)
        return down, across[: columns.stop - columns.start] if both else None


def _parted(whole: Tile, far_rows: Array, far_columns: Array, row_factors: Array, column_factors: Array) -> tuple[Array, Array]:
    """Both sums of a tile with far rows or columns, from its parts."""
    down, across = np.zeros(whole.a.shape[1]), np.zeros(whole.b.shape[1])
    for i in (np.flatnonzero(~far_rows), np.flatnonzero(far_rows)):
        for j in (np.flatnonzero(~far_columns), np.flatnonzero(far_columns)):
            if not len(i) or not len(j):
                continue
            part = whole.part(i, j)
            near = not far_rows[i[0]] and not far_columns[j[0]]
            padded = np.ones(part.b.shape[1])
            padded[: len(j)] = column_factors[j]
            some = part.products(row_factors[i], padded) if near else part.differences()
            down[i] += some[0]
            across[j] += some[1][: len(j)]
    return down, across


@dataclass(frozen=True)
class Tile:
    """Columns a (d, na), b (d, nb), their weights in float64; wa None: only the sums over b are wanted."""

    a: Array
    wa: Array | None
    b: Array
    wb: Array

    def part(self, i: Array, j: Array) -> Tile:
        """Some of the rows and columns, these padded to LANES with columns of weight 0."""
        room = -(-len(j) // LANES) * LANES
        b, wb = np.zeros((len(self.b), room), dtype=self.b.dtype), np.zeros(room)
        b[:, : len(j)], wb[: len(j)] = self.b[:, j], self.wb[j]
        return Tile(np.ascontiguousarray(self.a[:, i]), None if self.wa is None else np.ascontiguousarray(self.wa[i]), b, wb)

    def products(self, row_factors: Array, column_factors: Array) -> tuple[Array, Array]:
        """Both sums of 2^(−|a−b|²/2) = 2^(−|a|²/2) 2^(a·b) 2^(−|b|²/2), the factors given."""
        wa = None if self.wa is None else self.wa * row_factors
        down, across = self._sums(wa, self.wb * column_factors, differences=False)
        return down * row_factors, across * column_factors

    def differences(self) -> tuple[Array, Array]:
        """Both sums, exponents from the differences themselves."""
        return self._sums(self.wa, self.wb, differences=True)

    def _sums(self, given: Array | None, weights: Array, *, differences: bool) -> tuple[Array, Array]:
        wa: Array = np.ones(self.a.shape[1], self.b.dtype) if given is None else given.astype(self.b.dtype)
        wb = weights.astype(self.b.dtype)
        down, across = np.empty(self.a.shape[1]), np.zeros(self.b.shape[1], dtype=self.b.dtype)
        if len(self.a) >= BLAS_FROM and not differences:
            _blas_tile(self.a, wa, self.b, wb, down, across)
        else:
            fast.gaussian_tile(self.a, wa, self.b, wb, differences, down, None if self.wa is None else across)
        return down, across


def _blas_tile(a: Array, wa: Array, b: Array, wb: Array, down: Array, across: Array) -> None:
    """A tile in pieces whose products BLAS makes."""
    for left in range(0, b.shape[1], 1024):
        part = slice(left, left + 1024)
        piece = np.empty_like(down)
        fast.gaussian_finish(np.ascontiguousarray(a.T) @ np.ascontiguousarray(b[:, part]), wa, wb[part], piece, across[part])
        down[:] = piece if left == 0 else down + piece


def by_moments(kernel: Kernel) -> bool:
    """Is the kernel's embedding a function of the first two moments, so that no n² sum is needed?"""
    if isinstance(kernel, Composite):
        return not kernel.product and all(by_moments(part) for part in kernel.parts)
    return isinstance(kernel, (Features, Constant)) or (isinstance(kernel, Polynomial) and kernel.degree <= 2)


def moment_embedding(kernel: Kernel, points: Array, mean: Array, second: Array | None) -> tuple[Array, float]:
    """(n,) μ(points) and ‖μ‖² of a distribution with mean (d,) and second moments E xx' (d, d), for `by_moments` kernels."""
    if isinstance(kernel, Composite):
        parts = [moment_embedding(part, points, mean, second) for part in kernel.parts]
        return np.sum([part[0] for part in parts], axis=0), sum(part[1] for part in parts)
    if isinstance(kernel, Constant):
        return np.full(len(points), kernel.value), kernel.value
    linear, square = points @ mean, float(mean @ mean)
    if isinstance(kernel, Features):
        if not kernel.pairs or second is None:
            return linear, square
        pairs = second - np.diag(np.diag(second))
        return linear + 0.5 * np.einsum("ni,ni->n", points @ pairs, points), square + 0.5 * float(np.square(pairs).sum())
    if not isinstance(kernel, Polynomial):
        raise TypeError(kernel.text())
    c = kernel.offset
    if kernel.degree == 1 or second is None:
        return linear + c, square + c
    quadratic = np.einsum("ni,ni->n", points @ second, points)
    return quadratic + 2 * c * linear + c * c, float(np.square(second).sum()) + 2 * c * square + c * c
