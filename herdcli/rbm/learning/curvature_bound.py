"""A bound on the curvature of the log-likelihood of a harmonium, from the second moments of its rows.

The bound is the largest eigenvalue of the rows' covariance; for counts of words it is the mean squared number of words.

If the visible units are independent, the Fisher matrix of the weights of one hidden unit is Cov(v) times the variance of the unit.
The largest eigenvalue λ of Cov(v) therefore limits the step size along a direction of the weights.  For most rows it is as large as a few
units; for patches of pictures, whose pixels are bright or dark together, it is most of the trace.
Source: Montavon & Müller (2012), sec. 2, the condition number of the centred Hessian.
"""

from __future__ import annotations

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.schema import Array, Matrix

MOST_ROWS, MOST_ENTRIES = 1000, 1 << 22  # most rows and entries that it is computed from, evenly spread
ITERATIONS = 20
COMMON = 3.0  # weight of the squared length of the mean row, for counts of words, relative to the number of words


def largest_covariance_eigenvalue(rows: Matrix) -> float:
    """Compute the largest eigenvalue of the covariance of rows (n, D), in their units squared, by the power method.

    It uses at most MOST_ROWS of the rows.

    rows  any object with a length and a shape that returns rows as an array of numbers.  0 if all are equal or there are none.
    """
    if not len(rows):
        return 0.0
    most = max(1, min(MOST_ROWS, MOST_ENTRIES // max(1, rows.shape[1])))
    chosen = np.arange(0, len(rows), max(1, -(-len(rows) // most)))
    seen: Array = np.asarray(rows[chosen], dtype=np.float32)
    seen = seen - seen.mean(axis=0)
    lengths = np.square(seen).sum(axis=1)
    direction, found = seen[int(lengths.argmax())], 0.0
    for _ in range(ITERATIONS):
        size = float(np.sqrt(exact_arithmetic.dot(direction, direction)))
        if not size > 0.0:
            return 0.0
        direction = direction / np.float32(size)
        direction = exact_arithmetic.matrix_product(exact_arithmetic.matrix_product(seen, direction), seen) / np.float32(len(seen))
        found = float(np.sqrt(exact_arithmetic.dot(direction, direction)))
    return found


def mean_squared_row_sum(rows: Matrix) -> float:
    """Compute the mean of (Σ_j v_j)² over rows (n, D) of counts, an array or a CSR matrix; 0 if there are no rows."""
    lengths = np.asarray(rows.sum(axis=1), dtype=np.float64).ravel()
    return float(np.square(lengths).mean()) if lengths.size else 0.0


def estimate_hidden_input_shift(rows: Matrix) -> float:
    """Estimate how far an update at rate 1 shifts the input of a hidden unit, for rows (n, D) of counts, an array or a CSR matrix.

    The estimate is the larger of two terms: the root mean square of the rows' own numbers of words, and COMMON |v̄|² of the mean row v̄.
    Noise along v̄ shifts the inputs of all rows together, and units that are on, or off, for all rows stop learning.  0 if there are none.
    """
    if not rows.shape[0]:
        return 0.0
    mean = np.asarray(rows.sum(axis=0), dtype=np.float64).ravel() / rows.shape[0]
    return max(float(np.sqrt(mean_squared_row_sum(rows))), COMMON * float(exact_arithmetic.dot(mean, mean)))
