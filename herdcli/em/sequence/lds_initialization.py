"""Initial parameters of a linear dynamical system: states are directions of short windows of rows, with regressions on them.

A window is a row with its neighbours, so that a few outputs can carry more states than there are columns.  Only moments of windows are
needed, so an initialisation costs one pass over the rows.  Missing values count as the column's mean.  The idea is that of subspace
identification, with windows in place of past and future.  Source: van Overschee & De Moor (1996), ch. 3, for the idea.
"""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map
from herdcli.em.driver import Parameters
from herdcli.em.sequence.sequences import SequenceBlock, SequenceBlocks
from herdcli.errors import DataError
from herdcli.numerics.block_statistics import Sums, sum_statistics
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

WIDTH = 3  # numbers in a window per state
NOISE = 0.1  # least initial share of a column's variance that is noise
STABLE = 0.999  # largest initial modulus of A's eigenvalues
TINY = 1e-12


@dataclass(frozen=True)
class WindowMoments:
    """Moments of all sequences: centre (D,), variance (D,), and those of windows v, with z = (v, u, 1).

    here (F, F) Σ zz' over all rows, before (F, F) the same over rows with a next row, step (W, F) Σ v_next z'.
    """

    rows: int
    mass: float
    missing: int
    centre: Array
    variance: Array
    covariance: Array
    half: int  # rows on either side in a window
    here: Array
    before: Array
    step: Array
    longest: int  # number of rows of the largest block
    lengths: Array  # lengths of the sequences

    @property
    def scale(self) -> Array:
        """The standard deviations (D,), 1 for a constant column."""
        return np.sqrt(np.where(self.variance > 0, self.variance, 1.0))


