"""The Newton steps of UPS: hard networks in few iterations, the free energy falling, two-state variables or more."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from herdcli import fast, iterate
from herdcli.markov import algorithms
from herdcli.markov.bethe import free_energy as bethe
from herdcli.markov.bethe import newton_step
from herdcli.markov.bethe.bethe_hessian import compute_bethe_hessian
from herdcli.markov.formats import network_formats as formats
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, pairwise, random_networks

ROOT = Path(__file__).resolve().parents[2]
PLACES = (Path(os.environ.get("HERD_DATA", "none")), ROOT.parent / "shared" / "data")
FOLDER = next((path / "networks" for path in PLACES if (path / "networks").is_dir()), None)
COMPILED = pytest.mark.skipif(fast.loops_in_use() == "python", reason="too long without the compiled loops")


def run(given, **settings):
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm="ups", **settings))
    state = iterate.run_steps(method.step, method.init(), until=method.done)
    return state, method.result(state)


def random_lattice(states: int, scale: float, seed: int):
    random = np.random.default_rng(seed)
    edges = random_networks.grid_edges(6, 6).tolist()
    return network.build_network([states] * 36, [(tuple(edge), np.exp(scale * random.standard_normal((states, states)))) for edge in edges])


@pytest.mark.skipif(FOLDER is None, reason="the reference networks are not here")
@pytest.mark.parametrize("name", ["Grids_11.uai", "Grids_13.uai"])
def test_the_strongest_grids_converge(name):
    state, found = run(formats.read_network((FOLDER / name).read_text(), "uai"), tolerance=1e-9)
    assert found.attributes["converged"]
    assert state.step < 60
    assert np.diff(state.free_energy).max() < 1e-8 * abs(state.free_energy[-1])


@COMPILED
@pytest.mark.parametrize(("states", "scale"), [(2, 2.0), (2, 6.0), (3, 3.0), (4, 3.0)])
def test_few_iterations_to_a_fixed_point_of_propagation(states, scale):
    given = random_lattice(states, scale, seed=states)
    state, found = run(given, tolerance=1e-9)
    assert found.attributes["converged"]
    assert state.step < 60
    graph = pairwise.reduce_to_pairwise(given)
    once, fixed, target = state.messages.copy(), *graph.flatten_fixed_marginals({})
    order = np.arange(2 * graph.edges, dtype=np.int32)
    change, bad = fast.update_messages(order, state.messages, once, graph.arrays, fixed, target, 0.0, False, graph.scratch())
    assert bad == -1
    assert change < 2e-9
    assert bethe.largest_inconsistency(graph, bethe.compute_beliefs(graph, state.messages, fixed, target)) < 1e-7


@pytest.mark.parametrize("seed", range(3))
def test_hidden_marginals_move_and_observed_ones_stay(seed):
    given = random_networks.generate_random_network("grid", rows=6, columns=6, sigma_w=5.0, observe="border", sigma_alpha=2.0, seed=seed)
    state, found = run(given, tolerance=1e-10)
    assert found.attributes["converged"]
    assert state.step < 60
    for i, p in given.stored_marginals().items():
        assert np.allclose(found.nodes[i], p, atol=1e-9)


def test_evidence_leaves_two_state_variables_in_closed_form():
    given = network.condition_network(
        random_networks.generate_random_network("grid", rows=6, columns=6, sigma_w=4.0, seed=3), {0: 1, 14: 0, 15: 1}
    )
    found = run(given, tolerance=1e-10)[1]
    assert found.attributes["converged"]
    assert [len(p) for p in found.nodes] == given.cardinality.tolist()
    other = run(given, tolerance=1e-9, clamp="rows-columns", iterations=3000)[1] if fast.loops_in_use() == "cython" else found
    assert abs(other.attributes["log_z"] - found.attributes["log_z"]) < 1e-7


@pytest.mark.parametrize("states", [2, 3])
def test_curvature_is_the_derivative_of_the_slope(states):
    """Differences of the slope between two iterations that clamp everything at nearby marginals."""
    given = random_lattice(states, 0.7, seed=1)
    graph = pairwise.reduce_to_pairwise(given)
    random = np.random.default_rng(0)
    fixed, every = np.ones(graph.nodes, dtype=np.uint8), np.arange(graph.nodes)
    free = np.zeros(graph.nodes, dtype=np.uint8)

    def slope(node):
        messages, sweeps = graph.uniform_messages(), np.zeros(graph.edges, dtype=np.int64)
        order, ends = np.arange(2 * graph.edges, dtype=np.int32), 2 * np.arange(graph.edges + 1, dtype=np.int64)
        fast.settle(order, ends, messages, graph.arrays, fixed, node, 1e-14, 3000, sweeps, graph.scratch())
        found = bethe.compute_beliefs(graph, messages, fixed, node)
        second = compute_bethe_hessian(graph, found, free)
        return newton_step._free_energy_gradient(graph, found, messages, every, second.index, second.reference), second

    weight = 0.5 + random.random(int(graph.node_offset[-1]))
    owner = np.repeat(every, graph.cardinality)
    node = weight / np.bincount(owner, weight)[owner]
    _, second = slope(node)
    step = 1e-5
    for coordinate in (0, 7, int(second.index.max())):
        at = int(np.flatnonzero(second.index == coordinate)[0])
        move = np.zeros(len(node))
        move[at], move[second.reference[owner[at]]] = step, -step
        difference = (slope(node + move)[0] - slope(node - move)[0]) / (2 * step)
        assert np.allclose(second.matrix().toarray()[:, coordinate], difference, atol=1e-5)


def test_conjugate_gradients_solve_and_see_negative_curvature():
    from scipy.sparse import csr_matrix

    random = np.random.default_rng(2)
    root = random.standard_normal((30, 30))
    matrix, right = root @ root.T + np.eye(30), random.standard_normal(30)
    found = newton_step.conjugate_gradients(csr_matrix(matrix), np.diag(matrix), right, 1e-12)
    assert np.allclose(matrix @ found, right, atol=1e-8)
    assert newton_step.conjugate_gradients(csr_matrix(matrix - 30 * np.eye(30)), np.ones(30), right, 1e-12) is None
