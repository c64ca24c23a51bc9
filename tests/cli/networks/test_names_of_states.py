"""Rows that `herd sample` draws from a network with named states, read again by every command that takes states."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.artifacts import load

NET = """network t { }
variable a { type discrete [ 3 ] { 2, 1, 3 }; }
variable b { type discrete [ 2 ] { True, False }; }
variable c { type discrete [ 3 ] { None, some, much }; }
probability ( a ) { table 0.5, 0.5, 0.0; }
probability ( b | a ) { (2) 0.9, 0.1; (1) 0.0, 1.0; (3) 0.5, 0.5; }
probability ( c | b ) { (True) 0.25, 0.25, 0.5; (False) 0.0, 0.0, 1.0; }
"""
STATES = ["2", "1", "3", "True", "False", "None", "some", "much"]
FORMS = ["csv", "h5", "parquet"]


@pytest.fixture
def drawn(herd, tmp_path):
    """rows.csv, .h5 and .parquet, the same rows of a network; how many there are."""
    (tmp_path / "t.bif").write_text(NET)
    for form in FORMS:
        ended = herd("sample", "t.bif", "-m", "40", "-q", "-o", f"rows.{form}")
        assert (ended.code, ended.err) == (0, "")
    return 40


def cells(path):
    return [line.split(",") for line in path.read_text().replace('"', "").splitlines()]


def test_a_table_has_the_names(herd, drawn, tmp_path):
    titles, *rows = cells(tmp_path / "rows.csv")
    assert titles == ["a", "b", "c"]
    assert {row[0] for row in rows} == {"1", "2"}
    assert {tuple(row) for row in rows if row[0] == "1"} == {("1", "False", "much")}
    assert herd("convert", "rows.h5", "-q", "-o", "again.csv").code == 0
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "rows.csv").read_bytes()


@pytest.mark.parametrize("form", FORMS)
def test_rows_drawn_are_evidence(herd, drawn, tmp_path, form):
    """Each row's own states have probability 1, whatever their names look like."""
    ended = herd("ups-infer", "t.bif", "--evidence-rows", f"rows.{form}", "-q", "-o", "m.csv")
    assert (ended.code, ended.err) == (0, "")
    titles, *found = cells(tmp_path / "m.csv")
    _, *rows = cells(tmp_path / "rows.csv")
    for row, made in zip(rows, found, strict=True):
        certain = {title for title, p in zip(titles[:-1], made, strict=False) if float(p) == 1}
        assert certain == {f"{name}={state}" for name, state in zip("abc", row, strict=True)}


@pytest.mark.parametrize("form", FORMS)
def test_rows_drawn_are_kept_as_given(herd, drawn, tmp_path, form):
    ended = herd("sample", "t.bif", "--given", f"rows.{form}", "-q", "-o", "again.csv")
    assert (ended.code, ended.err) == (0, "")
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "rows.csv").read_bytes()


@pytest.mark.parametrize("form", FORMS)
def test_rows_drawn_teach_the_tables_of_the_network(herd, drawn, tmp_path, form):
    """Names are found in the network, also those of numbers and of truth, and a column with one state alone."""
    asked = ("fit-mrf", f"rows.{form}", "--algorithm", "bayes", "--network", "t.bif", "--split", "1,0,0", "--smoothing", "0")
    assert herd(*asked, "-q", "-o", "made.h5").code == 0
    made = load(str(tmp_path / "made.h5")).value
    assert made.states == STATES
    _, *rows = cells(tmp_path / "rows.csv")
    np.testing.assert_allclose(made.table[:3], [sum(row[0] == name for row in rows) / 40 for name in ("2", "1", "3")], atol=1e-12)


