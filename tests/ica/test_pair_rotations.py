"""Outputs that are each half of two sources are turned by 45°; outputs that are sources, or cannot be told apart, are left alone."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.ica import pair_rotations, stochastic_learning
from herdcli.ica.filters.amari_distance import amari_distance
from herdcli.ica.problem import LearningProblem, LearningSettings

N = 20_000
RANDOM = np.random.default_rng(0)
TIME = np.arange(N)
SOURCES = np.stack([RANDOM.laplace(size=N), 2.0 * ((0.00731 * TIME) % 1) - 1.0, RANDOM.laplace(size=N) ** 3, np.sin(0.031 * TIME)])
SOURCES -= SOURCES.mean(axis=1, keepdims=True)
HALF = np.sqrt(0.5)


def halves(pairs):
    """A rotation that mixes pairs of sources half and half."""
    R = np.eye(4)
    for i, j in pairs:
        R[np.ix_([i, j], [i, j])] = HALF * np.array([[1, 1], [1, -1]])
    return R


def whitened():
    values, vectors = np.linalg.eigh(SOURCES @ SOURCES.T / N)
    return vectors / np.sqrt(values) @ vectors.T @ SOURCES  # ZCA, which hardly moves sources that are nearly uncorrelated


@pytest.mark.parametrize("pairs", [[(1, 0)], [(1, 0), (3, 2)], [(3, 1)], [(2, 0)]])
def test_halves_are_found_and_turned_back(pairs):
    J = halves(pairs) * np.array([[2.0], [0.5], [1.0], [3.0]])
    u = J @ whitened()
    found = pair_rotations.find_mixed_pairs(u)
    assert sorted(tuple(sorted(pair)) for pair in found) == sorted(tuple(sorted(pair)) for pair in pairs)
    deviation = u.std(axis=1)
    pair_rotations.rotate_pairs(J, found, deviation)
    assert amari_distance(J) < 1e-9
    np.testing.assert_allclose((J @ whitened()).std(axis=1), deviation, rtol=1e-6)


@pytest.mark.parametrize("sources", [whitened(), RANDOM.standard_normal((4, N))], ids=["sources", "noise"])
def test_outputs_that_no_turn_makes_likelier_are_left_alone(sources):
    assert pair_rotations.find_mixed_pairs(sources) == []


def test_infomax_turns_halves_before_its_last_rate():
    """Rates are too small to do it by themselves; with one rate for all updates there is no such look."""
    Z = whitened().T.copy()

    def ends(*rates):
        algorithm = stochastic_learning.StochasticGradient(
            LearningProblem(Z, LearningSettings(density="auto", rates=rates, batch_size=400))
        )
        begun = algorithm.init()
        begun.J[...] = halves([(1, 0), (3, 2)])
        return run_algorithm(algorithm, begun)

    turned, left = ends((1e-6, 2), (1e-6, 3)), ends((1e-6, 5))
    assert amari_distance(turned.J) < 0.05  # deviations are of every second row
    assert sorted(turned.more["experts"]) == ["bimodal", "bimodal", "laplace", "laplace"]
    assert amari_distance(left.J) > 3.0
    assert amari_distance(ends((1e-6, 2), (1e-6, 1)).J) < 0.05
