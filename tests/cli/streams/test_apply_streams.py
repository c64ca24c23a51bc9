"""Rows of a large HDF5 file go through a model a stretch at a time: what comes of them is what comes of all rows at once."""

from __future__ import annotations

from dataclasses import replace

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from herdcli.artifacts import load, save
from herdcli.artifacts.dataset import Dataset, take_rows
from herdcli.artifacts.formats import parquet_files
from herdcli.artifacts.rows import incremental_dataset, lazy_matrix
from herdcli.artifacts.text import delimited_text
from herdcli.cli.apply import inputs, large_files
from herdcli.cli.frame.rows import classifier_scores
from herdcli.cli.frame.run.session import Session
from herdcli.cli.main import cli
from herdcli.errors import DataError
from herdcli.rbm.likelihood import row_likelihood

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


TABLES = {".parquet": lambda rows, path: parquet.write_table(rows, path, row_group_size=70), ".csv": csv.write_csv}


@pytest.mark.parametrize("suffix", list(TABLES))
@pytest.mark.parametrize("kind", list(MODELS))
def test_groups_and_lines_of_tables_make_the_lines_of_all_rows(tmp_path, monkeypatch, kind, suffix):
    X = np.random.default_rng(1).normal(size=(300, 3)).round(4)
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 1.0)
    columns = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]} | ({} if kind in large_files.GAPS else {"y": y}) | {"split": np.arange(300) // 200}
    TABLES[suffix](pa.table(columns), tmp_path / f"rows{suffix}")
    monkeypatch.chdir(tmp_path)
    command, *options = MODELS[kind]
    run(command, f"rows{suffix}", *options, "-o", "model.h5")
    run("apply", "model.h5", f"rows{suffix}", "-o", "whole.csv")
    stretches(monkeypatch)
    monkeypatch.delattr(delimited_text, "write")
    run("apply", "model.h5", f"rows{suffix}", "-o", "streamed.csv")
    require_same_lines(tmp_path)


@pytest.mark.parametrize("suffix", [*TABLES, ".h5"])
@pytest.mark.parametrize("kind", ["kmeans", "classifier", "regression", "harmonium"])
def test_files_of_a_pattern_stay_where_they_are(tmp_path, monkeypatch, kind, suffix):
    """As the data set of all of them, whose labels of text are numbered together."""
    X = np.random.default_rng(1).normal(size=(300, 3)).round(4)
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 1.0)
    numbers = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}
    named = np.array(["b", "a", "c"])[y] if suffix == ".parquet" and kind != "regression" else y
    for number, rows in enumerate((slice(0, 10), slice(10, 190), slice(190, 300))):
        if suffix == ".h5":
            with h5py.File(tmp_path / f"part-{number}.h5", "w") as file:
                file["X"], file["feature_names"], file["y"] = X[rows], list(numbers), y[rows]
        else:
            table = pa.table({name: column[rows] for name, column in (numbers | {"y": named}).items()})
            TABLES[suffix](table, tmp_path / f"part-{number}{suffix}")
    monkeypatch.chdir(tmp_path)
    harmonium = ["fit-rbm", "--visible-units", "gaussian", "--hidden", "2", "--epochs", "1"]
    command, *options = (MODELS | {"harmonium": harmonium})[kind]
    roles = ["--label", "y"] if kind in ("kmeans", "harmonium") else []
    run(command, f"part-*{suffix}", *options, *roles, "-o", "model.h5")
    asked = ("apply", "model.h5", f"part-*{suffix}", "-o")
    run(*asked, "whole.csv")
    run(*asked, "whole.h5")
    stretches(monkeypatch)
    monkeypatch.setattr(Session, "_load_joined_files", None)
    run(*asked, "streamed.csv")
    run(*asked, "streamed.h5")
    require_same_lines(tmp_path)
    assert (tmp_path / "streamed.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()


def stretches(monkeypatch, rows=77, columns=3):
    """Every file is large, and so many of its rows are read at one time, or whatever a model takes together."""
    monkeypatch.setattr(lazy_matrix, "LEAST", 1)
    monkeypatch.setattr(large_files, "STRETCH", 8 * columns * rows)
    monkeypatch.setattr(large_files, "TOGETHER", {})


WANTED = [("mixture", "responsibilities"), ("mixture", "completed"), ("factors", "scores"), ("ica", "energies")]


@pytest.mark.parametrize(("kind", "want"), [*((kind, "") for kind in MODELS), *WANTED])
def test_stretches_make_the_lines_of_all_rows(tmp_path, monkeypatch, kind, want):
    draw = np.random.default_rng(0)
    X = draw.normal(size=(300, 3)) + 3.0 * draw.integers(0, 2, 300)[:, None]
    with h5py.File(tmp_path / "train.h5", "w") as file:
        file["X"] = X
        if kind in LABELLED:
            file["y"] = (X[:, 0] > 1.0).astype(np.int64) + (X[:, 1] > 3.0)
    if kind in large_files.GAPS:
        X[draw.random(X.shape) < 0.1] = np.nan
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"], file["split"] = X, np.arange(300) % 3, (np.arange(300) % 2).astype(np.uint8)
    monkeypatch.chdir(tmp_path)
    command, *options = MODELS[kind]
    run(command, "train.h5", *options, "-o", "model.h5")
    wanted = ("--want", want) if want else ()
    run("apply", "model.h5", "rows.h5", *wanted, "-o", "whole.csv")
    stretches(monkeypatch)
    made = list[int]()
    append = delimited_text.append_rows
    monkeypatch.setattr(delimited_text, "append_rows", lambda out, data, **how: (made.append(len(data.X)), append(out, data, **how)))
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
    stretches(monkeypatch)
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
        run(*asked, "small.npz")
    assert str(told.value.hint).startswith("raise --max-memory")  # a small file is read whole, whatever comes of it
    monkeypatch.setattr(lazy_matrix, "LEAST", 1)
    with pytest.raises(DataError, match="more than the") as told:
        run(*asked, "out.npz")
    assert (
        told.value.hint
        == "use -o FILE.h5, .parquet or .csv, which read and write some rows at a time; or raise --max-memory if the machine has it"
    )
    run(*asked, "out.h5")
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
    monkeypatch.setattr(lazy_matrix, "LEAST", 1)
    read = list[int]()
    one = lazy_matrix.LazyMatrix.__getitem__
    monkeypatch.setattr(lazy_matrix.LazyMatrix, "__getitem__", lambda self, rows: (found := one(self, rows), read.append(len(found)))[0])
    run("eval", "model.h5", "--data", "other.h5", "-o", "stayed.json")
    assert read == [1000, 1000, 1000]
    assert (tmp_path / "stayed.json").read_bytes() == (tmp_path / "whole.json").read_bytes()


HARMONIUMS = {  # options of fit-rbm, and what apply can make of such models
    "binary": (("--hidden", 4), ("features", "states", "energies", "completed")),
    "gaussian": (("--hidden", 3, "--visible-units", "gaussian", "--learning-rate", ".001"), ("features", "energies", "completed")),
    "classes": (("--hidden", 3, "--per-class"), ("classes", "energies", "features")),
    "labels": (("--hidden", 4, "--labels", "generative"), ("classes", "features")),
    "deep": (("--layers", "4,3"), ("features",)),
}


@pytest.mark.parametrize("suffix", [".h5", ".parquet", ".csv"])
@pytest.mark.parametrize(("units", "want"), [(units, want) for units, (_, wants) in HARMONIUMS.items() for want in wants])
def test_harmoniums_make_the_bytes_of_all_rows(tmp_path, monkeypatch, units, want, suffix):
    draw = np.random.default_rng(0)
    X = (draw.random((300, 6)) < np.linspace(0.2, 0.8, 6)).astype(float) * 2.0
    X = X + draw.normal(size=X.shape).round(3) if units == "gaussian" else X
    y = (X.sum(axis=1) > 6).astype(np.int64)
    table = pa.table({f"x{j}": column for j, column in enumerate(X.T)} | {"y": y, "split": np.arange(300) % 3})
    if suffix == ".h5":
        with h5py.File(tmp_path / "rows.h5", "w") as file:
            file["X"], file["y"], file["split"] = X, y, np.arange(300) % 3
            if want == "completed":
                file["X"][draw.random(X.shape) < 0.1] = np.nan
    else:
        TABLES[suffix](table, tmp_path / f"rows{suffix}")
    with h5py.File(tmp_path / "train.h5", "w") as file:
        file["X"], file["y"] = np.nan_to_num(X), y
    monkeypatch.chdir(tmp_path)
    options, _ = HARMONIUMS[units]
    run("fit-rbm", "train.h5", *options, "--epochs", 3, "-o", "model.h5")
    asked = ("apply", "model.h5", f"rows{suffix}", "--want", want, "-o")
    monkeypatch.setattr(row_likelihood, "BLOCK", 100)  # numbers of the rows that are taken together
    monkeypatch.setattr(row_likelihood, "FEWEST", 1)
    outputs = ("made.h5", "made.parquet", "made.csv") if suffix == ".h5" else ("made.h5",)
    whole = {}
    for name in outputs:
        run(*asked, name)
        whole[name] = (tmp_path / name).read_bytes()
    if units == "gaussian" and want == "completed":
        assert not np.isnan(load("made.h5").value.X).any()
    stretches(monkeypatch, columns=6)
    made, make = list[int](), incremental_dataset.delimited_text.append_rows
    monkeypatch.setattr(incremental_dataset, "validate", lambda part: made.append(len(part.X)))
    assert make is delimited_text.append_rows
    for name in outputs:
        run(*asked, name)
        assert (tmp_path / name).read_bytes() == whole[name]
    assert len(made) > 3
    assert sum(made) == 300 * len(outputs)


@pytest.mark.parametrize("name", ["made.h5", "made.parquet", "made.csv.gz"])
@pytest.mark.parametrize("size", [7, 77, 299, 300])
def test_what_is_written_in_stretches_has_the_bytes_of_one_piece(tmp_path, monkeypatch, name, size):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(parquet_files, "ROW_GROUP_BYTES", 4096)
    draw = np.random.default_rng(0)
    whole = Dataset(
        draw.normal(size=(300, 5)).astype(np.float32),
        y=draw.integers(0, 3, 300),
        split=(np.arange(300) % 3).astype(np.uint8),
        weight=draw.random(300),
        feature_names=list("abcde"),
        class_names=["one", "two", "three"],
        value_range=np.array([0.0, 1.0]),
    )
    save(name, whole, [{"command": "apply"}])
    expected = (tmp_path / name).read_bytes()
    parts = [take_rows(whole, slice(start, start + size)) for start in range(0, 300, size)]
    assert incremental_dataset.save_in_parts(name, iter(parts), 300, [{"command": "apply"}]).size == len(expected)
    assert (tmp_path / name).read_bytes() == expected
    assert load(name).value == whole or name.endswith(".gz")
    texts = replace(whole, columns={"labels": np.array([f"l{'x' * (k % 5)}" for k in range(300)])})  # whose place in HDF5 may be another
    parts = [take_rows(texts, slice(start, start + size)) for start in range(0, 300, size)]
    incremental_dataset.save_in_parts(name, iter(parts), 300, [])
    if not name.endswith(".gz"):
        assert (load(name).value.columns or {})["labels"].tolist() == texts.columns["labels"].tolist()


def test_a_stretch_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made.h5").write_text("mine")

    def parts():
        yield Dataset(np.zeros((5, 2)))
        raise DataError("no more")

    with pytest.raises(DataError, match="no more"):
        incremental_dataset.save_in_parts("made.h5", parts(), 10, [])
    assert (tmp_path / "made.h5").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["made.h5"]
    with pytest.raises(TypeError, match="rows of field 'X' from 5 on hold float32, those before float64"):
        incremental_dataset.save_in_parts("made.h5", iter([Dataset(np.zeros((5, 2))), Dataset(np.zeros((5, 2), dtype=np.float32))]), 10, [])


def test_rows_that_are_taken_together_are_those_of_the_scores():
    assert {inputs.TOGETHER[kind] for kind in ("classifier", "tagger", "predictor")} == {classifier_scores.ROWS}


def test_labels_of_other_types_stay_in_stretches(tmp_path, monkeypatch):
    X = np.random.default_rng(0).normal(size=(300, 3))
    monkeypatch.chdir(tmp_path)
    for name, y in (("floats", np.arange(300) % 3 * 1.0), ("texts", np.array([b"b", b"a"])[np.arange(300) % 2])):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["X"], file["labels" if name == "texts" else "y"] = X, y
        run("em", f"{name}.h5", "--model", "fa", "--components", "1", "--iterations", "2", "-o", "model.h5")
        run("apply", "model.h5", f"{name}.h5", "-o", "whole.csv")
        with monkeypatch.context() as small:
            stretches(small)
            run("apply", "model.h5", f"{name}.h5", "-o", "streamed.csv")
        require_same_lines(tmp_path)
        assert (tmp_path / "streamed.csv").read_text().startswith("factor1,y\n")


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".h5", ".npz"])
@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_labels_that_nobody_asks_for_may_be_anything(tmp_path, monkeypatch, task, suffix):
    X = np.random.default_rng(0).normal(size=(300, 2)).round(3)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.csv").write_text("\n".join(["a,b,y", *(f"{a},{b},{int(a > b)}" for a, b in X)]) + "\n")
    run("nherd-train", "train.csv", "--task", task, "-o", "model.h5")
    columns = {"a": X[:, 0], "b": X[:, 1], "y": X[:, 0]}
    if suffix in TABLES:
        TABLES[suffix](pa.table(columns), tmp_path / f"rows{suffix}")
    elif suffix == ".npz":
        np.savez(tmp_path / "rows.npz", X=X, y=X[:, 0], feature_names=np.array(["a", "b"]))
    else:
        with h5py.File(tmp_path / "rows.h5", "w") as file:
            file["X"], file["y"], file["feature_names"] = X, X[:, 0], [b"a", b"b"]
    run("apply", "model.h5", "train.csv", "-o", "known.csv")
    run("apply", "model.h5", f"rows{suffix}", "-o", "made.csv")
    assert (tmp_path / "made.csv").read_bytes() == (tmp_path / "known.csv").read_bytes()
    with pytest.raises(DataError, match="labels must be whole numbers or text"):
        run("fit-rbm", f"rows{suffix}", "--label", "y", "--visible-units", "gaussian", "-o", "rbm.h5")


