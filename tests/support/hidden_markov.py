"""Small hidden Markov models, and everything about them by enumeration of their paths."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import logsumexp


def parts(K: int, seed: int = 0, zeros: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """First states and transitions; with `zeros` some transitions are impossible."""
    random = np.random.default_rng(seed)
    initial, transition = random.dirichlet(np.ones(K)), random.dirichlet(np.ones(K), K)
    if zeros:
        transition = np.where(np.arange(K) - np.arange(K)[:, None] >= 0, transition, 0.0)
        transition /= transition.sum(axis=1, keepdims=True)
    return initial, transition


@dataclass(frozen=True)
class Answers:
    """Of one sequence: log-likelihood, p(state), p(pair) summed over time, filtered, every path with its log joint probability."""

    log_likelihood: float
    smoothed: np.ndarray
    pairs: np.ndarray
    filtered: np.ndarray
    paths: np.ndarray
    joint: np.ndarray


def log_joints(initial: np.ndarray, transition: np.ndarray, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(P, T) all paths, and the log of their joint probability with the rows."""
    T, K = logs.shape
    paths = np.array(list(product(range(K), repeat=T)))
    with np.errstate(divide="ignore"):
        found = np.log(initial)[paths[:, 0]] + logs[np.arange(T), paths].sum(axis=1)
        return paths, found + np.log(transition)[paths[:, :-1], paths[:, 1:]].sum(axis=1)


def enumerated(initial: np.ndarray, transition: np.ndarray, logs: np.ndarray) -> Answers:
    """Everything by summing over all K^T paths."""
    T, K = logs.shape
    paths, joint = log_joints(initial, transition, logs)
    total = logsumexp(joint)
    p = np.exp(joint - total)
    smoothed = np.array([[p[paths[:, t] == k].sum() for k in range(K)] for t in range(T)])
    pairs = np.array(
        [[sum(p[(paths[:, t - 1] == i) & (paths[:, t] == j)].sum() for t in range(1, T)) for j in range(K)] for i in range(K)], dtype=float
    )
    filtered = []
    for t in range(T):
        own, each = log_joints(initial, transition, logs[: t + 1])
        q = np.exp(each - logsumexp(each))
        filtered.append([q[own[:, t] == k].sum() for k in range(K)])
    return Answers(float(total), smoothed, pairs, np.array(filtered), paths, joint)
