"""Names of parameters in ArviZ's netCDF that herd writes and reads again."""

from __future__ import annotations

import numpy as np
import pytest

import herdcli
from herdcli.artifacts import Dataset
from herdcli.artifacts.formats.inference_data import array_variables
from herdcli.artifacts.h5py_import import h5py

X = np.random.default_rng(3).normal(size=(6, 3))


def test_elements_of_whole_arrays_are_one_variable():
    assert array_variables(["b[0, 1]", "mu", "b[0, 0]"]) == {"b": ((1, 2), [2, 0]), "mu": ((), [1])}


@pytest.mark.parametrize("names", [["b[1]", "b[2]"], ["b[0]", "b[0, 1]"], ["b[0]", "b"], ["b[x]"], ["b[-1]"], ["b[999999999]"]])
def test_elements_of_no_whole_array_are_variables_of_their_own(names):
    assert array_variables(names) == {name: ((), [column]) for column, name in enumerate(names)}


@pytest.mark.parametrize(
    ("names", "variables"),
    [
        (["mu", "theta[0]", "theta[1]"], {"mu": (1, 6), "theta": (1, 6, 2)}),
        (["a/b", "chain", "y"], {"x": (1, 6, 3)}),
        (["x", "y", "z"], {"x": (1, 6), "y": (1, 6), "z": (1, 6)}),
    ],
)
def test_names_of_columns_are_read_as_they_were(tmp_path, names, variables):
    path = str(tmp_path / "draws.nc")
    herdcli.save(path, Dataset(X, feature_names=names))
    with h5py.File(path) as file:
        found = {name: item.shape for name, item in file["posterior"].items() if name in ("x", *names) or name == "theta"}
    assert found.items() >= variables.items()
    again = herdcli.load(path)
    assert again.feature_names == names
    np.testing.assert_array_equal(again.X, X)


def test_labels_beside_a_column_y(tmp_path):
    path = str(tmp_path / "draws.nc")
    herdcli.save(path, Dataset(X[:, :2], feature_names=["mu", "y"], y=np.array([0, 1] * 3)))
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["posterior/y"][0], X[:, 1])
        np.testing.assert_array_equal(file["posterior/label"][0], [0, 1] * 3)
