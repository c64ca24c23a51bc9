"""herd regress from the shell: files, tables, messages."""

from __future__ import annotations

import json

import numpy as np
import pytest


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = 1 + X @ [2.0, -1.0] + rng.normal(size=300)
    count = rng.poisson(np.exp(0.5 * X[:, 0]))
    lines = ["a,b,count,y", *(f"{a:.5f},{b:.5f},{c},{v:.5f}" for (a, b), c, v in zip(X, count, y, strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    swapped = ["b,extra,a", *(f"{b:.5f},0,{a:.5f}" for a, b in X)]
    (tmp_path / "swapped.csv").write_text("\n".join(swapped) + "\n")


def test_coefficients_as_a_table(herd, table, tmp_path):
    ended = herd("regress", "t.csv", "-o", "c.json", "-q")
    assert (ended.code, ended.err) == (0, "")
    rows = json.loads((tmp_path / "c.json").read_text())
    assert [row["term"] for row in rows] == ["a", "b", "count", "intercept"]
    found = {row["term"]: row for row in rows}
    assert found["a"]["low"] < 2 < found["a"]["high"]
    assert found["a"]["p"] < 1e-20
    assert found["count"]["p"] > 1e-4


def test_counts_by_name_offset_and_weights(herd, table):
    ended = herd("regress", "t.csv", "--target", "count", "--family", "poisson", "--split", "1,0,0", "-o", "m.h5")
    assert ended.code == 0
    assert "poisson, 300 rows × 3 columns" in ended.err
    ended = herd("regress", "t.csv", "--target", "count", "--family", "poisson", "--weights", "b", "-o", "m.h5")
    assert ended.code == 65
    assert "weights must be finite, not negative" in ended.err


def test_predictions_are_matched_by_name(herd, table, tmp_path):
    assert herd("regress", "t.csv", "--target", "count", "--family", "poisson", "-o", "m.h5").code == 0
    ended = herd("apply", "m.h5", "swapped.csv", "-o", "p.csv")
    assert ended.code == 65
    assert "lacks column y of the model" in ended.err


def test_eval_has_a_baseline_and_a_verdict(herd, table):
    assert herd("regress", "t.csv", "-o", "m.h5", "-q").code == 0
    ended = herd("eval", "m.h5", "--format", "json", "--require", "explained>0.5")
    assert ended.code == 0
    (row,) = json.loads(ended.out)
    assert row["verdict"] == "ok"
    assert row["log_likelihood"] > row["independent"]


def test_same_bytes_from_one_thread_and_two(herd, table, tmp_path):
    for threads in (1, 2):
        assert herd("regress", "t.csv", "-j", threads, "-o", f"{threads}.h5", "-q").code == 0
    assert (tmp_path / "1.h5").read_bytes() == (tmp_path / "2.h5").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--family", "poisson"], 65, "herd regress: t.csv: the target has "),
        (["--target", "q"], 2, "herd regress: t.csv: --target q: there is no such column\nhint: columns: "),
        (["--family", "softmax"], 65, "herd regress: t.csv: the target 'y' holds numbers, softmax needs classes"),
        (["--offset", "q"], 2, "--offset q: there is no such column"),
        (
            ["--iterations", "1", "--on-nonconvergence", "error", "--target", "count", "--family", "poisson"],
            1,
            "not converged after 1 passes",
        ),
    ],
)
def test_what_is_refused(herd, table, arguments, code, message):
    ended = herd("regress", "t.csv", *arguments, "-o", "x.h5")
    assert ended.code == code, ended.err
    assert message in ended.err


def test_classes_that_are_told_apart_are_told(herd, tmp_path):
    (tmp_path / "s.csv").write_text("a,y\n" + "".join(f"{i / 10},{'no' if i < 30 else 'yes'}\n" for i in range(60)))
    ended = herd("regress", "s.csv", "-o", "m.h5")
    assert ended.code == 0
    assert "warning: the classes can be told apart without error" in ended.err
    assert b"separated" in herd("eval", "m.h5").out


def test_other_rows_judge_a_regression_by_the_columns_it_was_fitted_with(herd, table, tmp_path):
    """The training file handed over with its rows in another order of columns: the offset too is found by its name."""
    line = ("regress", "t.csv", "--target", "count", "--family", "poisson", "--offset", "a", "--split", "1,0,0", "-q", "-o", "m.h5")
    assert herd(*line).code == 0
    ended = herd("eval", "m.h5", "--data", "t.csv", "--format", "json")
    assert ended.code == 0, ended.err
    (row,) = json.loads(ended.out)
    assert row["rows"] == 300
    assert row["explained"] == pytest.approx(row["train_explained"], rel=1e-9)
    (tmp_path / "short.csv").write_text("b,count\n1,2\n")
    ended = herd("eval", "m.h5", "--data", "short.csv")
    assert ended.code == 2
    assert "--offset a: there is no such column" in ended.err


def test_other_rows_have_the_classes_of_the_model(herd, tmp_path):
    draws = np.random.default_rng(1)
    lines = [f"{value:.4f},{'no' if value + draws.normal() < 0 else 'yes'}" for value in draws.normal(size=200)]
    (tmp_path / "c.csv").write_text("x,answer\n" + "\n".join(lines) + "\n")
    (tmp_path / "yes.csv").write_text("x,answer\n" + "\n".join(line for line in lines if line.endswith("yes")) + "\n")
    (tmp_path / "maybe.csv").write_text("x,answer\n0,maybe\n1,maybe\n")
    assert herd("regress", "c.csv", "--target", "answer", "-q", "-o", "m.h5").code == 0
    (row,) = json.loads(herd("eval", "m.h5", "--data", "yes.csv", "--format", "json").out)
    assert row["rows"] == sum(line.endswith("yes") for line in lines)
    assert 0 < row["error"] < 0.5
    assert row["error_majority"] == 0
    ended = herd("eval", "m.h5", "--data", "maybe.csv")
    assert ended.code == 65
    assert ended.err.endswith("herd eval: maybe.csv: has class 'maybe', the model has no, yes\n")
