"""Files as other programs write them are read as they were meant: no row becomes a title, no title a row, no class a gap."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from herdcli.artifacts import load, recoding
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.rows.row_ranges import open_ranges
from herdcli.artifacts.text.svmlight import write as export
from herdcli.errors import DataError


def read(path: Path, text: str | bytes | None = None, **options: object) -> tuple[Dataset, list[str]]:
    """The data set of a file, and what was told."""
    told: list[str] = []
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load(str(path), note=told.append, **options).value, [line.removeprefix(f"{path}: ") for line in told]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("5.1,3.5,setosa\n4,3,virginica\n5,3,setosa\n", None, [[5.1, 3.5], [4, 3], [5, 3]]),  # UCI's, without titles
        ("39, State-gov, 7\n50, Private, 8\n38, State-gov, 2\n", ["f0", "f2"], [[39, 7], [50, 8], [38, 2]]),
        ("1,1,left\n2,3,right\n", None, [[1, 1], [2, 3]]),
        ("country,1990,1991\nChile,1,2\nPeru,3,4\n", ["1990", "1991"], [[1, 2], [3, 4]]),
        ("0,1,2\n5.1,3.5,1.4\n4.9,3,1.4\n", ["0", "1", "2"], [[5.1, 3.5, 1.4], [4.9, 3, 1.4]]),  # pandas' numbers of columns
        (",0,1\n0,5,3\n1,4,3\n", ["0", "1"], [[5, 3], [4, 3]]),
        ("0,1,2,3\n5,3,1,1\n4,3,1,1\n", ["0", "1", "2", "3"], [[5, 3, 1, 1], [4, 3, 1, 1]]),
        ("0,1,2\n1,0,2\n2,1,0\n", None, [[0, 1, 2], [1, 0, 2], [2, 1, 0]]),  # may be states
        ("0,1\n0.5,2\n", None, [[0, 1], [0.5, 2]]),
        ("1,2\r3,4.5\r", None, [[1, 2], [3, 4.5]]),
        ("\n# made\na,b\n1,2\n", ["a", "b"], [[1, 2]]),
        ("sep=;\na;b\n1;2\n", ["a", "b"], [[1, 2]]),
        ("a,b,\n1,2,\n3,4,\n", ["a", "b"], [[1, 2], [3, 4]]),
        (",a,,b\n0,1,,2\n1,3,,4\n", ["a", "b"], [[1, 2], [3, 4]]),
        ("a;b\n1;2\n1,5;3\n-2,25;4\n", ["a", "b"], [[1, 2], [1.5, 3], [-2.25, 4]]),  # the first row is whole
        ('b,city\n2,"Rome, IT"\n3,"Lima, PE"\n', ["b"], [[2], [3]]),
        ("a,code\n1,10_1\n2,10_2\n", ["a"], [[1], [2]]),  # which Python's float reads
    ],
)
def test_lines_are_titles_or_rows_as_they_were_written(tmp_path: Path, text: str, names: list[str] | None, rows: list[list[float]]) -> None:
    data, _ = read(tmp_path / "rows.csv", text)
    assert (data.feature_names, data.X.tolist()) == (names, rows)


def test_numbers_in_titles_are_told(tmp_path: Path) -> None:
    _, told = read(tmp_path / "rows.csv", "country,1990,1991\nChile,1,2\nPeru,3,4\n")
    assert told[0] == "the first line, country, 1990, 1991, is read as the names of the columns"


def test_texts_have_no_blanks_at_their_ends(tmp_path: Path) -> None:
    data, _ = read(tmp_path / "rows.csv", "a, y\n1, left\n2,left \n3, right\n")
    assert (data.class_names, data.y.tolist()) == (["left", "right"], [0, 0, 1])


def test_y_is_the_label_beside_a_column_Y(tmp_path: Path) -> None:
    data, _ = read(tmp_path / "rows.csv", "Y,b,y\n5,6,1\n7,8,0\n")
    assert (data.feature_names, data.y.tolist()) == (["Y", "b"], [1, 0])


def test_any_stretch_of_a_text_is_read_as_the_whole(tmp_path: Path) -> None:
    """What a line means is decided by the head of the file, not by that of the stretch."""
    path = tmp_path / "rows.csv"
    path.write_text("a;b\n1;2\n" + "1,5;3\n" * 5000 + "7;4\n" * 5000)
    with open_ranges(str(path), input_format=None, note=print, verified=True) as rows:
        assert rows is not None
        assert [rows.read(start, start + 1).X.tolist() for start in (0, 1, 9000)] == [[[1, 2]], [[1.5, 3]], [[7, 4]]]


@pytest.mark.parametrize(
    ("labels", "rows", "kept"),
    [([-1, 1, -1, 1], 4, [-1, 1, -1, 1]), ([-1, 0, 1, 1], 4, [0, 1, 1]), ([-2, -1, 1, 1], 4, [-2, -1, 1, 1])],
)
def test_labels_of_minus_one_and_one_are_two_classes_where_gaps_are_dropped(labels: list[int], rows: int, kept: list[int]) -> None:
    data = Dataset(np.ones((rows, 1)), y=np.array(labels))
    assert recoding.drop_incomplete_rows(data, [], where="rows", note=print).y.tolist() == kept  # type: ignore[union-attr]


def test_an_empty_label_is_not_the_class_minus_one(tmp_path: Path) -> None:
    data, _ = read(tmp_path / "rows.csv", "a,y\n1,-1\n2,1\n3,\n", missing=True)
    assert (data.class_names, data.y.tolist()) == (["-1", "1"], [0, 1, -1])


def test_sparse_matrices_of_scipy_in_other_formats_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", format="lil", shape=[4, 4], data=np.ones(3))
    with pytest.raises(DataError, match="the sparse matrix has an unknown format; herd reads CSR, CSC, COO, BSR and DIA"):
        load(str(tmp_path / "rows.npz"))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('{"a": {"0": 1, "2": 3}, "b": {"2": 30, "0": 10}}', [[1, 10], [3, 30]]),  # by the names of rows, not by their order
        ('{"0": {"a": 1, "b": 2}, "1": {"a": 3, "b": 4}, "2": {"b": 6, "a": 5}}', [[1, 2], [3, 4], [5, 6]]),  # orient="index"
        ('{"a": {"0": 1, "1": 3}, "b": {"0": 2, "1": 4}}', [[1, 2], [3, 4]]),
        ('{"a": [1, 3], "b": [2, 4]}', [[1, 2], [3, 4]]),
    ],
)
def test_json_objects_of_objects_keep_their_rows_together(tmp_path: Path, text: str, rows: list[list[int]]) -> None:
    data, _ = read(tmp_path / "rows.json", text)
    assert (data.feature_names, data.X.tolist()) == (["a", "b"], rows)


@pytest.mark.parametrize(
    ("names", "index", "left"),
    [(["a", "pid"], ["pid"], ["a"]), (["a", "__index_level_0__", "__index_level_1__"], None, ["a"]), (["a", "y"], ["y"], ["a"])],
)
def test_an_index_of_pandas_is_no_feature(tmp_path: Path, names: list[str], index: list[str] | None, left: list[str]) -> None:
    table = pa.table({name: [3, 2, 1] for name in names})
    told_by_pandas = {} if index is None else {"pandas": json.dumps({"index_columns": index})}
    pq.write_table(table.replace_schema_metadata(told_by_pandas), tmp_path / "rows.parquet")
    data, told = read(tmp_path / "rows.parquet")
    assert data.feature_names == left
    assert (data.y is not None) == ("y" in names)
    assert [line.partition(" because")[0] for line in told] == [f"left out column '{name}'" for name in names[1:] if name != "y"]


def test_labels_that_floats_cannot_tell_apart_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.svm").write_text(f"{2**53 + 1} 1:2\n{2**53} 1:3\n")
    with pytest.raises(DataError, match="labels must be whole numbers or text"):
        load(str(tmp_path / "rows.svm"))


def test_svmlight_keeps_classes_apart_whose_names_are_one_number(tmp_path: Path) -> None:
    data = Dataset(np.ones((3, 1)), y=np.array([0, 1, 2]), class_names=["01", "1", "2"])
    export(tmp_path / "rows.svm", data)
    assert len(set(load(str(tmp_path / "rows.svm")).value.y.tolist())) == 3


def test_packed_numbers_of_netcdf_are_what_they_stand_for(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"] = np.array([[10, 20], [30, -999]], dtype=np.int16)
        file["X"].attrs.update({"scale_factor": 0.5, "add_offset": 1.0, "_FillValue": np.int16(-999)})
    data, told = read(tmp_path / "rows.h5", missing=True)
    np.testing.assert_array_equal(data.X, [[6, 11], [16, np.nan]])
    assert told == ["/X is rescaled by its attributes scale_factor 0.5 and add_offset 1; 1 fill values are read as missing"]
    with pytest.raises(DataError, match="1 NaN row"):
        load(str(tmp_path / "rows.h5"))
