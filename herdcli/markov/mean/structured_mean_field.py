"""Structured mean field: Q is a product of trees, each exact inside, that interact through their marginals only.

Variables are joined along the strongest couplings as long as the result is a tree without a further edge
inside; those edges are kept, the others are cut.  Given all others, the best Q of one tree has potentials

    log ψ_i(x_i) + Σ_cut Σ_{x_j} Q_j(x_j) log ψ_ij(x_i, x_j),

so that the bound −F ≤ log Z never decreases.  Trees without a cut edge between them are updated together.
Source: Saul & Jordan (1996); Teh (2003), sec. 2.4.1.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix

from herdcli import fast
from herdcli.errors import BadUsage
from herdcli.markov.bethe import clamping, starts
from herdcli.markov.bethe import free_energy as bethe
from herdcli.markov.bethe.loopy_propagation import bethe_result_bytes, underflow_warning
from herdcli.markov.method import InferenceResult, InferenceSettings, ToTolerance
from herdcli.markov.model.beliefs import make_convergence_attributes
from herdcli.markov.model.graphs.union_find import find_root
from herdcli.markov.model.network import Network
from herdcli.markov.model.pairwise import PairwiseNetwork, reduce_to_pairwise
from herdcli.records import dataclass
from herdcli.schema import Array

SWEEPS = 50  # largest number of sweeps of a tree; two are enough


@dataclass
class StructuredMeanFieldState:
    """Marginals (flat), messages on the kept edges, and one residual and free energy per sweep."""

    node: Array
    messages: Array
    residual: Array
    free_energy: Array
    updates: int
    step: int


class StructuredMeanField(ToTolerance[StructuredMeanFieldState, InferenceSettings]):
    """The algorithm `structured-mean-field`."""

    state = StructuredMeanFieldState

    def __init__(self, network: Network, settings: InferenceSettings) -> None:
        self.network, self.settings, self.steps = network, settings, settings.iterations
        whole = reduce_to_pairwise(network)
        if whole.auxiliary:
            scope = next(iter(whole.auxiliary.values()))[0]
            hint = "use --algorithm bp or ups, which work for any network"
            raise BadUsage(f"--algorithm structured-mean-field needs factors of at most two variables, but one has {len(scope)}", hint=hint)
        self.tree, kept = partition_into_trees(whole)
        self.graph = _graph_with_edges(whole, np.flatnonzero(kept))
        self.cut = np.flatnonzero(~kept)
        if zero := [e for e in self.cut if not whole.edge_table(int(e)).all()]:
            i, j = network.name(int(whole.tail[2 * zero[0]])), network.name(int(whole.head[2 * zero[0]]))
            raise BadUsage(
                f"--algorithm structured-mean-field cannot leave out the edge between {i} and {j}, because its factor has a zero",
                hint="use --algorithm ups",
            )
        self.cut_ends = [(int(whole.tail[2 * e]), int(whole.head[2 * e])) for e in self.cut]
        self.coupling, self.scratch = _cut_couplings(whole, self.cut), self.graph.scratch()
        self.free, self.nothing = self.graph.flatten_fixed_marginals({})
        self.turns = self._tree_updates(whole)
        largest = int(np.bincount(self.tree).max(initial=0))
        self.note = (
            f"kept: {int(kept.sum())} of {whole.edges} edges, the strongest that leave trees; {self.tree.max(initial=-1) + 1} trees, "
            f"the largest of {largest} variables"
        )

    def _tree_updates(self, whole: PairwiseNetwork) -> list[tuple[Array, Array, Array]]:
        """Return the states, order of updates and segments of each set of trees that are updated together."""
        near: dict[int, set[int]] = defaultdict(set)
        for e in self.cut:
            a, b = (int(self.tree[i]) for i in (whole.tail[2 * e], whole.head[2 * e]))
            near[a].add(b)
            near[b].add(a)
        colour: dict[int, int] = {}
        for t in range(int(self.tree.max(initial=-1)) + 1):
            taken = {colour[other] for other in near[t] if other in colour}
            colour[t] = next(c for c in range(len(taken) + 1) if c not in taken)
        plan = clamping.make_clamp_plan(self.graph, set(), set())
        of_segment = np.array([colour[int(self.tree[self.graph.tail[plan.order[at]]])] for at in plan.segments[:-1]], dtype=np.int64)
        of_state = np.array([colour[int(t)] for t in self.tree], dtype=np.int64)[
            np.repeat(np.arange(len(self.tree)), self.graph.cardinality)
        ]
        turns = []
        for c in range(max(colour.values(), default=-1) + 1):
            pieces = [plan.order[plan.segments[s] : plan.segments[s + 1]] for s in np.flatnonzero(of_segment == c)]
            ends = np.concatenate(([0], np.cumsum([len(piece) for piece in pieces]))).astype(np.int64)
            order = np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int32)
            turns.append((np.flatnonzero(of_state == c), order, ends))
        return turns

    def init(self) -> StructuredMeanFieldState:
        """Return uniform marginals, or random ones."""
        node = starts.make_initial_marginals(self.settings, self.graph.cardinality)
        return StructuredMeanFieldState(node, self.graph.uniform_messages(), np.empty(0), np.empty(0), 0, 0)

    def step(self, state: StructuredMeanFieldState) -> StructuredMeanFieldState:
        """Update every tree once."""
        before = state.node.copy()
        for states, order, segments in self.turns:
            # Given the fields of all other trees, the best Q_T is exact inference on T (Saul & Jordan 1996), which propagation does on a
            # tree; so F cannot increase.
            graph = self._mean_field_network(state.node)
            sweeps = np.zeros(len(segments) - 1, dtype=np.int64)
            fast.settle(order, segments, state.messages, graph.arrays, self.free, self.nothing, 1e-14, SWEEPS, sweeps, self.scratch)
            state.node[states] = bethe.compute_beliefs(graph, state.messages, self.free, self.nothing).node[states]
            state.updates += int(sweeps @ np.diff(segments))
        state.residual = np.append(state.residual, np.abs(state.node - before).max(initial=0.0))
        state.free_energy = np.append(state.free_energy, self._free_energy(state)[0])
        state.step += 1
        return state

    def _mean_field_network(self, node: Array) -> PairwiseNetwork:
        owner = np.repeat(np.arange(self.graph.nodes), self.graph.cardinality)
        with np.errstate(divide="ignore"):
            # Minimising Σ Q log Q/ψ over one factor Q_T of Q, with the others fixed: Q_T ∝ exp E[log ψ | x_T] (Saul & Jordan 1996); cut
            # edges contribute Σ_j Q_j log ψ_ij as a field on i.
            logs = np.log(self.graph.potential) + self.coupling @ node
        top = np.full(self.graph.nodes, -np.inf)
        np.maximum.at(top, owner, logs)
        return replace(self.graph, potential=np.exp(logs - top[owner]))

    def _free_energy(self, state: StructuredMeanFieldState) -> tuple[float, bethe.PairBeliefs]:
        """Return the variational free energy, and the beliefs of the trees; messages are those of each tree's own last update."""
        pair = bethe.compute_beliefs(self._fixed_point_potentials(state), state.messages, self.free, self.nothing).pair
        found = bethe.PairBeliefs(state.node, pair)
        # Trees have their exact free energy; cut edges add −Σ Q_i Q_j log ψ_ij, which node'C node counts from both ends.
        return bethe.bethe_free_energy(self.graph, found) - 0.5 * float(state.node @ (self.coupling @ state.node)), found

    def _fixed_point_potentials(self, state: StructuredMeanFieldState) -> PairwiseNetwork:
        """Return the potentials for which the present messages give the present marginals."""
        with np.errstate(divide="ignore", invalid="ignore"):
            # Inverse of 5.5, ψ = b / Π M: the fields of trees that were updated before others are outdated, while their messages and
            # marginals are consistent.
            logs = np.log(state.node) - np.bincount(bethe.message_state_positions(self.graph), np.log(state.messages), len(state.node))
        return replace(self.graph, potential=np.exp(np.where(np.isnan(logs), -np.inf, logs)))

    def bytes_needed(self, state: StructuredMeanFieldState) -> tuple[int, str]:
        """Return the bytes of the beliefs, and their purpose in words."""
        return bethe_result_bytes(self.graph, False)

    def result(self, state: StructuredMeanFieldState) -> InferenceResult:
        """Return marginals, pair beliefs of kept edges, products for the cut ones, and the bound on log Z."""
        energy, found = self._free_energy(state)
        nodes, cliques = bethe.beliefs_as_marginals(self.graph, found, self.network.cardinality)
        cliques += [((i, j), np.outer(nodes[i], nodes[j])) for i, j in self.cut_ends]
        done = self.meets_criterion(state)
        attributes = make_convergence_attributes(
            energy, done, state.step, state.residual, state.free_energy, propagation_updates=state.updates
        )
        return InferenceResult(nodes, cliques, attributes, underflow_warning(self.network, self.graph, state.messages, self.free))


