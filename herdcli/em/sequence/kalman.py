"""Filtering and smoothing of sequences under a linear dynamical system, with controls and missing values.

    x_1 ~ N(μ, P),   x_{t+1} = A x_t + B u_t + a + N(0, Q),   y_t = C x_t + c + N(0, R)

Each row of outputs is first collapsed to K numbers, whatever the number of columns: with R = L L' and a thin QR of L⁻¹C = O T,

    z = O'L⁻¹(y − c) = T x + N(0, I),   |L⁻¹(y − c)|² = |z|² + |rest|²,

and the rest does not depend on x.  A missing value removes its row from C and R.  Source: Jungbacker & Koopman (2008), sec. 2, for the
collapse; Kalman (1960), Rauch, Tung & Striebel (1965) for the recursions; Makin, sec. 2.2.2.
"""

from __future__ import annotations

import numpy as np

from herdcli import fast
from herdcli.em.driver import Parameters
from herdcli.em.mixture.gaussian_densities import LOG_TAU
from herdcli.errors import Diverged
from herdcli.records import dataclass
from herdcli.schema import Array

ROOM = 512  # expected number of distinct covariances in long sequences; more memory is allocated when there are more
AMPLE = 1 << 20  # if one covariance per row takes at most this many numbers, all are allocated at once
PATTERNS = 1 << 18  # numbers in the matrices of patterns that are computed at one time
MANY = 16  # with more patterns of missing values than this, covariances hardly ever repeat
FEW = 4  # rows of different patterns are processed together if there are fewer rows per pattern than this


@dataclass(frozen=True)
class MissingPatterns:
    """The observed values of rows: boolean masks (p, D), and the index of each row's mask (n,)."""

    masks: Array
    which: Array

    @property
    def is_complete(self) -> bool:
        """Whether no value is missing."""
        return bool(self.masks.all())


def find_missing_patterns(Y: Array) -> MissingPatterns:
    """Return the patterns of missing values of rows (n, D), with that of complete rows first, if there are any."""
    there = ~np.isnan(Y)
    if there.all():
        return MissingPatterns(np.ones((1, Y.shape[1]), dtype=bool), np.zeros(len(Y), dtype=np.int64))
    packed = np.packbits(there, axis=1)
    _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return MissingPatterns(there[first], which.ravel().astype(np.int64))


@dataclass(frozen=True)
class CollapsedRows:
    """Collapsed rows: T' of each pattern (p, K, K), z (n, K), and the part of the log density without the state (n,)."""

    TT: Array
    z: Array
    log: Array


def masked_noise_cholesky(noise: Array, mask: Array) -> Array:
    """Return L (…, D, D) of R, with rows and columns of missing values replaced by those of the identity."""
    both = mask[..., :, None] & mask[..., None, :]
    return np.asarray(np.linalg.cholesky(np.where(both, noise, np.eye(len(noise)))))


def collapse_rows(parameters: Parameters, Y: Array, missing: MissingPatterns) -> CollapsedRows:
    """Return rows (n, D) collapsed, pattern by pattern."""
    C, R = parameters["loading"], parameters["noise"]
    (D, K), n, count = C.shape, len(Y), len(missing.masks)
    size = min(D, K)
    found = CollapsedRows(np.zeros((count, K, K)), np.zeros((n, K)), np.empty(n))
    E = Y - parameters["mean"]
    order = np.argsort(missing.which, kind="stable")
    bounds = np.searchsorted(missing.which[order], np.arange(count + 1))
    at_once = max(1, PATTERNS // (D * D))
    for first in range(0, count, at_once):
        mask = missing.masks[first : first + at_once]
        L = masked_noise_cholesky(R, mask)
        basis, T = np.linalg.qr(np.linalg.solve(L, C * mask[:, :, None]))
        found.TT[first : first + len(mask), :, :size] = T.transpose(0, 2, 1)
        # log|R| = 2 Σ log L_ii; a missing row has L_ii = 1, and no log 2π.
        constant = -0.5 * mask.sum(axis=1) * LOG_TAU - np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)
        inverse = np.linalg.inv(L)
        rows = order[bounds[first] : bounds[first + len(mask)]]
        local = missing.which[rows] - first
        if len(rows) < FEW * len(mask) or len(mask) == 1:
            _collapse_pattern_rows(E, mask, inverse, basis, constant, rows, local, found)
            continue
        for k in range(len(mask)):
            own = order[bounds[first + k] : bounds[first + k + 1]]
            _collapse_pattern_rows(
                E, mask[k : k + 1], inverse[k : k + 1], basis[k : k + 1], constant[k : k + 1], own, np.zeros(len(own), np.int64), found
            )
    return found


