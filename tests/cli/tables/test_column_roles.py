"""Columns with everyday names: labels, splits and weights of commands that learn from them, and features of all others."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from herdcli.artifacts import load

HISTORIES = Path(__file__).parents[2] / "data" / "histories"  # made before columns had roles only where they are asked for
UNLABELLED = {
    "em": ("em", "--model", "gmm", "--components", "1", "--covariance", "diagonal"),
    "kmeans": ("em", "--model", "kmeans", "--components", "2"),
    "ica": ("ica",),
    "fit-rbm": ("fit-rbm", "--visible-units", "gaussian", "--hidden", "2", "--epochs", "1"),
    "kernel-herd": ("kernel-herd", "--count", "5"),
}


def table(path, names, count=60):
    """Numbers of unlike columns."""
    random = np.random.default_rng(0)
    X = np.round(random.laplace(size=(count, len(names))) + np.arange(len(names)), 3)
    path.write_text(",".join(names) + "\n" + "\n".join(",".join(map(repr, row)) for row in X.tolist()) + "\n")
    return X


def names_of(path):
    value = load(str(path)).value
    return list(getattr(value, "known", value).feature_names)


@pytest.mark.parametrize("kind", UNLABELLED)
def test_models_of_rows_take_every_column_as_it_is(run, tmp_path, kind):
    table(tmp_path / "t.csv", ["height", "weight", "class", "Split"])
    ended = run(*UNLABELLED[kind], "t.csv", "-o", "m.h5")
    assert ended.code == 0, ended.err
    assert names_of(tmp_path / "m.h5") == ["height", "weight", "class", "Split"]
    said = "columns 'Split', 'weight' and 'class' are features (else: --split-column Split, --weights weight, --label class)"
    assert said in ended.err
    assert "labels from" not in ended.err


def test_the_closing_line_says_what_was_used_as_what(run, tmp_path):
    table(tmp_path / "t.csv", ["a", "b"])
    rows = (tmp_path / "t.csv").read_text().splitlines()
    body = [f"{line},{number % 3},{1 + number % 2},{'uv'[number % 2]}" for number, line in enumerate(rows[1:])]
    (tmp_path / "t.csv").write_text("\n".join([f"{rows[0]},part,times,kind", *body]) + "\n")
    ended = run("em", "t.csv", "--components", "1", "--label", "kind", "--split-column", "part", "--weights", "times", "-o", "m.h5")
    assert ended.code == 0, ended.err
    last = next(line for line in ended.err.splitlines() if "→" in line)
    assert "split from column 'part', labels from column 'kind'" in last
    assert names_of(tmp_path / "m.h5") == ["a", "b"]
    ended = run("fit-mrf", "--values", "two", "--range", "-30,30", "t.csv", "--weights", "times", "--drop", "kind,part", "-o", "n.h5")
    assert ended.code == 0, ended.err
    assert "weights from column 'times'" in ended.err
    assert load(str(tmp_path / "n.h5")).value.names == ["a", "b"]


def test_an_exclusive_or_has_three_variables(run, tmp_path):
    triples = [(x, y, x ^ y) for x, y in itertools.product((0, 1), repeat=2)] * 20
    (tmp_path / "xyz.csv").write_text("x,y,z\n" + "\n".join(",".join(map(str, row)) for row in triples) + "\n")
    (tmp_path / "all.txt").write_text("x y z\n")
    ended = run("fit-mrf", "xyz.csv", "--clusters", "all.txt", "--split", "1,0,0", "--smoothing", "0", "-o", "m.h5")
    assert ended.code == 0, ended.err
    assert load(str(tmp_path / "m.h5")).value.names == ["x", "y", "z"]
    (tmp_path / "e.txt").write_text("2 0 1 1 0\n")  # x is 1 and y is 0
    assert run("ups-infer", "m.h5", "--evidence", "e.txt", "-o", "b.h5").code == 0
    assert load(str(tmp_path / "b.h5")).value.node[4:].tolist() == pytest.approx([0, 1], abs=1e-9)
    ended = run("fit-mrf", "xyz.csv", "--label", "y", "-o", "two.h5")
    assert load(str(tmp_path / "two.h5")).value.names == ["x", "z"]
    assert "labels from column 'y'" in ended.err


def test_no_labels_are_wanted(run, tmp_path):
    X = table(tmp_path / "t.csv", ["a", "b", "y"])
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["X"], file["y"] = X[:, :2], (X[:, 2] > 2).astype(int)
    ended = run("em", "--per-class", "t.csv", "--label", "none", "-o", "m.h5")
    assert ended.code == 65
    assert "there are no labels, which --per-class needs" in ended.err
    for name in ("t.h5", "t.npz"):
        if name == "t.npz":
            np.savez(tmp_path / name, X=X[:, :2], y=(X[:, 2] > 2).astype(int))
        assert run("em", name, "--components", "1", "--label", "none", "-o", "m.h5").code == 0
        assert load(str(tmp_path / "m.h5")).value.known.class_names is None
        assert run("em", name, "--components", "1", "-o", "m.h5").code == 0  # a data set of its own stays what it is
        assert load(str(tmp_path / "m.h5")).value.known.class_names == ["0", "1"]
    assert run("convert", "t.h5", "-o", "sealed.h5").code == 0
    assert run("em", "sealed.h5", "--components", "1", "--label", "none", "-o", "m.h5").code == 0
    assert load(str(tmp_path / "m.h5")).value.known.class_names is None


def test_new_rows_have_the_columns_of_the_model(run, tmp_path):
    X = table(tmp_path / "t.csv", ["a", "y", "weight"])
    assert run("em", "t.csv", "--components", "1", "-o", "m.h5").code == 0
    ended = run("apply", "m.h5", "t.csv", "-o", "out.h5")
    assert ended.code == 0, ended.err
    ended = run("eval", "m.h5", "--data", "t.csv", "--format", "json")
    assert ended.code == 0, ended.err
    (row,) = json.loads(ended.out)
    model = load(str(tmp_path / "m.h5")).value
    S, d = model.covariance[0], X - model.mean[0]
    right = -0.5 * (np.einsum("ni,ij,nj->n", d, np.linalg.inv(S), d) + np.linalg.slogdet(2 * np.pi * S)[1]).mean()
    assert row["log_likelihood"] == pytest.approx(right, rel=1e-6)


@pytest.mark.parametrize("kind", ["em", "fit-rbm", "nherd-train", "regress", "kernel-herd"])
def test_columns_are_dropped_or_chosen_everywhere(run, tmp_path, kind):
    options = {"nherd-train": ("nherd-train",), "regress": ("regress", "--family", "gaussian")}.get(kind) or UNLABELLED[kind]
    X = table(tmp_path / "t.csv", ["id", "x1", "x2", "note"])
    rows = (tmp_path / "t.csv").read_text().splitlines()
    more = [f"{line},{int(x > 1)}" for line, x in zip(rows[1:], X[:, 1], strict=True)]
    (tmp_path / "t.csv").write_text("\n".join([f"{rows[0]},y", *more]) + "\n")
    extra = () if kind in ("nherd-train", "regress") else (",y",)
    assert run(*options, "t.csv", "--drop", "id,note" + "".join(extra), "-o", "dropped.h5").code == 0
    assert run(*options, "t.csv", "--columns", "x*", "-o", "chosen.h5").code == 0
    assert names_of(tmp_path / "dropped.h5") == names_of(tmp_path / "chosen.h5") == ["x1", "x2"]
    ended = run(*options, "t.csv", "--drop", "nothing", "-o", "no.h5")
    assert ended.code == 2
    assert "t.csv: --drop nothing: there is no such column" in ended.err
    assert "columns: id, x1, x2, note, y" in ended.err
    assert run("check", "--rerun", "dropped.h5", "--input", "t.csv").code == 0


@pytest.mark.parametrize("name", ["em", "nherd", "nherd_default", "nherd_numbers", "ica", "mrf", "regress"])
def test_histories_of_before_keep_their_meaning(run, tmp_path, name):
    for path in HISTORIES.iterdir():
        shutil.copy(path, tmp_path)
    ended = run("check", "--rerun", f"{name}.h5", "--input", "rows.csv", "--input", "codes.csv")
    assert ended.code == 0, ended.err
    assert "reproduced" in ended.out


def test_the_record_says_how_columns_were_read_where_that_is_new(run, tmp_path):
    table(tmp_path / "plain.csv", ["a", "b"])
    table(tmp_path / "named.csv", ["a", "y"])
    for name, recorded in (("plain", None), ("named", "declared")):
        assert run("em", f"{name}.csv", "--components", "1", "-o", f"{name}.h5").code == 0
        assert load(str(tmp_path / f"{name}.h5")).history[-1]["parameters"].get("column_roles") == recorded
        ended = run("check", "--rerun", f"{name}.h5", "--input", f"{name}.csv")
        assert ended.code == 0
        assert "same bytes" in ended.out


def test_predictions_are_named_after_their_target_which_is_no_unknown_column(run, tmp_path):
    table(tmp_path / "t.csv", ["size", "price", "tax"])
    assert run("regress", "t.csv", "--target", "price", "--family", "gaussian", "-o", "m.h5").code == 0
    ended = run("apply", "m.h5", "t.csv", "-o", "p.csv")
    assert ended.code == 0, ended.err
    assert "unknown to the model" not in ended.err
    assert (tmp_path / "p.csv").read_text().splitlines()[0] == "predicted_price"
    ended = run("nherd-train", "t.csv", "--label", "price", "--task", "regression", "-o", "n.h5")
    assert ended.code == 0, ended.err
    ended = run("apply", "n.h5", "t.csv", "-o", "p.csv")
    assert ended.code == 0, ended.err
    assert "unknown to the model" not in ended.err
    assert (tmp_path / "p.csv").read_text().splitlines()[0] == "predicted_price,deviation"


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("nherd-train", "Class"),
        ("nherd-train", "y"),
        ("nherd-train --label species", "species"),
        ("regress --target species", "species"),
        ("fit-rbm --per-class --label species --hidden 2 --epochs 1 --visible-units gaussian", "species"),
    ],
)
def test_predicted_classes_are_named_after_their_column(run, tmp_path, line, column):
    """In text; in HDF5 they are the data set's labels."""
    random = np.random.default_rng(2)
    rows = [(*(random.normal(size=2) + 2 * (k % 2)).round(3), "ab"[k % 2]) for k in range(60)]
    (tmp_path / "t.csv").write_text(f"u,v,{column}\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n")
    command, *options = line.split()
    ended = run(command, "t.csv", *options, "-q", "-o", "m.h5")
    assert ended.code == 0, ended.err
    for name in ("p.csv", "p.h5"):
        ended = run("apply", "m.h5", "t.csv", "-o", name)
        assert ended.code == 0, ended.err
        assert "unknown to the model" not in ended.err
    assert (tmp_path / "p.csv").read_text().splitlines()[0] == f"a,b,predicted_{column}"
    assert set(load(str(tmp_path / "p.h5")).value.y.tolist()) == {0, 1}
    assert run("convert", "p.h5", "-o", "c.csv").code == 0
    assert (tmp_path / "c.csv").read_bytes() == (tmp_path / "p.csv").read_bytes()


