"""Standardised, averaged and aligned energies by hand."""

from __future__ import annotations

import numpy as np

from herdcli.numerics import scores


def test_standardise_gives_training_rows_mean_0_and_population_variance_1():
    training = np.array([[1, 10], [3, 30], [5, 80]], dtype=np.int64)
    result = scores.standardise_energies(training, training)
    np.testing.assert_allclose(result.mean(axis=0), 0, atol=1e-15)
    np.testing.assert_allclose((result**2).mean(axis=0), 1)
    np.testing.assert_allclose(scores.standardise_energies(np.array([[7, 40]]), training), [[4 / np.sqrt(8 / 3), 0]])


def test_standardise_only_centres_what_does_not_vary():
    np.testing.assert_array_equal(scores.standardise_energies(np.array([5.0, 7.0]), np.array([5.0, 5.0])), [0.0, 2.0])


def test_accumulate_averages_what_each_iteration_standardised():
    random = np.random.default_rng(0)
    energies, training = random.normal(size=(4, 6)), random.normal(size=(4, 9))
    total = np.zeros(6)
    for energy, own in zip(energies, training, strict=True):
        scores.add_standardised_energies(total, energy, own)
    expected = np.mean([(e - t.mean()) / t.std() for e, t in zip(energies, training, strict=True)], axis=0)
    np.testing.assert_allclose(total / 4, expected)


def test_align_undoes_constants_between_two_fits():
    random = np.random.default_rng(0)
    energy, reference, constant = random.normal(size=(20, 3)), random.normal(size=(7, 3)), np.array([100.0, -3.0, 0.5])
    np.testing.assert_allclose(scores.align_energies(energy + constant, reference + constant, reference), energy)
