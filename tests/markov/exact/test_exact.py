"""Junction trees and enumeration: against brute force written here, the reference networks, and each other."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from small_networks import brute_force, random_network

from herdcli import iterate
from herdcli.algorithm import run_algorithm
from herdcli.errors import DataError, NegativeResult
from herdcli.markov import algorithms
from herdcli.markov.exact import cost_forecast, table_arithmetic
from herdcli.markov.formats import network_formats as formats
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, random_networks

ROOT = Path(__file__).resolve().parents[3]
DATA = next(
    (
        path / "networks"
        for path in (Path(os.environ.get("HERD_DATA", "none")), ROOT.parent / "shared" / "data")
        if (path / "networks").is_dir()
    ),
    None,
)
REFERENCES = json.loads((DATA / "references.json").read_text()) if DATA else {}
HEAVY = {"ObjectDetection_11.uai", "Grids_11.uai", "Grids_13.uai", "Alchemy_11.uai"}


def infer(given, algorithm, **settings):
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm, **settings))
    return run_algorithm(method)


@pytest.mark.parametrize("algorithm", ["junction-tree", "enumerate"])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_marginals_are_those_of_brute_force(algorithm, zeros, seed):
    given = random_network(seed, zeros)
    marginals, log_z = brute_force(given)
    found = infer(given, algorithm)
    assert abs(found.attributes["log_z"] - log_z) < 1e-12
    assert max(np.abs(p - q).max() for p, q in zip(found.nodes, marginals, strict=True)) < 1e-13
    for scope, p in found.cliques:
        for axis, i in enumerate(scope):
            assert np.allclose(p.sum(axis=tuple(k for k in range(p.ndim) if k != axis)), marginals[i], atol=1e-13)


@pytest.mark.parametrize("algorithm", ["junction-tree", "enumerate"])
def test_evidence_is_conditioning(algorithm):
    given = random_network(11)
    evidence = dict.fromkeys(np.flatnonzero(given.cardinality > 1)[:2].tolist(), 0)
    factors = [*given.factors(), *(((i,), np.eye(given.cardinality[i])[0]) for i in evidence)]
    marginals, log_z = brute_force(network.build_network(given.cardinality, factors))
    found = infer(network.condition_network(given, evidence), algorithm)
    assert abs(found.attributes["log_z"] - log_z) < 1e-12
    for i, p in enumerate(found.nodes):
        assert np.allclose(p, marginals[i][:1] if i in evidence else marginals[i], atol=1e-13)


def test_couplings_of_fifty_are_exact():
    edges = random_networks.grid_edges(3, 3)
    W = 50.0 * np.where(np.arange(len(edges)) % 2, 1, -1)
    given = random_networks.network_from_weights(edges, W, np.linspace(-60, 55, 9))
    energy = np.array([
        W @ (x[edges[:, 0]] * x[edges[:, 1]]) + np.linspace(-60, 55, 9) @ x for x in np.array(list(itertools.product((0, 1), repeat=9)))
    ])  # fmt: skip
    top = energy.max()
    p = np.exp(energy - top)
    on = np.array(list(itertools.product((0, 1), repeat=9))).T @ p / p.sum()
    found = infer(given, "junction-tree")
    assert abs(found.attributes["log_z"] - top - math.log(p.sum())) < 1e-12 * top
    assert np.allclose([q[1] for q in found.nodes], on, rtol=1e-10, atol=0)


def test_evidence_of_probability_zero_is_said():
    given = network.build_network([2, 2, 2], [((0, 1), np.eye(2)), ((1, 2), np.eye(2))])
    for algorithm in ("junction-tree", "enumerate"):
        with pytest.raises(NegativeResult, match="every joint state has probability 0"):
            infer(network.condition_network(given, {0: 0, 2: 1}), algorithm)
    with pytest.raises(NegativeResult, match="the evidence has probability 0: the network excludes x0=0, x1=1"):
        network.condition_network(given, {0: 0, 1: 1})


def test_observed_marginals_hold_and_nothing_else_moves():
    """Q(x) = P(x) Π e^{λ_i}: the ratio of two conditionals given the observed variables is P's."""
    given = random_networks.generate_random_network("grid", rows=3, columns=3, sigma_w=2.0, seed=5)
    observed = {0: np.array([0.2, 0.8]), 8: np.array([0.7, 0.3])}
    found = infer(network.with_observed_marginals(given, observed), "enumerate", tolerance=1e-13)
    for i, p in observed.items():
        assert np.allclose(found.nodes[i], p, atol=1e-12)
    table = np.array(
        [[infer(network.condition_network(given, {0: a, 8: b}), "enumerate").attributes["log_z"] for b in (0, 1)] for a in (0, 1)]
    )
    q = np.exp(table - table.max())
    for _ in range(2000):
        q *= (observed[0] / q.sum(axis=1))[:, None]
        q *= (observed[8] / q.sum(axis=0))[None]
    centre = sum(q[a, b] * infer(network.condition_network(given, {0: a, 8: b}), "enumerate").nodes[4][1] for a in (0, 1) for b in (0, 1))
    assert abs(found.nodes[4][1] - centre) < 1e-11
    assert abs(found.attributes["log_z"] - (q * (table - np.log(q))).sum()) < 1e-11


