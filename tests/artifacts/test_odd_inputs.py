"""Odd but readable files are refused or understood by what they say, never by an accident further down."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from herdcli.artifacts import load, save
from herdcli.artifacts.dataset import Dataset
from herdcli.errors import DataError

ROWS = np.arange(6, dtype=np.uint8).reshape(3, 2) % 2


def refusal(path: Path, **options: object) -> str:
    """What `load` says when it refuses a file, with no warning on the way."""
    with warnings.catch_warnings(), pytest.raises(DataError) as found:
        warnings.simplefilter("error")
        load(str(path), **options)  # type: ignore[arg-type]
    return found.value.message


def csr(**changes: np.ndarray) -> dict[str, np.ndarray]:
    parts = {"data": np.ones(3), "indices": np.array([0, 1, 2]), "indptr": np.array([0, 3]), "shape": np.array([1, 4])}
    return parts | changes


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        (csr(indices=np.array([0, 1, 99])), "the sparse matrix is damaged: indices must lie in 0 … 3"),
        (csr(indices=np.array([0, 1, -1])), "the sparse matrix is damaged: indices must lie in 0 … 3"),
        (csr(data=np.array(["a", "b", "c"])), "the sparse matrix is damaged: a CSR matrix has numbers"),
        (csr(indptr=np.array([0.0, 3.0])), "the sparse matrix is damaged: a CSR matrix has numbers"),
        ({"X": ROWS, "weight": np.array(["a", "b", "c"])}, "/weight has the type <U1, but must have numbers"),
        ({"X": ROWS, "weight": np.ones(3) * 1j}, "/weight has the type complex128, but must have numbers"),
        ({"X": ROWS, "split": np.array([0, 0.5, 2])}, "/split has the value 0.5 in row 1, but must be 0 (train), 1 (valid) or 2 (test)"),
        ({"X": ROWS, "image_shape": np.array([np.inf, 2])}, "attribute image_shape is [inf  2.], but must have two numbers"),
    ],
)
def test_npz_with_wrong_parts_is_refused_by_what_is_wrong(tmp_path: Path, arrays: dict[str, np.ndarray], says: str) -> None:
    np.savez(tmp_path / "odd.npz", **arrays)
    assert refusal(tmp_path / "odd.npz").startswith(says)


@pytest.mark.parametrize("header", [b'{"a": __import__}', b"{'descr': '|u1', 'fortran_order': False, 'shape': (2,", b"(" * 16])
def test_npz_with_a_damaged_array_header_is_refused(tmp_path: Path, header: bytes) -> None:
    with zipfile.ZipFile(tmp_path / "odd.npz", "w") as archive:
        archive.writestr("X.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    assert refusal(tmp_path / "odd.npz").startswith("the NPZ file cannot be read (")


def test_parquet_with_a_ragged_attribute_is_refused(tmp_path: Path) -> None:
    table = pa.table({"a": [0, 1]}).replace_schema_metadata({b"value_range": b"[[1], [2, 3]]"})
    pq.write_table(table, tmp_path / "odd.parquet")
    assert refusal(tmp_path / "odd.parquet") == "attribute value_range is [[1], [2, 3]], but must have two numbers"


@pytest.mark.parametrize(
    ("text", "says"), [("a,weight\n1,x\n0,z\n", "/weight has the type"), ("a,y\n1,left\n0,\n", "column 'y' has 1 missing value")]
)
def test_csv_with_a_wrong_role_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "odd.csv").write_text(text)
    assert refusal(tmp_path / "odd.csv").startswith(says)


def test_blanks_around_the_names_of_csv_columns_are_no_part_of_them(tmp_path: Path) -> None:
    (tmp_path / "blanks.csv").write_text("a, b, y \n1, 0, 1\n0, 1, 0\n")
    data: Dataset = load(str(tmp_path / "blanks.csv")).value
    assert data.X.tolist() == [[1, 0], [0, 1]]
    assert np.asarray(data.y).tolist() == [1, 0]
    assert data.feature_names == ["a", "b"]


def test_integers_beyond_64_bits_keep_their_value(tmp_path: Path) -> None:
    columns = {"a": pa.array([2**64 - 1], pa.uint64()), "b": pa.array([-1])}
    for name, chosen in (("unsigned", ["a"]), ("both", ["a", "b"])):
        pq.write_table(pa.table({key: columns[key] for key in chosen}), tmp_path / f"{name}.parquet")
    assert load(str(tmp_path / "unsigned.parquet")).value.X.tolist() == [[2**64 - 1]]
    assert load(str(tmp_path / "both.parquet")).value.X.tolist() == [[2.0**64, -1.0]]


@pytest.mark.parametrize("suffix", ["h5", "parquet"])
def test_a_label_named_for_a_sealed_data_set_is_said_to_do_nothing(tmp_path: Path, suffix: str) -> None:
    said: list[str] = []
    save(str(tmp_path / f"sealed.{suffix}"), Dataset(ROWS, y=np.array([0, 1, 0])), [])
    load(str(tmp_path / f"sealed.{suffix}"), label="z", note=said.append)
    assert said == [f"{tmp_path}/sealed.{suffix}: --label is ignored because a sealed file keeps its own labels"]


def test_csv_in_another_encoding_beyond_its_head_is_refused(tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("a,y\n" + "1,sauer\n" * 20_000 + "1,süß\n", encoding="latin-1")
    assert refusal(tmp_path / "odd.csv", input_format="csv") == "column 'y' has text that is not UTF-8"


def test_labels_as_bytes_are_text(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [0, 1], "y": [b"left", "rechts ü".encode()]}), tmp_path / "bytes.parquet")
    assert load(str(tmp_path / "bytes.parquet")).value.class_names == ["left", "rechts ü"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<!DOCTYPE html>\n<html><body>a,b</body></html>\n", "is an HTML page, not a data set"),
        ("<html>\n<p>1,2</p>\n</html>\n", "is an HTML page, not a data set"),
        ('<?xml version="1.0"?>\n<rows><row a="1"/></rows>\n', "is XML, which herd does not read as a data set"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 12\n", "is a pointer of Git LFS, not the file itself"),
        ("a,b", "has no rows below its first line"),
        ("404: Not Found", "has no rows below its first line"),
    ],
)
def test_text_that_is_no_table_is_named(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "rows.csv").write_text(text)
    assert refusal(tmp_path / "rows.csv") == says


def test_a_byte_order_mark_is_no_part_of_the_first_label(tmp_path: Path) -> None:
    (tmp_path / "rows.svm").write_bytes(b"\xef\xbb\xbf1 1:1.5 2:2\n0 1:3 2:4\n")
    data = load(str(tmp_path / "rows.svm")).value
    assert data.y.tolist() == [1, 0]
    assert data.X.toarray().tolist() == [[1.5, 2], [3, 4]]