def test_columns_that_identify_rows_are_reported(run, tmp_path):
    random = np.random.default_rng(1)
    rows = [(1000 + 7 * k, k, f"n{k}", *random.normal(size=2).round(3)) for k in range(30)]
    (tmp_path / "t.csv").write_text("customer_id,row,name,a,b\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n")
    ended = run("em", "t.csv", "--components", "1", "-o", "m.h5")
    assert ended.code == 0, ended.err
    for name, why in (
        ("customer_id", "has another number in each row"),
        ("row", "counts the rows"),
        ("name", "has another text in each row"),
    ):
        assert f"em: t.csv: column '{name}' {why}, so it may be an identifier: --drop {name} leaves it out\n" in ended.err
    quiet = run("em", "t.csv", "--components", "1", "--drop", "customer_id:name", "-o", "m.h5")
    assert "identifier" not in quiet.err


def test_levels_that_training_never_saw_are_reported_by_apply_and_eval(run, tmp_path):
    lines = [f"{'red' if k % 2 else 'blue'},{k % 7},{k % 5}" for k in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["colour,x,z", *lines]) + "\n")
    (tmp_path / "n.csv").write_text("colour,x,z\ngreen,1,2\nred,2,3\nblue,0,1\n")
    assert run("em", "t.csv", "--components", "1", "-o", "m.h5").code == 0
    said = "warning: n.csv: column 'colour' has 'green' in 1 row, but in no training row: all its one-hot columns there are 0\n"
    assert said in run("apply", "m.h5", "n.csv", "-o", "out.h5").err
    assert said in run("eval", "m.h5", "--data", "n.csv").err


