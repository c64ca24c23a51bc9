"""Harmoniums with many visible units, few of which are on, in NumPy: weights updated lazily, and exact sampling that evaluates few units.

The twin of `_wide.pyx`: every operation is one rounding, in the order written there, so that both give the same bits.

Updates of weights W (D, K) and of their last changes V are delayed: row i has the values of the time of entry lag[i] of the tables.
Its current values are

    w ← (p0 w + p1 v) − mean_i q0,      v ← (p2 w + p3 v) − mean_i q1,

p = P[lag[i]] (4,) and q = Q[lag[i]] (2, K): the effect of decay, momentum and a gradient of rank one since then.  Sums over K are computed
in 32 lanes, which are then added by repeated halving.
"""

from __future__ import annotations

import numpy as np

from herdcli.fast.numpy_gibbs import LIMIT, exponential
from herdcli.schema import Array

F = np.float32
LANES = 32
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _sum_in_lanes(x: Array) -> Array:
    """Return Σ over the last axis (..., K), in the order of the lanes: (...,) float32."""
    K = x.shape[-1]
    padded = np.zeros((*x.shape[:-1], -(-K // LANES), LANES), dtype=F)
    padded.reshape(*x.shape[:-1], -1)[..., :K] = x
    total = np.zeros((*x.shape[:-1], LANES), dtype=F)
    for part in range(padded.shape[-2]):
        total += padded[..., part, :]
    while total.shape[-1] > 1:
        half = total.shape[-1] // 2
        total = total[..., :half] + total[..., half:]
    found: Array = total[..., 0]
    return found


def _clipped_exp(y: Array) -> Array:
    """Return e^y with y limited to the range from −87 to 0."""
    return exponential(np.minimum(np.maximum(y, -LIMIT), F(0)))


def current_rows(W: Array, V: Array, rows: Array, lag: Array, P: Array, Q: Array, mean: Array, W_out: Array, V_out: Array) -> None:
    """Write the current values of rows (r,) int64 of weights W and last changes V (D, K) into other arrays W_out and V_out (r, K).

    lag (D,) int32 entries of the tables.  P (T, 4), Q (T, 2, K), mean (D,) float32.
    """
    p, q, m, w, v = P[lag[rows]], Q[lag[rows]], mean[rows][:, None], W[rows], V[rows]
    W_out[...] = (p[:, :1] * w + p[:, 1:2] * v) - m * q[:, 0]
    V_out[...] = (p[:, 2:3] * w + p[:, 3:] * v) - m * q[:, 1]


def row_extents(x: Array, low: float, high: float, lengths: Array, reaches: Array) -> None:
    """Compute |x| and Σ max(low x, high x) of each row of x (n, K) float32, into (n,) each.

    The latter is the largest x·h with low ≤ h ≤ high.
    """
    lengths[...] = np.sqrt(_sum_in_lanes(x * x))
    reaches[...] = _sum_in_lanes(np.maximum(F(low) * x, F(high) * x))


def lag_slacks(lag: Array, far: Array, extents: Array, mean: Array, bias: Array, out: Array) -> None:
    """Compute bounds, per unit of |h|, on the delayed changes and the rounding of natural parameters: (D,) float32, into `out`.

    far (T, 3)  for each entry of the tables, the factors of the length of a weight, of the length of its last change, and of the mean.
    extents (3, D)  those lengths, as computed by `row_extents`.
    """
    f = far[lag]
    out[...] = ((f[:, 0] * extents[0] + f[:, 1] * extents[1]) + f[:, 2] * mean) + F(1e-6) * (F(1) + np.abs(bias))


def shown_product(
    W: Array, V: Array, lag: Array, P: Array, Q: Array, mean: Array, starts: Array, units: Array, values: Array, out: Array
) -> None:
    """Compute out (n, K) ← rows with few units on, times the current weights.

    Row i has the units (e,) int32 with values (e,) from starts[i] on.
    """
    from scipy.sparse import csr_array

    rows, other = np.empty((2, len(units), W.shape[1]), dtype=F)
    current_rows(W, V, units, lag, P, Q, mean, rows, other)
    out[...] = csr_array((values, np.arange(len(units)), starts), shape=(len(out), len(units))) @ rows


def by_unit(units: Array, room: Array, order: Array, distinct: Array, heads: Array) -> int:
    """Sort entries (e,) int32 by their units, stably, into `order` (e,), and return the number r of different units.

    distinct  (e,) int64, whose first r entries are the units.  heads (e + 1,) int32, the start of each unit in `order`.
    room      (D,) int32 scratch.
    """
    order[...] = np.argsort(units, kind="stable")
    found, first = np.unique(units[order], return_index=True)
    distinct[: len(found)] = found
    heads[: len(found) + 1] = np.append(first, len(units))
    return len(found)


def move_units(
    W: Array,
    V: Array,
    lag: Array,
    P: Array,
    Q: Array,
    mean: Array,
    units: Array,
    heads: Array,
    rows: Array,
    values: Array,
    h: Array,
    signs: Array,
    above: Array,
    gradient: Array,
    constant: Array,
    rate: float,
    momentum: float,
    decay: float,
    low: float,
    high: float,
    extents: Array,
    own: Array,
    dots: Array,
    follows: Array,
    room: Array,
) -> float:
    """Update the units (r,) int64 that have a gradient, in place in W and V (D, K), and return the largest |w| of them.

    The entries of the i-th unit start at heads[i]: rows (e,) int32 of h (2n, K), and values (e,).  Its gradient is
    (Σ value h[row] − s above) − mean gradient, with s = Σ value signs[row], which is written into `own` (r,).  For constant units,
    (D,) uint8, the gradient is 0.  Its product with `above` (K,) is written into `dots` (r,), and mean times it is added to `follows` (K,).
    extents (3, D)  as computed by `row_extents`.  room (K,) scratch.
    """
    from scipy.sparse import csr_array

    entries = csr_array((values, rows, heads), shape=(len(units), len(h)))
    own[...] = entries @ signs
    m = mean[units][:, None]
    G = ((entries @ h) - own[:, None] * above) - m * gradient
    G[constant[units] != 0] = 0.0
    dots[...] = _sum_in_lanes(G * above)
    for part in m * G:
        follows += part
    w, v = np.empty((2, len(units), W.shape[1]), dtype=F)
    current_rows(W, V, units, lag, P, Q, mean, w, v)
    v = v * F(momentum) + F(rate) * (G - F(decay) * w)
    w = w + v
    W[units], V[units] = w, v
    size, change, reach, other = np.empty((4, len(units)), dtype=F)
    row_extents(w, low, high, size, reach)
    row_extents(v, low, high, change, other)
    for row, new in zip(extents, (size, change, reach), strict=True):
        row[units] = new
    return float(np.abs(w).max(initial=0.0))


def fill_words(seed: int, out: Array) -> None:
    """Fill `out` (n,) uint64 with random numbers of a stream.  Source: Steele, Lea & Flood (2014), SplitMix64."""
    out[...] = _mixed_words(seed, np.arange(1, len(out) + 1, dtype=np.uint64))


def list_below(natural: Array, bias: Array, words: Array, starts: Array, listed: Array) -> int:
    """List units whose word may be below 2^16 logistic(natural + bias): all for which it is, and few others.

    The units of row i are in `listed` from starts[i] on; returns their total number.
    natural  (n, u) float32.  bias (u,).  words (n, u + 1) uint16, as in `two_state_sample`.  starts (n + 1,) and listed (n u,) int32.
    The bits of a float32 number, read as an integer, are at most 2^23 (127 + its logarithm to base 2), and logistic(x) ≤ e^x.  A unit is
    therefore listed if these bits of its word are below 2^23 (127 + 16 + x log2 e).
    """
    bits = words[:, :-1].astype(F).view(np.int32).astype(F)
    row, unit = np.nonzero(bits < (natural + bias) * F(12102203.0) + F(1199570944.0))
    starts[...] = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(natural)))])
    listed[: len(unit)] = unit
    return len(unit)


