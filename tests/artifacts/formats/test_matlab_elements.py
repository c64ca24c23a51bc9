"""MATLAB files whose types of data, lengths or indices are invalid are refused before scipy.io's compiled reader follows them."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from scipy.sparse import csc_array

from herdcli.artifacts import load
from herdcli.artifacts.formats.matlab_elements import readable_variables
from herdcli.errors import DataError

X = np.arange(12.0).reshape(4, 3) + 0.5


def saved(path: Path, values: dict[str, object], *, compressed: bool = False) -> bytearray:
    scipy.io.savemat(path, values, do_compression=compressed)
    return bytearray(path.read_bytes())


def refusal(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        load(str(path))
    return caught.value.message


@pytest.mark.parametrize("kind", [0, 8, 10, 11, 14, 19, 20, 99, 65535])
def test_an_unknown_type_of_data_is_refused(tmp_path: Path, kind: int) -> None:
    content = saved(tmp_path / "a.mat", {"X": X})
    at = content.index(struct.pack("<2I", 9, 96))  # the tag of the values: double, 96 bytes
    content[at : at + 4] = struct.pack("<I", kind)
    assert refusal(tmp_path / "a.mat", content) == f"the MATLAB file cannot be read (the type of data {kind} does not exist)"


def test_an_unknown_type_within_a_cell_is_refused(tmp_path: Path) -> None:
    cells = np.empty((1, 2), dtype=object)
    cells[0, 0] = cells[0, 1] = X
    content = saved(tmp_path / "a.mat", {"X": X, "cells": cells})
    at = content.rindex(struct.pack("<2I", 9, 96))
    content[at : at + 4] = struct.pack("<I", 0)
    assert refusal(tmp_path / "a.mat", content) == "the MATLAB file cannot be read (the type of data 0 does not exist)"


def test_a_length_beyond_the_variable_is_refused(tmp_path: Path) -> None:
    content = saved(tmp_path / "a.mat", {"X": X})
    at = content.index(struct.pack("<2I", 9, 96))
    content[at + 4 : at + 8] = struct.pack("<I", 2**31)
    assert refusal(tmp_path / "a.mat", content) == "the MATLAB file cannot be read (an element is longer than its variable)"


@pytest.mark.parametrize(("length", "told"), [(0, "a shape has 0 bytes"), (4, "a shape has 4 bytes"), (7, "a shape has 7 bytes")])
def test_a_shape_of_fewer_than_two_lengths_is_refused(tmp_path: Path, length: int, told: str) -> None:
    """Text of no dimensions ended scipy.io with a segmentation fault."""
    labels = np.array([["a"], ["b"], ["a"], ["b"]], dtype=object)
    content = saved(tmp_path / "a.mat", {"X": X, "y": labels})
    at = content.rindex(struct.pack("<2I", 5, 8))  # the shape of the last cell
    content[at + 4 : at + 8] = struct.pack("<I", length)
    assert refusal(tmp_path / "a.mat", content) == f"the MATLAB file cannot be read ({told})"


def test_a_negative_length_is_refused(tmp_path: Path) -> None:
    content = saved(tmp_path / "a.mat", {"X": X})
    at = content.index(struct.pack("<4I", 5, 8, 4, 3))
    content[at + 8 : at + 12] = struct.pack("<i", -4)
    assert refusal(tmp_path / "a.mat", content) == "the MATLAB file cannot be read (a shape has the negative length -4)"


@pytest.mark.parametrize("row", [7, 2**31 - 1, -1])
def test_indices_of_a_sparse_matrix_outside_its_shape_are_refused(tmp_path: Path, row: int) -> None:
    matrix = csc_array(np.array([[0.0, 2, 0], [1, 0, 3], [0, 0, 4], [5, 0, 0]]))
    content = saved(tmp_path / "a.mat", {"X": matrix})
    at = content.index(matrix.indices.astype("<i4").tobytes())
    content[at : at + 4] = struct.pack("<i", row)
    assert "the MATLAB file cannot be read" in refusal(tmp_path / "a.mat", content)


@pytest.mark.parametrize("compressed", [False, True])
def test_all_plain_variables_are_found_and_read(tmp_path: Path, compressed: bool) -> None:
    structure, mixed = {"who": "me"}, np.empty((1, 2), dtype=object)
    mixed[0, 0], mixed[0, 1] = X, {"inner": 1}
    values = {"X": X, "y": np.array([[1], [2], [1], [2]]), "word": "text", "Z": X + 1j, "S": csc_array(X), "one": 1.0, "info": structure}
    labels = np.array([["a"], ["bc"], [""], ["long label"]], dtype=object)
    saved(tmp_path / "a.mat", values | {"cells": labels, "mixed": mixed, "after": np.uint8([[1, 2, 3]])}, compressed=compressed)
    found = readable_variables(str(tmp_path / "a.mat"))
    assert found == {"X", "y", "word", "Z", "S", "one", "cells", "after"}
    assert np.array_equal(load(str(tmp_path / "a.mat")).value.X, X)


def test_matlab_4_has_no_elements(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "a.mat", {"X": X}, format="4")
    assert readable_variables(str(tmp_path / "a.mat")) is None
