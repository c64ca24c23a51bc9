"""Stein kernels, made from another kernel k and the score s = ∇ log p so that their mean under p is 0 everywhere.

    k_p(x, y) = ∇x·∇y k + ∇x k · s(y) + ∇y k · s(x) + k s(x)·s(y),      E_p k_p(X, y) = 0 for every y

The distance of weighted points from p is then ‖Σ w Φ‖ = √(w'K w), the kernel Stein discrepancy.  It requires neither samples from p nor
its normaliser.  A row of these kernels is a point followed by its score: (n, 2d).

With δ = x − y, a metric Λ = R R', q = δ'Λδ, v = |Λδ|², c = (s(x) − s(y))·Λδ and τ = tr Λ, the two kernels k here give

    imq       k = (1 + q)^(−½)    k_p = −3 v (1 + q)^(−5/2) + (τ + c) (1 + q)^(−3/2) + s(x)·s(y) (1 + q)^(−½)
    gaussian  k = e^(−q/2)        k_p = (τ − v + c + s(x)·s(y)) e^(−q/2)

since ∇x k = −Λδ k', ∇y k = Λδ k' with k' = (1 + q)^(−3/2) and e^(−q/2), whose own gradients give τ and v.
Source: Oates, Girolami & Chopin (2017); Gorham & Mackey (2017); Riabiz et al. (2022), sec. 2 for the metrics.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from herdcli import fast
from herdcli.errors import BadUsage, DataError
from herdcli.quadrature.kernels.kernel_functions import Kernel, format_shortest_number, require_length_scale, squared_distances
from herdcli.records import dataclass
from herdcli.schema import Array

BASES = ("imq", "gaussian")
BLOCK = 512  # rows that are prepared at a time
LANES = 16  # the number of columns is padded to a multiple of this
SINGULAR = 1e-12  # eigenvalues of a covariance below this share of the largest one count as 0
Metric = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class SteinKernel:
    """The Stein kernel k_p on rows (n, 2d) of points and scores.

    The metric Λ is 1/ℓ² or, for smpcov, the inverse of the points' covariance.
    """

    base: Literal["imq", "gaussian"]
    bandwidth: float | None = None
    smpcov: bool = False
    metric: Metric | None = None

    def metric_factor(self, dimension: int) -> Array:
        """Return R (d, d), lower triangular."""
        if not self.smpcov:
            return np.eye(dimension) / require_length_scale(self.bandwidth)
        if self.metric is None:
            raise ValueError("the kernel's metric is not chosen yet")
        return np.linalg.cholesky(np.array(self.metric))

    def matrix(self, X: Array, Y: Array) -> Array:
        """Compute k_p (n, m) of rows X (n, 2d) and Y (m, 2d)."""
        d = X.shape[1] // 2
        R, centre = self.metric_factor(d), Y[:, :d].mean(axis=0)
        u, t, s, r = (X[:, :d] - centre) @ R, (Y[:, :d] - centre) @ R, X[:, d:], Y[:, d:]
        # c = (s(x) − s(y))·Λ(x − y) = s(x)·Λx + s(y)·Λy − s(x)·Λy − s(y)·Λx, from products of matrices; q and v from differences.
        v, w = u @ R.T, t @ R.T  # Λx and Λy
        cross = (s * v).sum(axis=1)[:, None] + (r * w).sum(axis=1) - s @ w.T - v @ r.T
        return self._stein_values(squared_distances(u, t), squared_distances(v, w), cross, s @ r.T, float(np.square(R).sum()))

    def _stein_values(self, q: Array, v: Array, c: Array, product: Array, trace: float) -> Array:
        """Compute k_p from the quantities above, each of the same shape."""
        if self.base == "gaussian":
            return np.asarray(np.exp(-0.5 * q) * (trace - v + c + product))
        # (1 + q)^(−5/2) and the other powers from one root: with h = (1 + q)^(−½), −3v h⁵ + (τ + c) h³ + (s·s') h
        h = 1.0 / np.sqrt(1.0 + q)
        square = h * h
        return np.asarray(h * (product + square * (trace + c - 3.0 * v * square)))

    def diagonal(self, X: Array) -> Array:
        """Compute k_p(x, x) = τ + |s(x)|² (n,) of rows X (n, 2d)."""
        d = X.shape[1] // 2
        return np.asarray(np.square(self.metric_factor(d)).sum() + np.einsum("ni,ni->n", X[:, d:], X[:, d:]))

    def check(self, X: Array) -> None:
        """Raise DataError unless rows X have an even number of columns."""
        if X.shape[1] % 2:
            raise DataError("a Stein kernel needs one column of scores (gradients of the log density) for each column of points")

    def text(self) -> str:
        """Return the text of the kernel, with the chosen length."""
        metric = "smpcov" if self.smpcov else None if self.bandwidth is None else format_shortest_number(self.bandwidth)
        return f"stein:{self.base}" + (f",{metric}" if metric else "")


def parse_stein(text: str) -> SteinKernel:
    """Parse `imq`, `gaussian,2.5`, `imq,smpcov` ….  Raises ValueError."""
    if "+" in text or "*" in text:
        raise ValueError("Stein kernels have no sums and products")
    base, _, metric = (part.strip() for part in text.partition(","))
    if base not in BASES:
        raise ValueError(f"stein is one of {', '.join(f'stein:{name}' for name in BASES)}")
    kernel = SteinKernel(base)  # type: ignore[arg-type]
    if not metric:
        return kernel
    if metric == "smpcov":
        return replace(kernel, smpcov=True)
    scale = float(metric)
    if not 0 < scale < np.inf:
        raise ValueError("a length scale is above 0")
    return replace(kernel, bandwidth=scale)


def with_covariance_metric(kernel: SteinKernel, X: Array) -> SteinKernel:
    """Return the kernel with the metric of points X (n, d).  Raises DataError if their covariance is singular."""
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(X, rowvar=False)))
    if values[0] <= SINGULAR * values[-1]:
        raise DataError(
            "the covariance matrix of the columns is singular", hint="leave out columns that depend on others, or use stein:imq"
        )
    inverse = (vectors / values) @ vectors.T
    return replace(kernel, metric=tuple(map(tuple, (0.5 * (inverse + inverse.T)).tolist())))


@dataclass(frozen=True)
class ScoreTarget:
    """A distribution known only by its score at given points; each row is a point and its score, `dimension` columns in total."""

    dimension: int
    name: str = "stein"

    def sample(self, random: np.random.Generator, count: int) -> Array:
        """Raise BadUsage: it has no samples (count, 2d)."""
        raise _cannot_sample_error()

    def quantile(self, u: Array) -> Array:
        """Raise BadUsage: it has no inverse CDF at u (n, 2d)."""
        raise _cannot_sample_error()

    def bounding_box(self) -> tuple[Array, Array]:
        """Raise BadUsage: it has no corners (2d,)."""
        raise _cannot_sample_error()

    def moments(self) -> tuple[Array, Array | None]:
        """Raise BadUsage: it has no mean (2d,)."""
        raise _cannot_sample_error()


def _cannot_sample_error() -> BadUsage:
    return BadUsage("cannot sample from this target: only its score function is known", hint="use --rule greedy or herding")


def drop_scores(kernel: Kernel, rows: Array) -> Array:
    """Return the points of a kernel's rows: for Stein kernels without their scores."""
    return rows[:, : rows.shape[1] // 2] if isinstance(kernel, SteinKernel) else rows


class SteinPoints:
    """The evaluator of k_p against fixed rows.

    Terms of one row alone are computed once, and each column of values takes one pass over the rows.
    """

    def __init__(self, kernel: SteinKernel, points: Array) -> None:
        n, d = len(points), points.shape[1] // 2
        self.kernel, self.root, self.count = kernel, kernel.metric_factor(d), n
        self.centre = points[:, :d].mean(axis=0)
        self.columns = np.zeros((2 * d + (3 if kernel.smpcov else 2), -(-n // LANES) * LANES))
        for start in range(0, n, BLOCK):
            rows, place = points[start : start + BLOCK], self.columns[:, start : min(n, start + BLOCK)]
            place[:d], place[d : 2 * d] = ((rows[:, :d] - self.centre) @ self.root).T, rows[:, d:].T
            u, s, v = place[:d], place[d : 2 * d], self.root @ place[:d]
            for own, (x, y) in zip(place[2 * d :], ((u, u), (s, v), (v, v)), strict=False):
                np.einsum("in,in->n", x, y, out=own)

    def values(self, row: Array) -> Array:
        """Compute k_p(row, x_i) (n,) for a row (2d,)."""
        d, R = len(self.root), self.root
        u, s = (row[:d] - self.centre) @ R, row[d:]
        v, trace = R @ u, float(np.square(R).sum())
        # Products of this row with all others as functions of (u_i, s_i), where v_i = R u_i:  u·u_i,  s·v_i + s_i·v = (R's)·u_i + v·s_i,
        # s·s_i,  and  v·v_i = (R'v)·u_i.  If the metric is that of a length, Λ = 1/ℓ², |v|² is |u|²/ℓ².
        metric = self.kernel.smpcov
        own = np.array([u @ u, s @ v, v @ v if metric else trace / d, trace])
        out = np.empty(self.columns.shape[1])
        fast.stein_values(self.kernel.base == "gaussian", metric, np.array([u, R.T @ s, s, v, R.T @ v]), own, self.columns, out)
        return out[: self.count]

    def weighted_kernel_sums(self, rows: Array, weights: Array) -> Array:
        """Compute Σ_u w_u k_p(row_u, x_i) (n,)."""
        found = np.zeros(self.count)
        for row, weight in zip(rows, weights, strict=True):
            found += weight * self.values(row)
        return found
