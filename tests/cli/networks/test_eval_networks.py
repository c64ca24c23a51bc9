"""herd eval of networks: as text, and on rows that they were not learned from."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

BIF = """network n {}
variable a { type discrete [ 2 ] { yes, no }; }
variable b { type discrete [ 2 ] { yes, no }; }
variable c { type discrete [ 3 ] { x, y, z }; }
probability ( a ) { table .3 .7; }
probability ( b | a ) { (yes) .9 .1; (no) .25 .75; }
probability ( c | b ) { (yes) .5 .4 .1; (no) 0 .2 .8; }
"""
A, B, C = {"yes": 0.3, "no": 0.7}, {"yes": {"yes": 0.9, "no": 0.1}, "no": {"yes": 0.25, "no": 0.75}}, {
    "yes": {"x": 0.5, "y": 0.4, "z": 0.1}, "no": {"x": 0, "y": 0.2, "z": 0.8}}  # fmt: skip


def p(**known: str) -> float:
    """P of what is known, by enumeration."""
    total = 0.0
    for a in A:
        for b in B:
            for c in C["yes"]:
                if all({"a": a, "b": b, "c": c}[name] == state for name, state in known.items()):
                    total += A[a] * B[a][b] * C[b][c]
    return total


def row(herd, *words: str) -> dict:
    ended = herd("eval", *words, "--format", "json")
    assert ended.code == 0, ended.err
    (found,) = json.loads(ended.out)["rows"] if isinstance(json.loads(ended.out), dict) else json.loads(ended.out)
    return found


@pytest.mark.parametrize("suffix", ["bif", "xdsl", "xmlbif", "net", "uai", "h5"])
def test_rows_with_gaps_under_a_network_of_any_format(herd, tmp_path, suffix):
    (tmp_path / "n.bif").write_text(BIF)
    if suffix != "bif":
        assert herd("network", "convert", "n.bif", "-o", f"n.{suffix}").code == 0
    (tmp_path / "rows.csv").write_text("c,a,b,more\nx,yes,yes,1\ny,no,no,2\n,no,yes,3\nz,,,4\n")
    found = row(herd, f"n.{suffix}", "--data", "rows.csv")
    given = [p(a="yes", b="yes", c="x"), p(a="no", b="no", c="y"), p(a="no", b="yes"), p(c="z")]
    assert found["log_likelihood"] == pytest.approx(np.mean(np.log(given)), abs=1e-12)
    alone = [p(a="yes") * p(b="yes") * p(c="x"), p(a="no") * p(b="no") * p(c="y"), p(a="no") * p(b="yes"), p(c="z")]
    assert found["independent"] == pytest.approx(np.mean(np.log(alone)), abs=1e-12)
    assert found["log_z"] == pytest.approx(0, abs=1e-12)


def test_impossible_rows_have_a_verdict(herd, tmp_path):
    (tmp_path / "n.bif").write_text(BIF)
    (tmp_path / "rows.csv").write_text("a,b,c\nyes,no,x\n")
    found = row(herd, "n.bif", "--data", "rows.csv")
    assert found["verdict"] == "impossible rows"
    assert not math.isfinite(float(found["log_likelihood"] if found["log_likelihood"] is not None else "-inf"))


def test_a_fitted_network_keeps_its_training_rows_beside_others(herd, tmp_path):
    (tmp_path / "n.bif").write_text(BIF)
    assert herd("sample", "n.bif", "-m", "400", "-o", "train.csv").code == 0
    assert herd("sample", "n.bif", "-m", "300", "--seed", "9", "-o", "new.csv").code == 0
    assert herd("fit-mrf", "train.csv", "--algorithm", "bayes", "-o", "fit.h5").code == 0
    plain, found = row(herd, "fit.h5"), row(herd, "fit.h5", "--data", "new.csv")
    assert found["train_log_likelihood"] == plain["train_log_likelihood"]
    assert found["log_likelihood"] != plain["log_likelihood"]
    assert found["log_likelihood"] > found["independent"]
    true = row(herd, "n.bif", "--data", "new.csv")
    assert abs(found["log_likelihood"] - true["log_likelihood"]) < 0.05


def test_text_networks_are_evaluated(herd, tmp_path):
    (tmp_path / "n.bif").write_text(BIF)
    found = row(herd, "n.bif")
    assert (found["kind"], found["variables"], found["factors"], found["verdict"]) == ("network", 3, 3, "ok")


def test_rows_that_are_of_something_else_are_refused(herd, tmp_path):
    (tmp_path / "n.bif").write_text(BIF)
    (tmp_path / "rows.csv").write_text("d,e\n1,2\n")
    ended = herd("eval", "n.bif", "--data", "rows.csv")
    assert (ended.code, ended.out) == (65, b"")
    assert ended.err == "herd eval: rows.csv: none of the columns is a variable of the network\nhint: its variables are a, b, c\n"
    (tmp_path / "rows.csv").write_text("a\nmaybe\n")
    ended = herd("eval", "n.bif", "--data", "rows.csv")
    assert ended.code == 65
    assert "'maybe' of column 'a' (1 row) is not one of its states: yes, no" in ended.err


def test_a_variable_called_y_is_a_variable(herd, tmp_path):
    (tmp_path / "n.bif").write_text(BIF.replace("variable b", "variable y").replace("( b |", "( y |").replace("| b )", "| y )"))
    (tmp_path / "rows.csv").write_text("a,y,c\nyes,yes,x\n")
    assert row(herd, "n.bif", "--data", "rows.csv")["log_likelihood"] == pytest.approx(math.log(p(a="yes", b="yes", c="x")), abs=1e-12)
    ended = herd("ups-infer", "n.bif", "--evidence-rows", "rows.csv", "--format", "csv")
    assert float(ended.out.decode().splitlines()[1].split(",")[-1]) == pytest.approx(math.log(p(a="yes", b="yes", c="x")), abs=1e-12)
