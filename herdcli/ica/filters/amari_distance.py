"""The Amari distance: how far the product of an unmixing and a mixing matrix is from a scaled permutation."""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array


def amari_distance(product: Array, *, squared: bool = False) -> float:
    """Return Σ_ij |p_ij| / max_k |p_ik| + |p_ij| / max_k |p_kj| − 2N of P (N, N), from 0 to 2N(N − 1).

    product  unmixing @ mixing: the distance is exactly 0 if each output is one source, in any order and scale.
    squared  |p_ij|² instead of |p_ij|, and the sum over 2N: another common definition, which gives small errors less weight.
    Scales of single outputs do not matter at 0 and weight the second sum otherwise, as in the definition.
    Returns inf if a row or a column is all 0, or the matrix is not finite.
    Source: Amari, Cichocki & Yang (1996); Teh (2003), sec. 4.6, with 2N instead of its 2N².
    """
    size = np.abs(product)
    if squared:
        size = size**2
    across, down = size.max(axis=1, keepdims=True), size.max(axis=0, keepdims=True)
    if not (np.isfinite(size).all() and across.all() and down.all()):
        return float("inf")
    N = len(size)
    total = float((size / across).sum() + (size / down).sum()) - 2 * N
    return total / (2 * N) if squared else total
