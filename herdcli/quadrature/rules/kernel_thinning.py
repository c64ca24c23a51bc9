"""Kernel thinning and Compress++: halve the rows again and again, take the best of what is left; swap passes follow (`swap`).

    kernel-thinning  every half is halved, g times: 2^g coresets of m rows each, n² kernel values in all
    compress++       four coresets are joined and halved, of which one half stays, up a tree of fours; what is left, about √(n m) rows,
                     is thinned: m n values for each level of the tree, which is near-linear in n

Of 2^g coresets and every 2^g-th row (standard thinning) the one nearest to μ goes on to the swap passes, KT-SWAP of the paper.  Rows are
drawn once from the seed in a random order, count 2^g of them: the number of that form nearest to n, each row about as often as its weight
says, so that any count and weighted rows will do; of equal weights and n = count 2^g this is a permutation.  A coreset has the failure
probability ¼, half of the δ = ½ that it is told from.
Source: Dwivedi & Mackey (2024), alg. 1; (2022), target kernel thinning; Shetty, Dwivedi & Mackey (2022), alg. 1 and 2, with 𝔤 = 4.
"""

from __future__ import annotations

import math
from dataclasses import field
from functools import cached_property

import numpy as np

from herdcli.errors import DataError, IncompletePart
from herdcli.numerics import exact_arithmetic
from herdcli.quadrature.kernels import kernel_sums
from herdcli.quadrature.kernels.kernel_blocks import kernel_matrix
from herdcli.quadrature.rules import kernel_halving
from herdcli.quadrature.rules.candidate_space import CandidateSpace
from herdcli.quadrature.rules.rule import Choice, Chosen, Rule
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array, require_index

FAILURE = 0.5
OVERSAMPLING = 4  # 𝔤, halvings that compress++ leaves to thinning, at least
ROWS_PER_STEP = 8192  # of small nodes
VALUES_PER_STEP = 1 << 24  # of large ones
CHOICE = 1 << 16  # kernel values of a coreset taken together with others'


@dataclass(frozen=True)
class ThinningRound:
    """All nodes of `length` rows are halved; `single`: one half of each stays.  level  L² of every pair."""

    length: int
    single: bool
    level: float


def thinning_rounds(rule: str, n: int, count: int) -> tuple[list[ThinningRound], int]:
    """The rounds that leave coresets of `count` rows, and how many of n rows are drawn for them."""
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
    # Compress++ leaves the share 𝔤/(𝔤 + 2^𝔤 β) of the failure to thinning; a halving of ℓ rows has ℓ²/(4 c² β) of the rest, c what the tree
    # leaves: the levels of the tree are alike, 4^i halvings of 2c/2^i rows each (Shetty et al. 2022, sec. 4).
    share = kept / (kept + (1 << kept) * joins)
    lengths = [4 * leaf << i for i in range(joins)]
    failures = [FAILURE * (1 - share) * (length / (2 * compressed)) ** 2 / joins for length in lengths]
    tree = [
        ThinningRound(length, True, kernel_halving.failure_level(failure / length))
        for length, failure in zip(lengths, failures, strict=True)
    ]
    return tree + _halving_rounds(compressed, kept, FAILURE * share), total


def _halving_rounds(total: int, halvings: int, failure: float) -> list[ThinningRound]:
    """Rounds that halve everything: pairs of round j fail with probability 2^j δ/(n g), g rounds (Dwivedi & Mackey 2024, theorem 1)."""
    return [ThinningRound(total >> j, False, kernel_halving.failure_level(failure * 2.0**j / (total * halvings))) for j in range(halvings)]


def total_steps(rule: str, n: int, count: int) -> int:
    """Blocks of pairs of all rounds, and the choice."""
    rounds, total = thinning_rounds(rule, n, count)
    return sum(_round_steps(one, size) for one, size in zip(rounds, _round_sizes(rounds, total), strict=True)) + 1


