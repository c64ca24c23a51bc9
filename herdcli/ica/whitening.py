"""Whitening of rows to uncorrelated columns of unit variance, and its inverse: centring, PCA or ZCA whitening, leading components.

    fitted = whitening.fit(X, method="pca", components=64)
    Z = fitted.apply(X)          # (n, 64), mean 0, Z'Z/n = I
    fitted.undo(Z)               # the projection of X on the components kept

Directions in which the rows do not vary have no inverse and are dropped; `dropped` has their number, for a message.
Columns whose deviations differ by more than UNLIKE are whitened in units of these, so that columns in small units are not
mistaken for rounding errors.  The components' order (descending variance) and signs (the entry largest in magnitude is positive)
do not depend on the machine, unless variances tie.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import BadUsage, DataError
from herdcli.numerics import factor_model, symmetric_matrices
from herdcli.numerics.block_statistics import (
    BLOCK,
    ArrayRows,
    BlockStatistics,
    ComputedRows,
    RowBlock,
    RowBlocks,
    RowMoments,
    RowReader,
    Sums,
    blocks_per_read,
    read_budget_bytes,
    row_moments,
    sum_statistics,
)
from herdcli.numerics.principal_components import PrincipalComponents, fit_principal_components, principal_components_from_covariance
from herdcli.records import dataclass
from herdcli.schema import Array, array

UNLIKE = 1e5  # ratio to the smallest deviation of a varying column; less for so many rows that rounding would hide it
READ = 1 << 22  # numbers read at one time
Method = Literal["pca", "zca", "centre", "fa"]


@dataclass(frozen=True)
class Whitening:
    """A whitening z = forward (x − mean) and x ≈ mean + backward z, of log(1 + x) instead of x if `log`.

    forward @ backward is the identity in n dimensions; backward @ forward projects on the components kept.
    """

    mean: Array = array("D", "mean of the rows", kind="f", finite=True)
    forward: Array = array("n D", "acts on centred rows", kind="f", finite=True)
    backward: Array = array("D n", "undoes `forward`", kind="f", finite=True)
    variance: Array = array("R", "variance of the rows along each component kept, descending", kind="f", finite=True)
    total: float = 0.0  # variance of the rows over all directions
    method: str = "pca"  # method used: pca, zca, centre or fa
    dropped: int = 0  # number of directions without variance, which are left out
    log: bool = False  # rows are replaced by log(1 + row) first
    scale: Array | None = array("D", "deviations of columns of unlike units, which were whitened in these", kind="f", optional=True)

    @property
    def kept_variance_fraction(self) -> float:
        """The fraction of the variance along the components kept."""
        return float(self.variance.sum()) / self.total

    def validate(self) -> None:
        """Raise DataError for an unknown method, or if no component is kept."""
        if not self.mean.size or not len(self.forward):
            raise DataError("the whitening keeps no components")
        if self.method not in ("pca", "zca", "centre", "fa"):
            raise DataError(f"whitening is '{self.method}', expected one of pca, zca, centre, fa")

    def apply(self, X: Array) -> Array:
        """Return whitened rows (m, n) float64 of rows (m, D).  Raises DataError for another number of columns."""
        if X.shape[1] != self.mean.size:
            raise DataError(f"/X has {X.shape[1]} columns, but the whitening was fitted to {self.mean.size}")
        result = np.empty((len(X), len(self.forward)))
        for start in range(0, len(X), BLOCK):  # the blocks of every sum, so that rows that are read in blocks give identical results
            rows = log1p_nonnegative(X[start : start + BLOCK], start) if self.log else X[start : start + BLOCK]
            np.matmul(rows - self.mean, self.forward.T, out=result[start : start + BLOCK])
        return result

    def filters_in_row_axes(self, J: Array) -> Array:
        """Return filters (M, n) of whitened rows on the rows' own axes, (M, D), with the same lengths and angles.

        This is the thesis' "whitened domain": each filter as it would be on rows whitened by zca.
        """
        if self.method == "fa":
            left, _, right = symmetric_matrices.singular_value_decomposition(self.forward)
            return np.asarray(J @ left @ right)
        # A filter J of pca's rows Λ^−½U'x is the filter JU' of zca's rows UΛ^−½U'x: the outputs are the same.  U' is `forward` without the
        # lengths Λ^−½.
        if self.method != "pca":
            return np.asarray(J @ np.eye(len(self.forward)))
        forward = self.forward if self.scale is None else self.forward * self.scale
        return np.asarray(J @ (forward * np.sqrt(self.variance)[:, np.newaxis]))

    def undo(self, Z: Array) -> Array:
        """Return rows (m, D) float64 of whitened rows (m, n): exact up to the components that were not kept."""
        if Z.shape[1] != len(self.forward):
            raise DataError(f"/X has {Z.shape[1]} columns, but the whitening keeps {len(self.forward)}")
        result = self.mean + Z @ self.backward.T
        return np.expm1(result) if self.log else np.asarray(result)


def whitened_rows(rows: RowReader, whitening: Whitening) -> ComputedRows[RowBlock]:
    """Return the rows of a source of any length, whitened as they are read; wide ones, of which few components may be kept, in steps."""
    step = _rows_per_read(rows)

    def read(start: int, stop: int) -> RowBlock:
        parts = [whitening.apply(rows.read(first, min(first + step, stop)).X) for first in range(start, stop, step)]
        return RowBlock(start, parts[0] if len(parts) == 1 else np.concatenate(parts))

    return ComputedRows(rows.count, len(whitening.forward), read, read_budget_bytes(rows))


def fit_whitening(
    X: Array | RowReader,
    *,
    method: Method = "pca",
    components: int | None = None,
    share: float | None = None,
    log: bool = False,
    map: Map = map,
) -> Whitening:
    """Return the whitening of rows X (m, D), in memory or read block by block, with the covariance's divisor m.

    method      pca: onto the principal axes, each of unit variance.  zca: back in the rows' own axes, the whitening that
                changes rows least, E|z − x|².  centre: only the mean is subtracted.
                fa: factor analysis, for columns with different noise; rows are divided by the noise's deviations,
                and mapped onto principal axes of the result.
    components  number of the largest to keep; None: all.  zca needs all of them: rows without variance in some direction
                are whitened by pca in its place, as `method` of the result shows.
    share       keep as few of the largest as have this share of the variance together; None: all.
    Raises BadUsage for an impossible number of components, DataError for constant rows or rows without logarithms.
    Source: Teh (2003), sec. 4.6 (ZCA) and 4.7.4 (Λ^−½ Pᵀ M).
    """
    columns = X.shape[1] if isinstance(X, np.ndarray) else X.columns
    _require_valid_components(columns, method, components, share)
    if isinstance(X, np.ndarray) and len(X) < columns and method != "fa":
        rows = np.asarray(log1p_nonnegative(X) if log else X, dtype=np.float64)
        scale = _column_deviations(rows.var(axis=0), rows.mean(axis=0), len(rows))
        return _pca_whitening(fit_principal_components(rows if scale is None else rows / scale, components), method, share, log, scale)
    return whitening_from_moments(row_moments(make_row_blocks(X, log=log), map), method=method, components=components, share=share, log=log)


def whitening_from_moments(
    moments: RowMoments, *, method: Method = "pca", components: int | None = None, share: float | None = None, log: bool = False
) -> Whitening:
    """Return the whitening from the moments of rows, or of their logarithms if `log`."""
    _require_valid_components(len(moments.mean), method, components, share)
    scale = _column_deviations(moments.variance, moments.mean, moments.rows)
    if scale is not None:
        moments = replace(moments, mean=moments.mean / scale, covariance=moments.covariance / scale[:, np.newaxis] / scale)
    if method == "fa" and components is not None:
        return _undo_scaling(_factor_whitening(moments, components, log), scale)
    return _pca_whitening(
        principal_components_from_covariance(moments.mean, moments.covariance, moments.rows, components), method, share, log, scale
    )


def _column_deviations(variance: Array, mean: Array, rows: int) -> Array | None:
    """Return deviations (D,) if columns have very different units, 1 for constant ones; None if they need no scaling."""
    eps = np.finfo(np.float64).eps
    varies = variance > 4.0 * np.square(eps * np.abs(mean))
    deviation = np.sqrt(np.where(varies, variance, 1.0))
    if not varies.any() or deviation[varies].max() <= min(UNLIKE, 0.1 / np.sqrt(rows * eps)) * deviation[varies].min():
        return None
    return np.where(varies, deviation, 1.0)


def _undo_scaling(whitening: Whitening, scale: Array | None) -> Whitening:
    """Return a whitening of columns divided by their deviations (D,) as a whitening of the columns themselves."""
    if scale is None:
        return whitening
    backward = np.ascontiguousarray(whitening.backward * scale[:, np.newaxis])
    return replace(whitening, mean=whitening.mean * scale, forward=whitening.forward / scale, backward=backward, scale=scale)


def _require_valid_components(columns: int, method: Method, components: int | None, share: float | None) -> None:
    """Raise BadUsage for an impossible number of components."""
    if components is not None and not 1 <= components <= columns:
        raise BadUsage(f"cannot keep {components} components of {columns} columns", hint=f"use --components from 1 to {columns}")
    if components not in (None, columns) and method not in ("pca", "fa"):
        raise BadUsage(f"--whiten {method} keeps all {columns} components, so it cannot keep {components}", hint="use --whiten pca")
    if method == "fa" and components is None:
        raise BadUsage("--whiten fa needs a number of components", hint="use --components N")
    if share is not None and method != "pca":
        raise BadUsage(
            f"--whiten {method} keeps all {columns} components, so it cannot keep a share of the variance", hint="use --whiten pca"
        )


def _pca_whitening(components: PrincipalComponents, method: Method, share: float | None, log: bool, scale: Array | None) -> Whitening:
    """Return the whitening by principal components; if there is a scale (D,), those of columns divided by it."""
    columns = len(components.mean)
    if share is not None:
        components = components.keep_leading(
            1 + int(np.searchsorted(np.cumsum(components.eigenvalues), share * components.total * (1.0 - 1e-12)))
        )
    axes, roots = components.components, np.sqrt(components.eigenvalues)[:, np.newaxis]
    forward, backward = axes / roots, (axes * roots).T
    if method == "centre":
        forward = backward = np.eye(columns)
    elif method == "zca" and len(axes) == columns:
        forward, backward = axes.T @ forward, backward @ axes
    else:
        method = "pca"
    backward = np.ascontiguousarray(backward)
    made = Whitening(components.mean, forward, backward, components.eigenvalues, components.total, method, columns - components.rank, log)
    if scale is not None and method == "centre":  # nothing is divided by the scale
        return replace(made, mean=components.mean * scale)
    return _undo_scaling(made, scale)


def _factor_whitening(moments: RowMoments, components: int, log: bool) -> Whitening:
    """Return z = Θ^−½ U'Ψ^−½ (x − m): white over the rows, and up to lengths the factors' most probable values (Bartlett 1937).

    log: the moments are of logarithms.
    """
    mean, S = moments.mean, moments.covariance
    # B = Ψ^−½SΨ^−½ has BU = UΘ, so that forward S forward' = Θ^−½ U'BU Θ^−½ = I; backward = Ψ^½ U Θ^½ has forward @ backward = U'U = I.
    found = factor_model.fit_factors(S, components)
    noise = np.sqrt(found.noise)[:, np.newaxis]
    backward = noise * found.vectors * np.sqrt(found.values)
    power = np.square(backward).sum(axis=0)
    order = np.argsort(-power, kind="stable")
    forward = (found.vectors / noise / np.sqrt(found.values)).T[order]
    dropped = len(mean) - int(np.linalg.matrix_rank(S, hermitian=True))
    return Whitening(mean, forward, np.ascontiguousarray(backward[:, order]), power[order], float(np.trace(S)), "fa", dropped, log)


@dataclass(frozen=True)
class _DifferenceCounts(BlockStatistics):
    """The number of rows of a block that differ from one row (D,), by column."""

    row: Array

    def __call__(self, block: RowBlock) -> Sums:
        return {"unlike": np.count_nonzero(self.row != block.X, axis=0).astype(np.float64)}


def find_constant_columns(X: Array | RowReader, map: Map = map) -> Array:
    """Return the indices of the columns of rows X (m, D) that have one value in all rows."""
    source = make_row_blocks(X)
    return np.flatnonzero(sum_statistics(source, _DifferenceCounts(next(iter(source.take(0, 1))).X[0]), map)["unlike"] == 0)


def log1p_nonnegative(X: Array, first_row: int = 0) -> Array:
    """Return log(1 + X), float64.  Raises DataError with the row, counted from `first_row`, of a negative value."""
    negative = (X < 0).any(axis=1)
    if negative.any():
        row = first_row + int(negative.argmax())
        raise DataError(f"/X has negative values, first in row {row}, but log(1 + x) needs values of 0 or more")
    return np.asarray(np.log1p(X, dtype=np.float64))


def _logarithmic_rows(rows: RowReader) -> ComputedRows[RowBlock]:
    """Return rows x read as log(1 + x).  Reading raises DataError for a negative value."""

    def read(start: int, stop: int) -> RowBlock:
        return RowBlock(start, log1p_nonnegative(rows.read(start, stop).X, start))

    return ComputedRows(rows.count, rows.columns, read, read_budget_bytes(rows))


def make_row_blocks(X: Array | RowReader, *, log: bool = False) -> RowBlocks[RowBlock]:
    """Return the fixed blocks of rows in memory or elsewhere, of log(1 + x) if `log`; the latter are read a few at a time."""
    rows: RowReader = ArrayRows(X) if isinstance(X, np.ndarray) else X
    return RowBlocks(_logarithmic_rows(rows) if log else rows, _rows_per_read(rows))


def _rows_per_read(rows: RowReader) -> int:
    """Return the number of rows, in whole blocks, to read at one time."""
    return BLOCK * blocks_per_read(rows.columns, min(8 * READ, read_budget_bytes(rows)))
