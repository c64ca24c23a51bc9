"""Rows of states in tables whose first line has no names, or has names that are numbers, and in lines that begin with #."""

from __future__ import annotations

import numpy as np
import pytest

NET = """network t { }
variable %s { type discrete [ 2 ] { x, y }; }
variable %s { type discrete [ 3 ] { 2, 1, 0 }; }
probability ( %s ) { table 0.6, 0.4; }
probability ( %s | %s ) { (x) 0.7, 0.2, 0.1; (y) 0.3, 0.3, 0.4; }
"""


def write_network(folder, a, b):
    (folder / "t.bif").write_text(NET % (a, b, a, b, a))


def log_z(text):
    return [float(line.split(",")[-1]) for line in text.splitlines()[1:]]


def test_columns_without_names_are_those_of_the_network(herd, tmp_path):
    """Numbers that are names of states are names there too."""
    write_network(tmp_path, "a", "b")
    (tmp_path / "rows.csv").write_text("0,2\n1,0\n1,1\n")
    ended = herd("ups-infer", "t.bif", "--evidence-rows", "rows.csv", "-q", "--format", "csv")
    assert (ended.code, ended.err) == (0, "")
    assert log_z(ended.out.decode()) == pytest.approx(np.log([0.6 * 0.7, 0.4 * 0.4, 0.4 * 0.3]))
    evaluated = herd("eval", "t.bif", "--data", "rows.csv", "--require", "log_likelihood>-1.61", "--require", "log_likelihood<-1.60")
    assert evaluated.code == 0  # the mean of the logarithms above is -1.60683
    given = herd("sample", "t.bif", "--given", "rows.csv", "-q", "-o", "whole.csv")
    assert (given.code, given.err) == (0, "")
    assert (tmp_path / "whole.csv").read_text().replace('"', "").split() == ["a,b", "x,2", "y,0", "y,1"]


def test_too_few_columns_without_names_are_refused(herd, tmp_path):
    write_network(tmp_path, "a", "b")
    (tmp_path / "rows.csv").write_text("0\n1\n")
    ended = herd("ups-infer", "t.bif", "--evidence-rows", "rows.csv")
    assert ended.code == 65
    assert ended.err == "herd ups-infer: rows.csv: has 1 columns without names, but the network has 2 variables\n"


def test_numbers_that_are_names_of_variables(herd, tmp_path):
    write_network(tmp_path, "7", "12")
    (tmp_path / "rows.csv").write_text("12,7\n2,x\n1,\n")
    ended = herd("ups-infer", "t.bif", "--evidence-rows", "rows.csv", "--format", "csv")
    assert ended.code == 0
    assert "rows.csv: the first line, 12, 7, is read as the names of the columns" in ended.err
    assert log_z(ended.out.decode()) == pytest.approx(np.log([0.6 * 0.7, 0.6 * 0.2 + 0.4 * 0.3]))


def test_the_line_of_an_impossible_row_below_numbers_that_are_names(herd, tmp_path):
    (tmp_path / "t.bif").write_text((NET % (7, 12, 7, 12, 7)).replace("0.7, 0.2, 0.1", "0.7, 0.3, 0.0"))
    (tmp_path / "rows.csv").write_text("12,7\n2,x\n0,x\n")
    ended = herd("ups-infer", "t.bif", "--evidence-rows", "rows.csv", "--format", "csv")
    assert "1 row has probability 0 (line 3)" in ended.err


@pytest.mark.parametrize("text", ["#k=y\n", "# #k=x\n#k = y\n", "#k y\n", "variable,state\n#k,y\n", "#kx=3\n#k=y # seen\n"])
def test_a_name_that_begins_with_a_hash_is_no_comment(herd, tmp_path, text):
    write_network(tmp_path, '"#k"', "b")
    (tmp_path / "seen.txt").write_text(text)
    ended = herd("ups-infer", "t.bif", "--evidence", "seen.txt", "--query", "log-z", "-q", "--format", "csv")
    assert (ended.code, ended.err) == (0, "")
    assert float(ended.out.split()[1].split(b",")[0]) == pytest.approx(np.log(0.4))


def test_a_table_of_texts_without_names(herd, tmp_path):
    """Rows are counted from the first line on, also with the same text in several columns."""
    rows = ["yes,no,yes", "no,no,yes", "yes,yes,no", "no,no,yes", "yes,yes,no", "no,no,no"]
    (tmp_path / "rows.csv").write_text("\n".join(rows) + "\n")
    ended = herd("fit-mrf", "rows.csv", "--structure", "full", "--smoothing", "0", "--split", "1,0,0", "-o", "t.h5")
    assert ended.code == 0, ended.err
    assert "rows.csv: the first line is read as data, not as column names, because its texts occur in later rows of the same" in ended.err
    joint = herd("ups-infer", "t.h5", "--query", "joint:f0,f1", "--format", "csv", "-q").out.decode().replace('"', "").splitlines()[1:]
    found = {tuple(line.split(",")[:2]): float(line.split(",")[2]) for line in joint}
    expected = {(a, b): sum(row.startswith(f"{a},{b},") for row in rows) / 6 for a in ("yes", "no") for b in ("yes", "no")}
    assert found == pytest.approx(expected, abs=2e-4)


def test_rows_of_states_without_names(herd, tmp_path):
    write_network(tmp_path, "a", "b")
    (tmp_path / "t.bif").write_text((tmp_path / "t.bif").read_text().replace("2, 1, 0", "p, q, r"))
    (tmp_path / "rows.csv").write_text("x,p\ny,r\ny,q\nx,r\ny,p\n")
    ended = herd("ups-infer", "t.bif", "--evidence-rows", "rows.csv", "--format", "csv")
    assert ended.code == 0
    assert log_z(ended.out.decode()) == pytest.approx(np.log([0.6 * 0.7, 0.4 * 0.4, 0.4 * 0.3, 0.6 * 0.1, 0.4 * 0.3]))