def _natural_parameters(
    W_h: Array, V: Array, lag: Array, P: Array, QH: Array, bias: Array, mean: Array, H: Array, row: Array, unit: Array
) -> Array:
    """Return the natural parameters of units (m,) given the hidden states of rows (m,).

    W_h (m,)  the products of the hidden states with the delayed weights.
    """
    s = lag[unit]
    moved = _sum_in_lanes(V[unit] * H[row])
    found: Array = ((P[s, 0] * W_h + P[s, 1] * moved) - mean[unit] * QH[row, s]) + bias[unit]
    return found


def natural_at(
    W: Array, V: Array, lag: Array, P: Array, QH: Array, bias: Array, mean: Array, H: Array, starts: Array, listed: Array, out: Array
) -> None:
    """Compute the natural parameters b + W h (m,) float32, with current weights, of the units listed for each row of H (n, K).

    H holds hidden states.  QH (n, T) is q0·h for each entry of the tables.  starts (n + 1,), listed (m,) int32.
    """
    row = np.repeat(np.arange(len(H)), np.diff(starts))
    out[...] = _natural_parameters(_sum_in_lanes(W[listed] * H[row]), V, lag, P, QH, bias, mean, H, row, listed)


def guide_table(sums: Array, guide: Array) -> None:
    """Compute the guide table for sampling from running sums (D,) float64.

    guide[g]  int32, the first index whose sum is above g/D of the last sum.
    Source: Chen & Asau (1974).
    """
    D = len(sums)
    guide[...] = np.minimum(np.searchsorted(sums, np.arange(D) * (sums[-1] / D), side="right"), D - 1)


