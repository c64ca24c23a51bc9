"""Junction trees and graphs, region graphs, and the approximate entropies that are maximised over them."""

from __future__ import annotations

import itertools

import learning_cases as cases
import numpy as np
import pytest

from herdcli import iterate
from herdcli.errors import BadUsage
from herdcli.markov.exact import cliques, junction_tree
from herdcli.markov.learning import cvm
from herdcli.markov.learning import learners as learning
from herdcli.markov.learning.learners import LearningSettings
from herdcli.markov.model import constraints, network, random_networks
from herdcli.markov.model.constraints import LearningProblem, StateRows
from herdcli.markov.model.graphs import structure_selection

BINARY = np.full(6, 2)
GRID = [tuple(edge) for edge in random_networks.grid_edges(2, 3).tolist()]


def holds_running_intersection(graph: cliques.CliqueGraph, nodes: int) -> bool:
    """Do the cliques and separators of every variable form a tree?"""
    for i in range(nodes):
        own = [c for c, clique in enumerate(graph.cliques) if i in clique]
        edges = [(c, d) for c, d, scope in graph.separators if i in scope]
        parent = {c: c for c in own}
        if len(edges) != len(own) - 1 or False in [cliques._merge_sets(parent, c, d) for c, d in edges]:
            return False
    return True


@pytest.mark.parametrize("seed", range(4))
def test_junction_trees_of_elimination_orders(seed):
    given = random_networks.generate_random_network("random", nodes=25, degree=3, seed=seed)
    tree = junction_tree.build_clique_tree(given, cliques.search_elimination_orders(given, seed, 3).order)
    graph, kept = cliques.junction_tree_from_order(tree)
    assert len(set(map(frozenset, graph.cliques))) == len(graph.cliques) == len(kept)
    assert not any(set(a) < set(b) for a in graph.cliques for b in graph.cliques)
    assert holds_running_intersection(graph, 25)
    assert all(set(scope) <= set(graph.cliques[c]) & set(graph.cliques[d]) for c, d, scope in graph.separators)
    parts = len(cliques.tree_roots(graph))
    assert len(graph.separators) == len(graph.cliques) - parts


@pytest.mark.parametrize("seed", range(4))
def test_a_junction_graph_of_a_junction_trees_cliques_is_a_junction_tree(seed):
    given = random_networks.generate_random_network("random", nodes=25, degree=3, seed=seed)
    tree, _ = cliques.junction_tree_from_order(
        junction_tree.build_clique_tree(given, cliques.search_elimination_orders(given, seed, 3).order)
    )
    graph = cliques.build_junction_graph(tree.cliques)
    assert graph.is_tree
    assert holds_running_intersection(graph, 25)
    total = sum(len(scope) for _, _, scope in graph.separators)
    assert total == sum(len(scope) for _, _, scope in tree.separators)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_any_cliques_make_a_junction_graph(size):
    random = np.random.default_rng(size)
    wanted = [tuple(sorted(random.choice(12, size, replace=False).tolist())) for _ in range(20)]
    graph = cliques.build_junction_graph(wanted)
    assert set(map(frozenset, graph.cliques)) == set(map(frozenset, wanted))
    assert holds_running_intersection(graph, 12)
    assert not graph.is_tree


def test_walks_around_a_tree_cross_each_separator_twice():
    given = random_networks.generate_random_network("random", nodes=30, degree=3, seed=9)
    graph, _ = cliques.junction_tree_from_order(
        junction_tree.build_clique_tree(given, cliques.search_elimination_orders(given, 0, 3).order)
    )
    sends = [e for root in cliques.tree_roots(graph) for _, e, _ in cliques.walk_depth_first(graph, root) if e >= 0]
    assert sorted(sends) == list(range(2 * len(graph.separators)))
    assert len(sends) > 10


def test_edges_as_cliques_have_the_closed_form():
    """Teh (2003), sec. 6.5: the multipliers of pairs are log p_ij / (p_i p_j), the product is Π p_ij / Π p_i^(d_i − 1)."""
    given = cases.problem(cardinality=BINARY, scopes=GRID)
    expected = np.zeros(BINARY)
    for (i, j), p in ((c.scope, c.target) for c in given.clusters):
        logs = np.log(p) - np.log(p.sum(axis=1, keepdims=True)) - np.log(p.sum(axis=0, keepdims=True))
        expected = expected + logs.reshape([2 if k in (i, j) else 1 for k in range(6)])
    for i in range(6):
        p = given.rows.empirical_marginal((i,), (2,), 1.0)
        expected = expected + np.log(p).reshape([2 if k == i else 1 for k in range(6)])
    expected = np.exp(expected) / np.exp(expected).sum()
    for algorithm, settings in (("loopy-is", {}), ("loopy-is", {"double_loop": True}), ("cvm", {"regions": tuple(GRID)})):
        _, learned = cases.fit(given, algorithm, tolerance=1e-11, **settings)
        assert learned.converged
        assert np.abs(cases.joint(given, learned.factors) - expected).max() < 1e-9


