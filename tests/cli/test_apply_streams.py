"""Rows of a large HDF5 file go through a model a stretch at a time: what comes of them is what comes of all rows at once."""

from __future__ import annotations

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from herdcli.artifacts import lazy
from herdcli.cli.apply import streams
from herdcli.cli.main import cli
from herdcli.errors import DataError

MODELS = {
    "mixture": ["em", "--components", "2", "--iterations", "3"],
    "kmeans": ["em", "--model", "kmeans", "--components", "3", "--iterations", "3"],
    "factors": ["em", "--model", "fa", "--components", "1", "--iterations", "3"],
    "ica": ["ica", "--iterations", "5"],
    "classifier": ["nherd-train"],
    "regression": ["regress", "--target", "y", "--family", "gaussian"],
    "classes": ["regress", "--target", "y", "--l2", "0.1", "--family", "softmax"],
}
LABELLED = ("classifier", "regression", "classes")


def run(*words: object) -> None:
    cli.main([*map(str, words), "-q"], prog_name="herd", standalone_mode=False, obj=[])


@pytest.mark.parametrize("kind", streams.OF_GROUPS)
def test_groups_of_parquet_make_the_lines_of_all_rows(tmp_path, monkeypatch, kind):
    X = np.random.default_rng(1).normal(size=(300, 3)).round(4)
    rows = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": (X[:, 0] > 0).astype(int), "split": np.arange(300) // 200})
    parquet.write_table(rows, tmp_path / "rows.parquet", row_group_size=70)
    monkeypatch.chdir(tmp_path)
    command, *options = MODELS[kind]
    run(command, "rows.parquet", *options, "-o", "model.h5")
    run("apply", "model.h5", "rows.parquet", "-o", "whole.csv")
    monkeypatch.setattr(lazy, "LEAST", 1)
    monkeypatch.setattr(streams, "STRETCH", 24 * 77)
    monkeypatch.delattr(streams.delimited, "write")
    run("apply", "model.h5", "rows.parquet", "-o", "streamed.csv")
    require_same_lines(tmp_path)


WANTED = [("mixture", "responsibilities"), ("mixture", "completed"), ("factors", "scores"), ("ica", "energies")]


@pytest.mark.parametrize(("kind", "want"), [*((kind, "") for kind in MODELS), *WANTED])
def test_stretches_make_the_lines_of_all_rows(tmp_path, monkeypatch, kind, want):
    draw = np.random.default_rng(0)
    X = draw.normal(size=(300, 3)) + 3.0 * draw.integers(0, 2, 300)[:, None]
    with h5py.File(tmp_path / "train.h5", "w") as file:
        file["X"] = X
        if kind in LABELLED:
            file["y"] = (X[:, 0] > 1.0).astype(np.int64) + (X[:, 1] > 3.0)
    if kind in streams.GAPS:
        X[draw.random(X.shape) < 0.1] = np.nan
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"], file["split"] = X, np.arange(300) % 3, (np.arange(300) % 2).astype(np.uint8)
    monkeypatch.chdir(tmp_path)
    command, *options = MODELS[kind]
    run(command, "train.h5", *options, "-o", "model.h5")
    wanted = ("--want", want) if want else ()
    run("apply", "model.h5", "rows.h5", *wanted, "-o", "whole.csv")
    monkeypatch.setattr(lazy, "LEAST", 1)
    monkeypatch.setattr(streams, "STRETCH", 24 * 77)
    made = list[int]()
    append = streams.delimited.append
    monkeypatch.setattr(streams.delimited, "append", lambda out, data, **how: (made.append(len(data.X)), append(out, data, **how)))
    run("apply", "model.h5", "rows.h5", *wanted, "-o", "streamed.csv")
    assert made == [77, 77, 77, 69]
    require_same_lines(tmp_path)


