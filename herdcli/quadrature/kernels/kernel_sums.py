"""Kernel sums over points: one point against all candidates, weighted atoms, and the n² mean embedding.

The Gaussian kernel is computed by compiled tiles (`fast.gaussian_*`), as are other radial kernels and Bernoulli's
(`fast.kernel_*`); explicit features by their moments; every other kernel by `kernel.matrix` in blocks.  Tiles and the order
of their sums depend on the number of points alone, so any number of workers gives the same bits.
Source: Chen, Welling & Smola (2010), the embedding μ(x) = E k(x, X); the tiling is ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from herdcli import fast
from herdcli.algorithm import Map
from herdcli.numerics import exact_arithmetic
from herdcli.quadrature.kernels.joint_kernels import JointKernel
from herdcli.quadrature.kernels.kernel_blocks import kernel_matrix
from herdcli.quadrature.kernels.kernel_functions import (
    GaussianKernel,
    Kernel,
)
from herdcli.quadrature.kernels.point_sums import GENERIC_BLOCK, LANES, GaussianPoints, RadialPoints, radial_profile
from herdcli.records import dataclass
from herdcli.schema import Array, array

ROWS, COLUMNS = 256, 8192  # size of a tile
BLAS_FROM = 33  # products of rows with at least this many columns are computed by BLAS
TILES_PER_STEP = 64


@dataclass
class EmbeddingState:
    """The sums so far.  `embedding_step` counts strips of rows."""

    step: int
    sums: Array = array("n", "Σ_j w_j k(y_i, x_j), complete when every strip is done", kind="f")


@dataclass(frozen=True)
class EmbeddingProblem:
    """The embedding of weighted rows at points: sums_i = Σ_j w_j k(points_i, rows_j).

    points (n, d), rows (N, d) float64; if `symmetric`, they are the same array, and only half of the values are computed.
    """

    kernel: Kernel
    points: Array
    rows: Array
    weights: Array  # (N,)
    symmetric: bool
    plan: TilePlan


class TilePlan(Protocol):
    """The way in which a kernel's tiles are computed."""

    size: tuple[int, int]
    weights: Array  # (N,) or more, those of the rows first, prepared for the tiles

    def tile(self, rows: slice, columns: slice, with_column_sums: bool) -> tuple[Array, Array | None]:
        """Compute sums (r,) over the columns for the r rows, and with `with_column_sums` sums (c,) over the rows for the c columns, else
        None."""


def make_embedding_problem(kernel: Kernel, points: Array, rows: Array, weights: Array, *, precision: str = "float64") -> EmbeddingProblem:
    """Make the embedding of rows (N, d) with weights (N,) at points (n, d); pass the same array twice for the symmetric case."""
    plan: TilePlan
    folded = kernel.as_gaussian_kernel(points.shape[1]) if isinstance(kernel, JointKernel) else None
    if folded is not None:
        same = points is rows
        points = points * folded[1]
        return make_embedding_problem(folded[0], points, points if same else rows * folded[1], weights, precision=precision)
    if isinstance(kernel, GaussianKernel):
        plan = GaussianTiles(kernel, points, rows, weights, np.float32 if precision == "float32" else np.float64)
    elif radial_profile(kernel, points.shape[1]) is not None:
        plan = RadialTiles(kernel, points, rows, weights)
    else:
        plan = GenericTiles(kernel, points, rows, weights)
    return EmbeddingProblem(kernel, points, rows, weights, points is rows, plan)


def initial_state(problem: EmbeddingProblem) -> EmbeddingState:
    """Return the state before the first step."""
    return EmbeddingState(0, np.zeros(len(problem.points)))


