"""Cluster flips: clusters of variables exchange their states for the images under a permutation, in NumPy.  The twin of `_flips.pyx`."""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array


def flip_clusters(
    ends: Array,
    tables: Array,
    logs: Array,
    first: Array,
    single: Array,
    image: Array,
    power: float,
    x: Array,
    bonds: Array,
    coins: Array,
    parent: Array,
    gain: Array,
) -> None:
    """Flip clusters of x (N, chains) in place, each chain separately: a step that leaves exp(power · (Σ logs + Σ single)) invariant.

    ends (M, 2)  the variables of each factor.  tables (M, 2)  the position of its logarithms in `logs`, which are finite, and the number of
    states of its second variable.  first (N + 1,), single (Σ card,)  logarithms of the states of each variable.  image (Σ card,)  the state
    that each state is exchanged for, and vice versa.  bonds (M, chains)  exponential random numbers, coins (N, chains)  logistic ones.
    parent, gain (N,)  scratch.

    With s = ±1 for a variable that stays or is flipped, the logarithm of a factor l(s, s') is J s s' + h s + h' s' + a constant with
    4 J = l(+,+) + l(−,−) − l(+,−) − l(−,+).  All variables start at s = +, so if J > 0 the pair is joined with probability 1 − e^{−2 J}.
    Clusters are then independent, and each is flipped with probability σ(−2 Σ h).
    Source: Swendsen & Wang (1987); Edwards & Sokal (1988); Wang, Swendsen & Kotecký (1989) for one pair of many states at a time.
    """
    count, i, j = len(first) - 1, ends[:, 0], ends[:, 1]
    at = np.arange(count)
    for c in range(x.shape[1]):
        here = x[:, c]
        there = image[first[:-1] + here]
        gain[...] = power * (single[first[:-1] + there] - single[first[:-1] + here])
        base, width = tables[:, 0], tables[:, 1]
        stay, left, right, both = (
            logs[base + a[i] * width + b[j]] for a, b in ((here, here), (there, here), (here, there), (there, there))
        )
        # If a state is its own image, only the other variable's terms remain: its own gain is 0.
        half = 0.5 * power
        one = half * (left + both - stay - right)
        two = half * (right + both - stay - left)
        np.add.at(gain, ends.reshape(-1), np.stack([one, two], axis=1).reshape(-1))
        joined = bonds[:, c] < half * (stay + both - left - right)
        parent[...] = at
        for k in np.flatnonzero(joined & (here != there)[i] & (here != there)[j]).tolist():
            a, b = _find_root(parent, int(i[k])), _find_root(parent, int(j[k]))
            parent[max(a, b)] = min(a, b)
        root = np.array([_find_root(parent, k) for k in range(count)], dtype=np.int64)
        for k in range(count):
            if root[k] != k:
                gain[root[k]] += gain[k]
        flipped = coins[root, c] < gain[root]
        x[flipped, c] = there[flipped]


def _find_root(parent: Array, k: int) -> int:
    """Return the root of a cluster, and shorten the path to it."""
    while parent[k] != k:
        parent[k] = parent[parent[k]]
        k = int(parent[k])
    return k
