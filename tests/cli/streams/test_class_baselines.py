"""Classifiers are judged beside the nearest centroid and a ridge classifier of the same training rows."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from herdcli.errors import DataError
from herdcli.numerics import class_baselines
from herdcli.numerics.class_baselines import fit_baselines


def test_eval_has_their_errors_and_verdicts(herd, tmp_path):
    """A passive perceptron whose columns have unlike units; the same rows judged anew have the same figures."""
    random = np.random.default_rng(5)
    y = random.integers(0, 2, 600)
    X = (random.normal(size=(600, 3)) + 1.2 * (2 * y - 1)[:, None] * [1, 1, 0]) * [1.0, 1.0, 1e3]
    np.savetxt(tmp_path / "t.csv", np.column_stack([X, y]), delimiter=",", header="a,b,c,y", comments="", fmt="%.10g")
    line = ("nherd-train", "t.csv", "--split", ".5,0,.5", "--algorithm", "perceptron", "--scale", "none", "--passes", "1", "-o", "m.h5")
    ended = herd(*line)
    assert ended.code == 0, ended.err
    (row,) = json.loads(herd("eval", "m.h5", "--format", "json").out)
    findings = row["verdict"].split("; ")
    assert {"worse than nearest centroid", "worse than a linear model"} <= set(findings), row
    assert "worse than nearest centroid" in ended.err
    assert row["error_centroid"] == pytest.approx(0.05, abs=0.03)
    assert row["error_linear"] == pytest.approx(0.05, abs=0.03)
    assert herd("nherd-train", "t.csv", "--split", ".5,0,.5", "-o", "m2.h5").code == 0
    assert herd("regress", "t.csv", "--split", ".5,0,.5", "-o", "r.h5").code == 0
    (good, other) = json.loads(herd("eval", "m2.h5", "r.h5", "--format", "json").out)
    for name in ("error_centroid", "error_linear"):
        assert good[name] == other[name] == row[name]
    assert other["verdict"] == good["verdict"] == "ok"


@pytest.mark.parametrize("command", ["nherd-train", "regress"])
def test_other_rows_are_judged_by_the_same_baselines(herd, tmp_path, command):
    random = np.random.default_rng(6)
    y = random.integers(0, 3, 200)
    X = random.normal(size=(200, 4)) * 10.0 ** np.arange(4) + np.outer(y, np.arange(4)) + 7.0
    head = "a,b,c,d,y"
    np.savetxt(tmp_path / "train.csv", np.column_stack([X, y])[:100], delimiter=",", header=head, comments="")
    np.savetxt(tmp_path / "test.csv", np.column_stack([X, y])[100:], delimiter=",", header=head, comments="")
    extra = ["--l2", "0.1"] if command == "regress" else []
    assert herd(command, "train.csv", "--split", "1,0,0", *extra, "-o", "m.h5").code == 0
    found = herd("eval", "m.h5", "--data", "test.csv", "--format", "json")
    assert found.code == 0, found.err
    (row,) = json.loads(found.out)
    fitted = fit_baselines(X[:100], y[:100], 3)
    assert fitted is not None
    expected = (fitted.predictions(X[100:]) != y[100:, None]).mean(axis=0)
    assert [row["error_centroid"], row["error_linear"]] == pytest.approx(expected.tolist())


def test_merged_models_have_the_baselines_of_their_shards(herd, tmp_path):
    random = np.random.default_rng(7)
    y = random.integers(0, 2, 300)
    X = random.normal(size=(300, 3)) + 2.0 * y[:, None] * [1, 0, -1]
    for part, names in (("a", "a,b,c"), ("b", "c,a,b")):
        rows = slice(0, 100) if part == "a" else slice(100, 200)
        columns = [names.split(",").index(name) for name in "abc"]
        shown = np.empty((100, 3))
        shown[:, columns] = X[rows]
        np.savetxt(tmp_path / f"{part}.csv", np.column_stack([shown, y[rows]]), delimiter=",", header=f"{names},y", comments="")
        assert herd("nherd-train", f"{part}.csv", "--algorithm", "arow", "--C", "1", "--split", "1,0,0", "-o", f"{part}.h5").code == 0
    np.savetxt(tmp_path / "test.csv", np.column_stack([X, y])[200:], delimiter=",", header="a,b,c,y", comments="")
    merged = herd("merge", "a.h5", "b.h5", "-o", "m.h5")
    assert merged.code == 0, merged.err
    (row,) = json.loads(herd("eval", "m.h5", "--data", "test.csv", "--format", "json").out)
    best = (class_baselines.fit_baselines(X[:200], y[:200], 2).predictions(X[200:]) != y[200:, None]).mean(axis=0)
    assert [row["error_centroid"], row["error_linear"]] == pytest.approx(best.tolist(), abs=0.03)


def test_text_is_judged_by_the_centroids_of_earlier_examples(herd, tmp_path):
    """A stream in which one feature of large numbers drowns the others for an unscaled perceptron."""
    random = np.random.default_rng(8)
    y = random.integers(0, 2, 1500)
    X = (random.normal(size=(1500, 3)) + 1.2 * (2 * y - 1)[:, None] * [1, 1, 0]) * [1.0, 1.0, 1e3]
    lines = [f"{label} " + " ".join(f"{k + 1}:{value!r}" for k, value in enumerate(row)) for label, row in zip(y, X.tolist(), strict=True)]
    (tmp_path / "t.svm").write_text("\n".join(lines) + "\n")
    (tmp_path / "new.svm").write_text("\n".join(lines[:400]) + "\n")
    bad = ("nherd-train", "t.svm", "--algorithm", "perceptron", "--scale", "none", "-o", "m.h5")
    ended = herd(*bad)
    assert ended.code == 0, ended.err
    assert "worse than nearest centroid" in ended.err
    (row,) = json.loads(herd("eval", "m.h5", "--format", "json").out)
    assert row["judged_on"] == "calibration"
    assert row["error_centroid"] == pytest.approx(0.05, abs=0.02)
    assert row["error_linear"] is None
    assert "worse than nearest centroid" in row["verdict"]
    (anew,) = json.loads(herd("eval", "m.h5", "--data", "new.svm", "--format", "json").out)
    fitted = fit_baselines(X, y, 2)
    assert fitted is not None
    assert anew["error_centroid"] == pytest.approx((fitted.predictions(X[:400])[:, 0] != y[:400]).mean())
    assert herd("nherd-train", "t.svm", "-o", "good.h5").code == 0
    (good,) = json.loads(herd("eval", "good.h5", "--format", "json").out)
    assert good["error_centroid"] == row["error_centroid"]
    assert good["verdict"] == "ok"
    assert herd("nherd-train", "t.svm", "--bits", "18", "-o", "hashed.h5").code == 0
    (hashed,) = json.loads(herd("eval", "hashed.h5", "--format", "json").out)
    assert hashed["error_centroid"] == row["error_centroid"]
    (new,) = json.loads(herd("eval", "hashed.h5", "--data", "new.svm", "--format", "json").out)
    assert new["error_centroid"] == anew["error_centroid"], "hashing three features collides nowhere"


def test_means_of_baselines_with_different_columns_are_those_of_all_columns():
    one = class_baselines.ClassBaselines(np.array([[1.0, 2.0, 0.5], [3.0, 4.0, -0.5]]), columns=np.array([1, 6]))
    other = class_baselines.ClassBaselines(np.array([[5.0, 1.5], [7.0, 2.5]]), columns=np.array([3]))
    found = class_baselines.average_baselines([one, other], 8)
    assert found is not None
    np.testing.assert_array_equal(found.columns, [1, 3, 6])
    np.testing.assert_array_equal(found.centroid, [[0.5, 2.5, 1.0, 1.0], [1.5, 3.5, 2.0, 1.0]])
    X = np.random.default_rng(0).normal(size=(30, 8))
    scores = X[:, [1, 3, 6]] @ found.centroid[:, :-1].T + found.centroid[:, -1]
    np.testing.assert_array_equal(found.predictions(X)[:, 0], scores.argmax(axis=1))
    np.testing.assert_array_equal(found.predictions(csr_matrix(X))[:, 0], scores.argmax(axis=1))
    narrow = X[:, [1, 3]] @ found.centroid[:, :2].T + found.centroid[:, -1]
    np.testing.assert_array_equal(found.predictions(X[:, :5])[:, 0], narrow.argmax(axis=1))
    with pytest.raises(DataError, match="/baselines/columns must be in ascending order and below 6"):
        found.require_shape(2, 6)
    found.require_shape(2, 7)


def test_a_continued_stream_is_judged_by_its_own_centroids(herd, tmp_path):
    random = np.random.default_rng(9)
    y = random.integers(0, 3, 3_500)
    X = random.normal(size=(3_500, 2)) + 2 * y[:, None]
    lines = [f"{label} 1:{a:.4f} 2:{b:.4f}\n" for label, (a, b) in zip(y, X.tolist(), strict=True)]
    for name, part in (("first", lines[:1000]), ("more", lines[1000:]), ("few", lines[:50])):
        (tmp_path / f"{name}.svm").write_text("".join(part))
    assert herd("nherd-train", "first.svm", "--algorithm", "arow", "--C", "1", "-o", "first.h5").code == 0
    found = []
    for name in ("more", "few"):
        assert herd("nherd-train", f"{name}.svm", "--continue", "first.h5", "-o", f"{name}.h5").code == 0
        (row,) = json.loads(herd("eval", f"{name}.h5", "--format", "json").out)
        found.append(row["error_centroid"])
    fitted = fit_baselines(X[1000:], y[1000:], 3)
    assert fitted is not None
    assert found[0] == pytest.approx((fitted.predictions(X[1500:])[:, 0] != y[1500:]).mean(), abs=0.02)
    assert found[1] is None  # most of the held-out examples are older than the sums


def test_other_documents_are_judged_by_the_baselines_of_a_table_of_documents(herd, tmp_path):
    """The test documents of a table, alone in a file, have the errors that they have in the table."""
    random = np.random.default_rng(3)
    words = (["ball", "goal", "team", "match"], ["vote", "party", "law", "court"])
    lines = []
    for number in range(200):
        topic = int(random.integers(2))
        text = " ".join(random.choice([*words[topic], words[1 - topic][0], "the", "of", "and"]) for _ in range(6))
        lines.append(f"{text},{'ab'[topic]},{'train' if number < 120 else 'test'}")
    (tmp_path / "t.csv").write_text("\n".join(["text,label,split", *lines]) + "\n")
    (tmp_path / "n.csv").write_text("\n".join(["text,label,split", *lines[120:]]) + "\n")
    line = ("nherd-train", "t.csv", "--text", "text", "--algorithm", "perceptron", "--passes", "1", "-o", "m.h5")
    assert herd(*line).code == 0
    (own,) = json.loads(herd("eval", "m.h5", "--format", "json").out)
    (other,) = json.loads(herd("eval", "m.h5", "--data", "n.csv", "--format", "json").out)
    for name in ("rows", "error", "error_centroid", "error_linear", "verdict"):
        assert own[name] == other[name], name
    assert own["rows"] == 80
    assert own["error_centroid"] < own["error"]
