"""Harmoniums of many visible units of which few are on, in NumPy: weights that lag behind, and exact draws that look at few of them.

The twin of `_wide.pyx`: every operation is one rounding, in the order written there, so that both give the same bits.

Weights (D, K) and their last changes lag: row i is as it was at the place lag[i] of the tables, and is now

    w ← (p0 w + p1 v) − mean_i q0,      v ← (p2 w + p3 v) − mean_i q1,

p = P[lag[i]] (4,) and q = Q[lag[i]] (2, K): what decay, momentum and a gradient of rank one have done since.  Sums over K are made in
32 lanes, which are added up in halves.
"""

from __future__ import annotations

import numpy as np

from herdcli.fast.numpy_gibbs import LIMIT, exponential
from herdcli.schema import Array

F = np.float32
LANES = 32
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _lanes(x: Array) -> Array:
    """Σ over the last axis (..., K), in the order of the lanes: (...,) float32."""
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


def _exp(y: Array) -> Array:
    """e^y; what is above 0 counts as 0, and what is below −87 as that."""
    return exponential(np.minimum(np.maximum(y, -LIMIT), F(0)))


def current_rows(W: Array, V: Array, rows: Array, lag: Array, P: Array, Q: Array, mean: Array, W_out: Array, V_out: Array) -> None:
    """Some rows (r,) int64 of weights W and last changes V (D, K) as they are now, into W_out and V_out (r, K), which are other arrays.

    lag (D,) int32 of T places.  P (T, 4), Q (T, 2, K), mean (D,) float32.
    """
    p, q, m, w, v = P[lag[rows]], Q[lag[rows]], mean[rows][:, None], W[rows], V[rows]
    W_out[...] = (p[:, :1] * w + p[:, 1:2] * v) - m * q[:, 0]
    V_out[...] = (p[:, 2:3] * w + p[:, 3:] * v) - m * q[:, 1]


def row_extents(x: Array, low: float, high: float, lengths: Array, reaches: Array) -> None:
    """|x| and Σ max(low x, high x) of each row of x (n, K) float32, into (n,) each: the latter is the largest x·h with low ≤ h ≤ high."""
    lengths[...] = np.sqrt(_lanes(x * x))
    reaches[...] = _lanes(np.maximum(F(low) * x, F(high) * x))


def lag_slacks(lag: Array, far: Array, extents: Array, mean: Array, bias: Array, out: Array) -> None:
    """What natural parameters can have moved by, and be rounded by, for each unit of |h|: (D,) float32, into `out`.

    far (T, 3)  of each place of the tables, what it does to the length of a weight, of its last change, and to the mean times it.
    extents (3, D)  those lengths, as `row_extents` has them.
    """
    f = far[lag]
    out[...] = ((f[:, 0] * extents[0] + f[:, 1] * extents[1]) + f[:, 2] * mean) + F(1e-6) * (F(1) + np.abs(bias))


def shown_product(
    W: Array, V: Array, lag: Array, P: Array, Q: Array, mean: Array, starts: Array, units: Array, values: Array, out: Array
) -> None:
    """out (n, K) ← rows of few units times the weights as they are now; of row i units (e,) int32 with values (e,) from starts[i] on."""
    from scipy.sparse import csr_array

    rows, other = np.empty((2, len(units), W.shape[1]), dtype=F)
    current_rows(W, V, units, lag, P, Q, mean, rows, other)
    out[...] = csr_array((values, np.arange(len(units)), starts), shape=(len(out), len(units))) @ rows


