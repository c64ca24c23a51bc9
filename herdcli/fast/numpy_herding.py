"""Herding on packed bits, in NumPy: the twin of `_herding.pyx`.

All results are integers, so the twins agree whatever the order of summation.  Matrix products in float32 or float64 are exact here,
because their partial sums stay below 2^24 or 2^53.

Rows of units are packed 64 to a uint64 word, with the first unit in the lowest bit.  Bit 1 is the high value (+1), bit 0 the low one
(−1 for spins, 0 for binary units).  sign(0) is the high value.
"""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array

BLOCK = 1024  # number of rows unpacked at a time


def _unpack_to_values(words: Array, units: int, spin: bool, dtype: type[np.generic]) -> Array:
    """Return words (n, w) as values (n, units) of the two states."""
    octets = np.ascontiguousarray(words).astype("<u8", copy=False).view(np.uint8)
    values: Array = np.unpackbits(octets, axis=1, count=units, bitorder="little").astype(dtype)
    if spin:
        values *= 2
        values -= 1
    return values


def _pack_columns(truth: Array) -> Array:
    """Return truth values (n, K) as words (ceil(n/64), K), row n in bit n mod 64."""
    octets = np.packbits(truth, axis=0, bitorder="little")
    padded = np.zeros((-(-len(truth) // 64) * 8, truth.shape[1]), dtype=np.uint8)
    padded[: len(octets)] = octets
    words: Array = np.ascontiguousarray(padded.reshape(-1, 8, truth.shape[1]).transpose(0, 2, 1)).view("<u8")[:, :, 0].astype(np.uint64)
    return words


def _exact_float_type(weights: Array, b: Array, c: Array) -> type[np.generic]:
    """Return float32 if no partial sum of the weights can reach 2^24, else float64."""
    size = np.abs(weights)
    above, below = size.sum(axis=0, dtype=np.int64) + np.abs(c), size.sum(axis=1, dtype=np.int64) + np.abs(b)
    return np.float32 if max(above.max(), below.max()) < 1 << 24 else np.float64


def herding_scratch(words: int, visible: int, hidden: int) -> Array:
    """Return the working memory of one thread for the other functions; NumPy allocates its own, so it is empty here."""
    return np.empty(0, dtype=np.uint8)


def hidden_pass(rows: Array, weights: Array, b: Array, c: Array, spin: bool, energy: Array, signs: Array | None, scratch: Array) -> None:
    """Compute the energies of rows with their hidden units at the optimal values, and those values.

        a = c + M'x,   energy = −(b·x + Σ_k |a_k|)   (spins),   −(b·x + Σ_k max(a_k, 0))   (binary)

    rows     (n, w) uint64, packed.      weights  (D, K): int32 with Σ|M| and bias at every unit below 2^28; or int64, below 2^53.
    b, c     (D,), (K,) int64.           energy   (n,) int64, output.
    signs    (ceil(n/64), S) uint64, S = K rounded up to a multiple of 32 and zero beyond K; output: bit n mod 64 of
             word n // 64 says whether a_nk ≥ 0; None if not needed.
    Source: Welling (2009), eq. 9.
    """
    exact = _exact_float_type(weights, b, c)
    factor, offset = weights.astype(exact), c.astype(exact)
    for start in range(0, len(rows), BLOCK):
        x = _unpack_to_values(rows[start : start + BLOCK], len(b), spin, exact)
        a = x @ factor
        a += offset
        linear = x.astype(np.float64) @ b.astype(np.float64)
        if signs is not None:
            signs[start // 64 : start // 64 + -(-len(x) // 64), : len(c)] = _pack_columns(a >= 0)
        # E(x, z) = −(b·x + Σ_k z_k a_k) is least where z_k = sign a_k, which takes
        # |a_k| off it; for z_k in {0, 1}, max(a_k, 0).  Welling (2009), eq. 9.
        gain = (np.abs(a, out=a) if spin else np.maximum(a, 0, out=a)).sum(axis=1, dtype=np.float64)
        energy[start : start + BLOCK] = -(linear.astype(np.int64) + gain.astype(np.int64))


def herding_update(
    weights: Array,
    sample: Array,
    columns: Array,
    signs: Array,
    n: int,
    spin: bool,
    step: int,
    x: Array,
    z: Array,
    hidden_sum: Array,
    column_size: Array,
    row_size: Array,
) -> int:
    """Update M ← M + step·(X'Z − n x z') and sample ← sample + x z' in place, and return ΣM² of the new weights.

    weights, sample  (D, K) int32.                columns  (D, w) uint64: the n rows' values of each visible unit, packed.
    signs            (w, S) uint64, as written by `hidden_pass`.      x, z  (D,), (K,) int8.
    Outputs: hidden_sum (K,) Σ_n z_nk; column_size (K,) Σ_j |M_jk|; row_size (D,) Σ_k |M_jk|, all int64.
    Source: Welling (2009), eq. 11, times n.
    """
    values = _unpack_to_values(np.ascontiguousarray(signs[:, : len(z)].T), n, spin, np.float32)
    statistic = (_unpack_to_values(columns, n, spin, np.float32) @ values.T).astype(np.int32)
    hidden_sum[...] = values.sum(axis=1, dtype=np.float64)
    product = np.multiply.outer(x.astype(np.int32), z.astype(np.int32))
    # Eq. 11 moves w by the mean of x_n z_n' over rows minus that of the state,
    # x z'; n times this is an integer, so M = n w stays exact.
    weights += np.int32(step) * (statistic - np.int32(n) * product)
    sample += product
    size = np.abs(weights)
    column_size[...] = size.sum(axis=0, dtype=np.int64)
    row_size[...] = size.sum(axis=1, dtype=np.int64)
    return int(np.square(weights, dtype=np.int64).sum())


def ascend(weights: Array, b: Array, c: Array, x: Array, z: Array, spin: bool, flip: bool, limit: int, scratch: Array) -> int:
    """Maximise b·x + c·z + x'Mz by block coordinate ascent in place, from x to a fixed point: z = sign(c + M'x), x = sign(b + Mz).

    weights  (D, K) int32 or int64, its sums as in `hidden_pass`.      b, c  (D,), (K,) int64.      x, z  (D,), (K,) int8.
    flip     at a fixed point with b·x + c·z < 0, flip all units, which raises the score, and continue (spins only).
    limit    number of sweeps after which to stop early; 0: none.      Returns the number of sweeps done.
    """
    factor: Array = weights.astype(_exact_float_type(weights, b, c))
    low = -1 if spin else 0
    sweeps = 0
    while True:
        above: Array = x @ factor + c
        z[...] = np.where(above >= 0, 1, low)
        below: Array = factor @ z + b
        found = np.where(below >= 0, 1, low).astype(np.int8)
        stays = np.array_equal(found, x)
        x[...] = found
        sweeps += 1
        if sweeps == limit:
            return sweeps
        if stays:
            # x'Mz is the same at (−x, −z), and b·x + c·z changes sign: flipping gains −2(b·x + c·z).
            if not flip or int(b @ x + c @ z) >= 0:
                return sweeps
            np.negative(x, out=x)
            np.negative(z, out=z)
