"""The two phases of a block of rows: statistics of the data minus statistics of the chain.

Contrastive divergence starts the chain at the rows, and what it then shows mostly agrees with them.
With the difference d = v~ − v the two products that involve v~ become

    v~W = vW + dW,      v'H − v~'H~ = v'(H − H~) − d'H~,

where vW is known already.  Products with d, and with v, cost what their non-zero entries cost.
"""

from __future__ import annotations

import numpy as np

from herdcli import fast
from herdcli.numerics import exact_arithmetic
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.records import dataclass
from herdcli.schema import Array

SPARSE = 0.4  # a matrix with a larger share of non-zero entries is multiplied densely
WORTH = 2**20  # as are all when a product takes fewer multiplications


@dataclass(frozen=True)
class PhaseScratch:
    """Working arrays for blocks of up to R rows: float32, and integers."""

    v: Array  # (2R, D) visible values, the data's above the chain's
    h: Array  # (2R, K) hidden means in the same order, divided by the number of rows, negative for the chain
    hidden: Array  # (R, K) sampled hidden states
    visible: Array  # (R, D) visible means
    natural: Array  # (R, K) vW of the data, then H − H~
    difference: Array  # (R, D) v~ − v
    pairs: Array  # (D, K) pair statistics
    integers: Array  # for products with sparse matrices

    @classmethod
    def of(cls, R: int, D: int, K: int) -> PhaseScratch:
        """Arrays for blocks of up to R rows of a model with D visible and K hidden units."""
        shapes = ((2 * R, D), (2 * R, K), (R, K), (R, D), (R, K), (R, D), (D, K))
        v, h, hidden, visible, natural, difference, pairs = (np.empty(shape, dtype=np.float32) for shape in shapes)
        return cls(v, h, hidden, visible, natural, difference, pairs, sparse_scratch(R, D))

    def part(self, both: slice, rows: slice) -> PhaseScratch:
        """The places of some rows alone: `both` of v and h, `rows` of what is there once for a row of the data and its chain."""
        once = (self.hidden[rows], self.visible[rows], self.natural[rows], self.difference[rows])
        return PhaseScratch(self.v[both], self.h[both], *once, self.pairs, sparse_scratch(rows.stop - rows.start, self.v.shape[1]))


@dataclass(frozen=True)
class PhaseBlock:
    """What the phases leave: v (n + m, D) and h (n + m, K) as in Scratch, the n rows of the data first."""

    v: Array
    h: Array
    rows: int
    sparse: bool  # whether the rows of the data are
    difference: Array | None  # (n, D) v~ − v if it is sparse
    error: float  # squared distance of the rows from E[v | h], h sampled given the rows; 0 if not asked for
    total: Array | None = None  # (n, K) the sum of both halves of h, if the difference is sparse
    persistent: bool = False  # whether the chain did not begin at the rows
    chain_sparse: bool = False  # of a persistent chain: whether what it shows is
    shares: Array | None = None  # (m,) what each of the chains counts for, negative, where it is not one of all
    rejected: Array | None = None  # (R − 1,) of chains at several temperatures: exchanges that were refused, NaN where none was tried

    @property
    def has_sparse_parts(self) -> bool:
        """Whether v'h is made of parts, of which one at least is sparse."""
        return self.difference is not None or (self.sparse and self.persistent)

    def pairs(self, scratch: PhaseScratch) -> Array:
        """v'h (D, K) over all rows, in `scratch.pairs`."""
        if not self.has_sparse_parts:
            return exact_arithmetic.product(self.v.T, self.h, out=scratch.pairs)
        self.add(scratch.pairs, slice(None), scratch.integers, first=True)
        return scratch.pairs

    def add(self, out: Array, units: slice, integers: Array, *, first: bool) -> None:
        """Add v'h of some visible units to `out` (units, K), of which a part at least is sparse; first: begin at 0."""
        if self.difference is None:
            chain, h = self.v[self.rows :, units].T, self.h[self.rows :]
            if first and self.chain_sparse:
                out.fill(0.0)
            elif first:
                exact_arithmetic.product(chain, h, out=out)
            elif not self.chain_sparse:
                out += exact_arithmetic.product(chain, h)
            if self.chain_sparse:
                fast.add_sparse_product(chain, h, out, integers)
            fast.add_sparse_product(self.v[: self.rows, units].T, self.h[: self.rows], out, integers)
            return
        assert self.total is not None
        data = self.v[: self.rows, units].T
        if first and not self.sparse:
            exact_arithmetic.product(data, self.total, out=out)
        elif not self.sparse:
            out += exact_arithmetic.product(data, self.total)
        else:
            if first:
                out.fill(0.0)
            fast.add_sparse_product(data, self.total, out, integers)
        fast.add_sparse_product(self.difference[:, units].T, self.h[self.rows :], out, integers)


def sparse_scratch(R: int, D: int) -> Array:
    """Room for the places of the entries of a sparse matrix (R, D) or of its transpose."""
    return np.empty(max(fast.sparse_scratch(R, D), fast.sparse_scratch(D, R)), dtype=np.int32)


def has_few_nonzeros(matrix: Array) -> bool:
    """Whether few enough entries of a float32 matrix (a, b) differ from 0."""
    return bool(np.count_nonzero(matrix.view(np.int32)) <= SPARSE * matrix.size)  # integers are counted faster; no entry is −0


