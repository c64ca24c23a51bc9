"""Files as other programs write them, and names of files that ask for what is not written."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csc_matrix, csr_matrix

from herdcli.artifacts import Dataset, load, save
from herdcli.errors import BadUsage, DataError

X = np.array([[0.0, 2, 0], [1, 0, 3], [0, 0, 4], [5, 0, 0]])


def grouped(path, found, **attributes):
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs.update({"shape": found.shape} | attributes)
        for part in ("data", "indices", "indptr"):
            group[part] = getattr(found, part)
    return str(path)


@pytest.mark.parametrize("attributes", [{}, {"format": "csr"}, {"encoding-type": "csr_matrix"}])
def test_csr_groups_need_no_format(tmp_path, attributes):
    found = load(grouped(tmp_path / "x.h5", csr_matrix(X), **attributes)).value
    assert np.array_equal(found.X.toarray(), X)


def test_csc_groups_are_not_taken_for_csr(tmp_path):
    with pytest.raises(DataError):
        load(grouped(tmp_path / "x.h5", csc_matrix(X), **{"encoding-type": "csc_matrix"}))


def test_declarations_are_datasets_or_attributes(tmp_path):
    told = []
    for name, as_dataset in (("a.h5", True), ("b.h5", False)):
        with h5py.File(tmp_path / name, "w") as file:
            file["X"] = np.zeros((5, 6))
            for key, value in (("value_range", [0, 9]), ("image_shape", [2, 3]), ("source", "here")):
                if as_dataset:
                    file[key] = value
                else:
                    file.attrs[key] = value
        found = load(str(tmp_path / name), note=told.append).value
        assert (found.value_range.tolist(), found.image_shape.tolist(), found.source) == ([0, 9], [2, 3], "here")
    assert told == []


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress, gzip.compress])
def test_compressed_text(tmp_path, pack):
    (tmp_path / "x.csv.packed").write_bytes(pack(b"a,b,y\n1,2,u\n3,4,v\n"))
    found = load(str(tmp_path / "x.csv.packed")).value
    assert found.X.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress])
def test_damaged_compressed_text_is_refused(tmp_path, pack):
    content = pack(b"a,b,y\n" + np.random.default_rng(0).bytes(5000).hex().encode())
    (tmp_path / "x.csv").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError):
        load(str(tmp_path / "x.csv"))


def test_feather(tmp_path):
    table = pa.table({"a": [1.5, 2.5], "b": [3, 4], "y": ["u", "v"]})
    with pa.ipc.new_file(str(tmp_path / "x.feather"), table.schema) as writer:
        writer.write_table(table)
    found = load(str(tmp_path / "x.feather")).value
    assert (found.X.tolist(), found.feature_names, found.class_names) == ([[1.5, 3], [2.5, 4]], ["a", "b"], ["u", "v"])
    (tmp_path / "cut.feather").write_bytes((tmp_path / "x.feather").read_bytes()[:300])
    with pytest.raises(DataError, match="the Arrow file cannot be read"):
        load(str(tmp_path / "cut.feather"))


@pytest.mark.parametrize(
    ("shape", "columns", "picture"), [((4, 3), 3, None), ((4,), 1, None), ((4, 2, 3), 6, [2, 3]), ((4, 2, 3, 1), 6, [2, 3])]
)
def test_arrays_and_stacks_of_pictures(tmp_path, shape, columns, picture):
    stack = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    np.save(tmp_path / "x.npy", stack)
    np.savez(tmp_path / "x.npz", X=stack)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = stack
    for name in ("x.npy", "x.npz", "x.h5"):
        found = load(str(tmp_path / name)).value
        assert np.array_equal(found.X, stack.reshape(4, columns))
        assert (None if found.image_shape is None else found.image_shape.tolist()) == picture


def test_pickles_in_arrays_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="a pickle"):
        load(str(tmp_path / "x.npy"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"(2, 3)", b"(2, +)"),
        (b"(2, 3)", b"(2, 3,"),
        (b"False", b"12345"),
        (b"'descr'", b"'descr "),
        (b"'shape'", b"\xff\xfeshap'"),
        (b"}", b""),
    ],
)
def test_a_damaged_header_of_an_array_is_one_line(tmp_path, old, new):
    np.save(tmp_path / "x.npy", np.zeros((2, 3)))
    text = (tmp_path / "x.npy").read_bytes()
    assert old in text
    (tmp_path / "x.npy").write_bytes(text.replace(old, new))
    with pytest.raises(DataError, match=r"^\S+: the array cannot be read \("):
        load(str(tmp_path / "x.npy"))


def test_an_array_that_ends_in_its_header_is_one_line(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2, 3)))
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:40])
    with pytest.raises(DataError, match="the array cannot be read"):
        load(str(tmp_path / "x.npy"))


DATA = Dataset(X, y=np.array([0, 1, 0, 1]), feature_names=["a", "b", "c"])


@pytest.mark.parametrize("suffix", [".csv.gz", ".csv.zst", ".CSV.GZ", ".npy", ".csv"])
def test_suffixes_that_are_written_are_read(tmp_path, suffix):
    path = str(tmp_path / f"x{suffix}")
    save(path, DATA, [])
    assert np.array_equal(load(path).value.X, X)
    magic = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5", ".npy": b"\x93NUM", ".csv": b"a,b,"}
    with open(path, "rb") as file:
        assert file.read(4).startswith(magic[Path(path).suffix.lower()])
    before = Path(path).read_bytes()
    save(path, DATA, [])
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize("name", ["x.xlsx", "x.txt", "x.mat", "x.html", "x.h5.gz", "x.json", "x.feather"])
def test_suffixes_that_are_not_written_are_refused(tmp_path, name):
    with pytest.raises(BadUsage, match=r"written|writes"):
        save(str(tmp_path / name), DATA, [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x", "run-0.05", "two.parts.h5", "v1.2"])
def test_names_without_a_suffix_are_hdf5(tmp_path, name):
    save(str(tmp_path / name), DATA, [])
    assert load(str(tmp_path / name)).sealed