def kernel_value_count(rule: str, n: int, count: int) -> int:
    """Kernel values of all steps, about."""
    rounds, total = thinning_rounds(rule, n, count)
    return sum(size * one.length // 2 for one, size in zip(rounds, _round_sizes(rounds, total), strict=True)) + total * count


def _round_sizes(rounds: list[ThinningRound], total: int) -> list[int]:
    """Rows at the beginning of each round."""
    found = []
    for one in rounds:
        found.append(total)
        total //= 2 if one.single else 1
    return found


def _batch_rows(one: ThinningRound) -> int:
    """Rows of a step: whole nodes, or blocks of one."""
    if one.length <= ROWS_PER_STEP:
        return one.length * (ROWS_PER_STEP // one.length)
    return kernel_halving.BLOCK * max(1, VALUES_PER_STEP // (one.length * kernel_halving.BLOCK))


def _round_steps(one: ThinningRound, size: int) -> int:
    nodes, batch = (1, _batch_rows(one)) if one.length <= ROWS_PER_STEP else (size // one.length, _batch_rows(one))
    return nodes * -(-size // (nodes * batch))


@dataclass
class ThinningState:
    """Where the rounds stand.  `thinning_step` counts steps; `place` rows of the round are halved."""

    step: int
    round: int
    place: int
    variance: float  # σ² of the node that is being halved
    ended: str
    order: Array = array("r", "candidates, node after node", kind="i")
    signs: Array = array("r", "−1 first half, 1 second half, 0 not halved yet", kind="f")
    index: Array = array("m", "the coreset, once it is chosen", kind="i")

    def validate(self) -> None:
        """Raise DataError unless the rows are there."""
        if not 0 <= self.place <= len(self.order) or self.round < 0:
            raise DataError(f"is at row {self.place} of {len(self.order)}")
        require_index("/order", self.order, 1 << 62, "a candidate")


@dataclass(frozen=True)
class ThinningProblem:
    """A space whose candidates are the target's rows, weights (N,) of sum 1, and how they are thinned to `count`."""

    space: CandidateSpace
    weights: Array
    rule: str
    count: int
    seed: int = 0
    unit: int = 0
    map: kernel_sums.Map = map
    _node: dict[tuple[int, int], kernel_halving.KernelHalving] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def rounds(self) -> list[ThinningRound]:
        """The rounds, in their order."""
        return thinning_rounds(self.rule, len(self.weights), self.count)[0]

    def uniforms(self, number: int, count: int) -> Array:
        """(count,) numbers of round `number`."""
        return generator(self.seed, Stream.THINNING, unit=self.unit, step=number + 1).random(count)


def systematic_sample(weights: Array, count: int, random: np.random.Generator) -> Array:
    """(count,) rows in a random order, row i ⌊count w_i⌋ or ⌈count w_i⌉ times: systematic sampling (Madow 1949)."""
    order = random.permutation(len(weights))
    edges = np.cumsum(weights[order])
    at = (np.arange(count) + random.random()) * (edges[-1] / count)
    return np.asarray(order[np.minimum(np.searchsorted(edges, at, side="right"), len(order) - 1)])


def initial_state(problem: ThinningProblem) -> ThinningState:
    """The rows that are thinned, in their order."""
    total = thinning_rounds(problem.rule, len(problem.weights), problem.count)[1]
    if total == len(problem.weights) and np.ptp(problem.weights) == 0:
        order = generator(problem.seed, Stream.THINNING, unit=problem.unit).permutation(total)
    else:
        order = systematic_sample(problem.weights, total, generator(problem.seed, Stream.THINNING, unit=problem.unit))
    return ThinningState(0, 0, 0, 0.0, "", order, np.zeros(total), np.zeros(0, dtype=np.int64))


def thinning_step(problem: ThinningProblem, state: ThinningState) -> ThinningState:
    """Pairs of one round, or the choice at the end."""
    state.step += 1
    if state.round == len(problem.rounds):
        state.index, state.ended = _best_coreset(problem, state.order), "count"
        return state
    one = problem.rounds[state.round]
    node = state.place - state.place % one.length
    stop = min(state.place + _batch_rows(one), len(state.order) if one.length <= ROWS_PER_STEP else node + one.length)
    while state.place < stop:
        _halve_pairs(problem, state, one, stop)
    if state.place == len(state.order):
        _next_round(problem, state, one)
    return state


def _halve_pairs(problem: ThinningProblem, state: ThinningState, one: ThinningRound, stop: int) -> None:
    """The pairs of one node as far as `stop`."""
    node = state.place - state.place % one.length
    problem_node = _node_halving(problem, state, node, one.length)
    uniforms = problem.uniforms(state.round, len(state.order) // 2)
    while state.place < min(stop, node + one.length):
        end = min(state.place + kernel_halving.BLOCK, node + one.length, stop)
        if state.place == node:
            state.variance = 0.0
        f = problem_node.difference(state.place - node, end - node, state.signs[node : state.place], problem.map)
        gram = problem_node.block(state.place - node, end - node)
        pairs = uniforms[state.place // 2 : end // 2]
        state.signs[state.place : end], state.variance = kernel_halving.pair_signs(gram, f, pairs, state.variance, one.level)
        state.place = end


def _node_halving(problem: ThinningProblem, state: ThinningState, start: int, length: int) -> kernel_halving.KernelHalving:
    """What a node's kernel sums are made with, kept while it is halved."""
    key = state.round, start
    if key not in problem._node:
        problem._node.clear()
        rows = problem.space.candidates[state.order[start : start + length]]
        problem._node[key] = kernel_halving.KernelHalving(problem.space.kernel, rows)
    return problem._node[key]


def _next_round(problem: ThinningProblem, state: ThinningState, one: ThinningRound) -> None:
    """The next round's rows: each node's first half and then its second, or one of them by the toss of a coin."""
    nodes, signs = state.order.reshape(-1, one.length), state.signs.reshape(-1, one.length)
    # Every pair has one row of either sign, so each half of every node has length/2 rows; a stable sort keeps their order.
    sorted_nodes = np.take_along_axis(nodes, np.argsort(signs, axis=1, kind="stable"), axis=1)
    if one.single:
        random = generator(problem.seed, Stream.THINNING, unit=problem.unit, step=state.round + 1 + len(problem.rounds))
        halves = sorted_nodes.reshape(len(nodes), 2, one.length // 2)
        sorted_nodes = halves[np.arange(len(nodes)), random.integers(2, size=len(nodes))]
    state.order = np.ascontiguousarray(sorted_nodes.ravel())
    state.signs = np.zeros(len(state.order))
    state.round, state.place, state.variance = state.round + 1, 0, 0.0


def _best_coreset(problem: ThinningProblem, order: Array) -> Array:
    """(m,) the coreset nearest to μ: of those of the last round and standard thinning of the rows."""
    start = initial_state(problem).order
    sets = np.concatenate([order.reshape(-1, problem.count), start[:: len(start) // problem.count][: problem.count][None]])
    # MMD² m² is Σ_uv k − 2 m Σ_u μ + const.
    linear = problem.space.embedding[sets].sum(axis=1)
    own = np.concatenate([_coreset_norms(problem, sets[part]) for part in _coreset_slices(len(sets), problem.count)])
    return np.asarray(sets[int(np.argmin(own - 2.0 * problem.count * linear))])


def _coreset_slices(count: int, size: int) -> list[slice]:
    """Coresets that are taken together: so many that their kernel values fit in a block."""
    together = max(1, math.isqrt(CHOICE) // size)
    return [slice(i, i + together) for i in range(0, count, together)]


def _coreset_norms(problem: ThinningProblem, sets: Array) -> Array:
    """(s,) Σ_uv k over each of s coresets (s, m)."""
    kernel, (s, m) = problem.space.kernel, sets.shape
    rows = problem.space.candidates[sets.ravel()]
    if s == 1:
        ones = np.ones(m)
        made = kernel_sums.embedding_problem(kernel, rows, rows, ones)
        state = kernel_sums.initial_state(made)
        while state.step < kernel_sums.total_steps(made):
            state = kernel_sums.embedding_step(made, state, map=problem.map)
        return np.array([float(exact_arithmetic.product(ones, state.sums))])
    gram = kernel_matrix(kernel, rows, rows).reshape(s, m, s, m)
    return np.asarray(np.einsum("aiaj->a", gram))


class ThinningRule(Rule):
    """Rows halved until enough are left."""

    field = "thinned"

    def steps(self, n: int, count: int) -> int:
        """Blocks of pairs of all rounds, and the choice."""
        return total_steps(self.name, n, count)

    def values(self, n: int, count: int) -> int:
        """Of all pairs of the rounds."""
        return kernel_value_count(self.name, n, count)

    def working_bytes(self, n: int, d: int, count: int) -> int:
        """The rows of a node, packed, besides, and the tiles and blocks of a halving."""
        total = thinning_rounds(self.name, n, count)[1]
        tiles = 2 * kernel_sums.ROWS * min(total, kernel_sums.COLUMNS) + 4 * kernel_sums.ROWS**2 + CHOICE * 8
        return super().working_bytes(n, d, count) + 8 * total * (2 * d + 8) + 8 * int(tiles)

    def passes(self, refine: int) -> int:
        """At least the one that is its own."""
        return max(refine, 1)

    def problem(self, choice: Choice) -> ThinningProblem:
        """Its space and the weights of the rows."""
        return ThinningProblem(choice.space, choice.weights, self.name, choice.count, choice.seed, choice.unit, choice.map)

    def begin(self, problem: ThinningProblem, saved: ThinningState | None) -> ThinningState:
        """Rows drawn, none halved."""
        return initial_state(problem)

    def step(self, problem: ThinningProblem, state: ThinningState) -> ThinningState:
        """One block of pairs, or the choice."""
        return thinning_step(problem, state)

    def atoms(self, state: ThinningState) -> Array:
        """The coreset, once it is chosen."""
        return state.index

    def chosen(self, state: ThinningState) -> Chosen:
        """The rows so far, equal."""
        m = len(state.index)
        return Chosen(state.ended, state.index, np.full(m, 1.0 / max(m, 1)), np.full(m, np.nan), np.full(m, np.nan))
