"""Exact inference in two-slice templates by the interface algorithm: filtering, prediction and smoothing, slice by slice.

A slice influences the next one only through its interface: the variables that the next slice depends on.  Let α_t be the distribution of
slice t's interface given the rows up to t, and β_t the likelihood of the later rows given that interface.  Then

    α_t ∝ Σ α_{t−1} P(slice t | interface t−1) e_t        β_{t−1} = Σ P(slice t | interface t−1) e_t β_t

where each is a propagation on one junction tree that contains both interfaces.  α and β are logarithms.  Smoothing keeps α of every
√T-th slice and recomputes those in between.  Source: Murphy (2002), sec. 3.4; Griewank & Walther (2000) for checkpoints.
"""

from __future__ import annotations

import math

import numpy as np

from herdcli.errors import NegativeResult
from herdcli.markov.exact import junction_tree
from herdcli.markov.exact.elimination import min_fill_order
from herdcli.markov.exact.junction_tree import CalibratedTree
from herdcli.markov.method import Stepwise
from herdcli.markov.model.network import Factor, build_network
from herdcli.markov.model.slice_tasks import SliceTask
from herdcli.markov.model.slice_templates import SliceTemplate
from herdcli.records import dataclass
from herdcli.schema import Array

NONE = -1  # no evidence


class SliceTree:
    """The junction tree of one slice and the interface before it; the first slice has no interface before it.

    Variables 0 … k−1 are the interface before, variables k … k+n−1 those of the slice.
    """

    def __init__(self, template: SliceTemplate, *, first: bool) -> None:
        interface = template.interface_variables()
        before = [] if first else interface
        self.offset, n = len(before), template.count
        place = {i: k for k, i in enumerate(before)} | {i + n: self.offset + i for i in range(n)}
        factors: list[Factor] = list(template.first) if first else [(tuple(place[i] for i in s), t) for s, t in template.transition]
        states = [*template.cardinality[before].tolist(), *template.cardinality.tolist()]
        self.before, self.after = tuple(range(self.offset)), tuple(self.offset + i for i in interface)
        singles = [((self.offset + i,), np.ones(template.cardinality[i])) for i in range(n)]
        held = [(scope, np.ones([states[i] for i in scope])) for scope in (self.before, self.after)]
        network = build_network(states, [*singles, *held, *factors])
        order = np.array(min_fill_order(network, 0))
        self.tree = junction_tree.build_clique_tree(network, order, keep_single_states=True)
        self.tables = junction_tree.initial_log_tables(network, self.tree)
        self.states = network.cardinality.tolist()
        self.homes, self.home_before, self.home_after = self.tree.home[:n], self.tree.home[n], self.tree.home[n + 1]
        self.network = network

    def bytes_needed(self) -> int:
        """Return the memory of a propagation, in bytes."""
        return self.tree.bytes_needed(self.network)

    def propagate(self, alpha: Array, row: Array, beta: Array | None = None) -> CalibratedTree:
        """Propagate in the slice, given α before the slice, the slice's row of states (NONE for no evidence), and β after the slice.

        Raises NegativeResult if the row is impossible.
        """
        tables = [table.copy() for table in self.tables]
        if self.offset:
            junction_tree.add_to_clique_table(tables, self.tree, self.home_before, self.before, alpha, self.states)
        if beta is not None and self.after:
            junction_tree.add_to_clique_table(tables, self.tree, self.home_after, self.after, beta, self.states)
        for i in np.flatnonzero(row != NONE).tolist():
            own = np.full(self.states[self.offset + i], -np.inf)
            own[row[i]] = 0.0
            junction_tree.add_to_clique_table(tables, self.tree, self.homes[i], (self.offset + i,), own, self.states)
        return junction_tree.calibrate_tables(self.tree, tables, self.states)

    def marginals(self, tree: CalibratedTree) -> Array:
        """Return the marginals of the slice's variables, concatenated."""
        made = [np.exp(junction_tree.log_marginal_in_clique(tree, k, (self.offset + i,)) - tree.log_z) for i, k in enumerate(self.homes)]
        return np.concatenate([p / p.sum() for p in made])

    def log_alpha_after(self, tree: CalibratedTree) -> Array:
        """Return log α of the slice."""
        return junction_tree.log_marginal_in_clique(tree, self.home_after, self.after) - tree.log_z

    def log_beta_before(self, tree: CalibratedTree, alpha: Array) -> Array:
        """Return log β of the slice before, up to a constant; 0 for states that α excludes, about which it has no information."""
        joint = junction_tree.log_marginal_in_clique(tree, self.home_before, self.before)
        with np.errstate(invalid="ignore"):
            beta = np.where(np.isneginf(alpha), 0.0, joint - alpha)
        return np.asarray(beta - beta.max(initial=-np.inf))


@dataclass
class SliceState:
    """The state of inference over slices.

    answers  (T, P) marginals.
    log_z    (T,) log probability of each row given those before.
    alpha    α after the last slice.
    beta     β before the first slice of the last block.
    kept     α at the beginning of blocks, or of the last slices.
    step     number of slices done forward, plus blocks done backward.
    """

    answers: Array
    log_z: Array
    alpha: Array
    beta: Array
    kept: Array
    step: int


