"""Data sets in CSV, NPZ, svmlight and Parquet: the same rows whatever the format; what is no data set is refused."""

from __future__ import annotations

import io
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, save_npz

from herdcli.artifacts import Dataset, load, save
from herdcli.artifacts.formats.format_detection import detect_format
from herdcli.artifacts.text import svmlight
from herdcli.errors import BadUsage, DataError

SEALED = ("h5", "parquet")
EXPORTS = ("npz", "csv", "svmlight")


def dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "indptr") else X


@pytest.mark.parametrize("suffix", [*SEALED, *EXPORTS])
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "?"])
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_and_labels_survive_every_format(tmp_path: Path, suffix: str, dtype: str, sparse: bool) -> None:
    grid = np.random.default_rng(2).random((9, 5))
    X = np.where(grid < 0.5, 0, np.round(grid * 100, 3)).astype(dtype)
    X[:, -1] = X[0] = 1  # svmlight: the last index is named
    data = Dataset(X=csr_matrix(X) if sparse else X, y=np.arange(9) % 3, split=np.arange(9, dtype=np.uint8) % 3)
    save(str(tmp_path / f"data.{suffix}"), data, [{"command": "test"}])
    artifact = load(str(tmp_path / f"data.{suffix}"))
    back = artifact.value
    assert np.array_equal(dense(back.X).astype(dtype), X)
    assert back.y.tolist() == data.y.tolist()
    assert artifact.sealed == (suffix in SEALED)
    if suffix in SEALED:
        assert (back.X.dtype, back.is_sparse, artifact.history) == (X.dtype, sparse, [{"command": "test"}])
    if suffix != "svmlight":
        assert back.split.tolist() == data.split.tolist()


@pytest.mark.parametrize("suffix", ["h5", "parquet", "npz"])
def test_everything_a_data_set_says_survives(tmp_path: Path, dataset: Dataset, suffix: str) -> None:
    save(str(tmp_path / f"data.{suffix}"), dataset, [])
    back = load(str(tmp_path / f"data.{suffix}")).value
    for name, value in vars(dataset).items():
        assert np.array_equal(getattr(back, name), value), name
        assert type(getattr(back, name)) is type(value)


def test_bytes_from_text_stay_bytes(tmp_path: Path, dataset: Dataset) -> None:
    for suffix in ("csv", "svmlight"):
        save(str(tmp_path / f"data.{suffix}"), replace(dataset, class_names=None), [])
        assert load(str(tmp_path / f"data.{suffix}")).value.X.dtype == np.uint8


def read_text(tmp_path: Path, text: str, name: str = "data.csv", **options: Any) -> Any:
    (tmp_path / name).write_text(text)
    return load(str(tmp_path / name), **options).value


@pytest.mark.parametrize(
    ("text", "X", "y", "classes"),
    [
        ("1,2\n3,4\n", [[1, 2], [3, 4]], None, None),
        ("a;b;class\n1.5;2;x\n3;4;w\n", [[1.5, 2], [3, 4]], [1, 0], ["w", "x"]),
        ("# made by hand\n# twice\nLabel\tu\tv\n7\t1\t2\n8\t3\t4\n", [[1, 2], [3, 4]], [7, 8], None),
        ("\ufeffu,v,target\n1,2,0\n3,4,1\n", [[1, 2], [3, 4]], [0, 1], None),
        ("u v\n1 2\n3 4\n", [[1, 2], [3, 4]], None, None),
        ('u,"v,w",y,when\n1,2,0,may\n3,4,1,june\n', [[1, 2], [3, 4]], [0, 1], None),
        ("u,v\r\n1,2\r\n3,4\r\n", [[1, 2], [3, 4]], None, None),
    ],
)
def test_csv_as_people_write_it(tmp_path: Path, text: str, X: Any, y: Any, classes: Any) -> None:
    data = read_text(tmp_path, text)
    assert data.X.tolist() == X
    assert (None if data.y is None else data.y.tolist()) == y
    assert data.class_names == classes