def window_moments(source: SequenceBlocks, states: int, controls: Array | None, map: Map = map) -> WindowMoments:
    """Return the moments for initialising up to `states` states.  Raises DataError for a column without any value."""
    D = source.sequences.columns
    centre, variance, covariance, known = _column_moments(source, map)
    scale = np.sqrt(np.where(variance > 0, variance, 1.0))
    half = max(0, -(-(-(-WIDTH * states // D) - 1) // 2))

    def statistics(block: SequenceBlock) -> Sums:
        Z = np.where(np.isnan(block.X), 0.0, (block.X - centre) / scale)
        V = _stack_neighbouring_rows(Z, block.offsets, half)
        U = np.zeros((len(Z), 0)) if controls is None else controls[block.chosen]
        F = np.concatenate([V, U, np.ones((len(Z), 1))], axis=1)
        w = np.repeat(block.weights, block.lengths)[:, None]
        now = np.ones(len(Z), dtype=bool)
        now[block.offsets[1:] - 1] = False
        at = np.flatnonzero(now)
        return {"here": (F * w).T @ F, "before": (F[at] * w[at]).T @ F[at], "step": V[at + 1].T @ (F[at] * w[at])}

    sums = sum_statistics(source, statistics, map)
    lengths = source.sequences.lengths
    longest = int(max(block.sum() for block in np.split(lengths, source.bounds[1:-1])))
    missing = source.sequences.rows * D - known
    mass = source.sequences.mass
    return WindowMoments(source.sequences.rows, mass, missing, centre, variance, covariance, half, longest=longest, lengths=lengths, **sums)


def _column_moments(source: SequenceBlocks, map: Map) -> tuple[Array, Array, Array, int]:
    """Return means, variances and covariances (0 where values are missing) of columns, and the number of values."""
    head = next(iter(source.take(0, 1))).X
    there = ~np.isnan(head)
    near = np.where(there, head, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)

    def statistics(block: SequenceBlock) -> Sums:
        known = ~np.isnan(block.X)
        w = np.repeat(block.weights, block.lengths)
        Z = np.where(known, block.X - near, 0.0)
        count = np.array([np.count_nonzero(known)])
        return {"known": w @ known, "first": w @ Z, "second": (w[:, None] * Z).T @ Z, "count": count}

    sums = sum_statistics(source, statistics, map)
    if not sums["known"].all():
        raise DataError(f"column {int(np.argmin(sums['known'] != 0))} has only missing values")
    shift = sums["first"] / sums["known"]
    covariance = sums["second"] / sums["known"] - np.outer(shift, shift)
    variance = np.diag(covariance).copy()
    variance[variance <= 4 * (np.finfo(np.float64).eps * (np.abs(near) + np.abs(shift))) ** 2] = 0.0
    if int(sums["count"][0]) < source.sequences.rows * source.sequences.columns:
        covariance = np.diag(variance)
    return near + shift, variance, 0.5 * (covariance + covariance.T), int(sums["count"][0])


def _stack_neighbouring_rows(Z: Array, offsets: Array, half: int) -> Array:
    """Return each row with its neighbours (n, (2 half + 1) D), the row itself first; 0 beyond the ends of a sequence."""
    n, lengths = len(Z), np.diff(offsets)
    begin, end = np.repeat(offsets[:-1], lengths), np.repeat(offsets[1:], lengths)
    parts = [Z]
    for shift in [step for distance in range(1, half + 1) for step in (-distance, distance)]:
        place = np.arange(n) + shift
        inside = (place >= begin) & (place < end)
        parts.append(np.where(inside[:, None], Z[np.clip(place, 0, n - 1)], 0.0))
    return np.concatenate(parts, axis=1)


def initial_parameters(moments: WindowMoments, states: int, seed: int, restart: int, *, diagonal: bool) -> Parameters:
    """Return the parameters of a restart: principal axes of windows (first restart) or random directions as states of variance 1."""
    W = len(moments.step)
    D, K = len(moments.centre), states
    second = moments.here[:W, :W] / moments.here[-1, -1]
    values, vectors = np.linalg.eigh(second)
    values, vectors = values[::-1], vectors[:, ::-1]
    rank = max(1, int((values > TINY * max(values[0], TINY)).sum()))
    axes = vectors[:, :rank] / np.sqrt(np.maximum(values[:rank], TINY))
    if restart:
        random = generator(seed, Stream.EM_START, unit=restart)
        turn = np.linalg.qr(random.standard_normal((rank, min(rank, K))) * np.sqrt(values[:rank, None]))[0]
        axes = axes @ turn
    T = np.zeros((W, K))
    T[:, : min(rank, K)] = axes[:, :K]
    return _regress_parameters(moments, T, D, diagonal)


def _regress_parameters(moments: WindowMoments, T: Array, D: int, diagonal: bool) -> Parameters:
    """Return all parameters by least squares, for the states T'v."""
    W, K = T.shape
    F = len(moments.here)
    lift = np.zeros((F, F - W + K))  # z = (x, u, 1) of (v, u, 1)
    lift[:W, :K], lift[W:, K:] = T, np.eye(F - W)
    xx = lift.T @ moments.here @ lift
    n = xx[-1, -1]
    both = np.r_[0:K, F - W + K - 1]
    G = _ridge_coefficients(xx[np.ix_(both, both)], (moments.here[:D] @ lift)[:, both])
    yy = moments.here[:D, :D] / n
    rest = yy - G @ (moments.here[:D] @ lift)[:, both].T / n
    noise = np.maximum(np.diag(rest), NOISE * np.diag(yy))
    R = np.diag(noise) if diagonal else _correlate_noise(rest, noise)
    A, B, a, Q = np.zeros((K, K)), np.zeros((K, F - W - 1)), np.zeros(K), np.eye(K)
    if moments.before[-1, -1] > 0:
        zz, nz = lift.T @ moments.before @ lift, T.T @ moments.step @ lift
        dynamics = _ridge_coefficients(zz, nz)
        A, B, a = dynamics[:, :K], dynamics[:, K:-1], dynamics[:, -1]
        radius = float(np.abs(np.linalg.eigvals(A)).max())
        A = A * min(1.0, STABLE / radius) if radius > 0 else A
        # Stationary states of variance I satisfy I = AA' + Q.
        Q = np.eye(K) - A @ A.T  # states have variance 1
        values, vectors = np.linalg.eigh(0.5 * (Q + Q.T))
        Q = (vectors * np.maximum(values, 1e-2)) @ vectors.T
    scale = moments.scale
    return {
        "transition": A,
        "control": B,
        "drift": a,
        "process": 0.5 * (Q + Q.T),
        "loading": scale[:, None] * G[:, :K],
        "mean": moments.centre + scale * G[:, K],
        "noise": 0.5 * (R + R.T) * np.outer(scale, scale),
        "start_mean": np.zeros(K),
        "start_covariance": np.eye(K),
    }


def _correlate_noise(rest: Array, noise: Array) -> Array:
    """Return a covariance with variances `noise` and nine tenths of the correlations of `rest`.

    Columns with almost no residual variance have no correlations.
    """
    left = np.diag(rest)
    some = left > 1e-3 * noise
    deviation = np.sqrt(np.where(some, left, 1.0))
    correlation = np.where(some[:, None] & some, 0.9 * rest / np.outer(deviation, deviation), 0.0)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation * np.sqrt(np.outer(noise, noise)))


def _ridge_coefficients(xx: Array, yx: Array) -> Array:
    """Return ⟨yx'⟩(⟨xx'⟩ + a small multiple of its diagonal)⁻¹."""
    scale = np.sqrt(np.diag(xx))
    scale[scale == 0] = 1.0
    normal = xx / np.outer(scale, scale) + 1e-8 * np.eye(len(xx))
    return np.asarray(np.linalg.solve(normal, (yx / scale).T).T / scale)
