"""How far a product of an unmixing and a mixing matrix is from a scaled permutation: the Amari distance."""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array


def amari_distance(product: Array, *, squared: bool = False) -> float:
    """Σ_ij |p_ij| / max_k |p_ik| + |p_ij| / max_k |p_kj| − 2N of P (N, N), from 0 to 2N(N − 1).

    product  unmixing @ mixing: 0 exactly where each output is one source, whatever their order and scale.
    squared  |p_ij|² instead of |p_ij|, and the sum over 2N: another definition in use, which weighs small errors less.
    Scales of single outputs do not matter at 0 and weigh the second sum elsewhere, as in the definition.
    inf where a row or a column is all 0, or the matrix is not finite.
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