@pytest.mark.parametrize("name", ["Y", "target", "Target", "LABEL", "class"])
@pytest.mark.parametrize("more", [(), ("--one-pass",)])
def test_numbers_under_the_usual_names_of_labels_are_the_target_of_a_regression(run, tmp_path, name, more):
    """As those of a column y are: the same coefficients, and the target under its own name."""
    for title in ("y", name):
        table(tmp_path / f"{title}.csv", ["a", "b", title])
    run("regress", "y.csv", "-o", "y.json", *more)
    ended = run("regress", f"{name}.csv", "-o", "named.json", *more)
    assert ended.code == 0, ended.err
    assert json.loads((tmp_path / "named.json").read_text()) == json.loads((tmp_path / "y.json").read_text())
    assert ("--one-pass" in more) or f"the target '{name}' holds numbers: --family gaussian" in ended.err
    assert run("regress", f"{name}.csv", "-o", "m.h5", *more).code == 0
    assert run("eval", "m.h5", "--data", f"{name}.csv").code == 0
    assert run("apply", "m.h5", f"{name}.csv", "-o", "p.csv").code == 0
    assert (tmp_path / "p.csv").read_text().splitlines()[0] == f"predicted_{name}"


@pytest.mark.parametrize(
    ("line", "features"),
    [
        (("regress",), ["a", "class", "target"]),
        (("regress", "--target", "target"), ["a", "class", "y"]),
        (("nherd-train", "--task", "regression"), ["a", "class", "target"]),
        (("nherd-train", "--task", "regression", "--label", "target"), ["a", "y", "class"]),
    ],
)
def test_columns_that_are_not_the_target_are_features(run, tmp_path, line, features):
    """Also under names that labels usually have; a model judges and predicts the rows of its own file."""
    table(tmp_path / "t.csv", ["a", "y", "class", "target"])
    ended = run(line[0], "t.csv", *line[1:], "-o", "m.h5")
    assert ended.code == 0, ended.err
    assert names_of(tmp_path / "m.h5") == features
    judged = run("eval", "m.h5", "--data", "t.csv")
    assert judged.code == 0, judged.err
    assert run("apply", "m.h5", "t.csv", "-o", "p.csv").code == 0


