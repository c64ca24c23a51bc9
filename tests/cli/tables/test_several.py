"""Several files as one input, 'part-*.parquet': what one file of all rows gives, and what is refused."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from herdcli import artifacts

ROWS = 60
RANDOM = np.random.default_rng(4)
X = RANDOM.normal(size=(ROWS, 3)).round(3)
TEXT = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")
TEXT[:20] = "up"  # the first file knows one label alone


@pytest.fixture
def files(tmp_path):
    """rows.parquet, and the same rows as part-*.parquet and part-*.h5."""
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": TEXT})
    parquet.write_table(table, tmp_path / "rows.parquet")
    for number in range(3):
        parquet.write_table(table.slice(20 * number, 20), tmp_path / f"part-{number}.parquet")
        with h5py.File(tmp_path / f"part-{number}.h5", "w") as file:
            file["X"] = X[20 * number : 20 * number + 20]


LINES = {
    "nherd-train": [],
    "regress": ["--target", "c"],
    "em": ["--label", "y", "--components", "2"],
    "ica": ["--label", "y", "--algorithm", "ml", "--iterations", "3"],
    "kernel-herd": ["--drop", "y", "-m", "5"],
    "fit-rbm": ["--label", "y", "--hidden", "2", "--epochs", "1", "--visible-units", "gaussian"],
}


def arrays(path):
    found = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset) and "provenance" not in name:
            found[name] = item[()].tolist() if item.dtype.kind == "O" else item[()].tobytes()

    with h5py.File(path) as file:
        file.visititems(visit)
    return found


@pytest.mark.parametrize("command", LINES)
def test_several_files_are_one_input(run, files, command):
    for source, output in (("rows.parquet", "one.h5"), ("part-*.parquet", "several.h5")):
        ended = run(command, source, *LINES[command], "-q", "-o", output)
        assert ended.code == 0, ended.err
    assert arrays("several.h5") == arrays("one.h5")


def test_labels_of_text_and_predictions_are_those_of_one_file(run, files):
    assert run("nherd-train", "part-*.parquet", "-q", "-o", "model.h5").code == 0
    assert artifacts.load("model.h5").value.classes == ["down", "up"]
    for source, output in (("rows.parquet", "one.csv"), ("part-*.parquet", "several.csv")):
        assert run("apply", "model.h5", source, "-q", "-o", output).code == 0
        assert run("convert", source, "-q", "-o", f"rows-{output}").code == 0
    for name in ("{}.csv", "rows-{}.csv"):
        assert open(name.format("several")).read() == open(name.format("one")).read()  # noqa: SIM115


def test_parts_of_several_files_are_dealt_to_shards(run, files):
    assert run("nherd-train", "part-*.parquet", "--parts", "3", "-q", "-o", "whole.h5").code == 0
    for index in (1, 2):
        assert run("nherd-train", "part-*.parquet", "--parts", "3", "--shard", f"{index}/2", "-q", "-o", f"shard-{index}.h5").code == 0
    assert run("merge", "shard-1.h5", "shard-2.h5", "-q", "-o", "merged.h5").code == 0
    assert open("merged.h5", "rb").read() == open("whole.h5", "rb").read()  # noqa: SIM115


def test_what_several_files_lack_is_told(run, files):
    ended = run("regress", "part-*.h5", "--target", "c", "-q", "-o", "model.h5")
    assert (ended.code, ended.err) == (2, "herd regress: part-*.h5: --target c: there is no such column\nhint: columns: none named\n")
    ended = run("em", "part-*.h5", "--weights", "c", "-q", "-o", "model.h5")
    hint = "hint: columns of Parquet and CSV can be named, and datasets of HDF5 beside /X\n"
    assert (ended.code, ended.err) == (2, f"herd em: part-*.h5: the files have no extra column 'c'\n{hint}")
    ended = run("nherd-train", "none-*.parquet", "-q", "-o", "model.h5")
    assert (ended.code, ended.err.partition("\n")[0]) == (66, "herd nherd-train: none-*.parquet: there is no such file")


@pytest.mark.parametrize("suffix", ["csv", "h5"])
def test_a_column_of_several_sealed_files_is_predicted(run, tmp_path, suffix):
    for name, part in (("rows", slice(0, ROWS)), ("part-0", slice(0, 25)), ("part-1", slice(25, ROWS))):
        text = "\n".join(["a,b,z", *(f"{row[0]!r},{row[1]!r},{row[2]!r}" for row in X[part].tolist())])
        Path(f"{name}.csv").write_text(text + "\n")
        assert run("convert", f"{name}.csv", "-q", "-o", f"{name}.h5").code == 0
    for source, output in ((f"rows.{suffix}", "one.h5"), (f"part-*.{suffix}", "several.h5")):
        ended = run("regress", source, "--target", "z", "-q", "-o", output)
        assert ended.code == 0, ended.err
    assert arrays("several.h5") == arrays("one.h5")


def test_numbers_that_several_files_keep_beside_their_rows_are_columns(run, tmp_path):
    for name, part in (("rows.h5", slice(0, ROWS)), ("part-0.h5", slice(0, 25)), ("part-1.h5", slice(25, ROWS))):
        with h5py.File(tmp_path / name, "w") as file:
            file["X"], file["y"], file["exposure"] = X[part, :2], X[part, 2], X[part, 1] / 2
    for source, output in (("rows.h5", "one.h5"), ("part-*.h5", "several.h5")):
        ended = run("regress", source, "--offset", "exposure", "-q", "-o", output)
        assert ended.code == 0, ended.err
    assert arrays("several.h5") == arrays("one.h5")


def test_columns_that_no_file_uses_are_named(run, files):
    ended = run("kernel-herd", "part-*.parquet", "--columns", "a,b", "-m", "3", "-o", "o.h5")
    assert "part-*.parquet: 3 files, 60 rows, 4 columns: 2 features; not used: c, y\n" in ended.err
    assert ended.code == 0
