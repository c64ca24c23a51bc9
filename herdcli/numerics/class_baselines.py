"""Baseline classifiers: the nearest centroid and a ridge classifier, as linear functions of a row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from herdcli.errors import DataError
from herdcli.numerics.row_selection import as_dense, iterate_row_slices
from herdcli.records import dataclass
from herdcli.schema import Array, Matrix, array, is_sparse

MOST_ROWS = 10_000  # largest number of training rows used
MOST_SOLVED = 1_000  # largest number of unknowns of the ridge classifier: columns, or rows if there are fewer
MOST_ENTRIES = MOST_ROWS * MOST_SOLVED
MOST_WEIGHTS = 1 << 24  # largest number of weights of the nearest centroid
SPARSE_ROWS = 1_000  # sparse rows whose scores are computed at a time
CENTRED_ROWS = 1_024  # rows whose centred copy is made at a time
RIDGE = 1.0  # penalty of squared weights of standardised columns, as in scikit-learn's RidgeClassifier
NEVER = -1e300  # score of a class without training rows
UNKNOWN = -1  # in place of a class, where none is predicted
NAMES = ("centroid", "linear")


@dataclass(frozen=True)
class ClassBaselines:
    """The scores of C classes as linear functions of d columns; the class with the largest score is predicted.

    Columns are in units of their standard deviations over the training rows.  The weights are of all columns, or of `columns`; those of
    other columns are 0.
    """

    centroid: Array = array("C e", "weights of the nearest centroid's scores, the constant last", kind="f", finite=True)
    linear: Array | None = array("C e", "weights of the ridge classifier's scores, the constant last", kind="f", optional=True, finite=True)
    columns: Array | None = array("k", "columns that have weights, ascending, where most have none", kind="iu", optional=True, low=0)

    def require_shape(self, classes: int, columns: int) -> None:
        """Raise DataError unless there is a row for each class, and a weight for each column and the constant."""
        if self.columns is not None:
            if len(self.columns) and ((np.diff(self.columns) <= 0).any() or self.columns[-1] >= columns):
                raise DataError(f"/baselines/columns must be in ascending order and below {columns}")
            columns = len(self.columns)
        for name in NAMES:
            if (weights := getattr(self, name)) is not None and weights.shape != (classes, columns + 1):
                raise DataError(f"/baselines/{name} is {weights.shape[0]} × {weights.shape[1]}, but must be {classes} × {columns + 1}")

    def predictions(self, X: Matrix) -> Array:
        """Return classes (n, 2) int64 of rows (n, d), dense or CSR, by nearest centroid and ridge; UNKNOWN for a missing classifier."""
        found = np.full((X.shape[0], 2), UNKNOWN, dtype=np.int64)
        # Dense rows are as many as fit into a block; sparse ones take the memory of their scores, however many columns there are.
        slices = iterate_row_slices(X) if not is_sparse(X) else (slice(k, k + SPARSE_ROWS) for k in range(0, X.shape[0], SPARSE_ROWS))
        for rows in slices:
            part = X[rows] if is_sparse(X) else np.asarray(X[rows], dtype=np.float64)
            if self.columns is not None:
                part = part[:, self.columns[: np.searchsorted(self.columns, X.shape[1])]]
            for place, weights in enumerate((self.centroid, self.linear)):
                if weights is not None:
                    width = min(part.shape[1], weights.shape[1] - 1)  # rows of text may have features that the training rows do not have
                    own = part if width == part.shape[1] else part[:, :width]
                    found[rows, place] = np.argmax(own @ weights[:, :width].T + weights[:, -1], axis=1)
        return found

    def reorder_columns(self, order: Array) -> ClassBaselines:
        """Return the baselines for rows whose columns are in another order (d,).  They must have weights of all columns."""
        assert self.columns is None
        places = np.append(order, len(order))
        return ClassBaselines(self.centroid[:, places], None if self.linear is None else self.linear[:, places])


def _columns_with_weights(baselines: ClassBaselines) -> Array:
    return np.arange(baselines.centroid.shape[1] - 1) if baselines.columns is None else np.asarray(baselines.columns, dtype=np.int64)


def average_baselines(parts: Sequence[ClassBaselines | None], columns: int) -> ClassBaselines | None:
    """Return baselines whose scores are the means of the scores of the shards' baselines; None unless every shard has baselines.

    columns  number of columns of the result.
    Source: McDonald, Hall & Mann (2010), parameter mixtures of linear models.
    """
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts) or len({len(part.centroid) for part in known}) > 1:
        return None
    union = None
    if any(part.columns is not None for part in known):
        union = np.unique(np.concatenate([_columns_with_weights(part) for part in known]))

    def spread(part: ClassBaselines, weights: Array) -> Array:
        made = np.zeros((len(weights), (columns if union is None else len(union)) + 1))
        own = _columns_with_weights(part)
        made[:, own if union is None else np.searchsorted(union, own)] = weights[:, :-1]
        made[:, -1] = weights[:, -1]
        return made

    def mean(weights: Sequence[Array]) -> Array:
        wide = np.stack([spread(part, w) for part, w in zip(known, weights, strict=True)])
        met = wide[:, :, -1:] > NEVER  # shards without rows of a class have no information about it
        found = np.where(met, wide, 0.0).sum(axis=0) / np.maximum(met.sum(axis=0), 1)
        found[~met[:, :, 0].any(axis=0), -1] = NEVER
        return np.asarray(found)

    linear = [part.linear for part in known if part.linear is not None]
    return ClassBaselines(mean([part.centroid for part in known]), mean(linear) if len(linear) == len(known) else None, union)


def fit_baselines(X: Matrix, y: Array, classes: int, weight: Array | None = None) -> ClassBaselines | None:
    """Return the baselines of training rows X (n, d), dense or CSR, of classes y (n,); None if there are no rows or too many weights.

    The ridge classifier regresses ±1 for each class on the columns; it is left out beyond MOST_ENTRIES or MOST_SOLVED.
    Source: Hastie, Tibshirani & Friedman (2009), sec. 4.2 and 18.2.
    """
    n, d = X.shape
    mass = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    total = float(mass.sum())
    if not total > 0 or classes * (d + 1) > MOST_WEIGHTS:
        return None
    X = X if is_sparse(X) else np.asarray(X, dtype=np.float64)
    member = np.zeros((n, classes))
    member[np.arange(n), y] = mass
    count = member.sum(axis=0)
    mean = np.asarray(mass @ X).ravel() / total
    target = 2.0 * (member > 0) - 1.0
    solved = min(n, d) <= MOST_SOLVED and n * d <= MOST_ENTRIES
    products = _centred_products(X, target, mass, mean) if solved and d <= n else None
    if products is None:
        scale = _column_deviations(X, mass / total, mean)
    else:
        scale = _scale_of_variances(np.diag(products[0]) / total, mean)
    centroid = centroid_weights(np.asarray((X.T @ member).T), count, mean, scale)
    if not np.isfinite(centroid).all():
        return None
    linear = None
    if solved:
        if products is None:
            linear = _ridge_weights_by_rows((as_dense(X) - mean) / scale, target, mass)
        else:
            linear = _ridge_weights(products[0] / np.outer(scale, scale), products[1] / scale[:, None], mass @ target / total)
        linear = np.column_stack([linear[:, :-1] / scale, linear[:, -1] - (linear[:, :-1] / scale) @ mean])
    return ClassBaselines(centroid, linear if linear is not None and np.isfinite(linear).all() else None)


def centroid_weights(total: Array, count: Array, mean: Array, scale: Array) -> Array:
    """Return the weights (C, d + 1) of the nearest centroid's scores, the constant last.

    total (C, d)  sums of the rows of each class, count (C,) their weights; mean and scale (d,)  of the columns.
    """
    z = (total / np.maximum(count, np.finfo(float).tiny)[:, None] - mean) / scale
    constant = -0.5 * np.square(z).sum(axis=1) - (z / scale) @ mean
    weights = np.column_stack([z / scale, np.where(count > 0, constant, NEVER)])
    weights[count == 0, :-1] = 0.0
    return weights


def standard_deviations(variance: Array, mean: Array) -> Array:
    """Return standard deviations (d,) from means and mean squares less squared means, which is inexact; 1 for constant columns."""
    variance = np.where(variance < 1e-12 * mean * mean, 0.0, variance)
    return np.where(variance > 0, np.sqrt(np.maximum(variance, 0.0)), 1.0)


def _column_deviations(X: Matrix, row_weights: Array, mean: Array) -> Array:
    """Return the standard deviations (d,) of columns about their means; 1 for constant columns."""
    if is_sparse(X):
        return standard_deviations(np.asarray(row_weights @ X.multiply(X)).ravel() - mean * mean, mean)
    variance = np.zeros(X.shape[1])
    for rows in iterate_row_slices(X):
        variance += row_weights[rows] @ np.square(X[rows] - mean)
    return _scale_of_variances(variance, mean)


def _scale_of_variances(variance: Array, mean: Array) -> Array:
    """Return standard deviations (d,) from variances about the means; 1 for columns that vary by rounding alone."""
    varies = variance >= (1e-14 * np.abs(mean)) ** 2
    return np.where(varies & (variance > 0), np.sqrt(variance), 1.0)


def _centred_products(X: Matrix, target: Array, mass: Array, mean: Array) -> tuple[Array, Array]:
    """Return Σ w c c' (d, d) and Σ w c t' (d, C) of centred rows c = x − mean (n, d) and centred targets (n, C), some rows at a time."""
    d, middle = X.shape[1], mass @ target / mass.sum()
    products, cross = np.zeros((d, d)), np.zeros((d, target.shape[1]))
    for start in range(0, X.shape[0], CENTRED_ROWS):
        part = slice(start, start + CENTRED_ROWS)
        root = np.sqrt(mass[part])[:, None]
        centred = as_dense(X[part]) - mean
        centred *= root
        products += centred.T @ centred
        cross += centred.T @ ((target[part] - middle) * root)
    return products, cross


def _ridge_weights(products: Array, cross: Array, middle: Array) -> Array:
    """Return the weights (C, d + 1), the constant last, from the products of standardised columns (d, d) and with targets (d, C)."""
    return np.column_stack([np.linalg.solve(products + RIDGE * np.eye(len(products)), cross).T, middle])


def _ridge_weights_by_rows(Z: Array, target: Array, mass: Array) -> Array:
    """Return the weights (C, d + 1), the constant last, of fewer standardised rows Z (n, d) than columns, for targets (n, C)."""
    middle = mass @ target / mass.sum()
    root = np.sqrt(mass)[:, None]
    A, right = Z * root, (target - middle) * root
    found = A.T @ np.linalg.solve(A @ A.T + RIDGE * np.eye(A.shape[0]), right)
    return np.column_stack([found.T, middle])


def count_discordant_rows(y: Array, predictions: Array, baselines: Array, weight: Array | None = None) -> Array:
    """Return weighted counts (2, 3) for each baseline: rows that it gets wrong, that only it gets right, and that only `predictions` gets
    right.

    They compare the predictions `predictions` with the baselines (n, 2) on rows of classes y (n,).  NaN for a baseline that skips some
    rows.  weight  (n,) of the rows; None: 1.
    """
    count, found = np.ones(len(y)) if weight is None else weight, np.full((2, 3), np.nan)
    for place in range(2):
        predicted = baselines[:, place]
        if not (predicted == UNKNOWN).any():
            right, ours = predicted == y, predictions == y
            found[place] = count @ ~right, count @ (right & ~ours), count @ (ours & ~right)
    return found
