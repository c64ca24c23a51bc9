"""The statistics of one minibatch, computed in blocks of rows by several threads or several processes.

A block consists of some rows of the minibatch and as many of its chains, with random numbers of its own.  Its results are the values v
above the chains' v~, and the means h above h~ of both; they depend on its number alone and not on who computes it.  The statistics
Σ v h' of all blocks are a product of these arrays, computed in slices of the visible units.  The boundaries of blocks and slices
depend on shapes alone, so that the bytes are the same on any number of threads.  A minibatch of fewer than 100 rows is one block and one
slice.

Blocks of 512 rows together are a group, whose statistics are added to those of the groups before: other processes can compute whole groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import TypeVar

import numpy as np

from herdcli.algorithm import Map
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.block_statistics import BlockStatistics as OfBlocks
from herdcli.numerics.block_statistics import RemoteSource
from herdcli.rbm import classification_rbm
from herdcli.rbm.learning import length_tempering, missing_values, parallel_tempering
from herdcli.rbm.learning.gradients import EXACT_PHASES, exact_likelihood_gradient
from herdcli.rbm.learning.learning_problem import BLOCK, SHARED, LearningProblem
from herdcli.rbm.learning.learning_state import LearningState
from herdcli.rbm.learning.phases import (
    BlockPhases,
    PhaseScratch,
    allocate_sparse_indices,
    contrastive_divergence_phases,
    persistent_contrastive_phases,
)
from herdcli.rbm.likelihood import tap
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.rbm.settings import RENEWED, Settings
from herdcli.rbm.units import unit_family
from herdcli.rbm.units.words import MultinomialLayer
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

T = TypeVar("T")
R = TypeVar("R")

ROWS = 64  # approximate rows of a block; there are two or four or six blocks, so that two threads have as many
SLICES = 4  # slices of the visible units
YOUNG = 40  # after few updates, the share YOUNG / (step + YOUNG) of the chains restarts; later one in RENEWED
FAIR = 10  # one in so many renewed chains starts at random hidden states instead of a row
RENEWAL_PART = 2**32  # stream of the missing entries of rows that renewed chains start at: no block has this number


@dataclass(frozen=True)
class BatchBlock:
    """One block: its number, its rows and chains of the minibatch, and the sections of PhaseScratch for its values and for its rows."""

    number: int
    rows: slice
    chains: slice
    both: slice
    once: slice


@lru_cache(maxsize=16)  # minibatches have one or two sizes
def split_minibatch(rows: int, chains: int) -> tuple[tuple[BatchBlock, ...], ...]:
    """Split a minibatch of this many rows and chains into blocks; those of one group are in memory together."""
    found: list[tuple[BatchBlock, ...]] = []
    number = 0
    for start in range(0, max(rows, chains), BLOCK):
        n, m = (min(max(total - start, 0), BLOCK) for total in (rows, chains))
        count = 1 if max(n, m) < SHARED else 2 * max(1, max(n, m) // (2 * ROWS))
        group, both, once = [], 0, 0
        for (a, b), (x, y) in zip(*(pairwise([start + i * size // count for i in range(count + 1)]) for size in (n, m)), strict=True):
            most = max(b - a, y - x)
            group.append(BatchBlock(number, slice(a, b), slice(x, y), slice(both, both + b - a + y - x), slice(once, once + most)))
            number, both, once = number + 1, both + b - a + y - x, once + most
        found.append(tuple(group))
    return tuple(found)


@lru_cache(maxsize=16)
def slice_visible_units(units: int, rows: int) -> tuple[slice, ...]:
    """Return slices of the visible units that several threads can update; one slice for few rows."""
    count = 1 if rows < SHARED else min(SLICES, units)
    return tuple(slice(*ends) for ends in pairwise(i * units // count for i in range(count + 1)))


@dataclass(frozen=True)
class BatchStatistics:
    """Statistics of the rows minus those of the second phase: b (D,), c (K,) float32, and those of pairs, which are computed on demand."""

    b: Array
    c: Array
    error: float  # summed squared reconstruction error of the rows
    hidden: Array  # (K,) mean of E[h | v] over the rows
    W: Array  # (D, K) memory for the pair statistics
    blocks: tuple[BlockPhases, ...] = ()  # blocks whose pairs are still to be computed; none: W has them
    v: Array | None = None  # (n + m, D), and h (n + m, K), of these blocks together
    h: Array | None = None
    chains: int = 0  # m, the chains of all blocks
    there: bool = False  # whether W already has pairs of earlier groups, to which these blocks are added
    integers: Array | None = None  # memory of the thread for sparse products, if all pairs are computed at once
    shown: tuple[tuple[Array, Array], ...] = ()  # visible values and hidden means of the chains of several groups, if requested

    def chain_values_and_means(self) -> tuple[Array, Array]:
        """Return the chains' visible values v~ (m, D) and hidden means E[h | v~] (m, K)."""
        if self.shown:
            v, h = map(np.concatenate, zip(*self.shown, strict=True))
            return v, h
        v, h = (np.concatenate([getattr(block, name)[block.rows :] for block in self.blocks]) for name in ("v", "h"))
        h *= np.float32(-self.chains)  # blocks store them divided by −m
        return v, h

    def pair_statistics(self, units: slice) -> Array:
        """Return the pair statistics of some visible units, (d, K)."""
        W: Array = self.W[units]
        if self.v is None or self.h is None or self.there:
            return W
        if not all(block.has_sparse_parts for block in self.blocks):
            return exact_arithmetic.matrix_product(self.v[:, units].T, self.h, out=W)
        most = max(max(block.rows, len(block.v) - block.rows) for block in self.blocks)
        room = self.integers if len(W) == len(self.W) and self.integers is not None else allocate_sparse_indices(most, len(W))
        for number, block in enumerate(self.blocks):
            block.add(W, units, room, first=number == 0)
        return W


