"""The lower bound of log Z by naive mean field, beside sums over all states."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.markov.mean.mean_field_bound import MOST_CELLS, compute_mean_field_bound
from herdcli.markov.model.network import Network, build_network


def summed(network: Network) -> float:
    """log Z over all states."""
    states = np.indices(network.cardinality).reshape(network.count, -1)
    p = np.ones(states.shape[1])
    for scope, table in network.factors():
        p = p * table[tuple(states[i] for i in scope)]
    return float(np.log(p.sum()))


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_is_below_log_z_and_near_it(seed):
    random = np.random.default_rng(seed)
    cardinality = random.integers(2, 4, 6)
    scopes = [tuple(random.choice(6, random.integers(1, 4), replace=False).tolist()) for _ in range(10)]
    factors = [(scope, np.exp(0.5 * random.normal(size=[cardinality[i] for i in scope]))) for scope in scopes]
    network = build_network(cardinality, factors)
    found, exact = compute_mean_field_bound(network), summed(network)
    assert found is not None
    assert exact - 0.5 < found <= exact + 1e-9


def test_of_independent_variables_it_is_log_z():
    network = build_network([2, 3], [((0,), np.array([1.0, 4.0])), ((1,), np.array([2.0, 0.0, 3.0])), ((), np.array(2.0))])
    assert compute_mean_field_bound(network) == pytest.approx(np.log(2.0 * 5.0 * 5.0), abs=1e-3)


def test_states_of_probability_zero_are_avoided():
    """Two equal bits: a product has to settle for one of the two states."""
    network = build_network([2, 2], [((0, 1), np.array([[1.0, 0.0], [0.0, 3.0]]))])
    found = compute_mean_field_bound(network)
    assert found is not None
    assert found <= summed(network)
    assert found == pytest.approx(np.log(3.0), abs=1e-2)


def test_there_is_none_of_large_networks():
    size = MOST_CELLS // 2 + 1
    assert compute_mean_field_bound(build_network([2] * size, [((i,), np.ones(2)) for i in range(size)])) is None


@pytest.mark.parametrize("seed", range(6))
def test_it_is_at_least_the_log_weight_of_every_single_state(seed):
    """A network of conditional probabilities near 0 and 1, whose uniform start leads to a poor optimum."""
    random = np.random.default_rng(seed)
    rain, sprinkler = np.array([0.2, 0.8]), np.array([[0.01, 0.99], [0.4, 0.6]])
    grass = np.array([[[0.0, 0.1, 0.9], [0.1, 0.3, 0.6]], [[0.1, 0.2, 0.7], [0.9, 0.1, 0.0]]])
    factors = [((0,), rain), ((0, 1), sprinkler), ((0, 1, 2), grass)]
    for i in range(3, 3 + seed):  # further variables, each almost determined by an earlier one and by rain
        factors.append(((0, i - 2, i), np.exp(8.0 * random.normal(size=(2, 3 if i == 4 else 2, 2)))))
    cardinality = [2, 2, 3] + [2] * seed
    network = build_network(cardinality, factors)
    states = np.indices(network.cardinality).reshape(network.count, -1)
    with np.errstate(divide="ignore"):
        logs = sum(np.log(table[tuple(states[i] for i in scope)]) for scope, table in network.factors())
    found = compute_mean_field_bound(network)
    assert logs.max() - 1e-9 <= found <= summed(network) + 1e-9
