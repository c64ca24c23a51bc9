"""Names of columns in HDF5 files of other programs, under names such as words."""

from __future__ import annotations

import numpy as np
import pytest

import herdcli
from herdcli.artifacts.h5py_import import h5py
from herdcli.artifacts.load_options import ignore_note
from herdcli.artifacts.rows import row_ranges

X = np.arange(12, dtype=np.uint8).reshape(4, 3)


def write(path, **texts):
    with h5py.File(path, "w") as file:
        file["X"] = X
        for name, values in texts.items():
            file.create_dataset(name, data=np.array(values, dtype=object), dtype=h5py.string_dtype())
    return str(path)


@pytest.mark.parametrize("name", ["words", "vocabulary", "terms"])
def test_words_are_the_names_of_columns(tmp_path, name):
    path = write(tmp_path / "a.h5", **{name: ["aids", "baseball", "bible"]})
    assert herdcli.load(path).feature_names == ["aids", "baseball", "bible"]


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        ({"words": ["a", "b"]}, None),
        ({"words": ["a", "b", "a"]}, None),
        ({"words": ["a", "b", "c"], "feature_names": ["p", "q", "r"]}, ["p", "q", "r"]),
        ({"words": ["a", "b", "a"], "terms": ["p", "q", "r"]}, ["p", "q", "r"]),
    ],
)
def test_texts_that_cannot_name_the_columns_are_left_out(tmp_path, texts, names):
    assert herdcli.load(write(tmp_path / "a.h5", **texts)).feature_names == names


def test_blocks_of_rows_have_these_names_too(tmp_path):
    path = write(tmp_path / "a.h5", words=["a", "b", "c"])
    with row_ranges.open_ranges(path, input_format=None, note=ignore_note, verified=False) as found:
        assert found.read(1, 3).feature_names == ["a", "b", "c"]


def test_columns_of_sparse_rows_have_the_names_of_the_vocabulary(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["shape"] = (2, 3)
        for name, values in {"data": [1.0, 2.0], "indices": [0, 2], "indptr": [0, 1, 2]}.items():
            file[f"X/{name}"] = np.array(values)
        file.create_dataset("vocab", data=np.array(["a", "b", "c"], dtype=object), dtype=h5py.string_dtype())
    assert herdcli.load(str(tmp_path / "a.h5")).feature_names == ["a", "b", "c"]
