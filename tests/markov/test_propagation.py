"""Propagation by messages alone: against enumeration, whole tables, and itself with other schedules, places, slabs and threads."""

from __future__ import annotations

import math
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from herdcli import iterate
from herdcli.algorithm import run_algorithm
from herdcli.artifacts.rows.arrays_file import ArraysFile
from herdcli.errors import NegativeResult
from herdcli.markov import algorithms
from herdcli.markov.exact import (
    cliques,
    collect_pass,
    cost_forecast,
    elimination,
    enumeration,
    junction_tree,
    message_storage,
    separator_states,
    sparse_cliques,
    streamed_propagation,
    table_arithmetic,
)
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, possible_states, random_networks


def sparse_network(seed: int, variables: int = 9):
    """Factors of one to four variables with one to four states; of their cells half and more are zero, one state is possible."""
    random = np.random.default_rng(seed)
    cardinality = random.integers(1, 5, variables)
    state = [int(random.integers(count)) for count in cardinality]
    factors = []
    for _ in range(variables + 2):
        scope = tuple(random.choice(variables, random.integers(1, 5), replace=False).tolist())
        table = np.exp(3 * random.standard_normal(cardinality[list(scope)])) * (random.random(cardinality[list(scope)]) < 0.45)
        table[tuple(state[i] for i in scope)] = 1.0
        factors.append((scope, table))
    return network.build_network(cardinality, factors)


def infer(given, algorithm="junction-tree", **settings):
    return run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm, **settings)))


def agree(found, known, tolerance=1e-12):
    assert abs(found.attributes["log_z"] - known.attributes["log_z"]) < tolerance * max(1, abs(known.attributes["log_z"]))
    assert max(np.abs(p - q).max() for p, q in zip(found.nodes, known.nodes, strict=True)) < tolerance
    assert [scope for scope, _ in found.cliques] == [scope for scope, _ in known.cliques]
    for (_, p), (_, q) in zip(found.cliques, known.cliques, strict=True):
        assert p.shape == q.shape
        assert np.abs(p - q).max() < tolerance


def same(found, other):
    assert found.log_z == other.log_z
    assert all(np.array_equal(p, q) for p, q in zip(found.nodes, other.nodes, strict=True))
    assert all(np.array_equal(p, q) for (_, p), (_, q) in zip(found.factors, other.factors, strict=True))


@pytest.mark.parametrize("seed", range(25))
def test_tables_half_of_zeros_have_the_marginals_of_enumeration(seed):
    given = sparse_network(seed)
    agree(infer(given), infer(given, "enumerate"))


def test_states_that_zeros_make_impossible_are_in_no_table():
    """x0 ≠ 2 by its own factor, x1 = x0 and x2 = x1 by copies: two states of three stay, and the constant x3 keeps one."""
    copy = np.eye(3)
    first, last = np.array([0.2, 0.8, 0.0]), np.array([0.0, 0.0, 2.0])
    given = network.build_network([3, 3, 3, 3], [((0,), first), ((0, 1), copy), ((1, 2), copy), ((3,), last), ((2, 3), np.ones((3, 3)))])
    small = possible_states.remove_impossible_states(given)
    assert small.network.cardinality.tolist() == [2, 2, 2, 1]
    assert small.network.table.sum() == 1.0 + 2 + 2 + 2.0 + 2
    found = infer(given)
    agree(found, infer(given, "enumerate"), 1e-15)
    assert found.nodes[3].tolist() == [0.0, 0.0, 1.0]
    method = algorithms.make_inference_method(given, InferenceSettings())
    assert iterate.run_steps(method.step, method.init(), until=method.done).cells == 4 + 4 + 2 + 1


