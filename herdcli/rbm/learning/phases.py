"""The two phases of a block of rows: statistics of the data minus statistics of the chain.

Contrastive divergence starts the chain at the rows, and the chain's values then mostly agree with them.
With the difference d = v~ − v the two products that involve v~ become

    v~W = vW + dW,      v'H − v~'H~ = v'(H − H~) − d'H~,

where vW is known already.  The cost of products with d and with v is proportional to their non-zero entries.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from herdcli import fast
from herdcli.numerics import exact_arithmetic
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.records import dataclass
from herdcli.schema import Array

SPARSE = 0.4  # a matrix is multiplied as a dense one if a larger share of its entries is not 0
KEPT = 99  # rows of the largest minibatch that is one block
WORTH = 2**20  # products with fewer multiplications than this are always dense


@dataclass(frozen=True)
class PhaseScratch:
    """Working arrays for blocks of up to R rows: float32 arrays, and integers."""

    v: Array  # (2R, D) visible values, the data's above the chain's
    h: Array  # (2R, K) hidden means in the same order, divided by the number of rows, negative for the chain
    hidden: Array  # (R, K) sampled hidden states
    visible: Array  # (R, D) visible means
    natural: Array  # (R, K) vW of the data, then H − H~
    difference: Array  # (R, D) v~ − v
    pairs: Array  # (D, K) pair statistics
    integers: Array  # the indices of sparse matrices, for products with them
    parts: dict[tuple[int, ...], PhaseScratch] = field(default_factory=dict, compare=False, repr=False)  # small parts that were asked for

    @classmethod
    def allocate(cls, R: int, D: int, K: int) -> PhaseScratch:
        """Return arrays for blocks of up to R rows of a model with D visible and K hidden units."""
        shapes = ((2 * R, D), (2 * R, K), (R, K), (R, D), (R, K), (R, D), (D, K))
        v, h, hidden, visible, natural, difference, pairs = (np.empty(shape, dtype=np.float32) for shape in shapes)
        return cls(v, h, hidden, visible, natural, difference, pairs, allocate_sparse_indices(R, D))

    def section(self, both: slice, rows: slice) -> PhaseScratch:
        """Return a view of the arrays for some rows: `both` selects from v and h, `rows` from the arrays with one row per data row."""
        key = (both.start, both.stop, rows.start, rows.stop)
        if (found := self.parts.get(key)) is None:
            once = (self.hidden[rows], self.visible[rows], self.natural[rows], self.difference[rows])
            integers = allocate_sparse_indices(rows.stop - rows.start, self.v.shape[1])
            found = PhaseScratch(self.v[both], self.h[both], *once, self.pairs, integers)
            if rows.stop <= KEPT:  # larger minibatches have several blocks, whose integers would add up
                self.parts[key] = found
        return found


@dataclass(frozen=True)
class BlockPhases:
    """The result of the phases of a block: v (n + m, D) and h (n + m, K) as in PhaseScratch, the n rows of the data first."""

    v: Array
    h: Array
    rows: int
    sparse: bool  # whether the rows of the data are sparse
    difference: Array | None  # (n, D) v~ − v if that is sparse
    error: float  # squared distance of the rows from E[v | h], h sampled given the rows; 0 if not requested
    total: Array | None = None  # (n, K) the sum of both halves of h, if the difference is sparse
    persistent: bool = False  # whether the chain did not start at the rows
    chain_sparse: bool = False  # whether the visible values of a persistent chain are sparse
    shares: Array | None = None  # (m,) weights of the chains, negative, if they are not equal
    rejected: Array | None = None  # (R − 1,) share of refused exchanges between neighbouring temperatures, NaN if none was tried

    @property
    def has_sparse_parts(self) -> bool:
        """Whether v'h is a sum of parts and at least one of them is sparse."""
        return self.difference is not None or (self.sparse and self.persistent)

    def pair_statistics(self, scratch: PhaseScratch) -> Array:
        """Compute v'h (D, K) over all rows, in `scratch.pairs`."""
        if not self.has_sparse_parts:
            return exact_arithmetic.matrix_product(self.v.T, self.h, out=scratch.pairs)
        self.add(scratch.pairs, slice(None), scratch.integers, first=True)
        return scratch.pairs

    def add(self, out: Array, units: slice, integers: Array, *, first: bool) -> None:
        """Add v'h of some visible units to `out` (units, K), if at least one part is sparse; first: start at 0."""
        if self.difference is None:
            chain, h = self.v[self.rows :, units].T, self.h[self.rows :]
            if first and self.chain_sparse:
                out.fill(0.0)
            elif first:
                exact_arithmetic.matrix_product(chain, h, out=out)
            elif not self.chain_sparse:
                out += exact_arithmetic.matrix_product(chain, h)
            if self.chain_sparse:
                fast.add_sparse_product(chain, h, out, integers)
            fast.add_sparse_product(self.v[: self.rows, units].T, self.h[: self.rows], out, integers)
            return
        assert self.total is not None
        data = self.v[: self.rows, units].T
        if first and not self.sparse:
            exact_arithmetic.matrix_product(data, self.total, out=out)
        elif not self.sparse:
            out += exact_arithmetic.matrix_product(data, self.total)
        else:
            if first:
                out.fill(0.0)
            fast.add_sparse_product(data, self.total, out, integers)
        fast.add_sparse_product(self.difference[:, units].T, self.h[self.rows :], out, integers)


