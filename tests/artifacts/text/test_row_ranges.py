"""Stretches of rows of files: the rows that the whole file has, from Parquet, HDF5, text and several files, and what is refused."""

from __future__ import annotations

import os

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from herdcli import artifacts
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.rows import row_ranges
from herdcli.artifacts.text import line_index
from herdcli.errors import DataError

ROWS = 5000
X = np.random.default_rng(0).standard_normal((ROWS, 3))
Y = np.random.default_rng(1).integers(0, 3, ROWS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same rows as sealed and foreign files, with labels and weights."""
    folder = tmp_path_factory.mktemp("ranges")
    weight = np.arange(ROWS) + 1.0
    table = pa.table({f"c{j}": X[:, j] for j in range(3)} | {"y": Y, "weight": weight})
    pq.write_table(table, folder / "foreign.parquet", row_group_size=700)
    pa.csv.write_csv(table, folder / "rows.csv")
    with h5py.File(folder / "foreign.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=(512, 3))
        file["y"], file["weight"] = Y, weight
        file["feature_names"] = ["c0", "c1", "c2"]
    value = Dataset(X, y=Y.astype(np.uint8), weight=weight, feature_names=["c0", "c1", "c2"])
    for name in ("sealed.h5", "sealed.parquet"):
        artifacts.save(str(folder / name), value, [])
    for part, name in ((slice(0, 1700), "part-1.parquet"), (slice(1700, ROWS), "part-2.parquet")):
        pq.write_table(table.slice(part.start, part.stop - part.start), folder / name)
    return folder


def opened(path, **more):
    return row_ranges.open_ranges(str(path), input_format=None, note=print, **({"verified": True} | more))


FILES = ["foreign.parquet", "rows.csv", "foreign.h5", "sealed.h5", "sealed.parquet", "part-*.parquet"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("verified", [True, False])
def test_any_stretch_is_the_rows_of_the_whole(folder, name, verified):
    with opened(folder / name, verified=verified) as found:
        assert (found.count, found.names) == (ROWS, ["c0", "c1", "c2"])
        for start, stop in ((0, 10), (10, 1000), (4090, 4100), (690, 2200), (0, 1), (4096, 4097), (4990, 6000), (0, ROWS)):
            data = found.read(start, stop)
            np.testing.assert_array_equal(data.X, X[start:stop])
            np.testing.assert_array_equal(data.y, Y[start:stop])
            np.testing.assert_array_equal(data.weight, np.arange(ROWS)[start:stop] + 1.0)


@pytest.mark.parametrize("name", FILES[:-1])
def test_the_record_is_that_of_the_file_read_whole(folder, name):
    whole = artifacts.load(str(folder / name))
    with opened(folder / name) as found:
        assert (found.artifact.sha256, found.artifact.size, found.artifact.sealed) == (whole.sha256, whole.size, whole.sealed)


def test_lines_are_counted_in_pieces_of_any_size(folder, monkeypatch):
    text = (folder / "rows.csv").read_bytes()
    for size in (1, 7, 1000):
        monkeypatch.setattr(line_index, "CHUNK", size * 997)
        found = line_index.build_index(str(folder / "rows.csv"), text[: 1 << 16])
        assert (found.count, len(found.places)) == (ROWS, 3)
        assert text[found.places[1] - 1 : found.places[1]] == b"\n"
        assert text[: found.places[1]].count(b"\n") == 4097


@pytest.mark.parametrize(
    "text",
    ["a,b\n1,2\n\n3,4\n", 'a,b\n1,"2"\n', "a,b\n1,2\n# no\n3,4\n", "a,b\r1,2\r3,4\r", "a,b\n1,2\n\r\n3,4\n", ""],
    ids=["empty", "quoted", "comment", "carriage", "blank", "nothing"],
)
def test_texts_whose_lines_may_be_no_rows_are_read_whole(tmp_path, text):
    (tmp_path / "rows.csv").write_bytes(text.encode())
    assert line_index.build_index(str(tmp_path / "rows.csv"), text.encode()) is None


@pytest.mark.parametrize("text", ["# by hand\n1,2\n3,4\n5,6", "a;b\r\n1,5;2\r\n3;4,5\r\n5;6\r\n", "1 2\n3 4\n5 6\n"])
def test_texts_of_other_shapes_are_what_they_are_whole(tmp_path, text):
    (tmp_path / "rows.csv").write_bytes(text.encode())
    whole = artifacts.load(str(tmp_path / "rows.csv")).value
    with opened(tmp_path / "rows.csv") as found:
        assert found.count == 3
        for start in range(3):
            np.testing.assert_array_equal(found.read(start, 3).X, whole.X[start:])


def test_an_index_of_a_large_text_is_kept_until_it_changes(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(line_index, "LEAST", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    own, path = tmp_path / "rows.csv", str(tmp_path / "rows.csv")
    own.write_bytes((folder / "rows.csv").read_bytes())
    first = line_index.build_index(path, own.read_bytes()[:65536])
    monkeypatch.setattr(line_index, "_index_lines", lambda path, begin: None)
    assert line_index.build_index(path, own.read_bytes()[:65536]) == first
    (kept,) = (tmp_path / "cache" / "herd").iterdir()
    kept.write_text("{}")
    assert line_index.build_index(path, own.read_bytes()[:65536]) is None
    own.write_bytes(own.read_bytes() + b"1,2,3,0,1\n")
    assert line_index.build_index(path, own.read_bytes()[:65536]) is None


def test_the_digest_of_a_large_file_without_a_seal_is_kept_for_shards(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(line_index, "LEAST", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("foreign.h5", "foreign.parquet"):
        whole = artifacts.load(str(folder / name)).sha256
        for _ in range(2):
            with opened(folder / name, verified=False) as found:
                assert found.artifact.sha256 == whole
    kept = sorted((tmp_path / "cache" / "herd").iterdir())
    assert len(kept) == 2
    for path in kept:
        path.write_text('{"sha256": "' + "0" * 64 + '"}')
    with opened(folder / "foreign.h5", verified=False) as found:
        assert found.artifact.sha256 == "0" * 64
    with opened(folder / "foreign.h5", verified=True) as found:
        assert found.artifact.sha256 != "0" * 64
    for path in kept:
        path.write_text("{")
    with opened(folder / "foreign.h5", verified=False) as found:
        assert found.artifact.sha256 != "0" * 64


def test_what_cannot_be_read_by_parts_is_left_to_others(tmp_path):
    (tmp_path / "text.csv").write_text("a,b\n1,red\n2,blue\n")
    np.save(tmp_path / "rows.npy", X)
    for name in ("text.csv", "rows.npy"):
        with opened(tmp_path / name) as found:
            assert found is None
    np.save(tmp_path / "others.npy", X)
    with (
        pytest.raises(DataError, match="has a format that cannot be read in parts, which is necessary for several files"),
        opened(tmp_path / "*.npy"),
    ):
        pass  # pragma: no cover


def test_files_of_other_columns_are_named(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("a,c\n1,2\n")
    with pytest.raises(DataError, match=r"has other columns than .*a\.csv"), opened(tmp_path / "?.csv"):
        pass  # pragma: no cover


def test_bad_values_and_changed_files_are_named_with_their_rows(tmp_path):
    (tmp_path / "gap.csv").write_text("a,b\n1,2\n3,\n")
    (tmp_path / "text.csv").write_text("a,b\n" + "1,2\n" * 3)
    with opened(tmp_path / "gap.csv") as found, pytest.raises(DataError, match=r"NaN|missing|empty") as failed:
        found.read(1, 2)
    assert "gap.csv" in failed.value.where
    with opened(tmp_path / "text.csv") as found:
        before = (tmp_path / "text.csv").stat().st_mtime_ns
        (tmp_path / "text.csv").write_text("a,b\n1,2\n1,22222\n")  # as many bytes
        os.utime(tmp_path / "text.csv", ns=(before, before))
        with pytest.raises(DataError, match="has fewer rows than at the start of the run"):
            found.read(1, 3)


def test_a_sealed_file_that_was_cut_is_refused_without_being_read(folder, tmp_path):
    for name in ("sealed.h5", "sealed.parquet"):
        own = tmp_path / name
        own.write_bytes((folder / name).read_bytes()[:-100])
        with pytest.raises(DataError, match="cut short"), opened(own, verified=False):
            pass  # pragma: no cover


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_rows_that_are_read_by_parts_are_accounted_for(tmp_path, suffix):
    """Columns of text are not read where nobody asks for them, and are named; one file as several."""
    table = pa.table({"a": X[:20, 0], "b": X[:20, 1], "y": Y[:20]})
    for number in range(2):
        path = tmp_path / f"part-{number}.{suffix}"
        part = table.slice(10 * number, 10)
        pyarrow.csv.write_csv(part, path, pyarrow.csv.WriteOptions(quoting_style="none")) if suffix == "csv" else pq.write_table(part, path)
    for name, files in (("part-0", ""), ("part-*", "2 files, ")):
        path = str(tmp_path / f"{name}.{suffix}")
        for labels, line in ((True, "2 features, labels 'y'"), (False, "2 features; not used: y")):
            with row_ranges.open_ranges(path, input_format=None, note=lambda _: None, verified=True, labels=labels) as found:
                assert found.summary() == (f"{path}: {files}{20 if files else 10} rows, 3 columns: {line}", labels)


def test_rows_of_hdf5_have_no_columns_to_account_for(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = X[:10]
    with row_ranges.open_ranges(str(tmp_path / "x.h5"), input_format=None, note=lambda _: None, verified=True) as found:
        assert found.summary() is None
