"""Figures and pictures of `ica`, on models whose filters and sources are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from herdcli.errors import DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures import ica
from herdcli.evaluation.plots import gabor, ica_plots, plot_list
from herdcli.ica import whitening
from herdcli.ica.model import ICA, ICATrace

SETTINGS = EvaluationSettings()


def model(X: np.ndarray, J_of, **changes) -> ICA:
    """An ICA of rows X with filters J_of(whitening)."""
    fitted = whitening.fit_whitening(X)
    J = J_of(fitted)
    parts = {"gamma": np.ones(len(J)), "power": np.ones(len(J)), "kurtosis": np.arange(len(J), dtype=float), "whitening": fitted}
    trace = ICATrace(np.arange(2), np.array([2.0, 1.0]), np.array([0.5, 0.9]))
    numbers = {"algorithm": "ebm", "experts": ["logistic"] * len(J), "objective": "contrast", "rows": len(X), "iterations": 2, "seed": 0}
    return ICA(J=J, trace=trace, **{**parts, **numbers, **changes})


@pytest.fixture(scope="module")
def mixture():
    random = np.random.default_rng(0)
    S, A = random.laplace(size=(500, 3)), random.normal(size=(3, 3))
    return S, A, S @ A.T


@pytest.fixture(scope="module")
def pictures():
    """30 known Gabor functions of 8×8 as filters of correlated rows."""
    random = np.random.default_rng(1)
    ranges = [(1, 6), (1, 6), (0.7, 2), (0.7, 2), (0, 3.1), (0.08, 0.4), (1, 2), (0, 6), (1, 1)]
    known = gabor.GaborParameters(*(random.uniform(low, high, 30) for low, high in ranges))
    rows = gabor.gabor_images(known, 8, 8).reshape(30, 64)
    X = random.normal(size=(200, 64)) @ random.normal(size=(64, 64))
    return model(X, lambda w: rows @ (w.forward * np.sqrt(w.variance)[:, None]).T, image_shape=np.array([8, 8]))


def test_the_true_unmixing_is_at_distance_0_and_another_is_not(mixture):
    _, A, X = mixture
    true = model(X, lambda w: np.linalg.inv(w.forward @ A)[[2, 0, 1]] * [[3.0], [-1.0], [0.2]], mixing=A)
    found = ica.metrics(true, SETTINGS)
    assert found["amari"] == pytest.approx(0, abs=1e-10)
    assert found["amari_squared"] == pytest.approx(0, abs=1e-10)
    assert found["sir_least"] > 200
    other = ica.metrics(replace(true, J=np.eye(3)), SETTINGS)
    assert other["amari"] > 1
    assert other["sir"] < 20
    assert other["localisation"] is other["gabor_share"] is None


def test_gaussian_score_matching_on_held_out_rows_is_its_closed_form(mixture):
    """Of whitened rows under E = ½|z|²: ½ E|z|² − D = −D/2."""
    X = mixture[2]
    value = model(X, lambda w: np.eye(3), experts=["gaussian-cdf"] * 3)
    assert ica.metrics(value, SETTINGS)["score_matching"] is None
    assert ica.metrics(replace(value, holdout=value.whitening.apply(X)), SETTINGS)["score_matching"] == pytest.approx(-1.5)
    kinked = replace(value, experts=["laplace"] * 3, holdout=value.whitening.apply(X))
    assert ica.metrics(kinked, SETTINGS)["score_matching"] is None


def test_score_matching_prefers_the_density_that_made_the_rows(mixture):
    A = mixture[1]
    held = np.random.default_rng(5).logistic(size=(4000, 3)) @ A.T
    true = model(held, lambda w: np.linalg.inv(w.forward @ A), experts=["logistic"] * 3)
    true = replace(true, holdout=true.whitening.apply(held))
    scores = [ica.metrics(replace(true, J=J), SETTINGS)["score_matching"] for J in (true.J, 1.3 * true.J, 0.7 * true.J, np.eye(3))]
    assert scores[0] == min(scores)


def test_held_out_log_likelihood_is_that_of_each_output_s_density(mixture):
    """Against the densities themselves: sech(u)/π, and two Gaussians around −1 and 1."""
    X = mixture[2]
    value = model(
        X, lambda w: np.array([[2.0, 0.3, 0.0], [0.1, 1.5, 0.4], [0.0, -0.2, 1.2]]), experts=["bimodal", "laplace-smooth", "bimodal"]
    )
    value = replace(value, holdout=value.whitening.apply(X)[:50])
    u = value.holdout @ value.J.T
    bumps = [0.5 * (norm.pdf(u[:, i] - 1) + norm.pdf(u[:, i] + 1)) for i in (0, 2)]
    logs = np.log(bumps[0]) + np.log(bumps[1]) - np.log(np.pi * np.cosh(u[:, 1])) + np.log(np.linalg.det(value.J))
    found = ica.metrics(value, SETTINGS)
    assert found["log_likelihood"] == pytest.approx(logs.mean(), rel=1e-12)
    assert found["score_matching"] is not None
    assert ica.metrics(replace(value, algorithm="fastica"), SETTINGS)["log_likelihood"] is None
    flat = replace(value, gamma=value.gamma * [1, 0, 1])
    assert ica.metrics(flat, SETTINGS)["log_likelihood"] is None


def test_filters_that_are_gabor_functions_are_told(pictures):
    found = ica.metrics(pictures, SETTINGS)
    assert found["gabor_r2"] > 0.999
    assert found["gabor_share"] == 1
    assert 0 < found["participation"] < 0.4
    assert 0.3 < found["localisation"] < 1
    noise = replace(pictures, J=np.random.default_rng(0).normal(size=(30, 64)))
    assert ica.metrics(noise, SETTINGS)["gabor_share"] < 0.1
    assert set(found) == set(ica.COLUMNS)


@pytest.mark.parametrize("name", plot_list.plot_names("ica"))
def test_pictures_are_drawn_of_pictures(pictures, name):
    pytest.importorskip("matplotlib")
    assert plot_list.import_plot_function("ica", name)(pictures, SETTINGS).axes


@pytest.mark.parametrize("name", ["filters", "spectra"])
def test_filters_of_a_topography_are_drawn_on_its_map(pictures, name):
    pytest.importorskip("matplotlib")
    mapped = replace(pictures, grid=np.array([2, len(pictures.J) // 2]))
    (image,) = plot_list.import_plot_function("ica", name)(mapped, SETTINGS).axes[0].get_images()
    height, width = pictures.image_shape
    assert image.get_array().shape[0] in range(2 * height, 2 * height + 4)
    assert image.get_array().shape[1] >= len(pictures.J) // 2 * width


@pytest.mark.parametrize("name", ["filters", "spectra", "tiling"])
def test_pictures_are_drawn_of_signals_and_channels(pictures, mixture, name):
    pytest.importorskip("matplotlib")
    draw = plot_list.import_plot_function("ica", name)
    assert draw(replace(pictures, image_shape=None), SETTINGS).axes
    assert draw(model(mixture[2], lambda w: np.eye(3)), SETTINGS).axes


def test_signals_have_no_gabor_functions(pictures):
    with pytest.raises(DataError, match=r"^has no image_shape, so its filters are not images and Gabor functions cannot be fitted$"):
        ica_plots.gabors(replace(pictures, image_shape=None), SETTINGS)