@pytest.mark.parametrize("seed", range(10))
def test_conditioning_never_takes_more_memory_with_zeros(seed):
    def planned(of):
        method = algorithms.make_inference_method(of, InferenceSettings(orders=3))
        return method.bytes_needed(iterate.run_steps(method.step, method.init(), until=method.done))[0]

    given = sparse_network(seed, 12)
    state = infer(given).nodes
    held = network.condition_network(given, {i: int(np.argmax(state[i])) for i in range(1 + seed % 5)})
    assert planned(held) <= planned(given)


def test_no_state_is_possible_though_all_factors_are():
    given = network.build_network([2, 2, 2], [((0, 1), np.eye(2)), ((1, 2), np.eye(2)), ((0, 2), 1 - np.eye(2))])
    with pytest.raises(NegativeResult, match="every joint state has probability 0"):
        infer(given)


def along_a_line(given):
    """The tree of an arrangement, nearly a chain."""
    ties = np.random.default_rng(0).random(given.count).tolist()
    return junction_tree.build_clique_tree(
        given,
        np.array(
            elimination.linear_arrangement_order(
                elimination.flatten_graph(elimination.moral_graph(given)), [2] * given.count, ties, math.inf
            )
        ),
    )


GRID = random_networks.generate_random_network("grid", rows=9, columns=9, sigma_w=2.0, seed=3)


@pytest.mark.parametrize("slab", [8, 64])
def test_slabs_schedules_files_and_threads_change_no_bit(monkeypatch, slab):
    tree = along_a_line(GRID)
    known = streamed_propagation.propagate(GRID, tree, message_storage.single_stretch_schedule(tree, GRID))
    monkeypatch.setattr(table_arithmetic, "SLAB", slab)
    found = streamed_propagation.propagate(GRID, tree, message_storage.single_stretch_schedule(tree, GRID))
    assert abs(found.log_z - known.log_z) < 1e-13 * abs(known.log_z)
    assert max(np.abs(p - q).max() for p, q in zip(found.nodes, known.nodes, strict=True)) < 1e-13
    fewest = message_storage.least_memory_schedule(tree, GRID)
    assert len(fewest.cuts) > 3
    assert fewest.most < message_storage.single_stretch_schedule(tree, GRID).most / 2
    same(streamed_propagation.propagate(GRID, tree, fewest), found)
    file = ArraysFile()
    for plan in (fewest, message_storage.single_stretch_schedule(tree, GRID)):
        same(streamed_propagation.propagate(GRID, tree, plan, messages=file), found)
        assert not file.places
    assert file.end <= 8 * message_storage.single_stretch_schedule(tree, GRID).most + 8 * fewest.most
    with ThreadPoolExecutor(2) as pool:
        same(streamed_propagation.propagate(GRID, tree, fewest, map=pool.map), found)


def test_the_messages_kept_are_those_that_are_told():
    class Counting(message_storage.MemoryMessageStore):
        most = 0

        def put(self, k, message):
            super().put(k, message)
            self.most = max(self.most, sum(array.size for array in self.of.values()))

    tree = along_a_line(GRID)
    for plan in (message_storage.least_memory_schedule(tree, GRID), message_storage.single_stretch_schedule(tree, GRID)):
        place = Counting()
        streamed_propagation.propagate(GRID, tree, plan, messages=place)
        assert 0.6 * plan.most < place.most <= plan.most


def test_products_below_every_float_are_formed_in_logarithms(monkeypatch):
    """A chain of 12 whose factors fall to 1e-200: the least likely path, 1e-3000 of the likeliest, keeps its logarithm."""
    table = np.array([[1.0, 1e-200], [1e-200, 1e-200]])
    given = network.build_network([2] * 12, [((i, i + 1), table) for i in range(11)] + [((i,), np.array([1e-150, 1.0])) for i in range(12)])
    seen = []
    plain = table_arithmetic.LogArithmetic.sum_axes
    monkeypatch.setattr(table_arithmetic.LogArithmetic, "sum_axes", lambda self, table, axes: seen.append(1) or plain(self, table, axes))
    found = infer(given)
    assert seen
    agree(found, infer(given, "enumerate"), 1e-13)
    for p, q in zip(found.nodes, infer(given, "enumerate").nodes, strict=True):
        assert np.allclose(p, q, rtol=1e-12, atol=0)