class SliceInference(Stepwise[SliceState]):
    """Marginals of every slice; a step is a slice, or in the backward pass of smoothing a block of √T slices."""

    state = SliceState

    def __init__(self, template: SliceTemplate, rows: Array, task: SliceTask) -> None:
        """Prepare the trees.

        rows  (T, n) int64 states, NONE for no evidence.
        """
        self.template, self.rows, self.task = template, rows, task
        self.trees = SliceTree(template, first=True), SliceTree(template, first=False)
        self.block = max(1, math.isqrt(max(0, len(rows) - 1)) + 1)
        self.blocks = -(-len(rows) // self.block) if task.kind == "smoothing" else 0
        self.steps = len(rows) + self.blocks
        self.shape = tuple(template.cardinality[template.interface_variables()].tolist())
        self.none = np.full(template.count, NONE)

    def init(self) -> SliceState:
        """Return the state before the first slice."""
        T, kept = len(self.rows), {"smoothing": self.blocks, "lag": self.task.steps + 1}.get(self.task.kind, 0)
        answers = np.full((T, int(self.template.cardinality.sum())), np.nan)
        return SliceState(answers, np.full(T, np.nan), np.zeros(self.shape), np.zeros(self.shape), np.zeros((kept, *self.shape)), 0)

    def memory(self) -> int:
        """Return the bytes of the marginals, of stored interfaces and of one propagation."""
        kept = max(self.blocks + self.block, self.task.steps + 1) if self.task.kind in ("smoothing", "lag") else 1
        interface: int = math.prod(self.shape)
        return 8 * (len(self.rows) * (int(self.template.cardinality.sum()) + 1) + kept * interface) + max(
            t.bytes_needed() for t in self.trees
        )

    words = "the marginals of all slices and one junction tree"

    def step(self, state: SliceState) -> SliceState:
        """Process one slice forward, or one block backward."""
        if state.step < len(self.rows):
            self._process_slice_forward(state, state.step)
        else:
            self._process_block_backward(state, self.blocks - 1 - (state.step - len(self.rows)))
        state.step += 1
        return state

    def _propagate_in_slice(self, t: int, alpha: Array, row: Array, beta: Array | None = None) -> tuple[SliceTree, CalibratedTree]:
        tree = self.trees[t > 0]
        try:
            return tree, tree.propagate(alpha, row, beta)
        except NegativeResult:
            raise NegativeResult(f"row {t} of the evidence has probability 0 given the rows before it") from None

    def _process_slice_forward(self, state: SliceState, t: int) -> None:
        before = state.alpha
        tree, found = self._propagate_in_slice(t, before, self.rows[t])
        state.log_z[t] = found.log_z
        state.alpha = tree.log_alpha_after(found)
        kind, many = self.task.kind, self.task.steps
        if kind == "filtering":
            state.answers[t] = tree.marginals(found)
        elif kind == "prediction":
            alpha = state.alpha
            for _ in range(many):
                ahead, later = self._propagate_in_slice(1, alpha, self.none)
                alpha = ahead.log_alpha_after(later)
            state.answers[t] = ahead.marginals(later)
        elif kind == "lag":
            state.kept = np.roll(state.kept, -1, axis=0)
            state.kept[-1] = before
            last = t == len(self.rows) - 1
            self._smooth_slices(state, list(range(max(0, t - many), t + 1)), None, state.kept[-min(many, t) - 1 :], every_slice=last)
        elif t % self.block == 0:
            state.kept[t // self.block] = before

    def _smooth_slices(self, state: SliceState, slices: list[int], beta: Array | None, alphas: Array, *, every_slice: bool) -> Array:
        """Go backward over some slices, given α before each; compute the marginals of the first, or of every one.

        Returns β before the first slice.
        """
        for t, alpha in zip(reversed(slices), alphas[::-1], strict=True):
            tree, found = self._propagate_in_slice(t, alpha, self.rows[t], beta)
            if every_slice or (t == slices[0] and len(slices) > self.task.steps):
                state.answers[t] = tree.marginals(found)
            beta = tree.log_beta_before(found, alpha) if t else np.zeros(self.shape)
        assert beta is not None
        return beta

    def _process_block_backward(self, state: SliceState, number: int) -> None:
        """Process the slices of a block: recompute α forward, then β backward."""
        slices = list(range(number * self.block, min(len(self.rows), (number + 1) * self.block)))
        alphas = [state.kept[number]]
        for t in slices[:-1]:
            tree, found = self._propagate_in_slice(t, alphas[-1], self.rows[t])
            alphas.append(tree.log_alpha_after(found))
        last = number == self.blocks - 1
        state.beta = self._smooth_slices(state, slices, None if last else state.beta, np.array(alphas), every_slice=True)

    def bytes_needed(self, state: SliceState | None) -> tuple[int, str]:
        """Return 0, because nothing is needed in addition to the state."""
        return 0, ""

    def result(self, state: SliceState) -> tuple[Array, Array]:
        """Return marginals (T, P) and log probabilities (T,) of the rows, each given those before."""
        return state.answers, state.log_z
