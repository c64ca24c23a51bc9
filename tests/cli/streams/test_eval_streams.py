"""`herd eval --data` of what learned online keeps no scores: its figures are those of all scores, and what it keeps is little."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from herdcli.artifacts.rows import lazy_matrix, spill_file
from herdcli.cli.eval import classifiers
from herdcli.cli.frame.rows import classifier_scores
from herdcli.cli.main import cli
from herdcli.errors import DataError

ROWS = 2500
CLASSES = {"two": 2, "four": 4}


def run(*words: object) -> None:
    cli.main([*map(str, words), "-q"], prog_name="herd", standalone_mode=False, obj=[])


def write(path, X, y, names=None):
    """HDF5, Parquet or CSV of the same rows."""
    if path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file["X"], file["y"] = X, y
        return
    labels = pa.array(np.array(names)[y].tolist() if names else y)
    table = pa.table({f"x{j}": column for j, column in enumerate(X.T)} | {"y": labels})
    parquet.write_table(table, path, row_group_size=700) if path.suffix == ".parquet" else csv.write_csv(table, path)


def drawn(classes):
    draw = np.random.default_rng(classes)
    X = draw.normal(size=(ROWS, 4)).round(2)
    return X, (
        np.argmax(X[:, :classes] + draw.normal(size=(ROWS, classes)), axis=1) if classes > 2 else (X[:, 0] > draw.normal(size=ROWS)) * 1
    )


@pytest.fixture
def large(monkeypatch):
    """Every file is a large one, and what figures keep of each row goes into a file."""
    monkeypatch.setattr(lazy_matrix, "LEAST", 1)
    monkeypatch.setattr(spill_file, "LEAST", 0)


@pytest.mark.parametrize("suffix", [".h5", ".parquet", ".csv"])
@pytest.mark.parametrize("classes", list(CLASSES))
def test_figures_are_those_of_all_scores(tmp_path, monkeypatch, request, classes, suffix):
    X, y = drawn(CLASSES[classes])
    names = None if suffix == ".h5" else ["b", "a", "d", "c"]
    monkeypatch.chdir(tmp_path)
    write(tmp_path / f"rows{suffix}", X, y, names)
    run("nherd-train", f"rows{suffix}", "--coverage", ".9", "-o", "model.h5")
    asked = ("eval", "model.h5", "--data", f"rows{suffix}")
    with monkeypatch.context() as kept:
        kept.setattr(classifiers.classifier_scores, "evaluate_on_examples", classifier_scores.rescore_classifier)
        run(*asked, "-o", "all.json")
    request.getfixturevalue("large")
    run(*asked, "-o", "blocks.json")
    assert (tmp_path / "blocks.json").read_bytes() == (tmp_path / "all.json").read_bytes()
    found = json.loads((tmp_path / "all.json").read_text())[0]
    assert found["rows"] == ROWS
    assert 0.5 < found["auc"] < 1.0


def test_figures_of_numbers_are_those_of_all_predictions(tmp_path, monkeypatch):
    draw = np.random.default_rng(0)
    text = [f"{x + draw.normal():.3f} | a:{x:.3f} b:{z:.3f}" for x, z in draw.normal(size=(ROWS, 2))]
    (tmp_path / "rows.vw").write_text("\n".join(text) + "\n")
    monkeypatch.chdir(tmp_path)
    run("nherd-train", "rows.vw", "--task", "regression", "--coverage", ".9", "-o", "model.h5")
    for name, judge in (("all", classifier_scores.rescore_classifier), ("blocks", classifier_scores.evaluate_on_examples)):
        monkeypatch.setattr(classifiers.classifier_scores, "evaluate_on_examples", judge)
        monkeypatch.setattr(spill_file, "LEAST", 0)
        run("eval", "model.h5", "--data", "rows.vw", "-o", f"{name}.json")
    assert (tmp_path / "blocks.json").read_bytes() == (tmp_path / "all.json").read_bytes()
    assert json.loads((tmp_path / "all.json").read_text())[0]["rows"] == ROWS


def test_what_is_kept_of_a_row_is_in_a_file(tmp_path, monkeypatch, large):
    X, y = drawn(4)
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.h5", X, y)
    run("nherd-train", "rows.h5", "-o", "model.h5")
    held, put = [], spill_file.SpilledBlocks.put
    monkeypatch.setattr(spill_file.SpilledBlocks, "put", lambda self, array: (place := put(self, array), held.append(place))[0])
    run("eval", "model.h5", "--data", "rows.h5", "-o", "out.json")
    assert held == [0, 48_000, 96_000]  # blocks of 1,000 rows, six numbers of 8 bytes each


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0] * ROWS, "every example has label 0; a classifier needs at least two classes"),
        ([0, 7] * (ROWS // 2), "label 7 is not one of the classes 0, 1"),
        (None, "there are no labels to learn from"),
    ],
)
def test_labels_that_no_one_can_be_judged_by(tmp_path, monkeypatch, large, y, message):
    X, own = drawn(2)
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.h5", X, own)
    run("nherd-train", "rows.h5", "-o", "model.h5")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["X"] = X
        if y is not None:
            file["y"] = y
    with pytest.raises(DataError) as told:
        run("eval", "model.h5", "--data", "other.h5", "-o", "out.json")
    assert told.value.message == message