def test_the_label_column_can_be_named(tmp_path: Path) -> None:
    data = read_text(tmp_path, "y,v,w\n1,2,0\n3,4,1\n", label="w")
    assert (data.X.tolist(), data.y.tolist(), data.feature_names) == ([[1, 2], [3, 4]], [0, 1], ["y", "v"])
    with pytest.raises(BadUsage, match="has no column or array 'z'"):
        read_text(tmp_path, "y,v\n1,2\n", label="z")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("u,v\n", "no rows"),
        ("u,v\n1,2\n3\n", "row 1 has 1 values, expected 2"),
        ("u,v\n1,2\n,4\n5,nan\n", "column 'u' has 1 missing value .first: row 1"),
        ("u,v\n1,2\n3,4\n5,6o\n7,8\n", "column 'v' has '6o' in row 2"),
        ("u,v\nhello,world\nx,y\n", "no column of numbers"),
        ("u,u\n1,2\n", "appears twice"),
        ("u,v\n1,inf\n", "infinite"),
        ("# nothing\n\n", "the file has no lines of data"),
        ("u,split\n1,7\n", "/split has the value 7"),
        ("u,split\n1,never\n", "/split has the value 'never'"),
        ("MARKOV\n2\n", "UAI network"),
        ("network alarm {\n", "BIF network"),
        ("1 |f a:1 b:2\n", "Vowpal Wabbit"),
        ("a\0b\x01\x02\x03" * 300, "format of the file is not recognised"),
    ],
)
def test_text_that_is_no_data_set_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_text(tmp_path, text)


def test_numbers_alone_are_told_apart_by_the_suffix(tmp_path: Path) -> None:
    assert read_text(tmp_path, "1\n2\n").X.tolist() == [[1], [2]]
    assert read_text(tmp_path, "1\n2\n3 4:1\n", "data.txt").X.shape == (3, 4)
    with pytest.raises(DataError, match="every line has one number"):
        read_text(tmp_path, "1\n2\n", "data.txt")
    assert read_text(tmp_path, "1\n2\n", "data.txt", input_format="csv").X.shape == (2, 1)


labels = st.sampled_from(["+1", "-1", "3", "0"])
numbers = st.floats(-1e30, 1e30).map(repr) | st.just("1")
rows = st.lists(st.tuples(labels, st.dictionaries(st.integers(1, 40), numbers)), min_size=1)


@settings(max_examples=80, deadline=None)
@given(rows, st.sampled_from([" ", "  ", "\t"]), st.sampled_from(["\n", "\r\n", " # note 3:4\n", "\n\n"]), st.booleans())
def test_svmlight_agrees_with_reading_token_by_token(rows: Any, blank: str, end: str, shuffled: bool) -> None:
    lines = []
    for label, pairs in rows:
        ordered = sorted(pairs.items(), reverse=shuffled)
        lines.append(blank.join([label, *(f"{index}:{value}" for index, value in ordered)]) + end)
    text = "".join(lines).encode()
    if not any(pairs for _, pairs in rows):
        with pytest.raises(DataError, match="the rows have no features"):
            svmlight.parse_svmlight(io.BytesIO(text), where="test")
        return
    X, y = svmlight.parse_svmlight(io.BytesIO(text), where="test")
    assert y.tolist() == [float(label) for label, _ in rows]
    expected = np.zeros((len(rows), max(max(pairs, default=0) for _, pairs in rows)))
    for row, (_, pairs) in enumerate(rows):
        for index, value in pairs.items():
            expected[row, index - 1] = float(value)
    assert np.array_equal(X.toarray(), expected)


