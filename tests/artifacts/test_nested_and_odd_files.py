"""Files that were read wrongly or in part: nested columns, sheets without names, several arrays, numbers beside units, odd archives."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
from scipy import sparse

from herdcli.artifacts import load
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.text.number_formats import common_unit
from herdcli.dialect import TextDialect, use_dialect
from herdcli.errors import BadUsage, DataError

ROWS = np.array([[1.5, 2.0], [3.0, 4.0], [-5.25, 6.0]])


def read(path: Path, content: str | bytes | None = None, member: str = "") -> tuple[Dataset, list[str]]:
    """The data set of a file, and the notes about it."""
    notes: list[str] = []
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return load(f"{path}{member}", note=notes.append).value, [line.replace(f"{path}: ", "") for line in notes]


def parquet(path: Path, **columns: Any) -> Path:
    """A Parquet file of these columns."""
    pq.write_table(pa.table(columns), path)
    return path


def test_lists_of_one_length_become_columns_beside_others(tmp_path: Path) -> None:
    data, _ = read(parquet(tmp_path / "rows.parquet", age=[7, 8, 9], emb=ROWS.tolist()))
    assert data.feature_names == ["age", "emb_0", "emb_1"]
    np.testing.assert_array_equal(data.X, np.column_stack([[7, 8, 9], ROWS]))


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.float64(), 2)])
def test_one_column_of_lists_alone_holds_the_rows(tmp_path: Path, kind: Any) -> None:
    data, _ = read(parquet(tmp_path / "rows.parquet", emb=pa.array(ROWS.tolist(), kind), label=["u", "v", "u"]))
    np.testing.assert_array_equal(data.X, ROWS)
    assert data.class_names == ["u", "v"]


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([[1.0, 2], [3.0], [5.0, 6]], "column 'v' has 1 values in row 1 and 2 in row 0"),
        ([[1.0, 2], None, [5.0, 6]], "column 'v' has no list in row 1"),
    ],
)
def test_lists_of_different_lengths_are_refused(tmp_path: Path, lists: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(parquet(tmp_path / "rows.parquet", v=lists, b=[1, 2, 3]))


def test_a_missing_number_in_a_list_is_a_missing_value(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="column 'v_1' has 1 missing value"):
        read(parquet(tmp_path / "rows.parquet", v=[[1.0, 2], [3.0, None], [5.0, 6]], b=[1, 2, 3]))


def test_a_place_of_a_list_with_the_name_of_a_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has both a column and a list element with the name 'v_0'"):
        read(parquet(tmp_path / "rows.parquet", v=[[1.0], [2.0]], v_0=[1, 2]))


def test_records_become_columns(tmp_path: Path) -> None:
    records = [{"size": {"w": 1.5, "h": 2}}, {"size": {"w": 3.0, "h": 4}}]
    data, _ = read(parquet(tmp_path / "rows.parquet", s=records, b=[5, 6]))
    assert data.feature_names == ["s.size.h", "s.size.w", "b"] or data.feature_names == ["s.size.w", "s.size.h", "b"]
    assert dict(zip(data.feature_names, data.X.T.tolist(), strict=True)) == {"s.size.w": [1.5, 3], "s.size.h": [2, 4], "b": [5, 6]}


def test_columns_that_are_neither_are_named_with_their_type(tmp_path: Path) -> None:
    _, notes = read(parquet(tmp_path / "rows.parquet", s=pa.array([b"1", b"2"]), b=[1, 2]))
    assert "these parts of the file are not used: s (binary)" in notes


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ('{"a":1.5,"n":{"m":{"b":2}}}\n{"a":3,"n":{"m":{"b":4}}}\n', ["a", "n.m.b"], [[1.5, 2], [3, 4]]),
        ('{"v":[1.5,2],"c":7}\n{"v":[3,4],"c":8}\n', ["v_0", "v_1", "c"], [[1.5, 2, 7], [3, 4, 8]]),
        ('{"v":[1.5,2]}\n{"v":[3,4]}\n', None, [[1.5, 2], [3, 4]]),
        ("[1.5,2]\n[3,4]\n", None, [[1.5, 2], [3, 4]]),
        ("[[1.5,2],\n[3,4]]\n", None, [[1.5, 2], [3, 4]]),
    ],
)
def test_nested_json_becomes_columns(tmp_path: Path, text: str, names: list[str] | None, rows: list[list[float]]) -> None:
    data, _ = read(tmp_path / "rows.jsonl", text)
    assert (data.feature_names, data.X.tolist()) == (names, rows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a":1,"a":2,"b":3}\n{"a":3,"b":4}\n', "'a' occurs twice in one object"),
        ('{"a":1,"b":[1,2]}\n{"a":3,"b":4}\n', "column 'b' has an object or a list in row 0, unlike its other cells"),
        ('{"a":1,"n":{"b":2}}\n{"a":3}\n', "column 'n.b' has 1 missing value"),
        ('{"v":[1,2],"c":1}\n{"v":[3],"c":2}\n', "column 'v' has 1 values in row 1 and 2 in row 0"),
    ],
)
def test_json_that_lacks_or_repeats_something_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path / "rows.jsonl", text)


def workbook(path: Path, *sheets: list[list[Any]]) -> Path:
    """A workbook of sheets of these rows."""
    book = openpyxl.Workbook()
    for number, rows in enumerate(sheets):
        sheet = book.active if not number else book.create_sheet(f"sheet{number}")
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_a_sheet_without_names_keeps_its_first_row(tmp_path: Path) -> None:
    data, notes = read(workbook(tmp_path / "rows.xlsx", ROWS.tolist()))
    np.testing.assert_array_equal(data.X, ROWS)
    assert data.feature_names is None
    assert notes == ["the first line is read as data because it has numbers and no column names"]


def test_years_above_a_sheet_are_names(tmp_path: Path) -> None:
    data, _ = read(workbook(tmp_path / "rows.xlsx", [["a", 2000, 2001], [1, 2, 3], [4, 5, 6]]))
    assert data.feature_names == ["a", "2000", "2001"]


def test_an_empty_first_sheet_is_passed_by(tmp_path: Path) -> None:
    data, notes = read(workbook(tmp_path / "rows.xlsx", [], [["a", "b"], *ROWS.tolist()]))
    np.testing.assert_array_equal(data.X, ROWS)
    assert "read sheet 'sheet1' of Sheet, sheet1" in notes[0]


def test_a_second_array_in_a_file_of_one_is_refused(tmp_path: Path) -> None:
    both = io.BytesIO()
    np.save(both, ROWS)
    np.save(both, 2 * ROWS)
    with pytest.raises(DataError, match="the file continues after its array"):
        read(tmp_path / "rows.npy", both.getvalue())


def test_an_array_of_a_file_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", left=ROWS, right=2 * ROWS)
    data, _ = read(tmp_path / "two.npz", member=":right")
    np.testing.assert_array_equal(data.X, 2 * ROWS)
    with pytest.raises(DataError, match="has no array X") as error:
        read(tmp_path / "two.npz")
    assert error.value.hint == f"name its rows: {tmp_path}/two.npz:left"
    with pytest.raises(BadUsage, match="has no such array"):
        read(tmp_path / "two.npz", member=":middle")


def test_a_matrix_in_the_place_of_labels_is_no_crash(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", ROWS, ROWS / 4)
    with pytest.raises(DataError, match=r"/y has the value 0\.375 in row 0, but labels must be whole numbers or text"):
        read(tmp_path / "two.npz")


@pytest.mark.parametrize("block", [(1, 1), (2, 1), (2, 2), (4, 2)])
def test_blocks_of_scipy_are_read(tmp_path: Path, block: tuple[int, int]) -> None:
    whole = np.array([[1.5, 0, 0, 2], [0, 0, 3, 0], [0, 4, 0, 0], [-5, 0, 0, 6]])
    sparse.save_npz(tmp_path / "rows.npz", sparse.bsr_matrix(whole, blocksize=block))
    np.testing.assert_array_equal(read(tmp_path / "rows.npz")[0].X.toarray(), whole)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4)])
def test_diagonals_of_scipy_are_read(tmp_path: Path, shape: tuple[int, int]) -> None:
    whole = np.diag(np.arange(1.0, 6), 0)[: shape[0], : shape[1]] + np.diag([7.0, 8, 9, 10], 1)[: shape[0], : shape[1]]
    sparse.save_npz(tmp_path / "rows.npz", sparse.dia_matrix(whole))
    np.testing.assert_array_equal(read(tmp_path / "rows.npz")[0].X.toarray(), whole)


def test_damaged_blocks_are_refused(tmp_path: Path) -> None:
    data, indptr = np.ones((2, 2, 2)), np.array([0, 1, 2])
    np.savez(tmp_path / "rows.npz", format="bsr", shape=[4, 4], data=data, indices=np.array([0, 2]), indptr=indptr)
    with pytest.raises(DataError, match="the sparse matrix is damaged"):
        read(tmp_path / "rows.npz")


def test_a_code_that_an_enumeration_does_not_name_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"] = ROWS
        file.create_dataset("y", data=[5, 7, 5], dtype=h5py.enum_dtype({"no": 5, "yes": 9}))
    with pytest.raises(DataError, match="/y has the code 7 in row 1, but its enumeration has no name for this code"):
        read(tmp_path / "rows.h5")


def test_vectors_of_one_length_are_the_columns_of_hdf5(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["a"], file["b"], file["label"] = ROWS[:, 0].astype(">f8"), ROWS[:, 1].astype("i2"), [b"u", b"v", b"u"]
        file["b"].attrs["scale_factor"] = 0.5
        file["time"] = np.arange(3.0)
        file["time"].make_scale("time")
    data, notes = read(tmp_path / "rows.h5")
    assert (data.feature_names, data.class_names) == (["a", "b"], ["u", "v"])
    np.testing.assert_array_equal(data.X, ROWS * [1, 0.5])
    assert "these parts of the file are not used: time" in notes


def test_cells_of_single_numbers_in_matlab_are_labels(tmp_path: Path) -> None:
    cells = np.empty((3, 1), dtype=object)
    cells[:, 0] = [7, 8, 7]
    scipy.io.savemat(tmp_path / "rows.mat", {"X": ROWS, "y": cells})
    data, _ = read(tmp_path / "rows.mat")
    assert data.y is not None
    assert data.y.tolist() == [7, 8, 7]


@pytest.mark.parametrize("names", [("X", "y"), ("fea", "gnd")])
def test_labels_of_matlab_in_a_row_vector_are_read(tmp_path: Path, names: tuple[str, str]) -> None:
    """savemat writes every vector as one row."""
    scipy.io.savemat(tmp_path / "rows.mat", {names[0]: ROWS, names[1]: np.arange(len(ROWS)) % 2})
    data, _ = read(tmp_path / "rows.mat")
    assert data.y is not None
    assert data.y.tolist() == (np.arange(len(ROWS)) % 2).tolist()
    np.testing.assert_array_equal(data.X, ROWS)


def test_a_matrix_of_matlab_with_one_row_keeps_its_columns(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "row.mat", {"X": ROWS[:1]})
    np.testing.assert_array_equal(read(tmp_path / "row.mat")[0].X, ROWS[:1])


def test_a_variable_of_matlab_is_named(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "rows.mat", {"P": ROWS, "Q": 2 * ROWS})
    np.testing.assert_array_equal(read(tmp_path / "rows.mat", member=":Q")[0].X, 2 * ROWS)
    with pytest.raises(BadUsage, match="has no such variable"):
        read(tmp_path / "rows.mat", member=":R")


def test_matlab_4_is_read(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "rows.mat", {"X": ROWS}, format="4")
    np.testing.assert_array_equal(read(tmp_path / "rows.mat")[0].X, ROWS)


def test_hidden_files_of_an_archive_are_no_tables_and_text_is_decoded(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "rows.zip", "w") as archive:
        archive.writestr("d/rows.csv", "größe,b\n1.5,2\n3,4\n".encode("utf-16"))
        archive.writestr("d/.DS_Store", b"\0\1")
        archive.writestr("__MACOSX/d/._rows.csv", b"\0\5")
    data, notes = read(tmp_path / "rows.zip")
    assert (data.feature_names, data.X.tolist()) == (["größe", "b"], [[1.5, 2], [3, 4]])
    assert "read as utf-16" in notes[0]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_in_any_script(tmp_path: Path, encoding: str) -> None:
    data, _ = read(tmp_path / "rows.csv", "рост,вес\n1.5,2\n3,4\n".encode(encoding))
    assert (data.feature_names, data.X.tolist()) == (["рост", "вес"], [[1.5, 2], [3, 4]])


def test_other_files_in_a_folder_of_parquet_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    folder.mkdir()
    parquet(folder / "part-0.parquet", a=[1, 2], b=[3, 4])
    for name in ("more.csv", "_SUCCESS", ".part-0.parquet.crc"):
        (folder / name).write_text("")
    assert read(folder)[1] == ["1 Parquet files are read; ignored more.csv"]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["5 kg", "7 kg", "9.5 kg"], "column 'a' has '5 kg' in row 0, a number with the unit 'kg'"),
        (["1.5k", "2M", "9"], "column 'a' has '2M' in row 1, a number with the unit 'M'"),
        (["1.5-", "3-", "5"], "column 'a' has '1.5-' in row 0, which is not a number"),
        (["1_000", "2_000", "5"], "column 'a' has '1_000' in row 0, which is not a number"),
        (["1", "3\0", "5"], "line 3 has a character of code 0"),
    ],
)
def test_numbers_beside_units_are_refused(tmp_path: Path, cells: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path / "rows.csv", "a,b\n" + "".join(f"{cell},{row}\n" for row, cell in enumerate(cells)))


@pytest.mark.parametrize("cells", [["10mg", "20mg"] * 3, ["1st", "2nd", "3rd", "4th"], ["12A", "13B", "14C"], ["A1", "B2", "C3"]])
def test_classes_that_begin_with_a_number_stay_text(tmp_path: Path, cells: list[str]) -> None:
    data, notes = read(tmp_path / "rows.csv", "a,b\n" + "".join(f"{cell},{row}\n" for row, cell in enumerate(cells)))
    assert data.feature_names == ["b"]
    assert notes[0].startswith("these parts of the file are not used: a")


@pytest.mark.parametrize(
    ("texts", "unit"),
    [
        (["5 kg", "7kg"], "kg"),
        (["1.5", "2 µm"], "µm"),
        (["<5", "7"], "<"),
        (["3 m/s²", "4 m/s²"], "m/s²"),
        (["1k", "x"], None),
        (["1a", "2b"], None),
    ],
)
def test_the_unit_of_numbers(texts: list[str], unit: str | None) -> None:
    assert common_unit(texts) == unit


def test_a_trailing_minus_and_an_en_dash_are_read(tmp_path: Path) -> None:
    with use_dialect(TextDialect(currency=True)):
        assert read(tmp_path / "rows.csv", "a,b\n1.50-,1\n3-,2\n5,3\n")[0].X[:, 0].tolist() == [-1.5, -3, 5]
    assert read(tmp_path / "rows.csv", "a,b\n\u20131.5,1\n\u20133,2\n5,3\n")[0].X[:, 0].tolist() == [-1.5, -3, 5]


def test_a_bare_number_among_percentages_is_refused(tmp_path: Path) -> None:
    with use_dialect(TextDialect(percent=True)):
        with pytest.raises(DataError, match="column 'a' has '7' in row 1 without a percent sign, among percentages"):
            read(tmp_path / "rows.csv", "a,b\n12.5%,1\n7,2\n0.5%,3\n")
        assert read(tmp_path / "rows.csv", "a,b\n12.5%,1\n0,2\n0.5%,3\n")[0].X[:, 0].tolist() == [0.125, 0, 0.005]


def test_a_separator_that_ends_rows_without_names_makes_no_column(tmp_path: Path) -> None:
    data, notes = read(tmp_path / "rows.csv", "1.5,2,\n3,4,\n-5.25,6,\n")
    np.testing.assert_array_equal(data.X, ROWS)
    assert notes == ["left out the separator at the end of each row"]
    late = "1.5,2,\n" * 150 + "3,4,7\n"
    with pytest.raises(DataError, match="row 150 has a value after its last separator, but the first rows have none there"):
        read(tmp_path / "rows.csv", late)


def test_a_list_of_pretty_objects_stays_one_list(tmp_path: Path) -> None:
    data, _ = read(tmp_path / "rows.json", json.dumps([{"a": 1.5, "b": 2}, {"a": 3, "b": 4}], indent=1))
    assert data.X.tolist() == [[1.5, 2], [3, 4]]