@dataclass(frozen=True)
class RowGroup:
    """Rows (n, D) of a minibatch that are in memory together, with their persistent chains (m, K) if any.

    number  the number of their first block.
    """

    rows: Array
    chain: Array | None
    number: int


@dataclass
class MinibatchSource:
    """The groups of the current minibatch, as a source of blocks."""

    groups: list[RowGroup] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of groups."""
        return len(self.groups)

    def take(self, first: int, last: int) -> Iterator[RowGroup]:
        """Yield the groups first … last − 1."""
        yield from self.groups[first:last]


@dataclass(frozen=True)
class RemoteGroups:
    """Other processes that compute the groups of each minibatch."""

    minibatch: MinibatchSource
    spread: RemoteSource


@dataclass(frozen=True)
class UpdateContext(OfBlocks):
    """The parameters W (D, K), b (D,), c (K,) and settings that the blocks of one update need, in any process.

    counts  rows and chains of the minibatch.  driven  the parameters that move the chains, if fast weights are added to them.
    hidden  whether hidden means of the rows are requested.  betas, base  of chains at several temperatures.
    """

    settings: Settings
    W: Array
    b: Array
    c: Array
    step: int
    unit: int
    sweeps: int
    counts: tuple[int, int]
    reconstruct: bool
    hidden: bool
    driven: tuple[Array, Array, Array] | None = None
    betas: Array | None = None
    base: Array | None = None

    def compute_block_phases(self, rows: Array, chain: Array | None, scratch: PhaseScratch, number: int) -> BlockPhases:
        """Compute the phases of block `number`, of rows (n, D) and chains (m, K), which are updated in place."""
        settings, visible, hidden = self.settings, unit_family(self.settings.visible_units), unit_family(self.settings.hidden_units)
        draws = generator(settings.seed, Stream.GIBBS, unit=self.unit, step=self.step, part=number)
        own = GibbsSweeper(self.W, self.b, self.c, visible.layer(), hidden.layer(), draws)
        if visible.multinomial:
            own = replace(own, visible=MultinomialLayer(rows.sum(axis=1).astype(np.int64)))
        if chain is None:
            return contrastive_divergence_phases(own, rows, self.sweeps, self.counts[0], scratch, settings.mean_field)
        if settings.tempers_lengths:
            return length_tempering.length_tempered_phases(own, rows, chain, self.sweeps, self.counts[0], self.reconstruct, scratch)
        if self.betas is not None and self.base is not None:
            ladder = parallel_tempering.TemperatureLadder(self.betas, self.base, hidden)
            steps = (self.sweeps, self.step * self.sweeps)
            return parallel_tempering.tempered_phases(own, ladder, rows, chain, steps, self.counts, self.reconstruct, scratch)
        driving = own if self.driven is None else replace(own, W=self.driven[0], b=self.driven[1], c=self.driven[2])
        return persistent_contrastive_phases(own, driving, rows, chain, self.sweeps, self.counts, self.reconstruct, scratch)

    def bias_statistics(self, block: BlockPhases) -> tuple[Array, Array, Array]:
        """Return a block's contribution to the visible (D,) and hidden (K,) statistics, and the sum (K,) of its rows' hidden means."""
        # Positive minus negative phase as one product: rows weigh 1/n, chains −1/m.
        signs = np.full(len(block.v), -1.0 / self.counts[1], dtype=np.float32)
        signs[: block.rows] = 1.0 / self.counts[0]
        if block.shares is not None:
            signs[block.rows :] = block.shares
        # For word counts, hidden biases are equivalent to weights that all columns share, and have no gradient of their own.
        above = np.zeros_like(self.c) if unit_family(self.settings.visible_units).multinomial else np.add.reduce(block.h, axis=0)
        hidden = np.add.reduce(block.h[: block.rows], axis=0) if self.hidden else np.zeros_like(self.c)
        return exact_arithmetic.matrix_product(signs, block.v), above, hidden

    def make_batch_statistics(
        self, blocks: tuple[BlockPhases, ...], scratch: PhaseScratch, stop: int, sums: tuple[Array, Array, Array], error: float
    ) -> BatchStatistics:
        """Make the statistics of a group from its blocks, with pairs to be computed from the first `stop` rows of the scratch arrays.

        sums  the `bias_statistics` of all blocks so far, with their error.
        """
        b, c, hidden = sums
        v, h = scratch.v[:stop], scratch.h[:stop]
        return BatchStatistics(b, c, error, hidden, scratch.pairs, blocks, v, h, self.counts[1], integers=scratch.integers)

    def __call__(self, block: RowGroup) -> dict[str, Array]:
        """Compute a group's results: pairs W (D, K), the `bias_statistics` and error of each block, and its updated chains (m, K)."""
        chain = None if block.chain is None else block.chain.copy()
        parts = split_minibatch(len(block.rows), len(block.rows if chain is None else chain))[0]
        scratch = PhaseScratch.allocate(parts[-1].once.stop, *self.W.shape)
        made: list[BlockPhases] = []
        for part in parts:
            own = None if chain is None else chain[part.chains]
            made.append(
                self.compute_block_phases(block.rows[part.rows], own, scratch.section(part.both, part.once), block.number + part.number)
            )
        b, c, hidden = (np.stack(each) for each in zip(*map(self.bias_statistics, made), strict=True))
        statistics = self.make_batch_statistics(tuple(made), scratch, parts[-1].both.stop, (self.b, self.c, self.c), 0.0)
        for units in slice_visible_units(len(self.b), max(self.counts)):
            statistics.pair_statistics(units)
        found = {"W": scratch.pairs, "b": b, "c": c, "hidden": hidden, "error": np.array([each.error for each in made])}
        return found if chain is None else found | {"chain": chain}


