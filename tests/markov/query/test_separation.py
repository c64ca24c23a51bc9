"""d-separation beside numerical independence in random networks, and graphs whose treewidth is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from herdcli.markov.model import network, random_networks
from herdcli.markov.model.graphs import dag
from herdcli.markov.query import query_parsing
from herdcli.markov.query.graph_description import dependent_variables, describe_graph, treewidth_lower_bound


def random_network(seed: int, count: int = 5) -> tuple[network.Network, np.ndarray]:
    """A Bayesian network of two-state variables and its joint table."""
    random = np.random.default_rng(seed)
    factors = []
    joint = np.ones([2] * count)
    for i in range(count):
        parents = [j for j in range(i) if random.random() < 0.4]
        table = random.dirichlet([1, 1], [2] * len(parents))
        factors.append(((*parents, i), table))
        joint = joint * table.reshape([2 if j in (*parents, i) else 1 for j in range(count)])
    return network.build_network([2] * count, factors, directed=True), joint


def independent(joint: np.ndarray, i: int, j: int, given: tuple[int, ...]) -> bool:
    """P(i, j | given) = P(i | given) P(j | given) to rounding."""
    others = tuple(k for k in range(joint.ndim) if k not in (i, j, *given))
    p = joint.sum(axis=others, keepdims=True)
    left, right, both = p.sum(axis=j, keepdims=True), p.sum(axis=i, keepdims=True), p.sum(axis=(i, j), keepdims=True)
    return bool(np.abs(p * both - left * right).max() < 1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_separated_variables_are_those_that_are_independent(seed):
    given, joint = random_network(seed)
    for size in range(4):
        for known in itertools.combinations(range(5), size):
            for i in set(range(5)) - set(known):
                trails = dependent_variables(given, i, list(known))
                for j in set(range(5)) - {i, *known}:
                    assert (j in trails) != independent(joint, i, j, known)


def test_trails_are_shortest_and_pass_colliders_that_are_known():
    parents = ((), (), (0, 1), (2,))  # 0 → 2 ← 1, 2 → 3
    assert dag.find_active_trails(parents, 0, []) == {2: [0, 2], 3: [0, 2, 3]}
    assert dag.find_active_trails(parents, 0, [3]) == {2: [0, 2], 1: [0, 2, 1]}
    assert dag.find_active_trails(parents, 0, [2]) == {1: [0, 2, 1]}


def test_without_directions_paths_go_around_what_is_known():
    grid = random_networks.generate_random_network("grid", rows=3, columns=3, seed=0)
    assert sorted(dependent_variables(grid, 0, [1, 3])) == []
    assert dependent_variables(grid, 0, [1, 4])[8] == [0, 3, 6, 7, 8]


def test_blankets_and_ancestors():
    given = network.build_network(
        [2] * 4, [((0,), np.ones(2)), ((1,), np.ones(2)), ((0, 1, 2), np.ones(8)), ((2, 3), np.ones(4))], directed=True
    )
    found = describe_graph(given, 4, 0)
    assert found.parents == ((), (), (0, 1), (2,))
    assert [found.find_markov_blanket(i) for i in range(4)] == [[1, 2], [0, 2], [0, 1, 3], [2]]
    assert (found.ancestors(3), found.descendants(0)) == ([0, 1, 2], [2, 3])
    assert (found.least, found.most) == (2, 2)


@pytest.mark.parametrize("size", [3, 5])
def test_bounds_of_treewidth_hold(size):
    found = describe_graph(random_networks.generate_random_network("grid", rows=size, columns=size, seed=0), 8, 0)
    assert found.least <= size <= found.most <= size + 1
    complete = [set(range(size)) - {i} for i in range(size)]
    assert treewidth_lower_bound(complete) == size - 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dsep:a,b", query_parsing.Query("dsep", ("a", "b"))),
        ('dsep:"a,b", c|d,"e|f"', query_parsing.Query("dsep", ("a,b", "c"), given=("d", "e|f"))),
        ("independent:a|b,c", query_parsing.Query("independent", ("a",), given=("b", "c"))),
        ('joint:"light on","a,b"', query_parsing.Query("joint", ("light on", "a,b"))),
        ('sensitivity:"a=b"="c=d"', query_parsing.Query("sensitivity", ("a=b",), "c=d")),
        ("sensitivity:a=x", query_parsing.Query("sensitivity", ("a",), "x")),
    ],
)
def test_queries_of_graphs_and_quoted_names(text, expected):
    assert query_parsing.parse_query(text) == expected


@pytest.mark.parametrize("text", ["dsep:a", "dsep:a,b,c", "independent:a,b", "independent:|a", "dsep"])
def test_queries_that_are_none(text):
    with pytest.raises(ValueError, match="is none of"):
        query_parsing.parse_query(text)