def _collapse_pattern_rows(
    E: Array, mask: Array, inverse: Array, basis: Array, constant: Array, rows: Array, local: Array, collapsed: CollapsedRows
) -> None:
    """Write z and the log density of some rows, which have one pattern in common or one pattern each."""
    size = basis.shape[2]
    if len(mask) == 1:
        e = E if len(rows) == len(E) and mask.all() else np.where(mask[0], E[rows], 0.0)
        white = e @ inverse[0].T
        z = white @ basis[0]
        rest = white - z @ basis[0].T
    else:
        e = np.where(mask[local], E[rows], 0.0)
        white = np.einsum("nij,nj->ni", inverse[local], e)
        z = np.einsum("nij,ni->nj", basis[local], white)
        rest = white - np.einsum("nij,nj->ni", basis[local], z)
    collapsed.z[rows, :size] = z
    collapsed.log[rows] = constant[local] - 0.5 * np.einsum("ni,ni->n", rest, rest)


@dataclass(frozen=True)
class FilteredStates:
    """The distributions of the states, each given all rows up to and including its own: means (n, K), and covariances (c, …).

    Rows with equal covariances share them.  A node is a covariance given the earlier rows only, an edge the update of a node by a row
    with a pattern of missing values.

    predicted       the means given the earlier rows only.
    log_likelihood  (n,) log p(y_t | y_<t).
    """

    predicted: Array
    mean: Array
    log_likelihood: Array
    edge: Array  # (n,) the edge of each row
    node: Array  # (nodes, K, K) covariances given the earlier rows only
    edge_node: Array
    edge_next: Array
    edge_covariance: Array  # (c, K, K)
    edge_factor: Array
    edges: int
    drift: Array  # (n, K)

    @property
    def covariance(self) -> Array:
        """The covariances (n, K, K) of the states, each given all rows up to and including its own."""
        return np.asarray(self.edge_covariance[self.edge])

    @property
    def predicted_covariance(self) -> Array:
        """The covariances (n, K, K) of the states, each given the earlier rows only."""
        return np.asarray(self.node[self.edge_node[self.edge]])


@dataclass(frozen=True)
class SmoothedStates:
    """The distributions of the states given all rows of their sequence: means (n, K), and indices into distinct covariances."""

    mean: Array
    which: Array  # (n,)
    pair: Array  # (n,), −1 for the last row of a sequence
    covariances: Array  # (f, K, K)
    lags: Array  # (p, K, K) Cov(x_{t+1}, x_t)

    @property
    def covariance(self) -> Array:
        """The covariances (n, K, K) of the states."""
        return np.asarray(self.covariances[self.which])

    @property
    def lag_one_covariance(self) -> Array:
        """The covariances (n, K, K) Cov(x_{t+1}, x_t), 0 for the last row of a sequence."""
        found: Array = self.lags[np.maximum(self.pair, 0)]
        return np.where((self.pair < 0)[:, None, None], 0.0, found)


def _allocate_covariance_slots(capacity: int) -> Array:
    return np.empty((2, 1 << max(4, (2 * capacity).bit_length())), dtype=np.int64)


def state_drift(parameters: Parameters, U: Array | None, rows: int) -> Array:
    """Return B u_t + a (n, K), the term added to the state after each row."""
    if U is None or not U.shape[1]:
        return np.ascontiguousarray(np.broadcast_to(parameters["drift"], (rows, len(parameters["drift"]))))
    found: Array = U @ parameters["control"].T
    found += parameters["drift"]
    return found