FALLING = network.build_network(
    [2] * 12,
    [((i, i + 1), np.array([[1.0, 1e-200], [1e-200, 1e-200]])) for i in range(11)] + [((i,), np.array([1e-150, 1.0])) for i in range(12)],
)


@pytest.mark.parametrize("question", ["marginals", "log-z"])
def test_what_was_made_before_logarithms_is_gone(monkeypatch, question):
    """The run that a float64 did not hold leaves nothing behind: a run in logarithms takes no more memory than another."""
    gone = []
    which = collect_pass._PassRun if question == "log-z" else streamed_propagation.PropagationRun
    begin = which.__init__

    def watched(self, *given):
        gone.append((weakref.ref(self), [made() is None for made, _ in gone]))
        begin(self, *given)

    monkeypatch.setattr(which, "__init__", watched)
    if question == "log-z":
        collect_pass.plan_elimination_pass(FALLING, range(12)).run_elimination()
    else:
        infer(FALLING)
    assert [before for _, before in gone] == [[], [True]]


def test_a_plan_says_where_logarithms_are_needed():
    """A short propagation of factors that are far apart is tried; of those that are not, no product can be too small."""
    told = {}
    for name, given in (("far", FALLING), ("near", GRID)):
        method = algorithms.make_inference_method(given, InferenceSettings(algorithm="junction-tree"))
        state = iterate.run_steps(method.step, method.init(), until=method.done)
        tree = method.tree(state)
        assert cost_forecast.products_fit_float64(given) == (name == "near")
        told[name] = method.estimate_cost(state)[0] / cost_forecast.estimate_propagation_seconds(
            tree, given, method.columns(tree, state), with_marginals=True
        )
    assert told["far"] > 5
    assert 0.1 < told["near"] < 5


def test_messages_that_are_looked_at_whole_are_counted():
    """A child that sends its one possible state of two to a clique that has all of its own is spread out there, with where it was."""
    given = network.build_network([2, 2, 2], [((0, 1), np.eye(2)), ((1, 2), np.ones((2, 2)))])
    tree = junction_tree.build_clique_tree(given, np.array([0, 1, 2]))
    few = separator_states.pack_columns(np.array([True, False]))
    cases = ([None, None, None], [few, None, None], [few, few, None])
    assert [message_storage.largest_expanded_messages(tree, among) for among in cases] == [0, 3, 3]
    # messages of 2, 2 and 1 numbers, and new ones for the two of a child; with bits and counts there are 3 of one that has one state
    assert [message_storage.single_stretch_schedule(tree, given, among).most for among in cases] == [5 + 2, 6 + 3 + 2 * 3, 7 + 3 + 2 * 3]
    assert [message_storage.plan_collect_pass(tree, given, among)[1] for among in cases] == [4, 5 + 3, 6 + 3]


def test_tiny_probabilities_keep_their_digits():
    given = network.build_network(
        [2] * 6, [((i, i + 1), np.array([[1.0, 1e-40], [1e-40, 1.0]])) for i in range(5)] + [((0,), np.array([1.0, 1e-30]))]
    )
    found = infer(given)
    assert np.allclose([p[1] for p in found.nodes], [1e-30] * 6, rtol=1e-9, atol=0)


