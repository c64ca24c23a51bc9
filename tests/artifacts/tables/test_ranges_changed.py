"""Files that change while their rows are read by parts: written to, they end the run; given another name, they are what they were."""

from __future__ import annotations

import os

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from herdcli.artifacts.rows import row_ranges
from herdcli.errors import DataError

X = np.arange(40.0).reshape(20, 2)


def written(name, X):
    if name.endswith("h5"):
        with h5py.File(name, "w") as file:
            file["X"] = X
    elif name.endswith("parquet"):
        parquet.write_table(pa.table({"a": X[:, 0], "b": X[:, 1]}), name, row_group_size=6)
    else:
        np.savetxt(name, X, delimiter=",", header="a,b", comments="", fmt="%5.1f")
    return name


FORMS = ["rows.h5", "rows.csv", "rows.parquet"]


def opened(name):
    return row_ranges.open_ranges(name, input_format=None, note=print, verified=True)


@pytest.mark.parametrize("name", FORMS)
def test_a_file_that_is_written_to_is_told(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with opened(written(name, X)) as found:
        assert found.read(0, 9).X.tolist() == X[:9].tolist()
        before = os.stat(name)
        with open(written(f"other-{name}", X + 1), "rb") as other, open(name, "r+b") as file:
            file.write(other.read())
        os.utime(name, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))
        with pytest.raises(DataError) as error:
            found.read(9, 20)
    assert (error.value.message, error.value.where, error.value.hint) == ("the file changed during the run", name, "run it again")


@pytest.mark.parametrize("name", FORMS)
def test_a_file_in_whose_place_another_one_came_is_what_it_was(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with opened(written(name, X)) as found:
        assert found.read(0, 9).X.tolist() == X[:9].tolist()
        os.replace(written(f"other-{name}", X + 1), name)
        assert found.read(9, 20).X.tolist() == X[9:].tolist()


def test_one_of_several_files_that_is_written_to_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for index in (1, 2):
        written(f"part-{index}.h5", X)
    with opened("part-*.h5") as found:
        os.utime("part-2.h5", ns=(1, 1))
        assert found.read(0, 20).X.tolist() == X.tolist()
        with pytest.raises(DataError, match=r"part-2\.h5: the file changed during the run"):
            found.read(15, 25)
