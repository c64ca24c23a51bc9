"""Tree-reweighted propagation: pseudo-marginals, and an upper bound of log Z that is valid before convergence too.

Factors are distributed over forests of equal weight; ρ_a is the share of forests that contain factor a.  With messages m_ai, as
logarithms,

    log b_i = log f_i + Σ_a ρ_a m_ai        log b_a = log f_a/ρ_a + Σ_{i ∈ a} (log b_i − m_ai)

Source: Wainwright, Jaakkola & Willsky (2005), eqs 17 and 39; factors of any size, because forests of factors are exact too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from herdcli.markov.exact.junction_tree import log_sum_exp
from herdcli.markov.method import InferenceResult, InferenceSettings, ToTolerance
from herdcli.markov.model.beliefs import make_convergence_attributes
from herdcli.markov.model.graphs.union_find import find_root
from herdcli.markov.model.network import Network
from herdcli.markov.model.restricted_states import restrict_to_possible_states
from herdcli.markov.model.stacked_tables import FactorGroup, group_factors_by_shape, state_offsets
from herdcli.markov.query.log_tables import rounding_error_bound
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

FORESTS = 8  # the minimum number
KEPT = 0.5  # share of the old message


@dataclass
class TreeReweightedState:
    """Messages (Σ_a Σ_{i ∈ a} card,), and one residual per iteration."""

    message: Array
    residual: Array
    step: int


class TreeReweighted(ToTolerance[TreeReweightedState, InferenceSettings]):
    """The algorithm `tree-reweighted`: each step is one damped update of all messages."""

    state = TreeReweightedState

    def __init__(self, network: Network, settings: InferenceSettings) -> None:
        self.network, self.settings, self.steps = network, settings, settings.iterations
        self.inner = restrict_to_possible_states(network)
        small = self.inner.network
        self.first, self.groups = state_offsets(small), group_factors_by_shape(small)
        self.owner = np.repeat(np.arange(small.count), small.cardinality)
        self.forests = draw_covering_forests(small, settings.seed)
        self.scopes = [small.factor_scope(a) for a in range(small.factor_count)]
        self.rooted = [root_factor_forest(self.scopes, members, small.count) for members in self.forests]
        share = np.zeros(small.factor_count)
        for members in self.forests:
            share[members] += 1.0 / len(self.forests)
        self.share = share

    def init(self) -> TreeReweightedState:
        """Return uniform messages."""
        size = sum(group.first.shape[0] * sum(group.logs.shape[1:]) for group in self.groups)
        return TreeReweightedState(np.zeros(size), np.empty(0), 0)

    def _message_views(self, message: Array) -> list[list[Array]]:
        """Return views (G, s) of each group's messages, axis by axis."""
        made, at = [], 0
        for group in self.groups:
            rows = []
            for axis in range(group.width):
                shape = len(group.number), group.logs.shape[axis + 1]
                rows.append(message[at : at + shape[0] * shape[1]].reshape(shape))
                at += shape[0] * shape[1]
            made.append(rows)
        return made

    def _log_node_beliefs(self, messages: list[list[Array]]) -> Array:
        """Return log b_i of all variables, flat, not normalised."""
        made = np.zeros(int(self.first[-1]))
        for group, rows in zip(self.groups, messages, strict=True):
            for axis, row in enumerate(rows):
                np.add.at(made, group.state_positions(axis), self.share[group.number, None] * row)
        return made

    def _log_factor_beliefs(self, group: FactorGroup, rows: list[Array], nodes: Array) -> Array:
        """Return log b_a of a group, (G, s_1, …), not normalised."""
        total = group.logs / self.share[group.number].reshape(-1, *[1] * group.width)
        for axis, row in enumerate(rows):
            total = total + group.broadcast_along_axis(nodes[group.state_positions(axis)] - row, axis)
        return np.asarray(total)

    def step(self, state: TreeReweightedState) -> TreeReweightedState:
        """Move every message towards the value at which its factor's marginal agrees with the variable's."""
        messages = self._message_views(state.message)
        nodes = self._log_node_beliefs(messages)
        largest = 0.0
        moved = []
        for group, rows in zip(self.groups, messages, strict=True):
            whole = self._log_factor_beliefs(group, rows, nodes)
            for axis in range(group.width):
                # m_ai(x_i) ∝ Σ_{x_a \ i} f_a^{1/ρ_a} Π_{j ≠ i} b_j/m_aj (eq. 39), the marginal of b_a divided by b_i/m_ai: the old message
                # times the ratio of two marginals that agree at the fixed point.
                change = _normalise_rows(log_sum_exp(whole, group.other_axes(axis))) - _normalise_rows(nodes[group.state_positions(axis)])
                largest = max(largest, float(np.abs(change).max(initial=0.0)))
                moved.append((rows[axis], change))
        for row, change in moved:
            # Damped in logarithms; a message's constant cancels between b_i and b_a, and the bound holds for any messages.
            row += (1.0 - KEPT) * change
            row -= row.max(axis=1, keepdims=True)
        return TreeReweightedState(state.message, np.append(state.residual, largest), state.step + 1)

    def bytes_needed(self, state: TreeReweightedState) -> tuple[int, str]:
        """Return the bytes of the forests' tables, and their purpose in words."""
        return 48 * len(self.inner.network.table), "the forests of tree-reweighted propagation"

    def result(self, state: TreeReweightedState) -> InferenceResult:
        """Return pseudo-marginals, with the bound as log Z."""
        messages = self._message_views(state.message)
        nodes = self._log_node_beliefs(messages)
        bound = self.bound(messages, nodes)
        log_b = np.concatenate([_normalise_rows(row[None])[0] for row in np.split(nodes, self.first[1:-1])])
        marginals = self.inner.expand_marginals(np.split(np.exp(log_b), self.first[1:-1]), self.network.cardinality)
        told = make_convergence_attributes(
            -bound, self.meets_criterion(state), state.step, state.residual, np.full(state.step, np.nan), log_z_upper=bound
        )
        return InferenceResult(marginals, [], told)

    def bound(self, messages: list[list[Array]], nodes: Array) -> float:
        """Compute Σ_T w_T log Z_T ≥ log Z from the forests' own networks; it is valid for any messages.

        Σ_i log b_i + Σ_a ρ_a (log b_a − Σ_{i ∈ a} log b_i) equals log Π f at every x for any messages, because terms added by b_i are
        subtracted by b_a.  Forest T has Σ_i log b_i + Σ_{a ∈ T} (log b_a − Σ_{i ∈ a} log b_i); their mean is log Π f, and log Z is convex
        (Wainwright, Jaakkola & Willsky 2005, eq. 17).
        """
        small = self.inner.network
        ratio: list[Array] = [np.empty(0)] * small.factor_count
        for group, rows in zip(self.groups, messages, strict=True):
            whole = group.logs / self.share[group.number].reshape(-1, *[1] * group.width)
            for axis, row in enumerate(rows):
                whole = whole - group.broadcast_along_axis(row, axis)
            for a, logs in zip(group.number.tolist(), whole, strict=True):
                ratio[a] = logs
        singles = np.split(nodes, self.first[1:-1])
        found = [_forest_log_z(self.scopes, singles, ratio, forest) for forest in self.rooted]
        return float(np.mean(found)) + self.inner.constant + rounding_error_bound((*singles, *ratio))


