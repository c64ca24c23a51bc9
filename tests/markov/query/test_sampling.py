"""Blocked Gibbs sampling and draws from networks: shares against loops over all states, and chains that single moves would leave stuck."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_networks import brute_force, random_network, weights

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage, NegativeResult
from herdcli.markov import algorithms
from herdcli.markov.exact.elimination import moral_graph
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, random_networks
from herdcli.markov.model.chain_convergence import split_rhat
from herdcli.markov.query import state_permutations
from herdcli.markov.query.chains import blocked_gibbs, temperature_ladder, tempered_gibbs
from herdcli.markov.query.chains import chain_samples as sampling
from herdcli.markov.query.chains.blocked_gibbs import BlockedGibbs
from herdcli.markov.query.chains.network_samples import NetworkSampling
from herdcli.markov.query.chains.tempered_gibbs import TemperedGibbs
from herdcli.markov.query.constrained_orders import eliminate_variable


def gap(ours, theirs) -> float:
    return max(float(np.abs(p - q).max()) for p, q in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("cells", [1, 6, 1 << 20])
def test_blocks_hold_every_free_variable_and_keep_their_tables_small(cells):
    for seed in range(4):
        given = random_network(seed, True, 9)
        made = sampling.partition_into_blocks(given, cells)
        free = {i for i in range(9) if given.cardinality[i] > 1}
        assert set().union(*(block.order for block in made)) == free
        if cells == 1 << 20:
            assert len(made) == 1
        for block in made:
            inside = set(block.order)
            graph = [near & inside if i in inside else set() for i, near in enumerate(moral_graph(given))]
            for i in block.order:
                if graph[i]:
                    assert np.prod(given.cardinality[[i, *graph[i]]]) <= cells
                eliminate_variable(graph, i)


@pytest.mark.parametrize("zeros", [False, True])
def test_one_block_draws_every_state_as_often_as_it_is_likely(zeros):
    given = random_network(3, zeros, 6)
    truth = weights(given)
    rows = run_algorithm(NetworkSampling(given, 20000, burn_in=0, thin=1, chains=0, seed=1)).rows
    total = sum(truth.values())
    values, counts = np.unique(rows, axis=0, return_counts=True)
    found = {tuple(row.tolist()): count for row, count in zip(values, counts, strict=True)}
    assert all(truth[x] > 0 for x in found)
    # Pearson's statistic over the states that 10 rows are expected of: its mean is their number, its variance twice that.
    expected = {x: value / total * 20000 for x, value in truth.items() if value / total * 20000 > 10}
    statistic = sum((found.get(x, 0) - mean) ** 2 / mean for x, mean in expected.items())
    assert statistic < len(expected) + 5 * np.sqrt(2 * len(expected))


@pytest.mark.parametrize("zeros", [False, True])
def test_blocks_alternate_to_the_right_marginals(zeros, monkeypatch):
    monkeypatch.setattr(sampling, "CELLS", 9)
    for seed in (1, 2):
        given = random_network(seed, zeros, 8)
        method = BlockedGibbs(given, InferenceSettings(algorithm="gibbs", burn_in=40, sweeps=200, chains=120))
        found = run_algorithm(method)
        marginals, _ = brute_force(given)
        assert gap(found.nodes, marginals) < 0.03
        for scope, p in found.cliques:
            assert p.sum() == pytest.approx(1)
            for axis, i in enumerate(scope):
                np.testing.assert_allclose(p.sum(axis=tuple(k for k in range(p.ndim) if k != axis)), found.nodes[i], atol=1e-12)


def test_a_copy_that_single_moves_never_leave_is_drawn_at_once():
    # x1 must equal x0, and x2 must equal x1: a chain that moves one variable at a time stays where it began.
    same = np.eye(3)
    given = network.build_network([3, 3, 3], [((0,), np.array([0.2, 0.3, 0.5])), ((0, 1), same), ((1, 2), same)])
    found = run_algorithm(BlockedGibbs(given, InferenceSettings(algorithm="gibbs", burn_in=2, sweeps=200, chains=40)))
    assert gap(found.nodes, [np.array([0.2, 0.3, 0.5])] * 3) < 0.02
    assert found.attributes["converged"]


def test_gibbs_takes_any_network_and_keeps_boltzmann_machines_where_they_were():
    any_network = random_network(1, True, 6)
    lattice = random_networks.generate_random_network("grid", rows=3, columns=3)
    assert isinstance(algorithms.make_inference_method(any_network, InferenceSettings(algorithm="gibbs")), BlockedGibbs)
    assert not isinstance(algorithms.make_inference_method(lattice, InferenceSettings(algorithm="gibbs")), BlockedGibbs)


def test_blocked_and_single_gibbs_agree_on_a_lattice(monkeypatch):
    lattice = random_networks.generate_random_network("grid", rows=3, columns=3, sigma_w=2.0)
    monkeypatch.setattr(sampling, "CELLS", 4)
    method = BlockedGibbs(lattice, InferenceSettings(algorithm="gibbs", burn_in=50, sweeps=300, chains=100))
    assert len(method.blocks) == 2  # each a forest
    assert gap(run_algorithm(method).nodes, brute_force(lattice)[0]) < 0.02


def test_rhat_is_one_where_halves_agree_and_large_where_they_do_not():
    alike = np.full((1, 8), 0.3)
    assert split_rhat(alike, 1000)[0] == pytest.approx(1, abs=1e-3)
    apart = np.array([[0.1] * 4 + [0.9] * 4])
    assert split_rhat(apart, 1000)[0] > 1.5
    assert split_rhat(np.array([[0.0] * 4 + [1.0] * 4]), 1000)[0] == np.inf


def test_chains_that_all_stay_where_they_were_begun_have_not_converged(monkeypatch):
    """A permutation of three things: no block of two variables can leave the state that was searched for, whatever is there."""
    apart = 1.0 - np.eye(3)
    given = network.build_network([3, 3, 3], [((0, 1), apart), ((1, 2), apart), ((0, 2), apart)])
    monkeypatch.setattr(sampling, "CELLS", 3)
    monkeypatch.setattr(blocked_gibbs, "TRIES", 0)
    monkeypatch.setattr(blocked_gibbs, "HARDER", 0)
    found = run_algorithm(BlockedGibbs(given, InferenceSettings(algorithm="gibbs", burn_in=2, sweeps=20, chains=4)))
    assert gap(found.nodes, [np.full(3, 1 / 3)] * 3) > 0.5
    assert not found.attributes["converged"]
    assert found.attributes["residual"] == np.inf
    drawn = run_algorithm(NetworkSampling(given, 9, burn_in=2, thin=1, chains=2, seed=0, cells=1))
    assert (drawn.unmoved, len(np.unique(drawn.rows, axis=0))) == (3, 1)
    monkeypatch.undo()
    assert run_algorithm(NetworkSampling(given, 9, burn_in=2, thin=1, chains=0, seed=0)).unmoved == 0


def test_draws_by_chains_have_the_marginals_too():
    given = random_network(2, True, 8)
    method = NetworkSampling(given, 4000, burn_in=50, thin=3, chains=400, seed=0, cells=1)
    assert not method.exact
    rows = run_algorithm(method).rows
    for i, p in enumerate(brute_force(given)[0]):
        share = np.bincount(rows[:, i], minlength=len(p)) / len(rows)
        assert np.abs(share - p).max() < 0.04


def test_draws_depend_on_the_seed_alone():
    given = random_network(2, False, 8)
    first, again, other = (run_algorithm(NetworkSampling(given, 30, burn_in=5, thin=2, chains=0, seed=seed)).rows for seed in (1, 1, 2))
    assert (first == again).all()
    assert not (first == other).all()


def test_what_cannot_be_drawn_is_told():
    given = network.build_network([2, 2], [((0, 1), np.array([[0.0, 1.0], [1.0, 0.0]])), ((0, 1), np.eye(2))])
    with pytest.raises(NegativeResult):
        run_algorithm(NetworkSampling(given, 5, burn_in=5, thin=1, chains=0, seed=0))
    with pytest.raises(BadUsage, match="--annealing 9 is more than the 5 sweeps of --burn-in"):
        BlockedGibbs(random_network(0), InferenceSettings(algorithm="gibbs", annealing=9, burn_in=5))


@pytest.mark.parametrize("zeros", [False, True])
def test_chains_at_several_temperatures_have_the_right_marginals(zeros, monkeypatch):
    monkeypatch.setattr(tempered_gibbs, "CELLS", 27 if zeros else 9)  # smaller blocks do not reach every state past zeros
    monkeypatch.setattr(temperature_ladder, "SPAN", 0.5)
    for seed in (1, 2):
        given = random_network(seed, zeros, 8)
        method = TemperedGibbs(given, InferenceSettings(algorithm="tempered-gibbs", burn_in=40, sweeps=400, chains=40))
        assert len(method.powers) > 1 or zeros  # one block holds all of those
        found = run_algorithm(method)
        assert gap(found.nodes, brute_force(given)[0]) < 0.03
        for scope, p in found.cliques:
            assert p.sum() == pytest.approx(1)
            for axis, i in enumerate(scope):
                np.testing.assert_allclose(p.sum(axis=tuple(k for k in range(p.ndim) if k != axis)), found.nodes[i], atol=2e-3)


def test_temperatures_take_chains_over_hills_that_blocks_do_not_cross(monkeypatch):
    """A ring of strong couplings that moves of single variables do not turn over: at one temperature chains stay where they began.

    Clusters would turn it over too, and are left out.
    """
    monkeypatch.setattr(state_permutations, "MOST", 1)
    strong = np.exp(8.0 * np.eye(2))
    given = network.build_network([2] * 5, [((i, (i + 1) % 5), strong) for i in range(5)] + [((0,), np.array([0.3, 0.7]))])
    monkeypatch.setattr(tempered_gibbs, "CELLS", 2)
    asked = InferenceSettings(algorithm="tempered-gibbs", burn_in=50, sweeps=2000, chains=8)
    stuck, free = (run_algorithm(TemperedGibbs(given, replace(asked, temperatures=count))) for count in (1, 0))
    assert not stuck.attributes["converged"]
    assert free.attributes["converged"]
    exact = brute_force(given)[0]
    assert gap(free.nodes, exact) < 0.05 < gap(stuck.nodes, exact)
    error = np.concatenate(free.attributes["standard_error"]).mean()
    assert 0.0 < error < 0.03


def test_bands_are_held_apart_by_layers_and_reach_every_variable():
    lattice = random_networks.generate_random_network("grid", rows=12, columns=12)
    random = np.random.default_rng(0)
    made = sampling.partition_into_bands(lattice, 64, random)
    assert len(made) <= 3
    assert set().union(*(block.order for block in made)) == set(range(144))
    assert len(made[0].order) > 110
    assert [
        len(block.order) for block in sampling.partition_into_bands(random_networks.generate_random_network("tree", nodes=9), 4, random)
    ] == [9]


def test_factors_that_a_float64_does_not_hold_are_drawn_in_logarithms():
    """Two chains of variables, each pair of which differs by a factor of e^700: what is to come spans more than a float64 does."""
    steep = np.array([[1.0, 1e-300], [1e-300, 1.0]])
    given = network.build_network(
        [2] * 4, [((0, 1), steep), ((1, 2), steep), ((2, 3), steep), ((0, 3), steep), ((0,), np.array([0.2, 0.8]))]
    )
    method = TemperedGibbs(given, InferenceSettings(algorithm="tempered-gibbs", burn_in=5, sweeps=300, chains=8))
    assert not all(each.narrow for part in method.programs for each in part)
    assert gap(run_algorithm(method).nodes, [np.array([0.2, 0.8])] * 4) < 0.05
