"""Rotations of pairs of outputs that each mix two sources equally: a local optimum that only a rotation by 45° leaves.

If the mixture's density is close to that of its two sources, such as a wave and a recording in Laplace densities, the likelihood may
have a maximum at u_i = (a + b)/√2 and u_j = (a − b)/√2.  Then (u_i ± u_j)/√2 are compared with u_i and u_j, each
by the better of a super-Gaussian density and the bimodal one.
"""

from __future__ import annotations

import numpy as np

from herdcli.ica.experts import SMALLEST
from herdcli.schema import Array

FEW = 2048  # number of evenly spaced rows for the search; the pairs that are found are tested on all rows
SIGMAS = 4.0  # a rotation is accepted only if its mean gain in log likelihood is more than this many standard errors


def _log_density(u: Array) -> Array:
    """Return log p of outputs (…, n) with variance 1, Laplace or bimodal, whichever is more probable over all n."""
    size = np.abs(u)
    mean = np.maximum(size.mean(axis=-1, keepdims=True), SMALLEST)
    # The Laplacian of scale m is most probable at m = E|u|: log p = −log 2m − |u|/m.  The bimodal density has variance 2, so it is that of
    # v = √2 u: log p = ½ log 2 − ½ log 2π − ½ − v²/2 + log cosh v, and log cosh v = |v| + log(1 + e^{−2|v|}) − log 2.
    above = -np.log(2.0 * mean) - size / mean
    v = np.sqrt(2.0) * size
    below = v + np.log1p(np.exp(-2.0 * v)) - np.square(size) - (np.log(2.0) + 0.5 * np.log(np.pi) + 0.5)
    better = above.mean(axis=-1, keepdims=True) >= below.mean(axis=-1, keepdims=True)
    return np.asarray(np.where(better, above, below))


def find_mixed_pairs(u: Array) -> list[tuple[int, int]]:
    """Return disjoint pairs (i, j) of centred outputs u (M, n), best first, whose rotation by 45° raises the likelihood significantly."""
    scaled = u / np.sqrt(np.maximum(np.square(u).mean(axis=1, keepdims=True), SMALLEST))
    few = scaled[:, :: -(-u.shape[1] // FEW)]
    own = _log_density(few).mean(axis=1)
    gains: list[tuple[float, int, int]] = []
    for i in range(1, len(u)):
        both = [_log_density((few[i] + sign * few[:i]) / np.sqrt(2.0)).mean(axis=1) for sign in (1.0, -1.0)]
        gain = both[0] + both[1] - own[:i] - own[i]
        gains += [(float(gain[j]), i, int(j)) for j in np.flatnonzero(gain > 0)]
    found: list[tuple[int, int]] = []
    for _, i, j in sorted(gains, reverse=True):
        if not any({i, j} & set(pair) for pair in found) and _rotation_improves(scaled[i], scaled[j]):
            found.append((i, j))
    return found


def _rotation_improves(first: Array, second: Array) -> bool:
    """Return whether rotating two outputs (n,) of variance 1 raises their likelihood by more than chance."""
    turned = _log_density(np.stack([first + second, first - second]) / np.sqrt(2.0))
    gain = (turned - _log_density(np.stack([first, second]))).sum(axis=0)
    return bool(gain.mean() > SIGMAS * gain.std() / np.sqrt(len(gain)))


def rotate_pairs(J: Array, pairs: list[tuple[int, int]], deviation: Array) -> None:
    """Rotate pairs of filters (M, D) by 45° in place; outputs keep their deviations (M,)."""
    for i, j in pairs:
        a, b = J[i] / deviation[i], J[j] / deviation[j]
        J[i], J[j] = deviation[i] * (a + b) / np.sqrt(2.0), deviation[j] * (a - b) / np.sqrt(2.0)
