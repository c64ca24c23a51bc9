"""Files as other programs leave them: archives, streams, folders, encodings, links, and data inside files."""

from __future__ import annotations

import gzip
import os
import threading
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
from herdcli.dialect import TextDialect, use_dialect
from herdcli.errors import BadUsage, DataError

X = np.array([[1.5, 2], [3, 4], [5, 6], [7, 8]])
TEXT = "a,b,y\n1.5,2,l\n3,4,r\n5,6,l\n7,8,r\n"


def _load(path: Path | str, **options: Any) -> tuple[Dataset, list[str]]:
    told: list[str] = []
    return load(str(path), note=told.append, **options).value, told


def _names(data: Dataset) -> list[str]:
    assert data.y is not None
    assert data.class_names is not None
    return [data.class_names[label] for label in data.y.tolist()]


def test_cells_of_text_in_matlab_are_labels(tmp_path: Path) -> None:
    """A cell array of strings; what is neither numbers nor text is told."""
    cells = np.array([["l"], ["r"], ["l"], ["r"]], dtype=object)
    scipy.io.savemat(tmp_path / "a.mat", {"X": X, "y": cells, "info": {"who": "me"}, "mixed": np.array([["a"], [1.0]], dtype=object)})
    data, told = _load(tmp_path / "a.mat")
    np.testing.assert_array_equal(data.X, X)
    assert _names(data) == ["l", "r", "l", "r"]
    assert any("are not used: info, mixed" in line for line in told)


def test_enumerations_of_hdf5_are_their_names(tmp_path: Path) -> None:
    """As labels; a matrix of them is numbers."""
    kind = h5py.enum_dtype({"left": 0, "right": 1}, basetype="i1")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"] = X
        file.create_dataset("y", data=[0, 1, 0, 1], dtype=kind)
    assert _names(_load(tmp_path / "a.h5")[0]) == ["left", "right", "left", "right"]
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file.create_dataset("X", data=[[0, 1], [1, 0]], dtype=kind)
    np.testing.assert_array_equal(_load(tmp_path / "b.h5")[0].X, [[0, 1], [1, 0]])


def test_soft_links_lead_to_datasets_and_groups_of_the_same_file(tmp_path: Path) -> None:
    """Others are refused."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["raw/values"], file["raw/labels"] = X, [0, 1, 0, 1]
        file["X"], file["y"] = h5py.SoftLink("/raw/values"), h5py.SoftLink("raw/labels")
        file["again"] = h5py.SoftLink("/raw")
    data, _ = _load(tmp_path / "a.h5")
    np.testing.assert_array_equal(data.X, X)
    assert np.asarray(data.y).tolist() == [0, 1, 0, 1]
    np.testing.assert_array_equal(_load(f"{tmp_path}/a.h5:/again/values")[0].X, X)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["X"] = h5py.SoftLink("/nothing")
    with pytest.raises(DataError, match="/X is a soft link to /nothing, which does not exist"):
        _load(tmp_path / "b.h5")
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["X"] = h5py.ExternalLink("a.h5", "/raw/values")
    with pytest.raises(DataError, match="is a link to another file; herd does not read linked data"):
        _load(tmp_path / "c.h5")


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_matrices_of_scipy_are_read_in_every_form(tmp_path: Path, form: str) -> None:
    """Of scipy.sparse.save_npz."""
    dense = np.array([[0, 2, 0], [1, 0, 0], [0, 0, 3]])
    sparse.save_npz(tmp_path / "a.npz", sparse.csr_matrix(dense).asformat(form))
    np.testing.assert_array_equal(_load(tmp_path / "a.npz")[0].X.toarray(), dense)


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_streams_of_arrow_are_read_from_a_file_and_from_a_pipe(tmp_path: Path) -> None:
    """Compressed or not."""
    raw = _stream(pa.table({"a": [1.5, 3], "y": ["l", "r"]}))
    (tmp_path / "a.arrows").write_bytes(raw)
    (tmp_path / "a.arrows.gz").write_bytes(gzip.compress(raw))
    os.mkfifo(tmp_path / "pipe")
    threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(raw), daemon=True).start()
    for name in ("a.arrows", "a.arrows.gz", "pipe"):
        data, _ = _load(tmp_path / name)
        np.testing.assert_array_equal(data.X, [[1.5], [3]])
        assert _names(data) == ["l", "r"]
    (tmp_path / "cut.arrows").write_bytes(raw[:100])
    with pytest.raises(DataError, match="the Arrow file cannot be read"):
        _load(tmp_path / "cut.arrows")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252", "utf-8-sig"])
def test_text_in_another_encoding_is_guessed_and_told(tmp_path: Path, encoding: str) -> None:
    """By its byte order mark, its zeros, or since it is no UTF-8."""
    text = "größe,b,y\n1,2,süß\n3,4,bitter\n" * 1
    text = text.replace("süß", "„süß“") if encoding == "cp1252" else text
    (tmp_path / "a.csv").write_bytes(text.encode(encoding))
    data, told = _load(tmp_path / "a.csv")
    np.testing.assert_array_equal(data.X, [[1, 2], [3, 4]])
    assert data.feature_names == ["größe", "b"]
    assert _names(data) == [text.splitlines()[1].split(",")[2], "bitter"]
    assert any(f"read as {encoding.removesuffix('-sig')}" in line for line in told) == (encoding != "utf-8-sig")


def test_a_declared_encoding_is_not_guessed(tmp_path: Path) -> None:
    """Nor is what is declared, and is none, read."""
    (tmp_path / "a.csv").write_bytes("имя,b\n1,2\n3,4\n".encode("koi8-r"))
    with use_dialect(TextDialect(encoding="koi8-r")):
        data, told = _load(tmp_path / "a.csv")
    assert data.feature_names == ["имя", "b"]
    assert not any("read as" in line for line in told)
    (tmp_path / "b.csv").write_bytes("größe,b\n1,2\n".encode("latin-1"))
    with use_dialect(TextDialect(encoding="ascii")), pytest.raises(DataError, match="the text is not in the encoding ascii"):
        _load(tmp_path / "b.csv")


def test_damaged_utf8_is_not_taken_for_another_encoding(tmp_path: Path) -> None:
    """Where most of its characters are whole."""
    raw = "größe,b,y\n1,2,süß\n3,4,über\n".encode()
    (tmp_path / "a.csv").write_bytes(raw.replace("über".encode(), b"\xfcber"))
    with pytest.raises(DataError, match="that is not UTF-8") as raised:
        _load(tmp_path / "a.csv")
    assert raised.value.hint == "declare its encoding, as in --encoding latin-1"


def test_a_table_in_an_archive_is_read(tmp_path: Path) -> None:
    """The only one, or the one that is named."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rows.csv", TEXT)
        archive.writestr("__MACOSX/._rows.csv", "x")
    data, _ = _load(tmp_path / "a.zip")
    np.testing.assert_array_equal(data.X, X)
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("rows.csv", TEXT)
        archive.writestr("other/rows.json", '{"a": 1, "b": 2}\n')
    with pytest.raises(BadUsage, match="has 2 files") as raised:
        _load(tmp_path / "b.zip")
    assert raised.value.hint == f"name one of rows.csv, other/rows.json, as in {tmp_path}/b.zip:rows.csv"
    np.testing.assert_array_equal(_load(f"{tmp_path}/b.zip:other/rows.json")[0].X, [[1, 2]])
    with pytest.raises(BadUsage, match="has no such file"):
        _load(f"{tmp_path}/b.zip:rows.txt")


