"""The digits that ship: whole, small, with their source, and split evenly within every class."""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np
import pytest

from herdcli.artifacts import load

# rows of each digit in the file the images come from
COUNTS = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


@pytest.fixture(scope="module")
def digits():
    with as_file(files("herdcli.data") / "digits.h5") as path:
        return load(str(path), kinds={"dataset"})


def test_sealed_and_small(digits):
    assert digits.sealed
    assert digits.size < 100_000


def test_values(digits):
    data = digits.value
    assert data.X.shape == (1797, 64)
    assert data.X.dtype == np.uint8
    assert (data.X.min(), data.X.max()) == (0, 16)
    assert data.value_range.tolist() == [0, 16]
    assert data.image_shape.tolist() == [8, 8]
    assert data.X[0].reshape(8, 8)[0].tolist() == [0, 0, 5, 13, 9, 1, 0, 0]
    assert data.y[:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    assert np.bincount(data.y).tolist() == COUNTS


def test_split_is_stratified(digits):
    for label, count in enumerate(COUNTS):
        parts = np.bincount(digits.value.split[digits.value.y == label], minlength=3)
        assert np.abs(parts - count * np.array([0.6, 0.2, 0.2])).max() < 1


def test_source_and_licence(digits):
    assert "Alpaydin" in digits.value.source
    assert "10.24432/C50P49" in digits.value.source
    assert digits.value.licence.startswith("CC BY 4.0")


def test_values_of_the_independent_copy(digits):
    datasets = pytest.importorskip("sklearn.datasets")
    X, y = datasets.load_digits(return_X_y=True)
    np.testing.assert_array_equal(digits.value.X, X)
    np.testing.assert_array_equal(digits.value.y, y)
