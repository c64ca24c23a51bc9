"""Region graphs, the double loop and generalised belief propagation: counts, exact cases, one minimum, no rise."""

from __future__ import annotations

import numpy as np
import pytest
from inference import mean_error, run

from herdcli.algorithm import run_algorithm
from herdcli.errors import DataError, Diverged
from herdcli.markov import algorithms
from herdcli.markov.bethe.double_loop import DoubleLoop
from herdcli.markov.exact import elimination
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, random_networks
from herdcli.markov.model.graphs import region_graphs


def three_states(seed: int = 3):
    """A ring with a chord and a factor of three variables, two to four states."""
    random = np.random.default_rng(seed)
    cardinality = [3, 2, 4, 3, 2]
    scopes = [(0, 1), (1, 2), (2, 3), (0, 3), (1, 3, 4), (2,), ()]
    return network.build_network(
        cardinality, [(scope, np.exp(0.8 * random.standard_normal([cardinality[i] for i in scope]))) for scope in scopes]
    )


@pytest.mark.parametrize("kind", ["edges", "plaquettes"])
@pytest.mark.parametrize(
    "given",
    [
        random_networks.generate_random_network("grid", rows=4, columns=5),
        random_networks.generate_random_network("random", nodes=12, degree=5.0),
        three_states(),
    ],
)
def test_every_variable_and_factor_is_counted_once(given, kind):
    found = region_graphs.make_region_graph(given, kind)
    every = [(set(scope), 1) for scope in found.outer] + [(set(s), c) for s, c in zip(found.inner, found.count, strict=True)]
    for i in range(given.count):
        assert sum(count for scope, count in every if i in scope) == 1
    for scope, _ in given.factors():
        if scope:
            assert sum(count for region, count in every if set(scope) <= region) == 1
    for scope, parents in zip(found.inner, found.parents, strict=True):
        assert parents == [k for k, outer in enumerate(found.outer) if set(scope) < set(outer)]


def test_plaquettes_are_those_of_the_lattice_and_triangles():
    found = region_graphs.make_region_graph(random_networks.generate_random_network("grid", rows=3, columns=4), "plaquettes")
    assert found.outer == [(r * 4 + c, r * 4 + c + 1, r * 4 + c + 4, r * 4 + c + 5) for r in range(2) for c in range(3)]
    assert sorted(found.count) == [-1] * 7 + [1, 1]
    assert region_graphs.find_short_loops([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (1, 4)]) == {(0, 1, 2), (1, 2, 3, 4)}


@pytest.mark.parametrize("algorithm", ["double-loop", "gbp"])
@pytest.mark.parametrize("zeros", [False, True])
def test_one_region_of_all_variables_is_exact(algorithm, zeros):
    given = three_states()
    if zeros:
        given = network.build_network(given.cardinality, [*given.factors(), ((0, 2), np.eye(4)[:3])])
    method = DoubleLoop(given, InferenceSettings(algorithm=algorithm), region_graphs.close_under_intersection(given, [tuple(range(5))]))
    found = run_algorithm(method)
    exact = run(given, "enumerate")[1]
    assert found.attributes["converged"]
    assert abs(found.attributes["log_z"] - exact.attributes["log_z"]) < 1e-12
    assert mean_error(found, exact) < 1e-14


@pytest.mark.parametrize("algorithm", ["double-loop", "gbp"])
def test_trees_and_strong_couplings_with_zeros(algorithm):
    edges = np.array([[0, 1], [1, 2], [1, 3], [3, 4]])
    given = random_networks.network_from_weights(edges, np.array([50.0, -50.0, 50.0, 49.0]), np.array([-20.0, 5.0, 30.0, -60.0, 3.0]))
    given = network.build_network(given.cardinality, [*given.factors(), ((3, 4), np.array([[1.0, 0.0], [1.0, 1.0]]))])
    found, exact = run(given, algorithm, tolerance=1e-12)[1], run(given, "enumerate")[1]
    assert found.attributes["converged"]
    assert abs(found.attributes["log_z"] - exact.attributes["log_z"]) < 1e-9
    assert mean_error(found, exact) < 1e-9


def test_a_single_loop_of_zeros_is_exact_with_its_region():
    random = np.random.default_rng(2)
    tables = [random.random((3, 3)) * (random.random((3, 3)) < 0.7) + np.eye(3) * 0.1 for _ in range(4)]
    given = network.build_network([3] * 4, [((0, 1), tables[0]), ((1, 2), tables[1]), ((2, 3), tables[2]), ((0, 3), tables[3])])
    found, exact = run(given, "double-loop", regions="plaquettes")[1], run(given, "enumerate")[1]
    assert abs(found.attributes["log_z"] - exact.attributes["log_z"]) < 1e-12


@pytest.mark.parametrize("given", [random_networks.generate_random_network("grid", rows=5, columns=5, sigma_w=2.0, seed=1), three_states(),
                                   random_networks.generate_random_network("grid", rows=4, columns=4, sigma_w=5.0, seed=3)])  # fmt: skip