def test_a_folder_of_parquet_files_is_one_table(tmp_path: Path) -> None:
    """With the columns that the names of folders say."""
    for year, part in ((2020, "0"), (2021, "0"), (2021, "1")):
        folder = tmp_path / "t" / f"year={year}"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"a": [float(part)], "y": ["l" if part == "0" else "r"]}), folder / f"part-{part}.parquet")
    (tmp_path / "t" / "_SUCCESS").write_text("")
    data, _ = _load(tmp_path / "t")
    np.testing.assert_array_equal(data.X, [[0, 2020], [0, 2021], [1, 2021]])
    assert (data.feature_names, _names(data)) == (["a", "year"], ["l", "l", "r"])
    pq.write_table(pa.table({"b": [1.0], "y": ["l"]}), tmp_path / "t" / "year=2021" / "part-2.parquet")
    with pytest.raises(DataError, match=r"has other columns than year=2020/part-0\.parquet"):
        _load(tmp_path / "t")


def test_ten_x_matrices_have_a_row_for_each_cell(tmp_path: Path) -> None:
    """Genes by their names, of which the second of two alike gets a number."""
    dense = np.array([[1, 0, 2], [0, 3, 0]])  # cells × genes
    genes = sparse.csr_matrix(dense)
    with h5py.File(tmp_path / "m.h5", "w") as file:
        group = file.create_group("matrix")
        group["data"], group["indices"], group["indptr"] = genes.data, genes.indices.astype("i8"), genes.indptr
        group["shape"], group["barcodes"] = np.array([3, 2], "i4"), np.array([b"AAAC", b"AAAG"])
        group["features/name"] = np.array([b"TP53", b"MATR3", b"MATR3"])
        group["features/id"] = np.array([b"1", b"2", b"3"])
    data, _ = _load(tmp_path / "m.h5")
    np.testing.assert_array_equal(data.X.toarray(), dense)
    assert data.feature_names == ["TP53", "MATR3", "MATR3-1"]


