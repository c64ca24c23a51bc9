"""People's HDF5: what is a data set loads, whatever points elsewhere or declares too much is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from herdcli import artifacts
from herdcli.artifacts import hdf5_guard, load
from herdcli.artifacts.sealed import sealed_hdf5
from herdcli.errors import DataError

X = np.arange(12, dtype=np.uint8).reshape(4, 3)


def dangling(file: Any) -> None:
    file["X"] = h5py.SoftLink("/nowhere")


def external_link(file: Any) -> None:
    file["X"] = h5py.ExternalLink("/etc/hostname", "/X")


def external_storage(file: Any) -> None:
    file.create_dataset("X", (4, 3), "u1", external=[("/etc/hostname", 0, 12)])


def virtual(file: Any) -> None:
    layout = h5py.VirtualLayout((4, 3), "u1")
    layout[:] = h5py.VirtualSource("missing.h5", "X", (4, 3))
    file.create_virtual_dataset("X", layout)


def twice(file: Any) -> None:
    file["X"] = X
    file["again"] = file["X"]


def cycle(file: Any) -> None:
    file["X"] = X
    group = file.create_group("group")
    group["self"] = group


def root_cycle(file: Any) -> None:
    file["X"] = X
    file["root"] = file["/"]


def unwritten(file: Any) -> None:
    file.create_dataset("X", (4, 3), "f8")


def partly_written(file: Any) -> None:
    file.create_dataset("X", (40, 3), "f8", chunks=(4, 3))[:8] = 1


def bomb(file: Any) -> None:
    file.create_dataset("X", (1 << 40, 1 << 20), "f8", chunks=(64, 64))


def chunk_bomb(file: Any) -> None:
    file.create_dataset("X", (4, 3), "f8", maxshape=(None, None), chunks=(1 << 14, 1 << 14))


def compound(file: Any) -> None:
    file["X"] = np.zeros(4, dtype=[("a", "f4")])


def reference(file: Any) -> None:
    file["z"] = X
    file.create_dataset("X", data=np.array([file["z"].ref] * 3, dtype=h5py.ref_dtype), dtype=h5py.ref_dtype)


def ragged(file: Any) -> None:
    file.create_dataset("X", (3,), h5py.vlen_dtype("i4"))[0] = [1, 2]


def null(file: Any) -> None:
    file["X"] = h5py.Empty("f4")


def group_instead(file: Any) -> None:
    file.create_group("X")["values"] = X


HOSTILE: dict[Callable[[Any], None], str] = {
    dangling: "/X is a soft link",
    external_link: "/X is a link to another file",
    external_storage: "/X keeps its data in another file",
    virtual: "/X is a virtual dataset",
    twice: "is a hard link to another object",
    cycle: "is a hard link to another object",
    root_cycle: "is a hard link to another object",
    unwritten: "/X has no data: the file declares it, but it was never written",
    partly_written: "/X is incomplete: the file declares it, but not all of it was written .8 of 10 chunks",
    bomb: "needs .* more than",
    chunk_bomb: "needs .* more than",
    compound: "/X holds compound values",
    reference: "/X holds references",
    ragged: "/X holds references or ragged arrays",
    null: "/X is empty",
    group_instead: "no dataset /X",
}


def written(folder: Path, fill: Callable[[Any], None], **options: Any) -> str:
    with h5py.File(folder / "people.h5", "w", **options) as file:
        fill(file)
    return str(folder / "people.h5")


@pytest.mark.parametrize("fill", HOSTILE, ids=lambda fill: fill.__name__)
def test_what_points_elsewhere_or_is_no_plain_data_is_refused(tmp_path: Path, fill: Callable[[Any], None]) -> None:
    with pytest.raises(DataError, match=HOSTILE[fill]) as caught:
        load(written(tmp_path, fill), max_memory=1 << 30)
    assert str(caught.value).startswith(str(tmp_path))


@pytest.mark.parametrize(("options", "least"), [({"fletcher32": True}, 4), ({"scaleoffset": 3}, 21)])
def test_chunks_shorter_than_what_their_filter_reads_are_refused(tmp_path: Path, options: dict[str, Any], least: int) -> None:
    """libhdf5 reads behind their ends, and crashes."""

    def short(file: Any) -> None:
        made = file.create_dataset("X", X.shape, "f8", chunks=(2, 3), **options)
        made[...] = X
        made.id.write_direct_chunk((2, 0), b"x" * (least - 1))

    with pytest.raises(DataError, match=f"/X has a chunk of {least - 1} bytes, but its filters need at least {least} bytes"):
        load(written(tmp_path, short))
    whole = load(written(tmp_path, lambda file: file.create_dataset("X", data=X, chunks=(2, 3), **options)))
    assert np.array_equal(whole.value.X, X)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.float64(3), "0 dimensions"),
        (np.zeros((2, 3), complex), "complex numbers"),
        (np.zeros((0, 3)), "0 rows"),
        (np.zeros((3, 0)), "0 columns"),
        (np.array([["a", "b"]], dtype=object), "text in more than one dimension|type <U1|expected float"),
        (np.array([[1, np.nan], [0, 0], [np.nan, np.nan]]), r"/X has 2 NaN rows \(first: row 0\)"),
        (np.array([[1, 0], [0, np.inf]], dtype="f4"), r"/X has 1 infinite row \(first: row 1\)"),
    ],
)
def test_rows_that_cannot_be_learned_from_are_refused(tmp_path: Path, rows: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(written(tmp_path, lambda file: file.create_dataset("X", data=rows)))


@pytest.mark.parametrize(
    ("shape", "read", "picture"),
    [((3,), (3, 1), None), ((5, 2, 3), (5, 6), (2, 3)), ((5, 2, 3, 1), (5, 6), (2, 3)), ((5, 2, 3, 3), (5, 18), None)],
)
def test_a_vector_is_a_column_and_a_cube_holds_pictures(
    tmp_path: Path, shape: tuple[int, ...], read: tuple[int, int], picture: tuple[int, int] | None
) -> None:
    values = np.arange(np.prod(shape), dtype=float).reshape(shape)
    found = load(written(tmp_path, lambda file: file.create_dataset("X", data=values))).value
    assert np.array_equal(found.X, values.reshape(read))
    assert (None if found.image_shape is None else tuple(found.image_shape)) == picture


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("y", np.zeros(10_999, "i4"), "/y has 10 999 rows, but /X has 11 000"),
        ("y", np.full(11_000, 0.5), "labels must be whole numbers or text"),
        ("y", np.full(11_000, np.nan), "/y has 11 000 NaN rows"),
        ("split", np.full(11_000, 4, "u1"), "/split has the value 4 in row 0"),
        ("weight", np.full(11_000, -1.0), "/weight has negative values"),
        ("feature_names", np.array(["one"], dtype=object), "/feature_names has 1 names, but /X has 2 columns"),
    ],
)
def test_arrays_that_contradict_the_rows_are_refused(tmp_path: Path, name: str, values: Any, message: str) -> None:
    def fill(file: Any) -> None:
        file["X"] = np.zeros((11_000, 2), "u1")
        file[name] = values

    with pytest.raises(DataError, match=message):
        load(written(tmp_path, fill))


def test_a_data_set_of_people_loads_with_what_it_declares(tmp_path: Path) -> None:
    def fill(file: Any) -> None:
        file.create_dataset("X", data=X, compression="gzip", shuffle=True, fletcher32=True)
        file["y"] = np.array(["b", "a", "b", "a"], dtype=object)
        file["extra"] = np.zeros(2, dtype=[("a", "f4")])
        file["X"].attrs["value_range"] = [0, 255]
        file.attrs["image_shape"] = [1, 3]
        file.attrs["source"] = "here"

    said: list[str] = []
    artifact = load(written(tmp_path, fill), note=said.append)
    data = artifact.value
    assert (artifact.kind, artifact.sealed, artifact.history) == ("dataset", False, [])
    assert data.X.dtype == np.uint8
    assert np.array_equal(data.X, X)
    assert (data.y.tolist(), data.class_names) == ([1, 0, 1, 0], ["a", "b"])
    assert (data.value_range.tolist(), data.image_shape.tolist(), data.source) == ([0, 255], [1, 3], "here")
    assert said == [f"{artifact.name}: these parts of the file are not used: /extra"]


def test_a_csr_group_with_its_shape_on_the_root_loads(tmp_path: Path) -> None:
    def fill(file: Any) -> None:
        file.attrs["format"], file.attrs["shape"] = "csr", [2, 5]
        file["X/data"], file["X/indices"], file["X/indptr"] = np.array([3, 4], "u2"), np.array([4, 0], "i4"), np.array([0, 1, 2])

    X = load(written(tmp_path, fill)).value.X
    assert X.toarray().tolist() == [[0, 0, 0, 0, 3], [4, 0, 0, 0, 0]]
    assert X.dtype == np.uint16


def test_a_split_of_zeros_and_ones_is_train_and_test(tmp_path: Path) -> None:
    def fill(file: Any) -> None:
        file["X"], file["split"] = X, np.array([0, 0, 1, 1], "u1")

    said: list[str] = []
    assert load(written(tmp_path, fill), note=said.append).value.split.tolist() == [0, 0, 2, 2]
    assert "read as train and test" in said[0]


def test_a_matlab_file_is_read_in_its_own_order(tmp_path: Path) -> None:
    def fill(file: Any) -> None:
        file["X"], file["y"] = X.T, np.arange(4.0).reshape(1, 4)
        file["X"].attrs["MATLAB_class"] = np.bytes_("uint8")

    path = written(tmp_path, fill, userblock_size=512)
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file")
    data = load(path).value
    assert np.array_equal(data.X, X)
    assert data.y.tolist() == [0, 1, 2, 3]


def test_text_that_unfolds_past_the_limit_is_refused(tmp_path: Path) -> None:
    def fill(file: Any) -> None:
        file["X"] = np.zeros((1000, 1))
        file["y"] = np.array(["a" * 5000] * 1000, dtype=object)

    with pytest.raises(DataError, match="more than the"):
        load(written(tmp_path, fill), max_memory=1_000_000)


def test_every_truncation_of_an_unsealed_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, lambda file: file.create_dataset("X", data=np.ones((40, 40))))
    data = Path(path).read_bytes()
    for length in range(0, len(data), 37):
        Path(path).write_bytes(data[:length])
        with pytest.raises(DataError):
            load(path)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda file: file["Y"], "rows.h5: HDF5 cannot read the file ("),
        (lambda file: file["X"][0, 0, 0], "rows.h5: HDF5 cannot read the file (3 indexing arguments"),
    ],
)
def test_errors_of_hdf5_are_errors_of_the_file(tmp_path: Path, read: Callable[[Any], Any], message: str) -> None:
    path = written(tmp_path, lambda file: file.create_dataset("X", data=np.ones((4, 4))))
    with pytest.raises(DataError) as caught, hdf5_guard.open_guarded(path, where="rows.h5") as file:
        read(file)
    assert str(caught.value).startswith(message)


def test_no_plug_in_is_ever_loaded(python: Callable[..., Any]) -> None:
    program = """
