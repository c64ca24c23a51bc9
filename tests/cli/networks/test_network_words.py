"""What is said of networks is said in the words of whoever wrote them."""

from __future__ import annotations

import pytest

BIF = """network n {}
variable a { type discrete [ 2 ] { yes, no }; }
variable b { type discrete [ 2 ] { yes, no }; }
probability ( a ) { table .5 .5; }
probability ( b | a ) { (yes) 1 0; (no) .1 .9; }
"""
TIED = BIF.replace("(yes) 1 0", "(yes) .9 .1")


@pytest.fixture
def files(tmp_path):
    (tmp_path / "n.bif").write_text(BIF)
    (tmp_path / "tied.bif").write_text(TIED)
    (tmp_path / "rows.csv").write_text("a,b\nyes,no\n")


def test_tables_have_the_names_of_their_variables(herd, files, tmp_path):
    ended = herd("ups-infer", "n.bif", "--algorithm", "tap")
    assert ended.err.startswith("herd ups-infer: --algorithm tap needs positive factors, but the table of b has a zero\n")
    ended = herd("ups-infer", "n.bif", "--soft-evidence", "a=0,0")
    assert ended.err == "herd ups-infer: n.bif: the likelihoods of a must be finite, not negative and not all zero\n"
    (tmp_path / "neg.bif").write_text(BIF.replace("table .5 .5", "table -.5 1.5"))
    ended = herd("ups-infer", "neg.bif")
    assert ended.err == "herd ups-infer: neg.bif: the table of a: value 0 is -0.5, but must be finite and not negative\n"


def test_impossible_evidence_is_named_as_it_was_given(herd, files):
    ended = herd("ups-infer", "n.bif", "--evidence", "a=yes", "--evidence", "b=no")
    assert ended.code == 1
    assert "the evidence has probability 0: the network excludes a=yes, b=no" in ended.err


def test_rows_of_sensitivity_say_whose_cell_it_is(herd, files):
    ended = herd("ups-infer", "n.bif", "--query", "sensitivity:a=yes", "--evidence", "b=yes", "--format", "csv")
    assert ended.code == 0, ended.err
    lines = ended.out.decode().splitlines()
    assert lines[0] == "child,child_state,parents,parent_states,factor,cell,value,derivative"
    assert lines[1].startswith('"a","yes","","",0,0,0.5,')
    assert lines[4].startswith('"b","no","a","yes",1,1,0,0')
    assert lines[5].startswith('"b","yes","a","no",1,2,0.1,')
    assert "P(a = yes) = 0.90909091, steepest in the table of b = yes given a = no" in ended.err


def test_rows_of_sensitivity_without_directions(herd, tmp_path):
    (tmp_path / "m.uai").write_text("MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 2 3 4\n")
    ended = herd("ups-infer", "m.uai", "--query", "sensitivity:x0=1", "--soft-evidence", "x1=1,2", "--format", "csv")
    assert ended.code == 0, ended.err
    lines = ended.out.decode().splitlines()
    assert lines[0] == "variables,states,factor,cell,value,derivative"
    assert lines[3].startswith('"x0, x1","1, 0",0,2,3,')
    assert lines[5].startswith('"x1","0",1,0,1,')


@pytest.mark.parametrize(
    ("name", "more", "told"),
    [("tied", (), "a=no, b=no has the same probability"), ("tied", ("--evidence", "a=yes"), None), ("n", (), None)],
)
def test_likeliest_states_that_are_not_unique_are_told(herd, files, name, more, told):
    ended = herd("ups-infer", f"{name}.bif", "--query", "mpe", *more, "--format", "csv")
    assert ended.code == 0, ended.err
    assert ("the most probable states are not unique" in ended.err) == (told is not None)
    assert told is None or f"the most probable states are not unique: {told}" in ended.err


def test_joint_tables_have_evidence_fixed(herd, files):
    ended = herd("ups-infer", "tied.bif", "--query", "joint:b,a", "--evidence", "a=no", "--format", "csv")
    assert ended.code == 0, ended.err
    assert ended.out.decode().splitlines()[0] == "b,a,probability"
    found = [line.split(",") for line in ended.out.decode().splitlines()[1:]]
    assert [row[:2] for row in found] == [['"yes"', '"no"'], ['"no"', '"no"']]
    assert [float(row[2]) for row in found] == pytest.approx([0.1, 0.9], abs=1e-12)
    ended = herd("ups-infer", "tied.bif", "--query", "joint:a", "--evidence", "a=no", "--format", "csv")
    assert ended.out.decode().splitlines()[1:] == ['"no",1']


def test_what_is_no_network_names_the_formats(herd, files):
    ended = herd("ups-infer", "rows.csv")
    assert (ended.code, ended.err) == (
        65,
        "herd ups-infer: rows.csv: is not a network in a format that herd reads\nhint: network formats are .uai, .fg, .bif, .xmlbif, .net, "
        ".xdsl, .dsl and .h5; herd fit-mrf learns a network from rows\n",
    )


@pytest.mark.parametrize("more", [(), ("--algorithm", "bayes")])
def test_rows_that_are_kept_out_are_told(herd, tmp_path, more):
    (tmp_path / "t.csv").write_text("a,b\n" + "0,1\n1,1\n1,0\n0,0\n" * 10)
    ended = herd("fit-mrf", "t.csv", *more, "-o", "t.h5")
    assert "fit-mrf: learned from 24 rows; 16 are held out for herd eval (--split 1,0,0 learns from all)\n" in ended.err
    ended = herd("fit-mrf", "t.csv", *more, "--split", "1,0,0", "-o", "t.h5")
    assert "kept out" not in ended.err