@pytest.mark.parametrize("form", ["h5", "parquet"])
def test_files_that_tell_the_states_keep_those_that_no_row_has(herd, drawn, tmp_path, form):
    ended = herd("fit-mrf", f"rows.{form}", "--algorithm", "bayes", "-q", "-o", "made.h5")
    assert (ended.code, ended.err) == (0, "")
    made = load(str(tmp_path / "made.h5")).value
    assert (made.names, made.states) == (["a", "b", "c"], STATES)
    assert herd("fit-mrf", f"rows.{form}", "-q", "-o", "pairs.h5").code == 0
    assert load(str(tmp_path / "pairs.h5")).value.states == ["2", "1", "True", "False", "None", "some", "much"]


def test_evidence_is_read_by_the_network_s_order_of_states(herd, drawn, tmp_path):
    """A network learned from text keeps levels in the order of the alphabet beside it; its own order decides."""
    (tmp_path / "t.csv").write_text("c\n" + "None\nsome\nmuch\n" * 5)
    text = "network t { }\nvariable c { type discrete [ 3 ] { some, None, much }; }\nprobability ( c ) { table .3, .3, .4; }\n"
    (tmp_path / "c.bif").write_text(text)
    assert herd("fit-mrf", "t.csv", "--algorithm", "bayes", "--network", "c.bif", "-q", "-o", "c.h5").code == 0
    (tmp_path / "e.csv").write_text("c\nsome\n")
    assert herd("ups-infer", "c.h5", "--evidence-rows", "e.csv", "-q", "-o", "m.csv").code == 0
    titles, row = cells(tmp_path / "m.csv")
    assert titles[0] == "c=some"
    assert float(row[0]) == 1


@pytest.mark.parametrize(
    ("command", "rows", "says"),
    [
        ("sample", "a\n1\n0\n", "g.csv: '0' of column 'a' (1 row) is not one of its states: 2, 1, 3\n"),
        ("ups-infer", "a\n1\n0\n", "g.csv: '0' of column 'a' (1 row) is not one of its states: 2, 1, 3\n"),
        ("sample", "b\nmaybe\n", "g.csv: 'maybe' of column 'b' (1 row) is not one of its states: True, False\n"),
        ("sample", "c\n0.5\n", "g.csv: column 'c' has 0.5, but a state is a whole number or a name\n"),
        ("fit-mrf", "a\n1\n2\n0\n", "g.csv: '0' of column 'a' (1 row) is not one of its states: 2, 1, 3\n"),
    ],
)
def test_names_and_places_are_not_mixed(herd, tmp_path, command, rows, says):
    (tmp_path / "t.bif").write_text(NET)
    (tmp_path / "g.csv").write_text(rows)
    asked = {
        "sample": ("t.bif", "--given", "g.csv"),
        "ups-infer": ("t.bif", "--evidence-rows", "g.csv"),
        "fit-mrf": ("g.csv", "--algorithm", "bayes", "--network", "t.bif"),
    }
    ended = herd(command, *asked[command], "-o", "m.csv" if command != "fit-mrf" else "m.h5")
    assert ended.code == 65
    assert ended.err.endswith(says), ended.err


def test_formats_without_names_refuse_what_would_be_read_as_others(herd, tmp_path):
    (tmp_path / "t.bif").write_text(NET)
    ended = herd("sample", "t.bif", "-o", "rows.npz")
    assert ended.code == 2
    says = "npz cannot hold state names, and the index 2 of state '3' of 'a' is the name of another state\n"
    says += "hint: use --format csv, hdf5 or parquet, which keep names\n"
    assert ended.err.endswith(says), ended.err
    (tmp_path / "t.bif").write_text(
        NET.replace("{ 2, 1, 3 }", "{ p, q, r }").replace("(2)", "(p)").replace("(1)", "(q)").replace("(3)", "(r)")
    )
    ended = herd("sample", "t.bif", "-o", "rows.npz")
    assert ended.code == 0
    assert "npz has no names of states, so their indices are written; csv, hdf5 and parquet keep the names\n" in ended.err
    asked = ("ups-infer", "t.bif", "--evidence-rows")
    assert herd("sample", "t.bif", "-o", "rows.csv").code == 0
    for form in ("npz", "csv"):
        assert herd(*asked, f"rows.{form}", "-o", f"{form}.out.csv").code == 0
    assert (tmp_path / "npz.out.csv").read_bytes() == (tmp_path / "csv.out.csv").read_bytes()


