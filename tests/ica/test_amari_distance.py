"""The Amari distance: 0 at scaled permutations alone, blind to order and scale, and its two definitions by hand."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.ica.filters.amari_distance import amari_distance

PRODUCT = np.random.default_rng(0).normal(size=(5, 5)) + 3 * np.eye(5)
ORDER = [3, 0, 4, 2, 1]


@pytest.mark.parametrize("squared", [False, True])
def test_order_of_outputs_and_sources_and_scale_of_all_do_not_matter(squared):
    distance = amari_distance(PRODUCT, squared=squared)
    assert distance > 0.1
    assert amari_distance(PRODUCT[ORDER], squared=squared) == pytest.approx(distance)
    assert amari_distance(-7 * PRODUCT[:, ORDER], squared=squared) == pytest.approx(distance)
    assert amari_distance(PRODUCT.T, squared=squared) == pytest.approx(distance)


@pytest.mark.parametrize("squared", [False, True])
def test_it_is_0_for_every_scale_of_a_permutation_and_largest_for_equal_entries(squared):
    scales = np.array([2.0, -1.0, 0.01, 50.0, 3.0])
    assert amari_distance(scales[:, None] * np.eye(5)[ORDER], squared=squared) == 0
    assert amari_distance(np.ones((5, 5)), squared=squared) == pytest.approx(4.0 if squared else 2 * 5 * 4)


def test_both_definitions_by_hand():
    product = np.array([[2.0, 1.0], [0.0, -4.0]])
    assert amari_distance(product) == pytest.approx((1 / 2) + 0 + 0 + (1 / 4))
    assert amari_distance(product, squared=True) == pytest.approx((1 / 4 + 1 / 16) / 4)


def test_an_output_that_shows_nothing_is_infinitely_far():
    assert amari_distance(np.array([[1.0, 0.0], [0.0, 0.0]])) == np.inf
    assert amari_distance(np.array([[1.0, np.nan], [0.0, 1.0]])) == np.inf
