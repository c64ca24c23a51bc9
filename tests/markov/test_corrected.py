"""Tree EP and loop-corrected propagation: exact on trees and single loops, nearer than propagation against loops over all states."""

from __future__ import annotations

import numpy as np
import pytest
from inference import mean_error, run
from small_networks import brute_force, random_network

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage, Diverged, NegativeResult
from herdcli.markov import algorithms
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, random_networks
from herdcli.markov.model.stacked_tables import merge_equal_scopes
from herdcli.markov.query import spanning_forest

BOTH = ["tree-ep", "loop-corrected"]


def loop(cardinality=(3, 2, 4, 3), tails=(), seed=0, zeros=False):
    """One loop, with a variable hung on it at each of `tails`, and a factor over three at the last of them."""
    random = np.random.default_rng(seed)
    states = [*cardinality, *[2 + k % 2 for k in range(len(tails))]]
    n = len(cardinality)
    scopes = [(i, (i + 1) % n) for i in range(n)] + [(t, n + k) for k, t in enumerate(tails)] + [(i,) for i in range(n)]
    if tails:
        scopes.append((n + len(tails) - 1, len(states), len(states) + 1))
        states += [2, 3]
    tables = [np.exp(2 * random.standard_normal([states[i] for i in scope])) for scope in scopes]
    if zeros:
        tables[0][0, 1] = tables[2][1, 0] = 0.0
    return network.build_network(states, list(zip(scopes, tables, strict=True)))


def errors(found, truth):
    return max(float(np.abs(p - q).max()) for p, q in zip(found.nodes, truth, strict=True))


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("tails", [(), (0, 2, 4)])
def test_one_loop_is_exact(name, tails, zeros):
    given = loop(tails=tails, zeros=zeros)
    truth, log_z = brute_force(given)
    _, found = run(given, name, tolerance=1e-12)
    assert found.attributes["converged"]
    assert errors(found, truth) < 1e-12
    assert errors(run(given, "bp")[1], truth) > 1e-6  # what a loop costs without the correction
    if name == "tree-ep":
        assert found.attributes["log_z"] == pytest.approx(log_z, abs=1e-11)
    else:
        assert np.isnan(found.attributes["log_z"])


@pytest.mark.parametrize("name", BOTH)
def test_trees_are_exact_in_marginals_of_variables_and_factors(name):
    given = random_networks.generate_random_network("tree", nodes=11, sigma_w=3.0, seed=2)
    _, found = run(given, name, tolerance=1e-12)
    exact = run(given, "junction-tree")[1]
    assert mean_error(found, exact) < 1e-14
    theirs = {tuple(sorted(scope)): p if scope == tuple(sorted(scope)) else p.T for scope, p in exact.cliques if len(scope) == 2}
    ours = {tuple(sorted(scope)): p if scope == tuple(sorted(scope)) else p.T for scope, p in found.cliques}
    assert ours.keys() == theirs.keys()
    assert all(np.abs(ours[scope] - theirs[scope]).max() < 1e-13 for scope in ours)


@pytest.mark.parametrize("zeros", [False, True])
def test_on_random_networks_both_are_nearer_than_propagation(zeros):
    """Factors of up to four variables with one to three states: mean errors over twelve networks, and of log Z."""
    apart: dict[str, list[float]] = {"bp": [], "tree-ep": [], "loop-corrected": []}
    partition: dict[str, list[float]] = {"bp": [], "tree-ep": []}
    for seed in range(12):
        given = random_network(seed, zeros, 7)
        truth, log_z = brute_force(given)
        for name, made in apart.items():
            found = run(given, name, tolerance=1e-7, iterations=100)[1]
            made.append(float(np.mean([np.abs(p - q).mean() for p, q in zip(found.nodes, truth, strict=True)])))
            if name in partition:
                partition[name].append(abs(found.attributes["log_z"] - log_z))
    means = {name: float(np.mean(made)) for name, made in apart.items()}
    assert means["loop-corrected"] < 0.05 * means["bp"], means
    assert means["tree-ep"] < 0.5 * means["bp"], means
    assert np.mean(partition["tree-ep"]) < 0.5 * np.mean(partition["bp"])


