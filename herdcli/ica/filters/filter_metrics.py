"""How good filters are: sources told apart, how local they are, and how well the density fits without its partition function."""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array


def source_to_interference(product: Array, variance: Array | None = None) -> Array:
    """Decibels (S,): for each source its power in the output that shows it best over that of all the others there.

    product (M, S)  unmixing @ mixing.  variance (S,) of the sources, None: 1.  Outputs are given out one to a source, so that
    the sum of the ratios is largest; inf where nothing else is in the output, −inf where no output is left.
    """
    from scipy.optimize import linear_sum_assignment

    power = product**2 * (1.0 if variance is None else variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        others = np.maximum(power.sum(axis=1, keepdims=True) - power, 0.0)
        ratio = 10.0 * np.log10(power / others)
    ratio[np.isnan(ratio)] = -np.inf  # an output that is 0 shows nothing
    rows, columns = linear_sum_assignment(np.clip(ratio, -400.0, 400.0), maximize=True)
    result = np.full(product.shape[1], -np.inf)
    result[columns] = ratio[rows, columns]
    return result


def excess_kurtosis(outputs: Array) -> Array:
    """E(u − ū)⁴ / var² − 3 of each column of outputs (n, M): 0 for a Gaussian, above it for sparse outputs."""
    centred = outputs - outputs.mean(axis=0)
    square = centred**2
    result: Array = (square**2).mean(axis=0) / square.mean(axis=0) ** 2 - 3.0
    return result


def participation_ratio(filters: Array) -> Array:
    """Share of its entries that a filter uses, (Σ w²)² / (P Σ w⁴): from 1/P for one entry to 1 for all alike.  (M, P) to (M,)."""
    square = filters**2
    result: Array = square.sum(axis=1) ** 2 / (filters.shape[1] * (square**2).sum(axis=1))
    return result


def filter_localisation(filters: Array, shape: tuple[int, ...]) -> Array:
    """1 − r/r₀ (M,): r is the root mean square distance of a filter's power from its centre, r₀ that of even power.

    filters (M, P) over a grid of this shape, (P,) for signals: 1 for a point, 0 for no localisation, below 0 for edges alone.
    """
    places = np.stack(np.meshgrid(*(np.arange(side) for side in shape), indexing="ij"), axis=-1).reshape(-1, len(shape))
    square = filters**2 / (filters**2).sum(axis=1, keepdims=True)
    # E|p − Ep|² = E|p|² − |Ep|², with the filter's power as the distribution over places p.
    radius = np.sqrt(np.maximum(square @ (places**2).sum(axis=1) - ((square @ places) ** 2).sum(axis=1), 0.0))
    result: Array = 1.0 - radius / np.sqrt(places.var(axis=0).sum())
    return result


def score_matching_loss(gradient: Array, laplacian: Array) -> Array:
    """½ |∇E|² − ∇²E (n,) of an energy with these gradients (n, D) and Laplacians (n,) at n rows; the lower its mean, the better.

    Up to a constant of the rows half the expected squared distance of the scores −∇E from those of their density, so that
    densities that cannot be normalised are compared.  Source: Hyvärinen (2005), theorem 1.
    """
    found: Array = 0.5 * (gradient**2).sum(axis=1) - laplacian
    return found