def test_several_files_are_read_by_name_too(herd, drawn, tmp_path):
    """A network with the same states in another order; tables of truths cannot be read by parts, and are refused."""
    for state in ("1", "2"):
        assert herd("sample", "t.bif", "-m", "5", "--seed", state, "-q", "-o", f"many-{state}.h5").code == 0
    other = NET.replace("{ None, some, much }", "{ much, None, some }").replace("0.25, 0.25, 0.5", "0.5, 0.25, 0.25")
    (tmp_path / "o.bif").write_text(other.replace("0.0, 0.0, 1.0", "1.0, 0.0, 0.0"))
    assert herd("sample", "o.bif", "--given", "many-*.h5", "-q", "-o", "all.csv").code == 0
    for state in ("1", "2"):
        assert herd("convert", f"many-{state}.h5", "-q", "-o", f"{state}.csv").code == 0
    assert cells(tmp_path / "all.csv") == [*cells(tmp_path / "1.csv"), *cells(tmp_path / "2.csv")[1:]]
    assert herd("sample", "o.bif", "-m", "5", "-q", "-o", "many-3.h5").code == 0
    ended = herd("sample", "t.bif", "--given", "many-*.h5", "-o", "x.csv")
    assert (ended.code, ended.err) == (65, "herd sample: many-3.h5: its text columns have other values than those of many-1.h5\n")
    for k in "12":
        (tmp_path / f"truth-{k}.csv").write_text("b\nTrue\nFalse\n")
    ended = herd("sample", "t.bif", "--given", "truth-*.csv", "-o", "x.csv")
    assert ended.code == 65
    assert "truth-1.csv: has a format that cannot be read in parts" in ended.err


def test_rows_beside_evidence_for_all_are_told_over_all_states(herd, tmp_path):
    """The states that --evidence excludes keep their columns, with 0, and names are those of the file; --likelihood loses none."""
    (tmp_path / "t.bif").write_text(NET)
    (tmp_path / "e.evid").write_text("a=1\n")
    (tmp_path / "rows.csv").write_text("a,c\n,some\n1,much\n")
    for more, p_b in ((), 0.0), (("--likelihood", "b=1,5"), 0.0):
        ended = herd("ups-infer", "t.bif", "--evidence", "e.evid", "--evidence-rows", "rows.csv", *more, "-q", "-o", "m.csv")
        assert ended.code == 0
        assert (tmp_path / "m.csv").read_text().splitlines()[1] == ",,,,,,,,-inf"
        (tmp_path / "possible.csv").write_text("a,c\n1,much\n,\n")
        ended = herd("ups-infer", "t.bif", "--evidence", "e.evid", "--evidence-rows", "possible.csv", *more, "-q", "-o", "m.csv")
        assert (ended.code, ended.err) == (0, "")
        titles, *found = cells(tmp_path / "m.csv")
        assert titles == [f"{name}={state}" for name, state in zip("aaabbccc", STATES, strict=True)] + ["log_z"]
        for row in found:
            assert list(map(float, row[:8])) == pytest.approx([0, 1, 0, p_b, 1, 0, 0, 1])
    (tmp_path / "other.csv").write_text("a,c\n1,much\n2,much\n")
    ended = herd("ups-infer", "t.bif", "--evidence", "e.evid", "--evidence-rows", "other.csv", "-q", "-o", "m.csv")
    assert ended.code == 65
    assert ended.err == (
        "herd ups-infer: other.csv: line 3 gives a the state 0, --evidence the state 1\nhint: leave the variable out of one of the two\n"
    )