def multiply(left: Array, right: Array, out: Array, sparse: bool, scratch: PhaseScratch) -> None:
    """out (a, w) ← left (a, b) right (b, w); with `sparse` at the cost of left's non-zero entries."""
    if sparse:
        out.fill(0.0)
        fast.add_sparse_product(left, right, out, scratch.integers)
    else:
        exact_arithmetic.product(left, right, out=out)


def contrastive_phases(
    sweeper: GibbsSweeper, rows: Array, steps: int, count: int, scratch: PhaseScratch, mean_field: str = "none"
) -> PhaseBlock:
    """The phases of CD-k on rows (n, D), which are part of a minibatch of `count`.

    mean_field  "visible": the chain's visible units are their means, in the statistics and where hidden units are sampled
    (Teh 2003, sec. 3.4); "both": its hidden units too.
    """
    n = len(rows)
    v, h, states, means = scratch.v[: 2 * n], scratch.h[: 2 * n], scratch.hidden[:n], scratch.visible[:n]
    data, fantasy, natural, difference = v[:n], v[n:], scratch.natural[:n], scratch.difference[:n]
    worth = natural.size * v.shape[1] >= WORTH
    data[...] = rows
    data_sparse = worth and has_few_nonzeros(data)
    multiply(data, sweeper.W, natural, data_sparse, scratch)
    h[:n] = natural
    if mean_field == "both":
        sweeper.hidden.means(h[:n], sweeper.c)
        states[...] = h[:n]
        h[:n] /= count
    else:
        sweeper.hidden.sample(h[:n], sweeper.c, states, sweeper.draws, scale=1.0 / count)
    error, sparse = 0.0, False
    for sweep in range(steps):
        if mean_field == "none":
            sweeper.down(states, means, fantasy)
        else:
            sweeper.down(states, fantasy)
            # `squared_distance` overwrites what it is given; the chain keeps its own.
            means[...] = fantasy
        if sweep == 0:
            error = squared_distance(means, data)
        np.subtract(fantasy, data, out=difference)
        sparse = worth and has_few_nonzeros(difference)
        if sparse:
            h[n:] = natural
            fast.add_sparse_product(difference, sweeper.W, h[n:], scratch.integers)
        else:
            exact_arithmetic.product(fantasy, sweeper.W, out=h[n:])
        if sweep < steps - 1 and mean_field == "both":
            sweeper.hidden.means(h[n:], sweeper.c)
            states[...] = h[n:]
        elif sweep < steps - 1:
            sweeper.hidden.sample(h[n:], sweeper.c, states, sweeper.draws)
        else:
            sweeper.hidden.means(h[n:], sweeper.c, scale=-1.0 / count)
    if not sparse:
        return PhaseBlock(v, h, n, data_sparse, None, error)
    return PhaseBlock(v, h, n, data_sparse, difference, error, np.add(h[:n], h[n:], out=natural))


def persistent_phases(
    sweeper: GibbsSweeper,
    driving: GibbsSweeper,
    rows: Array,
    chain: Array,
    steps: int,
    counts: tuple[int, int],
    reconstruct: bool,
    scratch: PhaseScratch,
) -> PhaseBlock:
    """The phases of persistent CD on rows (n, D) and chain (m, K), hidden states that are moved on in place.

    driving  moves the chain and is the same as `sweeper`, or has fast weights added.
    counts  rows of the minibatch and chains in all, of which these are parts.  reconstruct  take the error.
    """
    n = len(rows)
    total = n + len(chain)
    v, h = scratch.v[:total], scratch.h[:total]
    error, sparse = data_phase(sweeper, rows, counts[0], reconstruct, scratch)
    shown, worth, chain_sparse = v[n:], chain.size * v.shape[1] >= WORTH, False
    for _ in range(steps):
        driving.down(chain, scratch.visible[: len(chain)], shown)
        chain_sparse = worth and has_few_nonzeros(shown)
        multiply(shown, driving.W, h[n:], chain_sparse, scratch)
        driving.hidden.sample(h[n:], driving.c, chain, driving.draws, scale=-1.0 / counts[1])
    return PhaseBlock(v, h, n, sparse, None, error, persistent=True, chain_sparse=chain_sparse)


def data_phase(sweeper: GibbsSweeper, rows: Array, count: int, reconstruct: bool, scratch: PhaseScratch) -> tuple[float, bool]:
    """Rows (n, D) of a minibatch of `count` and their hidden means, first in scratch.v and scratch.h; their error if asked for.

    Also whether the rows are sparse.
    """
    n = len(rows)
    v, h, states = scratch.v[:n], scratch.h[:n], scratch.hidden[:n]
    v[...] = rows
    sparse = h.size * v.shape[1] >= WORTH and has_few_nonzeros(v)
    multiply(v, sweeper.W, h, sparse, scratch)
    if not reconstruct:
        sweeper.hidden.means(h, sweeper.c, scale=1.0 / count)
        return 0.0, sparse
    sweeper.hidden.sample(h, sweeper.c, states, sweeper.draws, scale=1.0 / count)
    means = scratch.visible[:n]
    sweeper.down(states, means)
    return squared_distance(means, v), sparse


def squared_distance(means: Array, rows: Array) -> float:
    """Σ (means − rows)² of two arrays (n, D), a number; overwrites `means`."""
    means -= rows
    return float(exact_arithmetic.dot(means, means))
