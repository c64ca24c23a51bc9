"""Curvature of the Bethe free energy: linear response against enumeration on trees and finite differences on loops."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage, DataError
from herdcli.markov import algorithms
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, random_networks


def infer(given, algorithm, **settings):
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm, **settings))
    return run_algorithm(method)


def means(found):
    return np.array([np.arange(len(p)) @ p for p in found.nodes])


def exact_covariance(given):
    joint = np.exp(sum(np.log(table).reshape([n if i in scope else 1 for i, n in enumerate(given.cardinality)])
                       for scope, table in given.factors()))  # fmt: skip
    joint = joint / joint.sum()
    x = np.array(list(np.ndindex(*given.cardinality)))
    p = joint.ravel()
    mean = p @ x
    return (x - mean).T @ (p[:, None] * (x - mean))


def three_states(seed: int):
    """A tree with a factor of three variables, with two to four states."""
    random = np.random.default_rng(seed)
    cardinality = [2, 3, 4, 2, 3]
    scopes = [(0, 1), (1, 2), (2, 3, 4), (1,)]
    return network.build_network(cardinality, [(scope, 0.1 + random.random([cardinality[i] for i in scope])) for scope in scopes])


@pytest.mark.parametrize("algorithm", ["bp", "ups"])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_exact_on_trees(algorithm, seed):
    given = three_states(seed)
    found = infer(given, algorithm, tolerance=1e-13, linear_response=True).attributes["covariance"]
    assert np.allclose(found, exact_covariance(given), atol=1e-10)


def loopy(kind: str, tilt: np.ndarray):
    """A lattice of two states, or a ring of three with a factor of three variables; log-potentials tilted by x·tilt."""
    if kind == "lattice":
        made = random_networks.generate_random_network("grid", rows=3, columns=3, sigma_w=1.0, seed=1)
    else:
        random = np.random.default_rng(4)
        scopes = [(0, 1), (1, 2), (2, 3), (0, 3), (1, 3, 4)]
        made = network.build_network([3] * 5, [(scope, np.exp(0.7 * random.standard_normal([3] * len(scope)))) for scope in scopes])
    extra = [((i,), np.exp(np.arange(n) * t)) for i, (n, t) in enumerate(zip(made.cardinality.tolist(), tilt, strict=True))]
    return network.build_network(made.cardinality, [*made.factors(), *extra])


@pytest.mark.parametrize("algorithm", ["bp", "ups"])
@pytest.mark.parametrize("kind", ["lattice", "ring"])
def test_it_is_the_derivative_of_the_means(algorithm, kind):
    count = 9 if kind == "lattice" else 5
    found = infer(loopy(kind, np.zeros(count)), algorithm, tolerance=1e-13, linear_response=True).attributes["covariance"]
    for j in range(count):
        step = 1e-4 * np.eye(count)[j]
        up, down = (means(infer(loopy(kind, sign * step), algorithm, tolerance=1e-13)) for sign in (1, -1))
        assert np.allclose(found[:, j], (up - down) / 2e-4, atol=1e-7)
    assert np.abs(found - np.diag(np.diag(found))).max() > 1e-2


def test_what_is_held_or_observed_has_none():
    given = network.condition_network(three_states(0), {1: 2})
    found = infer(given, "bp", tolerance=1e-13, linear_response=True).attributes["covariance"]
    assert np.allclose(found, exact_covariance(given), atol=1e-10)
    observed = network.with_observed_marginals(three_states(0), {1: np.array([0.2, 0.3, 0.5])})
    found = infer(observed, "ups", tolerance=1e-13, linear_response=True).attributes["covariance"]
    assert not found[1].any()
    assert found[2, 3] == found[3, 2] != 0
    assert abs(found[0, 2]) < 1e-15  # apart from each other once x1 is fixed


def test_where_it_cannot_be_had():
    copy = network.build_network([2, 2, 2], [((0, 1), np.eye(2)), ((1, 2), np.array([[1.0, 2.0], [2.0, 1.0]]))])
    with pytest.raises(
        DataError, match="the linear response does not exist, because zeros of the factors make some variables determine others"
    ):
        infer(copy, "bp", linear_response=True)
    with pytest.raises(BadUsage, match="--linear-response does not work with --schedule checkerboard"):
        infer(random_networks.generate_random_network("grid"), "bp", schedule="checkerboard", linear_response=True)
