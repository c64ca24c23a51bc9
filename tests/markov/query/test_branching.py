"""Marginal MAP by branch and bound: what it finds is the best of all states, its bounds hold, and a stopped run says so."""

from __future__ import annotations

import math

import numpy as np
import pytest
from small_networks import random_network, summed

from herdcli.algorithm import run_algorithm
from herdcli.errors import NegativeResult
from herdcli.markov.model import barren_nodes
from herdcli.markov.model.network import build_network
from herdcli.markov.query import marginal_map_search
from herdcli.markov.query.marginal_map_search import BranchAndBound

ASKED = [0, 2, 5]


def search(given, effort=1e9, asked=ASKED):
    return BranchAndBound(given, asked, range(given.count), effort)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("cap", [1.0, 3.0, 17.0])
def test_the_best_of_all_states(monkeypatch, zeros, cap):
    monkeypatch.setattr(marginal_map_search, "CAP", cap)
    monkeypatch.setattr(marginal_map_search, "SMALL", 0)
    opened = 0
    for seed in range(12):
        given = random_network(seed, zeros=zeros)
        truth = summed(given, ASKED)
        found = run_algorithm(search(given))
        opened += found.iterations > 2
        assert found.exact
        assert found.value == found.bound == pytest.approx(math.log(max(truth.values())), abs=1e-9)
        assert truth[tuple(found.states[i] for i in ASKED)] == pytest.approx(max(truth.values()))
    assert opened >= (3 if cap == 1.0 else 0)  # else maxima came last at once


def test_every_bound_on_the_way_holds(monkeypatch):
    monkeypatch.setattr(marginal_map_search, "CAP", 1.0)
    for seed in range(8):
        given = random_network(seed)
        best = math.log(max(summed(given, ASKED).values()))
        algorithm = search(given)
        state, bounds = algorithm.init(), []
        while not algorithm.done(state):
            state = algorithm.step(state)
            assert state.value <= best - algorithm.constant + 1e-9
            bounds.append(max([state.value, *state.bound]) + algorithm.constant)
        assert min(bounds) >= best - 1e-9
        assert max(np.diff(bounds), default=0.0) < 1e-9


def test_a_search_that_is_cut_short_says_so(monkeypatch):
    monkeypatch.setattr(marginal_map_search, "CAP", 1.0)
    cut = 0
    for seed in range(8):
        given = random_network(seed)
        truth = math.log(max(summed(given, ASKED).values()))
        found = run_algorithm(search(given, effort=1.0))
        assert found.value <= truth + 1e-9
        assert found.bound >= truth - 1e-9
        cut += not found.exact
        assert search(given, effort=1.0).is_worthwhile() == found.exact
    assert cut > 3


def test_a_network_of_zeros_is_refused():
    table = np.array([[0.0, 1.0], [1.0, 0.0]])
    given = build_network([2, 2, 2], [((0, 1), table), ((1, 2), table), ((0, 2), table)])
    with pytest.raises(NegativeResult, match="every joint state has probability 0"):
        run_algorithm(search(given, asked=[0]))


def test_what_sums_to_one_goes_and_keeps_its_sum():
    given = build_network([2, 2, 2], [((0, 1), np.array([[0.9, 0.1], [0.3, 0.7]])), ((1, 2), np.array([[1.5, 0.5], [0.25, 1.75]]))])
    small, constant = barren_nodes.remove_barren_nodes(given, frozenset([0]))
    assert small.cardinality.tolist() == [2, 1, 1]
    assert constant == pytest.approx(math.log(2.0))
    assert list(small.factors()) == []
    small, constant = barren_nodes.remove_barren_nodes(given, frozenset([2]))
    assert small.cardinality.tolist() == [2, 2, 2]
    assert constant == 0.0


def test_a_run_goes_on_from_its_states(monkeypatch):
    monkeypatch.setattr(marginal_map_search, "CAP", 1.0)
    stopped = 0
    for seed in range(8):
        given = random_network(seed)
        whole, first = run_algorithm(search(given)), search(given)
        state = first.step(first.init())
        stopped += not first.done(state)
        assert run_algorithm(search(given), state) == whole
    assert stopped > 3
