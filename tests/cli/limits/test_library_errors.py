"""Errors of libraries that read damaged files are errors of the file; those of herd's own code are internal errors."""

from __future__ import annotations

import json
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.io

from herdcli.artifacts.library_errors import convert_library_errors, is_raised_by
from herdcli.errors import DataError

X = np.arange(12.0).reshape(4, 3)


def write_hdf5() -> str:
    with h5py.File("rows.h5", "w") as file:
        file["X"] = X
    return "rows.h5"


def write_npz() -> str:
    np.savez("rows.npz", X=X)
    return "rows.npz"


def write_npy() -> str:
    np.save("rows.npy", X)
    return "rows.npy"


def write_matlab() -> str:
    scipy.io.savemat("rows.mat", {"X": X})
    return "rows.mat"


def write_workbook() -> str:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for line in [["a", "b"], [1, 2], [3, 4]]:
        book.active.append(line)
    book.save("rows.xlsx")
    return "rows.xlsx"


def write_sound() -> str:
    with wave.open("rows.wav", "wb") as file:
        file.setparams((1, 2, 8000, 4, "NONE", ""))
        file.writeframes(bytes(8))
    return "rows.wav"


READERS = {  # a file, a function of herd that its reader calls while the library has it open
    "HDF5": (write_hdf5, "herdcli.artifacts.formats.unsealed_hdf5.read"),
    "NPZ": (write_npz, "herdcli.artifacts.formats.npz._read_header"),
    "NPY": (write_npy, "herdcli.artifacts.formats.npz._read_header"),
    "MATLAB": (write_matlab, "herdcli.artifacts.formats.matlab.readable_variables"),
    "Excel": (write_workbook, "herdcli.artifacts.formats.spreadsheets._choose_sheet"),
    "WAV": (write_sound, "herdcli.artifacts.formats.audio.flatten_rows"),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("error", [KeyError("X"), AttributeError("none")])
def test_a_fault_of_a_reader_is_an_internal_error(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, name: str, error: Exception
) -> None:
    write, called = READERS[name]
    path = write()
    assert run("info", path).code == 0

    def faulty(*words: Any, **options: Any) -> Any:
        raise error

    monkeypatch.setattr(called, faulty)
    with pytest.raises(type(error)):  # exit code 70 in a process of its own
        run("info", path)


@pytest.mark.parametrize("name", READERS)
def test_files_that_are_cut_short_are_bad_data(run: Callable[..., Any], name: str) -> None:
    path = Path(READERS[name][0]())
    whole = path.read_bytes()
    for length in range(16, len(whole) - 24, max(1, len(whole) // 9)):
        path.write_bytes(whole[:length])
        ended = run("info", path)
        assert ended.code in ((0, 65) if name in ("WAV", "MATLAB") else (65,)), (
            length,
            ended.err,
        )  # those may have fewer samples, variables


@pytest.mark.parametrize(("part", "values"), [("indices", [0, 9, 1]), ("indptr", [0, 5, 3]), ("data", [[1.0, 2.0, 3.0]])])
def test_sparse_rows_that_do_not_fit_together_are_bad_data(run: Callable[..., Any], part: str, values: Any) -> None:
    parts = {"data": np.ones(3), "indices": np.array([0, 2, 1]), "indptr": np.array([0, 2, 3])} | {part: np.array(values)}
    with h5py.File("sparse.h5", "w") as file:
        for name, item in parts.items():
            file[f"X/{name}"] = item
        file["X"].attrs["shape"] = [2, 3]
    ended = run("info", "sparse.h5")
    assert (ended.code, "/X is damaged" in ended.err) == (65, True), ended.err


@pytest.mark.parametrize("odd", [np.array(3.0), "text", np.zeros((4, 2, 2)), np.zeros(4, dtype="i4,f8")])
@pytest.mark.parametrize("name", ["y", "split", "weight", "feature_names"])
def test_arrays_of_odd_shapes_and_types_under_known_names_are_bad_data(run: Callable[..., Any], name: str, odd: Any) -> None:
    with h5py.File("rows.h5", "w") as file:
        file["X"], file[name] = X, odd
    assert run("info", "rows.h5").code == 65


def test_the_innermost_code_decides() -> None:
    def describe(error: Exception) -> DataError:
        return DataError(str(error))

    with pytest.raises(DataError, match="Expecting property"), convert_library_errors(("json",), describe):
        json.loads("{'")
    with pytest.raises(KeyError), convert_library_errors(("json",), describe):
        {}["a"]
    with pytest.raises(MemoryError), convert_library_errors(("json",), describe):
        raise OSError("Cannot allocate memory")
    assert not is_raised_by(ValueError("without a traceback"), ("json",))
