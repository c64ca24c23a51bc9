"""The three mixtures on which densities that suit one sort of sources fail: sub-Gaussian sources alone, or beside super-Gaussian ones."""

from __future__ import annotations

import numpy as np

from herdcli.ica import whitening
from herdcli.schema import Array

NAMES = ("4 uniform + 4 Laplace", "8 uniform", "7 heavy-tailed, sine, square, saw")


def sources(name: str, seed: int = 0, n: int = 10_000) -> Array:
    """(n, S) sources of mean 0 and variance 1."""
    random, t = np.random.default_rng(seed), np.arange(n) / n
    if name == NAMES[0]:
        S = np.column_stack([random.uniform(-1, 1, (n, 4)), random.laplace(size=(n, 4))])
    elif name == NAMES[1]:
        S = random.uniform(-1, 1, (n, 8))
    else:
        waves = [np.sin(74 * np.pi * t), np.sign(np.sin(46.6 * np.pi * t + 0.1)), 2 * ((61.7 * t) % 1) - 1]
        S = np.column_stack([random.standard_t(3, (n, 4)), random.laplace(size=(n, 3)), *waves])
    return (S - S.mean(axis=0)) / S.std(axis=0)


def whitened(name: str, seed: int = 0, n: int = 10_000) -> tuple[Array, Array]:
    """Z (n, S) of a random mixing, and forward @ mixing."""
    S = sources(name, seed, n)
    A = np.random.default_rng(100 + seed).standard_normal((S.shape[1], S.shape[1]))
    fitted = whitening.fit_whitening(S @ A.T, method="zca")
    return fitted.apply(S @ A.T), fitted.forward @ A