@pytest.mark.parametrize(("rows", "columns"), [(5, 9), (9, 5), (3, 30)])
def test_arrangements_sweep_over_lattices_along_their_longer_side(rows, columns):
    given = random_networks.generate_random_network("grid", rows=rows, columns=columns)
    graph, states = elimination.flatten_graph(elimination.moral_graph(given)), [2] * given.count
    order = elimination.linear_arrangement_order(graph, states, np.random.default_rng(0).random(given.count).tolist(), math.inf)
    assert sorted(order) == list(range(rows * columns))
    tree = junction_tree.build_clique_tree(given, np.array(order))
    assert max(len(scope) for scope in tree.scopes) <= min(rows, columns) + 1
    kept = message_storage.least_memory_schedule(tree, given).most
    assert kept < 2 ** min(rows, columns) * (2.5 * math.sqrt(rows * columns) + 4)
    assert elimination.linear_arrangement_order(graph, states, [0.0] * given.count, 10.0) is None


def test_long_bands_are_swept_where_their_tree_is_large():
    """No lattice is told: couplings between a variable and those 1, 7 and 8 further on."""
    random = np.random.default_rng(5)
    pairs = [(i, i + step) for step in (1, 7, 8) for i in range(120 - step)]
    given = network.build_network([2] * 120, [(pair, np.exp(random.standard_normal((2, 2)))) for pair in pairs])
    found = cliques.search_elimination_orders(given, 0, 2)
    tree = junction_tree.build_clique_tree(given, found.order)
    assert message_storage.least_memory_schedule(tree, given).most < message_storage.single_stretch_schedule(tree, given).most / 3
    agree(infer(given), infer(given, message_passing="shafer-shenoy"))


def test_sums_over_scattered_axes():
    table = np.random.default_rng(0).random((2, 3, 2, 20, 2, 2))
    for axes in [(0,), (5,), (1, 4), (0, 2, 5), (4, 5), (3,), (0, 1, 2, 3, 4, 5), ()]:
        assert np.allclose(table_arithmetic.sum_over_axes(table, axes), table.sum(axis=axes), rtol=1e-14)


def few_columns(monkeypatch):
    """Every clique is worked on by its possible columns, some at a time."""
    monkeypatch.setattr(separator_states, "LEAST", 1)
    monkeypatch.setattr(sparse_cliques, "LEAST", 1)
    monkeypatch.setattr(separator_states, "SHARE", 1)
    monkeypatch.setattr(separator_states, "CHUNK", 8)
    monkeypatch.setattr(sparse_cliques, "COUNTED", (0, 1 << 36))


@pytest.mark.parametrize("share", [1, 2])
@pytest.mark.parametrize("seed", range(20))
def test_tables_of_possible_states_alone_have_the_marginals_of_enumeration(monkeypatch, seed, share):
    """With a share of 2 some cliques are whole and some are not, and they tell each other."""
    few_columns(monkeypatch)
    monkeypatch.setattr(separator_states, "SHARE", share)
    given = sparse_network(seed)
    agree(infer(given), infer(given, "enumerate"))


@pytest.mark.parametrize("seed", range(8))
def test_the_possible_states_of_a_separator_are_those_of_enumeration(monkeypatch, seed):
    few_columns(monkeypatch)
    given = possible_states.remove_impossible_states(sparse_network(seed)).network
    tree = junction_tree.build_clique_tree(given, cliques.search_elimination_orders(given, 0, 2).order)
    joint = enumeration.compute_log_joint(given) > -np.inf
    axis = {int(i): k for k, i in enumerate(np.flatnonzero(given.cardinality > 1))}
    for scope, found in zip(tree.scopes, sparse_cliques.find_possible_columns(given, tree), strict=True):
        kept = [axis[i] for i in scope[1:]]
        here = joint.any(axis=tuple(k for k in range(joint.ndim) if k not in kept))
        here = here.transpose([sorted(kept).index(k) for k in kept])
        if given.table.all():
            assert found is None
            continue
        assert np.array_equal(found.all(), np.flatnonzero(here))
        assert found.count == here.sum()


