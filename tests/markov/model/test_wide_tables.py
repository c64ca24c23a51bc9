"""Tables that span more than a float64: every algorithm answers rightly, says that it has not converged, warns, or refuses at once."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import Diverged
from herdcli.markov import algorithms
from herdcli.markov.bethe import binary_edges
from herdcli.markov.exact.junction_tree import log_sum_exp
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, pairwise, random_networks

IN_LOGARITHMS = ("junction-tree", "enumerate", "double-loop", "gbp", "tree-reweighted", "tree-ep")
EXACT_ON_TREES = (
    "junction-tree", "enumerate", "bp", "ups", "ups-t", "double-loop", "gbp", "structured-mean-field", "belief-optimization",
    "tree-reweighted", "tree-ep", "loop-corrected",
)  # fmt: skip


def random_tree(seed):
    """A tree of two-state variables whose log tables have standard deviations of 20 to 600."""
    rng = np.random.default_rng(seed)
    count, spread = int(rng.integers(2, 6)), float(rng.choice([20, 100, 300, 600]))

    def table(*shape):
        return np.exp(np.clip(spread * rng.normal(size=shape), -690, 690))

    factors = [((i,), table(2)) for i in range(count)]
    factors += [((int(rng.integers(i)), i), table(2, 2)) for i in range(1, count)]
    return network.validate_network(network.build_network([2] * count, factors))


def in_logs(given):
    """log Z and all marginals, by enumeration of logarithms."""
    n = given.count
    total = np.zeros(given.cardinality.tolist())
    for scope, table in given.factors():
        order = np.argsort(scope)
        shape = [int(given.cardinality[i]) if i in scope else 1 for i in range(n)]
        total = total + np.log(np.transpose(table, order)).reshape(shape)
    log_z = float(log_sum_exp(total, tuple(range(n))))
    return log_z, [np.exp(log_sum_exp(total, tuple(j for j in range(n) if j != i)) - log_z) for i in range(n)]


@pytest.mark.parametrize("algorithm", EXACT_ON_TREES)
@pytest.mark.parametrize("seed", range(12))
def test_of_trees_nothing_is_wrong_in_silence(algorithm, seed):
    given = random_tree(seed)
    log_z, marginals = in_logs(given)
    refusal = contextlib.nullcontext() if algorithm in IN_LOGARITHMS else contextlib.suppress(Diverged)
    found = None
    with refusal:
        found = run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm, iterations=100)))
    if found is None or found.warning or not found.attributes.get("converged", True):
        return
    assert max(np.abs(p - q).max() for p, q in zip(found.nodes, marginals, strict=True)) < 1e-6
    if algorithm == "tree-reweighted":
        assert found.attributes["log_z"] >= log_z
    if algorithm != "loop-corrected":
        assert found.attributes["log_z"] == pytest.approx(log_z, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("small", [1e-16, 1e-200])
def test_belief_optimization_of_a_strong_pair_is_exact(small):
    """States 00, 01 and 11 weigh the same, 10 next to nothing: marginals 2/3 and 1/3, log Z = log(3 small)."""
    single, pair = np.array([1, small]), np.array([[1, small], [small, 1]])
    given = network.build_network([2, 2], [((0,), single), ((1,), single[::-1]), ((0, 1), pair)])
    found = run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm="belief-optimization")))
    assert found.attributes["converged"]
    np.testing.assert_allclose(found.nodes, [[2 / 3, 1 / 3], [1 / 3, 2 / 3]], rtol=1e-8)
    assert found.attributes["log_z"] == pytest.approx(np.log(3) + np.log(small), rel=1e-12)


def test_belief_optimization_that_is_stuck_has_not_converged():
    """Two units that can only move together, of which one has a bias: their means cannot leave one half one at a time."""
    given = network.build_network([2, 2], [((0,), np.array([1.0, 3.0])), ((0, 1), np.array([[1, 1e-16], [1e-16, 1]]))])
    found = run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm="belief-optimization", iterations=50)))
    assert not found.attributes["converged"]
    assert found.attributes["residual"] > 0.1


def test_tables_that_a_float64_does_not_hold_are_refused_by_name():
    wide = np.array([[1e300, 1e-300], [1e-300, 1e300]])
    given = network.build_network([2] * 3, [((0,), np.array([1e300, 1.0])), ((0, 1), wide), ((1, 2), wide)], names=["a", "b", "c"])
    for algorithm in ("bp", "ups", "belief-optimization", "loop-corrected"):
        with pytest.raises(
            Diverged, match=r"the values of the factors over a and b differ by a factor of 10\^600, too much for float64"
        ) as caught:
            run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm)))
        assert caught.value.hint == "use --algorithm junction-tree, gbp, tree-ep or mean-field, which compute with logarithms"
    for algorithm in ("junction-tree", "gbp", "tree-ep", "mean-field", "tree-reweighted"):
        found = run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm)))
        assert found.attributes["log_z"] == pytest.approx(900 * np.log(10), rel=1e-12)


def test_messages_that_lose_a_state_are_warned_of():
    """x must be 1 by 10^200, but messages along the chain hold 10^-308 at the least."""
    pair = np.array([[1.0, 0.0], [0.0, 1.0]])
    weak = np.array([1.0, 1e-200])
    factors = [
        ((0,), weak),
        ((1,), weak),
        ((0, 1), pair),
        ((1, 2), pair),
        ((2,), weak[::-1] ** 1.5),
        ((2, 3), pair),
        ((3,), weak[::-1] ** 1.5),
    ]
    given = network.build_network([2] * 4, factors)
    log_z, _ = in_logs_of_two(given)
    found = run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm="bp")))
    assert "differ by more than float64 can hold, so its least probable states are lost" in found.warning
    assert found.attributes["log_z"] != pytest.approx(log_z)


def in_logs_of_two(given):
    """The same where zeros stand in the tables."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return in_logs(given)


