"""Kalman filter and smoother in NumPy: the twin of `_kalman.pyx`, with the same sums in the same order.

Outputs are given as K numbers z = T x + e, e ~ N(0, I), with T (K, K) for the row's pattern of missing values (with rows of zeros if
fewer numbers are observed).  Upper roots: S = root(S)' root(S).

    root(P) = r,  F' = r T',  H = root(I + F F'),  v = H⁻ᵀ(z − T m),  G = root(I + F'F),  U = G⁻ᵀ r,  P⁺ = U'U,  next P = (U A')'(U A') + Q

so that every covariance is a square, and nothing is subtracted.

Covariances do not depend on the observed values, only on the previous covariance and the pattern.  Such pairs ("edges") are looked up by
their bits and computed once.  Once a filter is stationary, to the bit or in a cycle, a step costs two or three matrix–vector products.
The bits are those of a filter that computes every step.
Source: Kalman (1960); Kaminski, Bryson & Schmidt (1971) for the root; Rauch, Tung & Striebel (1965); Makin, sec. 2.2.2.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from herdcli.schema import Array

EPS = 2.220446049250313e-16


def root(S: Array) -> Array:
    """Return the upper root R (K, K) of a covariance, S = R'R; a direction without variance has a row of zeros."""
    n = len(S)
    R: Array = np.triu(S)
    for j in range(n):
        # If the variance of direction j that remains given the earlier directions is only rounding of S_jj, it counts as 0.
        if not R[j, j] > n * EPS * S[j, j]:
            R[j] = 0.0
            continue
        R[j, j] = np.sqrt(R[j, j])
        R[j, j + 1 :] /= R[j, j]
        R[j + 1 :, j + 1 :] -= np.triu(np.outer(R[j, j + 1 :], R[j, j + 1 :]))
    return R


def mul(A: Array, B: Array) -> Array:
    """Return A B, with the sums running along the inner index one after another."""
    found = np.zeros((len(A), B.shape[1]))
    for k in range(len(B)):
        found += A[:, k, None] * B[k]
    return found


def tmul(A: Array, B: Array) -> Array:
    """Return A'B, summed in the same order."""
    found = np.zeros((A.shape[1], B.shape[1]))
    for k in range(len(B)):
        found += A[k][:, None] * B[k]
    return found


def vec(M: Array, x: Array) -> Array:
    """Return M'x."""
    found = np.zeros(M.shape[1])
    for k in range(len(x)):
        found += M[k] * x[k]
    return found


def forward(R: Array, B: Array) -> Array:
    """Return R⁻ᵀ B for upper R; rows without a pivot are 0."""
    X = B.copy()
    for j in range(len(R)):
        for k in range(j):
            X[j] -= R[k, j] * X[k]
        X[j] = X[j] / R[j, j] if R[j, j] > 0.0 else 0.0
    return X


def backward(R: Array, B: Array) -> Array:
    """Return R⁻¹ B for upper R; rows without a pivot are 0."""
    X = B.copy()
    for j in reversed(range(len(R))):
        for k in range(j + 1, len(R)):
            X[j] -= R[j, k] * X[k]
        X[j] = X[j] / R[j, j] if R[j, j] > 0.0 else 0.0
    return X


def mirrored(S: Array) -> Array:
    """Return the symmetric matrix with the upper triangle of S."""
    return np.triu(S) + np.triu(S, 1).T


def kalman_filter(
    TT: Array,
    AT: Array,
    Q: Array,
    start: Array,
    first: Array,
    offsets: Array,
    pattern: Array,
    z: Array,
    drift: Array,
    node: Array,
    edge_node: Array,
    edge_pattern: Array,
    edge_next: Array,
    covariance: Array,
    factor: Array,
    whiten: Array,
    gain: Array,
    pivots: Array,
    edge: Array,
    predicted: Array,
    filtered: Array,
    quadratic: Array,
    slots: Array,
) -> tuple[int, int]:
    """Filter sequences of N rows in all.  Returns (nodes, edges), or (−1, −1) if there is no room for as many.

    TT (p, K, K)  T' of each pattern.   AT (K, K)  A'.   Q (K, K).   start (K,), first (K, K)  moments of the first state.
    offsets (s + 1,)  bounds of the sequences.   pattern (N,).   z (N, K).   drift (N, K)  added to the state after the row.
    Outputs, with room for c edges and nodes: node (c, K, K) predicted covariances; edge_node, edge_pattern, edge_next (c,) int64;
    covariance, factor (c, K, K) P⁺ and U; whiten, gain (c, K, K) transposed, v = whiten'(z − T m) and m⁺ = m + gain'v;
    pivots (c, K) of G, Σ 2 log = log |I + F F'|; edge (N,) of each row; predicted, filtered (N, K) means; quadratic (N,) v'v.
    slots  (2, 2^i) int64 scratch, at least twice c long.
    """
    count, K = len(edge_node), len(Q)
    nodes: dict[bytes, int] = {}
    edges: dict[tuple[int, int], int] = {}
    one = np.eye(K)

    def node_of(P: Array) -> int:
        found = nodes.setdefault(P.tobytes(), len(nodes))
        if found < count:
            node[found] = P
        return found

    def make(at: int, which: int, place: int) -> bool:
        R = root(node[at])
        # S = I + T P T' = I + F F' = H'H and P⁺ = P − P T'S⁻¹T P = r'(I − F'(I + F F')⁻¹F) r = r'(I + F'F)⁻¹ r, by Woodbury; G'G = I +
        # F'F.  The gain is P T'S⁻¹ = r'F'H⁻¹ H⁻ᵀ, whose last factor is in v; |I + F F'| = |I + F'F| gives log |S| from the pivots of G.
        Ft = mul(R, TT[which])
        F = np.ascontiguousarray(Ft.T)
        H, G = root(tmul(Ft, Ft) + one), root(tmul(F, F) + one)
        W = backward(H, one)
        U = forward(G, R)
        P = tmul(U, U)
        step = mul(U, AT)
        edge_node[place], edge_pattern[place] = at, which
        covariance[place], factor[place], whiten[place] = P, U, W
        gain[place], pivots[place] = tmul(mul(Ft, W), R), np.diag(G)
        edge_next[place] = node_of(tmul(step, step) + Q)
        return bool(edge_next[place] < count)

    node_of(np.ascontiguousarray(first))
    for begin, end in pairwise(offsets.tolist()):
        at, mean = 0, start
        for t in range(begin, end):
            place = edges.get((at, int(pattern[t])), -1)
            if place < 0:
                place = edges[at, int(pattern[t])] = len(edges)
                if place >= count or not make(at, int(pattern[t]), place):
                    return -1, -1
            predicted[t], edge[t] = mean, place
            v = vec(whiten[place], z[t] - vec(TT[pattern[t]], mean))
            filtered[t] = mean + vec(gain[place], v)
            total = 0.0
            for item in v:
                total += item * item
            quadratic[t] = total
            mean = vec(AT, filtered[t]) + drift[t]
            at = int(edge_next[place])
    return len(nodes), len(edges)


