"""Kernel thinning and Compress++: rows are halved repeatedly, and the best of the remaining coresets is refined by swap passes (`swap`).

kernel-thinning  every half is halved again, g times: 2^g coresets of m rows each, n² kernel values in total
    compress++       four coresets are joined and halved, and one half is kept, up a tree of fours; the remaining rows, about √(n m),
                     are thinned: m n values for each level of the tree, which is near-linear in n

Among the 2^g coresets and every 2^g-th row (standard thinning), the one nearest to μ enters the swap passes, KT-SWAP of the paper.  Before
that, count 2^g rows are drawn once from the seed in a random order, with the g for which their number is nearest to n.  Each row is drawn
in proportion to its weight, so that any count and weighted rows are possible; with equal weights and n = count 2^g this is a permutation.
A coreset has the failure probability ¼, half of the paper's δ = ½.
Source: Dwivedi & Mackey (2024), alg. 1; (2022), target kernel thinning; Shetty, Dwivedi & Mackey (2022), alg. 1 and 2, with 𝔤 = 4.
"""

from __future__ import annotations

import math
from dataclasses import field
from functools import cached_property

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import DataError, IncompletePart
from herdcli.numerics import exact_arithmetic
from herdcli.quadrature.kernels import kernel_sums
from herdcli.quadrature.kernels.kernel_blocks import kernel_matrix
from herdcli.quadrature.rules import kernel_halving
from herdcli.quadrature.rules.candidate_space import CandidateSpace
from herdcli.quadrature.rules.rule import Rule, SelectedAtoms, SelectionTask
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array, require_valid_indices

FAILURE = 0.5
OVERSAMPLING = 4  # 𝔤, least number of halvings that compress++ leaves to thinning
ROWS_PER_STEP = 8192  # small nodes are processed together, up to this many rows in one step
VALUES_PER_STEP = 1 << 24  # maximum number of kernel values that one step computes for a larger node
CHOICE = 1 << 16  # maximum number of kernel values of coresets that are computed together


@dataclass(frozen=True)
class ThinningRound:
    """A round that halves all nodes of `length` rows.

    single  whether only one half of each node is kept.
    level   L² of every pair, from `kernel_halving.squared_failure_level`.
    """

    length: int
    single: bool
    level: float


def plan_thinning_rounds(rule: str, n: int, count: int) -> tuple[list[ThinningRound], int]:
    """Return the rounds that lead to coresets of `count` rows, and the number of the n rows that are drawn for them."""
    halvings = max(0, round(math.log2(n / count)))
    total = count << halvings
    if rule == "kernel-thinning":
        return _halving_rounds(total, halvings, FAILURE), total
    if rule != "compress++":
        raise IncompletePart(f"rule {rule} has no rounds")
    # A leaf of L rows and β joins of four leave L 2^β of L 4^β = count 2^(γ+β) rows, so L = count 2^(γ−β) must be whole.
    kept = min(halvings, OVERSAMPLING)
    while halvings > 2 * kept and count << kept & (1 << (halvings - kept)) - 1:
        kept += 1
    joins = halvings - kept
    if not joins:
        return _halving_rounds(total, halvings, FAILURE), total
    compressed, leaf = count << kept, (count << kept) >> joins
    # Compress++ leaves the share 𝔤/(𝔤 + 2^𝔤 β) of the failure probability to thinning.  A halving of ℓ rows has ℓ²/(4 c² β) of the rest,
    # where c is the size after the tree: all levels of the tree have equal shares, 4^i halvings of 2c/2^i rows each (Shetty et al. 2022,
    # sec. 4).
    share = kept / (kept + (1 << kept) * joins)
    lengths = [4 * leaf << i for i in range(joins)]
    failures = [FAILURE * (1 - share) * (length / (2 * compressed)) ** 2 / joins for length in lengths]
    tree = [
        ThinningRound(length, True, kernel_halving.squared_failure_level(failure / length))
        for length, failure in zip(lengths, failures, strict=True)
    ]
    return tree + _halving_rounds(compressed, kept, FAILURE * share), total


