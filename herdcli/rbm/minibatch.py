"""The statistics of one minibatch in blocks of rows that several threads, or several processes, may take.

A block is some rows of the minibatch and as many of its chains, with random numbers of its own: what it shows, values v above chains v~
and means h above h~ of both, depends on its number alone and not on who takes it.  The statistics Σ v h' of all blocks are a product
of these arrays, made in slices of the visible units; where blocks and slices are cut depends on shapes alone, so that the bytes are the
same on any number of threads.  A minibatch of fewer than 100 rows is one block and one slice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TypeVar

import numpy as np

from herdcli.numerics import real
from herdcli.rbm import labels, tap, tempering
from herdcli.rbm.gibbs import Drawings, Sweeper, layer
from herdcli.rbm.gradients import EXACT_PHASES
from herdcli.rbm.likelihood import Map
from herdcli.rbm.phases import Block, Scratch, contrastive, integers, persistent
from herdcli.rbm.problem import BLOCK, SHARED, Problem
from herdcli.rbm.state import State
from herdcli.rbm.units import Words
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

T = TypeVar("T")
R = TypeVar("R")

ROWS = 64  # of a block, about; blocks are two or four or six, so that two threads have as many
SLICES = 4  # of the visible units


@dataclass(frozen=True)
class Part:
    """One block: its number, its rows and chains of the minibatch, and where in Scratch its values and what it has once for a row stand."""

    number: int
    rows: slice
    chains: slice
    both: slice
    once: slice


def cut(rows: int, chains: int) -> list[list[Part]]:
    """The blocks of a minibatch of so many rows and chains; those of one list are in memory together."""
    found: list[list[Part]] = []
    number = 0
    for start in range(0, max(rows, chains), BLOCK):
        n, m = (min(max(total - start, 0), BLOCK) for total in (rows, chains))
        count = 1 if max(n, m) < SHARED else 2 * max(1, max(n, m) // (2 * ROWS))
        together, both, once = [], 0, 0
        for (a, b), (x, y) in zip(*(pairwise([start + i * size // count for i in range(count + 1)]) for size in (n, m)), strict=True):
            most = max(b - a, y - x)
            together.append(Part(number, slice(a, b), slice(x, y), slice(both, both + b - a + y - x), slice(once, once + most)))
            number, both, once = number + 1, both + b - a + y - x, once + most
        found.append(together)
    return found


def slices(units: int, rows: int) -> list[slice]:
    """The visible units in slices that several threads take the step of; of few rows all of them in one."""
    count = 1 if rows < SHARED else min(SLICES, units)
    return [slice(*ends) for ends in pairwise(i * units // count for i in range(count + 1))]


@dataclass(frozen=True)
class Statistics:
    """Statistics of the rows minus those of the second phase: b (D,), c (K,) float32, and those of pairs as they are asked for."""

    b: Array
    c: Array
    error: float  # summed squared reconstruction error of the rows
    hidden: Array  # (K,) mean of E[h | v] over the rows
    W: Array  # (D, K) where those of pairs are, or will be
    blocks: tuple[Block, ...] = ()  # that they are still to be made of; none: they are there
    v: Array | None = None  # (n + m, D), (n + m, K) of these blocks together
    h: Array | None = None
    chains: int = 0  # m, of all blocks
    there: bool = False  # whether those of pairs are there all the same: blocks are the last of several groups

    def second(self) -> tuple[Array, Array]:
        """What chains show: v~ (m, D), and E[h | v~] (m, K)."""
        v, h = (np.concatenate([getattr(block, name)[block.rows :] for block in self.blocks]) for name in ("v", "h"))
        h *= np.float32(-self.chains)  # blocks have them divided by −m
        return v, h

    def pairs(self, units: slice) -> Array:
        """Those of some visible units, (d, K)."""
        W: Array = self.W[units]
        if self.v is None or self.h is None or self.there:
            return W
        if any(block.difference is None for block in self.blocks):
            return real.product(self.v[:, units].T, self.h, out=W)
        room = integers(max(block.rows for block in self.blocks), len(W))
        for number, block in enumerate(self.blocks):
            block.add(W, units, room, first=number == 0)
        return W


def statistics(problem: Problem, state: State, m: int, order: Array, step: int, *, reconstruct: bool, map: Map = map) -> Statistics:
    """Those of the rows in `order` (n,) less those of model m's second phase; reconstruct: with the error of persistent algorithms."""
    if problem.settings.joint in ("discriminative", "hybrid"):
        return _of_labels(problem, state, m, order, step, reconstruct, map)
    return _of_rows(problem, state, m, order, step, reconstruct, map)


