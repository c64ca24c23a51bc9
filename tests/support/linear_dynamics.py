"""Linear dynamical systems at random, rows drawn from them, and their posterior by conditioning one large Gaussian."""

from __future__ import annotations

import numpy as np

from herdcli.em.driver import EM, EMFit, EMSettings, Parameters, run_em
from herdcli.em.sequence.lds import LDS, variance_floor_and_scale
from herdcli.em.sequence.lds_initialization import window_moments
from herdcli.em.sequence.sequences import SequenceBlocks, group_rows_into_sequences
from herdcli.schema import Array


def covariance(size: int, random: np.random.Generator) -> Array:
    G = random.standard_normal((size, size))
    return G @ G.T / size + 0.1 * np.eye(size)


def system(states: int, columns: int, controls: int = 0, seed: int = 0, radius: float = 0.95) -> Parameters:
    """Parameters with the spectral radius given."""
    random = np.random.default_rng([seed, states, columns, controls])
    A = random.standard_normal((states, states))
    return {
        "transition": A * radius / np.abs(np.linalg.eigvals(A)).max(),
        "control": random.standard_normal((states, controls)),
        "drift": random.standard_normal(states),
        "process": covariance(states, random),
        "loading": random.standard_normal((columns, states)),
        "mean": random.standard_normal(columns),
        "noise": covariance(columns, random),
        "start_mean": random.standard_normal(states),
        "start_covariance": covariance(states, random),
    }


def draw(p: Parameters, steps: int, random: np.random.Generator, U: Array | None = None) -> Array:
    """One sequence (steps, D)."""
    K, D = len(p["process"]), len(p["mean"])
    L, M = np.linalg.cholesky(p["process"]), np.linalg.cholesky(p["noise"])
    x = p["start_mean"] + np.linalg.cholesky(p["start_covariance"]) @ random.standard_normal(K)
    Y = np.empty((steps, D))
    for t in range(steps):
        Y[t] = p["loading"] @ x + p["mean"] + M @ random.standard_normal(D)
        x = p["transition"] @ x + p["drift"] + L @ random.standard_normal(K)
        x = x if U is None else x + p["control"] @ U[t]
    return Y


def dense(p: Parameters, Y: Array, U: Array | None = None) -> tuple[float, Array, Array]:
    """log p(Y), posterior mean (T, K) and covariance (T K, T K) of all states, by conditioning their joint Gaussian on the values there."""
    T, K = len(Y), len(p["process"])
    mean, S = np.zeros((T, K)), np.zeros((T * K, T * K))
    mean[0], S[:K, :K] = p["start_mean"], p["start_covariance"]
    A = p["transition"]
    for t in range(1, T):
        mean[t] = A @ mean[t - 1] + p["drift"] + (0.0 if U is None else p["control"] @ U[t - 1])
        now, before = slice(t * K, t * K + K), slice(t * K - K, t * K)
        S[now, : t * K] = A @ S[before, : t * K]
        S[: t * K, now] = S[now, : t * K].T
        S[now, now] = A @ S[before, before] @ A.T + p["process"]
    H = np.kron(np.eye(T), p["loading"])
    there = ~np.isnan(Y.ravel())
    e = (Y - mean @ p["loading"].T - p["mean"]).ravel()[there]
    joint = (H @ S @ H.T + np.kron(np.eye(T), p["noise"]))[np.ix_(there, there)]
    cross = S @ H[there].T
    evidence = -0.5 * (there.sum() * np.log(2 * np.pi) + np.linalg.slogdet(joint)[1] + e @ np.linalg.solve(joint, e))
    moved = cross @ np.linalg.solve(joint, np.column_stack([e[:, None], cross.T]))
    return float(evidence), mean + moved[:, 0].reshape(T, K), S - moved[:, 1:]


def fitted(
    Y: Array,
    key: Array | None,
    states: int,
    *,
    U: Array | None = None,
    diagonal: bool = False,
    floor: float | None = None,
    model: type[LDS] = LDS,
    weight: Array | None = None,
    **settings: float,
) -> EMFit:
    """EM of a table."""
    source = SequenceBlocks(group_rows_into_sequences(Y, key, weight))
    found = window_moments(source, states, U)
    least, scale = variance_floor_and_scale(found.variance, floor)
    made = model(states, diagonal, least, scale, found, U, 0, source.sequences.count > 1)
    return run_em(EM(made, source, EMSettings(**settings)))  # type: ignore[arg-type]