def _halving_rounds(total: int, halvings: int, failure: float) -> list[ThinningRound]:
    """Return rounds that halve all nodes.

    Pairs of round j fail with probability 2^j δ/(n g), g rounds (Dwivedi & Mackey 2024, theorem 1).
    """
    return [
        ThinningRound(total >> j, False, kernel_halving.squared_failure_level(failure * 2.0**j / (total * halvings)))
        for j in range(halvings)
    ]


def total_steps(rule: str, n: int, count: int) -> int:
    """Return the number of steps: blocks of pairs of all rounds, and the final choice."""
    rounds, total = plan_thinning_rounds(rule, n, count)
    return sum(_round_steps(one, size) for one, size in zip(rounds, _round_sizes(rounds, total), strict=True)) + 1


def estimate_kernel_evaluations(rule: str, n: int, count: int) -> int:
    """Estimate the number of kernel values of all steps."""
    rounds, total = plan_thinning_rounds(rule, n, count)
    return sum(size * one.length // 2 for one, size in zip(rounds, _round_sizes(rounds, total), strict=True)) + total * count


def _round_sizes(rounds: list[ThinningRound], total: int) -> list[int]:
    """Return the number of rows at the beginning of each round."""
    found = []
    for one in rounds:
        found.append(total)
        total //= 2 if one.single else 1
    return found


def _rows_per_step(thinning_round: ThinningRound) -> int:
    """Return the number of rows that one step processes: several whole small nodes, or some blocks of one larger node."""
    if thinning_round.length <= ROWS_PER_STEP:
        return thinning_round.length * (ROWS_PER_STEP // thinning_round.length)
    return kernel_halving.BLOCK * max(1, VALUES_PER_STEP // (thinning_round.length * kernel_halving.BLOCK))


def _round_steps(thinning_round: ThinningRound, size: int) -> int:
    nodes, batch = (
        (1, _rows_per_step(thinning_round))
        if thinning_round.length <= ROWS_PER_STEP
        else (size // thinning_round.length, _rows_per_step(thinning_round))
    )
    return nodes * -(-size // (nodes * batch))


@dataclass
class ThinningState:
    """The progress of the rounds.  `thinning_step` counts the steps; the first `place` rows of the current round have been halved."""

    step: int
    round: int
    place: int
    variance: float  # σ² of the node that is currently halved
    ended: str
    order: Array = array("r", "candidates, node after node", kind="i")
    signs: Array = array("r", "−1 first half, 1 second half, 0 not halved yet", kind="f")
    index: Array = array("m", "the coreset, once it is chosen", kind="i")

    def validate(self) -> None:
        """Raise DataError unless the rows exist."""
        if not 0 <= self.place <= len(self.order) or self.round < 0:
            raise DataError(f"is damaged: the run is at row {self.place} of {len(self.order)}")
        require_valid_indices("/order", self.order, 1 << 62, "a candidate")


@dataclass(frozen=True)
class ThinningProblem:
    """A space whose candidates are the target's rows, weights (N,) of sum 1, and the settings of thinning to `count` rows."""

    space: CandidateSpace
    weights: Array
    rule: str
    count: int
    seed: int = 0
    unit: int = 0
    map: Map = map
    _node: dict[tuple[int, int], kernel_halving.KernelHalving] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def rounds(self) -> list[ThinningRound]:
        """The rounds in their order."""
        return plan_thinning_rounds(self.rule, len(self.weights), self.count)[0]

    def draw_round_uniforms(self, number: int, count: int) -> Array:
        """Return uniform numbers (count,) of round `number`."""
        return generator(self.seed, Stream.THINNING, unit=self.unit, step=number + 1).random(count)


def draw_systematic_sample(weights: Array, count: int, random: np.random.Generator) -> Array:
    """Sample rows (count,) in a random order, row i ⌊count w_i⌋ or ⌈count w_i⌉ times: systematic sampling (Madow 1949)."""
    order = random.permutation(len(weights))
    edges = np.cumsum(weights[order])
    at = (np.arange(count) + random.random()) * (edges[-1] / count)
    return np.asarray(order[np.minimum(np.searchsorted(edges, at, side="right"), len(order) - 1)])


def initial_state(problem: ThinningProblem) -> ThinningState:
    """Return the state with the sampled rows in their order."""
    total = plan_thinning_rounds(problem.rule, len(problem.weights), problem.count)[1]
    if total == len(problem.weights) and np.ptp(problem.weights) == 0:
        order = generator(problem.seed, Stream.THINNING, unit=problem.unit).permutation(total)
    else:
        order = draw_systematic_sample(problem.weights, total, generator(problem.seed, Stream.THINNING, unit=problem.unit))
    return ThinningState(0, 0, 0, 0.0, "", order, np.zeros(total), np.zeros(0, dtype=np.int64))


def thinning_step(problem: ThinningProblem, state: ThinningState) -> ThinningState:
    """Halve pairs of one round, or choose the coreset at the end."""
    state.step += 1
    if state.round == len(problem.rounds):
        state.index, state.ended = _find_best_coreset(problem, state.order), "count"
        return state
    one = problem.rounds[state.round]
    node = state.place - state.place % one.length
    stop = min(state.place + _rows_per_step(one), len(state.order) if one.length <= ROWS_PER_STEP else node + one.length)
    while state.place < stop:
        _halve_pairs(problem, state, one, stop)
    if state.place == len(state.order):
        _start_next_round(problem, state, one)
    return state


def _halve_pairs(problem: ThinningProblem, state: ThinningState, thinning_round: ThinningRound, stop: int) -> None:
    """Halve the pairs of one node up to `stop`."""
    node = state.place - state.place % thinning_round.length
    problem_node = _cached_node_halving(problem, state, node, thinning_round.length)
    uniforms = problem.draw_round_uniforms(state.round, len(state.order) // 2)
    while state.place < min(stop, node + thinning_round.length):
        end = min(state.place + kernel_halving.BLOCK, node + thinning_round.length, stop)
        # The walk starts anew in every node: f = 0 and σ = 0.
        if state.place == node:
            state.variance = 0.0
        # f of all earlier blocks at this block's rows, then pair by pair within the block, whose own kernel values suffice.
        f = problem_node.embedding_difference(state.place - node, end - node, state.signs[node : state.place], problem.map)
        gram = problem_node.kernel_block(state.place - node, end - node)
        pairs = uniforms[state.place // 2 : end // 2]
        state.signs[state.place : end], state.variance = kernel_halving.choose_pair_signs(
            gram, f, pairs, state.variance, thinning_round.level
        )
        state.place = end


def _cached_node_halving(problem: ThinningProblem, state: ThinningState, start: int, length: int) -> kernel_halving.KernelHalving:
    """Return the kernel sums of a node, cached while it is halved."""
    key = state.round, start
    if key not in problem._node:
        problem._node.clear()
        rows = problem.space.candidates[state.order[start : start + length]]
        problem._node[key] = kernel_halving.KernelHalving(problem.space.kernel, rows)
    return problem._node[key]


def _start_next_round(problem: ThinningProblem, state: ThinningState, thinning_round: ThinningRound) -> None:
    """Set up the rows of the next round: the first half of each node and then its second half, or one of the two at random."""
    nodes, signs = state.order.reshape(-1, thinning_round.length), state.signs.reshape(-1, thinning_round.length)
    # Every pair has one row of each sign, so each half of every node has length/2 rows; a stable sort keeps their order.
    sorted_nodes = np.take_along_axis(nodes, np.argsort(signs, axis=1, kind="stable"), axis=1)
    if thinning_round.single:
        random = generator(problem.seed, Stream.THINNING, unit=problem.unit, step=state.round + 1 + len(problem.rounds))
        halves = sorted_nodes.reshape(len(nodes), 2, thinning_round.length // 2)
        sorted_nodes = halves[np.arange(len(nodes)), random.integers(2, size=len(nodes))]
    state.order = np.ascontiguousarray(sorted_nodes.ravel())
    state.signs = np.zeros(len(state.order))
    state.round, state.place, state.variance = state.round + 1, 0, 0.0


def _find_best_coreset(problem: ThinningProblem, order: Array) -> Array:
    """Return the coreset (m,) nearest to μ: one of the last round, or the standard thinning of the rows."""
    start = initial_state(problem).order
    sets = np.concatenate([order.reshape(-1, problem.count), start[:: len(start) // problem.count][: problem.count][None]])
    # MMD² m² is Σ_uv k − 2 m Σ_u μ + const.
    linear = problem.space.embedding[sets].sum(axis=1)
    own = np.concatenate([_coreset_squared_norms(problem, sets[part]) for part in _coreset_slices(len(sets), problem.count)])
    return np.asarray(sets[int(np.argmin(own - 2.0 * problem.count * linear))])


def _coreset_slices(count: int, size: int) -> list[slice]:
    """Return slices of coresets whose kernel values fit in a block."""
    together = max(1, math.isqrt(CHOICE) // size)
    return [slice(i, i + together) for i in range(0, count, together)]


def _coreset_squared_norms(problem: ThinningProblem, sets: Array) -> Array:
    """Compute Σ_uv k (s,) over each of s coresets (s, m)."""
    kernel, (s, m) = problem.space.kernel, sets.shape
    rows = problem.space.candidates[sets.ravel()]
    if s == 1:
        ones = np.ones(m)
        made = kernel_sums.make_embedding_problem(kernel, rows, rows, ones)
        state = kernel_sums.initial_state(made)
        while state.step < kernel_sums.total_steps(made):
            state = kernel_sums.embedding_step(made, state, map=problem.map)
        return np.array([float(exact_arithmetic.matrix_product(ones, state.sums))])
    gram = kernel_matrix(kernel, rows, rows).reshape(s, m, s, m)
    return np.asarray(np.einsum("aiaj->a", gram))


class ThinningRule(Rule):
    """The rules that halve rows until `count` are left."""

    field = "thinned"

    def steps(self, n: int, count: int) -> int:
        """Return the number of steps: blocks of pairs of all rounds, and the final choice."""
        return total_steps(self.name, n, count)

    def count_kernel_values(self, n: int, count: int) -> int:
        """Return the number of kernel values of all pairs of the rounds."""
        return estimate_kernel_evaluations(self.name, n, count)

    def working_bytes(self, n: int, d: int, count: int) -> int:
        """Return the bytes of one node's packed rows, and of the tiles and blocks that a halving needs."""
        total = plan_thinning_rounds(self.name, n, count)[1]
        tiles = 2 * kernel_sums.ROWS * min(total, kernel_sums.COLUMNS) + 4 * kernel_sums.ROWS**2 + CHOICE * 8
        return super().working_bytes(n, d, count) + 8 * total * (2 * d + 8) + 8 * int(tiles)

    def count_swap_passes(self, refine: int) -> int:
        """Return the number of swap passes, at least the one of the algorithm itself."""
        return max(refine, 1)

    def make_problem(self, task: SelectionTask) -> ThinningProblem:
        """Return the space and the weights of the rows."""
        return ThinningProblem(task.space, task.weights, self.name, task.count, task.seed, task.unit, task.map)

    def begin(self, problem: ThinningProblem, saved: ThinningState | None) -> ThinningState:
        """Return the state with sampled rows, none of them halved."""
        return initial_state(problem)

    def step(self, problem: ThinningProblem, state: ThinningState) -> ThinningState:
        """Halve one block of pairs, or choose the coreset."""
        return thinning_step(problem, state)

    def atoms(self, state: ThinningState) -> Array:
        """Return the coreset after it is chosen."""
        return state.index

    def selected_atoms(self, state: ThinningState) -> SelectedAtoms:
        """Return the chosen rows with equal weights."""
        m = len(state.index)
        return SelectedAtoms(state.ended, state.index, np.full(m, 1.0 / max(m, 1)), np.full(m, np.nan), np.full(m, np.nan))
