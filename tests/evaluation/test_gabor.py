"""Gabor fits: parameters that are known are found again, and no optimiser started there finds a better place."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from scipy.optimize import least_squares

from herdcli.evaluation.plots import gabor


def known(count: int, seed: int = 0) -> gabor.GaborParameters:
    """Functions inside pictures of 12×16."""
    random = np.random.default_rng(seed)
    ranges = [(3, 12), (3, 9), (1.0, 3.0), (1.0, 3.5), (0, np.pi), (0.08, 0.3), (0.5, 3), (-np.pi, np.pi), (1, 1)]
    return gabor.GaborParameters(*(random.uniform(low, high, count) for low, high in ranges))


def test_known_parameters_are_found_again():
    wanted = known(40)
    found = gabor.fit_gabors(gabor.gabor_images(wanted, 12, 16))
    assert found.r2.min() > 1 - 1e-9
    for name in ("x", "y", "sigma", "tau", "frequency", "amplitude"):
        assert np.allclose(getattr(found, name), getattr(wanted, name), atol=1e-4), name
    turned = np.exp(2j * (found.theta - wanted.theta))  # θ and θ + π are one direction
    assert np.allclose(turned, 1, atol=1e-4)
    same = np.cos(found.theta - wanted.theta)  # the phase changes its sign with the direction
    assert np.allclose(np.exp(1j * np.where(same > 0, found.phase, -found.phase)), np.exp(1j * wanted.phase), atol=1e-3)
    assert ((found.theta >= 0) & (found.theta < np.pi) & (found.frequency >= 0)).all()


def test_noise_leaves_little_to_another_optimiser():
    pictures = gabor.gabor_images(known(6, 1), 12, 16) + 0.1 * np.random.default_rng(2).normal(size=(6, 12, 16))
    found = gabor.fit_gabors(pictures)
    for index, picture in enumerate(pictures):
        names = [field.name for field in fields(gabor.GaborParameters)][:-1]
        start = np.array([getattr(found, name)[index] for name in names])

        def residual(p, picture=picture):
            return (gabor.gabor_images(gabor.GaborParameters(*(np.array([v]) for v in p), np.ones(1)), 12, 16)[0] - picture).ravel()

        better = 2 * least_squares(residual, start).cost
        assert (residual(start) ** 2).sum() < better * (1 + 1e-4)


def test_explained_variance_is_that_of_the_functions():
    pictures = np.random.default_rng(0).normal(size=(300, 8, 8))  # more than a batch
    found = gabor.fit_gabors(pictures)
    left = ((pictures - gabor.gabor_images(found, 8, 8)) ** 2).sum(axis=(1, 2))
    total = ((pictures - pictures.mean(axis=(1, 2), keepdims=True)) ** 2).sum(axis=(1, 2))
    assert np.allclose(found.r2, 1 - left / total)


def test_derivatives_agree_with_differences():
    p = np.random.default_rng(0).uniform(0.2, 1.0, (3, 8)) + 3.0 * (np.arange(8) < 2)
    x, y = gabor._pixel_grid(7, 6)
    derivatives = gabor._gabor_derivatives(p, x, y)[1]
    for index in range(8):
        step = 1e-6 * np.eye(8)[index]
        difference = (gabor._gabor_derivatives(p + step, x, y)[0] - gabor._gabor_derivatives(p - step, x, y)[0]) / 2e-6
        assert np.allclose(derivatives[:, index], difference, atol=1e-7)


def test_scale_does_not_matter_and_a_blank_picture_is_no_filter():
    picture = gabor.gabor_images(known(1), 12, 16)
    one, large = gabor.fit_gabors(picture), gabor.fit_gabors(1e6 * picture)
    assert np.allclose(large.amplitude, 1e6 * one.amplitude)
    assert gabor.fit_gabors(np.zeros((1, 5, 5))).r2.tolist() == [0.0]