@pytest.mark.parametrize("settings", [{"algorithm": "loopy-is"}, {"algorithm": "loopy-is", "double_loop": True}, {"algorithm": "cvm"}])
def test_cliques_of_a_junction_tree_are_exact(settings):
    given = cases.problem()
    _, learned = cases.fit(given, **settings, max_clique=6, tolerance=1e-10)
    assert learned.converged
    assert np.abs(cases.joint(given, learned.factors) - cases.fitted_by_hand(given, 300)).max() < 1e-8


def test_squares_of_a_strip_are_exact():
    """The plaquettes of a 2 × n lattice are the cliques of a junction tree."""
    given = cases.problem(cardinality=BINARY, scopes=GRID, shape=np.array([2, 3]))
    learner = learning.make_learner(given, LearningSettings(algorithm="cvm"))
    assert learner.outer == [(0, 1, 3, 4), (1, 2, 4, 5)]
    assert [(scope, c) for (scope, _), c in zip(learner.inner, learner.weight, strict=True)] == [((1, 4), -1.0)]
    _, learned = cases.fit(given, "cvm", tolerance=1e-10)
    assert np.abs(cases.joint(given, learned.factors) - cases.fitted_by_hand(given, 300)).max() < 1e-8


def test_counting_numbers_sum_to_one_for_every_variable():
    random = np.random.default_rng(1)
    outer = constraints.maximal_scopes([tuple(sorted(random.choice(10, 4, replace=False).tolist())) for _ in range(12)])
    inner = cvm.find_kikuchi_regions(outer)
    assert any(c > 0 for *_, c in inner)
    for i in {i for scope in outer for i in scope}:
        assert sum(i in scope for scope in outer) + sum(c for scope, _, c in inner if i in scope) == 1
    assert all(set(around) == {k for k, o in enumerate(outer) if set(scope) <= set(o)} for scope, around, _ in inner)


@pytest.mark.parametrize("settings", [{"algorithm": "cvm"}, {"algorithm": "loopy-is", "double_loop": True}])
@pytest.mark.parametrize("seed", range(2))
def test_the_double_loop_converges_its_entropy_never_falls_and_the_regions_agree(settings, seed, monkeypatch):
    monkeypatch.setattr(cvm, "INNER_SHARE", 1e-9)  # run every inner loop to its end
    scopes = [(i, (i + 1) % 8) for i in range(8)] + [(0, 3), (1, 5), (2, 6), (4, 7)]
    given = cases.problem(seed, scopes, cardinality=np.full(8, 2))
    learner = learning.make_learner(given, LearningSettings(max_clique=3, tolerance=1e-9, iterations=3000, **settings))
    state = iterate.run_steps(learner.step, learner.init(), steps=3000, until=learner.done)
    assert learner.meets_criterion(state)
    assert state.step > 4
    assert (np.diff(state.entropy) > -1e-7).all()
    assert state.entropy[-1] > state.entropy[0] + 1e-5
    made = learner.layout
    for r, (scope, around) in enumerate(learner.inner):
        own = state.values[made.scope_cells(made.clusters + r)]
        for c in around:
            cell = cliques.map_cells_to_scope(learner.outer[c], scope, [2] * 8)
            assert np.abs(np.bincount(cell, state.tables[made.clique_cells(c)]) - own).max() < 1e-8
    for a, cluster in enumerate(given.clusters):
        cell = cliques.map_cells_to_scope(learner.outer[made.home[a]], cluster.scope, [2] * 8)
        assert np.abs(np.bincount(cell, state.tables[made.clique_cells(made.home[a])]) - cluster.target.ravel()).max() < 1e-8


def test_both_loops_find_the_same_fixed_point_and_larger_cliques_are_nearer():
    cardinality = np.full(8, 2)
    scopes = [(i, (i + 1) % 8) for i in range(8)] + [(0, 3), (1, 5), (2, 6)]
    given = cases.problem(cardinality=cardinality, scopes=scopes, smoothing=40.0)
    exact = cases.fitted_by_hand(given, 300)
    distances = []
    for size in (2, 3, 4):
        found = []
        for settings in ({"double_loop": True}, {"damping": 0.3}):
            _, learned = cases.fit(given, "loopy-is", max_clique=size, tolerance=1e-9, iterations=3000, **settings)
            assert learned.converged
            found.append(cases.joint(given, learned.factors))
        assert np.abs(found[0] - found[1]).max() < 1e-7
        distances.append(np.abs(found[0] - exact).sum())
    assert distances[-1] < 1e-6 < distances[0] or distances[-1] < distances[0]


