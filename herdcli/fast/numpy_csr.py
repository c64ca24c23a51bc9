"""Products with CSR rows for several vectors at a time: the twin of `_csr.pyx`.

Rows are `starts` (m + 1,) int32, `columns` (e,) int32 and `values` (e,).  There is one vector, or a multiple of 4 of them, padded with
zeros; their entries lie side by side.  SciPy's loops add in the same order, so that the results have the same bits where the processor
rounds each product, and differ by rounding where SciPy was compiled with fused multiplications.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from herdcli.schema import Array, CSRMatrix


def _matrix(starts: Array, columns: Array, values: Array, width: int) -> CSRMatrix:
    from scipy.sparse import csr_array

    return csr_array((values, columns, starts), shape=(len(starts) - 1, width))


def csr_products(starts: Array, columns: Array, values: Array, v: Array, out: Array) -> None:
    """Write Z v (m, K) for v (p, K) to `out`."""
    out[...] = _matrix(starts, columns, values, len(v)) @ v


def add_transposed_products(starts: Array, columns: Array, values: Array, u: Array, out: Array) -> None:
    """Add Z' u (p, K) for u (m, K) to `out`, which must be 0 for the bits of the compiled loop."""
    out += _matrix(starts, columns, values, len(out)).T @ u


def add_curvature_products(
    starts: Array, columns: Array, values: Array, curve: Array, weight: Array, v: Array, scratch: Array, out: Array
) -> None:
    """Add Σ_n w_n z_n ⊗ C_n v'z_n (p, K) to `out`, which must be 0 for the bits of the compiled loop.

    C_n  the number curve[n] (m, 1), or for K > 1 vectors diag π − ππ' of the row π (m, K) of `curve`; padding is 0.
    weight (m,).  v (p, K).  scratch (m, K)  is overwritten.
    """
    along = curve * (_matrix(starts, columns, values, len(v)) @ v)
    if v.shape[1] > 1:
        total = np.zeros(len(along))
        for k in range(along.shape[1]):
            total += along[:, k]
        along -= curve * total[:, None]
    add_transposed_products(starts, columns, values, along * weight[:, None], out)
