"""k-means: Lloyd's iterations with Hamerly's bounds, and minibatches.

It is the mixture of Gaussians with covariances I/λ as λ → ∞: responsibilities become one-hot on the nearest mean, weights drop
out, and λ⁻¹ F becomes half the sum of squared distances (SSE).  The ledger holds −SSE where other models have a log-likelihood.
Source: Lloyd (1982); Makin, sec. 6.4.1; Hamerly (2010), "Making k-means even faster"; Sculley (2010) for minibatches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

import numpy as np

from herdcli import fast
from herdcli.algorithm import HasStateShapes, Map, RunProgress
from herdcli.em.driver import EMFit, ObjectiveHistory, Parameters
from herdcli.em.mixture import cluster_initialization
from herdcli.errors import BadUsage, DataError
from herdcli.numerics.block_statistics import (
    BLOCK,
    BlockSource,
    BlockStatistics,
    RowBlock,
    RowMoments,
    RowReader,
    Sums,
    SumTree,
    add_next_blocks,
    blocks_per_step,
    row_moments,
    sample_rows,
)
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array

SLACK = 1e-9  # tolerance for distances that are compared by their bounds
TIE = 1e-10  # if squared distances differ by less, relative to squared norms, matrix products cannot tell the nearer centre
SLAB = 1024  # rows per slab, whose distances stay in the cache
LARGEST_SINGLE = 1 << 24  # clusters whose numbers are exact in float32
TINY = 1e-25  # squared centres below this, or above its reciprocal, are not computed in float32
DOUBTFUL = 0.25  # share of a slab
RUN, RUNS = 64, 32  # a minibatch is RUNS runs of RUN neighbouring rows


@dataclass
class HamerlyBounds:
    """Bounds for the rows of a block: nearest centre, upper bound of its distance, and lower bound of all other distances.

    They hold for the centres `centre`.
    """

    centre: Array  # (K, D)
    nearest: Array  # (m,)
    upper: Array  # (m,)
    lower: Array  # (m,)


@dataclass(frozen=True)
class AssignmentSums(BlockStatistics):
    """The statistics of a block: count (K,), first (K, D) about the mean of all rows, mass, and −SSE as log_likelihood.

    centre (K, D) is also relative to that mean;  mean (D,).
    """

    centre: Array
    mean: Array

    def __call__(self, block: RowBlock) -> Sums:
        """Return the sums of a block, with the nearest centres found from all distances."""
        Z = block.X - self.mean
        return self.sums(block, Z, nearest_centres_with_bounds(Z, self.centre)[0])

    def sums(self, block: RowBlock, Z: Array, nearest: Array) -> Sums:
        """Return the sums of a block whose rows Z (m, D), relative to the mean, have these nearest centres (m,)."""
        centre = self.centre
        w = np.ones(len(Z)) if block.weight is None else block.weight
        count, first, squares = cluster_sums(Z, w, nearest, len(centre))
        # Σ w |z − c|² = Σ w |z|² + Σ_k c_k'(n_k c_k − 2 Σ_k w z), without another loop over rows and centres
        squares += float((centre * (count[:, None] * centre - 2.0 * first)).sum())
        return {"count": count, "first": first, "mass": np.array([w.sum()]), "log_likelihood": np.array([min(0.0, -squares)])}


@dataclass(frozen=True)
class KMeans:
    """The k-means model for `driver.EM`, made by `prepare_kmeans`.  Parameters: centre (K, D).

    `bounds` only saves time: without an entry for a block all its distances are computed, with the same result.
    """

    clusters: int
    found: RowMoments
    source: BlockSource
    init: str
    seed: int
    given: Array | None = None
    bounded: bool = True
    bounds: dict[int, HamerlyBounds] = field(default_factory=dict, compare=False)

    def start(self, restart: int) -> Parameters:
        """Return centres from greedy k-means++, random rows, or the given ones."""
        self.bounds.clear()
        if self.given is not None:
            return {"centre": self.given.copy()}
        random = generator(self.seed, Stream.EM_START, unit=restart)
        rows = sample_rows(self.source, random, self.found.rows)
        return {"centre": cluster_initialization.initial_centres(rows, self.clusters, self.init, random, np.ones(len(self.found.mean)))}

    def expect(self, parameters: Parameters) -> Callable[[RowBlock], Sums]:
        """Return the E step, which uses the bounds of a block where they are kept."""
        plain = AssignmentSums(parameters["centre"] - self.found.mean, self.found.mean)
        if not self.bounded:
            return plain
        centre = plain.centre
        apart = squared_distances(centre, centre)
        np.fill_diagonal(apart, np.inf)
        half = 0.5 * np.sqrt(apart.min(axis=1))

        def statistics(block: RowBlock) -> Sums:
            Z = block.X - self.found.mean
            return plain.sums(block, Z, self._nearest_centres(block.first, Z, centre, half))

        return statistics

    def _nearest_centres(self, block: int, Z: Array, centre: Array, half: Array) -> Array:
        """Return the nearest centres (m,), using the bounds of the block if it has any.

        A row keeps its nearest centre, at most u away, if every other centre is at least l > u away, or if no other centre lies
        within 2u of it.  If centres moved by δ_k, the bounds become u + δ_nearest and l − max δ.
        """
        held = self.bounds.get(block)
        if held is None:
            nearest, upper, lower = nearest_centres_with_bounds(Z, centre)
            self.bounds[block] = HamerlyBounds(centre, nearest, upper, lower)
            return nearest
        drift = np.sqrt(np.square(centre - held.centre).sum(axis=1))
        held.upper += drift[held.nearest]
        held.lower -= drift.max()
        held.centre = centre
        # Where |z − c| ≤ ½ |c − c'|, |z − c'| ≥ |c − c'| − |z − c| ≥ |z − c|: no other centre is nearer, whatever its own bound says.
        safe = np.maximum(half[held.nearest], held.lower) * (1.0 - SLACK)
        doubtful = np.flatnonzero(held.upper >= safe)
        held.upper[doubtful] = np.sqrt(np.square(Z[doubtful] - centre[held.nearest[doubtful]]).sum(axis=1)) * (1.0 + SLACK)
        doubtful = doubtful[held.upper[doubtful] >= safe[doubtful]]
        if len(doubtful):
            held.nearest[doubtful], held.upper[doubtful], held.lower[doubtful] = nearest_centres_with_bounds(Z[doubtful], centre)
        return held.nearest

    def complete_statistics(self, parameters: Parameters, sums: Sums) -> Sums:
        """Return the statistics and the centres of the assignment."""
        return sums | {"centre": parameters["centre"]}

    def expected_log_likelihood(self, parameters: Parameters, sums: Sums) -> float:
        """Return −Σ |x − c'|² of the assignment: the error at its centres c plus Σ_k n_k (|c' − x̄_k|² − |c − x̄_k|²), negated."""
        used = sums["count"] > 0
        count = sums["count"][used]
        mean = self.found.mean + sums["first"][used] / count[:, None]
        after = np.square(parameters["centre"][used] - mean).sum(axis=1)
        before = np.square(sums["centre"][used] - mean).sum(axis=1)
        return float(sums["log_likelihood"][0] - (count * (after - before)).sum())

    def maximise(self, parameters: Parameters, sums: Sums) -> tuple[Parameters, int]:
        """Move each centre to the mean of its rows; a centre without rows stays."""
        used = sums["count"] > 0
        centre = parameters["centre"].copy()
        centre[used] = self.found.mean + sums["first"][used] / sums["count"][used, None]
        return {"centre": centre}, 0

    def penalty(self, parameters: Parameters) -> float:
        """Return 0."""
        return 0.0

    def memory(self) -> int:
        """Return the bytes of the sums and the bounds."""
        D, rows = len(self.found.mean), min(BLOCK, self.found.rows)
        return 8 * (self.clusters * (D + SLAB) + 3 * BLOCK + 2 * rows * D)

    def initialisation_memory(self) -> int:
        """Return the bytes needed for finding initial centres."""
        return cluster_initialization.initialisation_bytes(self.found, self.clusters)


def squared_distances(Z: Array, centre: Array) -> Array:
    """Return the squared distances (m, K) of rows (m, D) from centres (K, D), from differences."""
    found = np.empty((len(Z), len(centre)))
    for k, other in enumerate(centre):
        found[:, k] = np.square(Z - other).sum(axis=1)
    return found


def cluster_sums(Z: Array, w: Array, nearest: Array, clusters: int) -> tuple[Array, Array, float]:
    """Return the weight (K,) and weighted sum (K, D) of the rows Z (m, D) of each cluster, and Σ w |z|².

    w  (m,) weights.  nearest  (m,) int64 clusters of the rows.
    """
    count, first = np.zeros(clusters), np.zeros((clusters, Z.shape[1]))
    rows, weights = np.ascontiguousarray(Z, dtype=np.float64), np.ascontiguousarray(w, dtype=np.float64)
    return count, first, fast.add_cluster_rows(rows, nearest, weights, count, first)


def nearest_centres_with_bounds(Z: Array, centre: Array) -> tuple[Array, Array, Array]:
    """Return the nearest of the centres (K, D) for rows (m, D), an upper bound of its distance, and a lower bound of all others.

    The lowest index wins ties.
    |z − c|² = |z|² − 2 z·c + |c|² from one product: in float32, in float64 where its rounding could decide, and there from differences
    where that of float64 could.
    """
    centre = np.asarray(centre, dtype=np.float64)
    nearest, upper, lower = np.empty(len(Z), dtype=np.int64), np.empty(len(Z)), np.empty(len(Z))
    squares = np.square(centre).sum(axis=1)
    single = len(centre) <= LARGEST_SINGLE and TINY < float(squares.max()) < 1.0 / TINY
    for start in range(0, len(Z), SLAB):
        part = slice(start, start + SLAB)
        rows = Z[part]
        if not single:
            nearest[part], upper[part], lower[part] = _two_nearest_centres(rows, centre, squares, np.float64)
            continue
        nearest[part], upper[part], lower[part] = _two_nearest_centres(rows, centre, squares, np.float32)
        doubtful = start + np.flatnonzero(~(lower[part] > upper[part]))
        if len(doubtful):
            nearest[doubtful], upper[doubtful], lower[doubtful] = _two_nearest_centres(Z[doubtful], centre, squares, np.float64)
        single = len(doubtful) < DOUBTFUL * len(rows)  # else float64 alone is faster
    return nearest, upper, lower


def _two_nearest_centres(rows: Array, centre: Array, squares: Array, dtype: type[np.float32 | np.float64]) -> tuple[Array, Array, Array]:
    """Return `nearest_centres_with_bounds` of at most SLAB rows from a product in `dtype`; squares  (K,) |c|².

    In float32 bounds that overlap mean that the nearest centre is not known.
    """
    best, first, second = found = np.empty((3, len(rows)), dtype=dtype)
    product = np.matmul((-2.0 * centre).astype(dtype), rows.T.astype(dtype))
    fast.nearest_two(product, squares.astype(dtype), best, first, second)
    own = np.einsum("nd,nd->n", rows, rows)
    nearest = best.astype(np.int64)
    if dtype is np.float64:
        error = TIE * (own + squares.max())
        close = np.flatnonzero(second - first <= error)
        if len(close):
            nearest[close] = squared_distances(rows[close], centre).argmin(axis=1)
    else:
        # Each of D products and sums is rounded once, and so are the factors: |2 z·c| ≤ |z|² + |c|².
        error = (rows.shape[1] + 4) * float(np.finfo(np.float32).eps) * (own + squares.max())
    return nearest, np.sqrt(np.maximum(own + found[1] + error, 0.0)), np.sqrt(np.maximum(own + found[2] - error, 0.0))


def prepare_kmeans(
    source: BlockSource,
    clusters: int,
    *,
    init: str = "kmeans++",
    seed: int = 0,
    start_centres: Array | None = None,
    bounded: bool = True,
    map: Map = map,
) -> KMeans:
    """Return a k-means model for the rows of a source.  Raises DataError for missing values and fewer rows than clusters."""
    if clusters < 1:
        raise BadUsage("there must be at least 1 cluster")
    found = row_moments(source, map)
    if found.missing:
        message = f"{found.missing} values are missing, which k-means cannot use"
        raise DataError(message, hint="use --model gmm --covariance spherical, which handles missing values")
    if found.rows < clusters:
        raise DataError(f"{found.rows} rows are too few for {clusters} clusters", hint=f"use --components {found.rows} or fewer")
    if start_centres is not None and start_centres.shape != (clusters, len(found.mean)):
        raise DataError(f"the initial model has centres of shape {start_centres.shape}, expected {(clusters, len(found.mean))}")
    return KMeans(clusters, found, source, init, seed, start_centres, bounded)


@dataclass
class BatchState:
    """Centres and the weight of the rows behind each; after the last batch, the tree of sums of the evaluation pass."""

    step: int
    centre: Array = array("K D", "centres", kind="f")
    taken: Array = array("K", "weight of the rows behind each", kind="f")
    sizes: list[int] = field(default_factory=list)
    sums: list[dict[str, Array]] = field(default_factory=list)
    error: float = 0.0  # mean squared distance of the last batch from its nearest centres, before the update


@dataclass(frozen=True)
class MiniBatch(HasStateShapes[BatchState]):
    """k-means by minibatches: c_k ← c_k + (w / taken_k)(x − c_k) for the rows of each batch; the last centres are the result.

    A batch is RUNS runs of RUN neighbouring rows, so that a file of any size is read in few places.  One pass over all rows follows,
    some blocks per step, to compute the squared error of the result.
    """

    rows: RowReader
    model: KMeans
    batches: int
    map: Map = map
    state = BatchState  # the type of its states

    def init(self) -> BatchState:
        """Return the initial centres, with no rows behind them."""
        centre = self.model.start(0)["centre"]
        return BatchState(0, centre, np.zeros(len(centre)))

    def state_template(self) -> BatchState:
        """Return a state with the right shapes and without initial centres."""
        return BatchState(0, np.zeros((self.model.clusters, self.rows.columns)), np.zeros(self.model.clusters))

    def step(self, state: BatchState) -> BatchState:
        """Process one minibatch, or some blocks of the final pass."""
        state.step += 1
        return self._process_minibatch(state) if state.step <= self.batches else self._evaluate_blocks(state)

    def _process_minibatch(self, state: BatchState) -> BatchState:
        random = generator(self.model.seed, Stream.MINIBATCH, step=state.step - 1)
        starts_at = random.integers(max(1, self.rows.count - RUN + 1), size=RUNS)
        blocks = [self.rows.read(int(at), min(int(at) + RUN, self.rows.count)) for at in starts_at]
        X = np.concatenate([block.X for block in blocks])
        w = np.concatenate([np.ones(len(block.X)) if block.weight is None else block.weight for block in blocks])
        nearest = nearest_centres_with_bounds(X, state.centre)[0]
        errors = np.square(X - state.centre[nearest]).sum(axis=1)
        state.error = float(w @ errors / max(float(w.sum()), np.finfo(float).tiny))
        mass, sums, _ = cluster_sums(X, w, nearest, len(state.centre))
        used = mass > 0
        state.taken += mass
        state.centre[used] += (sums[used] - mass[used, None] * state.centre[used]) / state.taken[used, None]
        return state

    def _evaluate_blocks(self, state: BatchState) -> BatchState:
        tree, source = SumTree(state.sizes, state.sums), self.model.source
        add_next_blocks(tree, source, self.model.expect({"centre": state.centre}), self.map)
        return state

    def done(self, state: BatchState) -> bool:
        """Return whether all batches and the pass after them have ended."""
        return state.step >= self.batches and sum(state.sizes) >= self.model.source.count

    def memory(self) -> int:
        """Return the bytes of a batch and its distances, and of the sums of the pass."""
        batch = 8 * RUN * RUNS * (self.rows.columns + self.model.clusters)
        return batch + self.model.memory() * (blocks_per_step(self.model.source) + self.model.source.count.bit_length())

    def progress(self, state: BatchState) -> RunProgress:
        """Return the number of batches and parts of the pass so far, with the squared error of the last batch."""
        figure = f"squared error {state.error:.5g}" if state.step else ""
        return RunProgress(state.step, self.batches + -(-self.model.source.count // blocks_per_step(self.model.source)), figure)

    def result(self, state: BatchState) -> EMFit:
        """Return the centres with their squared error, as a run without an M step."""
        sums = SumTree(state.sizes, state.sums).total_sums()
        mass = float(sums["mass"][0])
        reached = sums["log_likelihood"] / mass
        ledger = ObjectiveHistory(reached, -reached, np.zeros(1), np.zeros(1, dtype=np.int64))
        ended = np.ones(1, dtype=bool)  # by reaching the number of batches, the only stopping criterion
        return EMFit({"centre": state.centre}, ledger, reached, np.zeros(1, dtype=np.int64), ended, 0, mass)