@pytest.mark.parametrize("weight", [800.0, -800.0, 1400.0])
def test_pairs_in_closed_form_whose_odds_are_no_float64(weight):
    """At marginals of one half s² = e^-|w| (½ − s)², so that s = ½ e^-|w|/2, and messages say nothing."""
    half = weight / 4
    table = np.exp([half, -half, -half, half])
    graph = pairwise.reduce_to_pairwise(network.build_network([2, 2], [((0, 1), table.reshape(2, 2))]))
    tables = binary_edges.edge_log_tables(graph)
    ratio, (p,) = binary_edges.messages_from_marginals(graph, tables, np.full(4, 0.5))
    np.testing.assert_allclose(ratio, 0.0, atol=1e-10)
    assert np.log(p[1] if weight > 0 else p[0]) == pytest.approx(np.log(0.5) - abs(weight) / 2, rel=1e-12)
    ratio, _ = binary_edges.messages_from_marginals(graph, tables, np.array([0.5, 0.5, 0.25, 0.75]))
    assert np.isfinite(ratio).all()


@pytest.mark.parametrize("seed", range(10))
def test_tree_reweighted_bounds_of_tables_past_float64_are_not_below_log_z(seed):
    rng = np.random.default_rng(seed)
    factors = [((i, (i + 1) % 4), 10.0 ** rng.uniform(-160, 160, size=(2, 2))) for i in range(4)] + [
        ((0, 2), 10.0 ** rng.uniform(-160, 160, (2, 2)))
    ]
    given = network.build_network([2] * 4, factors)
    found = run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm="tree-reweighted", iterations=100)))
    assert np.inf > found.attributes["log_z"] >= in_logs(given)[0]


def test_small_weights_are_still_accurate():
    given = random_networks.network_from_weights(np.array([[0, 1]]), np.array([1e-9]), np.zeros(2))
    graph = pairwise.reduce_to_pairwise(given)
    (p,) = binary_edges.messages_from_marginals(graph, binary_edges.edge_log_tables(graph), np.array([0.7, 0.3, 0.4, 0.6]))[1]
    np.testing.assert_allclose(p, [0.28, 0.42, 0.12, 0.18], rtol=1e-8)
