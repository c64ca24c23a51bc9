"""Products, exponentials and logarithms whose bits do not depend on libraries or processors, in NumPy.

The twin of `_exact.pyx`, bit for bit.  It uses only additions, multiplications, divisions and comparisons, each rounded once as IEEE 754
requires, and integers; the polynomials are fitted here.
"""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array

DEPTH = 256  # number of terms in a block of a sum
_MAGIC = 6755399441055744.0  # 1.5·2⁵²: adding it rounds to a whole number in the low bits
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693147180559663, 2.8235290563031577e-13  # log 2 = high + low; n·high is exact for |n| < 2¹¹

# (e^r − 1 − r)/r² on |r| ≤ ½ log 2 and (2 artanh(s)/s − 2)/s² by z = s², s ≤ 3 − 2√2: interpolated at Chebyshev nodes, highest power
# first.  Their errors in e^r and log(1 + f) are below 2e-17.
_EXP = (
    *(2.510038549551032e-08, 2.7620088445409746e-07, 2.7557268459997064e-06, 2.4801521295954376e-05, 0.00019841269863053618),
    *(0.0013888888917213717, 0.008333333333330062, 0.04166666666662413, 0.16666666666666669, 0.5),
)
_LOG = (
    *(0.14616585424888623, 0.15331710618210773, 0.18182889455674947, 0.22222211130259878),
    *(0.2857142862600327, 0.39999999999899444, 0.6666666666666667),
)
ONE, ROOT = np.uint64(0x3FF0000000000000), np.uint64(0x3FE6A09E667F3BCD)  # the bits of 1 and √½
TINY = 2.0**-1022  # the least normal number


def exact_exp(x: Array) -> None:
    """Compute x ← e^x in place, x (n,) float64, within 1 unit in the last place."""
    with np.errstate(all="ignore"):
        high, low, tail, first, second, _ = _reduce_argument(x)
        # 1 + high = sum + rest exactly (|high| < 1): what the rounded sum lost is added with the small terms.
        total = high + 1.0
        rest = high - (total - 1.0)
        x[...] = np.where(np.isnan(x), x, ((total + (rest + (tail - low))) * first) * second)


def exact_expm1(x: Array) -> None:
    """Compute x ← e^x − 1 in place, x (n,) float64, within 2 units in the last place."""
    with np.errstate(all="ignore"):
        high, low, tail, first, second, inverse = _reduce_argument(x)
        q = (high - low) + tail
        x[...] = np.where(np.isnan(x), x, (q * first + (first - inverse)) * second)


def exact_log(x: Array) -> None:
    """Compute x ← log x in place, x (n,) float64, within 1 unit in the last place."""
    with np.errstate(all="ignore"):
        x[...] = _log_with_remainder(x, np.zeros_like(x))


def exact_log1p(x: Array) -> None:
    """Compute x ← log(1 + x) in place, x (n,) float64, within 1 unit in the last place."""
    with np.errstate(all="ignore"):
        u = x + 1.0
        back = u - 1.0
        # 1 + x = u + rest exactly: what rounding took from the sum enters the logarithm as rest/u (Knuth's two-sum).
        rest = (1.0 - (u - back)) + (x - back)
        x[...] = _log_with_remainder(u, rest / u)


def exact_product(a: Array, b: Array, out: Array) -> None:
    """Compute out ← a b, a (n, k), b (k, m) and out (n, m) of one type, float64 or float32, of any strides.

    Every entry sums its k products one after the other in blocks of DEPTH, then the sums of the blocks one after the other.  The error is
    below (DEPTH + k/DEPTH) units of rounding of Σ |a||b|.
    """
    with np.errstate(all="ignore"):
        total = np.zeros(out.shape, out.dtype)
        for start in range(0, a.shape[1], DEPTH):
            part = np.zeros(out.shape, out.dtype)
            for k in range(start, min(start + DEPTH, a.shape[1])):
                part += a[:, k, None] * b[k]
            total = total + part if start else part
        out[...] = total


def _reduce_argument(x: Array) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Return the parts of x = n log 2 + r, with |r| ≤ ½ log 2: high, low, e^r − 1 − r, and three powers of two.

    r is high − low.  2^n may overflow or underflow, so it is returned as two powers of two, a and b, whose product is 2^n; the last
    result is 1/b.
    """
    y = np.where(x < -746.0, -746.0, x)
    y = np.where(y > 711.0, 711.0, y)
    shifted = y * _LOG2_E + _MAGIC
    n = shifted - _MAGIC
    half = n * 0.5 + _MAGIC
    # n·_LN2_HIGH is exact; so when the two parts of n log 2 are subtracted one after the other, only the second product is rounded (Cody &
    # Waite 1980).
    high, low = y - n * _LN2_HIGH, n * _LN2_LOW
    r = high - low
    zero = np.float64(_MAGIC).view(np.uint64)
    whole, part = shifted.view(np.uint64) - zero, half.view(np.uint64) - zero
    p = _horner(r, _EXP)
    return high, low, (r * r) * p, _power_of_two(part), _power_of_two(whole - part), _power_of_two(part - whole)


def _power_of_two(n: Array) -> Array:
    """Return 2^n by setting the exponent's bits."""
    bits: Array = (n + np.uint64(1023)) << np.uint64(52)
    return bits.view(np.float64)


def _horner(x: Array, coefficients: tuple[float, ...]) -> Array:
    found = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        found = found * x + coefficient
    return np.asarray(found)


def _log_with_remainder(u: Array, rest: Array) -> Array:
    """Return log(u (1 + rest)), u (n,), rest (n,) at most a unit of rounding."""
    small = u < TINY
    y, less = np.where(small, u * 2.0**54, u), np.where(small, 1077.0, 1023.0)
    bits = y.view(np.uint64)
    # u = 2^k m with m in [√½, √2): the exponent's bits of u/√½, rounded down, are k's.
    exponent = (bits + (ONE - ROOT)) >> np.uint64(52)
    k = exponent.astype(np.float64) - less
    f = (bits - ((exponent - np.uint64(1023)) << np.uint64(52))).view(np.float64) - 1.0
    # log(1 + f) = 2 artanh s with s = f/(2 + f), computed as f − f²/2 + s (f²/2 + R), whose largest term is exact (Tang 1990; Ng, fdlibm).
    s = f / (f + 2.0)
    z, h = s * s, (f * 0.5) * f
    low = s * (z * _horner(z, _LOG) + h) + (k * _LN2_LOW + rest)
    found = k * _LN2_HIGH - ((h - low) - f)
    found = np.where(u == 0.0, -np.inf, found)
    found = np.where(u < 0.0, np.nan, found)
    return np.where((u > np.finfo(np.float64).max) | np.isnan(u), u, found)
