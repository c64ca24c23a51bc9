"""Order and signs of filters, and which outputs look Gaussian."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from herdcli.errors import DataError
from herdcli.ica import results, whitening
from herdcli.ica.filters import filter_convention
from herdcli.ica.filters.amari_distance import amari_distance
from herdcli.ica.model import ICATrace
from herdcli.ica.results import ICAFit
from herdcli.schema import check_arrays


def test_moments_are_those_of_the_outputs():
    random = np.random.default_rng(0)
    Z, J = random.laplace(size=(40_000, 3)), random.standard_normal((4, 3))
    Z -= Z.mean(axis=0)
    u = Z @ J.T
    found = filter_convention.compute_output_moments(Z, J)
    np.testing.assert_allclose(found.variance, (u**2).mean(axis=0))
    np.testing.assert_allclose(found.kurtosis, (u**4).mean(axis=0) / (u**2).mean(axis=0) ** 2 - 3)
    np.testing.assert_allclose(found.log_cosh, np.log(np.cosh(u / np.sqrt(found.variance))).mean(axis=0))


def finished(J, X, **more):
    fitted = whitening.fit_whitening(X, method="pca")
    trace = ICATrace(np.array([1]), np.array([0.0]))
    fit = ICAFit(J, np.arange(1.0, len(J) + 1), trace, 1, "log_likelihood", {"experts": ["student"] * len(J), **more})
    return results.build_ica_artifact(fit, fitted.apply(X), fitted, algorithm="ebm", seed=0)[0]


def test_reruns_agree_whatever_the_order_signs_and_scales():
    random = np.random.default_rng(1)
    X, J = random.laplace(size=(500, 4)) * [1, 2, 3, 4], random.standard_normal((4, 4))
    one = finished(J, X)
    shuffled = finished((J * [[-1], [2], [-3], [1]])[[2, 0, 3, 1]], X)
    np.testing.assert_allclose(shuffled.power, one.power)
    assert (np.diff(one.power) <= 0).all()
    scale = shuffled.J[:, :1] / one.J[:, :1]
    np.testing.assert_allclose(shuffled.J, scale * one.J)
    assert (scale > 0).all()
    for model in (one, shuffled):
        rows = model.unmixing_matrix
        assert (rows[np.arange(4), np.abs(rows).argmax(axis=1)] > 0).all()
    assert sorted(one.gamma) == [1, 2, 3, 4]
    np.testing.assert_allclose(one.reconstruct_rows(one.features(X)), X, atol=1e-10)


def test_powers_of_square_filters_add_up_to_the_variance_where_outputs_are_uncorrelated():
    X = np.random.default_rng(2).laplace(size=(500, 4)) * [1, 2, 3, 4]
    rotation = np.linalg.qr(np.random.default_rng(3).standard_normal((4, 4)))[0]
    assert finished(rotation, X).power.sum() == pytest.approx(X.var(axis=0).sum())


def test_maps_keep_their_places():
    X, J = np.random.default_rng(4).laplace(size=(500, 3)), np.random.default_rng(5).standard_normal((4, 3))
    kept = finished(J, X, topography=np.eye(4))
    np.testing.assert_allclose(np.abs(kept.J), np.abs(J))
    assert kept.gamma.tolist() == [1, 2, 3, 4]


def test_gaussian_outputs_are_told_from_others():
    random = np.random.default_rng(6)
    n = 20_000
    Z = np.stack([random.standard_normal(n), random.laplace(size=n), random.uniform(-1, 1, n), random.logistic(size=n)], axis=1)
    assert filter_convention.looks_gaussian(filter_convention.compute_output_moments(Z, np.eye(4)), n).tolist() == [
        True,
        False,
        False,
        False,
    ]
    hits = [
        filter_convention.looks_gaussian(
            filter_convention.compute_output_moments(random.standard_normal((1000, 50)), np.eye(50)), 1000
        ).mean()
        for _ in range(4)
    ]
    assert np.mean(hits) > 0.97


def test_amari_distance_of_known_products():
    assert amari_distance(np.array([[0.0, 3.0], [-2.0, 0.0]])) == 0
    assert amari_distance(np.ones((3, 3))) == 2 * 3 * 2
    product = np.array([[1.0, 0.5], [0.25, 1.0]])
    assert amari_distance(product) == pytest.approx(2 * (0.5 + 0.25))
    assert amari_distance(product, squared=True) == pytest.approx(2 * (0.25 + 0.0625) / 4)
    assert amari_distance((product * [[3.0], [-2.0]])[::-1]) == pytest.approx(0.5 + 0.25 + 0.5 * 3 / 2 + 0.25 * 2 / 3)
    assert amari_distance(np.array([[1.0, 0.0], [1.0, 0.0]])) == np.inf
    assert amari_distance(np.full((2, 2), np.nan)) == np.inf


def test_amari_distance_does_not_see_order_signs_and_a_common_scale():
    random = np.random.default_rng(7)
    P = random.standard_normal((5, 5))
    other = (-3.0 * P)[random.permutation(5)][:, random.permutation(5)] * random.choice([-1.0, 1.0], (5, 1))
    for squared in (False, True):
        assert amari_distance(other, squared=squared) == pytest.approx(amari_distance(P, squared=squared))
        scaled = np.diag([1.0, -2.0, 30.0])[[2, 0, 1]]
        assert amari_distance(scaled, squared=squared) == 0


@pytest.mark.parametrize(
    ("pools", "message"),
    [
        (np.ones((0, 4)), "dataset 'topography' has 0"),
        (np.ones((3, 4)), "dataset 'topography' has 3"),
        (-np.eye(4), "/topography"),
        (np.full((4, 4), np.nan), "/topography"),
    ],
)
def test_a_map_has_one_pool_of_weights_for_each_filter(pools, message):
    X, J = np.random.default_rng(4).laplace(size=(500, 3)), np.random.default_rng(5).standard_normal((4, 3))
    damaged = replace(finished(J, X, topography=np.eye(4)), topography=pools)
    with pytest.raises(DataError, match=message):
        check_arrays(damaged)