def _normalise_rows(logs: Array) -> Array:
    """Normalise rows of logarithms to distributions."""
    result: Array = logs - log_sum_exp(logs, (1,))[:, None]
    return result


@dataclass(frozen=True)
class FactorForest:
    """Factors without a loop: (factor, axis of the variable towards the root), roots first, and a root of every tree."""

    edges: list[tuple[int, int]]
    roots: list[int]


def root_factor_forest(scopes: Sequence[tuple[int, ...]], members: Sequence[int], count: int) -> FactorForest:
    """Return the forest of the factors `members`, which have no loop, with the paths to its roots; scopes are those of all factors."""
    touching: list[list[int]] = [[] for _ in range(count)]
    for a in members:
        for i in scopes[a]:
            touching[i].append(a)
    edges: list[tuple[int, int]] = []
    roots = []
    seen, used = [False] * count, set()
    for root_of_tree in range(count):
        if seen[root_of_tree]:
            continue
        roots.append(root_of_tree)
        seen[root_of_tree] = True
        waiting = [root_of_tree]
        while waiting:
            i = waiting.pop()
            for a in touching[i]:
                if a in used:
                    continue
                used.add(a)
                edges.append((a, scopes[a].index(i)))
                for j in scopes[a]:
                    if not seen[j]:
                        seen[j] = True
                        waiting.append(j)
    return FactorForest(edges, roots)


def _forest_log_z(scopes: Sequence[tuple[int, ...]], singles: Sequence[Array], ratio: Sequence[Array], forest: FactorForest) -> float:
    """Compute log Z of one forest from log tables of variables and factors, in logarithms throughout, so that any range is allowed."""
    nodes = list(singles)
    for a, towards in reversed(forest.edges):
        # Collect towards the root: each factor, times the messages of its other variables, is summed over those.
        table = ratio[a]
        for axis, i in enumerate(scopes[a]):
            if axis != towards:
                shape = [1] * table.ndim
                shape[axis] = -1
                table = table + nodes[i].reshape(shape)
        p = scopes[a][towards]
        nodes[p] = nodes[p] + log_sum_exp(table, tuple(axis for axis in range(table.ndim) if axis != towards))
    return float(sum(float(log_sum_exp(nodes[i], (0,))) for i in forest.roots))


def draw_covering_forests(network: Network, seed: int) -> list[list[int]]:
    """Draw random sets of factors without a loop, until there are FORESTS sets and every factor is in one."""
    made: list[list[int]] = []
    missing = set(range(network.factor_count))
    scopes = [network.factor_scope(a) for a in range(network.factor_count)]
    while missing or len(made) < FORESTS:
        random = generator(seed, Stream.CLAMP, unit=1, step=len(made)).permutation(network.factor_count).tolist()
        # Factors in no forest yet come first, because ρ_a must be above 0; a factor whose variables are in different trees closes no loop.
        ranked = sorted(random, key=lambda a: (a not in missing, -len(scopes[a]) if a in missing else 0)) if missing else random
        parent = list(range(network.count))
        members = []
        for a in ranked:
            ends = {find_root(parent, i) for i in scopes[a]}
            if len(ends) == len(scopes[a]):
                members.append(a)
                first = ends.pop()
                for end in ends:
                    parent[end] = first
        missing.difference_update(members)
        made.append(sorted(members))
    return made
