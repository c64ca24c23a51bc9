"""Metrics of filters: separation of sources, localisation, and the fit of a density without its partition function."""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array


def source_to_interference_db(product: Array, variance: Array | None = None) -> Array:
    """Return decibels (S,): the power of each source in its output, relative to that of all other sources there.

    product (M, S)  unmixing @ mixing.  variance (S,) of the sources, None: 1.  Outputs are assigned to sources one to one, so that
    the sum of the ratios is maximal; inf if the output contains nothing else, −inf if no output is left.
    """
    from scipy.optimize import linear_sum_assignment

    power = product**2 * (1.0 if variance is None else variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        others = np.maximum(power.sum(axis=1, keepdims=True) - power, 0.0)
        ratio = 10.0 * np.log10(power / others)
    ratio[np.isnan(ratio)] = -np.inf  # an output that is 0 contains no source
    rows, columns = linear_sum_assignment(np.clip(ratio, -400.0, 400.0), maximize=True)
    result = np.full(product.shape[1], -np.inf)
    result[columns] = ratio[rows, columns]
    return result


def excess_kurtosis(outputs: Array) -> Array:
    """Return E(u − ū)⁴ / var² − 3 of each column of outputs (n, M): 0 for a Gaussian, positive for sparse outputs."""
    centred = outputs - outputs.mean(axis=0)
    square = centred**2
    result: Array = (square**2).mean(axis=0) / square.mean(axis=0) ** 2 - 3.0
    return result


def participation_ratio(filters: Array) -> Array:
    """Return the share of its entries that each filter uses, (Σ w²)² / (P Σ w⁴), for filters (M, P) to (M,).

    It is 1/P for a single entry and 1 for equal entries.
    """
    square = filters**2
    result: Array = square.sum(axis=1) ** 2 / (filters.shape[1] * (square**2).sum(axis=1))
    return result


def filter_localisation(filters: Array, shape: tuple[int, ...]) -> Array:
    """Return 1 − r/r₀ (M,): r is the root mean square distance of a filter's power from its centre, r₀ that of uniform power.

    filters (M, P) over a grid of this shape, (P,) for signals.  The value is 1 for a point, 0 for no localisation, negative for
    power only at the edges.
    """
    places = np.stack(np.meshgrid(*(np.arange(side) for side in shape), indexing="ij"), axis=-1).reshape(-1, len(shape))
    square = filters**2 / (filters**2).sum(axis=1, keepdims=True)
    # E|p − Ep|² = E|p|² − |Ep|², with the filter's power as the distribution over positions p.
    radius = np.sqrt(np.maximum(square @ (places**2).sum(axis=1) - ((square @ places) ** 2).sum(axis=1), 0.0))
    result: Array = 1.0 - radius / np.sqrt(places.var(axis=0).sum())
    return result


def score_matching_loss(gradient: Array, laplacian: Array) -> Array:
    """Return ½ |∇E|² − ∇²E (n,) of an energy with gradients (n, D) and Laplacians (n,) at n rows; a lower mean is better.

    The mean is half the expected squared distance between the model's scores −∇E and the scores of the data's density, plus a constant
    that depends only on the data.  It therefore compares densities even if they cannot be normalised.
    Source: Hyvärinen (2005), theorem 1.
    """
    found: Array = 0.5 * (gradient**2).sum(axis=1) - laplacian
    return found
