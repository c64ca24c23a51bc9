"""Mean field of any network: bounds against loops over all states, falling free energies, and Boltzmann machines as before."""

from __future__ import annotations

import math

import numpy as np
import pytest
from small_networks import brute_force, random_network, weights

from herdcli.algorithm import run_algorithm
from herdcli.markov import algorithms
from herdcli.markov.mean.multistate_mean_field import MultistateMeanField
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, random_networks


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_it_is_a_lower_bound_whose_free_energy_never_rises(seed, zeros):
    given = random_network(seed, zeros, 7)
    method = MultistateMeanField(given, InferenceSettings(algorithm="mean-field", iterations=200))
    found = run_algorithm(method)
    truth = math.log(sum(weights(given).values()))
    energies = found.attributes["trace"].free_energy
    assert found.attributes["log_z"] <= truth + 1e-9
    assert found.attributes["log_z"] > truth - 15
    assert (np.diff(energies) <= 1e-9 * np.abs(energies[1:])).all()
    assert all(p.sum() == pytest.approx(1) for p in found.nodes)
    if not found.warning:
        for scope, table in given.factors():
            for cell in np.argwhere(table == 0).tolist() if scope else ():
                assert math.prod(found.nodes[i][x] for i, x in zip(scope, cell, strict=True)) == 0


def test_independent_variables_are_exact():
    given = network.build_network([3, 2], [((0,), np.array([0.0, 1.0, 3.0])), ((1,), np.array([2.0, 5.0]))])
    found = run_algorithm(MultistateMeanField(given, InferenceSettings(algorithm="mean-field")))
    assert found.attributes["log_z"] == pytest.approx(math.log(28))
    assert np.concatenate(found.nodes).tolist() == pytest.approx([0, 0.25, 0.75, 2 / 7, 5 / 7])


def test_it_agrees_with_that_of_boltzmann_machines():
    lattice = random_networks.generate_random_network("grid", rows=3, columns=3, sigma_w=0.5)
    special, general = (
        algorithms.make_inference_method(lattice, InferenceSettings(algorithm="mean-field")),
        MultistateMeanField(lattice, InferenceSettings(algorithm="mean-field")),
    )
    assert not isinstance(special, MultistateMeanField)
    ours, theirs = run_algorithm(general), run_algorithm(special)
    assert ours.attributes["log_z"] == pytest.approx(theirs.attributes["log_z"], abs=1e-7)
    for p, q in zip(ours.nodes, theirs.nodes, strict=True):
        np.testing.assert_allclose(p, q, atol=1e-6)
    assert isinstance(
        algorithms.make_inference_method(random_network(1, True), InferenceSettings(algorithm="mean-field")), MultistateMeanField
    )


def test_weak_couplings_have_good_marginals():
    random = np.random.default_rng(0)
    given = network.build_network([3, 3, 3], [((i, j), np.exp(0.1 * random.standard_normal((3, 3)))) for i, j in ((0, 1), (1, 2), (0, 2))])
    found = run_algorithm(MultistateMeanField(given, InferenceSettings(algorithm="mean-field")))
    assert max(np.abs(p - q).max() for p, q in zip(found.nodes, brute_force(given)[0], strict=True)) < 0.01
