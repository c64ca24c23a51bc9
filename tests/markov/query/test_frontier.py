"""Frontier sweeps, propagation without division, evidence in rows, annealing: all against the junction tree."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from herdcli import iterate
from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage, DataError, NegativeResult
from herdcli.markov import algorithms
from herdcli.markov.exact import frontier
from herdcli.markov.exact.evidence_batch import EvidenceBatch
from herdcli.markov.formats import network_formats as formats
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, random_networks

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = (Path(os.environ.get("HERD_DATA", "none")), ROOT.parent / "shared" / "data")
DATA = next((path / "networks" for path in FOLDERS if (path / "networks").is_dir()), None)


def infer(given, algorithm, **settings):
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm, **settings))
    return run_algorithm(method)


def agree(ours, theirs, tolerance):
    assert abs(ours.attributes["log_z"] - theirs.attributes["log_z"]) < tolerance * max(1, abs(theirs.attributes["log_z"]))
    assert max(np.abs(p - q).max() for p, q in zip(ours.nodes, theirs.nodes, strict=True)) < tolerance
    known = {tuple(sorted(scope)): p if scope == tuple(sorted(scope)) else p.T for scope, p in theirs.cliques if len(scope) == 2}
    mine = {tuple(sorted(scope)): p if scope == tuple(sorted(scope)) else p.T for scope, p in ours.cliques if len(scope) == 2}
    assert mine.keys() <= known.keys()
    for scope, p in mine.items():
        assert np.abs(p - known[scope]).max() < tolerance


@pytest.mark.parametrize(("rows", "columns", "sigma_w"), [(4, 4, 1.0), (3, 6, 3.0), (6, 3, 3.0), (1, 5, 1.0), (5, 1, 1.0), (4, 4, 300.0)])
def test_frontiers_give_the_marginals_of_the_junction_tree(rows, columns, sigma_w):
    given = random_networks.generate_random_network("grid", rows=rows, columns=columns, sigma_w=sigma_w, seed=rows)
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm="frontier"))
    assert iterate.run_steps(method.step, method.init(), steps=method.steps).logs == (sigma_w > 100)
    agree(infer(given, "frontier"), infer(given, "junction-tree"), 1e-12)


def test_frontiers_over_any_states_zeros_and_evidence():
    random = np.random.default_rng(0)
    cardinality = random.integers(1, 4, 12)
    edges = random_networks.grid_edges(3, 4).tolist()
    factors = []
    for i, j in edges:
        table = random.random((cardinality[j], cardinality[i])) * (random.random((cardinality[j], cardinality[i])) < 0.8)
        table.flat[0] = 1.0
        factors.append(((j, i), table))
    factors += [((i,), random.random(cardinality[i]) + 0.1) for i in range(0, 12, 2)] + [((), np.array(2.0))]
    given = network.build_network(cardinality, factors, shape=np.array([3, 4]))
    held = network.condition_network(given, {int(np.argmax(cardinality)): 1})
    agree(infer(given, "frontier"), infer(given, "junction-tree"), 1e-12)
    agree(infer(held, "frontier"), infer(held, "junction-tree"), 1e-12)


def test_networks_that_are_no_lattice_are_refused():
    with pytest.raises(BadUsage, match="--algorithm frontier needs a network that was made as a grid"):
        infer(random_networks.generate_random_network("tree"), "frontier")
    diagonal = network.build_network([2] * 4, [((0, 3), np.ones((2, 2)))], shape=np.array([2, 2]))
    with pytest.raises(BadUsage, match="needs factors that join only neighbours on the grid, but factor 0 joins others"):
        infer(diagonal, "frontier")
    with pytest.raises(DataError, match=r"--algorithm frontier handles tables of at most 2\^27 cells, but this lattice needs 2\^40.0"):
        infer(random_networks.generate_random_network("grid", rows=40, columns=40), "frontier")
    closed = network.build_network(
        [2, 2], [((0, 1), np.eye(2)), ((0,), np.array([1.0, 0.0])), ((1,), np.array([0.0, 1.0]))], shape=np.array([1, 2])
    )
    with pytest.raises(NegativeResult, match="every joint state has probability 0"):
        infer(closed, "frontier")


def test_auto_sweeps_over_lattices_whose_junction_tree_is_large(monkeypatch):
    given = random_networks.generate_random_network("grid", rows=7, columns=7)
    assert algorithms.choose_exact_algorithm(given, InferenceSettings(), 1 << 30).name == "junction-tree"
    monkeypatch.setattr(algorithms, "WIDE", 1000)
    found = algorithms.choose_exact_algorithm(given, InferenceSettings(), 1 << 30)
    assert found.name == "frontier"
    assert found.why.startswith("which is exact and sweeps over the lattice in 2^")
    assert isinstance(algorithms.choose_exact_algorithm(given, InferenceSettings(), 1000), algorithms.ExactInfeasible)


def shuffled(given, seed):
    """The same network under other numbers and without its shape, and the new number of each variable."""
    number = np.random.default_rng(seed).permutation(given.count)
    factors = [(tuple(int(number[i]) for i in scope), table) for scope, table in given.factors()]
    return network.build_network(given.cardinality[np.argsort(number)], factors), number


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (3, 5), (5, 3), (1, 6), (4, 4)])
def test_lattices_are_told_without_a_shape(rows, columns):
    given = random_networks.generate_random_network("grid", rows=rows, columns=columns, sigma_w=2.0, seed=2)
    bare = network.build_network(given.cardinality, given.factors())
    known = infer(given, "junction-tree")
    agree(infer(bare, "frontier"), known, 1e-12)
    agree(
        infer(network.condition_network(bare, {0: 1, 3: 0}), "frontier"),
        infer(network.condition_network(given, {0: 1, 3: 0}), "junction-tree"),
        1e-12,
    )
    if rows > 1:
        other, number = shuffled(given, rows)
        found = infer(other, "frontier")
        assert abs(found.attributes["log_z"] - known.attributes["log_z"]) < 1e-11
        assert max(np.abs(found.nodes[int(number[i])] - p).max() for i, p in enumerate(known.nodes)) < 1e-12


def test_graphs_that_are_nearly_lattices_are_none():
    ring = network.build_network([2] * 6, [((i, (i + 1) % 6), np.ones((2, 2))) for i in range(6)])
    torus = network.build_network(
        [2] * 9, [((i, j), np.ones((2, 2))) for i, j in [*random_networks.grid_edges(3, 3).tolist(), (0, 2), (3, 5), (6, 8)]]
    )
    wrapped = network.build_network([2] * 9, [((i, j), np.ones((2, 2))) for i, j in [*random_networks.grid_edges(3, 3).tolist(), (2, 3)]])
    halves = network.build_network(
        [2] * 8, [((i, j), np.ones((2, 2))) for i, j in [(0, 5), (5, 3), (3, 6), (6, 0), (1, 7), (7, 2), (2, 4)]]
    )
    for given in (ring, torus, wrapped, halves):
        with pytest.raises(BadUsage, match="--algorithm frontier needs a network that was made as a grid"):
            infer(given, "frontier")


def test_opposite_modes_are_swept_in_logarithms():
    """Two rows whose fields pull apart by e^±1350 and must agree: the states that matter are too small for a float64."""
    pull = np.exp(np.array([0.0, 450.0]))
    factors = [((i, i + 3), np.eye(2) + 1e-300) for i in range(3)]
    factors += [((i,), pull if i < 3 else pull[::-1] * 1.5) for i in range(6)]
    given = network.build_network([2] * 6, factors, shape=np.array([2, 3]))
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm="frontier"))
    assert iterate.run_steps(method.step, method.init(), steps=method.steps).logs
    agree(infer(given, "frontier"), infer(given, "junction-tree"), 1e-12)


@pytest.mark.parametrize("orders", [1, 5])
def test_auto_tries_as_many_orders_as_it_is_told(orders):
    given = random_networks.generate_random_network("grid", rows=5, columns=5)
    state = algorithms.choose_exact_algorithm(given, InferenceSettings(orders=orders), 1 << 30).method.begun
    assert state.step == orders
    method = algorithms.make_inference_method(given, InferenceSettings(orders=orders))
    alone = iterate.run_steps(method.step, method.init(), until=method.done)
    assert np.array_equal(state.order, alone.order)


def test_auto_sweeps_over_a_lattice_that_came_as_text(monkeypatch):
    given = random_networks.generate_random_network("grid", rows=7, columns=7)
    bare = network.build_network(given.cardinality, given.factors())
    monkeypatch.setattr(algorithms, "WIDE", 1000)
    assert algorithms.choose_exact_algorithm(bare, InferenceSettings(), 1 << 30).name == "frontier"


@pytest.mark.slow
@pytest.mark.skipif(DATA is None, reason="the reference networks are not there (HERD_DATA)")
def test_a_lattice_of_the_competition_is_exact():
    given = formats.read_network((DATA / "Grids_15.uai").read_text(), "uai")
    found = algorithms.choose_exact_algorithm(given, InferenceSettings(), 4 << 30)
    assert found.name == "frontier"
    assert abs(infer(given, found.name).attributes["log_z"] / np.log(10) - 291.732652598) < 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_propagation_without_division_is_the_same(seed):
    random = np.random.default_rng(seed)
    cardinality = random.integers(1, 4, 9)
    factors = []
    for _ in range(10):
        scope = tuple(random.choice(9, random.integers(1, 4), replace=False).tolist())
        table = np.exp(2 * random.standard_normal(cardinality[list(scope)])) * (random.random(cardinality[list(scope)]) < 0.9)
        table.flat[0] = 1.0
        factors.append((scope, table))
    given = network.build_network(cardinality, factors)
    agree(infer(given, "junction-tree", message_passing="shafer-shenoy"), infer(given, "junction-tree"), 1e-13)


def rows_of(given, variables, evidence, **more):
    batch = EvidenceBatch(given, variables, evidence, orders=2, seed=0, **more)
    return batch, iterate.run_steps(batch.step, batch.init(), steps=batch.steps)


def test_rows_of_evidence_are_conditioning(monkeypatch):
    given = random_networks.generate_random_network("grid", rows=3, columns=3, sigma_w=2.0, seed=1)
    evidence = np.array([[-1, 0], [1, 1], [0, -1], [-1, -1], [1, 0]])
    monkeypatch.setattr("herdcli.markov.exact.evidence_batch.BLOCK", 200)
    batch, state = rows_of(given, [4, 7], evidence)
    assert batch.steps > 1
    for row, given_states in enumerate(evidence):
        held = {i: int(x) for i, x in zip([4, 7], given_states, strict=True) if x >= 0}
        found = infer(network.condition_network(given, held), "junction-tree")
        assert abs(found.attributes["log_z"] - state.log_z[row]) < 1e-12
        for i, p in enumerate(found.nodes):
            full = np.eye(2)[held[i]] if i in held else p
            assert np.abs(state.marginals[row, 2 * i : 2 * i + 2] - full).max() < 1e-13


def test_rows_that_cannot_be_are_named():
    given = network.build_network([2, 2], [((0, 1), np.eye(2))])
    _, found = rows_of(given, [0, 1], np.array([[0, 0], [0, 1]]))
    assert found.log_z.tolist() == [0, -np.inf]
    assert np.isnan(found.marginals).tolist() == [[False] * 4, [True] * 4]
    with pytest.raises(DataError, match=r"row 1 gives x1 the state 2, but its states are 0 to 1 \(−1: unknown\)"):
        rows_of(given, [0, 1], np.array([[0, 0], [0, 2]]))


def test_annealing_finds_both_modes_of_a_frustrated_start():
    """Without it chains stay in the mode they begin near; with it the halves agree with the exact means."""
    edges = random_networks.grid_edges(3, 3)
    given = random_networks.network_from_weights(
        edges, np.full(len(edges), 5.0), np.array([-5.0, -7.5, -5.0, -7.5, -10.0, -7.5, -5.0, -7.5, -5.0]) + 0.05
    )
    exact = infer(given, "junction-tree").nodes[4][1]
    found = infer(given, "gibbs", sweeps=50, burn_in=300, annealing=250, chains=400)
    assert abs(found.nodes[4][1] - exact) < 0.1
    with pytest.raises(BadUsage, match="--annealing 20 is more than the 10 sweeps of --burn-in"):
        infer(given, "gibbs", sweeps=50, burn_in=10, annealing=20)


def test_hidden_markov_models_are_forward_and_backward():
    random = np.random.default_rng(0)
    length, states, seen = 12, 3, random.integers(0, 4, 12)
    start, move, emit = random.dirichlet(np.ones(3)), random.dirichlet(np.ones(3), 3), random.dirichlet(np.ones(4), 3)
    factors = [((0,), start)] + [((t, t + 1), move) for t in range(length - 1)]
    factors += [((t, length + t), emit) for t in range(length)]
    given = network.condition_network(
        network.build_network([states] * length + [4] * length, factors), {length + t: int(y) for t, y in enumerate(seen)}
    )
    forward, backward = [start * emit[:, seen[0]]], [np.ones(states)]
    for y in seen[1:]:
        forward.append((forward[-1] @ move) * emit[:, y])
    for y in seen[:0:-1]:
        backward.insert(0, move @ (emit[:, y] * backward[0]))
    for algorithm in ("junction-tree", "bp"):
        found = infer(given, algorithm, tolerance=1e-14)
        assert abs(found.attributes["log_z"] - np.log(forward[-1].sum())) < 1e-10
        for t in range(length):
            p = forward[t] * backward[t]
            assert np.abs(found.nodes[t] - p / p.sum()).max() < 1e-12


def test_the_memory_of_the_way_back_is_told_beside_what_is_taken():
    """Before the first row of all tables; after two, of those of one row, β and spare ones; on the way back of four."""
    method = algorithms.make_inference_method(
        random_networks.generate_random_network("grid", rows=5, columns=4), InferenceSettings(algorithm="frontier")
    )
    state = method.init()
    assert method.memory() == method.bytes_needed(state)[0] == 8 * 2**4 * (5 + 4 + 6)
    for _ in range(2):
        state = method.step(state)
    assert method.bytes_needed(state)[0] == 8 * 2**4 * (4 + 2)
    assert len(method.tables) == 2
    while state.step <= 5:
        state = method.step(state)
    assert method.bytes_needed(state)[0] == 8 * 2**4 * 4
    assert len(method.tables) == 4 + 2


def test_a_frontier_that_is_used_again_leaves_other_states_alone():
    """Its tables are written again by each row: states hold their own numbers."""
    given = random_networks.generate_random_network("grid", rows=4, columns=3, sigma_w=2.0, seed=3)
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm="frontier"))
    known = infer(given, "frontier")
    one, other = method.init(), method.init()
    other = method.step(other)
    while not method.done(one):
        one, other = method.step(one), other if method.done(other) else method.step(other)
    for state in (one, other):
        found = method.result(state)
        assert found.attributes["log_z"] == known.attributes["log_z"]
        assert all(np.array_equal(p, q) for p, q in zip(found.nodes, known.nodes, strict=True))


def test_the_way_back_over_a_lattice_is_the_larger_share_of_its_work():
    method = algorithms.make_inference_method(
        random_networks.generate_random_network("grid", rows=3, columns=2), InferenceSettings(algorithm="frontier")
    )
    state, shares = method.init(), []
    while not method.done(state):
        state = method.step(state)
        shares.append(method.progress(state).done)
    cells = np.array([2 + 4, 4 + 4, 4 + 4])  # of the tables of each row
    work = np.cumsum([*cells, *frontier.BACK * cells[::-1]])
    assert np.array_equal(shares, work / work[-1])


def test_rows_of_a_table_are_multiplied_many_at_a_time():
    """The same bits, with rows left over."""
    random = np.random.default_rng(0)
    for rows in (3, frontier.WIDE, 2 * frontier.WIDE + 5):
        table, by = random.random((rows, 6)), random.random(6)
        expected = table * by
        frontier._multiply_rows(table, by)
        assert np.array_equal(table, expected)