def _of_rows(problem: Problem, state: State, m: int, order: Array, step: int, reconstruct: bool, map: Map) -> Statistics:
    """Those of the log-likelihood of rows, by whatever algorithm."""
    settings = problem.settings
    if settings.algorithm in EXACT_PHASES or settings.algorithm == "tap":
        rows, layers = rows_of(problem, state, m, order), (problem.visible, problem.hidden)
        own = sweeper(problem, state, m, step)
        if state.chain is not None:
            sums = tap.phases(own, layers, rows, state.chain[m], settings.sweeps(step / problem.updates(m)))
        else:
            sums = EXACT_PHASES[settings.algorithm](own, *layers, rows)
        return Statistics(sums.b, sums.c, sums.error, sums.hidden, sums.W)
    scratch, n = problem.scratch(), len(order)
    chains = n if state.chain is None else problem.chains
    driven = _driven(state, m)
    b, c, hidden, error = np.zeros_like(state.b[m]), np.zeros_like(state.c[m]), np.zeros_like(state.c[m]), 0.0
    W, groups = scratch.pairs, cut(n, chains)
    for group in groups:
        work = partial(_block, problem, state, m, order, step, scratch, driven, (n, chains), reconstruct)
        blocks = tuple(each(map, work, group))
        for block in blocks:
            signs = np.full(len(block.v), -1.0 / chains, dtype=np.float32)
            signs[: block.rows] = 1.0 / n
            b += real.product(signs, block.v)
            c += 0.0 if isinstance(problem.visible, Words) else block.h.sum(axis=0)  # all columns' weights are what c would be
            if state.hidden_mean is not None:
                hidden += block.h[: block.rows].sum(axis=0)
            error += block.error
        _adapt(state, m, blocks)
        v, h = (part[: group[-1].both.stop] for part in (scratch.v, scratch.h))
        together = Statistics(b, c, error, hidden, scratch.pairs, blocks, v, h, chains)
        if len(groups) == 1:
            return together
        each(map, together.pairs, slices(len(b), max(n, chains)))
        W = scratch.pairs + W if group is not groups[0] else scratch.pairs.copy()
    return Statistics(b, c, error, hidden, W, blocks, v, h, chains, there=True)


def rows_of(problem: Problem, state: State, m: int, order: Array) -> Array:
    """Rows of a model (n, D) float32, divided by the deviations where those are learned."""
    rows: Array = problem.rows[m][order].astype(np.float32)
    return rows if state.log_scale is None else rows * real.exp(-state.log_scale[m])


def _of_labels(problem: Problem, state: State, m: int, order: Array, step: int, reconstruct: bool, map: Map) -> Statistics:
    """Those of log p(y | v), with a share of those of log p(v, y) where learning is hybrid."""
    settings, own = problem.settings, sweeper(problem, state, m, step)
    found = labels.discriminative(own, problem.visible, problem.hidden, rows_of(problem, state, m, order))
    if settings.joint == "hybrid":
        other, share = _of_rows(problem, state, m, order, step, reconstruct, map), np.float32(settings.generative_share)
        each(map, other.pairs, slices(len(found.b), len(order)))
        for name in ("W", "b", "c"):
            getattr(found, name)[...] += share * getattr(other, name)
    return Statistics(found.b, found.c, found.error, found.hidden, found.W)


def _adapt(state: State, m: int, blocks: Sequence[Block]) -> None:
    """Move the temperatures on by what was refused in all blocks."""
    seen = [block.rejected for block in blocks if block.rejected is not None]
    if seen and state.betas is not None and state.rejected is not None:
        tempering.adapt(state.betas[m], state.rejected[m], np.mean(seen, axis=0))


def each(map: Map, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Results of `work` for all items in their order; of a single item in this thread."""
    return [work(items[0])] if len(items) == 1 else list(map(work, items))


def sweeper(problem: Problem, state: State, m: int, step: int, number: int = 0) -> Sweeper:
    """Model m as it is sampled in one block of one update."""
    draws = generator(problem.settings.seed, Stream.GIBBS, unit=problem.unit(m), step=step, part=number)
    return Sweeper(state.W[m], state.b[m], state.c[m], layer(problem.visible), layer(problem.hidden), draws)


def _driven(state: State, m: int) -> tuple[Array, Array, Array] | None:
    """The parameters that chains are moved by, where fast weights are added to them."""
    if state.W_fast is None or state.b_fast is None or state.c_fast is None:
        return None
    return state.W[m] + state.W_fast[m], state.b[m] + state.b_fast[m], state.c[m] + state.c_fast[m]


def _block(
    problem: Problem,
    state: State,
    m: int,
    order: Array,
    step: int,
    scratch: Scratch,
    driven: tuple[Array, Array, Array] | None,
    counts: tuple[int, int],
    reconstruct: bool,
    part: Part,
) -> Block:
    """The phases of one block."""
    settings, own = problem.settings, sweeper(problem, state, m, step, part.number)
    rows = problem.rows[m][order[part.rows]] if state.log_scale is None else rows_of(problem, state, m, order[part.rows])
    if isinstance(problem.visible, Words):
        own = replace(own, visible=Drawings(rows.sum(axis=1).astype(np.int64)))
    room = scratch.part(part.both, part.once)
    steps = settings.sweeps(step / problem.updates(m))
    if state.chain is None:
        return contrastive(own, rows, steps, counts[0], room, settings.mean_field)
    if state.betas is not None:
        R = state.betas.shape[1]
        chain = state.chain[m, part.chains.start * R : part.chains.stop * R]
        ladder = tempering.Ladder(state.betas[m], problem.base(m), problem.hidden)
        return tempering.tempered(own, ladder, rows, chain, (steps, step * steps), counts, reconstruct, room)
    driving = own if driven is None else replace(own, W=driven[0], b=driven[1], c=driven[2])
    return persistent(own, driving, rows, state.chain[m, part.chains], steps, counts, reconstruct, room)