def test_dimensions_of_netcdf_without_coordinates_are_no_data(tmp_path: Path) -> None:
    """Nor are stored values what their attributes make of them."""
    with h5py.File(tmp_path / "a.nc", "w") as file:
        for name, size in (("time", 4), ("lat", 2)):
            scale = file.create_dataset(name, shape=(size,), dtype=">f4")
            scale.make_scale(f"This is a netCDF dimension but not a netCDF variable.{size:10d}")
        file["temperature"] = (X * 10).astype(">i2")
        file["temperature"].attrs["scale_factor"] = 0.1
        file["temperature"].dims[0].attach_scale(file["time"])
    data, told = _load(tmp_path / "a.nc")
    np.testing.assert_allclose(data.X, X)
    assert any("rows are read from /temperature" in line for line in told)


def test_a_path_in_a_file_names_its_rows(tmp_path: Path) -> None:
    """A dataset, with its labels beside it, or a group; and what there is where the choice is not clear."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["run1/x_raw"], file["run1/y"] = X, [0, 1, 0, 1]
        file["run2/X"], file["run2/y"] = 2 * X, [1, 1, 0, 0]
    path = tmp_path / "a.h5"
    with pytest.raises(DataError, match=r"has no dataset /X \(it has /run1/x_raw \(4×2\), ") as raised:
        _load(path)
    assert raised.value.hint == f"name its rows: {path}:/run1/x_raw"
    first, second = _load(f"{path}:/run1/x_raw")[0], _load(f"{path}:/run2")[0]
    np.testing.assert_array_equal(first.X, X)
    np.testing.assert_array_equal(second.X, 2 * X)
    assert np.asarray(first.y).tolist() == [0, 1, 0, 1]
    assert np.asarray(second.y).tolist() == [1, 1, 0, 0]
    with pytest.raises(BadUsage, match="has no dataset /run3") as usage:
        _load(f"{path}:/run3")
    assert "/run1/x_raw (4×2)" in str(usage.value.hint)


def test_a_sheet_is_named_and_others_are_told(tmp_path: Path) -> None:
    """The first is read where none is named."""
    book = openpyxl.Workbook()
    for sheet, factor in ((book.active, 1), (book.create_sheet("More"), 10)):
        for row in [["a", "b"], [factor, 2 * factor], [3 * factor, 4 * factor]]:
            sheet.append(row)
    path = tmp_path / "a.xlsx"
    book.save(path)
    data, told = _load(path)
    np.testing.assert_array_equal(data.X, [[1, 2], [3, 4]])
    assert told[0] == f"{path}: read sheet 'Sheet' of Sheet, More; {path}:More reads another"
    np.testing.assert_array_equal(_load(f"{path}:More")[0].X, [[10, 20], [30, 40]])
    with pytest.raises(BadUsage, match="has no such sheet") as raised:
        _load(f"{path}:Other")
    assert raised.value.hint == "it has Sheet, More"


def test_a_file_without_parts_has_none_to_name(tmp_path: Path) -> None:
    """And a name with a colon is a name."""
    (tmp_path / "a.csv").write_text(TEXT)
    with pytest.raises(BadUsage, match="has the format csv, in which no part can be named after a colon"):
        _load(f"{tmp_path}/a.csv:b")
    (tmp_path / "a:b.csv").write_text(TEXT)
    np.testing.assert_array_equal(_load(tmp_path / "a:b.csv")[0].X, X)


@pytest.mark.filterwarnings("error")
def test_arrays_saved_by_python_2_are_read_without_a_warning(tmp_path):
    rows = np.arange(6.0).reshape(3, 2)
    np.save(tmp_path / "new.npy", rows)
    old = (tmp_path / "new.npy").read_bytes().replace(b"(3, 2)  ", b"(3L, 2L)")
    (tmp_path / "old.npy").write_bytes(old)
    with zipfile.ZipFile(tmp_path / "old.npz", "w") as archive:
        archive.writestr("X.npy", old)
    for name in ("old.npy", "old.npz"):
        np.testing.assert_array_equal(load(str(tmp_path / name)).value.X, rows)


def test_a_member_without_a_name_is_left_out(tmp_path):
    """Python's own test for folders fails for such a name."""
    with zipfile.ZipFile(tmp_path / "table.zip", "w") as archive:
        archive.writestr("t.csv", b"a,b\n1,2\n3,5\n")
        archive.writestr("x", b"nothing")
        archive.filelist[-1].filename = ""
    np.testing.assert_array_equal(load(str(tmp_path / "table.zip")).value.X, [[1, 2], [3, 5]])


def test_text_that_is_not_utf_8_is_refused(tmp_path):
    pq.write_table(
        pa.table({"a": [1.5, 2.5, 3.5], "t": ["one", "two", "six"]}), tmp_path / "t.parquet", use_dictionary=False, compression="none"
    )
    content = (tmp_path / "t.parquet").read_bytes().replace(b"two", b"t\xa2o")
    (tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"the Parquet file cannot be read .*Invalid UTF8"):
        load(str(tmp_path / "t.parquet"))
