"""`herd convert` of a large file takes some of its rows at a time, under --shard those of its own stretch, with the bytes of all rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from herdcli.artifacts.rows import lazy_matrix
from herdcli.cli.convert import datasets
from herdcli.cli.frame.run.session import Session
from herdcli.cli.main import cli
from herdcli.errors import BadUsage

ROWS = 300
X = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)
PARTS = np.arange(ROWS) % 3
SOURCES = ("open.h5", "sealed.h5", "text.h5", "open.parquet")


def run(*words: object) -> None:
    cli.main([*map(str, words), "-q"], prog_name="herd", standalone_mode=False, obj=[])


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Rows in HDF5 with all that can be said of them, sealed and not, with labels of text, and in Parquet."""
    monkeypatch.chdir(tmp_path)
    for name, y in (("open.h5", PARTS.astype(np.uint8)), ("text.h5", np.array([b"b", b"a", b"c"])[PARTS])):
        with h5py.File(name, "w") as file:
            file["X"], file["y"], file["split"], file["weight"] = X, y, PARTS.astype(np.int16), np.linspace(1.0, 2.0, ROWS)
            file["value_range"], file["feature_names"] = [-9.0, 9.0], ["u", "v", "w"]
            file.attrs["source"], file.attrs["licence"] = "a place", "CC BY 4.0"
    run("convert", "open.h5", "-o", "sealed.h5")
    columns = {"u": X[:, 0], "n": PARTS, "w": X[:, 2], "y": np.array(["b", "a", "c"])[PARTS], "split": PARTS}
    parquet.write_table(pa.table(columns), "open.parquet", row_group_size=70)


@pytest.fixture
def large(monkeypatch, files):
    """Every file is large, of 77 rows at a time, and none is read whole."""

    def begin():
        monkeypatch.setattr(lazy_matrix, "LEAST", 1)
        monkeypatch.setattr(datasets, "STRETCH", 8 * 3 * 77)
        monkeypatch.setattr(Session, "load", None)

    return begin


@pytest.mark.parametrize("source", SOURCES)
def test_rows_that_are_taken_one_stretch_after_the_other_make_the_bytes_of_all(large, source):
    made = ("made.h5", "made.parquet", "made.csv", "made.csv.gz")
    for name in made:
        run("convert", source, "-o", name)
        shutil.move(name, f"whole-{name}")
    large()
    for name in made:
        run("convert", source, "-o", name)
        assert Path(name).read_bytes() == Path(f"whole-{name}").read_bytes(), name


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("source", ["sealed.h5", "open.parquet"])
def test_shards_are_the_rows_one_after_the_other(large, source, stays):
    run("convert", source, "-o", "whole.csv")
    if stays:
        large()
    for index in (1, 2, 3, 4):
        run("convert", source, "--shard", f"{index}/4", "-o", f"part-{index}.csv")
    lines = Path("whole.csv").read_text().splitlines()
    parts = [Path(f"part-{index}.csv").read_text().splitlines() for index in (1, 2, 3, 4)]
    assert [len(part) for part in parts] == [76] * 4
    assert [lines[0], *(line for part in parts for line in part[1:])] == lines


def test_files_of_shards_are_one_input(files):
    run("convert", "open.parquet", "-o", "whole.csv")
    for index in (1, 2, 3):
        run("convert", "open.parquet", "--shard", f"{index}/3", "-o", f"part-{index}.parquet")
    run("convert", "part-*.parquet", "-o", "again.csv")
    assert Path("again.csv").read_bytes() == Path("whole.csv").read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--shard", "301/301"], "shard 301 of 301: there are only 300 rows, fewer than shards"),
        (["--shard", "1/2", "--log"], "--shard works only if rows are written unchanged to HDF5, Parquet or CSV"),
        (["--shard", "1/2", "--format", "npz"], "--shard works only if rows are written unchanged to HDF5, Parquet or CSV"),
    ],
)
def test_what_no_shard_can_be_made_of(files, words, message):
    with pytest.raises(BadUsage) as told:
        run("convert", "open.h5", *words, "-o", "part.h5")
    assert told.value.message == message
    assert not Path("part.h5").exists()