def test_messages_name_rows_of_text_by_their_lines(run, tmp_path):
    (tmp_path / "t.csv").write_text("n,hits,a\n3,1,0.5\n2,5,0.25\n4,1,1\n")
    ended = run("regress", "t.csv", "--target", "hits", "--trials", "n", "-o", "m.h5")
    assert (ended.code, ended.err.splitlines()[-1]) == (
        65,
        "herd regress: t.csv: line 3 has 5 successes in only 2 trials (columns: the target and 'n')",
    )
    (tmp_path / "t.csv").write_text("a,b\n1,2\n\n3,4,5\n")
    ended = run("em", "t.csv", "-o", "m.h5")
    assert ended.err.splitlines()[0] == "herd em: t.csv: line 4 has 3 values, expected 2"


SPLITS = {"train": "train", "valid": "val", "test": "test"}


@pytest.mark.parametrize("write", [str, str.capitalize, str.upper])
@pytest.mark.parametrize("command", [*UNLABELLED, "fit-mrf", "regress", "nherd-train", "convert"])
def test_a_column_of_split_names_is_the_split_in_every_command(run, tmp_path, command, write):
    random = np.random.default_rng(4)
    rows = ["a,b,c,y,split"]
    for number, bits in enumerate(random.integers(0, 2, (60, 4))):
        part = write("train" if number < 30 else "val" if number < 40 else "Test")
        rows.append(",".join([*(f"{bit}" for bit in bits), part]))
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    ended = run(*UNLABELLED.get(command, (command,)), "t.csv", "-o", "m.h5")
    assert ended.code == 0, ended.err
    assert "split from column 'split'" in ended.err
    assert "one-hot" not in ended.err
    assert "'split'" not in ended.err.replace("split from column 'split'", "")
    value = load(str(tmp_path / "m.h5")).value
    if command in ("em", "ica"):
        assert len(value.holdout) == 20
    elif command == "convert":
        assert value.split.tolist() == [0] * 30 + [1] * 10 + [2] * 20


def test_other_columns_called_split_are_features_of_models_of_rows(run, tmp_path):
    """Numbers, texts that are no names of splits, and a column that --split-column none releases."""
    X = table(tmp_path / "t.csv", ["a", "b"])
    for values, more in ((["0", "2"], ()), (["train", "left"], ()), (["train", "test"], ("--split-column", "none"))):
        lines = (tmp_path / "t.csv").read_text().splitlines()
        body = [f"{line},{values[number % 2]}" for number, line in enumerate(lines[1:])]
        (tmp_path / "s.csv").write_text("\n".join([f"{lines[0]},split", *body]) + "\n")
        ended = run("em", "--components", "1", "s.csv", *more, "-o", "m.h5")
        assert ended.code == 0, ended.err
        assert "split from" not in ended.err
        assert len(names_of(tmp_path / "m.h5")) == (3 if values[0] == "0" else 4)
    assert len(X) == 60


