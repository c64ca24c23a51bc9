"""The cost of thinning: statistics of single parameters from all rows and from the chosen ones, and the error of random subsets."""

from __future__ import annotations

import numpy as np

from herdcli.rng import Stream, generator
from herdcli.schema import Array

QUANTILES = (0.05, 0.5, 0.95)
NAMES = ("mean", "sd", *(f"q{100 * q:02.0f}" for q in QUANTILES))
DRAWS, VALUES = 200, 20_000_000  # random subsets from which errors are estimated, and the total number of their values
FEWEST = 20  # least number of subsets

Statistic = tuple[str, float, float, float]


def compare_statistics(X: Array, weights: Array, atoms: Array, atom_weights: Array, seed: int, *, unit: int = 0) -> list[list[Statistic]]:
    """Return for each of d parameters (name, from all rows, from the atoms, random error) of mean, deviation and quantiles.

    X (n, d) rows with weights (n,), atoms (m, d) with weights (m,) of any sign.   The random error is the root mean square difference
    between m rows, drawn with their weights, and all rows, estimated from up to 200 such draws (`seed`, `unit`).
    """
    m, d = atoms.shape
    whole, chosen = _moments_and_quantiles(X, weights), _moments_and_quantiles(atoms, atom_weights)
    draws = max(FEWEST, min(DRAWS, VALUES // max(1, m * d)))
    random, p = generator(seed, Stream.ROWS, unit=unit), weights / weights.sum()
    even = np.full(m, 1.0 / m)
    squares = np.zeros_like(whole)
    for _ in range(draws):
        squares += (_moments_and_quantiles(X[random.choice(len(X), m, p=p)], even) - whole) ** 2
    error = np.sqrt(squares / draws)
    return [[(name, float(whole[k, j]), float(chosen[k, j]), float(error[k, j])) for k, name in enumerate(NAMES)] for j in range(d)]


def _moments_and_quantiles(X: Array, weights: Array) -> Array:
    """Return (5, d) mean, standard deviation and quantiles of weighted rows."""
    w = weights / weights.sum()
    mean = w @ X
    spread = np.sqrt(np.maximum(w @ (X - mean) ** 2, 0.0))
    return np.stack([mean, spread, *_quantiles(X, np.maximum(w, 0.0))])


def _quantiles(X: Array, weights: Array) -> list[Array]:
    """Return the weighted quantiles of each column.

    A quantile is the value at which the cumulative weights, in sorted order, reach a share of their sum.  If they reach it exactly, the
    quantile is the midpoint between this value and the next.
    """
    order = np.argsort(X, axis=0, kind="stable")
    ranked, share = np.take_along_axis(X, order, axis=0), np.cumsum(weights[order], axis=0)
    share /= share[-1]
    columns, found = np.arange(X.shape[1]), []
    for q in QUANTILES:
        low = np.minimum((share < q - 1e-12).sum(axis=0), len(X) - 1)
        high = np.minimum((share <= q + 1e-12).sum(axis=0), len(X) - 1)
        found.append(0.5 * (ranked[low, columns] + ranked[high, columns]))
    return found