def test_svmlight_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"".join(b"%d 1:%d 9:0.5\n" % (row % 2, row) for row in range(200)).removesuffix(b"\n")
    whole, _ = svmlight.parse_svmlight(io.BytesIO(text), where="test")
    monkeypatch.setattr(svmlight, "BLOCK", 13)
    pieces, _ = svmlight.parse_svmlight(io.BytesIO(text), where="test")
    assert (whole != pieces).nnz == 0
    assert whole.shape == pieces.shape == (200, 9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:1\n1 2\n", "line 2 has '2' where index:value"),
        ("1 1:1\nx 2:1\n", "line 2 has 'x' where a label"),
        ("1 1:1\n1 2:\n", "line 2 has '2:'"),
        ("1 1:1\n1 :2\n", "line 2 has ':2'"),
        ("1 1:1\n1 1:2:3\n", "line 2 has '1:2:3'"),
        ("1 1:1\n1 1.5:2\n", "line 2 has '1.5:2'"),
        ("1 1:1\n1 -1:2\n", "line 2 has '-1:2'"),
        ("1 1:1\n1 99999999999:2\n", "line 2 has '99999999999:2'"),
        ("1 1:1 1:2\n", "same feature index twice"),
        ("1 1:nan\n", "/X has 1 NaN row"),
        ("0.5 1:1\n", "labels must be whole numbers"),
        ("1 1:1e\n", "line 1 has '1:1e'"),
    ],
)
def test_malformed_svmlight_names_the_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_text(tmp_path, text, "data.svmlight", input_format="svmlight")


def test_an_index_of_zero_means_counting_from_zero(tmp_path: Path) -> None:
    assert read_text(tmp_path, "1 0:5 2:6\n", "data.svm").X.toarray().tolist() == [[5, 0, 6]]


def test_scipy_matrices_are_read(tmp_path: Path) -> None:
    X = csr_matrix(np.eye(3, dtype=np.float32))
    save_npz(tmp_path / "data.npz", X)
    assert (load(str(tmp_path / "data.npz")).value.X != X).nnz == 0


def npz_of(path: Path, **members: bytes | np.ndarray) -> str:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            buffer = io.BytesIO()
            if not isinstance(content, bytes):
                np.lib.format.write_array(buffer, content)
            archive.writestr(f"{name}.npy", content if isinstance(content, bytes) else buffer.getvalue())
    return str(path)


def test_hostile_npz_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, X=np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="array X has Python objects"):
        load(str(path))
    npz_of(path, X=pickle.dumps([1, 2]))
    with pytest.raises(DataError, match="cannot be read"):
        load(str(path))
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40, 8)})
    with pytest.raises(DataError, match="its header says"):
        load(npz_of(path, X=buffer.getvalue()))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", bytes(50_000_000))
    with pytest.raises(DataError, match="more than the"):
        load(str(path), max_memory=10_000_000)
    with pytest.raises(DataError, match=r"has no array X \(it has rows\)"):
        load(npz_of(path, rows=np.eye(2)))


def test_every_byte_of_an_npz_counts(tmp_path: Path, dataset: Dataset) -> None:
    path = tmp_path / "data.npz"
    save(str(path), replace(dataset, feature_names=None, class_names=None), [])
    whole = path.read_bytes()
    for length in range(0, len(whole), 17):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError):
            load(str(path))
    start = whole.index(bytes(range(24)))
    for byte in range(start, start + 24):
        path.write_bytes(whole[:byte] + bytes([whole[byte] ^ 4]) + whole[byte + 1 :])
        with pytest.raises(DataError, match="CRC"):
            load(str(path))


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (pickle.dumps({"a": 1}), "a Python pickle"),
        (b"RDX3", "an R workspace"),
    ],
)
def test_formats_that_are_not_read_are_named_with_a_way_out(head: bytes, what: str) -> None:
    with pytest.raises(DataError, match=f"is {what}") as caught:
        detect_format(head, "data")
    assert caught.value.hint


def test_people_s_parquet_loads(tmp_path: Path) -> None:
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(12, dtype=np.uint8)), 3)
    table = pa.table({"x": lists, "y": pa.array([3, 1, 2, 0], pa.int8()), "phoneme": ["a", "b", "c", "d"]})
    pq.write_table(table.replace_schema_metadata({"value_range": "[0, 255]", "image_shape": "[1, 3]"}), tmp_path / "data.parquet")
    said: list[str] = []
    artifact = load(str(tmp_path / "data.parquet"), note=said.append)
    data = artifact.value
    assert (data.X.tolist(), data.X.dtype, data.y.tolist()) == (np.arange(12).reshape(4, 3).tolist(), np.uint8, [3, 1, 2, 0])
    assert (data.value_range.tolist(), data.image_shape.tolist(), artifact.sealed) == ([0, 255], [1, 3], False)
    assert said == [f"{artifact.name}: these parts of the file are not used: phoneme"]