def allocate_sparse_indices(R: int, D: int) -> Array:
    """Allocate memory for the indices of the entries of a sparse matrix (R, D) or of its transpose."""
    return np.empty(max(fast.sparse_scratch(R, D), fast.sparse_scratch(D, R)), dtype=np.int32)


def has_few_nonzeros(matrix: Array) -> bool:
    """Whether few enough entries of a float32 matrix (a, b) differ from 0."""
    return bool(np.count_nonzero(matrix.view(np.int32)) <= SPARSE * matrix.size)  # integers are counted faster; no entry is −0


def multiply_into(left: Array, right: Array, out: Array, sparse: bool, scratch: PhaseScratch) -> None:
    """Write left (a, b) right (b, w) to out (a, w); with `sparse` the cost is proportional to left's non-zero entries."""
    if sparse:
        out.fill(0.0)
        fast.add_sparse_product(left, right, out, scratch.integers)
    else:
        exact_arithmetic.matrix_product(left, right, out=out)


def contrastive_divergence_phases(
    sweeper: GibbsSweeper, rows: Array, steps: int, count: int, scratch: PhaseScratch, mean_field: str = "none"
) -> BlockPhases:
    """Compute the phases of CD-k on rows (n, D), which are part of a minibatch of `count`.

    mean_field  "visible": the chain's visible units are replaced by their means, in the statistics and for sampling hidden units
    (Teh 2003, sec. 3.4); "both": its hidden units too.
    """
    n = len(rows)
    v, h, states, means = scratch.v[: 2 * n], scratch.h[: 2 * n], scratch.hidden[:n], scratch.visible[:n]
    data, fantasy, natural, difference = v[:n], v[n:], scratch.natural[:n], scratch.difference[:n]
    worth = natural.size * v.shape[1] >= WORTH
    data[...] = rows
    data_sparse = worth and has_few_nonzeros(data)
    # Positive phase: E[h | v] of the rows, and h ~ P(h | v), eq. 3.3 of Teh (2003).
    multiply_into(data, sweeper.W, natural, data_sparse, scratch)
    h[:n] = natural
    if mean_field == "both":
        sweeper.hidden.means(h[:n], sweeper.c)
        states[...] = h[:n]
        h[:n] /= count
    else:
        sweeper.hidden.sample(h[:n], sweeper.c, states, sweeper.draws, scale=1.0 / count)
    error, sparse = 0.0, False
    for sweep in range(steps):
        # Reconstruction: v~ ~ P(v | h), then P(h | v~).  The last sweep needs the means alone; −1/n makes v'h the difference of eq. 3.4.
        if mean_field == "none":
            sweeper.update_visible(states, means, fantasy)
        else:
            sweeper.update_visible(states, fantasy)
            # `squared_distance_in_place` overwrites its input, so the chain keeps its own array.
            means[...] = fantasy
        if sweep == 0:
            error = squared_distance_in_place(means, data)
        np.subtract(fantasy, data, out=difference)
        sparse = worth and has_few_nonzeros(difference)
        if sparse:
            h[n:] = natural
            fast.add_sparse_product(difference, sweeper.W, h[n:], scratch.integers)
        else:
            exact_arithmetic.matrix_product(fantasy, sweeper.W, out=h[n:])
        if sweep < steps - 1 and mean_field == "both":
            sweeper.hidden.means(h[n:], sweeper.c)
            states[...] = h[n:]
        elif sweep < steps - 1:
            sweeper.hidden.sample(h[n:], sweeper.c, states, sweeper.draws)
        else:
            sweeper.hidden.means(h[n:], sweeper.c, scale=-1.0 / count)
    if not sparse:
        return BlockPhases(v, h, n, data_sparse, None, error)
    return BlockPhases(v, h, n, data_sparse, difference, error, np.add(h[:n], h[n:], out=natural))