@pytest.mark.parametrize("seed", range(3))
def test_on_lattices_of_moderate_couplings(seed):
    """Mooij & Kappen's figures have an order of magnitude between propagation and its correction; tree EP lies between."""
    given = random_networks.generate_random_network("grid", rows=4, columns=4, sigma_w=2.0, sigma_b=0.5, seed=seed)
    exact = run(given, "enumerate")[1]
    apart = {name: mean_error(run(given, name, tolerance=1e-8)[1], exact) for name in ("bp", *BOTH)}
    assert apart["loop-corrected"] < 0.1 * apart["bp"]
    assert apart["loop-corrected"] < apart["tree-ep"]


@pytest.mark.parametrize("name", BOTH)
def test_damping_ends_at_the_same_marginals(name):
    given = random_networks.generate_random_network("grid", rows=3, columns=4, sigma_w=2.0, seed=1)
    plain, damped = (run(given, name, tolerance=1e-11, damping=damping)[1] for damping in (0.0, 0.4))
    assert plain.attributes["converged"]
    assert damped.attributes["converged"]
    assert mean_error(plain, damped) < 1e-9
    assert damped.attributes["iterations"] > plain.attributes["iterations"]


def test_a_fixed_point_of_tree_ep_agrees_with_itself():
    """Marginals of variables and of factors that share them are one and the same where it has converged."""
    given = random_networks.generate_random_network("random", nodes=12, degree=3.0, sigma_w=1.5, seed=3)
    _, found = run(given, "tree-ep", tolerance=1e-12)
    for scope, p in found.cliques:
        for axis, i in enumerate(scope):
            assert np.abs(p.sum(axis=1 - axis) - found.nodes[i]).max() < 1e-10


@pytest.mark.parametrize("name", BOTH)
def test_evidence_and_variables_alone(name):
    given = network.condition_network(loop(tails=(1, 2, 3)), {1: 0, 5: 1})
    free = network.build_network([*given.cardinality, 3], [*given.factors(), ((len(given.cardinality),), np.array([1.0, 2.0, 5.0]))])
    truth, _ = brute_force(free)
    assert errors(run(free, name, tolerance=1e-12)[1], truth) < 1e-12


@pytest.mark.parametrize("name", BOTH)
def test_what_cannot_be_is_refused(name):
    states = [2, 2, 2]
    odd = network.build_network(
        states, [((0, 1), 1 - np.eye(2)), ((1, 2), 1 - np.eye(2)), ((0, 2), 1 - np.eye(2))]
    )  # an odd loop of unequals
    with pytest.raises((NegativeResult, Diverged)):
        run(odd, name)
    empty = network.build_network([2], [((0,), np.array([1.0, 0.0])), ((0,), np.array([0.0, 1.0]))])
    with pytest.raises(NegativeResult, match="exclude all states of x0"):
        run(empty, name)


def test_a_blanket_with_too_many_states_is_refused_in_one_line():
    star = network.build_network([2] * 14, [((0, i), np.array([[2.0, 1.0], [1.0, 2.0]])) for i in range(1, 14)])
    with pytest.raises(BadUsage, match="enumerates the states of each Markov blanket, at most 4096: that of x0 has 2\\^13") as caught:
        algorithms.make_inference_method(star, InferenceSettings(algorithm="loop-corrected"))
    assert caught.value.hint == "use --algorithm tree-ep, or gbp --regions plaquettes --damping 0.5"


def test_the_tree_keeps_the_strongest_of_each_loop_and_walks_know_the_way():
    weights = np.array([4.0, 0.5, 3.0, 2.0])
    given = random_networks.network_from_weights(np.array([[0, 1], [1, 2], [2, 3], [0, 3]]), weights, np.zeros(4))
    forest = spanning_forest.maximum_spanning_forest(given, merge_equal_scopes(given.factors()))
    kept = {tuple(sorted((i, p))) for i, p in enumerate(forest.parent) if p >= 0}
    assert kept == {(0, 1), (2, 3), (0, 3)}
    assert forest.path_between(1, 2) == [1, 0, 3, 2]
    assert forest.path_between(2, 2) == [2]


def test_cavities_on_which_propagation_does_not_settle_are_told():
    given = random_networks.generate_random_network("grid", rows=4, columns=4, sigma_w=10.0, sigma_b=0.1, seed=1)
    found = run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm="loop-corrected", iterations=2)))
    assert found.warning == "propagation did not converge on 3 of 16 Markov blankets; --algorithm tree-ep may be more accurate"
