"""Restarts find the fixed points there are; clamp sets given by hand."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import DataError
from herdcli.markov import algorithms
from herdcli.markov.bethe import starts
from herdcli.markov.formats import results
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import beliefs, random_networks

RESTARTED = ["bp", "ups", "double-loop", "mean-field", "structured-mean-field", "belief-optimization"]


def run(given, algorithm, **settings):
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm, **settings))
    return run_algorithm(method)


def believed(given, algorithm, **settings):
    """The same as an artifact."""
    found = run(given, algorithm, **settings)
    return beliefs.assemble_beliefs(given, {}, found.nodes, found.cliques, algorithm=algorithm, **found.attributes)


def ferromagnet():
    """Two equal minima, all variables nearly 0 or nearly 1, with a saddle between them where all are one half."""
    edges = random_networks.grid_edges(3, 3)
    degree = np.bincount(edges.ravel(), minlength=9)
    return random_networks.network_from_weights(edges, np.full(len(edges), 6.0), -3.0 * degree)


@pytest.mark.parametrize("algorithm", RESTARTED)
def test_restarts_find_both_minima_of_a_ferromagnet(algorithm):
    given = ferromagnet()
    found = starts.select_best_start([believed(given, algorithm, start=k, iterations=2000, tolerance=1e-8) for k in range(7)])
    energies, runs = found.fixed_point_energy, found.fixed_point_runs
    assert runs.sum() <= 7
    assert (np.diff(energies) >= 0).all()
    assert found.free_energy == energies[0]
    assert abs(energies[1] - energies[0]) < 1e-6
    if algorithm in ("bp", "ups", "double-loop", "belief-optimization"):
        # by symmetry log Z lies near log 2 above that of either minimum
        assert run(given, "enumerate").attributes["log_z"] == pytest.approx(-energies[0] + np.log(2), abs=0.05)


def test_ups_leaves_a_saddle_that_it_would_begin_at():
    """The free energy of the ferromagnet is stationary where all are one half, and 1.5 above its minima."""
    found = run(ferromagnet(), "ups")
    assert found.attributes["converged"]
    assert found.attributes["free_energy"] < 0
    assert min(p.min() for p in found.nodes) < 1e-3
    alone = run(random_networks.network_from_weights(random_networks.grid_edges(3, 3), np.zeros(12), np.zeros(9)), "ups")
    assert np.allclose(alone.nodes, 0.5, atol=1e-9)


def test_without_a_converged_run_the_first_is_the_answer():
    given = random_networks.generate_random_network("grid", rows=6, columns=6, sigma_w=5.0, seed=2)
    tried = [believed(given, "bp", start=k, iterations=2) for k in range(3)]
    found = starts.select_best_start(tried)
    assert found.node is tried[0].node
    assert found.fixed_point_energy.size == 0
    assert (tried[0].node != tried[1].node).any()


def test_clamp_sets_of_a_file_are_those_of_rows():
    given = random_networks.generate_random_network("grid", rows=4, columns=4, sigma_w=2.0, seed=1)
    sets = results.read_clamp_sets("# rows\nx4 5 x6 7 12 13 14 15\n\n0 1 2 3 8 9 10 11  # and the others\n", given)
    assert sets == [[4, 5, 6, 7, 12, 13, 14, 15], [0, 1, 2, 3, 8, 9, 10, 11]]
    ours, theirs = (run(given, "ups", iterations=30, **how) for how in ({"clamp_sets": sets}, {"clamp": "rows"}))
    assert all(np.array_equal(p, q) for p, q in zip(ours.nodes, theirs.nodes, strict=True))
    tree = random_networks.generate_random_network("tree", nodes=5)
    assert results.read_clamp_sets("-\n", tree) == [[]]
    assert run(tree, "ups", clamp_sets=[[]]).attributes["converged"]


def test_wrong_clamp_sets():
    given = random_networks.generate_random_network("grid", rows=3, columns=3)
    with pytest.raises(DataError, match="variable 4 is in every clamp set, so its marginal would never be computed"):
        run(given, "ups", clamp_sets=[[4], [4, 0]])
    with pytest.raises(DataError, match="lie on a loop that the clamp set does not break"):
        run(given, "ups", clamp_sets=[[0], [1]])
    with pytest.raises(DataError, match="there is no variable 9: the network has 9"):
        results.read_clamp_sets("1 9\n", given)
    with pytest.raises(DataError, match="has no clamp set"):
        results.read_clamp_sets("# nothing\n", given)
