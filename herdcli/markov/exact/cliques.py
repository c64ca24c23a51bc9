"""Cliques joined by separators, as a junction tree or a junction graph, and the arrays for the loops over them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from herdcli.iterate import run_steps
from herdcli.markov.exact import elimination, junction_tree
from herdcli.markov.exact.junction_tree import JunctionTreeLayout
from herdcli.markov.model.constraints import maximal_scopes
from herdcli.markov.model.network import Network
from herdcli.records import dataclass
from herdcli.schema import Array

Scope = tuple[int, ...]
Row = tuple[int, int]  # a row of a program for `clique_updates`


@dataclass(frozen=True)
class CliqueGraph:
    """Cliques and their separators.

    separators  (c, d, the variables that cliques c and d share).
    is_tree     True if there are no loops.
    """

    cliques: list[Scope]
    separators: list[tuple[int, int, Scope]]
    is_tree: bool

    def neighbours(self) -> list[list[tuple[int, int]]]:
        """Return, for each clique, (the neighbouring clique, the number of the message to it).

        Message 2s goes from c to d of separator s, 2s + 1 back.
        """
        found: list[list[tuple[int, int]]] = [[] for _ in self.cliques]
        for s, (c, d, _) in enumerate(self.separators):
            found[c].append((d, 2 * s))
            found[d].append((c, 2 * s + 1))
        return found

    def smallest_containing_cliques(self, scopes: Sequence[Scope]) -> list[int]:
        """Return the smallest clique that contains each scope (every scope must be in one)."""
        return smallest_containing_cliques(self.cliques, scopes)

    def inner(self) -> list[tuple[Scope, list[int]]]:
        """Return each separator with its two cliques."""
        return [(scope, [c, d]) for c, d, scope in self.separators]

    def cells(self, cardinality: Array) -> int:
        """Return the number of table cells of all cliques."""
        return sum(math.prod(int(cardinality[i]) for i in clique) for clique in self.cliques)

    def bytes_needed(self, cardinality: Array, scopes: Sequence[Scope]) -> int:
        """Return the memory of the tables and of the maps from their cells to those of separators and clusters, in bytes."""
        return clique_table_bytes(self.cliques, self.inner(), cardinality, scopes)


def smallest_containing_cliques(cliques: Sequence[Scope], scopes: Sequence[Scope]) -> list[int]:
    """Return the smallest clique that contains each scope (every scope must be in one)."""
    members = [frozenset(clique) for clique in cliques]
    holding: dict[int, list[int]] = {}
    for c in sorted(range(len(members)), key=lambda c: len(members[c])):
        for i in members[c]:
            holding.setdefault(i, []).append(c)
    return [next(c for c in holding[scope[0]] if members[c].issuperset(scope)) for scope in scopes]


def clique_table_bytes(
    cliques: Sequence[Scope], inner: Sequence[tuple[Scope, list[int]]], cardinality: Array, scopes: Sequence[Scope]
) -> int:
    """Return the memory of clique tables and of the maps from their cells to those of inner regions and clusters, in bytes."""
    links = np.ones(len(cliques))
    np.add.at(links, smallest_containing_cliques(cliques, scopes), 1)
    for _, parents in inner:
        links[parents] += 1
    sizes = [float(np.prod([float(cardinality[i]) for i in clique])) for clique in cliques]
    return int(min(2.0**62, float(np.dot(sizes, 16 + 4 * links))))


def search_elimination_orders(network: Network, seed: int, orders: int) -> elimination.OrderSearch:
    """Return the best of several elimination orders."""
    graph = elimination.moral_graph(network)
    return run_steps(
        lambda state: elimination.try_more_orders(network, graph, seed, state),
        elimination.initial_order_search(network),
        steps=orders,
        until=lambda state: (state.complete and state.width <= 1) or (state.step >= 2 and not state.complete),
    )


def junction_tree_from_order(tree: JunctionTreeLayout) -> tuple[CliqueGraph, list[int]]:
    """Return the maximal cliques of an elimination order, joined as a junction tree, and the position of each in the order."""
    merged = list(range(len(tree.scopes)))
    across = []
    for k, (scope, p) in enumerate(zip(tree.scopes, tree.parent, strict=True)):
        if p < 0:
            continue
        # The separator, scope[1:], is inside the parent's scope.  If the child has one variable more than the parent, the separator equals
        # the parent's scope.  Then the parent is not a maximal clique, and the child replaces it.
        if merged[p] == p and len(scope) == len(tree.scopes[p]) + 1:
            merged[p] = k
        else:
            across.append((k, p))

    def owner(k: int) -> int:
        while merged[k] != k:
            k = merged[k]
        return k

    kept = [k for k in range(len(merged)) if merged[k] == k]
    place = {k: c for c, k in enumerate(kept)}
    separators = [(place[owner(k)], place[owner(p)], tuple(tree.scopes[k][1:])) for k, p in across]
    return CliqueGraph([tuple(tree.scopes[k]) for k in kept], separators, True), kept


def build_junction_graph(cliques: Sequence[Scope]) -> CliqueGraph:
    """Return a junction graph with exactly these cliques, except those inside others.

    For each variable the cliques that contain it are joined as a tree, along the largest intersections.  A separator is the set of
    variables whose trees share it.  If the cliques are those of a junction tree, the result is that tree.
    Source: Aji & McEliece (2001); Teh (2003), sec. 6.5.2.
    """
    kept = maximal_scopes(cliques)
    holding: dict[int, list[int]] = {}
    for c, clique in enumerate(kept):
        for i in clique:
            holding.setdefault(i, []).append(c)
    members = [frozenset(clique) for clique in kept]
    sizes = {(c, d): len(members[c] & members[d]) for owners in holding.values() for c, d in combinations(owners, 2)}
    ranked = sorted(sizes, key=lambda pair: (-sizes[pair], pair))
    parents = {i: {c: c for c in owners} for i, owners in holding.items()}
    joined: list[tuple[int, int, Scope]] = []
    for c, d in ranked:
        # Kruskal's algorithm for all variables together, largest intersections first.  A junction tree is a spanning tree of largest total
        # weight Σ |c ∩ d|, and each of its separators is the whole intersection; so a junction tree is found if there is one.
        agreed = tuple(sorted(i for i in members[c] & members[d] if _merge_sets(parents[i], c, d)))
        if agreed:
            joined.append((c, d, agreed))
    forest = {c: c for c in range(len(kept))}
    loops = [pair for pair in joined if not _merge_sets(forest, *pair[:2])]
    return CliqueGraph(kept, joined, not loops)


def _merge_sets(parent: dict[int, int], c: int, d: int) -> bool:
    """Merge the sets of c and d; return False if they were in the same set."""
    roots = []
    for x in (c, d):
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        roots.append(x)
    parent[roots[0]] = roots[1]
    return roots[0] != roots[1]


@dataclass(frozen=True)
class ScalingLayout:
    """The arrays of numpy_junction: links 0 … A−1 join clusters to their cliques; the links of the inner regions follow.

    In a clique graph the inner regions are separators of two cliques, and A + e is the sending end of message e.
    """

    cliques: list[Scope]
    inner: list[tuple[Scope, list[int]]]
    links: tuple[Array, ...]
    home: list[int]
    target: Array
    scratch: Array

    @property
    def clusters(self) -> int:
        """A, the number of clusters."""
        return len(self.home)

    def message_program_row(self, e: int) -> tuple[int, int]:
        """Return message e as a row of a program."""
        return self.clusters + e, self.clusters + (e ^ 1)

    def scope_cells(self, scope: int) -> slice:
        """Return the slice of a scope's cells in `values`; clusters come first, then separators."""
        return slice(int(self.links[5][scope]), int(self.links[5][scope + 1]))

    def clique_cells(self, c: int) -> slice:
        """Return the slice of a clique's cells in `tables`."""
        return slice(int(self.links[0][c]), int(self.links[0][c + 1]))

    def uniform_values(self) -> Array:
        """Return 1 for clusters and uniform marginals for separators."""
        sizes = np.diff(self.links[5])
        return np.repeat(np.where(np.arange(len(sizes)) < self.clusters, 1.0, 1.0 / sizes), sizes)

    def uniform_tables(self) -> Array:
        """Return uniform clique marginals."""
        sizes = np.diff(self.links[0])
        return np.repeat(1.0 / sizes, sizes)


