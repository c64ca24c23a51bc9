"""Exact generalised inference on the junction tree: against proportional fitting of the joint table, which knows no tree."""

from __future__ import annotations

import numpy as np
import pytest
from inference import run

from herdcli.errors import NegativeResult
from herdcli.markov.model import network, random_networks


def random_network(seed: int, zeros: bool):
    """Factors of one to three variables with one to four states."""
    random = np.random.default_rng(seed)
    cardinality = random.integers(1, 5, 7)
    factors = []
    for _ in range(8):
        scope = tuple(random.choice(7, random.integers(1, 4), replace=False).tolist())
        table = np.exp(2 * random.standard_normal(cardinality[list(scope)]))
        if zeros and table.size > 4:
            table.flat[random.integers(table.size)] = 0
        factors.append((scope, table))
    return network.build_network(cardinality, factors)


def observed(given, seed: int, some):
    """Marginals that are possible together: those of the network under other weights of some variables."""
    random = np.random.default_rng(seed + 100)
    _, other = run(network.with_likelihoods(given, {i: random.dirichlet(np.ones(int(given.cardinality[i]))) for i in some}), "enumerate")
    return network.with_observed_marginals(given, {i: other.nodes[i] for i in some})


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_nearest_distribution(seed, zeros):
    given = random_network(seed, zeros)
    evidence = {6: int(given.cardinality[6]) - 1}
    told = observed(network.condition_network(given, evidence), seed, (0, 2, 3))
    _, ours = run(told, "junction-tree", tolerance=1e-13)
    _, theirs = run(told, "enumerate", tolerance=1e-13)
    assert ours.attributes["converged"]
    assert max(np.abs(p - q).max() for p, q in zip(ours.nodes, theirs.nodes, strict=True)) < 1e-10
    for (scope, p), (other, q) in zip(ours.cliques, theirs.cliques, strict=True):
        assert scope == other
        assert np.abs(p - q).max() < 1e-10
    assert abs(ours.attributes["log_z"] - theirs.attributes["log_z"]) < 1e-9
    _, plain = run(network.with_observed_marginals(told, {}), "junction-tree")
    divergence = ours.attributes["divergence"]
    assert abs(plain.attributes["log_z"] - ours.attributes["log_z"] - divergence) < 1e-9
    assert divergence > 0
    # the multipliers are the answer: with them as factors nothing need be observed
    with_them = network.with_likelihoods(
        network.with_observed_marginals(told, {}), {i: np.exp(ours.attributes["multiplier"][i]) for i in (0, 2, 3)}
    )
    _, again = run(with_them, "junction-tree")
    assert max(np.abs(p - q).max() for p, q in zip(ours.nodes, again.nodes, strict=True)) < 1e-11


def test_a_lattice_with_its_border_observed():
    given = random_networks.generate_random_network("grid", rows=3, columns=4, sigma_w=3.0, observe="border", sigma_alpha=1.0, seed=1)
    _, ours = run(given, "junction-tree", tolerance=1e-11)
    _, theirs = run(given, "enumerate", tolerance=1e-11)
    assert max(np.abs(p - q).max() for p, q in zip(ours.nodes, theirs.nodes, strict=True)) < 1e-8
    assert abs(ours.attributes["log_z"] - theirs.attributes["log_z"]) < 1e-9


def test_what_is_impossible_is_named():
    given = network.with_observed_marginals(
        network.build_network([2, 2], [((0, 1), np.array([[1.0, 0.0], [1.0, 0.0]]))]), {1: np.array([0.5, 0.5])}
    )
    with pytest.raises(
        NegativeResult, match="the observed marginal of x1 gives a positive probability to a state that the network excludes"
    ):
        run(given, "junction-tree")
