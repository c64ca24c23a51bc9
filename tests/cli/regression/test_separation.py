"""herd regress where some coefficients have no finite estimate: what is named, withheld, drawn and predicted."""

from __future__ import annotations

import json

import numpy as np
import pytest

from herdcli import artifacts


def table(path, rows, head):
    path.write_text(head + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))


@pytest.fixture
def quasi(tmp_path):
    """x is 1 only where y is: quasi-complete separation by one column."""
    random = np.random.default_rng(0)
    z = random.normal(size=120).round(4)
    x = (np.arange(120) % 4 == 0) * 1
    y = np.where(x == 1, 1, random.integers(0, 2, 120))
    table(tmp_path / "q.csv", zip(x, z, y, strict=True), "x,z,y")
    (tmp_path / "r.csv").write_text("x,z\n1,0.5\n0,0.5\n")


WITHHELD = "warning: there is no finite estimate for x: the likelihood rises without bound, so standard errors and intervals are left out; "


def test_a_column_without_a_finite_estimate_is_named_and_its_errors_are_withheld(herd, quasi, tmp_path):
    ended = herd("regress", "q.csv", "--split", "1,0,0", "-o", "c.json")
    assert ended.code == 0
    assert WITHHELD + "use --penalty firth or --l2 1e-3, which gives finite estimates\n" in ended.err
    x, z, intercept = json.loads((tmp_path / "c.json").read_text())
    assert [x[name] for name in ("standard_error", "robust_error", "z", "low", "high")] == [None] * 5
    assert x["note"] == "no finite estimate"
    for row in (z, intercept):
        assert row["note"] == ""
        assert 0.1 < row["standard_error"] < 0.5
        assert row["low"] < row["estimate"] < row["high"]
    ended = herd("regress", "q.csv", "--split", "1,0,0", "--on-nonconvergence", "error", "-o", "c.json")
    assert ended.code == 1
    assert "there is no finite estimate for x" in ended.err


def test_eval_apply_and_pictures_bear_withheld_errors(herd, quasi, tmp_path):
    assert herd("regress", "q.csv", "-o", "m.h5").code == 0
    (row,) = json.loads(herd("eval", "m.h5", "--format", "json").out)
    assert row["verdict"].split("; ")[-1] == "separated"
    assert herd("apply", "m.h5", "r.csv", "-o", "p.csv").code == 0
    assert float((tmp_path / "p.csv").read_text().split()[1].split(",")[-1]) > 0.999999
    value = artifacts.load(str(tmp_path / "m.h5")).value
    assert value.unbounded.tolist() == [[True, False, False]]
    pytest.importorskip("matplotlib")
    assert herd("eval", "m.h5", "--plot", "coefficients", "c.svg", "-q").code == 0
    assert herd("eval", "m.h5", "--report", "r.html", "-q").code == 0
    assert herd("check", "m.h5").code == 0


def test_firths_penalty_and_a_ridge_give_finite_estimates(herd, quasi, tmp_path):
    for options, error in ((("--penalty", "firth"), True), (("--l2", "0.001"), False)):
        ended = herd("regress", "q.csv", "--split", "1,0,0", *options, "-o", "c.json")
        assert ended.code == 0
        assert "no finite estimate" not in ended.err
        x = json.loads((tmp_path / "c.json").read_text())[0]
        assert 1 < x["estimate"] < 10
        assert (x["standard_error"] is not None) == error
        assert x.get("note", "") == ("" if error else "penalised")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--penalty", "firth", "--l2", "1"),
            "--penalty firth does not work with another penalty\nhint: leave out --l1 and --l2, or --penalty\n",
        ),
        (("--penalty", "firth", "--family", "gaussian"), "--penalty firth works only with --family bernoulli and poisson, not gaussian\n"),
        (("--penalty", "firth", "--one-pass"), "--one-pass works only for least squares\n"),
    ],
)
def test_penalties_that_do_not_go_together(herd, quasi, options, message):
    ended = herd("regress", "q.csv", *options, "-o", "m.h5")
    assert ended.code == 2
    assert message in ended.err


def test_a_rare_level_of_text_is_named_with_its_class(herd, tmp_path):
    random = np.random.default_rng(1)
    town = np.array(["ayr", "bath", "cork"])[random.integers(0, 3, 200)]
    town[:6] = "rye"
    answer = np.array(["no", "so", "yes"])[random.integers(0, 3, 200)]
    answer[:6] = "so"
    x = random.normal(size=200).round(4)
    table(tmp_path / "t.csv", zip(town, x, answer, strict=True), "town,x,answer")
    ended = herd("regress", "t.csv", "--target", "answer", "--split", "1,0,0", "-o", "c.json")
    assert ended.code == 0, ended.err
    assert "warning: there is no finite estimate for town=rye (so), town=rye (yes): " in ended.err
    assert "--penalty firth" not in ended.err
    rows = json.loads((tmp_path / "c.json").read_text())
    assert {row["term"] for row in rows if row["note"]} == {"town=rye"}
    assert all(row["standard_error"] > 0.1 for row in rows if not row["note"])