def test_delta_marginals_are_conditioning():
    """Observation 5.4.1."""
    given = random_networks.generate_random_network("grid", rows=3, columns=3, sigma_w=2.0, seed=6)
    delta = infer(network.with_observed_marginals(given, {4: np.array([0.0, 1.0])}), "enumerate")
    held = infer(network.condition_network(given, {4: 1}), "enumerate")
    assert abs(delta.attributes["log_z"] - held.attributes["log_z"]) < 1e-12
    assert all(np.allclose(p, q, atol=1e-13) for i, (p, q) in enumerate(zip(delta.nodes, held.nodes, strict=True)) if i != 4)


def test_two_observed_nodes_have_the_closed_form():
    """Teh (2003), sec. 5.5: weight 5, biases −2.5, means .3; λ = ln u + 2.5 with 0.7 e⁵ u² + 0.4 u − 0.3 = 0."""
    given = random_networks.network_from_weights(np.array([[0, 1]]), np.array([5.0]), np.array([-2.5, -2.5]))
    both = network.with_observed_marginals(given, {0: np.array([0.7, 0.3]), 1: np.array([0.7, 0.3])})
    found = infer(both, "enumerate", tolerance=1e-13)
    u = (-0.4 + math.sqrt(0.16 + 4 * 0.7 * math.exp(5) * 0.3)) / (2 * 0.7 * math.exp(5))
    assert abs(math.log(u) + 2.5 - -0.4594661) < 1e-7
    ((_, pair),) = [clique for clique in found.cliques if len(clique[0]) == 2]
    expected = np.array([[1, u], [u, math.exp(5) * u * u]])
    assert np.allclose(pair, expected / expected.sum(), atol=1e-12)


def test_trees_too_large_are_told_before_they_are_built():
    given = random_networks.generate_random_network("grid", rows=80, columns=80)
    method = algorithms.make_inference_method(given, InferenceSettings())
    state = iterate.run_steps(method.step, method.init(), steps=1, until=method.done)
    size, what = method.bytes_needed(state)
    assert size > 2**50
    assert "treewidth at least " in what
    with pytest.raises(DataError, match=r"--algorithm enumerate handles at most 2\^26 joint states, but 36 variables have 2\^36.0"):
        infer(random_networks.generate_random_network("grid", rows=6, columns=6), "enumerate")


def test_more_orders_are_never_worse_and_trees_have_width_one():
    given = random_networks.generate_random_network("random", nodes=60, degree=4, seed=3)
    cells = []
    for orders in (1, 2, 8):
        method = algorithms.make_inference_method(given, InferenceSettings(orders=orders))
        cells.append(iterate.run_steps(method.step, method.init(), steps=orders, until=method.done).cells)
    assert cells[0] >= cells[1] >= cells[2]
    tree = algorithms.make_inference_method(random_networks.generate_random_network("tree", nodes=200), InferenceSettings())
    assert iterate.run_steps(tree.step, tree.init(), steps=8, until=tree.done).width == 1


def reference(name: str):
    raw = (DATA / name).read_bytes()
    text = (gzip.decompress(raw) if name.endswith(".gz") else raw).decode()
    return formats.read_network(text, {"uai": "uai", ".fg": "fg", ".gz": "bif"}[name[-3:]])


@pytest.mark.skipif(not REFERENCES, reason="the reference networks are not here")
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name in HEAVY else ()) for name in REFERENCES])
def test_reference_networks(name):
    known = REFERENCES[name]
    evidence = {int(i): state for i, state in known["evidence"].items()}
    found = infer(network.condition_network(reference(name), evidence), "junction-tree")
    assert abs(found.attributes["log_z"] - known["logZ"]) < 1e-9
    for i, p in enumerate(known["marg"]):
        if i not in evidence:
            assert np.abs(found.nodes[i] - p).max() < 1e-9


