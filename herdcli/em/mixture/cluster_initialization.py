"""Initial clusters: random rows, greedy k-means++, and the moments of the rows nearest to each centre."""

from __future__ import annotations

import math

import numpy as np

from herdcli import fast
from herdcli.errors import BadUsage, DataError
from herdcli.numerics.block_statistics import SAMPLE_ROWS, RowBlock, RowMoments
from herdcli.records import dataclass
from herdcli.schema import Array

INITS = ("kmeans++", "random")
SIDE = 32  # rows side by side, as `fast.candidate_costs` reads them
SLAB = 128 * SIDE  # rows that are converted together


def fill_with_means(rows: RowBlock, moments: RowMoments) -> RowBlock:
    """Return rows with missing values replaced by column means, for initialisation only."""
    return RowBlock(rows.first, np.where(np.isnan(rows.X), moments.mean, rows.X), rows.labels, rows.weight) if moments.missing else rows


def initialisation_bytes(moments: RowMoments, count: int) -> int:
    """Return the bytes of an initialisation: rows as read, the sample, its scaled copies (float64, float32), a cluster, and distances."""
    rows, copies = min(moments.rows, SAMPLE_ROWS), 5 if moments.missing else 4
    return 8 * rows * (copies * len(moments.mean) + (len(moments.mean) + 1) // 2 + 2 * (3 + int(math.log(count))))


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
                hint=f"use --components {rows.labels.max() + 1}",
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
    w = np.ones(len(X)) if weight is None else weight
    costs = CandidateCosts.from_rows(X, w)
    chosen = np.empty(count, dtype=np.int64)
    chosen[0] = random.choice(len(X), p=w / w.sum())
    nearest = costs.nearest_squared_distances(chosen[0], np.full(len(X), np.inf))
    for k in range(1, count):
        mass = np.cumsum(w * nearest)
        if mass[-1] <= 0.0:  # fewer distinct rows than centres: the rest are repeats
            chosen[k:] = random.choice(len(X), count - k, p=w / w.sum())
            break
        draws = random.random(2 + int(math.log(count))) * mass[-1]
        candidates = np.minimum(np.searchsorted(mass, draws), len(X) - 1)
        chosen[k], nearest = costs.best_candidate(candidates, nearest)
    return chosen


@dataclass(frozen=True)
class CandidateCosts:
    """Squared distances of rows from candidates: compared in float32, and computed in float64 where rounding could decide.

    X  (m, D) rows.  w  (m,) weights.  squares  (m,) |x|².
    blocks  (B, D, SIDE) float32: (x − mean)/scale, SIDE rows side by side; those after the last row are 0, of weight 0 in `weights`.
    norms  (B, SIDE) |·|² of these.
    """

    X: Array
    w: Array
    squares: Array
    blocks: Array
    norms: Array
    weights: Array
    scale: float

    @classmethod
    def from_rows(cls, X: Array, w: Array) -> CandidateCosts:
        """Prepare the rows."""
        n, D = X.shape
        mean, count = X.mean(axis=0), -(-n // SIDE)
        scale = max(float(np.abs(X[start : start + SLAB] - mean).max()) for start in range(0, n, SLAB)) or 1.0
        blocks, weights = np.zeros((count, D, SIDE), dtype=np.float32), np.zeros((count, SIDE))
        for start in range(0, n, SLAB):
            part = np.zeros((min(SLAB, count * SIDE - start), D), dtype=np.float32)
            part[: n - start] = (X[start : start + SLAB] - mean) / scale
            blocks[start // SIDE : (start + SLAB) // SIDE] = part.reshape(-1, SIDE, D).transpose(0, 2, 1)
        weights.reshape(-1)[:n] = w
        return cls(X, w, np.einsum("nd,nd->n", X, X), blocks, np.einsum("bds,bds->bs", blocks, blocks), weights, scale)

    def nearest_squared_distances(self, candidate: int, nearest: Array, rows: Array | slice = slice(None)) -> Array:
        """Return min(|x − candidate|², nearest) of some rows in float64."""
        found: Array = self.X[rows] @ self.X[candidate]
        found *= -2.0
        found += self.squares[rows]
        found += self.squares[candidate]
        np.maximum(found, 0.0, out=found)
        return np.minimum(found, nearest[rows], out=found)

    def best_candidate(self, candidates: Array, nearest: Array) -> tuple[int, Array]:
        """Return the candidate that minimises Σ w min(|x − candidate|², nearest), and these minima (m,).

        Σ w min(|x − new|², nearest²) is the cost with this centre (Arthur & Vassilvitskii 2007, sec. 5).
        """
        left = np.ascontiguousarray(self.blocks[candidates // SIDE, :, candidates % SIDE])
        own, limits = self.norms[candidates // SIDE, candidates % SIDE], np.zeros_like(self.norms)
        limits.reshape(-1)[: len(nearest)] = nearest / self.scale**2
        found, closer = np.zeros(len(left)), np.empty((len(left), *self.norms.shape), dtype=np.uint8)
        # Rounding moves a distance by less than the margin times |x|² + |c|².
        margin = 2.0 * (self.X.shape[1] + 4) * float(np.finfo(np.float32).eps)
        fast.candidate_costs(self.blocks, left, own, self.norms, limits, self.weights, margin, closer, found)
        error = margin * float(np.vdot(self.weights, self.norms) + self.w.sum() * own.max())
        near = np.flatnonzero(found <= found.min() + 2.0 * error)
        minima = [self._minima(int(candidates[i]), nearest, closer[i].reshape(-1)[: len(nearest)]) for i in near]
        least = int(np.argmin([after @ self.w for after in minima]))
        return int(candidates[near[least]]), minima[least]

    def _minima(self, candidate: int, nearest: Array, closer: Array) -> Array:
        """Return the minima with one candidate, whose distances are computed for the rows that may be closer to it, (m,) 0 or 1."""
        after, rows = nearest.copy(), np.flatnonzero(closer)
        after[rows] = self.nearest_squared_distances(candidate, nearest, rows)
        return after


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
