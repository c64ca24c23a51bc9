"""Rows that stay in their file: what is asked of them is what the matrix would give, in stretches that are read in their order."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.artifacts.rows import lazy_matrix, row_ranges
from herdcli.errors import DataError
from herdcli.online.block_sources import MemorySource
from herdcli.online.learner import OnlineLearner
from herdcli.online.model import Settings

X = np.random.default_rng(0).standard_normal((3000, 4))
Y = (X[:, 0] + X[:, 1] > 0).astype(np.uint8)


@pytest.fixture
def opened(tmp_path):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"], file["weight"] = X, Y, np.arange(3000) + 1.0
    with row_ranges.open_ranges(str(tmp_path / "rows.h5"), input_format=None, note=print, verified=True) as found:
        yield found


def test_some_rows_and_rows_of_those(opened, monkeypatch):
    monkeypatch.setattr(lazy_matrix, "STRETCH", 50)
    whole = lazy_matrix.LazyMatrix(opened)
    assert (whole.shape, len(whole)) == ((3000, 4), 3000)
    some = np.random.default_rng(1).random(3000) < 0.3
    places = np.flatnonzero(np.random.default_rng(2).random(int(some.sum())) < 0.5)
    taken = whole.select_rows(some)
    assert len(taken) == some.sum()
    np.testing.assert_array_equal(whole[100:1200], X[100:1200])
    np.testing.assert_array_equal(whole[np.array([3, 2999])], X[[3, 2999]])
    np.testing.assert_array_equal(taken[5:500], X[some][5:500])
    np.testing.assert_array_equal(taken[places], X[some][places])
    np.testing.assert_array_equal(taken.select_rows(places)[:], X[some][places])
    assert whole[5:5].shape == (0, 4)


def test_what_is_learned_of_them_is_what_is_learned_in_memory(opened):
    some = np.arange(3000) % 3 > 0
    settings = Settings(algorithm="arow", C=1.0)
    made = [
        run_algorithm(OnlineLearner(settings, MemorySource(rows, Y[some], rows=70, passes=2), 2, 5))
        for rows in (X[some], lazy_matrix.LazyMatrix(opened).select_rows(some))
    ]
    np.testing.assert_array_equal(made[0].mean, made[1].mean)
    np.testing.assert_array_equal(made[0].variance, made[1].variance)


def test_a_data_set_has_its_labels_and_leaves_its_rows(opened, tmp_path):
    data = lazy_matrix.hdf5_backed_dataset(opened)
    np.testing.assert_array_equal(data.y, Y)
    np.testing.assert_array_equal(data.weight, np.arange(3000) + 1.0)
    assert isinstance(data.X, lazy_matrix.LazyMatrix)
    (tmp_path / "a.csv").write_text("a,y\n1,0\n2,1\n")
    with row_ranges.open_ranges(str(tmp_path / "a.csv"), input_format=None, note=print, verified=True) as text:
        assert lazy_matrix.hdf5_backed_dataset(text) is None
    with h5py.File(tmp_path / "bad.h5", "w") as file:
        file["X"], file["y"], file["class_names"] = X[:2], np.array([0, 5]), ["a", "b"]
    with (
        row_ranges.open_ranges(str(tmp_path / "bad.h5"), input_format=None, note=print, verified=True) as found,
        pytest.raises(DataError, match="/y has the label 5 in row 1"),
    ):
        lazy_matrix.hdf5_backed_dataset(found)
