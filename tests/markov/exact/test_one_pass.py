"""Sums, maxima and tables by one pass, and rows of evidence at once: against loops over all states; with other slabs, places, threads."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from small_networks import random_network, summed, weights

from herdcli.algorithm import run_algorithm
from herdcli.artifacts.rows.arrays_file import ArraysFile
from herdcli.errors import NegativeResult
from herdcli.markov import algorithms
from herdcli.markov.exact import (
    collect_pass,
    junction_tree,
    message_storage,
    row_propagation,
    separator_states,
    sparse_cliques,
    streamed_propagation,
    table_arithmetic,
)
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, random_networks
from herdcli.markov.query import exact_queries

ASKED = [1, 3, 5]


def few_columns(monkeypatch):
    """Messages hold possible states alone wherever there are zeros."""
    for where in (separator_states, sparse_cliques):
        monkeypatch.setattr(where, "LEAST", 1)
    monkeypatch.setattr(separator_states, "SHARE", 1)
    monkeypatch.setattr(separator_states, "CHUNK", 8)
    monkeypatch.setattr(sparse_cliques, "COUNTED", (0, 1 << 36))


def answers(given):
    """log Z, the likeliest state, marginal MAP and a joint table, and what of them is in files and threads."""
    everything = range(given.count)
    for asked in ({}, {"maximised": everything}, {"maximised": ASKED}, {"remaining_variables": ASKED}):
        order = run_algorithm(exact_queries.make_order_search(given, 4, 0, **asked)).order.tolist()
        yield collect_pass.plan_elimination_pass(given, order, **asked)


@pytest.mark.parametrize("seed", range(12))
def test_possible_columns_alone_have_the_maxima_and_sums_of_a_loop(monkeypatch, seed):
    few_columns(monkeypatch)
    given = random_network(seed, True, 8)
    truth = weights(given)
    total, best, climb, table = (work.run_elimination() for work in answers(given))
    assert total.value == pytest.approx(math.log(sum(truth.values())), abs=1e-12)
    assert best.value == pytest.approx(math.log(max(truth.values())), abs=1e-12)
    assert truth[tuple(best.states[i] for i in range(given.count))] == pytest.approx(max(truth.values()), rel=1e-12)
    some = summed(given, ASKED)
    assert some[tuple(climb.states[i] for i in ASKED)] == pytest.approx(max(some.values()), rel=1e-12)
    assert table.rest.shape == tuple(given.cardinality[ASKED])
    for x, value in some.items():
        assert table.rest[x] * math.exp(table.value) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("zeros", [False, True])
def test_slabs_files_and_threads_change_no_bit(monkeypatch, zeros):
    if zeros:
        few_columns(monkeypatch)
    given = random_network(3, zeros, 9)
    plain = [work.run_elimination() for work in answers(given)]
    monkeypatch.setattr(table_arithmetic, "SLAB", 8)
    monkeypatch.setattr("herdcli.markov.exact.clique_products.SMALL", 4)
    for work, first in zip(answers(given), plain, strict=True):
        with ThreadPoolExecutor(2) as pool:
            choices, sent = ArraysFile(), ArraysFile()
            found = work.with_message_stores(choices, sent).run_elimination(pool.map)
        assert (found.value, found.states) == (first.value, first.states)
        assert np.array_equal(found.rest, first.rest)
        assert bool(choices.end) == bool(work.maximised)
        assert sent.end > 0 or zeros
        sizes = [size for size, _ in work.storage_plans()]
        assert sizes == sorted(sizes, reverse=True)
        choices.close()
        sent.close()


def test_products_below_every_float_are_maximised_in_logarithms():
    # All pairs are at 1e-200 where they agree and at 1e-190 where they do not: 1e-400 and less at every variable but the ends.
    pair = np.array([[1e-200, 1e-190], [1.0, 1e-200]])
    given = network.build_network([2] * 6, [((i, j), pair) for i in range(6) for j in range(i)])
    truth = {x: sum(math.log(pair[x[i], x[j]]) for i in range(6) for j in range(i)) for x in np.ndindex(*[2] * 6)}
    value = max(truth.values())
    found = exact_queries.find_most_probable_states(given, range(6), range(6))
    assert found.value == pytest.approx(value, rel=1e-14)
    assert truth[tuple(found.states[i] for i in range(6))] == pytest.approx(value, rel=1e-14)
    assert exact_queries.compute_exact_log_z(given, range(6)) == pytest.approx(
        value + math.log(sum(math.exp(t - value) for t in truth.values())), rel=1e-14
    )


def test_of_states_that_are_as_likely_the_first_is_told():
    given = network.build_network([3, 2], [((0,), np.array([1.0, 2.0, 2.0])), ((0, 1), np.ones((3, 2)))])
    assert exact_queries.find_most_probable_states(given, [0, 1], [0, 1]).states == {0: 1, 1: 0}
    top, at = table_arithmetic.max_and_argmax(np.array([[1.0, 5.0], [3.0, 5.0], [3.0, 0.0]]))
    assert (top.tolist(), at.tolist(), at.dtype) == ([3.0, 5.0], [1, 0], np.uint8)
    assert table_arithmetic.max_and_argmax(np.zeros((257, 1)))[1].dtype == np.uint16


def test_what_no_column_is_possible_of_is_a_negative_result(monkeypatch):
    # Even and odd parity of the same five variables: each of them has both states by itself.
    few_columns(monkeypatch)
    parity = np.indices([2] * 5).sum(axis=0) % 2
    given = network.build_network([2] * 5, [(tuple(range(5)), (parity == k).astype(float)) for k in range(2)])
    tree = junction_tree.build_clique_tree(given, np.arange(5))
    among = sparse_cliques.find_possible_columns(given, tree)
    assert among[0].count == 0
    with pytest.raises(NegativeResult, match="every joint state has probability 0"):
        exact_queries.find_most_probable_states(given, range(5), range(5))
    with pytest.raises(NegativeResult, match="every joint state has probability 0"):
        streamed_propagation.propagate(given, tree, message_storage.single_stretch_schedule(tree, given), possible_columns=among)


def test_evidence_does_not_hold_back_the_order_of_the_likeliest_state():
    given = network.condition_network(
        random_networks.generate_random_network("grid", rows=8, columns=8, sigma_w=1.0), dict.fromkeys(range(0, 64, 9), 0)
    )
    free = [i for i in range(64) if i % 9]
    some, every = (run_algorithm(exact_queries.make_order_search(given, 4, 0, maximised=names)) for names in (free, range(64)))
    assert some.cells == every.cells
    assert every.cells == run_algorithm(exact_queries.make_order_search(given, 4, 0)).cells


def test_messages_that_wait_are_fewer_than_those_of_both_passes():
    given = random_networks.generate_random_network("grid", rows=10, columns=10)
    order = run_algorithm(exact_queries.make_order_search(given, 4, 0)).order
    work = collect_pass.plan_elimination_pass(given, order)
    assert work.most * 3 < message_storage.single_stretch_schedule(work.tree, given).most


# Rows of evidence


def held(given, allowed, row):
    """The marginals and log Z of one row by enumeration."""
    factors = [((i,), table[:, row].astype(float)) for i, table in enumerate(allowed)]
    small = network.build_network(given.cardinality, [*given.factors(), *factors])
    return run_algorithm(algorithms.make_inference_method(small, InferenceSettings(algorithm="enumerate")))


def some_rows(given, count, seed=0):
    """What is allowed: a state of some variables, one that is possible, and all of the others."""
    random = np.random.default_rng(seed)
    truth = weights(given)
    states = list(truth)
    weight = np.array([truth[x] for x in states])
    drawn = random.choice(len(states), count, p=weight / weight.sum())
    known = random.random((count, given.count)) < 0.4
    return [
        np.array([[not known[r, i] or states[drawn[r]][i] == x for r in range(count)] for x in range(states_of)])
        for i, states_of in enumerate(given.cardinality.tolist())
    ]


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize(("seed", "zeros"), [(0, False), (1, True), (2, True)])
def test_rows_have_the_marginals_of_each_row_by_itself(seed, zeros, count):
    given = random_network(seed, zeros, 7)
    allowed = some_rows(given, count, seed)
    order = run_algorithm(exact_queries.make_order_search(given, 4, 0)).order
    found = row_propagation.propagate_rows(given, order, allowed)
    whole = row_propagation.propagate_rows(given, order, allowed, factors_instead=True)
    for row in range(count):
        known = held(given, allowed, row)
        assert found.log_z[row] == pytest.approx(known.attributes["log_z"], abs=1e-12)
        for p, q in zip(found.marginals, known.nodes, strict=True):
            assert np.abs(p[:, row] - q).max() < 1e-13
        tables = [p for p, (scope, _) in zip(whole.marginals, given.factors(), strict=True) if scope]
        for p, (_, q) in zip(tables, known.cliques[: len(tables)], strict=True):
            assert np.abs(p[..., row].ravel() - q.ravel()).max() < 1e-13


@pytest.mark.parametrize("power", [1, 40])
def test_rows_may_differ_by_any_factor(power):
    """Of odds of 1e±10 to the power: those of forty are beyond a float64, and all is made in logarithms."""
    odds = np.array([[1.0, 10.0 ** (-5 * min(power, 30))], [10.0 ** (-5 * min(power, 30)), 1.0]])
    given = network.build_network([2] * 8, [((i, j), odds) for i in range(8) for j in range(i)])
    allowed = [np.array([[True, i % 2 == 0, i < 3], [True, i % 2 == 1, i >= 3]]) for i in range(7)] + [np.ones((2, 3), dtype=bool)]
    found = row_propagation.propagate_rows(given, np.arange(8), allowed)
    logs = np.log(odds)
    truth = {x: sum(logs[x[i], x[j]] for i in range(8) for j in range(i)) for x in np.ndindex(*[2] * 8)}
    for row in range(3):
        mine = [v for x, v in truth.items() if all(allowed[i][s, row] for i, s in enumerate(x))]
        top = max(mine)
        assert found.log_z[row] == pytest.approx(top + math.log(sum(math.exp(v - top) for v in mine)), rel=1e-13)
        assert found.marginals[7][:, row].sum() == pytest.approx(1)


def test_the_first_impossible_row_is_named():
    given = network.build_network([2, 2], [((0, 1), np.eye(2))])
    allowed = [np.array([[1, 1, 1], [1, 0, 0]], dtype=bool), np.array([[1, 0, 1], [1, 1, 0]], dtype=bool)]
    with pytest.raises(row_propagation.ImpossibleEvidence, match="the evidence of row 1 has probability 0"):
        row_propagation.propagate_rows(given, np.array([0, 1]), allowed)


def test_finding_what_zeros_leave_empty_is_left_out_where_it_does_not_fit(monkeypatch):
    few_columns(monkeypatch)
    given = random_network(0, True, 8)
    whole = exact_queries.make_order_search(given, 4, 0)
    order = run_algorithm(whole).order.tolist()
    free = collect_pass.EliminationPassPlan(whole.trimmed, order)
    need = sparse_cliques.estimate_possible_columns_bytes(free.network, free.tree)
    assert sum(
        8 * (found.memory_in_float64s - found.count) for found in sparse_cliques.find_possible_columns(free.network, free.tree) if found
    ) <= need + 16 * len(order)
    for limit in (need, need - 1):
        bounded = collect_pass.EliminationPassPlan(whole.trimmed, order, limit=limit)
        assert bounded.has_sparse_messages == (free.has_sparse_messages and limit == need)
        assert bounded.run_elimination().value == pytest.approx(free.run_elimination().value, abs=1e-12)
    assert free.has_sparse_messages