def partition_into_trees(graph: PairwiseNetwork) -> tuple[Array, Array]:
    """Return the tree of each node (N,), and which edges are kept (E,), greedily by strength, the largest log odds ratio of ψ.

    Two trees are joined if exactly one edge runs between them, so that no edge is cut inside a tree.
    """
    parent = list(range(graph.nodes))
    between: list[dict[int, int]] = [defaultdict(int) for _ in range(graph.nodes)]
    strength = np.empty(graph.edges)
    for e in range(graph.edges):
        i, j = int(graph.tail[2 * e]), int(graph.head[2 * e])
        between[i][j] += 1
        between[j][i] += 1
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(graph.edge_table(e))
            # log ψ(x, y) ψ(x', y') / ψ(x, y') ψ(x', y) over all pairs of rows and columns: the part that no field on i or on j can
            # represent
            odds = logs[:, None, :, None] - logs[:, None, None, :] - logs[None, :, :, None] + logs[None, :, None, :]
        strength[e] = np.inf if np.isneginf(logs).any() else odds.max()

    kept = np.zeros(graph.edges, dtype=bool)
    for e in np.argsort(-strength, kind="stable").tolist():
        # Kruskal's greedy choice of the strongest edges, with one more condition: a second edge between the trees would be cut inside
        # their union.
        a, b = find_root(parent, int(graph.tail[2 * e])), find_root(parent, int(graph.head[2 * e]))
        if a == b or between[a][b] != 1:
            continue
        kept[e], parent[b] = True, a
        for other, count in between[b].items():
            if other != a:
                between[a][other] += count
                between[other][a] += count
            del between[other][b]
        between[a].pop(b, None)
        between[b].clear()
    roots = np.array([find_root(parent, i) for i in range(graph.nodes)])
    return np.unique(roots, return_inverse=True)[1], kept


