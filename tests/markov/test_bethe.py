"""Belief propagation, UPS and iterative scaling: exact on trees, one fixed point where there is one, and F never rises."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from herdcli import fast, iterate
from herdcli.errors import BadUsage, DataError, Diverged, NegativeResult
from herdcli.markov import algorithms
from herdcli.markov.bethe import clamping, ups
from herdcli.markov.bethe import free_energy as bethe
from herdcli.markov.formats import network_formats as formats
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, pairwise, random_networks

ROOT = Path(__file__).resolve().parents[2]
DATA = next(
    (
        path / "networks"
        for path in (Path(os.environ.get("HERD_DATA", "none")), ROOT.parent / "shared" / "data")
        if (path / "networks").is_dir()
    ),
    None,
)
KNOWN = json.loads((DATA / "references.json").read_text()) if DATA else {}
LOOPY = [name for name in KNOWN if KNOWN[name].get("bethe", {}).get("unique") and not name.endswith("gz")]
GENERALISED = ["loopy-is", "is-bp", "gis-bp", "ups"]


# minutes on the Python loops, which other tests show to give the same bits
COMPILED = pytest.mark.skipif(fast.loops_in_use() == "python", reason="too long without the compiled loops")


def infer(given, algorithm, **settings):
    return last_state(given, algorithm, **settings)[1]


def last_state(given, algorithm, **settings):
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm, **settings))
    state = iterate.run_steps(method.step, method.init(), until=method.done)
    return state, method.result(state)


def largest_difference(a, b):
    return max(float(np.abs(p - q).max()) for p, q in zip(a.nodes, b.nodes, strict=True))


def tree(seed: int, observe=None):
    """A tree of variables with two to four states, a factor of three among its factors, zeros in one."""
    random = np.random.default_rng(seed)
    cardinality = random.integers(2, 5, 12)
    factors = [((i,), random.random(cardinality[i])) for i in range(12)]
    factors += [((int(random.integers(i)), i), None) for i in range(1, 10)] + [((3, 10, 11), None)]
    made = [(scope, random.random(cardinality[list(scope)]) ** 6 if table is None else table) for scope, table in factors]
    made[-1][1][0, 0] = 0.0
    return network.build_network(cardinality, made)


@pytest.mark.parametrize("settings", [{"schedule": "residual"}, {"schedule": "sequential"}, {"schedule": "parallel"},
                                      {"damping": 0.3}, {"damping": 0.3, "damping_kind": "linear", "schedule": "parallel"}])  # fmt: skip
@pytest.mark.parametrize("seed", range(3))
def test_propagation_is_exact_on_trees(settings, seed):
    given = tree(seed)
    exact, found = infer(given, "junction-tree"), infer(given, "bp", tolerance=1e-13, **settings)
    assert found.attributes["converged"]
    assert largest_difference(exact, found) < 1e-12
    assert abs(exact.attributes["log_z"] - found.attributes["log_z"]) < 1e-11
    cliques = {tuple(sorted(scope)): p for scope, p in exact.cliques if len(scope) > 1}
    assert len(cliques) == 10
    for scope, p in found.cliques:
        if len(scope) > 1:
            assert np.allclose(p, cliques[scope], atol=1e-12)


def test_a_damping_schedule_is_its_stages_one_after_the_other():
    given = random_networks.generate_random_network("grid", sigma_w=3.0, sigma_b=1.0, seed=2)
    usual = {"algorithm": "bp", "schedule": "parallel", "damping_kind": "linear", "tolerance": 1e-300}
    whole = algorithms.make_inference_method(given, InferenceSettings(damping_schedule=(0.0, 0.5, 0.9), iterations=30, **usual))
    messages = iterate.run_steps(whole.step, whole.init(), until=whole.done).messages
    state = None
    for stage, damping in enumerate((0.0, 0.5, 0.9), 1):
        part = algorithms.make_inference_method(given, InferenceSettings(damping=damping, iterations=10 * stage, **usual))
        state = iterate.run_steps(part.step, state or part.init(), until=part.done)
    assert np.array_equal(messages, state.messages)


def test_chains_are_exact_in_one_iteration_forwards_and_back():
    random = np.random.default_rng(0)
    chain = network.build_network([3] * 50, [((i, i + 1), random.random((3, 3)) ** 4) for i in range(49)])
    state, found = last_state(chain, "bp", schedule="sequential", iterations=2)
    assert state.residual[1] < 1e-13
    alpha, betas = np.ones(3), [np.ones(3)]
    tables = [table for _, table in chain.factors()]
    for table in reversed(tables):
        betas.append(table @ betas[-1] / (table @ betas[-1]).sum())
    for i, beta in enumerate(reversed(betas)):  # forward–backward
        p = alpha * beta / (alpha @ beta)
        assert np.allclose(found.nodes[i], p, atol=1e-13)
        if i < 49:
            alpha = alpha @ tables[i] / (alpha @ tables[i]).sum()


@pytest.mark.parametrize("algorithm", ["bp", "ups", "ups-t"])
def test_couplings_of_fifty_and_zeros_on_trees(algorithm):
    edges = np.array([[0, 1], [1, 2], [1, 3], [3, 4]])
    given = random_networks.network_from_weights(edges, np.array([50.0, -50.0, 50.0, 49.0]), np.array([-20.0, 5.0, 30.0, -60.0, 3.0]))
    hard = (
        network.build_network(given.cardinality, [*given.factors(), ((0, 2), np.array([[0.0, 1.0], [1.0, 0.0]]))])
        if algorithm == "bp"
        else given
    )
    exact, found = infer(given, "enumerate"), infer(given, algorithm, tolerance=1e-13)
    assert largest_difference(exact, found) < 1e-12
    assert abs(exact.attributes["log_z"] - found.attributes["log_z"]) < 1e-11
    assert all(np.isfinite(p).all() for p in infer(hard, algorithm, iterations=50).nodes)


@pytest.mark.skipif(not KNOWN, reason="the reference networks are not here")
@pytest.mark.parametrize("name", LOOPY)
@pytest.mark.parametrize("algorithm", ["bp", "ups"])
def test_the_fixed_point_of_two_other_programs(name, algorithm):
    known = KNOWN[name]
    evidence = {int(i): state for i, state in known["evidence"].items()}
    given = network.condition_network(formats.read_network((DATA / name).read_text(), name.rpartition(".")[2]), evidence)
    if fast.loops_in_use() == "python" and given.count > 50:
        pytest.skip("too long without the compiled loops")
    found = infer(given, algorithm, tolerance=1e-10, iterations=3000)
    assert found.attributes["converged"]
    assert abs(found.attributes["log_z"] - known["bethe"]["logZ"]) < 3e-9
    for i, p in enumerate(known["bethe"]["marg"]):
        if i not in evidence:
            assert np.abs(found.nodes[i] - p).max() < 2e-9


@pytest.mark.parametrize("clamped", ["auto", "rows", "columns", "rows-columns"] if fast.loops_in_use() == "cython" else ["auto"])
def test_the_bethe_free_energy_never_rises_under_ups(clamped, monkeypatch):
    monkeypatch.setattr(ups, "INNER_SHARE", 0.0)  # the trees are minimised to a tenth of the tolerance
    given = random_networks.generate_random_network("grid", rows=6, columns=6, sigma_w=3.0, sigma_b=1.0, seed=2)
    state, found = last_state(given, "ups", tolerance=1e-10, iterations=400, clamp=clamped)
    assert state.step > (4 if clamped == "auto" else 10)
    assert np.diff(state.free_energy).max() < 1e-10
    assert state.free_energy[0] - state.free_energy[-1] > 1e-3
    assert found.attributes["free_energy"] <= state.free_energy.min() + 1e-10


@pytest.mark.parametrize("seed", range(4))
def test_where_propagation_converges_ups_finds_the_same_beliefs(seed):
    given = random_networks.generate_random_network("grid", rows=5, columns=6, sigma_w=1.5, sigma_b=1.0, seed=seed)
    ours, theirs = infer(given, "ups", tolerance=1e-11, iterations=5000), infer(given, "bp", tolerance=1e-12)
    assert theirs.attributes["converged"]
    assert ours.attributes["converged"]
    assert largest_difference(ours, theirs) < 1e-8
    assert abs(ours.attributes["log_z"] - theirs.attributes["log_z"]) < 1e-9


@COMPILED
def test_ups_converges_where_propagation_does_not():
    given = random_networks.generate_random_network("grid", rows=10, columns=10, sigma_w=5.0, sigma_b=1.0, seed=2)
    assert not infer(given, "bp", iterations=200).attributes["converged"]
    found = infer(given, "ups", tolerance=1e-8, iterations=3000)
    assert found.attributes["converged"]
    other = infer(given, "ups", tolerance=1e-8, iterations=3000, clamp="rows-columns")
    assert abs(found.attributes["log_z"] - other.attributes["log_z"]) < 1e-6


def test_the_minimum_is_stationary_under_small_consistent_moves():
    """dF = 0 along pair beliefs moved by ε(+1 −1 −1 +1), which leave all node beliefs alone."""
    given = random_networks.generate_random_network("grid", rows=4, columns=4, sigma_w=2.0, seed=1)
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm="ups", tolerance=1e-12, iterations=2000))
    state = iterate.run_steps(method.step, method.init(), steps=2000, until=method.done)
    found = method.beliefs(state)
    rest = bethe.bethe_free_energy(method.graph, found)
    for e in range(0, method.graph.edges, 5):
        for sign in (1, -1):
            moved = found.pair.copy()
            moved[4 * e : 4 * e + 4] += sign * 1e-6 * np.array([1, -1, -1, 1])
            assert rest < bethe.bethe_free_energy(method.graph, bethe.PairBeliefs(found.node, moved)) < rest + 1e-8
    assert bethe.largest_inconsistency(method.graph, found) < 1e-10


@pytest.mark.parametrize("algorithm", [*GENERALISED, "ups-t"])
def test_generalised_inference_is_exact_on_trees(algorithm):
    given = random_networks.generate_random_network("tree", nodes=14, sigma_w=3.0, observe="leaves", sigma_alpha=2.0, seed=3)
    exact, found = infer(given, "enumerate", tolerance=1e-13, iterations=9000), infer(given, algorithm, tolerance=1e-12, iterations=9000)
    assert found.attributes["converged"]
    assert largest_difference(exact, found) < 1e-9
    assert abs(exact.attributes["log_z"] - found.attributes["log_z"]) < 1e-9


@COMPILED
@pytest.mark.parametrize("algorithm", GENERALISED)
def test_generalised_algorithms_share_their_fixed_point(algorithm):
    given = random_networks.generate_random_network(
        "grid", rows=5, columns=5, sigma_w=2.0, sigma_b=1.0, observe="border", sigma_alpha=2.0, seed=8
    )
    found = infer(given, algorithm, tolerance=1e-10, iterations=5000)
    reference = infer(given, "ups", tolerance=1e-12, iterations=5000, clamp="columns")
    assert found.attributes["converged"]
    assert largest_difference(found, reference) < 1e-8
    for i, p in given.stored_marginals().items():
        assert np.allclose(found.nodes[i], p, atol=1e-9)


@pytest.mark.parametrize("algorithm", GENERALISED)
def test_delta_marginals_are_conditioning(algorithm):
    """Observation 5.4.1: hard evidence as marginals of zeros and ones."""
    given = random_networks.generate_random_network("grid", rows=4, columns=4, sigma_w=1.0, sigma_b=1.0, seed=9)
    states = {0: 1, 3: 0, 10: 1}
    held = infer(network.condition_network(given, states), "bp", tolerance=1e-12)
    delta = network.with_observed_marginals(given, {i: np.eye(2)[state] for i, state in states.items()})
    found = infer(delta, algorithm, tolerance=1e-10, iterations=5000)
    assert abs(found.attributes["log_z"] - held.attributes["log_z"]) < 1e-8
    for i in set(range(16)) - set(states):
        assert np.allclose(found.nodes[i], held.nodes[i], atol=1e-8)


@pytest.mark.parametrize("algorithm", GENERALISED)
def test_two_observed_nodes_have_the_closed_form(algorithm):
    """Teh (2003), sec. 5.5: the multiplier of both is ln u + 2.5, 0.7 e⁵ u² + 0.4 u − 0.3 = 0."""
    given = random_networks.network_from_weights(np.array([[0, 1]]), np.array([5.0]), np.array([-2.5, -2.5]))
    both = network.with_observed_marginals(given, {0: np.array([0.7, 0.3]), 1: np.array([0.7, 0.3])})
    found = infer(both, algorithm, tolerance=1e-12, iterations=5000)
    u = (-0.4 + math.sqrt(0.16 + 4 * 0.7 * math.exp(5) * 0.3)) / (2 * 0.7 * math.exp(5))
    expected = np.array([[1, u], [u, math.exp(5) * u * u]])
    assert np.allclose(found.cliques[0][1], expected / expected.sum(), atol=1e-10)


def test_tree_sweeps_pass_each_edge_once_each_way():
    graph = pairwise.reduce_to_pairwise(random_networks.generate_random_network("tree", nodes=40, seed=5))
    leaves = {i for i in range(40) if graph.degree()[i] == 1}
    plan = clamping.make_clamp_plan(graph, leaves, set())
    assert len(plan.segments) == 2
    assert sorted(plan.order.tolist()) == list(range(2 * graph.edges))
    assert plan.scalings.tolist() == [len(leaves)]
    for before, after in zip(plan.order[:-1], plan.order[1:], strict=True):  # a walk: it goes on where it arrived
        assert graph.head[before] == graph.tail[after]


@pytest.mark.parametrize("how", ["auto", "rows", "columns", "rows-columns"])
def test_every_hidden_variable_is_free_sometimes_and_forests_are_forests(how):
    given = random_networks.generate_random_network("grid", rows=6, columns=7, observe="border")
    graph = pairwise.reduce_to_pairwise(given)
    observed = set(given.stored_marginals())
    made = clamping.make_clamp_plans(graph, observed, how, given.shape, 0)
    assert set.intersection(*(set(plan.clamped.tolist()) for plan in made)) == set()
    for plan in made:
        assert sorted(plan.order.tolist()) == list(range(2 * graph.edges))
        assert not set(plan.clamped.tolist()) & observed
    with pytest.raises(DataError, match="the clamp set does not break"):
        clamping.make_clamp_plan(graph, set(), set())


def test_wrong_uses_are_told():
    given = random_networks.generate_random_network("grid", rows=3, columns=3)
    with pytest.raises(BadUsage, match="--algorithm loopy-is needs observed marginals"):
        infer(given, "loopy-is")
    with pytest.raises(BadUsage, match="--algorithm bp does not work with observed marginals"):
        infer(network.with_observed_marginals(given, {0: np.array([0.5, 0.5])}), "bp")
    with pytest.raises(BadUsage, match="--algorithm ups-t needs observed marginals on enough variables to break every loop"):
        infer(given, "ups-t")
    with pytest.raises(BadUsage, match="--clamp rows needs a network that was made as a grid"):
        infer(random_networks.generate_random_network("random", nodes=9), "ups", clamp="rows")
    contradiction = network.build_network([2, 2], [((0, 1), np.eye(2))])
    with pytest.raises(Diverged, match=r"belief propagation failed: the message from x[01] to x[01] is zero for all states"):
        infer(network.with_observed_marginals(contradiction, {0: np.array([1.0, 0.0]), 1: np.array([0.0, 1.0])}), "loopy-is")
    with pytest.raises(NegativeResult, match="zeros of the factors, or the evidence, exclude all states of x0"):
        infer(network.build_network([2, 2], [((0,), np.array([1.0, 0.0])), ((0,), np.array([0.0, 1.0]))]), "bp")


@pytest.mark.parametrize("algorithm", ["bp", "ups", "junction-tree"])
def test_variables_alone_and_networks_apart_are_fine(algorithm):
    given = network.build_network([2, 3, 2, 2], [((0,), np.array([1.0, 3.0])), ((2, 3), np.array([[2.0, 1.0], [1.0, 2.0]]))])
    found = infer(given, algorithm)
    assert np.allclose(found.nodes[0], [0.25, 0.75])
    assert np.allclose(found.nodes[1], 1 / 3)
    assert np.allclose(found.nodes[3], 0.5)
    assert abs(found.attributes["log_z"] - math.log(4 * 3 * 6)) < 1e-12


def test_averages_of_impossible_states_are_nothing():
    """Rounding may leave a belief above 0 where ψ is 0."""
    found = bethe._log_potential_terms(np.array([1e-20, 0.5, 0.0]), np.array([0.0, 2.0, 3.0]))
    np.testing.assert_allclose(found, [0.0, 0.5 * np.log(2), 0.0])