@pytest.mark.parametrize("line", ["em --components 1", "regress", "convert"])
def test_columns_that_are_not_used_are_named_once(run, tmp_path, line):
    """Without text columns there is no note about their names, and --categorical none lists them in one line."""
    rows = [f"n{row},{'uv'[row % 2]},{row * row % 11},{row * 7 % 5},{'lr'[row * row % 3 % 2]},{'pq'[row % 2]}" for row in range(30)]
    (tmp_path / "t.csv").write_text("name,colour,a,b,label,class\n" + "\n".join(rows) + "\n")
    label = () if line.startswith("em") else ("--target", "a") if line == "regress" else ("--label", "none")
    ended = run(*line.split(), "t.csv", *label, "--categorical", "none", "-o", "m.h5")
    assert ended.code == 0, ended.err
    listed = "not used: name, colour, label, class\n"
    assert ended.err.count(listed) == 1
    for name in ("name", "colour", "label", "class"):
        assert f"'{name}'" not in ended.err
        assert f" {name}" not in ended.err.replace(listed, "").replace(" classes", ""), ended.err


def test_an_identifier_of_texts_has_one_note(run, tmp_path):
    rows = [f"n{row},{row * row % 11},{row * 7 % 5}" for row in range(30)]
    (tmp_path / "t.csv").write_text("name,a,b\n" + "\n".join(rows) + "\n")
    ended = run("em", "t.csv", "--components", "1", "-o", "m.h5")
    assert "column 'name' has another text in each row" in ended.err
    assert "ignored column name" not in ended.err


def test_notes_of_a_file_that_is_read_twice_are_printed_once(run, tmp_path):
    rows = [f"{row},{'uv'[row % 2]},{row * row % 11}" for row in range(30)]
    (tmp_path / "t.csv").write_text("id,colour,a\n" + "\n".join(rows) + "\n")
    ended = run("regress", "t.csv", "--target", "price", "-o", "m.h5")
    assert ended.code != 0
    assert "--target price: there is no such column" in ended.err
    lines = ended.err.splitlines()
    assert len(set(lines)) == len(lines)
    assert sum("may be an identifier" in line for line in lines) == 1


LEVELS = {
    "regress": ("regress",),
    "nherd-train": ("nherd-train",),
    "em": ("em", "--components", "1"),
    "lds": ("em", "--model", "lds", "--components", "1"),
    "ica": ("ica",),
    "fit-rbm": ("fit-rbm", "--visible-units", "gaussian", "--hidden", "2", "--epochs", "1"),
    "softmax": ("fit-rbm", "--visible-units", "softmax", "--columns", "colour,size", "--hidden", "2", "--epochs", "1"),
    "categorical": ("em", "--model", "hmm", "--emission", "categorical", "--columns", "colour,size", "--components", "1"),
}


@pytest.mark.parametrize("kind", LEVELS)
def test_eval_reports_unknown_levels_as_apply_does(run, tmp_path, kind):
    random = np.random.default_rng(6)
    head = "colour,size,a,b,y\n"
    cells = lambda colours, count: "\n".join(  # noqa: E731
        f"{random.choice(colours)},{random.choice(['s', 'm'])},{random.normal():.3f},{random.normal():.3f},{random.integers(2)}"
        for _ in range(count)
    )
    (tmp_path / "t.csv").write_text(head + cells(["red", "blue"], 60) + "\n")
    (tmp_path / "n.csv").write_text(head + cells(["red", "blue"], 20) + "\ngreen,s,.1,.2,0\ngreen,m,.3,.2,1\n")
    assert run(*LEVELS[kind], "t.csv", "-o", "m.h5").code == 0
    told = [run("apply", "m.h5", "n.csv", "-o", "p.csv"), run("eval", "m.h5", "--data", "n.csv")]
    said = [next(line.split("n.csv: ", 1)[1] for line in ended.err.splitlines() if "'green'" in line) for ended in told]
    assert said[0] == said[1]
    if kind in ("softmax", "categorical"):
        assert said[0] == "'green' of column 'colour' (2 rows) is not one of its states: blue, red"
        assert [ended.code for ended in told] == [65, 65]
    else:
        assert said[0].startswith("column 'colour' has 'green' in 2 rows, but in no training row: all its one-hot columns there are 0")
        assert [ended.code for ended in told] == [0, 0]


def test_numbers_as_labels_are_refused_by_the_name_of_their_column(run, tmp_path):
    X = table(tmp_path / "t.csv", ["a", "b", "hours"])
    for line in (("nherd-train", "--label", "hours"), ("fit-rbm", "--visible-units", "gaussian", "--per-class", "--label", "hours")):
        ended = run(line[0], "t.csv", *line[1:], "-o", "m.h5")
        assert ended.code == 65
        said = f"t.csv: column 'hours' has the value {X[0, 2]:g} in line 2, but labels must be whole numbers or text"
        assert said in ended.err
        assert ended.err.endswith("hint: use herd regress or herd nherd-train --task regression to predict numbers\n")