def bytes_planned(given, **settings):
    """What junction-tree says that it needs, after its search."""
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm="junction-tree", **settings))
    return method.bytes_needed(iterate.run_steps(method.step, method.init(), until=method.done))[0]


@pytest.mark.parametrize("orders", [1, 3])
@pytest.mark.parametrize("seed", range(12))
def test_conditioning_never_takes_more_memory(seed, orders):
    given = random_network(seed, variables=14)
    evidence = dict.fromkeys(np.random.default_rng(seed).choice(14, 1 + seed % 6, replace=False).tolist(), 0)
    held = network.condition_network(given, evidence)
    assert bytes_planned(held, orders=orders) <= bytes_planned(given, orders=orders)


def test_an_observed_hub_joins_no_neighbours():
    """Given the hub, a star of 40 is 40 independent variables."""
    tables = np.random.default_rng(0).random((40, 2, 2)) + 0.1
    star = network.condition_network(network.build_network([2] * 41, [((0, i + 1), table) for i, table in enumerate(tables)]), {0: 1})
    assert bytes_planned(star) < 3000
    found = infer(star, "junction-tree")
    assert abs(found.attributes["log_z"] - np.log(tables[:, 1].sum(axis=1)).sum()) < 1e-12
    for (scope, pair), table in zip(found.cliques, tables, strict=True):
        assert np.abs(pair[0] - table[1] / table[1].sum()).max() < 1e-15
        assert np.array_equal(pair[0], found.nodes[scope[1]])


@pytest.mark.parametrize("message_passing", ["hugin", "shafer-shenoy"])
def test_an_observed_border_leaves_the_inside_of_a_lattice(message_passing):
    """Against the same lattice with its border summed into biases by hand."""
    given = random_networks.generate_random_network("grid", rows=10, columns=10, sigma_w=2.0, seed=4)
    border = {i: (7 * i // 3) % 2 for i in range(100) if not (0 < i // 10 < 9 and 0 < i % 10 < 9)}
    inside = {i: k for k, i in enumerate(i for i in range(100) if i not in border)}
    factors, constant = [], 0.0
    for scope, table in given.factors():
        kept = table[tuple(border.get(i, slice(None)) for i in scope)]
        free = tuple(inside[i] for i in scope if i in inside)
        if free:
            factors.append((free, kept))
        else:
            constant += math.log(kept)
    small = network.build_network([2] * 64, factors)
    held = network.condition_network(given, border)
    assert bytes_planned(held) < 1.2 * bytes_planned(small)
    found, known = infer(held, "junction-tree", message_passing=message_passing), infer(small, "junction-tree")
    assert abs(found.attributes["log_z"] - constant - known.attributes["log_z"]) < 1e-10
    assert max(np.abs(found.nodes[i] - known.nodes[k]).max() for i, k in inside.items()) < 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_factors_under_evidence_have_the_marginals_of_enumeration(seed):
    given = random_network(seed + 30, zeros=True, variables=9)
    most = np.flatnonzero(given.cardinality > 1)[:3].tolist()
    held = network.condition_network(given, dict.fromkeys(most, 0))
    found, known = infer(held, "junction-tree"), infer(held, "enumerate")
    assert [scope for scope, _ in found.cliques] == [scope for scope, _ in known.cliques]
    assert max(np.abs(p - q).max() for (_, p), (_, q) in zip(found.cliques, known.cliques, strict=True)) < 1e-13


def test_the_memory_that_is_told_is_the_memory_it_takes():
    import tracemalloc

    given = random_networks.generate_random_network("grid", rows=13, columns=13, seed=1)
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm="junction-tree", orders=2))
    state = iterate.run_steps(method.step, method.init(), until=method.done)
    told, _ = method.bytes_needed(state)
    tracemalloc.start()
    method.result(state)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert told / 1.5 < peak < 1.5 * told
    tree = method.tree(state)
    planned = cost_forecast.estimate_peak_bytes(tree, given, method.columns(tree, state))
    assert planned / 1.5 < peak < 1.5 * planned


def test_what_a_child_is_told_is_divided_to_the_same_bits_with_and_without_zeros():
    """0/0 is 0, every other quotient is that of two numbers."""
    random = np.random.default_rng(0)
    below = random.random(1000) * (random.random(1000) < 0.6) * 1e-300
    above = below * random.random(1000)
    expected = np.array([x / y if y else 0.0 for x, y in zip(above.tolist(), below.tolist(), strict=True)])
    with np.errstate(all="raise"):
        assert np.array_equal(table_arithmetic.LinearArithmetic().divide(above, below), expected)