def strips_per_step(size: tuple[int, int], rows: int) -> int:
    """Return the number of strips of one step: about TILES_PER_STEP tiles."""
    return max(1, TILES_PER_STEP // max(1, -(-rows // size[1])))


def count_steps(kernel: Kernel, points: int, rows: int) -> int:
    """Return the number of steps of the embedding for these numbers of points and rows."""
    folded = isinstance(kernel, JointKernel) and kernel.as_gaussian_kernel(2) is not None
    compiled = folded or isinstance(kernel, GaussianKernel) or radial_profile(kernel, 1) is not None
    size = GaussianTiles.size if compiled else GenericTiles.size
    strips = math.ceil(points / size[0])
    return math.ceil(strips / strips_per_step(size, rows))


def total_steps(problem: EmbeddingProblem) -> int:
    """Return the number of steps until the sums are complete."""
    return count_steps(problem.kernel, len(problem.points), len(problem.rows))


def embedding_step(problem: EmbeddingProblem, state: EmbeddingState, *, map: Map = map) -> EmbeddingState:
    """Add the tiles of the next strips, in the same order for any `map`."""
    # Tiles may be computed by any worker, but their sums are added in the order of the tiles: the same bits for any number of workers.
    per_step = strips_per_step(problem.plan.size, len(problem.rows))
    tiles = [tile for strip in range(state.step * per_step, (state.step + 1) * per_step) for tile in _strip_tiles(problem, strip)]
    for (rows, columns, both), (down, across) in zip(tiles, map(lambda tile: problem.plan.tile(*tile), tiles), strict=True):
        state.sums[rows] += down
        if both and across is not None:
            state.sums[columns] += across
    state.step += 1
    return state


def _strip_tiles(problem: EmbeddingProblem, strip: int) -> Iterator[tuple[slice, slice, bool]]:
    """Yield (rows, columns, both sums) for a strip: all columns, or in the symmetric case those from the diagonal on."""
    height, width = problem.plan.size
    start, stop = strip * height, min((strip + 1) * height, len(problem.points))
    if start >= stop:
        return
    total = len(problem.rows)
    first = 0
    # Symmetry: a tile beyond the diagonal gives Σ over its columns to its rows and Σ over its rows to its columns, so that each pair of
    # points is computed once; a tile on the diagonal contains both and gives only the former.
    if problem.symmetric:
        yield slice(start, stop), slice(start, stop), False
        first = stop
    for left in range(first, total, width):
        yield slice(start, stop), slice(left, min(left + width, total)), problem.symmetric


class GenericTiles:
    """Tiles that are computed by `kernel.matrix`."""

    size = (ROWS, GENERIC_BLOCK // ROWS)

    def __init__(self, kernel: Kernel, points: Array, rows: Array, weights: Array) -> None:
        self.kernel, self.points, self.rows, self.weights = kernel, points, rows, weights

    def tile(self, rows: slice, columns: slice, with_column_sums: bool) -> tuple[Array, Array | None]:
        """Compute sums (r,) over the columns, and with `with_column_sums` sums (c,) over the rows."""
        values = kernel_matrix(self.kernel, self.points[rows], self.rows[columns])
        return exact_arithmetic.matrix_product(values, self.weights[columns]), exact_arithmetic.matrix_product(
            self.weights[rows], values
        ) if with_column_sums else None


class RadialTiles:
    """Compiled tiles of a kernel with a `RadialProfile`."""

    size = (ROWS, COLUMNS)

    def __init__(self, kernel: Kernel, points: Array, rows: Array, weights: Array) -> None:
        self.right = RadialPoints(kernel, rows)
        self.left = self.right
        if points is not rows:
            self.left = RadialPoints(kernel, points)
            self.left.centre = self.right.centre
            self.left.columns = self.left.pack_columns(points)
        self.weights = weights

    def tile(self, rows: slice, columns: slice, with_column_sums: bool) -> tuple[Array, Array | None]:
        """Compute sums (r,) over the columns, padded to LANES with weights of 0, and with `with_column_sums` sums (c,) over the rows."""
        wide = slice(columns.start, -(-columns.stop // LANES) * LANES)
        a, b = self.left.columns[:, rows], self.right.columns[:, wide]
        weights, own = self.weights[columns], self.weights[rows] if with_column_sums else np.ones(rows.stop - rows.start)
        padded = np.zeros(b.shape[1])
        padded[: len(weights)] = weights
        down, across = np.empty(a.shape[1]), np.zeros(b.shape[1])
        fast.kernel_tile(self.left.profile.kind, a, np.ascontiguousarray(own), b, padded, down, across if with_column_sums else None)
        here, there = self.left.norms[rows], self.right.norms[columns]
        other = self.right.complete_sums(across[: len(weights)], there, own, here) if with_column_sums else None
        return self.left.complete_sums(down, here, weights, there), other


class GaussianTiles:
    """Compiled tiles of the Gaussian kernel.

    For rows that are not far from the centre, |x|²/2 is moved from the exponent into the weights (see fast.gaussian_tile).

    A tile with far rows is computed in parts: only pairs with a far row are computed from differences.
    """

    size = (ROWS, COLUMNS)

    def __init__(self, kernel: GaussianKernel, points: Array, rows: Array, weights: Array, dtype: type) -> None:
        centre = rows.mean(axis=0)
        self.right = GaussianPoints(kernel, rows, centre=centre, dtype=dtype)
        self.left = self.right if points is rows else GaussianPoints(kernel, points, centre=centre, dtype=dtype)
        # With |x|²/2 ≤ 60, or 28 in float32, 2^(a·b) is at most 2^120, or 2^56, and the outer factors are at least 2^−60, or 2^−28: none
        # overflows or underflows.
        halves = [_half_squares(side.columns) for side in (self.left, self.right)]
        self.far = [half > (60.0 if dtype == np.float64 else 28.0) for half in halves]
        # factors of the finished sums, left and right; 1 for far rows, whose kernel values are complete
        self.factors = [np.where(far, 1.0, exact_arithmetic.exp2(-half)) for far, half in zip(self.far, halves, strict=True)]
        self.weights = np.zeros(self.right.columns.shape[1])
        self.weights[: len(weights)] = weights

    def tile(self, rows: slice, columns: slice, with_column_sums: bool) -> tuple[Array, Array | None]:
        """Compute sums (r,) over the columns, and with `with_column_sums` (c,) over the rows; in parts if some rows or columns are far."""
        wide = slice(columns.start, -(-columns.stop // LANES) * LANES)
        weights = self.weights[wide]
        if wide.stop > columns.stop:
            weights = weights.copy()
            weights[columns.stop - columns.start :] = 0
        near = TileColumns(
            self.left.columns[:, rows], self.weights[rows] if with_column_sums else None, self.right.columns[:, wide], weights
        )
        far = self.far[0][rows], self.far[1][wide]
        factors = self.factors[0][rows], self.factors[1][wide]
        down, across = (
            near.sums_by_products(*factors) if not far[0].any() and not far[1].any() else _combine_tile_parts(near, *far, *factors)
        )
        return down, across[: columns.stop - columns.start] if with_column_sums else None


def _half_squares(columns: Array) -> Array:
    """Return ½|x|² (n,) of points in columns (d, n), in blocks of the points."""
    halves, step = np.empty(columns.shape[1]), LANES * max(1, GENERIC_BLOCK // (LANES * max(1, len(columns))))
    for start in range(0, len(halves), step):
        halves[start : start + step] = 0.5 * np.square(columns[:, start : start + step], dtype=np.float64).sum(axis=0)
    return halves


def _combine_tile_parts(
    tile: TileColumns, far_rows: Array, far_columns: Array, row_factors: Array, column_factors: Array
) -> tuple[Array, Array]:
    """Combine both sums of a tile with far rows or columns from its parts."""
    down, across = np.zeros(tile.a.shape[1]), np.zeros(tile.b.shape[1])
    for i in (np.flatnonzero(~far_rows), np.flatnonzero(far_rows)):
        for j in (np.flatnonzero(~far_columns), np.flatnonzero(far_columns)):
            if not len(i) or not len(j):
                continue
            part = tile.part(i, j)
            near = not far_rows[i[0]] and not far_columns[j[0]]
            padded = np.ones(part.b.shape[1])
            padded[: len(j)] = column_factors[j]
            some = part.sums_by_products(row_factors[i], padded) if near else part.sums_by_differences()
            down[i] += some[0]
            across[j] += some[1][: len(j)]
    return down, across


@dataclass(frozen=True)
class TileColumns:
    """The columns a (d, na), b (d, nb) of a tile, and their weights in float64; wa None: only the sums over b are computed."""

    a: Array
    wa: Array | None
    b: Array
    wb: Array

    def part(self, i: Array, j: Array) -> TileColumns:
        """Select rows i (na',) and columns j (nb',), these padded to LANES with columns of weight 0."""
        room = -(-len(j) // LANES) * LANES
        b, wb = np.zeros((len(self.b), room), dtype=self.b.dtype), np.zeros(room)
        b[:, : len(j)], wb[: len(j)] = self.b[:, j], self.wb[j]
        return TileColumns(np.ascontiguousarray(self.a[:, i]), None if self.wa is None else np.ascontiguousarray(self.wa[i]), b, wb)

    def sums_by_products(self, row_factors: Array, column_factors: Array) -> tuple[Array, Array]:
        """Compute sums (na,) and (nb,) by products, given the outer factors (na,), (nb,).

        It uses 2^(−|a−b|²/2) = 2^(−|a|²/2) 2^(a·b) 2^(−|b|²/2).
        """
        wa = None if self.wa is None else self.wa * row_factors
        down, across = self._sums(wa, self.wb * column_factors, differences=False)
        return down * row_factors, across * column_factors

    def sums_by_differences(self) -> tuple[Array, Array]:
        """Compute sums (na,) and (nb,), with exponents from the differences themselves."""
        return self._sums(self.wa, self.wb, differences=True)

    def _sums(self, row_weights: Array | None, weights: Array, *, differences: bool) -> tuple[Array, Array]:
        wa: Array = np.ones(self.a.shape[1], self.b.dtype) if row_weights is None else row_weights.astype(self.b.dtype)
        wb = weights.astype(self.b.dtype)
        down, across = np.empty(self.a.shape[1]), np.zeros(self.b.shape[1], dtype=self.b.dtype)
        if len(self.a) >= BLAS_FROM and not differences:
            _add_blas_tile(self.a, wa, self.b, wb, down, across)
        else:
            fast.gaussian_tile(self.a, wa, self.b, wb, differences, down, None if self.wa is None else across)
        return down, across


def _add_blas_tile(a: Array, wa: Array, b: Array, wb: Array, down: Array, across: Array) -> None:
    """Compute a tile in pieces whose products are made by BLAS."""
    for left in range(0, b.shape[1], 1024):
        part = slice(left, left + 1024)
        piece = np.empty_like(down)
        fast.gaussian_finish(
            exact_arithmetic.matrix_product(np.ascontiguousarray(a.T), np.ascontiguousarray(b[:, part])), wa, wb[part], piece, across[part]
        )
        down[:] = piece if left == 0 else down + piece
