"""`herd eval --data` of what is judged by sums of blocks: rows of a large file stay in it, and no storage changes a byte."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import row_storages

from herdcli.artifacts.rows import lazy_matrix, spill_file
from herdcli.cli.frame.run.session import Session
from herdcli.cli.main import cli
from herdcli.errors import DataError

ROWS = 5000  # more than a block of 4,096
MODELS = {
    "regression": ("regress", "--target", "z", "--weights", "w"),
    "classes": ("regress", "--family", "softmax", "--l2", ".1"),
    "variance": ("regress", "--target", "z", "--offset", "w", "--gls", "variance"),
    "mixture": ("em", "--components", "3"),
    "of classes": ("em", "--per-class"),
    "kmeans": ("em", "--model", "kmeans", "--components", "3"),
    "factors": ("em", "--model", "fa", "--components", "1"),
    "filters": ("ica", "--algorithm", "fastica", "--components", "3"),
}


def run(*words: object) -> None:
    cli.main([*map(str, words), "-q"], prog_name="herd", standalone_mode=False, obj=[])


def judged(name: str, *words: object) -> str:
    run("eval", "model.h5", *words, "-o", f"{name}.json")
    return Path(f"{name}.json").read_text()


def numbers(row):
    return {name: item for name, item in row.items() if isinstance(item, (int, float))}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Rows in every storage, two columns of numbers and labels beside them, a part in each split."""
    folder, draw = tmp_path_factory.mktemp("rows"), np.random.default_rng(0)
    y = draw.integers(3, size=ROWS)
    X = (draw.laplace(size=(ROWS, 4)) + y[:, None]).round(2)
    z, w = (X[:, 0] + draw.normal(size=ROWS)).round(2), draw.uniform(0.5, 2.0, size=ROWS).round(2)
    split = np.where(np.arange(ROWS) < 400, 0, 2).astype(np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        row_storages.write(np.column_stack([X, z, w]), list("abcdzw"), {"y": y, "split": split}, repr)
        Path("rows.h5").rename("columns.h5")
        row_storages.write(X, list("abcd"), {"y": y, "z": z, "w": w, "split": split}, repr)
    return folder


@pytest.fixture
def large(monkeypatch):
    """Every file is a large one, and the rows of none are read whole."""
    load = Session.load

    def refused(self, path, role, **asked):
        assert role != "data"
        return load(self, path, role, **asked)

    def begin():
        monkeypatch.setattr(lazy_matrix, "LEAST", 1)
        monkeypatch.setattr(spill_file, "LEAST", 0)
        monkeypatch.setattr(Session, "load", refused)

    return begin


@pytest.mark.parametrize("model", list(MODELS))
def test_storages_of_rows_change_no_byte(monkeypatch, files, large, model):
    monkeypatch.chdir(files)
    command, *options = MODELS[model]
    roles = ["--label", "y", "--split-column", "split"] if command in ("em", "ica") else []
    run(command, "rows.parquet", *options, *roles, "-o", "model.h5")
    whole = judged("whole", "--data", "rows.parquet")
    own = numbers(json.loads(judged("own"))[0])
    large()
    for name in ("rows.h5" if "z" in options else "columns.h5", "rows.csv", "rows.parquet"):
        assert judged("blocks", "--data", name) == whole
    assert numbers(json.loads(whole)[0]) == pytest.approx(own, rel=1e-5)


def test_a_file_without_split_judges_by_all_rows(monkeypatch, files, large):
    monkeypatch.chdir(files)
    run("em", "rows.parquet", "--label", "y", "--split-column", "split", "-o", "model.h5")
    text = Path("rows.csv").read_text().splitlines()
    Path("all.csv").write_text("\n".join(line.rpartition(",")[0] for line in text) + "\n")
    whole = judged("whole", "--data", "all.csv")
    large()
    assert judged("blocks", "--data", "all.csv") == whole


def test_labels_that_come_late_count_from_the_first_row(monkeypatch, tmp_path, large):
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    lines = [f"{'1,2' if x > 0.3 else '2' if x > -0.5 else '1'} | a:{x:.3f} b:{z:.3f}" for x, z in draw.normal(size=(ROWS, 2))]
    Path("rows.txt").write_text("\n".join(lines[:300]) + "\n")
    Path("others.txt").write_text("\n".join(["3" + line[line.index(" ") :] if i == 4500 else line for i, line in enumerate(lines)]) + "\n")
    run("nherd-train", "rows.txt", "--task", "multilabel", "-o", "model.h5")
    whole = json.loads(judged("whole", "--data", "others.txt", "--report", "page.html"))[0]
    large()
    found = json.loads(judged("blocks", "--data", "others.txt"))[0]
    assert found["rows"] == ROWS
    assert (
        found["hamming_none"] == whole["hamming_none"] == pytest.approx(sum(line.count(",") + 1 for line in lines) / (3 * ROWS), rel=1e-3)
    )
    assert numbers(found) == pytest.approx(numbers(whole), rel=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((",1.5,", ",-1.5,"), "the weights of rows must be finite, not negative and not all 0"),
        ((",2\n", ",0\n"), "has no held-out rows to evaluate on"),
        (("a,b,c,d", "a,b,c,e"), "lacks column d that the model needs; it has e, unknown to the model"),
    ],
)
def test_rows_that_no_regression_can_be_judged_by(monkeypatch, files, large, change, message):
    monkeypatch.chdir(files)
    run("regress", "rows.parquet", "--target", "z", "--weights", "w", "-o", "model.h5")
    Path("other.csv").write_text(Path("rows.csv").read_text().replace(*change))
    for prepare in (lambda: None, large):
        prepare()
        with pytest.raises(DataError) as told:
            judged("blocks", "--data", "other.csv")
        assert told.value.message == message
