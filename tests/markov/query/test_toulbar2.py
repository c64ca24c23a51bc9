"""Likeliest states by toulbar2: its costs, and where it is installed its answers beside a loop over all states."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

from herdcli.errors import BadUsage
from herdcli.markov.model import network, random_networks
from herdcli.markov.query import toulbar2


def test_costs_are_logarithms_less_the_least():
    given = network.build_network(
        [2, 3], [((0,), np.array([2.0, 8.0])), ((0, 1), np.array([[1, 0, 2], [4, 1, 1]])), ((1,), np.full(3, 5.0))]
    )
    parts, shift = toulbar2.make_cost_tables(given)
    assert [part.scope for part in parts] == [(0,), (0, 1)]
    np.testing.assert_allclose(parts[0].values, [np.log(4), 0.0])
    np.testing.assert_allclose(parts[1].values, [np.log(4), np.inf, np.log(2), 0.0, np.log(4), np.log(4)])
    assert shift == pytest.approx(-np.log(8 * 4 * 5))


@pytest.mark.parametrize(("largest", "decimals"), [(0.5, 9), (1e5, 9), (1e8, 7), (1e15, 0), (1e20, 0)])
def test_decimals_leave_the_sum_of_costs_an_integer_of_fifteen_digits(largest, decimals):
    assert toulbar2.cost_decimals([toulbar2.CostTable((0,), [0.0, largest / 2, np.inf])] * 2) == decimals


def test_without_the_solver_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytoulbar2", None)
    with pytest.raises(BadUsage, match="--solver toulbar2 needs pytoulbar2, which is not installed") as caught:
        toulbar2.load_solver()
    assert caught.value.hint == "pip install 'herdcli[toulbar2]'"


@pytest.mark.parametrize("seed", range(6))
def test_its_states_are_the_likeliest(seed):
    pytest.importorskip("pytoulbar2")
    rng = np.random.default_rng(seed)
    states = rng.integers(1, 4, 6).tolist()
    factors = []
    for _ in range(9):
        scope = tuple(rng.permutation(6)[: int(rng.integers(1, 5))].tolist())
        table = np.exp(2 * rng.normal(size=[states[i] for i in scope])) * (rng.random([states[i] for i in scope]) > 0.1)
        table.flat[0] = 1.0
        factors.append((scope, table))
    given = network.condition_network(network.build_network(states, factors), {0: 0})
    values = {x: sum(np.log(table[tuple(x[i] for i in scope)]) for scope, table in given.factors())
              for x in itertools.product(*map(range, given.cardinality.tolist()))}  # fmt: skip
    best = max(values, key=values.get)
    found = toulbar2.solve_most_probable(given)
    assert found.exact
    assert found.value == found.bound == pytest.approx(values[best], rel=1e-9)
    assert values[tuple(found.states.get(i, 0) for i in range(6))] == pytest.approx(values[best], rel=1e-9)


def test_of_a_lattice_it_proves_what_elimination_has():
    pytest.importorskip("pytoulbar2")
    from herdcli.algorithm import run_algorithm
    from herdcli.markov.exact.collect_pass import EliminationPassPlan
    from herdcli.markov.query import exact_queries

    given = random_networks.generate_random_network("grid", rows=8, columns=8, sigma_w=2.0, seed=3)
    search = exact_queries.make_order_search(given, 8, 0, maximised=range(given.count))
    order = run_algorithm(search)
    theirs = run_algorithm(
        exact_queries.MostProbableStatesAlgorithm(
            EliminationPassPlan(search.trimmed, order.order.tolist(), range(given.count), (), 1 << 30), map
        )
    )
    ours = toulbar2.solve_most_probable(given)
    assert ours.exact
    assert ours.value == pytest.approx(theirs.value, rel=1e-12)
