"""Gibbs sampling of two-state units and the update of their weights, in NumPy.

The twin of `_gibbs.pyx`.  Every operation is one float32 rounding, in the order written there, so that both give the same bits.
All arrays are C-contiguous; the caller provides the output arrays.
"""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array

F = np.float32

# e^r on |r| ≤ ½ log 2, least relative error (1.9e-9) among polynomials of degree 6, highest power first.
EXP = tuple(
    F(c) for c in (0.0013836835278198123, 0.008374824188649654, 0.04166822507977486, 0.16666419804096222, 0.49999991059303284, 1.0, 1.0)
)
LOG2_E = F(1.4426950408889634)
LN2_HIGH, LN2_LOW = F(0.693359375), F(-2.12194440e-4)  # log 2 = high + low; n·high is exact for |n| < 2^15
MAGIC = F(12582912.0)  # 1.5·2^23: adding it rounds to an integer in the low mantissa bits
TOGETHER = 1 << 15  # numbers per exponential call: temporaries stay in cache, and memory estimates can ignore them
LANES = 16  # partial sums of a row
LIMIT = F(87.0)  # e^87 and its reciprocal are normal float32 numbers


def exponential(y: Array) -> Array:
    """Return e^y of y (…) float32 within ±87, with relative error below 4e-7.  NaN stays NaN.

    e^y = 2^n e^r with n = round(y / log 2), r = y − n log 2.
    Source: Cody & Waite (1980), the argument reduction; the polynomial is fitted here.
    """
    # 1.5·2²³ + y/log 2 is rounded to a whole number, as floats there are 1 apart: n stands in the low bits, from where it is
    # shifted into the exponent.  Subtracting n log 2 in two parts loses nothing, as n times the first, of 9 bits, is exact.
    shifted = y * LOG2_E + MAGIC
    n = shifted - MAGIC
    r = (y - n * LN2_HIGH) - n * LN2_LOW
    power: Array = r * EXP[0]
    for c in EXP[1:-1]:
        power += c
        power *= r
    power += EXP[-1]
    power *= ((shifted.view(np.uint32) << np.uint32(23)) + np.uint32(0x3F800000)).view(F)  # 2^n
    return power


def logistic(x: Array) -> None:
    """Compute 1 / (1 + e^{−x}) in place, x float32.  Relative error below 4e-7 for |x| ≤ 87; beyond, the value at ±87.  NaN stays NaN."""
    flat = x.reshape(-1)  # C-contiguous: a view
    for start in range(0, len(flat), TOGETHER):
        part = flat[start : start + TOGETHER]
        power = exponential(-np.minimum(np.maximum(part, -LIMIT), LIMIT))
        power += F(1)
        np.divide(F(1), power, out=part)


def two_state_means(natural: Array, bias: Array, gain: float, offset: float, slope: float) -> None:
    """Turn natural parameters without bias into offset + slope·p, p = logistic(gain·(natural + bias)), in place.

    natural  (n, u) float32.      bias  (u,) float32.
    """
    natural += bias
    natural *= F(gain)
    logistic(natural)
    natural *= F(slope)
    natural += F(offset)


def two_state_sample(
    natural: Array, bias: Array, gain: float, offset: float, slope: float, words: Array, low: float, high: float, states: Array
) -> None:
    """Compute `two_state_means` in place of `natural`, and sample `states`: high with probability p, else low.

    natural, states  (n, u) float32.      bias  (u,) float32.
    words            (n, u + 1) uint16, independent uniform.  Unit j of row i is on when
                     words[i, j] + d_i < 2^16 p with d_i = words[i, u] / 2^16 in [0, 1).
    words + d is uniform on [0, 2^16) to 2^-32, so p is met to float32 precision although a unit uses only 16 bits.  The units of a row
    share d, which correlates two of them by less than 1e-10.
    """
    natural += bias
    natural *= F(gain)
    logistic(natural)
    rows = max(1, TOGETHER // max(1, natural.shape[1]))
    for start in range(0, len(natural), rows):
        part = slice(start, start + rows)
        dither = words[part, -1:] * F(2.0**-16)
        on = words[part, :-1] < natural[part] * F(2.0**16) - dither
        states[part] = np.where(on, F(high), F(low))
    natural *= F(slope)
    natural += F(offset)


def momentum_step(weights: Array, velocity: Array, gradient: Array, rate: float, momentum: float, decay: float) -> float:
    """Update velocity ← momentum·velocity + rate·(gradient − decay·weights), then weights ← weights + velocity, in place.

    All three have one shape, float32.  Returns max |weights| after the update; NaN or inf if any weight is.
    """
    velocity *= F(momentum)
    velocity += F(rate) * (gradient - F(decay) * weights)
    weights += velocity
    return float(np.abs(weights).max())


def centred_momentum_step(
    weights: Array,
    velocity: Array,
    gradient: Array,
    b: Array,
    visible_mean: Array,
    hidden_mean: Array,
    c: Array,
    share: float,
    rate: float,
    momentum: float,
    decay: float,
    follows: Array,
) -> float:
    """Take `momentum_step` along the gradient of the centred model, whose visible units are v − μ and hidden units h − λ.

    G ← G − (b λ' + μ c'),  b ← b − share·G λ,  follows ← follows + G' μ,  then the step of the weights (d, u) along G, all in place.
    gradient  G (d, u).     b, visible_mean  (d,): gradient of the visible biases, and μ.     hidden_mean, c, follows  (u,): λ, the gradient
    of the hidden biases, and a running sum.  All float32.
    G λ is summed in 16 lanes, which are added one after the other; G' μ from the first visible unit to the last.
    Returns max |weights| after the update; NaN or inf if any weight is.
    """
    gradient -= np.multiply.outer(b, hidden_mean) + np.multiply.outer(visible_mean, c)
    d, u = gradient.shape
    terms = np.zeros((d, -(-u // LANES) * LANES), dtype=F)
    np.multiply(gradient, hidden_mean, out=terms[:, :u])
    lanes = np.add.reduce(terms.reshape(d, -1, LANES), axis=1, initial=F(0))
    b -= F(share) * np.add.accumulate(lanes, axis=1)[:, -1]
    for mean, row in zip(visible_mean, gradient, strict=True):
        follows += mean * row
    return momentum_step(weights, velocity, gradient, rate, momentum, decay)


def running_sums(x: Array, out: Array) -> None:
    """Compute out[i, j] ← Σ_{k ≤ j} x[i, k], added one after the other in float64.

    x  (n, u) float32.      out  (n, u) float64.
    """
    np.cumsum(x, axis=1, dtype=np.float64, out=out)


def sparse_scratch(rows: int, inner: int) -> int:
    """Return the number of int32 words of scratch that `add_sparse_product` needs for a sparse (rows, inner): none here."""
    return 0


def add_sparse_product(sparse: Array, dense: Array, out: Array, scratch: Array) -> None:
    """Compute out += sparse @ dense, skipping the zeros of `sparse`; an entry's terms are summed one by one in order.

    sparse   (a, b) float32, strided.      dense  (b, w) float32.      out  (a, w) float32.
    scratch  int32 array of at least `sparse_scratch(a, b)` elements.
    """
    from scipy.sparse import csr_array

    out += csr_array(sparse) @ dense
