"""Zeros: which states they leave possible, and UPS where propagation finds no start."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import NegativeResult
from herdcli.markov import algorithms
from herdcli.markov.exact import enumeration
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, possible_states


def pedigree(seed):
    """Two founders' four alleles, children who inherit by selectors along the chromosome, and phenotypes of some persons."""
    random = np.random.default_rng(seed)
    select, seen = np.zeros((2, 2, 2, 2)), np.zeros((2, 2, 2))
    for s, a, b in np.ndindex(2, 2, 2):
        select[s, a, b, (a, b)[s]] = 1
        seen[a, b, a | b] = 1
    factors, cardinality, evidence = [], [], {}

    def new():
        cardinality.append(2)
        return len(cardinality) - 1

    before = None
    for _ in range(2):
        founders = [new() for _ in range(4)]
        factors.extend(((i,), random.dirichlet([1, 1])) for i in founders)
        chosen = []
        for _ in range(2):
            alleles = []
            for parent in (founders[:2], founders[2:]):
                s, x = new(), new()
                chosen.append(s)
                factors.append(((s, *parent, x), select))
                alleles.append(x)
            look = new()
            factors.append(((*alleles, look), seen))
            evidence[look] = int(random.integers(0, 2))
        for pair in (founders[:2], founders[2:]):
            look = new()
            factors.append(((*pair, look), seen))
            evidence[look] = 1
        if before is not None:
            factors.extend(((a, b), np.array([[0.9, 0.1], [0.1, 0.9]])) for a, b in zip(before, chosen, strict=True))
        before = chosen
    return network.condition_network(network.build_network(cardinality, factors), evidence)


@pytest.mark.parametrize("seed", range(6))
def test_states_that_go_have_probability_zero(seed):
    random = np.random.default_rng(seed)
    cardinality = random.integers(2, 4, 7)
    factors = []
    for _ in range(8):
        scope = tuple(random.choice(7, random.integers(1, 4), replace=False).tolist())
        table = random.random(cardinality[list(scope)]) * (random.random(cardinality[list(scope)]) < 0.6)
        table.flat[0] = 1.0
        factors.append((scope, table))
    given = network.build_network(cardinality, factors)
    kept, joint = possible_states.find_possible_states(given), enumeration.initial_joint(given).joint
    for i, stays in enumerate(kept):
        p = enumeration.marginal_of_joint(given, joint, (i,))
        assert not p[~stays].any()


def test_on_trees_all_that_stays_is_possible():
    tables = [np.array([[1.0, 0, 0], [0, 1, 1], [0, 0, 1]]), np.array([[0.0, 1, 1], [1, 0, 0], [0, 0, 1]])]
    given = network.condition_network(
        network.build_network([3, 3, 3, 3], [((0, 1), tables[0]), ((1, 2), tables[1]), ((2, 3), tables[0].T)]), {3: 0}
    )
    joint = enumeration.initial_joint(given).joint
    for i, stays in enumerate(possible_states.find_possible_states(given)):
        assert np.array_equal(stays, enumeration.marginal_of_joint(given, joint, (i,)) > 0)


def test_zeros_that_leave_a_variable_nothing_are_told_before_any_message():
    given = network.build_network(
        [2] * 3, [((0, 1), np.eye(2)), ((1, 2), np.eye(2)), ((0,), np.array([1.0, 0])), ((2,), np.array([0, 1.0]))]
    )
    for algorithm in ("bp", "ups"):
        with pytest.raises(
            NegativeResult, match=r"every joint state has probability 0: zeros of the factors, or the evidence, exclude all states of x."
        ):
            algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm))


def test_ups_begins_where_zeros_allow_on_a_pedigree(monkeypatch):
    """log Z by enumeration; propagation loses every state to zeros and small values, so its marginals cannot be held."""
    given = pedigree(7)
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm="junction-tree"))
    exact = run_algorithm(method)
    assert exact.attributes["log_z"] == pytest.approx(-5.278966554233661, abs=1e-9)
    monkeypatch.setattr("herdcli.markov.bethe.ups.INNER_SWEEPS", 300)
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm="ups", tolerance=1e-3))
    state = method.init()
    state = method.step(state)
    state = method.step(state)
    assert np.isfinite(state.free_energy).all()
    assert state.free_energy[1] <= state.free_energy[0] + 1e-3
    for p, q, stays in zip(method.result(state).nodes, exact.nodes, possible_states.find_possible_states(given), strict=True):
        assert not p[~stays].any()
        assert np.abs(p - q).max() < 0.5