import os, sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "h5py":
            print(os.environ.get("HDF5_PLUGIN_PRELOAD"))
sys.meta_path.insert(0, Watch())
import herdcli.artifacts
"""
    assert python(program).stdout == b"::\n"


def test_h5py_is_imported_in_one_place_only() -> None:
    package = Path(artifacts.__file__).resolve().parents[1]
    typed = re.compile(r"^if TYPE_CHECKING:\n(?:    .*\n)+", re.M)  # imports for types are never run
    importers = [path.name for path in package.rglob("*.py") if re.search(r"^\s*(import|from) h5py", typed.sub("", path.read_text()), re.M)]
    assert importers == ["h5py_import.py"]


VERSIONS, TEXTS = ("kind-version", "format-version"), ("kind", "format", "provenance", "configuration")
NO_VALUES = (np.zeros(3), np.zeros(0), h5py.Empty("f8"), np.array([(1, 2.0)], dtype="i4,f8"), -np.inf)


@pytest.mark.parametrize(
    ("name", "odd"),
    [(name, odd) for name in VERSIONS + TEXTS for odd in NO_VALUES] + [(name, odd) for name in VERSIONS for odd in ("1j", True)],
)
def test_root_attributes_of_other_types_are_errors_of_the_file(tmp_path: Path, name: str, odd: Any) -> None:
    def fill(file: Any) -> None:
        file.attrs.update(
            {"format": "herd", "kind": "rbm", "kind-version": 1, "format-version": 1, "provenance": "[]", "configuration": ""}
        )
        file.attrs[name] = odd

    path = written(tmp_path, fill)
    with pytest.raises(DataError, match="root attributes"), hdf5_guard.open_guarded(path, where="rows.h5") as file:
        sealed_hdf5.read_root_attributes(file, "rbm", where="rows.h5")


def test_attributes_are_read_only_in_their_types(tmp_path: Path) -> None:
    def fill(file: Any) -> None:
        file.attrs.update(
            {"text": "csr", "bytes": np.bytes_(b"csc"), "number": 3, "shape": np.array([4, 3]), "reals": np.array([4.0, 3.0])}
        )
        file.attrs.update({"negative": np.array([-1, 3]), "halves": np.array([0.5, 3.0]), "empty": h5py.Empty("i8"), "three": np.arange(3)})

    with hdf5_guard.open_guarded(written(tmp_path, fill), where="rows.h5") as file:
        texts = [hdf5_guard.text_attribute(file, *names) for names in (["text"], ["bytes"], ["number", "text"], ["empty"], ["none"])]
        assert texts == ["csr", "csc", "csr", "", ""]
        assert [hdf5_guard.integer_attribute(file, name) for name in ("number", "text", "shape", "empty", "none")] == [3, *[None] * 4]
        shapes = [hdf5_guard.shape_attribute(file, name) for name in ("shape", "reals", "negative", "halves", "empty", "three", "text")]
        assert shapes == [(4, 3), (4, 3), *[None] * 5]
