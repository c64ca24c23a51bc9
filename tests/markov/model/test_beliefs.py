"""The gap between marginals of variables and of cliques, in closed form and clique by clique."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.markov.bethe import free_energy as bethe
from herdcli.markov.model import beliefs, network, random_networks
from herdcli.markov.model.pairwise import reduce_to_pairwise


def test_the_gap_of_pairs_is_that_of_the_belief_that_was_moved():
    graph = reduce_to_pairwise(random_networks.generate_random_network("grid", rows=2, columns=2, sigma_w=0.0, sigma_b=0.0))
    node, pair = np.full(8, 0.5), np.full(4 * graph.edges, 0.25)
    assert bethe.largest_inconsistency(graph, bethe.PairBeliefs(node, pair)) == 0.0
    node[:2] = 0.75, 0.25
    assert bethe.largest_inconsistency(graph, bethe.PairBeliefs(node, pair)) == 0.25
    pair[:4] = 0.0, 0.0, 0.0, 1.0
    assert bethe.largest_inconsistency(graph, bethe.PairBeliefs(node, pair)) == 0.75


@pytest.mark.parametrize("evidence", [{}, {3: 1}])
def test_the_gap_of_an_artifact_is_the_largest_of_all_cliques(evidence):
    random = np.random.default_rng(3)
    states, scopes = [2, 3, 4, 2, 3], [(0, 1), (2, 0), (1, 3, 4), (4, 1, 3), (2,), (3, 1, 2)]
    given = network.build_network(states, [(scope, np.ones([states[i] for i in scope])) for scope in scopes])
    left = [1 if i in evidence else count for i, count in enumerate(states)]
    nodes = [random.dirichlet(np.ones(count)) for count in left]
    cliques = [(scope, random.dirichlet(np.ones(np.prod([left[i] for i in scope]))).reshape([left[i] for i in scope])) for scope in scopes]
    expected = max(
        np.abs(p.sum(axis=tuple(k for k in range(p.ndim) if k != axis)) - nodes[i]).max()
        for scope, p in cliques
        for axis, i in enumerate(scope)
    )
    made = beliefs.assemble_beliefs(given, evidence, nodes, cliques)
    assert made.consistency_gap == pytest.approx(expected, rel=1e-14)
    assert beliefs.assemble_beliefs(given, evidence, nodes, []).consistency_gap == 0.0
