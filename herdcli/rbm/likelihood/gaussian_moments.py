"""The mean and covariance of rows in unit values, from which the Gaussian baseline of models with real columns is made."""

from __future__ import annotations

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.numerics.row_selection import iterate_row_slices
from herdcli.records import dataclass
from herdcli.schema import Array, Matrix, array

MOST_COLUMNS = 500  # most columns for which a covariance is stored


@dataclass(frozen=True)
class GaussianMoments:
    """The moments of the training rows of each of C models."""

    rows: Array = array("C", "how many they were", kind="i")
    mean: Array = array("C D", "their mean", kind="f", finite=True)
    covariance: Array = array("C D D", "their covariance", kind="f", finite=True)


def row_moments(rows: Matrix) -> tuple[Array, Array] | None:
    """Compute the mean (D,) and covariance (D, D), divisor n, of rows (n, D); None for more than MOST_COLUMNS columns."""
    n, D = rows.shape
    if D > MOST_COLUMNS or n < 2:
        return None
    mean, total = np.zeros(D), np.zeros((D, D))
    for part in iterate_row_slices(rows):
        mean += rows[part].astype(np.float64).sum(axis=0)
    mean /= n
    for part in iterate_row_slices(rows):
        Z = rows[part].astype(np.float64) - mean
        total += exact_arithmetic.matrix_product(np.ascontiguousarray(Z.T), Z)
    return mean, total / n


def stack_model_moments(parts: list[tuple[int, Array, Array] | None]) -> GaussianMoments | None:
    """Join the moments (rows, mean, covariance) of all models; None if one of them has none."""
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    return GaussianMoments(
        np.array([count for count, _, _ in known]), np.stack([mean for _, mean, _ in known]), np.stack([S for *_, S in known])
    )