@pytest.mark.parametrize("suffix", [".h5", ".parquet", ".csv"])
def test_an_offset_beside_the_rows_stays_beside_them(tmp_path, monkeypatch, suffix):
    draw = np.random.default_rng(0)
    X, offset = draw.normal(size=(300, 2)), draw.random(300)
    monkeypatch.chdir(tmp_path)
    if suffix == ".h5":
        with h5py.File("rows.h5", "w") as file:
            file["X"], file["y"], file["weeks"] = X, draw.poisson(2.0, 300), offset
    else:
        TABLES[suffix](pa.table({"a": X[:, 0], "b": X[:, 1], "y": draw.poisson(2.0, 300), "weeks": offset}), tmp_path / f"rows{suffix}")
    run("regress", f"rows{suffix}", "--family", "poisson", "--offset", "weeks", "-o", "model.h5")
    run("apply", "model.h5", f"rows{suffix}", "-o", "whole.h5")
    whole = (tmp_path / "whole.h5").read_bytes()
    stretches(monkeypatch)
    run("apply", "model.h5", f"rows{suffix}", "-o", "streamed.h5")
    np.testing.assert_allclose(load("streamed.h5").value.X, load("whole.h5").value.X, rtol=1e-12)
    assert len((tmp_path / "streamed.h5").read_bytes()) == len(whole)