def batch_statistics(
    problem: LearningProblem,
    state: LearningState,
    m: int,
    order: Array,
    step: int,
    *,
    reconstruct: bool,
    map: Map = map,
    remote_groups: RemoteGroups | None = None,
) -> BatchStatistics:
    """Compute the statistics of the rows in `order` (n,) minus those of model m's second phase.

    reconstruct  compute the error of persistent algorithms too.
    """
    if problem.settings.joint in ("discriminative", "hybrid"):
        return _discriminative_statistics(problem, state, m, order, step, reconstruct, map)
    return _likelihood_statistics(problem, state, m, order, step, reconstruct, map, remote_groups)


def _likelihood_statistics(
    problem: LearningProblem,
    state: LearningState,
    m: int,
    order: Array,
    step: int,
    reconstruct: bool,
    map: Map,
    remote_groups: RemoteGroups | None = None,
) -> BatchStatistics:
    """Compute the statistics of the log-likelihood of rows by the algorithm of the settings."""
    settings = problem.settings
    # Second phases without random numbers: exact sums, or the means of the TAP free energy.
    if settings.algorithm in EXACT_PHASES or settings.algorithm == "tap":
        rows, layers = _read_imputed_rows(problem, state, m, order, step).astype(np.float32), (problem.visible, problem.hidden)
        own = make_block_sweeper(problem, state, m, step)
        if state.chain is not None:
            sums = tap.tap_learning_gradient(own, layers, rows, state.chain[m], settings.sweeps(step / problem.updates(m)))
        elif settings.algorithm == "exact" and problem.known is not None:
            sums = exact_likelihood_gradient(own, *layers, rows, problem.known[m][order])
        else:
            sums = EXACT_PHASES[settings.algorithm](own, *layers, rows)
        return BatchStatistics(sums.b, sums.c, sums.error, sums.hidden, sums.W)
    n = len(order)
    chains = n if state.chain is None else problem.chains
    phases, groups = _make_update_context(problem, state, m, step, (n, chains), reconstruct), split_minibatch(n, chains)
    if remote_groups is not None:
        return _remote_statistics(problem, state, m, order, phases, groups, remote_groups)
    scratch = problem.scratch()
    b, c, hidden, error = np.zeros_like(state.b[m]), np.zeros_like(state.c[m]), np.zeros_like(state.c[m]), 0.0
    W, shown = scratch.pairs, []
    for group in groups:
        blocks = tuple(map_in_order(map, partial(_compute_block_phases, problem, state, m, order, phases, scratch), group))
        # Blocks are added in the order of their numbers, whichever thread computed them.
        for block in blocks:
            for total, more in zip((b, c, hidden), phases.bias_statistics(block), strict=True):
                total += more
            error += block.error
        _adapt_temperatures(state, m, blocks)
        statistics = phases.make_batch_statistics(blocks, scratch, group[-1].both.stop, (b, c, hidden), error)
        if len(groups) == 1:
            return statistics
        if settings.optimizer == "natural":
            shown.append(statistics.chain_values_and_means())  # copies: the next group's blocks use the same memory
        map_in_order(map, statistics.pair_statistics, slice_visible_units(len(b), max(n, chains)))
        W = scratch.pairs + W if group is not groups[0] else scratch.pairs.copy()
    return replace(statistics, W=W, there=True, shown=tuple(shown))


