"""The graph of a network: parents, Markov blankets, ancestors, the moral graph and its treewidth.

Source: Koller & Friedman (2009), chapters 3 and 4; Bodlaender & Koster (2011) for the lower bound of treewidth.
"""

from __future__ import annotations

import numpy as np

from herdcli.markov.exact import cliques
from herdcli.markov.exact.elimination import Graph, moral_graph
from herdcli.markov.model.graphs.dag import (
    Parents,
    contract_last_variables,
    find_active_trails,
    find_reachable,
    find_unblocked_paths,
    invert_parents,
    markov_blanket,
    network_parents,
)
from herdcli.markov.model.network import Network
from herdcli.records import dataclass

MOST_CONTRACTED = 3000  # largest number of variables of a graph whose edges are contracted for the bound


@dataclass(frozen=True)
class GraphDescription:
    """A description of the graph of a network.

    parents      the parents of each variable; None if the network is not directed.
    near         neighbours in the moral graph.
    least, most  bounds of the treewidth, in which large noisy-max tables are divided; −1 if no upper bound was found.
    cells        number of cells of all cliques of the junction tree.
    """

    parents: Parents | None
    near: Graph
    least: int
    most: int
    cells: float

    @property
    def children(self) -> list[list[int]]:
        """The children of each variable."""
        return [] if self.parents is None else invert_parents(self.parents)

    def find_markov_blanket(self, i: int) -> list[int]:
        """Return the Markov blanket of variable i, or its neighbours if the network is not directed."""
        return sorted(self.near[i] if self.parents is None else markov_blanket(self.parents, self.children, i))

    def ancestors(self, i: int) -> list[int]:
        """Return all ancestors of variable i."""
        return [] if self.parents is None else sorted(find_reachable(self.parents, [i]) - {i})

    def descendants(self, i: int) -> list[int]:
        """Return all descendants of variable i."""
        return [] if self.parents is None else sorted(find_reachable(self.children, [i]) - {i})


def network_parents_or_none(network: Network) -> Parents | None:
    """Return the parents of each variable of a Bayesian network, None for other networks.

    The parents of a noisy-max whose table is divided are the user's, and auxiliary variables are left out.
    """
    parents = network_parents(network) if network.directed else None
    return parents if parents is None else contract_last_variables(parents, network.listed_count)


def describe_graph(network: Network, orders: int, seed: int) -> GraphDescription:
    """Compute the description of a network's graph."""
    near = _listed_moral_graph(network)
    found = cliques.search_elimination_orders(network, seed, orders)
    most = found.width if found.complete else -1
    least = treewidth_lower_bound(moral_graph(network, np.maximum(network.cardinality, 2)) if network.auxiliary else near)
    return GraphDescription(network_parents_or_none(network), near, least, most, found.cells if found.complete else float("nan"))


def _listed_moral_graph(network: Network) -> Graph:
    """Return the moral graph without auxiliary variables, in which all parents of a noisy-max are neighbours."""
    if not network.auxiliary:
        return moral_graph(network, np.maximum(network.cardinality, 2))
    near: Graph = [set() for _ in range(network.listed_count)]
    parents = network_parents_or_none(network)
    assert parents is not None, "only conditional tables are divided"
    for i, above in enumerate(parents):
        for j in (family := {i, *above}):
            near[j] |= family - {j}
    return near


def treewidth_lower_bound(neighbours: Graph) -> int:
    """Return a lower bound of treewidth.

    It is the largest minimum degree while a vertex of least degree is contracted into its neighbour of least degree.
    """
    graph = {i: set(others) for i, others in enumerate(neighbours)}
    best = 0
    while len(graph) > 1:
        i = min(graph, key=lambda v: (len(graph[v]), v))
        best = max(best, len(graph[i]))
        others = graph.pop(i)
        for j in others:
            graph[j].discard(i)
        if others and len(neighbours) <= MOST_CONTRACTED:
            j = min(others, key=lambda v: (len(graph[v]), v))
            for k in others - {j}:
                graph[j].add(k)
                graph[k].add(j)
    return best


def dependent_variables(network: Network, i: int, observed: list[int]) -> dict[int, list[int]]:
    """Return the variables that the graph does not separate from variable i given others, each with a shortest active trail from i."""
    parents = network_parents_or_none(network)
    if parents is not None:
        return find_active_trails(parents, i, observed)
    return find_unblocked_paths(_listed_moral_graph(network), i, observed)
