"""Rows made uncorrelated with unit variances, and back again: centring, PCA or ZCA whitening, leading components.

    fitted = whitening.fit(X, method="pca", components=64)
    Z = fitted.apply(X)          # (n, 64), mean 0, Z'Z/n = I
    fitted.undo(Z)               # the projection of X on what was kept

Directions in which the rows do not vary have no inverse and are dropped; how many is kept in `dropped`, for the user to
be told.  The components' order (descending variance) and signs (the entry largest in size is positive) do not depend on
the machine, unless variances tie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.schema import Array, array

Method = Literal["pca", "zca", "centre"]
BLOCK_ELEMENTS = 1 << 21  # of rows held in float64 at a time
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Whitening:
    """z = forward (x − mean) and x ≈ mean + backward z, of log(1 + x) in the place of x under `log`.

    forward @ backward is the identity of n dimensions; backward @ forward projects on the components kept.
    """

    mean: Array = array("D", "mean of the rows", kind="f")
    forward: Array = array("n D", "acts on centred rows", kind="f")
    backward: Array = array("D n", "undoes `forward`", kind="f")
    variance: Array = array("n", "variance of the rows along each component kept, descending", kind="f")
    total: float = 0.0  # variance of the rows over all directions
    method: str = "pca"  # what was done: pca, zca or centre
    dropped: int = 0  # directions of no variance, left out
    log: bool = False  # rows are replaced by log(1 + row) first

    @property
    def kept(self) -> float:
        """Fraction of the variance along the components kept."""
        return float(self.variance.sum()) / self.total

    def validate(self) -> None:
        """Raise DataError for a method that there is not."""
        if self.method not in ("pca", "zca", "centre"):
            raise DataError(f"whitening is '{self.method}', expected one of pca, zca, centre")

    def apply(self, X: Array) -> Array:
        """(m, D) rows in, (m, n) float64 out.  Raises DataError for another number of columns."""
        if X.shape[1] != self.mean.size:
            raise DataError(f"/X has {X.shape[1]} columns, the whitening was fitted to {self.mean.size}")
        if self.log:
            _check_log(X)
        result = np.empty((len(X), len(self.forward)))
        for block in _blocks(X):
            np.matmul(_prepared(X[block], self.log) - self.mean, self.forward.T, out=result[block])
        return result

    def undo(self, Z: Array) -> Array:
        """(m, n) whitened rows in, (m, D) float64 out: exact up to what lay along components not kept."""
        if Z.shape[1] != len(self.forward):
            raise DataError(f"/X has {Z.shape[1]} columns, the whitening keeps {len(self.forward)}")
        result = self.mean + Z @ self.backward.T
        return np.expm1(result) if self.log else np.asarray(result)


def fit(X: Array, *, method: Method = "pca", components: int | None = None, log: bool = False) -> Whitening:
    """The whitening of rows X (m, D), with the covariance's divisor m.

    method      pca: onto the principal axes, each of unit variance.  zca: back in the rows' own axes, the whitening that
                moves rows least, E|z − x|².  centre: principal axes are not sought, all D columns are kept as they are.
    components  keep so many of the largest; None: all.  zca needs all of them: rows without variance in some direction
                are whitened by pca in its place, as `method` of the result tells.
    Raises BadUsage for components there cannot be, DataError for rows that do not vary at all or cannot be logged.
    Source: Teh (2003), sec. 4.6 (ZCA) and 4.7.4 (Λ^−½ Pᵀ M); covariance or Gram matrix, whichever is smaller.
    """
    rows, columns = X.shape
    _check(method, components, rows, columns)
    if log:
        _check_log(X)
    mean = sum(_prepared(X[block], log).sum(axis=0) for block in _blocks(X)) / rows
    if method == "centre":
        variance = sum(((_prepared(X[block], log) - mean) ** 2).sum(axis=0) for block in _blocks(X)) / rows
        _check_varies(float(variance.sum()), mean, rows)
        still = int((variance <= _floor(variance.max(), rows, columns)).sum())
        one = np.eye(columns)
        return Whitening(mean, one, one, np.sort(variance)[::-1], float(variance.sum()), method, still, log)
    values, vectors, total = _components(X, mean, log)
    _check_varies(total, mean, rows)
    rank = int((values > _floor(values[0], rows, columns)).sum())
    kept = min(rank, components or rank)
    values, axes = values[:kept], signed(vectors[:, :kept].T)
    scale = np.sqrt(values)[:, np.newaxis]
    forward, backward = axes / scale, (axes * scale).T
    if method == "zca" and kept == columns:
        forward, backward = axes.T @ forward, backward @ axes
    else:
        method = "pca"
    return Whitening(mean, forward, np.ascontiguousarray(backward), values, total, method, columns - rank, log)


def signed(axes: Array) -> Array:
    """Rows with the entry largest in size made positive (the first of equals): (k, D) in, a new array out."""
    largest = axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)]
    return axes * np.where(largest < 0, -1.0, 1.0)[:, np.newaxis]


def _components(X: Array, mean: Array, log: bool) -> tuple[Array, Array, float]:
    """Eigenvalues of the covariance, descending, their vectors as columns, and its trace."""
    rows, columns = X.shape
    if rows >= columns:
        covariance = np.zeros((columns, columns))
        for block in _blocks(X):
            centred = _prepared(X[block], log) - mean
            covariance += centred.T @ centred
        covariance /= rows
        values, vectors = np.linalg.eigh(covariance)
        return values[::-1], vectors[:, ::-1], float(np.trace(covariance))
    centred = _prepared(X, log) - mean
    gram = centred @ centred.T / rows
    values, vectors = np.linalg.eigh(gram)
    values, vectors = values[::-1], vectors[:, ::-1]
    found = values > _floor(values[0], rows, columns)
    return values[found], centred.T @ vectors[:, found] / np.sqrt(rows * values[found]), float(np.trace(gram))


def _floor(largest: float, rows: int, columns: int) -> float:
    """Variances up to this are rounding."""
    return max(rows, columns) * EPS * largest


def _blocks(X: Array) -> list[slice]:
    step = max(1, BLOCK_ELEMENTS // X.shape[1])
    return [slice(start, start + step) for start in range(0, len(X), step)]


def _prepared(X: Array, log: bool) -> Array:
    rows = X.astype(np.float64)
    return np.log1p(rows, out=rows) if log else rows


def _check(method: str, components: int | None, rows: int, columns: int) -> None:
    if components is None:
        return
    if not 1 <= components <= columns:
        raise BadUsage(f"{components} components of {columns} columns cannot be kept", hint=f"from 1 to {columns}")
    if method != "pca" and components < columns:
        raise BadUsage(f"{method} keeps all {columns} components, not {components}", hint="pca keeps as many as wanted")


def _check_log(X: Array) -> None:
    negative = (X < 0).any(axis=1)
    if negative.any():
        raise DataError(f"/X has negative values, first in row {int(negative.argmax())}: log(1 + x) is of intensities, from 0 upwards")


def _check_varies(total: float, mean: Array, rows: int) -> None:
    """The mean of equal rows is off by some last places, and with it their variance from 0."""
    if not total > (16 * EPS) ** 2 * float(mean @ mean):
        raise DataError("/X has one row: nothing varies" if rows == 1 else f"/X has {rows} rows that are all the same: nothing varies")
