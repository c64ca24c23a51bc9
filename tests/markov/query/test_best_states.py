"""Likeliest states by search under mini-buckets: against enumeration, with zeros, and stopped early."""

from __future__ import annotations

import math

import numpy as np
import pytest
from small_networks import random_network, weights

from herdcli import iterate
from herdcli.algorithm import run_algorithm
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import random_networks
from herdcli.markov.model.restricted_states import restrict_to_states
from herdcli.markov.query import best_states, mini_bucket
from herdcli.markov.query.exact_queries import find_most_probable_states, make_order_search
from herdcli.markov.query.log_tables import elimination_positions, factor_log_tables, state_log_value
from herdcli.markov.query.max_product import MaxProduct


def optimum(given):
    """The log value of the likeliest states, by elimination."""
    every = list(range(given.count))
    return find_most_probable_states(given, run_algorithm(make_order_search(given, 4, 0, maximised=every)).order.tolist(), every).value


def prepared(given, effort, limit, sweeps=20):
    """The search after some sweeps of max-product."""
    work = MaxProduct(given, InferenceSettings(iterations=sweeps), 0)
    state = iterate.run_steps(work.step, work.init(), until=work.done)
    return (
        work,
        state,
        best_states.BestFirstSearch(
            work.inner.network, work.order.tolist(), work.reparametrised_tables(state), state.states, effort, limit
        ),
    )


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_best_of_all_states_is_found_under_the_smallest_mini_buckets(seed, zeros):
    """Factors of up to four variables; the bound is the value once nothing is open."""
    given = random_network(seed, zeros)
    work, _, found = prepared(given, 1e7, 24 * 64)
    x, value, upper = run_algorithm(found)
    assert value == upper
    assert value + work.inner.constant == pytest.approx(math.log(max(weights(given).values())), abs=1e-9)
    restored = work.inner.original_states(dict(enumerate(x.tolist())))
    assert state_log_value(given, [restored[i] for i in range(given.count)]) == pytest.approx(value + work.inner.constant, abs=1e-9)


def test_reparametrised_tables_have_the_same_sum():
    given = random_networks.generate_random_network("grid", rows=4, columns=4, sigma_w=3.0, sigma_b=1.0, seed=1)
    work, state, _ = prepared(given, 1e6, 1 << 20)
    for seed in range(5):
        x = np.random.default_rng(seed).integers(0, 2, 16)
        told = sum(float(table.logs[tuple(x[list(table.scope)])]) for table in work.reparametrised_tables(state))
        assert told == pytest.approx(work.search.value(x), abs=1e-9)


@pytest.mark.parametrize(("effort", "better", "proved"), [(0.0, False, False), (1e6, True, False), (1e7, True, True)])
def test_a_search_that_is_stopped_encloses_the_optimum(effort, better, proved):
    """From states that are poor, so that it is the search that finds others."""
    given = random_networks.generate_random_network("grid", rows=6, columns=6, sigma_w=5.0, sigma_b=1.0, seed=2)
    work, state, found = prepared(given, effort, 24 * 300, sweeps=5)
    found.begin = np.zeros_like(state.states)
    begun = work.search.value(found.begin)
    _, value, upper = run_algorithm(found)
    best = optimum(given) - work.inner.constant
    assert (begun < value) == better
    assert (value == upper) == proved
    assert value <= best + 1e-9
    assert best - 1e-9 <= upper


def test_mini_buckets_are_as_large_as_they_may_be_together():
    given = random_networks.generate_random_network("grid", rows=6, columns=6, sigma_w=1.0, sigma_b=1.0, seed=0)
    order = list(range(36))
    found = factor_log_tables(given, elimination_positions(given, order))
    cells = best_states.largest_affordable_bucket(given, order, found, 1000)
    assert (
        mini_bucket.count_mini_bucket_cells(given, order, found, cells)
        <= 1000
        < mini_bucket.count_mini_bucket_cells(given, order, found, 2 * cells)
    )
    made = mini_bucket.eliminate_log_tables(given, order, found, frozenset(order), cells)
    assert sum(part.logs.size for _, parts in made.parts for part in parts) == mini_bucket.count_mini_bucket_cells(
        given, order, found, cells
    )
    assert math.isfinite(made.bound)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_states_that_the_bound_closes_are_in_no_better_assignment(seed, zeros):
    """Every assignment at least as good as the best one found has open states alone, and elimination of what is open gives the optimum."""
    given = random_network(seed, zeros)
    work = MaxProduct(given, InferenceSettings(iterations=30), 0)
    state = iterate.run_steps(work.step, work.init(), until=work.done)
    kept = work.possibly_better_states(state)
    assert all(state.states[i] in part for i, part in enumerate(kept))
    small = work.inner.network
    for x in np.ndindex(*small.cardinality.tolist()):
        if state_log_value(small, x) > state.value + 1e-6:
            assert all(x[i] in part for i, part in enumerate(kept))
    left = restrict_to_states(small, kept)
    assert optimum(left.network) + left.constant == pytest.approx(optimum(small), abs=1e-9)


def test_of_a_lattice_with_weak_couplings_little_is_left_open():
    given = random_networks.generate_random_network("grid", rows=12, columns=12, sigma_w=1.0, seed=0)
    work = MaxProduct(given, InferenceSettings(iterations=200), 20)
    state = iterate.run_steps(work.step, work.init(), until=work.done)
    kept = work.possibly_better_states(state)
    assert sum(len(part) > 1 for part in kept) < 72
    left = restrict_to_states(work.inner.network, kept)
    assert optimum(left.network) + left.constant == pytest.approx(optimum(work.inner.network), abs=1e-9)


def test_a_search_with_patience_ends_after_as_many_steps_without_anything_better():
    given = random_networks.generate_random_network("grid", rows=16, columns=16, sigma_w=5.0, seed=1)
    work = MaxProduct(given, InferenceSettings(iterations=5), 60, patience=3)
    state, values = work.init(), []
    while not work.done(state):
        state = work.step(state)
        if state.step > 5:
            values.append(state.value)
    assert len(values) < 60
    assert values[-4] == values[-1]
    assert state.idle == 3
    assert MaxProduct(given, InferenceSettings(iterations=5), 60).patience is None