def filter_sequences(
    parameters: Parameters, Y: Array, offsets: Array, U: Array | None = None, missing: MissingPatterns | None = None
) -> FilteredStates:
    """Filter sequences: rows (n, D), NaN where a value is missing; offsets (s + 1,) of their beginnings; controls (n, m) or None.

    Raises Diverged if covariances overflow, as they do for an unstable A over a long gap.
    """
    missing = find_missing_patterns(Y) if missing is None else missing
    seen, drift, n = collapse_rows(parameters, Y, missing), state_drift(parameters, U, len(Y)), len(Y)
    K = len(parameters["process"])
    AT, Q = np.ascontiguousarray(parameters["transition"].T), np.ascontiguousarray(parameters["process"])
    edge, predicted, mean, quadratic = np.empty(n, np.int64), np.empty((n, K)), np.empty((n, K)), np.empty(n)
    most = n + 1
    room = most if len(missing.masks) > MANY or most * K * K <= AMPLE else min(ROOM, most)
    while True:
        node, covariance, factor, whiten, gain = (np.empty((room, K, K)) for _ in range(5))
        places = [np.empty(room, np.int64) for _ in range(3)]
        pivots = np.empty((room, K))
        problem = (seen.TT, AT, Q, parameters["start_mean"], parameters["start_covariance"], offsets, missing.which, seen.z, drift)
        tables = (
            node,
            *places,
            covariance,
            factor,
            whiten,
            gain,
            pivots,
            edge,
            predicted,
            mean,
            quadratic,
            _allocate_covariance_slots(room),
        )
        with np.errstate(over="ignore", invalid="ignore"):
            nodes, edges = fast.kalman_filter(*problem, *tables)
        if nodes >= 0 or room == most:
            break
        room = min(8 * room, most)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.log(pivots[:edges]).sum(axis=1)
        # log N(y; ŷ, S) of the collapsed outputs: −½ log|I + TPT'| is −Σ log of the pivots, −½ v'v is that of the whitened innovation; the
        # rest does not depend on the state.
        likelihood = seen.log - spread[edge] - 0.5 * quadratic
    if not np.isfinite(likelihood).all():
        row = int(np.argmin(np.isfinite(likelihood)))
        raise Diverged(
            f"the states overflow at row {row}: the model is unstable, and too many values in a row are missing", hint="fewer --components"
        )
    return FilteredStates(
        predicted, mean, likelihood, edge, node[:nodes], places[0][:edges], places[2][:edges], covariance, factor, edges, drift
    )


def smooth_sequences(parameters: Parameters, filtered: FilteredStates, offsets: Array) -> SmoothedStates:
    """Smooth the result of `filter_sequences`."""
    (n, K), A, Q = filtered.mean.shape, np.ascontiguousarray(parameters["transition"]), np.ascontiguousarray(parameters["process"])
    which, pair, mean = np.empty(n, np.int64), np.empty(n, np.int64), np.empty((n, K))
    back, rest = np.empty((filtered.edges, K, K)), np.empty((filtered.edges, K, K))
    room, most = min(max(ROOM, 2 * filtered.edges), n + 1), n + 1
    given = (
        filtered.node,
        filtered.edge_next,
        filtered.edge_covariance,
        filtered.edge_factor,
        filtered.edges,
        filtered.edge,
        filtered.drift,
        filtered.mean,
    )
    while True:
        after, lagged = np.empty((room, K, K)), np.empty((room, K, K))
        places = [np.empty(room, np.int64) for _ in range(3)]
        tables = (back, rest, after, *places, lagged, which, pair, mean, _allocate_covariance_slots(room))
        covariances, pairs = fast.kalman_smoother(A, Q, offsets, *given, np.ascontiguousarray(A.T), *tables)
        if covariances >= 0 or room == most:
            break
        room = min(8 * room, most)
    return SmoothedStates(mean, which, pair, after[:covariances], lagged[:pairs])
