"""nherd-train --task multilabel as a process: beside classifiers of one label each, gone on with, merged, refused in one line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from herdcli.artifacts import load

PLAIN = ("--algorithm", "arow", "--C", "0.5", "--scale", "none", "--no-bias")
SETS = ("nherd-train", "-q", "--task", "multilabel")


def drawn(count: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of six features and which of the labels 1, 3 and 7 they have; some have none."""
    random = np.random.default_rng(seed)
    X = np.round(random.standard_normal((count, 6)), 3)
    weights = np.random.default_rng(99).standard_normal((6, 3))
    return X, (X @ weights - 0.8 + 0.3 * random.standard_normal((count, 3)) > 0).astype(int)


def text(X: np.ndarray, Y: np.ndarray, form: str = "svmlight", names: tuple[str, ...] = ("1", "3", "7")) -> bytes:
    """Lines with sets of labels."""
    out = []
    for row, labels in zip(X.tolist(), Y.tolist(), strict=True):
        head = ",".join(name for name, has in zip(names, labels, strict=True) if has)
        pairs = " ".join(f"{k + 1}:{value!r}" for k, value in enumerate(row))
        out.append(f"{head} {'|f ' if form == 'vw' else ''}{pairs}\n")
    return "".join(out).encode()


def figures(herd, *args: str) -> dict:
    ended = herd("eval", *args, "--format", "json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)[0]


@pytest.mark.parametrize("form", ["svmlight", "vw"])
def test_each_label_is_the_classifier_of_that_label_against_its_absence(herd, tmp_path, form):
    X, Y = drawn()
    assert herd(*SETS, *PLAIN, "--input-format", form, "-o", "m.h5", stdin=text(X, Y, form)).code == 0
    model = load(str(tmp_path / "m.h5")).value
    assert model.classes == ["1", "3", "7"]
    for z in range(3):
        alone = text(X, np.column_stack([Y[:, z], 1 - Y[:, z]]), form, ("1", "-1"))
        ended = herd("nherd-train", "-q", *PLAIN, "--input-format", form, "--classes=-1,1", "-o", "one.h5", stdin=alone)
        assert ended.code == 0, ended.err
        one = load(str(tmp_path / "one.h5")).value
        assert np.array_equal(model.mean[z], one.mean[0])
        assert np.array_equal(model.variance[z], one.variance[0])
        assert np.array_equal(model.holdout.score[:, z], one.holdout.score[:, 0])
    wrong = (model.holdout.score > 0) != Y
    assert model.missed == pytest.approx(wrong.mean(axis=1).sum())
    assert np.array_equal(model.holdout.y, Y)


def test_figures_are_those_of_their_definitions(herd, tmp_path):
    X, Y = drawn()
    (tmp_path / "test.svm").write_bytes(text(X[200:], Y[200:]))
    made = herd(*SETS, "-o", "m.h5", stdin=text(X[:200], Y[:200]))
    assert made.code == 0, made.err
    row = figures(herd, "m.h5", "--data", "test.svm")
    assert herd("apply", "-q", "m.h5", "test.svm", "--want", "sets", "-o", "s.h5").code == 0
    assert herd("apply", "-q", "m.h5", "test.svm", "-o", "p.h5").code == 0
    given, p = (load(str(tmp_path / name)).value for name in ("s.h5", "p.h5"))
    assert given.feature_names == p.feature_names == ["1", "3", "7"]
    assert [set(filter(None, line.split(","))) for line in given.columns["labels"].tolist()] == [
        {name for name, has in zip(("1", "3", "7"), line, strict=True) if has} for line in given.X.tolist()
    ]
    y = Y[200:]
    both = [sum(a & b for a, b in zip(given.X[:, z].tolist(), y[:, z].tolist(), strict=True)) for z in range(3)]
    sizes = [int(given.X[:, z].sum() + y[:, z].sum()) for z in range(3)]
    assert row["micro_f1"] == pytest.approx(2 * sum(both) / sum(sizes))
    assert row["macro_f1"] == pytest.approx(np.mean([2 * b / s for b, s in zip(both, sizes, strict=True)]))
    assert row["hamming"] == pytest.approx(sum(a != b for a, b in zip(given.X.ravel(), y.ravel(), strict=True)) / 300)
    assert row["subset_accuracy"] == pytest.approx(np.mean([list(a) == list(b) for a, b in zip(given.X, y, strict=True)]))
    assert row["precision_at_3"] == pytest.approx(y.mean())
    assert row["precision_at_5"] is None
    assert row["log_loss"] == pytest.approx(-np.mean(np.where(y, np.log(p.X), np.log(1 - p.X))))
    assert row["verdict"] == "ok"
    assert row["hamming"] < 0.5 * row["hamming_none"]


def test_a_label_that_comes_late_begins_where_it_comes(herd, tmp_path):
    X, Y = drawn(20_000)
    Y[:15_000, 2] = 0  # far behind the first piece of text that is read
    ended = herd(*SETS, *PLAIN, "-o", "m.h5", stdin=text(X, Y))
    assert ended.code == 0, ended.err
    model = load(str(tmp_path / "m.h5")).value
    assert model.classes == ["1", "3", "7"]
    assert np.mean((model.holdout.score > model.threshold) == Y[-len(model.holdout.y) :]) > 0.85
    again = herd(*SETS, *PLAIN, "-o", "n.h5", "--input-format", "svmlight", stdin=text(X, Y))
    assert again.code == 0
    assert (tmp_path / "m.h5").read_bytes()[512:] == (tmp_path / "n.h5").read_bytes()[512:]


def test_going_on_is_the_model_of_the_whole_stream_and_may_bring_labels(herd, tmp_path):
    X, Y = drawn()
    lines = text(X, Y).splitlines(keepends=True)
    assert herd(*SETS, *PLAIN, "-o", "whole.h5", stdin=b"".join(lines)).code == 0
    assert herd(*SETS, *PLAIN, "-o", "half.h5", stdin=b"".join(lines[:150])).code == 0
    assert herd("nherd-train", "-q", "--continue", "half.h5", "-o", "both.h5", stdin=b"".join(lines[150:])).code == 0
    whole, both = (load(str(tmp_path / name)).value for name in ("whole.h5", "both.h5"))
    for name in ("mean", "variance", "threshold", "scale", "missed"):
        assert np.array_equal(getattr(whole, name), getattr(both, name)), name
    assert herd("nherd-train", "-q", "--continue", "half.h5", "-o", "more.h5", stdin=b"2 1:1\n10,2 2:1\n").code == 0
    assert load(str(tmp_path / "more.h5")).value.classes == ["1", "2", "3", "7", "10"]


def test_shards_of_other_labels_are_merged_by_precision(herd, tmp_path):
    X, Y = drawn()
    names = (("1", "3", "7"), ("1", "3", "8"))
    for k, own in enumerate(names):
        half = slice(150 * k, 150 * k + 150)
        assert herd(*SETS, *PLAIN, "-o", f"{k}.h5", stdin=text(X[half], Y[half], names=own)).code == 0
    ended = herd("merge", "-q", "0.h5", "1.h5", "-o", "m.h5")
    assert ended.code == 0, ended.err
    one, two, both = (load(str(tmp_path / name)).value for name in ("0.h5", "1.h5", "m.h5"))
    assert both.classes == ["1", "3", "7", "8"]
    assert np.allclose(both.mean[2], one.mean[2])
    assert np.allclose(both.mean[3], two.mean[2])
    precision = 1 / one.variance[0] + 1 / two.variance[0] - 1
    assert np.allclose(both.variance[0], 1 / precision)
    assert np.allclose(both.mean[0], (one.mean[0] / one.variance[0] + two.mean[0] / two.variance[0]) / precision)
    (tmp_path / "held.svm").write_bytes(text(*drawn(200, seed=5)))
    assert herd("merge", "-q", "0.h5", "1.h5", "--calibration-data", "held.svm", "-o", "c.h5").code == 0
    assert load(str(tmp_path / "c.h5")).value.threshold[3] == 0.0  # no example has it
    assert figures(herd, "c.h5", "--data", "held.svm")["hamming"] < 0.2


def table(tmp_path, kind: str) -> tuple[str, ...]:
    """A data set in one of the forms that hold sets of labels, and the options that read it."""
    import h5py
    import pyarrow as pa
    from pyarrow import parquet

    X, Y = drawn()
    lists = [[name for name, has in zip("abc", row, strict=True) if has] for row in Y]
    columns = {f"u{k}": X[:, k] for k in range(6)}
    if kind == "columns":
        header = ",".join([*columns, "is_a", "is_b", "is_c"])
        rows = "\n".join(",".join(map(repr, [*x, *y])) for x, y in zip(X.tolist(), Y.tolist(), strict=True))
        (tmp_path / "t.csv").write_text(f"{header}\n{rows}\n")
        return ("t.csv", "--label", "is_*")
    if kind == "cells":
        rows = "\n".join(",".join([*map(repr, x), f'"[{", ".join(own)}]"']) for x, own in zip(X.tolist(), lists, strict=True))
        (tmp_path / "t.csv").write_text(f"{','.join(columns)},tags\n{rows}\n")
        return ("t.csv", "--label", "tags")
    if kind == "lists":
        parquet.write_table(pa.table({**columns, "tags": lists}), tmp_path / "t.parquet")
        return ("t.parquet", "--label", "tags")
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["X"], file["y"], file["class_names"] = X, Y.astype("u1"), np.array(["a", "b", "c"], dtype=object)
    return ("t.h5",)


@pytest.mark.parametrize("kind", ["columns", "cells", "lists", "matrix"])
def test_data_sets_hold_sets_of_labels(herd, tmp_path, kind):
    args = table(tmp_path, kind)
    ended = herd(*SETS, *PLAIN, *args, "--split", ".8,.1,.1", "-o", "m.h5")
    assert ended.code == 0, ended.err
    model = load(str(tmp_path / "m.h5")).value
    assert model.classes == (["is_a", "is_b", "is_c"] if kind == "columns" else ["a", "b", "c"])
    X, Y = drawn()
    assert len(model.holdout.y) == 60
    assert np.mean(model.holdout.y) == pytest.approx(np.mean(Y), abs=0.1)
    assert figures(herd, "m.h5")["hamming"] < 0.25
    if kind in ("columns", "matrix"):
        scores = X @ model.mean.T
        row = figures(herd, "m.h5", "--data", args[0])
        assert row["hamming"] == pytest.approx(np.mean((scores > model.threshold) != Y))
    assert herd("apply", "-q", "m.h5", args[0], "-o", "p.csv").code == 0
    assert (tmp_path / "p.csv").read_text().count("\n") == 301


def test_shuffled_text_and_several_passes_hold_examples_out(herd, tmp_path):
    X, Y = drawn()
    ended = herd(*SETS, "--passes", "3", "--shuffle", "-o", "m.h5", stdin=text(X, Y))
    assert ended.code == 0, ended.err
    model = load(str(tmp_path / "m.h5")).value
    assert len(model.passes.error) == 3
    assert len(model.holdout.y) == 15
    assert herd("check", "m.h5").code == 0
    assert b"threshold" in herd("info", "m.h5").out
    assert b"strongest features for 7:" in herd("info", "m.h5", "--top", "2").out


def test_labels_that_the_model_never_met_are_missed(herd, tmp_path):
    X, Y = drawn()
    assert herd(*SETS, *PLAIN, "-o", "m.h5", stdin=text(X, Y)).code == 0
    (tmp_path / "new.svm").write_bytes(text(X, Y, names=("1", "3", "9")))
    ended = herd("eval", "m.h5", "--data", "new.svm", "--format", "json")
    assert ended.code == 0
    assert "1 labels are unknown to the model, so it never predicts them: 9" in ended.err
    model = load(str(tmp_path / "m.h5")).value
    told = model.threshold < X @ model.mean.T
    wrong = (told[:, :2] != Y[:, :2]).sum() + told[:, 2].sum() + Y[:, 2].sum()
    assert json.loads(ended.out)[0]["hamming"] == pytest.approx(wrong / (300 * 4))


@pytest.mark.parametrize(
    ("options", "stdin", "code", "says"),
    [
        ((), b"1,,3 1:1\n", 65, "stdin: line 1: '1,,3' is not a list of labels"),
        ((), b"1 1:1\n2,3 1:1 2:x\n", 65, "stdin: line 2, column 9: '2:x' does not have a number as its value"),
        (("--C", "1"), b"1:1\n 2:1\n", 65, "stdin: no example has a label"),
        (("--classes", "1,2"), b"1 1:1\n1,3 2:1\n", 65, "stdin: label 3 was not declared with --classes"),
        (("--max-classes", "2"), b"1,2,3 2:1\n", 65, "stdin: there are more than 2 different labels"),
        (
            ("--kernel", "linear"),
            b"1 1:1\n",
            2,
            "--task multilabel works only with a diagonal covariance for each label and without --kernel",
        ),
        (
            ("--covariance", "full"),
            b"1 1:1\n",
            2,
            "--task multilabel works only with a diagonal covariance for each label and without --kernel",
        ),
        (("--coverage", ".9"), b"1 1:1\n", 2, "--coverage does not work with --task multilabel"),
        (("--parts", "2"), b"1 1:1\n", 2, "--parts does not work with --task multilabel"),
        (("--cache", "c"), b"1 1:1\n", 2, "--cache stores one label for each line, but --task multilabel has sets of labels"),
        (("--multiclass", "top-1"), b"1 1:1\n", 2, "--multiclass is for one class in each row, but --task multilabel has sets of labels"),
    ],
)
def test_what_cannot_be_is_refused(herd, tmp_path, options, stdin, code, says):
    ended = herd("nherd-train", "--task", "multilabel", "--input-format", "svmlight", *options, "-o", "m.h5", stdin=stdin)
    assert ended.code == code
    assert f"herd nherd-train: {says}\n" in ended.err
    assert not (tmp_path / "m.h5").exists()


def test_other_commands_refuse_it_in_one_line(herd, tmp_path):
    pytest.importorskip("onnx")
    X, Y = drawn()
    assert herd(*SETS, *PLAIN, "-o", "m.h5", stdin=text(X, Y)).code == 0
    assert herd("nherd-train", "-q", *PLAIN, "--classes=-1,1", "-o", "c.h5", stdin=text(X, Y[:, :2], names=("1", "-1"))).code != 0
    for args, says in (
        (("merge", "m.h5", "m.h5", "--combine", "median"), "median"),
        (("convert", "m.h5", "-o", "m.onnx"), "tagger"),
        (("eval", "m.h5", "--confusion"), "tagger"),
        (("apply", "m.h5", "-", "--explain-row", "1"), "--explain-row explains one prediction"),
        (("apply", "m.h5", "-", "--want", "classes"), "--want classes does not work with a tagger"),
    ):
        ended = herd(*args, stdin=text(X, Y))
        assert ended.code in (2, 65), ended.err
        assert says in ended.err, ended.err
        assert "Traceback" not in ended.err