def _mixed_words(seed: int, numbers: Array) -> Array:
    """Return the uint64 numbers at positions `numbers` (uint64) of a stream."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + numbers * GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Array = z ^ (z >> np.uint64(31))
    return found


def _uniform_numbers(seed: int, numbers: Array) -> Array:
    """Return the same numbers scaled to [0, 1) float64."""
    found: Array = (_mixed_words(seed, numbers) >> np.uint64(11)) * 2.0**-53
    return found


def draw_words(
    W: Array,
    V: Array,
    lag: Array,
    P: Array,
    QH: Array,
    bias: Array,
    mean: Array,
    H: Array,
    slack: Array,
    reach: Array,
    upper: Array,
    sums: Array,
    guide: Array,
    lengths: Array,
    seeds: Array,
    drawn: Array,
) -> int:
    """Sample lengths[n] words for each row with probabilities ∝ e^x, x = b + W h with current weights; return the number of proposals.

    A word is proposed with probability ∝ e^upper and accepted with probability e^(x − upper).  If the delayed weights plus the bound on
    their changes already give too small a probability, the word is rejected without computing x.
    slack (D,) times reach (n,)  bounds the change of natural parameters.  upper (D,) ≥ x for all rows.  sums (D,) float64  running
    sums of e^upper, times any constant.  guide (D,) int32  their guide table.  lengths (n,) int64, seeds (n,) uint64.
    drawn (Σ lengths,) int32, output.
    """
    first = tries = 0
    for n, length in enumerate(lengths.tolist()):
        row, number = drawn[first : first + length], 0
        found = 0
        while found < length:
            count = 2 * (length - found) + 16
            numbers = np.arange(number, number + count, dtype=np.uint64)
            place = np.searchsorted(sums, _uniform_numbers(int(seeds[n]), np.uint64(2) * numbers + np.uint64(1)) * sums[-1], side="right")
            unit = np.minimum(place, len(sums) - 1)
            u = _uniform_numbers(int(seeds[n]), np.uint64(2) * numbers + np.uint64(2))
            stale = _sum_in_lanes(W[unit] * H[n])
            near = u < _clipped_exp(((stale + bias[unit]) + slack[unit] * reach[n]) - upper[unit])
            x = _natural_parameters(stale, V, lag, P, QH, bias, mean, H, np.full(count, n), unit)
            taken = np.flatnonzero(near & (u < _clipped_exp(x - upper[unit])))[: length - found]
            row[found : found + len(taken)] = unit[taken]
            found += len(taken)
            used = int(taken[-1]) + 1 if found == length else count
            number += used
        tries += number
        first += length
    return tries