def kalman_smoother(
    A: Array,
    Q: Array,
    offsets: Array,
    node: Array,
    edge_next: Array,
    covariance: Array,
    factor: Array,
    edges: int,
    edge: Array,
    drift: Array,
    filtered: Array,
    AT: Array,
    back: Array,
    rest: Array,
    after: Array,
    pair_edge: Array,
    pair_after: Array,
    pair_result: Array,
    lagged: Array,
    which: Array,
    pair: Array,
    smoothed: Array,
    slots: Array,
) -> tuple[int, int]:
    """Smooth the results of `kalman_filter`.  Returns (covariances, pairs), or (−1, −1) if there is no room for as many.

        J = P⁺A' (next P)⁻¹,   rest = (I − JA) P⁺ (I − JA)' + J Q J',   m = m⁺ + J (m_next − predicted),   P = rest + J P_next J'

    P is again a sum of squares.  A pair is an edge with the covariance after it.
    Outputs: back (c, K, K) J' and rest of each edge; after (c, K, K) smoothed covariances; pair_edge, pair_after, pair_result (c,) int64;
    lagged (c, K, K) Cov(x_{t+1}, x_t) of each pair; which (N,) the covariance of each row; pair (N,), −1 for the last row of a sequence;
    smoothed (N, K) means.  slots  as in `kalman_filter`.
    """
    count, K = len(pair_edge), len(Q)
    one = np.eye(K)
    found: dict[bytes, int] = {}
    pairs: dict[tuple[int, int], int] = {}
    for place in range(edges):
        R, U, P = root(node[edge_next[place]]), factor[place], covariance[place]
        # (next P)⁻¹ A P⁺ = R⁻¹ R⁻ᵀ (U A')'U is J'.  P⁺ − J (next P) J' = (I − JA)
        # P⁺ (I − JA)' + J Q J' puts a sum of squares in place of a difference.
        X = backward(R, forward(R, tmul(mul(U, AT), U)))
        D = one - tmul(A, X)
        back[place] = X
        rest[place] = mirrored(tmul(D, mul(P, D)) + tmul(X, mul(Q, X)))

    def number(P: Array) -> int:
        place = found.setdefault(P.tobytes(), len(found))
        if place < count:
            after[place] = P
        return place

    for begin, end in pairwise(offsets.tolist()):
        last = end - 1
        smoothed[last], pair[last] = filtered[last], -1
        now = number(covariance[edge[last]])
        if now >= count:
            return -1, -1
        which[last] = now
        for t in range(last - 1, begin - 1, -1):
            own = int(edge[t])
            place = pairs.get((own, now), -1)
            if place < 0:
                place = pairs[own, now] = len(pairs)
                if place >= count:
                    return -1, -1
                # x_t = filtered + J (x_{t+1} − predicted) + a part independent of x_{t+1}, so Cov(x_{t+1}, x_t | all) = P_next J'.
                lagged[place] = mul(after[now], back[own])
                pair_edge[place], pair_after[place] = own, now
                pair_result[place] = number(mirrored(tmul(back[own], lagged[place]) + rest[own]))
                if pair_result[place] >= count:
                    return -1, -1
            now = int(pair_result[place])
            which[t], pair[t] = now, place
            ahead = vec(AT, filtered[t]) + drift[t]
            smoothed[t] = filtered[t] + vec(back[own], smoothed[t + 1] - ahead)
    return len(found), len(pairs)