def test_lists_of_equal_length_are_rows(tmp_path: Path) -> None:
    path = str(tmp_path / "data.parquet")
    pq.write_table(pa.table({"x": [[1.0, 2.0], [3.0, 4.0]], "y": ["b", "a"]}), path)
    data = load(path).value
    assert (data.X.tolist(), data.y.tolist(), data.class_names) == ([[1, 2], [3, 4]], [1, 0], ["a", "b"])
    pq.write_table(pa.table({"x": [[1.0, 2.0], [3.0]]}), path)
    with pytest.raises(DataError, match="column 'x' has 1 values in row 1 and 2 in row 0"):
        load(path)


def test_a_sealed_table_changed_or_cut_anywhere_is_refused(tmp_path: Path, dataset: Dataset) -> None:
    path = tmp_path / "data.parquet"
    save(str(path), dataset, [])
    whole = path.read_bytes()
    rng = np.random.default_rng(5)
    places = [*range(8), *range(len(whole) - 120, len(whole)), *rng.integers(0, len(whole), 250).tolist()]
    for byte in places:
        path.write_bytes(whole[:byte] + bytes([whole[byte] ^ (1 << byte % 8)]) + whole[byte + 1 :])
        with pytest.raises(DataError):
            load(str(path))
    for length in range(0, len(whole), 61):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError):
            load(str(path))


def test_a_table_rewritten_by_another_program_is_an_unsealed_data_set(tmp_path: Path, dataset: Dataset) -> None:
    path = str(tmp_path / "data.parquet")
    save(path, dataset, [{"command": "test"}])
    pq.write_table(pq.read_table(path).slice(0, 3), path)
    artifact = load(path)
    assert (artifact.sealed, artifact.history, artifact.value.X.tolist()) == (False, [], dataset.X[:3].tolist())


def test_metadata_without_its_seal_is_refused(tmp_path: Path, dataset: Dataset) -> None:
    path = tmp_path / "data.parquet"
    save(str(path), dataset, [])
    path.write_bytes(path.read_bytes().replace(b"herd.sha256", b"herd.sha25x"))
    with pytest.raises(DataError, match="its herd metadata has no seal"):
        load(str(path))


def test_a_parquet_bomb_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "data.parquet")
    pq.write_table(pa.table({"u": np.zeros(3_000_000), "v": np.zeros(3_000_000)}), path)
    assert (tmp_path / "data.parquet").stat().st_size < 100_000
    with pytest.raises(DataError, match="more than the"):
        load(path, max_memory=10_000_000)


def test_only_tables_become_parquet_and_only_data_sets_are_exported(tmp_path: Path, dataset: Dataset) -> None:
    from herdcli.evaluation.table import Report

    report = Report({"file": np.array(["a", "b"]), "error": np.array([0.5, np.nan])})
    save(str(tmp_path / "report.parquet"), report, [])
    back = load(str(tmp_path / "report.parquet"))
    assert (back.kind, back.value.table["file"].tolist(), back.value.document) == ("report", ["a", "b"], "eval")
    assert np.array_equal(back.value.table["error"], report.table["error"], equal_nan=True)
    with pytest.raises(BadUsage, match="cannot be written as csv"):
        save(str(tmp_path / "report.csv"), report, [])
    with pytest.raises(BadUsage, match="unknown format"):
        save(str(tmp_path / "data.h5"), dataset, [], format="xml")
    assert not list(tmp_path.glob("*.csv"))


def test_labels_that_are_whole_numbers_are_written_as_numbers(tmp_path: Path) -> None:
    """Without quotes, which make text of them for other programs; text keeps its quotes."""
    cases = ((["1", "5"], ["1", "5"]), (["01", "5"], ['"01"', '"5"']), (["-1", "1"], ["-1", "1"]), (["-1", "2"], ['"-1"', '"2"']))
    for names, cells in cases:
        data = Dataset(np.array([[1.5], [2.5]]), y=np.array([0, 1], dtype=np.int32), class_names=names)
        save(str(tmp_path / "a.csv"), data, [])
        assert [line.split(",")[1] for line in (tmp_path / "a.csv").read_text().splitlines()[1:]] == cells
