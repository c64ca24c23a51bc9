"""Where clusters begin: rows drawn, greedy k-means++, and what the rows nearest to a centre look like."""

from __future__ import annotations

import math

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.numerics.block_statistics import SAMPLE_ROWS, RowBlock, RowMoments
from herdcli.schema import Array

INITS = ("kmeans++", "random")


def fill_with_means(rows: RowBlock, moments: RowMoments) -> RowBlock:
    """Rows with column means instead of missing values: good enough to start from."""
    return RowBlock(rows.first, np.where(np.isnan(rows.X), moments.mean, rows.X), rows.labels, rows.weight) if moments.missing else rows


def memory_needed(moments: RowMoments, count: int) -> int:
    """Bytes of a start: rows as they are read, those that are drawn from, the same in units of their spread, a cluster's, and distances."""
    rows, copies = min(moments.rows, SAMPLE_ROWS), 5 if moments.missing else 4
    return 8 * rows * (copies * len(moments.mean) + 2 * (3 + int(math.log(count))))


def initial_centres(rows: RowBlock, count: int, init: str, random: np.random.Generator, scale: Array, per_class: int = 1) -> Array:
    """(K, D) starting centres among rows (m, D); distances are of the columns divided by `scale` (D,).

    Where rows are labelled, a label's centre is the mean of its rows; with several of a label they are chosen among its rows.
    Raises BadUsage for an unknown `init`.
    """
    if init not in INITS:
        raise BadUsage(f"unknown init '{init}', expected {', '.join(INITS)}")
    found = _centres_among(rows, count, init, random, scale)
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
            found[several] = its.X.mean(axis=0) if per_class == 1 else _centres_among(its, per_class, init, random, scale)
    return found


def _centres_among(rows: RowBlock, count: int, init: str, random: np.random.Generator, scale: Array) -> Array:
    chosen = draw_rows(rows, count, random) if init == "random" else greedy_kmeans_pp(rows.X / scale, count, random, rows.weight)
    found: Array = rows.X[chosen].copy()
    return found


def draw_rows(rows: RowBlock, count: int, random: np.random.Generator) -> Array:
    """Indices of `count` rows, each once where there are as many."""
    share = None if rows.weight is None else rows.weight / rows.weight.sum()
    there = len(rows.X) if share is None else int(np.count_nonzero(share))
    return np.asarray(random.choice(len(rows.X), count, replace=there < count, p=share))


def greedy_kmeans_pp(X: Array, count: int, random: np.random.Generator, weight: Array | None = None) -> Array:
    """Indices (K,) of rows by greedy k-means++: each next centre is the best of 2 + log K drawn by squared distance.

    A row is drawn with probability ∝ w |x − nearest centre|²; of the candidates the one that leaves Σ w |x − nearest|² least.
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
        if mass[-1] <= 0.0:  # fewer different rows than centres: the rest are repeats
            chosen[k:] = random.choice(len(X), count - k, p=w / w.sum())
            break
        candidates = np.minimum(np.searchsorted(mass, random.random(trials) * mass[-1]), len(X) - 1)
        # Σ w min(|x − new|², nearest²) of each candidate: what the cost would be with it (Arthur & Vassilvitskii 2007, sec. 5).
        after = np.minimum(distances(candidates), nearest)
        best = int(np.argmin(after @ w))
        chosen[k], nearest = candidates[best], after[best]
    return chosen


def moments_of_nearest(rows: RowBlock, centre: Array, scale: Array, per_class: int = 1) -> dict[str, Array]:
    """Weight, mean and covariance of the rows nearest to each centre (to those of their own label where they have one).

    A component with too few rows to have a covariance of full rank takes that of all rows about their centres.
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
