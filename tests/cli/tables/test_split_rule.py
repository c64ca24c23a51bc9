"""One file, one seed, one split: whatever a command learns, the same rows judge it."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from herdcli.artifacts import load
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.tables.dataset_preparation import SplitRule, assign_splits, use_split_rule


@pytest.fixture
def rows(tmp_path):
    """Three classes of unlike sizes; every row has a number of its own."""
    random = np.random.default_rng(3)
    y = np.repeat(["a", "b", "c"], [50, 25, 15])
    random.shuffle(y)
    X = np.round(random.laplace(size=(90, 2)) + (y == "a")[:, None], 4)
    X[:, 0] = np.arange(90) / 8 + X[:, 0] / 100
    X = np.round(X, 4)
    with open(tmp_path / "rows.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["number", "value", "y"])
        out.writerows([*map(repr, row), label] for row, label in zip(X.tolist(), y.tolist(), strict=True))
    return X


def test_test_rows_are_the_same_in_every_command(run, rows, tmp_path):
    """The numbers of the test rows, of which models keep the values."""
    plain = assign_splits(Dataset(rows), ".5,.2,.3", 4)
    wanted = np.sort(rows[plain == 2][:, 0])
    for line in ("em --drop y --components 1", "em --label y --components 1", "em --model kmeans --label y --components 2"):
        assert run(*line.split(), "rows.csv", "--split", ".5,.2,.3", "--seed", "4", "-o", "m.h5").code == 0
        assert np.array_equal(np.sort(load(str(tmp_path / "m.h5")).value.holdout[:, 0]), wanted), line
    line = "fit-rbm --visible-units gaussian --hidden 2 --epochs 1 --label y --split .5,.2,.3 --seed 4 -o m.h5"
    assert run(*line.split(), "rows.csv").code == 0
    held = load(str(tmp_path / "m.h5")).value
    parts = np.asarray(held.holdout.split)
    assert np.allclose(np.sort(np.asarray(held.holdout.X)[parts == 2][:, 0]), wanted, atol=1e-5)
    for line, figure in (("regress", "rows"), ("nherd-train", "rows")):
        assert run(line, "rows.csv", "--split", ".5,.2,.3", "--seed", "4", "-o", "m.h5").code == 0
        ended = run("eval", "m.h5", "--format", "csv")
        (row,) = csv.DictReader(ended.out.splitlines())
        assert int(row[figure] or 0) in (0, len(wanted), int((plain == 0).sum()), int((plain > 0).sum()))
    assert run("convert", "rows.csv", "--split", ".5,.2,.3", "--seed", "4", "-o", "c.h5").code == 0
    assert np.array_equal(load(str(tmp_path / "c.h5")).value.split, plain)


def test_components_are_judged_on_the_same_rows_by_default(run, rows, tmp_path):
    for command in ("em", "ica"):
        assert run(command, "rows.csv", "--drop", "y", "-o", f"{command}.h5").code == 0
    held = load(str(tmp_path / "em.h5")).value.holdout
    model = load(str(tmp_path / "ica.h5")).value
    assert model.holdout.shape[0] == held.shape[0] == 18
    assert np.allclose(model.holdout, model.whitening.apply(held), atol=1e-4)


def test_counts_are_rows_of_every_class():
    y = np.repeat([0, 1], [30, 10])
    data = Dataset(np.zeros((40, 1)), y=y)
    split = assign_splits(data, "5,2,1", 0)
    assert [int(((split == part) & (y == label)).sum()) for label in (0, 1) for part in (0, 1, 2)] == [5, 2, 1, 5, 2, 1]
    assert np.array_equal(assign_splits(data, None, 0), assign_splits(Dataset(data.X), None, 0))
    rule = SplitRule(by_class=True)
    with use_split_rule(rule):
        earlier = assign_splits(data, None, 0)
    assert [int((earlier[y == 1] == part).sum()) for part in (0, 1, 2)] == [6, 2, 2]
    assert rule.drawn


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--seed", "3"), "--seed 0 and 3"),
        (("--split", ".8,.1,.1"), "--split the data set's own or the default and .8,.1,.1"),
        (("--missing", "drop"), "--missing drop left rows out of one of them"),
    ],
)
def test_eval_says_that_test_rows_differ(run, rows, options, why):
    assert run("em", "rows.csv", "--label", "y", "-o", "a.h5").code == 0
    assert run("nherd-train", "rows.csv", "-o", "same.h5").code == 0
    assert run("em", "rows.csv", "--label", "y", *options, "-o", "b.h5").code == 0
    assert "different test rows" not in run("eval", "a.h5", "same.h5").err
    said = f"eval: warning: a.h5 and b.h5 are evaluated on different test rows: {why}\n"
    assert said in run("eval", "a.h5", "same.h5", "b.h5").err
    assert said not in run("eval", "a.h5", "b.h5", "--data", "rows.csv").err


def test_eval_says_that_inputs_differ(run, rows, tmp_path):
    (tmp_path / "fewer.csv").write_text("".join((tmp_path / "rows.csv").read_text().splitlines(keepends=True)[:60]))
    for name in ("rows", "fewer"):
        assert run("em", f"{name}.csv", "--label", "y", "-o", f"{name}.h5").code == 0
    said = "rows.h5 and fewer.h5 are evaluated on different test rows: they were learned from different inputs"
    assert said in run("eval", "rows.h5", "fewer.h5").err
