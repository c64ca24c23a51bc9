"""Energies of filter outputs and leapfrog steps for them, in NumPy: the twin of `_hmc.pyx`, with the same bits.

Experts are given by numbers: 0 student E = log(1 + u²), 1 logistic E = −log σ(u)σ(−u), 2 laplace-smooth E = log cosh u.
All arrays are float32 and C-contiguous, except that energies of rows are float64.  The logistic function is that of
numpy_gibbs.py: tanh(u/2) = 2σ(u) − 1, and log(1 + e^{−u}) = −log σ(u).
"""

from __future__ import annotations

import numpy as np

from herdcli.fast.numpy_gibbs import LIMIT, LN2_HIGH, LN2_LOW, logistic
from herdcli.schema import Array

F = np.float32
STUDENT, LOGISTIC, SECANT = range(3)
PLACES = 16  # the terms of an energy are added up in this many partial sums
ROOT_HALF = np.uint32(0x3F3504F3)  # the bits of √½
ATANH = tuple(F(c) for c in (0.22222222, 0.2857143, 0.4, 0.66666667, 2.0))  # 2/9, 2/7, … 2: of 2 atanh s, highest power first


def _log_float32(y: Array) -> Array:
    """Return log y, float32, of normal y > 0; inf and NaN give NaN.

    y = 2^e m with m in [√½, √2), and log m = 2 atanh s with s = (m − 1)/(m + 1): |s| ≤ 0.172, so the series can end at s⁹ with an error
    of 7e-10.
    """
    bits = y.view(np.uint32) - ROOT_HALF
    e = (bits.view(np.int32) >> 23).astype(F)
    m = ((bits & np.uint32(0x007FFFFF)) + ROOT_HALF).view(F)
    s = (m - F(1)) / (m + F(1))
    t = s * s
    series = np.full_like(t, ATANH[0])
    for c in ATANH[1:]:
        series = c + t * series
    with np.errstate(invalid="ignore"):
        result: Array = (e * LN2_HIGH + (e * LN2_LOW + s * series)) + (y - y)
    return result


def expert_slope(u: Array, gamma: Array, expert: int) -> None:
    """Compute u ← γ E'(u) in place.

    u  (n, M) outputs.      gamma  (M,).
    """
    if expert == STUDENT:
        with np.errstate(over="ignore", invalid="ignore"):
            np.divide(gamma * (u + u), F(1) + u * u, out=u)
        return
    if expert == SECANT:
        u += u
    logistic(u)
    u *= F(2)
    u -= F(1)
    u *= gamma


def expert_energy(u: Array, gamma: Array, expert: int, out: Array) -> None:
    """Compute out ← Σ_i γ_i E(u_i) of each row.

    u  (n, M).      gamma  (M,).      out  (n,) float64.
    """
    size = np.abs(u)
    with np.errstate(over="ignore", invalid="ignore"):
        if expert == STUDENT:
            terms = _log_float32(F(1) + u * u) * gamma
        else:
            # −log σ(u)σ(−u) = |u| − 2 log σ(|u|) as σ(−u) = e^{−u} σ(u), and log cosh u = |u| − log σ(2|u|)
            # − log 2: no difference of large numbers, and beyond the limit log σ is 0 to the last bit.
            p = np.minimum(size + size if expert == SECANT else size, LIMIT)
            logistic(p)
            terms = ((size - _log_float32(p)) - F(0.6931472) if expert == SECANT else size - F(2) * _log_float32(p)) * gamma
    sums = np.zeros((len(u), PLACES))
    for start in range(0, u.shape[1], PLACES):
        part = terms[:, start : start + PLACES]
        sums[:, : part.shape[1]] += part
    out[...] = 0.0
    for place in range(PLACES):
        out += sums[:, place]


def leapfrog_scratch(filters: int) -> int:
    """Return the number of float32 scratch numbers that `leapfrog` needs for this number of filters: none here."""
    return 0


def leapfrog(
    u: Array, p: Array, gram: Array, gamma: Array, expert: int, epsilon: float, steps: int, a: Array, b: Array, scratch: Array
) -> None:
    """Make `steps` leapfrog steps of n chains x with momenta k under E(x) = Σ_i γ_i E(w_i·x), using only the outputs u = W x.

    With slopes g_t = γE'(u_t) at x_t, and s_t = ε but ε/2 at both ends, the momentum after the kick at x_t is k − W'a_t,
    a_t = Σ_{r ≤ t} s_r g_r.  The outputs therefore move by u ← u + ε (W k − W W' a_t): one product instead of two.

    u, p     (n, M) W x and W k at the start.      gram  (M, M) W W', M a multiple of 8: pad with filters of 0.
    a, b     (n, M) results: a_L and Σ_{t < L} a_t.  At the end the momentum is k − W'a and the position x + ε (L k − W'b).
    scratch  float32, `leapfrog_scratch(M)` or more of them.
    Sums over filters are computed one by one in order.
    Source: Teh (2003), eq. 4.38 and 4.40.
    """
    size, half = F(epsilon), F(0.5) * F(epsilon)
    u = u.copy()
    a[...], b[...] = 0, 0
    for t in range(steps + 1):
        slope = u.copy()
        expert_slope(slope, gamma, expert)
        a += (half if t in (0, steps) else size) * slope
        if t < steps:
            # Position: x + ε Σ (k − W'a_t), so a_t adds up over the drifts; outputs of a drift are u + ε (W k − W W'a_t).
            b += a
            sums = np.zeros_like(u)
            for j in range(len(gram)):
                sums += a[:, j : j + 1] * gram[:, j]
            u += size * (p - sums)