def _graph_with_edges(graph: PairwiseNetwork, edges: Array) -> PairwiseNetwork:
    """Return the graph with the same nodes and only these edges."""
    directed = np.stack([2 * edges, 2 * edges + 1], axis=1).ravel()
    tail, head = graph.tail[directed], graph.head[directed]
    tables = [graph.table[graph.table_offset[e] : graph.table_offset[e + 1]] for e in edges]
    offsets = [np.concatenate(([0], np.cumsum(sizes))).astype(np.int64) for sizes in (
        [len(table) for table in tables], graph.cardinality[head], np.bincount(head, minlength=graph.nodes))]  # fmt: skip
    return replace(
        graph,
        tail=np.ascontiguousarray(tail),
        head=np.ascontiguousarray(head),
        table=np.concatenate(tables) if tables else np.empty(0),
        table_offset=offsets[0],
        message_offset=offsets[1],
        in_offset=offsets[2],
        in_edge=np.argsort(head, kind="stable").astype(np.int32),
    )


def _cut_couplings(graph: PairwiseNetwork, cut: Array) -> csr_matrix:
    """Return log ψ_ij of the cut edges, in both directions (states, states)."""
    size = int(graph.node_offset[-1])
    rows, columns, values = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)], [np.empty(0)]
    for e in cut.tolist():
        i, j = graph.tail[2 * e], graph.head[2 * e]
        own, others = (np.arange(graph.node_offset[k], graph.node_offset[k + 1]) for k in (i, j))
        at = np.meshgrid(own, others, indexing="ij")
        logs = np.log(graph.edge_table(e)).ravel()
        rows += [at[0].ravel(), at[1].ravel()]
        columns += [at[1].ravel(), at[0].ravel()]
        values += [logs, logs]
    return coo_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(size, size)).tocsr()