def test_a_base_level_that_separates_is_named(herd, tmp_path):
    """The intercept stands for it, and the other levels are differences to it."""
    random = np.random.default_rng(1)
    town = np.array(["ayr", "bath", "cork"])[np.arange(150) % 3]
    y = np.where(town == "ayr", 1, random.integers(0, 2, 150))
    table(tmp_path / "t.csv", zip(town, random.normal(size=150).round(3), y, strict=True), "town,x,y")
    ended = herd("regress", "t.csv", "--split", "1,0,0", "-o", "c.json")
    assert ended.code == 0
    assert "there is no finite estimate for town=bath, town=cork, intercept: " in ended.err
    assert "standard errors and intervals are left out (the rows of the base level town=ayr show this); use --penalty firth" in ended.err
    found = {row["term"]: row["standard_error"] for row in json.loads((tmp_path / "c.json").read_text())}
    assert found["x"] > 0.1


def test_a_level_whose_counts_are_all_0_is_named(herd, tmp_path):
    random = np.random.default_rng(2)
    level = np.arange(150) % 5
    y = np.where(level == 3, 0, random.poisson(2.0, 150))
    table(tmp_path / "t.csv", zip(np.array(list("abcde"))[level], y, strict=True), "kind,y")
    ended = herd("regress", "t.csv", "--family", "poisson", "--split", "1,0,0", "-o", "c.json")
    assert "warning: there is no finite estimate for kind=d: " in ended.err
    (found,) = [row for row in json.loads((tmp_path / "c.json").read_text()) if row["note"]]
    assert (found["term"], found["standard_error"], found["robust_error"]) == ("kind=d", None, None)
    ended = herd("regress", "t.csv", "--family", "poisson", "--penalty", "firth", "--split", "1,0,0", "-o", "c.json")
    assert "warning" not in ended.err
    rows = {row["term"]: row for row in json.loads((tmp_path / "c.json").read_text())}
    # of groups alone each mean is (Σ y + ½)/n
    assert rows["kind=d"]["estimate"] + rows["intercept"]["estimate"] == pytest.approx(np.log(0.5 / 30), abs=1e-6)


def test_rows_of_weight_0_decide_what_separates(herd, tmp_path):
    """Two rows speak against the separation; without them there is no finite estimate."""
    random = np.random.default_rng(3)
    x = (np.arange(100) < 20) * 1
    y = np.where(x == 1, 1, random.integers(0, 2, 100))
    y[:2] = 0
    for weight, told in ((1, False), (0, True)):
        weights = np.where(np.arange(100) < 2, weight, 1)
        table(tmp_path / "t.csv", zip(x, random.normal(size=100).round(3), y, weights, strict=True), "x,z,y,weight")
        ended = herd("regress", "t.csv", "--split", "1,0,0", "-o", "c.json")
        assert ("there is no finite estimate for x:" in ended.err) == told
        assert ("t.csv: 2 of 100 rows have weight 0 and are left out\n" in ended.err) == told


def test_a_verdict_lists_the_loss_before_the_separation(herd, tmp_path):
    """Thirty columns of noise separate forty rows, and say less than nothing of others."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(120, 38)).round(3), random.integers(0, 2, 120)
    table(tmp_path / "t.csv", ([*row, one, part] for row, one, part in zip(X, y, np.repeat([0, 2], 60), strict=True)),
          ",".join([*(f"v{j}" for j in range(38)), "y", "split"]))  # fmt: skip
    ended = herd("regress", "t.csv", "-o", "m.h5")
    (row,) = json.loads(herd("eval", "m.h5", "--format", "json").out)
    assert row["verdict"] == "worse than the mean; overfits; separated"
    assert "warning: verdict: worse than the mean; overfits (" in ended.err
    assert row["gain_se"] > 0


def test_without_test_rows_there_is_nothing_to_judge_by(herd, quasi):
    assert herd("regress", "q.csv", "--split", "1,0,0", "-q", "-o", "m.h5").code == 0
    (row,) = json.loads(herd("eval", "m.h5", "--format", "json").out)
    assert row["verdict"] == "no test rows; separated"
    assert herd("regress", "q.csv", "--target", "z", "--split", "1,0,0", "-q", "-o", "m.h5").code == 0
    (row,) = json.loads(herd("eval", "m.h5", "--format", "json").out)
    assert row["verdict"] == "no test rows"