def persistent_contrastive_phases(
    sweeper: GibbsSweeper,
    chain_sweeper: GibbsSweeper,
    rows: Array,
    chain: Array,
    steps: int,
    counts: tuple[int, int],
    reconstruct: bool,
    scratch: PhaseScratch,
) -> BlockPhases:
    """Compute the phases of persistent CD on rows (n, D) and chain (m, K), hidden states that are updated in place.

    chain_sweeper  the sampler that moves the chain: `sweeper`, or the same with fast weights added.
    counts  the total numbers of rows and of chains of the minibatch, of which these are a part.  reconstruct  compute the error.
    """
    n = len(rows)
    total = n + len(chain)
    v, h = scratch.v[:total], scratch.h[:total]
    error, sparse = write_data_phase(sweeper, rows, counts[0], reconstruct, scratch)
    shown, worth, chain_sparse = v[n:], chain.size * v.shape[1] >= WORTH, False
    for _ in range(steps):
        # Negative phase: the chains go on from the states of the last update instead of the rows (Tieleman 2008).
        chain_sweeper.update_visible(chain, scratch.visible[: len(chain)], shown)
        chain_sparse = worth and has_few_nonzeros(shown)
        multiply_into(shown, chain_sweeper.W, h[n:], chain_sparse, scratch)
        chain_sweeper.hidden.sample(h[n:], chain_sweeper.c, chain, chain_sweeper.draws, scale=-1.0 / counts[1])
    return BlockPhases(v, h, n, sparse, None, error, persistent=True, chain_sparse=chain_sparse)


def write_data_phase(sweeper: GibbsSweeper, rows: Array, count: int, reconstruct: bool, scratch: PhaseScratch) -> tuple[float, bool]:
    """Write rows (n, D) of a minibatch of `count` and their hidden means to the start of scratch.v and scratch.h.

    Returns their reconstruction error, if requested, and whether the rows are sparse.
    """
    n = len(rows)
    v, h, states = scratch.v[:n], scratch.h[:n], scratch.hidden[:n]
    v[...] = rows
    sparse = h.size * v.shape[1] >= WORTH and has_few_nonzeros(v)
    multiply_into(v, sweeper.W, h, sparse, scratch)
    if not reconstruct:
        sweeper.hidden.means(h, sweeper.c, scale=1.0 / count)
        return 0.0, sparse
    sweeper.hidden.sample(h, sweeper.c, states, sweeper.draws, scale=1.0 / count)
    means = scratch.visible[:n]
    sweeper.update_visible(states, means)
    return squared_distance_in_place(means, v), sparse


def squared_distance_in_place(means: Array, rows: Array) -> float:
    """Compute Σ (means − rows)² of two arrays (n, D), a number; overwrites `means`."""
    means -= rows
    return float(exact_arithmetic.dot(means, means))
