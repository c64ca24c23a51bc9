"""What `auto` takes where nothing exact fits: against exact marginals, and what it says of what it tried."""

from __future__ import annotations

import numpy as np
import pytest
from inference import mean_error

from herdcli.algorithm import solve
from herdcli.markov import algorithms
from herdcli.markov.algorithms.automatic import Choice
from herdcli.markov.method import Settings
from herdcli.markov.model import generate, network


def choose(given, settings=None, effort=1e8, sampled=True):
    """The names that were tried, the result, its name and the words about it."""
    choice = Choice(given, settings or Settings(algorithm="auto", tolerance=1e-6), "as it is too large", effort, sampled)
    tried = []
    for attempt in choice.attempts():
        tried.append(attempt.name)
        method = attempt.method or algorithms.method(given, attempt.settings)
        found = solve(method)
        choice.add(attempt, found, found.attributes["iterations"])
    return tried, *choice.best()


@pytest.mark.parametrize("seed", [2, pytest.param(0, marks=pytest.mark.slow), pytest.param(6, marks=pytest.mark.slow)])
def test_strong_couplings_on_a_lattice_are_for_regions(seed):
    given = generate.make("grid", rows=10, columns=10, sigma_w=5.0, sigma_b=1.0, seed=seed)
    exact = solve(algorithms.method(given, Settings()))
    tried, found, name, told = choose(given, Settings(algorithm="auto", tolerance=1e-5, iterations=200), sampled=False)
    assert (tried, name) == (["gbp", "bp"], "gbp")
    assert told.endswith("(not converged): gbp is the answer")
    assert mean_error(found, exact) < 0.01


def test_chains_that_have_mixed_are_the_answer_where_regions_and_propagation_disagree():
    given = generate.make("random", nodes=14, degree=12.0, sigma_w=1.0, sigma_b=0.5, seed=1)
    exact = solve(algorithms.method(given, Settings(algorithm="enumerate")))
    asked = Settings(algorithm="auto", tolerance=1e-6, sweeps=3000, burn_in=200)
    tried, found, name, told = choose(given, asked)
    assert (tried, name) == (["gbp", "bp", "gibbs"], "gibbs"), told
    assert mean_error(found, exact) < 0.005
    assert np.isfinite(found.attributes["log_z"])
    long = Settings(algorithm="auto", tolerance=1e-6, sweeps=3000, burn_in=10**6)
    assert choose(given, long)[0] == ["gbp", "bp"]  # not enough is left for them
    assert choose(given, asked, sampled=False)[0] == ["gbp", "bp"]


def test_without_effort_it_is_propagation_and_then_ups():
    strong = generate.make("grid", rows=10, columns=10, sigma_w=5.0, sigma_b=1.0, seed=2)
    tried, _, name, _ = choose(strong, Settings(algorithm="auto", tolerance=1e-6, iterations=40), effort=0)
    assert (tried, name) == (["bp", "ups"], "ups")
    weak = generate.make("grid", rows=5, columns=5)
    assert choose(weak, effort=0)[0] == ["bp"]


def test_where_regions_and_propagation_agree_no_chains_are_run():
    tree = generate.make("tree", nodes=12)
    assert choose(tree)[0] == ["gbp", "bp"]


def test_networks_of_several_states_are_for_chains_too():
    random = np.random.default_rng(0)
    edges = generate.grid_edges(3, 3).tolist()
    given = network.build([3] * 9, [((i, j), np.exp(2 * random.standard_normal((3, 3)))) for i, j in edges])
    exact = solve(algorithms.method(given, Settings(algorithm="enumerate")))
    tried, found, name, told = choose(given, Settings(algorithm="auto", tolerance=1e-6, sweeps=1000, burn_in=100))
    assert tried == ["gbp", "bp", "gibbs"]
    assert name in ("gbp", "gibbs"), told
    assert mean_error(found, exact) < 0.01