def test_possible_states_in_files_stretches_threads_and_logarithms(monkeypatch):
    """Parity checks: each third bit is the sum of the two before it, and noise on all."""
    few_columns(monkeypatch)
    random = np.random.default_rng(2)
    parity = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    checks = [(tuple(random.choice(24, 3, replace=False).tolist()), parity) for _ in range(14)]
    for scale in (1.0, 200.0):
        noise = [((i,), np.exp(scale * random.standard_normal(2))) for i in range(24)]
        given = network.build_network([2] * 24, [*checks, *noise])
        tree = junction_tree.build_clique_tree(given, cliques.search_elimination_orders(given, 0, 2).order)
        among = sparse_cliques.find_possible_columns(given, tree)
        plan, fewest = (
            message_storage.single_stretch_schedule(tree, given, among),
            message_storage.least_memory_schedule(tree, given, among),
        )
        found = streamed_propagation.propagate(given, tree, plan, possible_columns=among)
        dense = streamed_propagation.propagate(given, tree, plan)
        assert abs(found.log_z - dense.log_z) < 1e-12 * abs(dense.log_z)
        assert max(np.abs(p - q).max() for p, q in zip(found.nodes, dense.nodes, strict=True)) < 1e-12
        same(streamed_propagation.propagate(given, tree, fewest, possible_columns=among, messages=ArraysFile()), found)
        with ThreadPoolExecutor(2) as pool:
            same(streamed_propagation.propagate(given, tree, plan, possible_columns=among, map=pool.map), found)


def test_ranks_of_columns():
    random = np.random.default_rng(0)
    for size in (1, 63, 64, 65, 1000):
        truth = random.random(size) < 0.3
        found = separator_states.pack_columns(truth)
        assert (found.size, found.count) == (size, truth.sum())
        assert np.array_equal(separator_states.unpack_columns(found, [size]), truth)
        rank, possible = found.rank_columns(np.arange(size))
        assert np.array_equal(possible, truth)
        assert np.array_equal(rank[truth], np.arange(truth.sum()))
        pieces = list(found.column_chunks())
        assert np.array_equal(np.concatenate([column for _, column in pieces] or [[]]), np.flatnonzero(truth))


def test_a_tree_that_zeros_make_small_is_counted_before_it_is_refused(monkeypatch):
    """A ring of copies among 8 states: of each message an eighth at most is possible, and it is told with its size."""
    monkeypatch.setattr(sparse_cliques, "COUNTED", (0, 1 << 36))
    near = (np.abs(np.subtract.outer(np.arange(64), np.arange(64))) <= 1).astype(float)
    given = network.build_network([64] * 6, [((i, (i + 1) % 6), near) for i in range(6)])
    method = algorithms.make_inference_method(given, InferenceSettings())
    state = iterate.run_steps(method.step, method.init(), until=method.done)
    size, what = method.bytes_needed(state)
    whole = 8 * message_storage.single_stretch_schedule(method.tree(state), given).most
    assert what.endswith("table cells without those that zeros leave empty,")
    tables = size - 8 * 3 * 64**3
    assert tables < whole / 2
    agree(infer(given), infer(given, message_passing="shafer-shenoy"))


def test_the_ends_of_orders_are_eliminated_again_where_trees_are_large(monkeypatch):
    whole = random_networks.generate_random_network("random", nodes=40, degree=6.0, seed=1)

    def found(given, worth):
        monkeypatch.setattr(elimination, "WORTH_IT", worth)
        graph = elimination.moral_graph(given)
        return iterate.run_steps(
            lambda state: elimination.try_more_orders(given, graph, 0, state), elimination.initial_order_search(given), steps=12
        )

    plain, late = found(whole, math.inf), found(whole, 0)
    assert late.cost < plain.cost
    for state in (plain, late):
        assert sorted(state.order.tolist()) == list(range(40))
        sizes = [2.0 ** len(scope) for scope in junction_tree.build_clique_tree(whole, state.order).scopes]
        assert (sum(sizes), max(sizes)) == (state.cells, state.largest)
    under = found(network.condition_network(whole, dict.fromkeys(range(6), 0)), 0)
    assert under.whole == late.cost
    assert under.cost <= late.cost