def _remote_statistics(
    problem: LearningProblem,
    state: LearningState,
    m: int,
    order: Array,
    phases: UpdateContext,
    groups: Sequence[Sequence[BatchBlock]],
    remote_groups: RemoteGroups,
) -> BatchStatistics:
    """Compute the same sums in the same order from groups that other processes compute."""
    sent = [(slice(group[0].rows.start, group[-1].rows.stop), slice(group[0].chains.start, group[-1].chains.stop)) for group in groups]
    remote_groups.minibatch.groups = [
        RowGroup(
            _read_imputed_rows(problem, state, m, order[rows], phases.step, group[0].number),
            None if state.chain is None else state.chain[m, chains],
            group[0].number,
        )
        for group, (rows, chains) in zip(groups, sent, strict=True)
    ]
    totals, error, W = (np.zeros_like(state.b[m]), np.zeros_like(state.c[m]), np.zeros_like(state.c[m])), 0.0, state.W[m]
    for number, (_, chains) in enumerate(sent):
        _, found = remote_groups.spread.sums(phases, number)[0]
        for total, name in zip(totals, ("b", "c", "hidden"), strict=True):
            for more in found[name]:
                total += more
        for more in found["error"].tolist():
            error += more
        if state.chain is not None:
            state.chain[m, chains] = found["chain"]
        W = found["W"] + W if number else found["W"]
    return BatchStatistics(*totals[:2], error, totals[2], W)


def select_batch_rows(problem: LearningProblem, state: LearningState, m: int, order: Array) -> Array:
    """Return rows of a model (n, D) float32, divided by the deviations if those are learned."""
    rows: Array = problem.rows[m][order].astype(np.float32)
    return rows if state.log_scale is None else rows * exact_arithmetic.exp(-state.log_scale[m])


def _discriminative_statistics(
    problem: LearningProblem, state: LearningState, m: int, order: Array, step: int, reconstruct: bool, map: Map
) -> BatchStatistics:
    """Compute the statistics of log p(y | v), with a share of those of log p(v, y) if learning is hybrid."""
    settings, own = problem.settings, make_block_sweeper(problem, state, m, step)
    found = classification_rbm.discriminative_gradient(own, problem.visible, problem.hidden, select_batch_rows(problem, state, m, order))
    if settings.joint == "hybrid":
        other, share = _likelihood_statistics(problem, state, m, order, step, reconstruct, map), np.float32(settings.generative_share)
        map_in_order(map, other.pair_statistics, slice_visible_units(len(found.b), len(order)))
        for name in ("W", "b", "c"):
            getattr(found, name)[...] += share * getattr(other, name)
    return BatchStatistics(found.b, found.c, found.error, found.hidden, found.W)


def _adapt_temperatures(state: LearningState, m: int, blocks: Sequence[BlockPhases]) -> None:
    """Adapt the temperatures to the refused exchanges of all blocks."""
    seen = [block.rejected for block in blocks if block.rejected is not None]
    if seen and state.betas is not None and state.rejected is not None:
        parallel_tempering.adapt_temperatures(state.betas[m], state.rejected[m], np.mean(seen, axis=0))