def test_double_loop_and_ups_have_one_bethe_log_z(given):
    ours, theirs = run(given, "double-loop", tolerance=1e-9)[1], run(given, "ups", tolerance=1e-10)[1]
    assert ours.attributes["converged"]
    assert abs(ours.attributes["log_z"] - theirs.attributes["log_z"]) < 1e-8
    assert mean_error(ours, theirs) < 1e-7


@pytest.mark.parametrize("kind", ["edges", "plaquettes"])
def test_its_free_energy_never_rises(kind):
    state, _ = run(
        random_networks.generate_random_network("grid", rows=4, columns=4, sigma_w=3.0, seed=4),
        "double-loop",
        regions=kind,
        tolerance=1e-9,
        iterations=30,
    )
    assert state.step > 10
    assert np.diff(state.free_energy).max() < 2e-9
    assert state.free_energy[0] - state.free_energy[-1] > 0.1


def test_plaquettes_are_right_where_propagation_diverges():
    given = random_networks.generate_random_network("grid", rows=10, columns=10, sigma_w=5.0, sigma_b=1.0, seed=2)
    exact = run(given, "junction-tree")[1]
    assert not run(given, "bp", iterations=100)[1].attributes["converged"]
    found = run(given, "double-loop", regions="plaquettes", tolerance=1e-4)[1]
    assert found.attributes["converged"]
    assert mean_error(found, exact) < 4e-3
    assert mean_error(run(given, "ups")[1], exact) > 0.1
    with pytest.raises(Diverged, match="gbp failed: the beliefs of a region became zero for all states"):
        run(given, "gbp", regions="plaquettes")


def test_gbp_with_damping_ends_where_the_double_loop_ends():
    given = random_networks.generate_random_network("grid", rows=3, columns=4, sigma_w=1.0, seed=6)
    ours, theirs = (run(given, name, regions="plaquettes", damping=d)[1] for name, d in (("gbp", 0.4), ("double-loop", 0.0)))
    assert ours.attributes["converged"]
    assert abs(ours.attributes["log_z"] - theirs.attributes["log_z"]) < 1e-7


def test_evidence_and_large_regions():
    given = random_networks.generate_random_network("grid", rows=3, columns=3, sigma_w=1.0, seed=5)
    held = network.condition_network(given, {0: 1, 4: 0})
    ours, exact = run(held, "double-loop", regions="plaquettes")[1], run(held, "enumerate")[1]
    assert [len(p) for p in ours.nodes] == [1, 2, 2, 2, 1, 2, 2, 2, 2]
    assert mean_error(ours, exact) < 1e-3
    with pytest.raises(DataError, match=r"a region of 23 variables has 8\.39e\+06 joint states, but herd handles at most 4194304"):
        region_graphs.close_under_intersection(network.build_network([2] * 23, []), [tuple(range(23))])


@pytest.mark.parametrize(
    "given",
    [
        random_networks.generate_random_network("grid", rows=4, columns=5),
        random_networks.generate_random_network("random", nodes=12, degree=4.0),
        three_states(),
    ],
)
@pytest.mark.parametrize("most", [3, 5])
def test_regions_of_cliques_count_everything_once_and_are_small(given, most):
    found = region_graphs.mini_bucket_regions(given, elimination.min_fill_order(given, 0), most)
    assert max(map(len, found.outer)) <= max(most, 3)
    every = [(set(scope), 1) for scope in found.outer] + [(set(s), c) for s, c in zip(found.inner, found.count, strict=True)]
    for scope, _ in given.factors():
        if scope:
            assert sum(count for region, count in every if set(scope) <= region) == 1


@pytest.mark.parametrize("seed", range(3))
def test_regions_as_large_as_the_cliques_of_a_junction_tree_are_exact(seed):
    given = random_networks.generate_random_network("random", nodes=9, degree=3.0, sigma_w=3.0, seed=seed)
    exact = run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm="enumerate")))
    order = elimination.min_fill_order(given, 0)
    found = DoubleLoop(
        given,
        InferenceSettings(algorithm="gbp", damping=0.5, iterations=3000, tolerance=1e-11),
        region_graphs.mini_bucket_regions(given, order, given.count),
    )
    ours = run_algorithm(found)
    assert ours.attributes["converged"]
    assert max(np.abs(p - q).max() for p, q in zip(ours.nodes, exact.nodes, strict=True)) < 1e-8
    assert abs(ours.attributes["log_z"] - exact.attributes["log_z"]) < 1e-8


def test_too_many_intersections_are_refused():
    given = random_networks.generate_random_network("random", nodes=14, degree=13.0)
    with pytest.raises(DataError, match="the regions have more than 9 intersections, which is too many"):
        region_graphs.close_under_intersection(given, region_graphs.find_short_loops(region_graphs.multistate_scopes(given)), 9)
