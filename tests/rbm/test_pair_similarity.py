"""Goodness and balanced similarity of pairs of images against the sums that define them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from scipy.special import comb

from herdcli.rbm import pair_similarity, pairs
from herdcli.rbm.settings import Settings

D, K = 6, 4


def model_of(hidden, visible="rate:10", scale=0.1, K=K):
    random = np.random.default_rng(8)
    W1, W2 = (random.normal(size=(D, K)) * scale for _ in range(2))
    b1, b2, c = random.normal(size=D), random.normal(size=D), random.normal(size=K)
    settings = Settings(visible_units=visible, hidden_units=hidden)
    return pairs.PairRBM(W1=W1, W2=W2, b1=b1, b2=b2, c=c, settings=settings, pairs=1, trace=np.zeros(1), split=np.zeros(1, dtype=int))


@pytest.fixture
def images():
    return np.random.default_rng(1).integers(0, 11, size=(7, D)).astype(float)


def test_goodness_is_the_expectation_over_hidden_states_of_equation_3_7(images):
    n = 3
    model = model_of(f"rate:{n}", K=2)
    states = np.array(list(product(range(n + 1), repeat=2)), dtype=float)
    replicas = comb(n, states).prod(axis=1)  # states of single units that show the same counts
    for v1, v2 in zip(images[:3], images[3:6], strict=True):
        inputs = model.c + v1 @ model.W1 + v2 @ model.W2
        weight = replicas * np.exp(states @ inputs)
        p = weight / weight.sum()
        expected = np.sum(p * (states @ inputs - np.log(p / replicas))) + v1 @ model.b1 + v2 @ model.b2
        expected += np.log(comb(10, np.concatenate([v1, v2]))).sum()  # and of the visible ones
        assert pair_similarity.pair_goodness(model, v1[None], v2[None])[0] == pytest.approx(expected)


def definition(model, probes, gallery):
    def G(v, w):
        return pair_similarity.pair_goodness(model, v[None], w[None])[0]

    return [[G(v, w) + G(w, v) - G(v, v) - G(w, w) for w in gallery] for v in probes]


@pytest.mark.parametrize(("hidden", "scale"), [("gaussian", 0.1), *product(["rate:100", "binary", "spin", "softmax:4"], [0.1, 30.0])])
def test_similarity_is_equation_3_8_for_every_family_and_for_large_weights(images, hidden, scale):
    model = model_of(hidden, scale=scale)
    found = pair_similarity.pair_similarity(
        model, pair_similarity.compute_hidden_input_totals(model, images[:3]), pair_similarity.compute_hidden_input_totals(model, images)
    )
    np.testing.assert_allclose(found, definition(model, images[:3], images), rtol=1e-9, atol=1e-8)


def test_similarity_is_symmetric_and_nothing_for_an_image_and_itself(images):
    model = model_of("rate:100")
    parts = pair_similarity.compute_hidden_input_totals(model, images)
    found = pair_similarity.pair_similarity(model, parts, parts)
    np.testing.assert_allclose(found, found.T, atol=1e-9)
    np.testing.assert_allclose(np.diag(found), 0, atol=1e-9)
    assert np.abs(found).max() > 1


def test_blocks_and_threads_change_nothing():
    random = np.random.default_rng(0)
    model = model_of("rate:100")
    probes, gallery = (random.random((n, D)) * 10 for n in (70, 1100))
    parts = pair_similarity.compute_hidden_input_totals(model, probes), pair_similarity.compute_hidden_input_totals(model, gallery)
    whole = pair_similarity.pair_similarity(model, *parts)
    with ThreadPoolExecutor(3) as pool:
        np.testing.assert_array_equal(pair_similarity.pair_similarity(model, *parts, map=pool.map), whole)
    one = pair_similarity.pair_similarity(
        model,
        pair_similarity.compute_hidden_input_totals(model, probes[65:66]),
        pair_similarity.compute_hidden_input_totals(model, gallery[1050:1051]),
    )
    np.testing.assert_allclose(whole[65, 1050], one[0, 0], rtol=1e-12)


@pytest.mark.parametrize("place", [0, 1])
def test_similarity_of_one_large_place(place):
    """Products of eight terms 1 + e^a would overflow where an image's own part in one place is large."""
    random, visible = np.random.default_rng(3), np.zeros((2, D))
    weights = [random.random((D, 16)) * scale for scale in ((20.0, 0.0) if place == 0 else (0.0, 20.0))]
    settings = Settings(visible_units="rate:10", hidden_units="rate:100")
    made = {"W1": weights[0], "W2": weights[1], "b1": np.zeros(D), "b2": np.zeros(D), "c": np.zeros(16)}
    model = pairs.PairRBM(**made, settings=settings, pairs=1, trace=np.zeros(1), split=np.zeros(1, dtype=int))
    probes = np.full((2, D), 5.0)
    for first, second in ((probes, visible), (visible, probes)):
        found = pair_similarity.pair_similarity(
            model, pair_similarity.compute_hidden_input_totals(model, first), pair_similarity.compute_hidden_input_totals(model, second)
        )
        np.testing.assert_allclose(found, definition(model, first, second), rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("K", [1, 7, 8, 9, 17])
def test_any_number_of_hidden_units_is_multiplied_in_eights(images, K):
    model = model_of("rate:100", K=K)
    found = pair_similarity.pair_similarity(
        model, pair_similarity.compute_hidden_input_totals(model, images[:3]), pair_similarity.compute_hidden_input_totals(model, images)
    )
    np.testing.assert_allclose(found, definition(model, images[:3], images), rtol=1e-9, atol=1e-8)