def map_in_order(map: Map, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return the results of `work` for all items in their order; a single item is computed in this thread."""
    return [work(items[0])] if len(items) == 1 else list(map(work, items))


def make_block_sweeper(problem: LearningProblem, state: LearningState, m: int, step: int, number: int = 0) -> GibbsSweeper:
    """Return the Gibbs sampler of model m in one block of one update."""
    draws = generator(problem.settings.seed, Stream.GIBBS, unit=problem.global_number(m), step=step, part=number)
    return GibbsSweeper(state.W[m], state.b[m], state.c[m], problem.visible.layer(), problem.hidden.layer(), draws)


def restart_some_chains(problem: LearningProblem, state: LearningState, m: int, order: Array, step: int) -> None:
    """Restart one in RENEWED chains of model m, in rotation, at hidden states given rows of the minibatch, order (n,).

    Without restarts chains can stay on the wrong side of a barrier that learning has raised.  The share of chains there then differs
    from that of the rows, and biases and weights keep growing from the difference.  So each chain restarts at a row after a hundred sweeps.
    If all did, nothing would show how much mass the model has in each region: with rows in two distant clouds all of it can end in either.
    So one in FAIR chains starts at hidden states that are on by a fair coin.  It moves to the side that the model favours, which learning
    then lowers; more such chains cost likelihood on real rows.
    """
    if state.chain is None:
        return
    count = min(max(-(-problem.chains // RENEWED), YOUNG * problem.chains // (step + YOUNG)), len(order))
    numbers = step * count + np.arange(count)
    fair = numbers % FAIR == FAIR - 1
    own = replace(
        make_block_sweeper(problem, state, m, step),
        draws=generator(problem.settings.seed, Stream.RENEWAL, unit=problem.global_number(m), step=step),
    )
    states = own.hidden.sample_unbiased_states((count, state.chain.shape[2]), own.draws)
    if not fair.all():
        rows = _read_imputed_rows(problem, state, m, order[: int((~fair).sum())], step, RENEWAL_PART).astype(np.float32)
        given = np.empty((len(rows), states.shape[1]), dtype=np.float32)
        own.hidden.sample(exact_arithmetic.matrix_product(rows, own.W), own.c, given, own.draws)
        states[~fair] = given
    state.chain[m, numbers % problem.chains] = states


def _make_update_context(
    problem: LearningProblem, state: LearningState, m: int, step: int, counts: tuple[int, int], reconstruct: bool
) -> UpdateContext:
    """Collect the parameters and settings that the blocks of an update of model m need."""
    settings = problem.settings
    return UpdateContext(
        settings,
        state.W[m],
        state.b[m],
        state.c[m],
        int(step),
        problem.global_number(m),
        settings.sweeps(step / problem.updates(m)),
        counts,
        reconstruct,
        state.hidden_mean is not None,
        _fast_chain_parameters(state, m),
        state.betas[m] if state.betas is not None else None,
        problem.base_rate_parameters_float32(m) if state.betas is not None else None,
    )


def _fast_chain_parameters(state: LearningState, m: int) -> tuple[Array, Array, Array] | None:
    """Return the parameters that move the chains, if fast weights are added to them; otherwise None."""
    if state.W_fast is None or state.b_fast is None or state.c_fast is None:
        return None
    return state.W[m] + state.W_fast[m], state.b[m] + state.b_fast[m], state.c[m] + state.c_fast[m]


def _read_imputed_rows(problem: LearningProblem, state: LearningState, m: int, order: Array, step: int, number: int = 0) -> Array:
    """Return rows as they are stored, divided by the deviations if those are learned, with missing entries sampled given the others."""
    if problem.known is not None:
        draws = generator(problem.settings.seed, Stream.MISSING, unit=problem.global_number(m), step=step + 1, part=number)
        return missing_values.sample_missing_entries(
            replace(make_block_sweeper(problem, state, m, step), draws=draws), problem.rows[m][order], problem.known[m][order]
        )
    rows: Array = problem.rows[m][order] if state.log_scale is None else select_batch_rows(problem, state, m, order)
    return rows


def _compute_block_phases(
    problem: LearningProblem, state: LearningState, m: int, order: Array, phases: UpdateContext, scratch: PhaseScratch, block: BatchBlock
) -> BlockPhases:
    """Compute the phases of one block whose rows and chains are in this process."""
    R = 1 if state.betas is None else state.betas.shape[1]
    chain = None if state.chain is None else state.chain[m, block.chains.start * R : block.chains.stop * R]
    return phases.compute_block_phases(
        _read_imputed_rows(problem, state, m, order[block.rows], phases.step, block.number),
        chain,
        scratch.section(block.both, block.once),
        block.number,
    )