def build_scaling_layout(
    cliques: list[Scope], inner: list[tuple[Scope, list[int]]], cardinality: Array, scopes: Sequence[Scope], targets: Sequence[Array]
) -> ScalingLayout:
    """Build the flat arrays of clusters, and of inner regions with the cliques that share them."""
    states = cardinality.tolist()
    home = smallest_containing_cliques(cliques, scopes)
    every = [*scopes, *(variables for variables, _ in inner)]
    ends = [(c, a) for a, c in enumerate(home)]
    ends += [(c, len(scopes) + s) for s, (_, parents) in enumerate(inner) for c in parents]
    sizes = [math.prod(states[i] for i in scope) for scope in every]
    maps = [map_cells_to_scope(cliques[c], every[s], states) for c, s in ends]
    flat = [np.asarray(target, dtype=np.float64).ravel() for target in targets]
    padding = np.zeros(sum(sizes[len(scopes) :]))
    links = (
        _cumulative_offsets([math.prod(states[i] for i in clique) for clique in cliques]),
        np.array([c for c, _ in ends], dtype=np.int32),
        np.array([s for _, s in ends], dtype=np.int32),
        _cumulative_offsets([len(part) for part in maps]),
        np.concatenate(maps) if maps else np.empty(0, dtype=np.int32),
        _cumulative_offsets(sizes),
    )
    return ScalingLayout(cliques, inner, links, home, np.concatenate([*flat, padding]), np.empty(2 * max(sizes, default=1)))


