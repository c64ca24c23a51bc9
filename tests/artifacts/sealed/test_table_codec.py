"""Data sets as tables: further columns keep their names, and files that have them prefixed can be read."""

from __future__ import annotations

import numpy as np

from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.sealed.table_codec import from_table, to_table

DATA = Dataset(
    np.array([[1.0, 2.0], [3.0, 4.0]]),
    y=np.array([0, 1]),
    feature_names=["age", "size"],
    columns={"age": np.array(["old", "new"]), "y": np.array([5, 6])},
)


def same(found: Dataset) -> None:
    np.testing.assert_array_equal(found.X, DATA.X)
    assert found.feature_names == DATA.feature_names
    assert {name: part.tolist() for name, part in found.columns.items()} == {"age": ["old", "new"], "y": [5, 6]}


def test_further_columns_have_their_own_names():
    table, beside = to_table(DATA)
    assert table.column_names == ["age_", "size", "y", "age", "columns/y"]
    same(from_table(table, beside, Dataset, where="t"))


def test_prefixed_columns_of_older_files_are_read():
    table, beside = to_table(DATA)
    del beside["columns.titles"]
    old = table.rename_columns(["columns/age" if name == "age" else name for name in table.column_names])
    same(from_table(old, beside, Dataset, where="t"))
