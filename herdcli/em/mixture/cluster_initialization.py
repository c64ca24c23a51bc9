"""Initial clusters: random rows, greedy k-means++, and the moments of the rows nearest to each centre."""

from __future__ import annotations

import math

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.numerics.block_statistics import SAMPLE_ROWS, RowBlock, RowMoments
from herdcli.schema import Array

INITS = ("kmeans++", "random")


def fill_with_means(rows: RowBlock, moments: RowMoments) -> RowBlock:
    """Return rows with missing values replaced by column means, for initialisation only."""
    return RowBlock(rows.first, np.where(np.isnan(rows.X), moments.mean, rows.X), rows.labels, rows.weight) if moments.missing else rows


def memory_needed(moments: RowMoments, count: int) -> int:
    """Return the bytes of an initialisation: rows as read, the sample, its scaled copy, one cluster, and distances."""
    rows, copies = min(moments.rows, SAMPLE_ROWS), 5 if moments.missing else 4
    return 8 * rows * (copies * len(moments.mean) + 2 * (3 + int(math.log(count))))


def initial_centres(rows: RowBlock, count: int, init: str, random: np.random.Generator, scale: Array, per_class: int = 1) -> Array:
    """Return starting centres (K, D) among rows (m, D); distances are those of columns divided by `scale` (D,).

    For labelled rows, the centre of a label is the mean of its rows; several centres of a label are chosen among its rows.
    Raises BadUsage for an unknown `init`.
    """
    if init not in INITS:
        raise BadUsage(f"unknown init '{init}', expected {', '.join(INITS)}")
    found = _choose_centres(rows, count, init, random, scale)
    if rows.labels is not None:
        if rows.labels.max() * per_class >= count:
            raise DataError(
                f"label {rows.labels.max()} is out of range: there are {count} components, 0 to {count - 1}",
                hint=f"--components {rows.labels.max() + 1}",
            )
        for label in np.unique(rows.labels[rows.labels >= 0]):
            own = np.flatnonzero(rows.labels == label)
            its = RowBlock(0, rows.X[own], None, None if rows.weight is None else rows.weight[own])
            several = slice(label * per_class, (label + 1) * per_class)
            found[several] = its.X.mean(axis=0) if per_class == 1 else _choose_centres(its, per_class, init, random, scale)
    return found


def _choose_centres(rows: RowBlock, count: int, init: str, random: np.random.Generator, scale: Array) -> Array:
    chosen = draw_rows(rows, count, random) if init == "random" else greedy_kmeans_pp(rows.X / scale, count, random, rows.weight)
    found: Array = rows.X[chosen].copy()
    return found


def draw_rows(rows: RowBlock, count: int, random: np.random.Generator) -> Array:
    """Return indices of `count` rows, without repetition if there are enough."""
    share = None if rows.weight is None else rows.weight / rows.weight.sum()
    there = len(rows.X) if share is None else int(np.count_nonzero(share))
    return np.asarray(random.choice(len(rows.X), count, replace=there < count, p=share))


def greedy_kmeans_pp(X: Array, count: int, random: np.random.Generator, weight: Array | None = None) -> Array:
    """Return row indices (K,) by greedy k-means++: each next centre is the best of 2 + log K candidates drawn by squared distance.

    A row is drawn with probability ∝ w |x − nearest centre|²; the chosen candidate minimises Σ w |x − nearest|².
    Source: Arthur & Vassilvitskii (2007), sec. 5; the number of trials is that of scikit-learn.
    """
    trials = 2 + int(math.log(count))
    w = np.ones(len(X)) if weight is None else weight
    squares = np.einsum("nd,nd->n", X, X)

    def distances(index: Array) -> Array:
        found: Array = X[index] @ X.T
        found *= -2.0
        found += squares
        found += squares[index][:, None]
        return np.asarray(np.maximum(found, 0.0, out=found))

    chosen = np.empty(count, dtype=np.int64)
    chosen[0] = random.choice(len(X), p=w / w.sum())
    nearest = distances(chosen[:1])[0]
    for k in range(1, count):
        mass = np.cumsum(w * nearest)
        if mass[-1] <= 0.0:  # fewer distinct rows than centres: the rest are repeats
            chosen[k:] = random.choice(len(X), count - k, p=w / w.sum())
            break
        candidates = np.minimum(np.searchsorted(mass, random.random(trials) * mass[-1]), len(X) - 1)
        # Σ w min(|x − new|², nearest²) of each candidate: what the cost would be with it (Arthur & Vassilvitskii 2007, sec. 5).
        after = np.minimum(distances(candidates), nearest)
        best = int(np.argmin(after @ w))
        chosen[k], nearest = candidates[best], after[best]
    return chosen


def moments_by_nearest_centre(rows: RowBlock, centre: Array, scale: Array, per_class: int = 1) -> dict[str, Array]:
    """Return weight, mean and covariance of the rows nearest to each centre; labelled rows go to a centre of their label.

    A component with too few rows for a covariance of full rank gets the covariance of all rows about their centres.
    """
    X, w = rows.X, np.ones(len(rows.X)) if rows.weight is None else rows.weight
    K, D = centre.shape
    C = centre / scale
    distance = np.square(C).sum(axis=1) - 2.0 * (X / scale) @ C.T
    if rows.labels is not None:
        other = np.arange(K) // per_class != rows.labels[:, None]
        distance[other & (rows.labels >= 0)[:, None]] = np.inf
    nearest = np.argmin(distance, axis=1)
    mass = np.bincount(nearest, w, minlength=K)
    mean, scatter = centre.copy(), np.zeros((K, D, D))
    for k in np.flatnonzero(mass > 0):
        own, share = X[nearest == k], w[nearest == k]
        mean[k] = share @ own / mass[k]
        own -= mean[k]
        scatter[k] = own.T @ (share[:, None] * own)
    shared = scatter.sum(axis=0) / mass.sum()
    enough = np.bincount(nearest, minlength=K) > D
    covariance = np.where(enough[:, None, None], scatter / np.maximum(mass, np.finfo(float).tiny)[:, None, None], shared)
    weight = mass + 1.0  # no component starts with weight 0
    return {"weight": weight / weight.sum(), "mean": mean, "covariance": covariance}