@pytest.mark.parametrize(("kind", "want"), [("factors", "completed"), ("mixture", "clusters"), ("rbm", "completed")])
@pytest.mark.parametrize("labels", [True, False])
def test_empty_cells_of_tables_are_gaps_in_stretches_too(tmp_path, monkeypatch, kind, want, labels):
    draw = np.random.default_rng(0)
    X = (draw.random((300, 3)) < 0.5).astype(float) if kind == "rbm" else draw.normal(size=(300, 3))
    np.savetxt(tmp_path / "train.csv", X, fmt="%.3f", delimiter=",", header="a,b,c", comments="")
    cells = [
        [f"{x:.3f}" if draw.random() > 0.1 else "" for x in row] + (["one" if k % 7 else ""] if labels else []) for k, row in enumerate(X)
    ]
    lines = ["a,b,c" + ",y" * labels, *(",".join(row) for row in cells if any(row))]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    model = {"rbm": ("fit-rbm", "--hidden", 3, "--epochs", 2), "mixture": MODELS["mixture"], "factors": MODELS["factors"]}[kind]
    run(model[0], "train.csv", *model[1:], "-o", "model.h5")
    run("apply", "model.h5", "rows.csv", "--want", want, "-o", "whole.h5")
    stretches(monkeypatch)
    run("apply", "model.h5", "rows.csv", "--want", want, "-o", "streamed.h5")
    ours, theirs = load("streamed.h5").value, load("whole.h5").value
    np.testing.assert_allclose(ours.X, theirs.X, rtol=1e-9)
    np.testing.assert_array_equal(ours.y, theirs.y)
