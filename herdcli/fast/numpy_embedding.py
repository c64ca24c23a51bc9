"""Sums of Gaussian kernels over tiles of rows, in NumPy.

The twin of `_embedding.pyx`.  Points are columns, scaled so that the kernel is 2^(−|a − b|²/2).  The compiled loops
take 2^u by range reduction and a polynomial (relative error 8.2e-16 in float64, 1.7e-7 in float32) and sum in 8 or 16
lanes; here `np.exp` and BLAS do it, faster than the same polynomial in NumPy would.  So this twin agrees with the
compiled loops to rounding (1e-14 relative, 1e-5 in float32) and not to the bit.
"""

from __future__ import annotations

import math

import numpy as np

from herdcli.schema import Array

__all__ = ["exp2_each", "gaussian_finish", "gaussian_tile", "gaussian_values"]

COLUMNS = 1024  # of a tile at once, so that its products stay in the cache
LN2 = math.log(2.0)


def exp2_each(x: Array) -> None:
    """x ← 2^x in place, x (n,) float64 or float32, n a multiple of 16.  Below 2^−1021 (2^−125) it is 0."""
    lowest = -1021.0 if x.dtype == np.float64 else -125.0
    clipped = x > lowest
    np.exp2(x, out=x)
    x *= clipped


def gaussian_tile(a: Array, wa: Array, b: Array, wb: Array, differences: bool, rows: Array, columns: Array | None) -> None:
    """Sums of k_ij over columns, rows_i = Σ_j k_ij wb_j, and unless `columns` is None columns_j += Σ_i wa_i k_ij.

    a (d, na), b (d, nb)   points as columns, nb a multiple of 16, float64 or float32.
    wa (na), wb (nb)       weights.      rows (na) float64, overwritten.      columns (nb) of the points' type, added to.
    differences            k_ij = 2^(−|a_i − b_j|²/2); else 2^(a_i·b_j), which is cheaper: weights 2^(−|a|²/2) complete it
                           where no |a|² exceeds the exponent's range.
    """
    rows[:] = 0.0
    for start in range(0, b.shape[1], COLUMNS):
        part = slice(start, start + COLUMNS)
        exponents = _negative_halved_squares(a, b[:, part]) if differences else (a * a.dtype.type(LN2)).T @ b[:, part]
        np.exp(exponents, out=exponents)
        rows += exponents @ wb[part]
        if columns is not None:
            columns[part] += wa @ exponents


def gaussian_finish(products: Array, wa: Array, wb: Array, rows: Array, columns: Array) -> None:
    """`gaussian_tile` where the products a_i·b_j (na, nb), C-contiguous, are there already; both sums."""
    values = np.exp(products * products.dtype.type(LN2))
    rows[:] = values @ wb
    columns += wa @ values


def gaussian_values(a: Array, b: Array, out: Array) -> None:
    """out_j = 2^(−|a − b_j|²/2).  a (d,), b (d, n) points as columns, out (n,), n a multiple of 16."""
    out[:] = _negative_halved_squares(a[:, None], b)[0]
    np.exp(out, out=out)


def _negative_halved_squares(a: Array, b: Array) -> Array:
    """−|a_i − b_j|²/2 · log 2, from the differences themselves."""
    total = np.zeros((a.shape[1], b.shape[1]), dtype=b.dtype)
    for x, y in zip(a, b, strict=True):
        difference = y - x[:, None]
        difference *= difference
        total += difference
    total *= b.dtype.type(-0.5 * LN2)
    return total