@pytest.mark.parametrize("size", [2, 3])
def test_damped_scaling_ends_where_propagation_of_strong_couplings_is_unstable(size):
    """Ten columns, copies of two with a seventh of them drawn anew: propagation that settles before each scaling runs to infinity."""
    random = np.random.default_rng(0)
    base = random.integers(0, 2, (60, 2))
    x = np.where(random.random((60, 10)) < 0.15, random.integers(0, 2, (60, 10)), base[:, np.arange(10) % 2])
    rows, scopes = StateRows(x, np.full(60, 1 / 60)), [(i, j) for i in range(10) for j in range(i + 2, 10, 2)]
    given = LearningProblem(np.full(10, 2), constraints.make_clusters(rows, np.full(10, 2), scopes, 1.0), rows=rows)
    found = []
    for settings in ({"double_loop": True}, {"damping": 0.5}):
        _, learned = cases.fit(given, "loopy-is", max_clique=size, tolerance=1e-8, iterations=3000, **settings)
        assert learned.converged
        found.append(cases.joint(given, learned.factors))
    assert np.abs(found[0] - found[1]).max() < 1e-6


def test_a_base_that_has_the_marginals_of_each_clique_alone_is_not_taken_for_the_end():
    """Of the circle 0, 1, 2, 3 the factor of 2 tilts its own cliques to the marginal given, and has yet to be heard of in those of 0."""
    pair, tilt = np.array([[0.4, 0.1], [0.1, 0.4]]), np.array([0.2, 0.8])
    circle = ((0, 1), (1, 2), (2, 3), (0, 3))
    base = network.build_network(np.full(4, 2), [*((edge, pair) for edge in circle), ((2,), tilt)])
    clusters = [constraints.Cluster((0,), np.full(2, 0.5)), constraints.Cluster((2,), (pair * tilt).sum(axis=0) / (pair * tilt).sum())]
    given, found = LearningProblem(np.full(4, 2), clusters, base=base), []
    for settings in ({"double_loop": True}, {"damping": 0.5}):
        _, learned = cases.fit(given, "loopy-is", regions=circle, tolerance=1e-9, iterations=2000, **settings)
        assert learned.converged
        found.append(cases.joint(given, learned.factors))
    assert np.abs(found[0] - found[1]).max() < 1e-7
    assert np.abs(found[0] - cases.joint(given, [np.ones(2), np.ones(2)])).max() > 1e-2


def test_cliques_grow_inside_the_junction_tree_by_information():
    given = random_networks.generate_random_network("random", nodes=20, degree=3.5, seed=2)
    within, _ = cliques.junction_tree_from_order(
        junction_tree.build_clique_tree(given, cliques.search_elimination_orders(given, 0, 4).order)
    )
    widest = max(len(clique) for clique in within.cliques)
    assert widest >= 5
    random = np.random.default_rng(0)
    information = random.random((20, 20))
    information = information + information.T
    np.fill_diagonal(information, 0)
    edges = [scope for scope, _ in given.factors() if len(scope) == 2]
    before = edges
    for size in range(3, widest):
        grown = structure_selection.grow_cliques(edges, within.cliques, information, size)
        assert max(map(len, grown)) <= size
        assert all(any(set(clique) <= set(other) for other in within.cliques) for clique in grown)
        assert all(any(set(edge) <= set(clique) for clique in grown) for edge in before)
        before = grown
    assert set(map(frozenset, structure_selection.grow_cliques(edges, within.cliques, information, widest))) == set(
        map(frozenset, within.cliques)
    )
    alone = structure_selection.grow_cliques([(0, 1), (2, 3)], [(0, 1, 2, 3, 4)], information[:5, :5], 3)
    choices = [(i, j, k) for i, j in ((0, 1), (2, 3)) for k in range(5) if k not in (i, j)]
    best = max(choices, key=lambda t: information[t[0], t[2]] + information[t[1], t[2]])
    assert tuple(sorted(best)) in alone


def test_regions_that_hold_no_cluster_are_refused():
    with pytest.raises(BadUsage, match=r"no region of --regions contains all variables of cluster 0 \(0, 1\)"):
        learning.make_learner(cases.problem(scopes=[(0, 1)]), LearningSettings(algorithm="cvm", regions=((2, 3),)))
    with pytest.raises(BadUsage, match="--max-clique 2 is too small: the largest cluster has 3 variables"):
        learning.make_learner(cases.problem(), LearningSettings(algorithm="cvm", max_clique=2))


def test_pairs_of_all_variables_intersect_in_themselves_alone():
    assert cvm.find_kikuchi_regions([(0, 1), (2, 3)]) == []
    assert cvm.find_kikuchi_regions(list(itertools.combinations(range(3), 2))) == [
        ((i,), [k for k in range(3) if k != 2 - i], -1) for i in range(3)
    ]
