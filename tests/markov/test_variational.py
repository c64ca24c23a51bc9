"""Structured mean field and belief optimization: bounds, exact cases, and the minimum that other algorithms find."""

from __future__ import annotations

import numpy as np
import pytest
from inference import mean_error, run

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage
from herdcli.markov import algorithms
from herdcli.markov.bethe import binary_edges
from herdcli.markov.mean import structured_mean_field
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, pairwise, random_networks


@pytest.mark.parametrize("seed", range(3))
def test_structured_mean_field_bounds_log_z_and_is_nearer_than_mean_field(seed):
    given = random_networks.generate_random_network("grid", rows=4, columns=4, sigma_w=1.5, seed=seed)
    state, found = run(given, "structured-mean-field", tolerance=1e-12)
    exact, naive = run(given, "enumerate")[1], run(given, "mean-field", tolerance=1e-12)[1]
    assert found.attributes["converged"]
    assert naive.attributes["log_z"] < found.attributes["log_z"] < exact.attributes["log_z"]
    assert np.diff(state.free_energy).max() < 1e-12
    assert mean_error(found, exact) < mean_error(naive, exact)


def ring(cardinality=(3, 2, 4, 3), seed: int = 0):
    random = np.random.default_rng(seed)
    n = len(cardinality)
    scopes = [(i, (i + 1) % n) for i in range(n)]
    return network.build_network(
        cardinality, [(scope, np.exp(random.standard_normal([cardinality[i] for i in scope]))) for scope in scopes]
    )


def test_its_bound_is_the_variational_free_energy_of_its_beliefs():
    """On a ring one edge is cut on each side of a kept path and a node: E_Q log(Q/Π f) over the joint table of Q."""
    given = ring()
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm="structured-mean-field", tolerance=1e-13))
    found = run_algorithm(method)
    q = np.ones(given.cardinality)
    seen = np.zeros(4, dtype=bool)
    pairs = {scope: p for scope, p in found.cliques if scope not in method.cut_ends}
    assert len(pairs) == 2
    for (i, j), p in pairs.items():
        shape = [n if k in (i, j) else 1 for k, n in enumerate(given.cardinality)]
        q = q * p.reshape(shape)
        for k in (i, j):
            if seen[k]:
                q = q / found.nodes[k].reshape([-1 if m == k else 1 for m in range(4)])
            seen[k] = True
    for k in np.flatnonzero(~seen):
        q = q * found.nodes[k].reshape([-1 if m == k else 1 for m in range(4)])
    assert abs(q.sum() - 1) < 1e-12
    logs = sum(np.log(t if scope[0] < scope[1] else t.T).reshape([n if k in scope else 1 for k, n in enumerate(given.cardinality)])
               for scope, t in given.factors())  # fmt: skip
    assert abs(found.attributes["free_energy"] - float((q * (np.log(q) - logs)).sum())) < 1e-11


def test_it_is_exact_where_nothing_is_cut():
    given = random_networks.generate_random_network("tree", nodes=12, sigma_w=3.0, seed=2)
    found, exact = run(given, "structured-mean-field", tolerance=1e-12)[1], run(given, "enumerate")[1]
    assert mean_error(found, exact) < 1e-13
    assert abs(found.attributes["log_z"] - exact.attributes["log_z"]) < 1e-11


def test_kept_edges_are_strong_and_trees_have_no_other_edge():
    graph = pairwise.reduce_to_pairwise(random_networks.generate_random_network("random", nodes=40, degree=4.0, seed=1))
    tree, kept = structured_mean_field.partition_into_trees(graph)
    inside = tree[graph.tail[::2]] == tree[graph.head[::2]]
    assert np.array_equal(inside, kept)
    assert kept.sum() == 40 - (tree.max() + 1)
    weights = np.abs(np.log(graph.table.reshape(-1, 4)) @ [1, -1, -1, 1])
    assert kept[weights.argmax()]
    assert weights[kept].mean() > weights[~kept].mean()


@pytest.mark.parametrize("seed", range(3))
def test_belief_optimization_finds_the_bethe_minimum(seed):
    given = random_networks.generate_random_network("grid", rows=5, columns=4, sigma_w=2.0, seed=seed)
    state, found = run(given, "belief-optimization", tolerance=1e-11, iterations=5000)
    theirs = run(given, "bp", tolerance=1e-13)[1]
    assert found.attributes["converged"]
    assert np.diff(state.free_energy).max() < 1e-12
    assert mean_error(found, theirs) < 1e-9
    assert abs(found.attributes["log_z"] - theirs.attributes["log_z"]) < 1e-10
    ours, bethe = (run(given, name, tolerance=1e-12, iterations=5000, linear_response=True)[1] for name in ("belief-optimization", "bp"))
    assert np.allclose(ours.attributes["covariance"], bethe.attributes["covariance"], atol=1e-8)


def test_belief_optimization_under_evidence_and_on_single_units():
    given = network.condition_network(random_networks.generate_random_network("grid", rows=3, columns=3, sigma_w=4.0, seed=1), {4: 1})
    ours, theirs = run(given, "belief-optimization", iterations=3000)[1], run(given, "ups")[1]
    assert abs(ours.attributes["log_z"] - theirs.attributes["log_z"]) < 1e-7
    alone = run(network.build_network([2, 2], [((0,), np.array([1.0, 3.0]))]), "belief-optimization")[1]
    assert np.allclose(alone.nodes, [[0.25, 0.75], [0.5, 0.5]])


@pytest.mark.parametrize("weight", [0.0, 3.0, -3.0, 50.0, -50.0])
def test_pairs_in_closed_form(weight):
    given = random_networks.network_from_weights(np.array([[0, 1]]), np.array([weight]), np.zeros(2))
    graph = pairwise.reduce_to_pairwise(given)
    for q0, q1 in ((0.3, 0.6), (0.9, 0.2), (0.5, 0.5), (1e-9, 1 - 1e-9)):
        node = np.array([1 - q0, q0, 1 - q1, q1])
        tables = binary_edges.edge_log_tables(graph)
        (p,) = binary_edges.messages_from_marginals(graph, tables, node)[1]
        assert np.allclose([p[0] + p[1], p[2] + p[3], p[0] + p[2]], [1 - q0, q0, 1 - q1], rtol=1e-12)
        assert abs(np.log(p) @ [1, -1, -1, 1] - weight) < 1e-6
        if 0.1 < q0 < 0.95 and abs(weight) < 10:
            inverse = np.linalg.inv(np.array([[q0 * (1 - q0), p[3] - q0 * q1], [p[3] - q0 * q1, q1 * (1 - q1)]]))
            first, second, mixed = (part[0] for part in binary_edges.edge_second_derivatives(p[None]))
            assert np.allclose([[first, mixed], [mixed, second]], inverse, rtol=1e-9)


def test_wrong_uses():
    three = network.build_network([2, 2, 2], [((0, 1, 2), np.ones((2, 2, 2)))])
    with pytest.raises(BadUsage, match="--algorithm structured-mean-field needs factors of at most two variables, but one has 3"):
        run(three, "structured-mean-field")
    with pytest.raises(BadUsage, match="--algorithm belief-optimization needs factors of at most two variables, but factor 0 has 3"):
        run(three, "belief-optimization")
    loop = network.build_network([2] * 3, [((0, 1), np.eye(2)), ((1, 2), np.eye(2)), ((0, 2), np.eye(2))])
    with pytest.raises(
        BadUsage, match="--algorithm structured-mean-field cannot leave out the edge between x1 and x2, because its factor has a zero"
    ):
        run(loop, "structured-mean-field")