def require_same_lines(tmp_path):
    """What was made in stretches, and of all rows at once."""
    ours, theirs = ((tmp_path / name).read_text().splitlines() for name in ("streamed.csv", "whole.csv"))
    assert ours[0] == theirs[0]
    assert len(ours) == len(theirs) == 301
    for one, other in zip(ours[1:], theirs[1:], strict=True):
        mine, own = (line.replace('"', "").split(",") for line in (one, other))
        assert [cell for cell in mine if cell.isalpha()] == [cell for cell in own if cell.isalpha()]
        numbers = [[float(cell) for cell in row if not cell.isalpha()] for row in (mine, own)]
        np.testing.assert_allclose(*numbers, rtol=1e-9, atol=1e-12)


def test_a_value_that_is_missing_where_none_may_be_is_told_by_its_row(tmp_path, monkeypatch):
    X = np.random.default_rng(0).normal(size=(300, 3))
    for name, row in (("train.h5", slice(0, 0)), ("rows.h5", slice(200, 201))):
        with h5py.File(tmp_path / name, "w") as file:
            file["X"] = np.where(np.isin(np.arange(300), np.arange(300)[row])[:, None], np.nan, X)
    monkeypatch.chdir(tmp_path)
    run("em", "train.h5", "--model", "kmeans", "--components", "2", "-o", "model.h5")
    monkeypatch.setattr(lazy, "LEAST", 1)
    monkeypatch.setattr(streams, "STRETCH", 24 * 77)
    with pytest.raises(DataError, match=r"/X has 1 NaN row \(first: row 46\)") as told:
        run("apply", "model.h5", "rows.h5", "-o", "out.csv")
    assert told.value.where.endswith("rows.h5, rows from 154")
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("kind", ["kmeans", "regression"])
def test_rows_without_room_are_told_of_the_way_on_which_they_need_none(tmp_path, monkeypatch, kind):
    draw = np.random.default_rng(0)
    for name, count in (("train.h5", 300), ("rows.h5", 5000)):
        with h5py.File(tmp_path / name, "w") as file:
            file["X"] = draw.normal(size=(count, 40))
            file["y"] = np.arange(count) % 2
    monkeypatch.chdir(tmp_path)
    command, *options = MODELS[kind]
    run(command, "train.h5", *options, "-o", "model.h5")
    asked = ("apply", "model.h5", "rows.h5", "--max-memory", "1M", "-o")
    with pytest.raises(DataError, match="more than the") as told:
        run(*asked, "small.h5")
    assert str(told.value.hint).startswith("raise --max-memory")  # a small file is read whole, whatever comes of it
    monkeypatch.setattr(lazy, "LEAST", 1)
    with pytest.raises(DataError, match="more than the") as told:
        run(*asked, "out.h5")
    assert told.value.hint == "-o FILE.csv reads and writes some rows at a time; or raise --max-memory if the machine has it"
    run(*asked, "out.csv")
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 5001


def test_a_classifier_is_judged_on_rows_that_stay_in_their_file(tmp_path, monkeypatch):
    draw = np.random.default_rng(0)
    names = np.array([b"a", b"b", b"c"])
    for name, order in (("train.h5", [0, 1, 2]), ("other.h5", [2, 0, 1])):
        X = draw.normal(size=(3000, 3))
        with h5py.File(tmp_path / name, "w") as file:
            file["X"], file["feature_names"] = X[:, order], names[order]
            file["y"] = (X[:, 0] + draw.normal(size=3000) > 0.0).astype(np.int64)
    monkeypatch.chdir(tmp_path)
    run("nherd-train", "train.h5", "-o", "model.h5")
    run("eval", "model.h5", "--data", "other.h5", "-o", "whole.json")
    monkeypatch.setattr(lazy, "LEAST", 1)
    read = list[int]()
    one = lazy.Lazy.__getitem__
    monkeypatch.setattr(lazy.Lazy, "__getitem__", lambda self, rows: (found := one(self, rows), read.append(len(found)))[0])
    run("eval", "model.h5", "--data", "other.h5", "-o", "stayed.json")
    assert read == [1000, 1000, 1000]
    assert (tmp_path / "stayed.json").read_bytes() == (tmp_path / "whole.json").read_bytes()