def by_unit(units: Array, room: Array, order: Array, distinct: Array, heads: Array) -> int:
    """Entries (e,) int32 in the order of their units, of equal ones as they come, into `order` (e,); how many units r there are.

    distinct  (e,) int64, the first r are the units.  heads (e + 1,) int32, of these where each begins in `order`.  room (D,) int32.
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
    """The step of units (r,) int64 that get a gradient, in place in W and V (D, K); the largest |w| of them.

    Unit number i has the entries from heads[i] on: rows (e,) int32 of h (2n, K) and values (e,).  With s = Σ value signs[row], into
    `own` (r,), its gradient is (Σ value h[row] − s above) − mean gradient, of constant units (D,) uint8 it is 0; into `dots` (r,) goes its
    product with `above` (K,), and to `follows` (K,) is added mean times it.  extents (3, D) as `row_extents` has them.  room (K,).
    """
    from scipy.sparse import csr_array

    entries = csr_array((values, rows, heads), shape=(len(units), len(h)))
    own[...] = entries @ signs
    m = mean[units][:, None]
    G = ((entries @ h) - own[:, None] * above) - m * gradient
    G[constant[units] != 0] = 0.0
    dots[...] = _lanes(G * above)
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
    """Fill `out` (n,) uint64 with numbers of a stream.  Source: Steele, Lea & Flood (2014), SplitMix64."""
    out[...] = _mixed(seed, np.arange(1, len(out) + 1, dtype=np.uint64))


def list_below(natural: Array, bias: Array, words: Array, starts: Array, listed: Array) -> int:
    """List the units whose word may be below 2^16 logistic(natural + bias), all that are and few others, those of row i from starts[i] on.

    natural  (n, u) float32.  bias (u,).  words (n, u + 1) uint16, as of `two_state_sample`.  starts (n + 1,) and listed (n u,) int32.
    The bits of a float32 number are, as a whole number, at most 2^23 (127 + its logarithm to base 2), and logistic(x) ≤ e^x: what is
    listed is where they are below 2^23 (127 + 16 + x log2 e).  Returns how many there are.
    """
    bits = words[:, :-1].astype(F).view(np.int32).astype(F)
    row, unit = np.nonzero(bits < (natural + bias) * F(12102203.0) + F(1199570944.0))
    starts[...] = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(natural)))])
    listed[: len(unit)] = unit
    return len(unit)


def _rest(W_h: Array, V: Array, lag: Array, P: Array, QH: Array, bias: Array, mean: Array, H: Array, row: Array, unit: Array) -> Array:
    """Natural parameters of units (m,) given the hidden states of rows (m,), W_h (m,) being those of the weights as they were."""
    s = lag[unit]
    moved = _lanes(V[unit] * H[row])
    found: Array = ((P[s, 0] * W_h + P[s, 1] * moved) - mean[unit] * QH[row, s]) + bias[unit]
    return found


def natural_at(
    W: Array, V: Array, lag: Array, P: Array, QH: Array, bias: Array, mean: Array, H: Array, starts: Array, listed: Array, out: Array
) -> None:
    """Natural parameters b + W h (m,) float32, with weights as they are now, of the units listed for each row of hidden states H (n, K).

    QH (n, T) is q0·h for each place of the tables.  starts (n + 1,), listed (m,) int32.
    """
    row = np.repeat(np.arange(len(H)), np.diff(starts))
    out[...] = _rest(_lanes(W[listed] * H[row]), V, lag, P, QH, bias, mean, H, row, listed)


def guide_table(sums: Array, guide: Array) -> None:
    """Where to look for a share of the last of growing sums (D,) float64: guide[g] int32, the first place whose sum is above g/D of it.

    Source: Chen & Asau (1974).
    """
    D = len(sums)
    guide[...] = np.minimum(np.searchsorted(sums, np.arange(D) * (sums[-1] / D), side="right"), D - 1)


def _mixed(seed: int, numbers: Array) -> Array:
    """The numbers uint64 at places `numbers` uint64 of a stream."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + numbers * GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Array = z ^ (z >> np.uint64(31))
    return found


def _uniform(seed: int, numbers: Array) -> Array:
    """The same in [0, 1) float64."""
    found: Array = (_mixed(seed, numbers) >> np.uint64(11)) * 2.0**-53
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
    """Draw lengths[n] words of each row with probabilities ∝ e^x, x = b + W h with weights as they are now; how many were tried.

    A word is proposed with a probability ∝ e^upper and taken with e^(x − upper).  Where weights as they were, with all that they can have
    moved by since, do not reach it, it is refused without a look at the rest.
    slack (D,) times reach (n,)  what natural parameters have moved by at most.  upper (D,) ≥ x for all rows.  sums (D,) float64 running
    sums of e^upper, times anything.  guide (D,) int32 of them.  lengths (n,) int64, seeds (n,) uint64.  drawn (Σ lengths,) int32, out.
    """
    first = tries = 0
    for n, length in enumerate(lengths.tolist()):
        row, number = drawn[first : first + length], 0
        found = 0
        while found < length:
            count = 2 * (length - found) + 16
            numbers = np.arange(number, number + count, dtype=np.uint64)
            place = np.searchsorted(sums, _uniform(int(seeds[n]), np.uint64(2) * numbers + np.uint64(1)) * sums[-1], side="right")
            unit = np.minimum(place, len(sums) - 1)
            u = _uniform(int(seeds[n]), np.uint64(2) * numbers + np.uint64(2))
            stale = _lanes(W[unit] * H[n])
            near = u < _exp(((stale + bias[unit]) + slack[unit] * reach[n]) - upper[unit])
            x = _rest(stale, V, lag, P, QH, bias, mean, H, np.full(count, n), unit)
            taken = np.flatnonzero(near & (u < _exp(x - upper[unit])))[: length - found]
            row[found : found + len(taken)] = unit[taken]
            found += len(taken)
            used = int(taken[-1]) + 1 if found == length else count
            number += used
        tries += number
        first += length
    return tries
