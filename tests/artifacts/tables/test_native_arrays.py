"""Foreign arrays enter in native byte order and in types that all of herd works with, whatever the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
from scipy.sparse import csr_matrix

from herdcli import artifacts
from herdcli.artifacts.rows import row_ranges
from herdcli.artifacts.tables import native_arrays
from herdcli.errors import DataError

VALUES = np.array([[0.125, -1.0], [2.5, 3.0], [4.0, -0.5], [6.0, 7.0]])
LABELS = np.array([0, 1, 1, 0])
KINDS = [">f8", "<f8", ">f4", ">f2", "<f2", "g", ">i8", ">i4", ">i2", ">u2", ">u8", "i1", "u1", "?"]


def _write(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    if path.suffix == ".npy":
        np.save(path, X)
    elif path.suffix == ".npz":
        np.savez(path, X=X, y=y)
    elif path.suffix == ".mat":
        scipy.io.savemat(path, {"X": X, "y": y})
    else:
        with h5py.File(path, "w") as file:
            file["X"], file["y"] = X, y


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".h5", ".mat"])
@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_any_type_are_read_as_their_numbers(tmp_path: Path, kind: str, suffix: str) -> None:
    """The values are those that NumPy sees, the types native ones of at most eight bytes."""
    if suffix == ".mat" and (kind in ("g", "?") or "f2" in kind):
        pytest.skip("scipy.io.savemat has no such type")
    X, y = VALUES.astype(kind), LABELS.astype(">i4")
    _write(tmp_path / f"a{suffix}", X, y)
    found = artifacts.load(str(tmp_path / f"a{suffix}")).value
    np.testing.assert_array_equal(found.X.astype(float), X.astype(float))
    assert found.X.dtype.isnative
    assert found.X.dtype.itemsize <= 8
    assert found.X.dtype != np.float16
    assert found.X.flags.c_contiguous
    if suffix != ".npy":
        np.testing.assert_array_equal(found.y.ravel(), LABELS)
        assert found.y.dtype.isnative


@pytest.mark.parametrize("target", ["out.csv", "out.parquet", "out.npz", "out.npy", "out.h5"])
def test_big_endian_rows_keep_their_values_in_every_format(tmp_path: Path, target: str) -> None:
    """What is written of them has the same numbers."""
    _write(tmp_path / "a.npz", VALUES.astype(">f8"), LABELS.astype(">i8"))
    read = artifacts.load(str(tmp_path / "a.npz"))
    artifacts.save(str(tmp_path / target), read.value, [])
    np.testing.assert_array_equal(artifacts.load(str(tmp_path / target)).value.X, VALUES)


def test_stretches_of_hdf5_are_native(tmp_path: Path) -> None:
    """Rows that are read by parts are those of the whole."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"], file["y"] = VALUES.astype(">f8"), LABELS.astype(">i8")
    with row_ranges.open_ranges(str(tmp_path / "a.h5"), input_format=None, note=lambda line: None, verified=True) as found:
        assert found is not None
        part = found.read(1, 3)
    assert part.X.dtype == np.float64
    assert part.X.dtype.isnative
    assert part.y is not None
    assert part.y.dtype.isnative
    np.testing.assert_array_equal(part.X, VALUES[1:3])


def test_half_floats_of_parquet_and_columns_in_fortran_order(tmp_path: Path) -> None:
    """float16 is widened exactly."""
    pq.write_table(pa.table({"a": VALUES[:, 0].astype(np.float16), "b": VALUES[:, 1].astype(np.float16)}), tmp_path / "a.parquet")
    found = artifacts.load(str(tmp_path / "a.parquet")).value.X
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, VALUES)
    np.save(tmp_path / "f.npy", np.asfortranarray(VALUES))
    assert artifacts.load(str(tmp_path / "f.npy")).value.X.flags.c_contiguous


@pytest.mark.parametrize(
    ("kind", "message"),
    [("M8[D]", "has dates or times"), ("m8[s]", "has lengths of time"), ("c16", "has the type complex128, but must have numbers")],
)
def test_types_that_are_no_numbers_are_refused(tmp_path: Path, kind: str, message: str) -> None:
    """With what they are and what to do."""
    np.save(tmp_path / "a.npy", np.arange(4).astype("i8").astype(kind).reshape(2, 2))
    with pytest.raises(DataError, match=f"/X {message}") as raised:
        artifacts.load(str(tmp_path / "a.npy"))
    assert raised.value.hint


def test_a_long_double_beyond_float64_is_refused() -> None:
    """It would be infinite."""
    if np.finfo(np.longdouble).maxexp <= 1024:
        pytest.skip("long doubles are float64 here")
    with pytest.raises(DataError, match="a long double in row 1 that is too large for float64"):
        native_arrays.native_array(np.array([1, np.longdouble("1e400")]), name="X", where="a.npy")


def _group(path: Path, values: np.ndarray, index: list[int], pointer: list[int], shape: tuple[int, int], kind: Any) -> None:
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["format"], group.attrs["shape"] = "csr", shape
        group["data"], group["indices"], group["indptr"] = values, np.array(index, kind), np.array(pointer, "i4")


@pytest.mark.parametrize("kind", ["u8", "u4", ">i4", "i2", "u1", "i8"])
def test_sparse_indices_of_any_type_in_any_order(tmp_path: Path, kind: str) -> None:
    """Sorted, native, and of one type; float16 values are widened."""
    _group(tmp_path / "a.h5", np.array([3, 1, 2], "f2"), [2, 0, 1], [0, 2, 3], (2, 3), kind)
    X = artifacts.load(str(tmp_path / "a.h5")).value.X
    np.testing.assert_array_equal(X.toarray(), [[1, 0, 3], [0, 2, 0]])
    assert X.has_sorted_indices
    assert X.indices.dtype == X.indptr.dtype
    assert X.data.dtype == np.float32


def test_repeated_entries_are_added_without_overflow(tmp_path: Path) -> None:
    """As scipy adds them: 200 + 100 of bytes is 300."""
    _group(tmp_path / "a.h5", np.array([200, 100, 7], "u1"), [1, 1, 0], [0, 2, 3], (2, 2), "i4")
    np.testing.assert_array_equal(artifacts.load(str(tmp_path / "a.h5")).value.X.toarray(), [[0, 300], [7, 0]])
    made = native_arrays.native_matrix(csr_matrix(np.eye(2)), name="X", where="")
    np.testing.assert_array_equal(made.toarray(), np.eye(2))
