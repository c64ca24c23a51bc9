"""The order and the signs of filters, so that reruns and machines agree: descending power, largest entry positive.

The power of output i is the variance it puts into the raw rows, Var(u_i) |b_i|² with b_i column i of the basis; neither the
filter's scale nor the units of u matter to it.  The sign makes the entry of J_i @ whitening.forward largest in size
positive.  The filters of a topographic map stay where they are on its grid.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from herdcli.records import dataclass
from herdcli.schema import Array

BLOCK = 1 << 14  # rows whose outputs are held at one time
SMALLEST = 1e-150  # variance that an output is divided by


@dataclass(frozen=True)
class Moments:
    """Variance (M,) and excess kurtosis (M,) of outputs over all rows, and E log cosh of the standardised ones."""

    variance: Array
    kurtosis: Array
    log_cosh: Array


def moments(Z: Array, J: Array) -> Moments:
    """Of the outputs Z @ J.T of centred rows Z (n, D)."""
    second, fourth, contrast = np.zeros((3, len(J)))
    for u in _outputs(Z, J):
        squares = np.square(u, dtype=np.float64)
        second += squares.sum(axis=0)
        fourth += np.square(squares).sum(axis=0)
    variance = second / len(Z)
    scale = np.sqrt(np.maximum(variance, SMALLEST))
    for u in _outputs(Z, J):
        size = np.abs(u) / scale
        contrast += (size + np.log1p(np.exp(-2.0 * size)) - np.log(2.0)).sum(axis=0)
    return Moments(variance, fourth / len(Z) / scale**4 - 3.0, contrast / len(Z))


def _outputs(Z: Array, J: Array) -> Iterator[Array]:
    filters = J.T.astype(Z.dtype)
    for start in range(0, len(Z), BLOCK):
        yield Z[start : start + BLOCK] @ filters


def power(variance: Array, basis: Array) -> Array:
    """Variance (M,) that each output puts into the raw rows.      basis  (C, M)."""
    result: Array = variance * (basis**2).sum(axis=0)
    return result


def arrangement(unmixing: Array, power: Array, *, keep_order: bool = False) -> tuple[Array, Array]:
    """(order (M,), signs (M,)): take filters[order] * signs[:, None].      unmixing  (M, C), filters on raw rows."""
    order = np.arange(len(power)) if keep_order else np.argsort(-power, kind="stable")
    rows = unmixing[order]
    largest = rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)]
    return order, np.where(largest < 0, -1.0, 1.0)


def kurtosis_error(n: int) -> float:
    """The standard error √(24/n) of the excess kurtosis of n independent Gaussian rows."""
    return float(np.sqrt(24.0 / n))


def looks_gaussian(found: Moments, n: int, sigmas: float = 4.0) -> Array:
    """(M,) booleans: neither kurtosis nor E log cosh of an output is told from a Gaussian's at so many standard errors.

    E log cosh is 0.374567 and what of log cosh u
    varies apart from u², whose mean is the variance, has standard deviation 0.07955.
    """
    # Dividing by the rows' own deviation moves the mean of log cosh by −½ E[u tanh u] (mean of u² − 1), and E[u tanh u] = E sech² u =
    # 0.605706.  What is left is log cosh u − 0.374567 − 0.302853 (u² − 1), with the standard deviation 0.0795489.
    contrast_error = 0.0795489 / np.sqrt(n)
    result: Array = (np.abs(found.kurtosis) < sigmas * kurtosis_error(n)) & (np.abs(found.log_cosh - 0.3745672) < sigmas * contrast_error)
    return result
