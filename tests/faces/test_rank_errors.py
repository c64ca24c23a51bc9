"""Rank-n error rates against their definition: the n most similar gallery images are all wrong."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.errors import DataError
from herdcli.faces.rank_errors import count_wrong_before_match, nearest_gallery_images, rank_errors


def test_rates_are_those_of_the_definition():
    random = np.random.default_rng(0)
    similarity = random.normal(size=(50, 40))
    probes, gallery = random.integers(0, 8, 50), np.arange(40) % 8
    found = rank_errors(count_wrong_before_match(similarity, probes, gallery))
    for rank, error in found.items():
        best = np.argsort(-similarity, axis=1)[:, :rank]
        assert error == pytest.approx(np.mean([person not in gallery[row] for person, row in zip(probes, best, strict=True)]))
    assert list(found) == [1, 2, 4, 8, 16]
    assert 0 < found[16] < found[1]


def test_a_similarity_that_tells_nothing_recognises_nobody():
    persons = np.repeat(np.arange(4), 3)
    assert rank_errors(count_wrong_before_match(np.zeros((12, 12)), persons, persons), (1, 8, 9, 10)) == {1: 1.0, 8: 1.0, 9: 1.0, 10: 0.0}


def test_a_probe_of_a_stranger_is_refused():
    with pytest.raises(DataError, match=r"^person 7 has probe images but no image in the gallery$"):
        count_wrong_before_match(np.zeros((2, 3)), np.array([1, 7]), np.array([1, 1, 2]))


def test_nearest_are_in_order_and_of_equal_ones_the_earlier_comes_first():
    assert nearest_gallery_images(np.array([[0.0, 2.0, 1.0, 2.0]]), 3).tolist() == [[1, 3, 2]]
