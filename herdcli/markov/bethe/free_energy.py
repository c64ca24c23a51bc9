"""Beliefs computed from messages, and the Bethe free energy of beliefs.

    F = Σ_ij Σ b_ij log(b_ij/ψ_ij) − Σ_i Σ b_i log ψ_i + Σ_i (1 − n_i) Σ b_i log b_i

Source: Teh (2003), 2.50 and 5.8; beliefs 5.5 and 5.6, at nodes with a given marginal 5.21 with the multipliers of 5.24.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from herdcli.markov.model.network import Factor
from herdcli.markov.model.pairwise import PairwiseNetwork
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class PairBeliefs:
    """Beliefs of nodes and edges.

    node  flat over all nodes.
    pair  flat over all edges, rows belong to the tail of the even direction.
    """

    node: Array
    pair: Array


@dataclass(frozen=True)
class EdgeGroup:
    """Edges whose tables have one shape, with the positions of their values.

    of_tail, of_head, cells  (edges, states …) positions in the arrays of messages and of tables.
    logs                     (edges, cells) of the tables.
    """

    of_tail: Array
    of_head: Array
    cells: Array
    logs: Array


@dataclass(frozen=True)
class BeliefLayout:
    """Arrays that the beliefs of all messages on a graph share.

    place      see `message_state_positions`.
    owner      the node of each state.
    potential  log potentials.
    """

    place: Array
    owner: Array
    potential: Array
    pairs: list[EdgeGroup]


def make_belief_layout(graph: PairwiseNetwork) -> BeliefLayout:
    """Return the layout for many calls of `compute_beliefs` on one graph; it needs several times the memory of the tables."""
    with np.errstate(divide="ignore"):
        return BeliefLayout(
            message_state_positions(graph),
            np.repeat(np.arange(graph.nodes), graph.cardinality),
            np.log(graph.potential),
            list(_edge_groups(graph)),
        )


def compute_beliefs(
    graph: PairwiseNetwork, messages: Array, fixed: Array, target: Array, layout: BeliefLayout | None = None
) -> PairBeliefs:
    """Compute the beliefs of nodes and edges, each normalised; `fixed` nodes have their `target`."""
    place = layout.place if layout else message_state_positions(graph)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs, potential = np.log(messages), layout.potential if layout else np.log(graph.potential)
    # Zeros are counted separately from the sum of finite logarithms, so that a message can be divided out of its product again:
    # −∞ − (−∞) is not a number.
    closed, finite = np.isneginf(logs), np.where(np.isneginf(logs), 0.0, logs)
    size = int(graph.node_offset[-1])
    total = np.bincount(place, finite, size) + np.where(np.isneginf(potential), 0.0, potential)
    zeros = np.bincount(place, closed, size) + np.isneginf(potential)
    owner = layout.owner if layout else np.repeat(np.arange(graph.nodes), graph.cardinality)
    node = _normalise_groups(np.where(zeros > 0, -np.inf, total), owner, graph.nodes)
    held = fixed[owner].astype(bool)
    node[held] = target[held]
    # The weight of the tail of each directed edge, at the position of the message in the opposite direction.
    weight = np.where(zeros[place] - closed > 0, -np.inf, total[place] - finite)
    with np.errstate(divide="ignore", invalid="ignore"):
        # b_ij ∝ ψ_ij e^{λ_ji} e^{λ_ij} with e^{λ_ji} = ô_i / M_ji (5.24): then Σ_j b_ij = (ô_i / M_ji) M_ji is the given marginal.
        bounced = np.where(target[place] > 0, np.log(target[place]) - logs, -np.inf)
    weight = np.where(held[place], bounced, weight)
    return PairBeliefs(node, _pair_beliefs(graph, weight, layout.pairs if layout else _edge_groups(graph)))


def message_state_positions(graph: PairwiseNetwork) -> Array:
    """Return the flat state of a node that each message value belongs to (values of all messages,)."""
    row = np.repeat(np.arange(len(graph.head)), np.diff(graph.message_offset))
    place: Array = graph.node_offset[graph.head[row]] + np.arange(len(row)) - graph.message_offset[row]
    return place


def _normalise_groups(logs: Array, owner: Array, groups: int) -> Array:
    """Compute exp of logs, normalised so that each group sums to one."""
    top = np.full(groups, -np.inf)
    np.maximum.at(top, owner, logs)
    p = np.exp(logs - np.where(np.isneginf(top), 0.0, top)[owner])
    result: Array = p / np.bincount(owner, p, groups)[owner]
    return result


def _edge_groups(graph: PairwiseNetwork) -> Iterator[EdgeGroup]:
    shapes = graph.cardinality[graph.tail[::2]].astype(np.int64) << 32 | graph.cardinality[graph.head[::2]]
    for shape in np.unique(shapes):
        chosen = np.flatnonzero(shapes == shape)
        rows, columns = int(shape >> 32), int(shape & 0xFFFFFFFF)
        of_tail = graph.message_offset[2 * chosen + 1][:, None] + np.arange(rows)
        of_head = graph.message_offset[2 * chosen][:, None] + np.arange(columns)
        cells = graph.table_offset[chosen][:, None] + np.arange(rows * columns)
        with np.errstate(divide="ignore"):
            yield EdgeGroup(of_tail, of_head, cells, np.log(graph.table[cells]))


def _pair_beliefs(graph: PairwiseNetwork, weight: Array, edge_groups: Iterable[EdgeGroup]) -> Array:
    """Compute b_ij ∝ ψ_ij w_i w_j; weight[message_offset[d]:] is w of the head of d, without the message d."""
    made = np.empty(len(graph.table))
    for each in edge_groups:
        both = weight[each.of_tail][:, :, None] + weight[each.of_head][:, None]
        logs = both.reshape(len(each.cells), -1) + each.logs
        top = logs.max(axis=1, keepdims=True)
        p = np.exp(logs - np.where(np.isneginf(top), 0.0, top))
        with np.errstate(invalid="ignore"):
            made[each.cells] = p / p.sum(axis=1, keepdims=True)
    return made


def bethe_free_energy(graph: PairwiseNetwork, beliefs: PairBeliefs) -> float:
    """Compute the Bethe free energy; it is −log Z on trees."""
    owner = np.repeat(1 - graph.degree(), graph.cardinality)
    # 2.50 with ψ = scaled ψ times a constant: −Σ b log ψ omits the sum of the logarithms of the constants, because each belief sums to one.
    pairs = _negative_entropy_terms(beliefs.pair) - _log_potential_terms(beliefs.pair, graph.table)
    nodes = owner * _negative_entropy_terms(beliefs.node) - _log_potential_terms(beliefs.node, graph.potential)
    return float(pairs.sum() + nodes.sum() - graph.log_scale)


def _negative_entropy_terms(p: Array) -> Array:
    """Compute p log p, with 0 at 0."""
    result: Array = p * np.log(np.where(p > 0, p, 1.0))
    return result


def _log_potential_terms(p: Array, potential: Array) -> Array:
    """Compute p log ψ, with 0 where p is 0 (rounding may leave p > 0 where ψ is 0)."""
    result: Array = p * np.log(np.where((p > 0) & (potential > 0), potential, 1.0))
    return result


def largest_inconsistency(graph: PairwiseNetwork, beliefs: PairBeliefs) -> float:
    """Return the largest difference between a node's belief and a marginal of an edge's."""
    largest = 0.0
    for e in range(graph.edges):
        i, j = graph.tail[2 * e], graph.head[2 * e]
        table = beliefs.pair[graph.table_offset[e] : graph.table_offset[e + 1]].reshape(graph.cardinality[i], -1)
        for node, p in ((i, table.sum(axis=1)), (j, table.sum(axis=0))):
            own = beliefs.node[graph.node_offset[node] : graph.node_offset[node + 1]]
            largest = max(largest, float(np.abs(own - p).max()))
    return largest


def beliefs_as_marginals(graph: PairwiseNetwork, beliefs: PairBeliefs, cardinality: Array) -> tuple[list[Array], list[Factor]]:
    """Return marginals of the variables, and of pairs and larger factors."""
    split = np.split(beliefs.node, graph.node_offset[1:-1])
    cliques: list[Factor] = []
    for e in range(graph.edges):
        i, j = int(graph.tail[2 * e]), int(graph.head[2 * e])
        if j < graph.variables:
            table = beliefs.pair[graph.table_offset[e] : graph.table_offset[e + 1]]
            cliques.append(((i, j), table.reshape(graph.cardinality[i], graph.cardinality[j])))
    for node, (scope, cells) in graph.auxiliary.items():
        full = np.zeros([int(cardinality[i]) for i in scope])
        full.flat[cells] = split[node]
        cliques.append((scope, full))
    return split[: graph.variables], cliques
