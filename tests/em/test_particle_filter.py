"""Particle filters and smoothers beside the exact recursions of a linear system, and of a chain with two states by enumeration."""

from __future__ import annotations

import importlib
from itertools import product

import numpy as np
import pytest
from linear_dynamics import draw, system

from herdcli.em.sequence.kalman import filter_sequences, smooth_sequences
from herdcli.em.sequence.particle_filter import (
    DiscreteChainModel,
    LinearGaussianModel,
    bootstrap_filter,
    estimate_state_probabilities,
    filter_and_smooth,
    smooth_particles,
    systematic_resampling,
)


def script():
    return importlib.import_module("bench.tables.lds")


def test_errors_fall_with_the_root_of_the_number_of_particles():
    """Both within −½ ± 0.1; `scripts/bench/tables/lds.py particles` has the figures of more particles."""
    counts = (60, 240)
    found = script().errors(counts, repetitions=200, steps=5)
    for row in found:
        assert np.polyfit(np.log(counts), np.log(row), 1)[0] == pytest.approx(-0.5, abs=0.1)


def test_moments_and_evidence_are_near_those_of_kalman():
    p = system(2, 3, 1)
    random = np.random.default_rng(0)
    U = random.standard_normal((12, 1))
    Y = draw(p, 12, random, U)
    Y[4, 1], Y[7] = np.nan, np.nan
    exact = filter_sequences(p, Y, np.array([0, 12]), U)
    after = smooth_sequences(p, exact, np.array([0, 12]))
    model = LinearGaussianModel(p, Y, U)
    for smoothed, mean, covariance in ((False, exact.mean, exact.covariance), (True, after.mean, after.covariance)):
        told = filter_and_smooth(model, 2000, 0, smooth=smoothed)
        scale = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        np.testing.assert_allclose((told.mean - mean) / scale, 0.0, atol=0.2)
        np.testing.assert_allclose(told.deviation / scale, 1.0, atol=0.15)
        assert told.log_likelihood == pytest.approx(exact.log_likelihood.sum(), abs=0.3)
        assert (told.effective >= 1).all()
        assert (told.effective <= 2000 + 1e-6).all()
    assert filter_and_smooth(model, 2000, 0, smooth=False).effective[7] == pytest.approx(2000)  # nothing was seen: all weigh the same


def test_evidence_is_without_bias():
    p, Y = system(1, 1), np.array([[0.5], [-1.0], [0.3]])
    exact = filter_sequences(p, Y, np.array([0, 3])).log_likelihood.sum()
    ratios = [np.exp(bootstrap_filter(LinearGaussianModel(p, Y), 50, 0, unit).log_likelihood - exact) for unit in range(400)]
    assert np.mean(ratios) == pytest.approx(1.0, abs=4 * np.std(ratios) / 20)


@pytest.mark.parametrize("u", [0.0, 0.37, 0.999])
def test_systematic_resampling_is_within_one_of_expectation(u):
    weight = np.array([0.5, 0.0, 0.26, 0.24])
    drawn = np.bincount(systematic_resampling(np.repeat(weight, 5) / 5, u), minlength=20)
    expected = 20 * np.repeat(weight, 5) / 5
    assert (np.abs(drawn - expected) < 1).all()
    assert drawn.sum() == 20


def test_a_chain_by_enumeration():
    random = np.random.default_rng(1)
    emit = random.uniform(0.1, 1.0, (5, 2))
    model = DiscreteChainModel(np.array([0.3, 0.7]), np.array([[0.8, 0.2], [0.4, 0.6]]), np.log(emit))
    paths = np.array(list(product((0, 1), repeat=5)))
    joint = model.initial[paths[:, 0]] * emit[np.arange(5), paths].prod(axis=1) * model.move[paths[:, :-1], paths[:, 1:]].prod(axis=1)
    found, cloud = estimate_state_probabilities(model, 1500, 0)
    np.testing.assert_allclose(found[:, 1], joint @ paths / joint.sum(), atol=0.05)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert cloud.log_likelihood == pytest.approx(np.log(joint.sum()), abs=0.06)


def test_rows_that_no_particle_emits_are_told_by_the_evidence():
    model = DiscreteChainModel(np.array([1.0, 0.0]), np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[0.0, 0.0], [-np.inf, 0.0], [0.0, 0.0]]))
    cloud = smooth_particles(model, bootstrap_filter(model, 10, 0))
    assert cloud.log_likelihood == -np.inf
    assert np.isfinite(cloud.weight).all()