def map_cells_to_scope(clique: Scope, scope: Scope, states: Sequence[int]) -> Array:
    """Return, for each cell of a clique's table, the cell of a scope's table, int32; both in C order."""
    found = np.zeros([states[i] for i in clique], dtype=np.int32)
    stride = 1
    for i in reversed(scope):
        axis = clique.index(i)
        shape = [1] * len(clique)
        shape[axis] = states[i]
        found += (np.arange(states[i], dtype=np.int32) * stride).reshape(shape)
        stride *= states[i]
    return found.ravel()


def _cumulative_offsets(lengths: Sequence[int]) -> Array:
    return np.concatenate(([0], np.cumsum(np.array(lengths, dtype=np.int64)))).astype(np.int64)


def walk_depth_first(graph: CliqueGraph, root: int) -> Iterator[tuple[int, int, bool]]:
    """Walk around the tree of `root` depth first; yield (the clique, the message that leads to it or −1, True at the first visit)."""
    near = graph.neighbours()
    yield root, -1, True
    path = [(root, -1, iter(near[root]))]
    while path:
        _, came, more = path[-1]
        for there, e in more:
            if e != came ^ 1 or came < 0:
                yield there, e, True
                path.append((there, e, iter(near[there])))
                break
        else:
            path.pop()
            if path:
                yield path[-1][0], came ^ 1, False


def tree_roots(graph: CliqueGraph) -> list[int]:
    """Return the first clique of each connected part of a tree."""
    seen: set[int] = set()
    found = []
    for c in range(len(graph.cliques)):
        if c not in seen:
            found.append(c)
            seen.update(there for there, _, _ in walk_depth_first(graph, c))
    return found


def build_scaling_schedule(graph: CliqueGraph, layout: ScalingLayout) -> list[Row]:
    """Return the schedule of UPS-JT: a depth-first walk around each tree, with one propagation per step.

    Clusters are scaled at the first visit of their clique.
    """
    owned: list[list[int]] = [[] for _ in layout.cliques]
    for a, c in enumerate(layout.home):
        owned[c].append(a)
    rows: list[Row] = []
    for root in tree_roots(graph):
        for c, e, first in walk_depth_first(graph, root):
            if e >= 0:
                rows.append(layout.message_program_row(e))
            if first:
                rows += [(a, -1) for a in owned[c]]
    return rows


def initial_scaling_tables(
    base_network: Network | None, tree: JunctionTreeLayout, clique_positions: Sequence[int], layout: ScalingLayout
) -> tuple[Array, Array]:
    """Return the clique tables and separator marginals of a base network, or uniform ones.

    clique_positions  the position of each clique in the elimination order of `tree`.
    """
    values = layout.uniform_values()
    if base_network is None:
        return layout.uniform_tables(), values
    home = [min((tree.position[i] for i in scope if base_network.cardinality[i] > 1), default=0) for scope, _ in base_network.factors()]
    found = junction_tree.calibrate(base_network, JunctionTreeLayout(tree.scopes, tree.parent, home, tree.position))
    tables = np.concatenate([np.exp(found.tables[k] - found.log_z).ravel() for k in clique_positions])
    for s, (_, (c, _)) in enumerate(layout.inner):
        k = layout.clusters + 2 * s
        cell = layout.links[4][layout.links[3][k] : layout.links[3][k + 1]]
        at = layout.scope_cells(layout.clusters + s)
        values[at] = np.bincount(cell, tables[layout.clique_cells(c)], at.stop - at.start)
    return tables, values
