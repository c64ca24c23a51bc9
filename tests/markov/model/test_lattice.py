"""Propagation in the ratio domain on lattices: the fixed point of the general loop, and where it cannot be used."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage
from herdcli.markov import algorithms
from herdcli.markov.bethe import lattice_bp
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import beliefs, boltzmann, flat_marginals, network, random_networks


def infer(given, **settings):
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm="bp", tolerance=1e-12, **settings))
    return method, run_algorithm(method)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 6), (7, 1), (2, 2), (5, 4), (4, 5), (9, 8)])
def test_beliefs_and_log_z_are_those_of_the_general_loop(rows, columns):
    given = random_networks.generate_random_network("grid", rows=rows, columns=columns, sigma_w=1.0, sigma_b=1.0, seed=rows)
    method, ours = infer(given, schedule="checkerboard")
    theirs = infer(given, schedule="residual")[1]
    assert isinstance(method, lattice_bp.LatticePropagation)
    assert ours.attributes["converged"]
    assert np.abs(np.array(ours.nodes) - np.array(theirs.nodes)).max() < 1e-11
    assert abs(ours.attributes["log_z"] - theirs.attributes["log_z"]) < 1e-9
    pairs = {scope: p for scope, p in theirs.cliques if len(scope) == 2}
    assert len(ours.cliques) == len(pairs) == rows * (columns - 1) + columns * (rows - 1)
    assert all(np.allclose(p, pairs[scope], atol=1e-11) for scope, p in ours.cliques)


def test_any_positive_tables_of_two_states_will_do():
    random = np.random.default_rng(0)
    edges = [tuple(edge) for edge in random_networks.grid_edges(4, 5).tolist()]
    factors = [(edge[::-1] if k % 3 else edge, np.exp(0.5 * random.standard_normal((2, 2)))) for k, edge in enumerate(edges)]
    given = network.build_network([2] * 20, [*factors, ((), np.array(0.2)), ((3,), np.array([0.1, 0.7]))], shape=np.array([4, 5]))
    ours, theirs = infer(given, schedule="checkerboard")[1], infer(given, schedule="residual")[1]
    assert np.abs(np.array(ours.nodes) - np.array(theirs.nodes)).max() < 1e-11
    assert abs(ours.attributes["log_z"] - theirs.attributes["log_z"]) < 1e-9


def test_evidence_and_the_trace_of_every_sweep():
    given = network.condition_network(
        random_networks.generate_random_network("grid", rows=5, columns=6, sigma_w=1.0, seed=3), {0: 1, 8: 0, 9: 1, 29: 0}
    )
    ours, theirs = infer(given, schedule="checkerboard")[1], infer(given, schedule="sequential")[1]
    assert [len(p) for p in ours.nodes] == given.cardinality.tolist()
    assert max(np.abs(p - q).max() for p, q in zip(ours.nodes, theirs.nodes, strict=True)) < 1e-11
    assert abs(ours.attributes["log_z"] - theirs.attributes["log_z"]) < 1e-10
    shapes = {scope: p.shape for scope, p in ours.cliques}
    assert (shapes[0, 1], shapes[8, 9], shapes[1, 2]) == ((1, 2), (1, 1), (2, 2))
    trace = ours.attributes["trace"]
    assert len(trace.residual) == len(trace.free_energy) == ours.attributes["iterations"] > 4
    assert trace.free_energy[-1] == ours.attributes["free_energy"]


def test_large_grids_take_it_by_themselves():
    assert isinstance(
        infer(random_networks.generate_random_network("grid", rows=40, columns=30), iterations=8)[0], lattice_bp.LatticePropagation
    )
    assert not isinstance(
        infer(random_networks.generate_random_network("grid", rows=4, columns=3), iterations=8)[0], lattice_bp.LatticePropagation
    )
    strong = random_networks.generate_random_network("grid", rows=40, columns=30, sigma_w=60.0)
    assert not isinstance(infer(strong, iterations=1)[0], lattice_bp.LatticePropagation)


def test_workers_and_bands_of_rows_change_nothing():
    given = random_networks.generate_random_network("grid", rows=300, columns=4, sigma_w=1.0, seed=4)
    alone = algorithms.make_inference_method(given, InferenceSettings(algorithm="bp", schedule="checkerboard", tolerance=1e-12))
    with ThreadPoolExecutor(3) as pool:
        shared = algorithms.make_inference_method(
            given, InferenceSettings(algorithm="bp", schedule="checkerboard", tolerance=1e-12), pool.map
        )
        ours, theirs = run_algorithm(shared), run_algorithm(alone)
    assert len(shared.bands) == 3
    assert np.array_equal(ours.nodes.values, theirs.nodes.values)
    assert np.array_equal(ours.cliques.table, theirs.cliques.table)
    assert ours.attributes["log_z"] == theirs.attributes["log_z"]


def test_bands_of_rows_on_a_chain_are_exact():
    given = random_networks.generate_random_network("grid", rows=260, columns=1, sigma_w=1.0, seed=4)
    ours = infer(given, schedule="checkerboard")[1]
    known = run_algorithm(algorithms.make_inference_method(given, InferenceSettings(orders=1)))
    assert np.abs(ours.nodes.values - np.concatenate(known.nodes)).max() < 1e-11
    assert abs(ours.attributes["log_z"] - known.attributes["log_z"]) < 1e-9


def test_marginals_of_variables_alone_are_the_same_ones():
    given = random_networks.generate_random_network("grid", rows=140, columns=3, sigma_w=1.0, seed=5)
    whole, short = (infer(given, schedule="checkerboard", output_marginals=which)[1] for which in ("all", "nodes"))
    assert (len(whole.cliques), len(short.cliques)) == (140 * 2 + 139 * 3, 0)
    assert np.array_equal(whole.nodes.values, short.nodes.values)
    assert whole.attributes["log_z"] == short.attributes["log_z"]
    gap = whole.attributes.pop("consistency_gap")
    reckoned = beliefs.assemble_beliefs(given, {}, whole.nodes, whole.cliques, **whole.attributes).consistency_gap
    assert abs(gap - reckoned) < 1e-15
    assert gap == short.attributes["consistency_gap"]


def test_flat_results_are_read_like_lists():
    pairs = flat_marginals.FlatCliques(np.array([2, 0, 1]), np.array([0, 2, 3]), np.arange(8.0), np.array([0, 6, 8]), np.array([3, 2, 2]))
    (first, table), (second, row) = list(pairs)
    assert (first, table.tolist(), second, row.tolist()) == ((2, 0), [[0, 1, 2], [3, 4, 5]], (1,), [6, 7])
    nodes = flat_marginals.FlatMarginals(np.arange(5.0), np.array([0, 2, 5]))
    assert [p.tolist() for p in nodes] == [[0, 1], [2, 3, 4]]
    assert nodes[-1].tolist() == [2, 3, 4]
    assert len(nodes[1:]) == 1


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 3), (3, 1), (3, 4)])
def test_pairs_of_a_grid_are_read_like_a_list_and_flattened_in_the_same_order(rows, columns):
    count = rows * (columns - 1) + (rows - 1) * columns
    pairs = flat_marginals.GridPairs(rows, columns, np.arange(4.0 * count).reshape(count, 2, 2))
    edges = [(i * columns + j, i * columns + j + 1) for i in range(rows) for j in range(columns - 1)]
    edges += [(i * columns + j, (i + 1) * columns + j) for i in range(rows - 1) for j in range(columns)]
    assert [scope for scope, _ in pairs] == edges
    assert [scope for scope, _ in pairs.flatten()] == edges
    assert all(np.array_equal(p, q) for (_, p), (_, q) in zip(pairs, pairs.flatten(), strict=True))
    assert len(pairs[1:]) == max(count - 1, 0)


def test_a_large_grid_takes_little_more_memory_than_its_network_and_beliefs(monkeypatch):
    monkeypatch.setattr(lattice_bp, "SMALL", 100)
    monkeypatch.setattr(lattice_bp, "BAND", 8)
    monkeypatch.setattr(boltzmann, "SOME", 1 << 12)
    given = random_networks.generate_random_network("grid", rows=150, columns=150, seed=1)
    settings = InferenceSettings(algorithm="bp", schedule="checkerboard", iterations=4)
    tracemalloc.start()
    try:
        found = run_algorithm(algorithms.make_inference_method(given, settings))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Tables of pairs take 64 bytes a unit, and messages, weights and biases about as much; lists and copies of pairs took 400.
    assert peak < 230 * given.count
    assert len(found.cliques) == 2 * 150 * 149


def test_colours_go_round():
    for shape in ((1, 1), (3, 4), (4, 3), (5, 5)):
        values = np.random.default_rng(1).random(shape)
        assert np.array_equal(lattice_bp.join_checkerboard(lattice_bp.split_checkerboard(values), shape[1]), values)


def test_what_is_no_lattice_is_told():
    grid = random_networks.generate_random_network("grid", rows=4, columns=4)
    cases = [
        (random_networks.generate_random_network("tree", nodes=9), "needs a network that was made as a grid"),
        (network.with_observed_marginals(grid, {3: np.array([0.5, 0.5])}), "does not work with observed marginals"),
        (network.build_network([3] * 4, [], shape=np.array([2, 2])), "needs two-state variables"),
        (
            network.build_network([2] * 4, [((0, 3), np.array([[1.0, 2.0], [2.0, 1.0]]))], shape=np.array([2, 2])),
            "needs factors that join only neighbours on the grid",
        ),
        (random_networks.generate_random_network("grid", rows=4, columns=4, sigma_w=150), r"needs \|weights\| that sum to at most 300"),
    ]
    for given, message in cases:
        with pytest.raises(BadUsage, match=f"--(schedule checkerboard|algorithm bp) {message}"):
            infer(given, schedule="checkerboard")
