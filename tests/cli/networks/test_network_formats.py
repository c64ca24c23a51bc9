"""Formats of networks, names beside them, evidence by name and rows of NaN, from the command line."""

from __future__ import annotations

import gzip
import json
import os

import numpy as np
import pytest

from herdcli.artifacts import load

NAMES = """network n {}
variable "light on" { type discrete [ 2 ] { yes, no }; }
variable b { type discrete [ 3 ] { 1, 0, "> 10, high" }; }
probability ( "light on" ) { table .3 .7 ; }
probability ( b | "light on" ) { (yes) .2 .3 .5; (no) .1 .1 .8; }
"""
NAN = NAMES.replace("(no) .1 .1 .8", "(no) NaN NaN NaN")


def same(path: str, other: str) -> None:
    given, read = load(path).value, load(other).value
    order = [read.names.index(name) for name in given.names]
    for i, j in enumerate(order):
        assert given.states_of(i) == read.states_of(j)
    tables = [{tuple(made.name(i) for i in scope): table for scope, table in made.factors()} for made in (given, read)]
    assert tables[0].keys() == tables[1].keys()
    for scope, table in tables[0].items():
        np.testing.assert_allclose(tables[1][scope], table, rtol=0, atol=1e-12)


@pytest.mark.parametrize("suffix", ["bif", "xml", "xmlbif", "bifxml", "net", "xdsl", "dsl", "uai"])
def test_a_round_trip_keeps_tables_and_names(herd, tmp_path, suffix):
    (tmp_path / "n.bif").write_text(NAMES)
    assert herd("network", "convert", "n.bif", "-o", "given.h5").code == 0
    ended = herd("network", "convert", "n.bif", "-o", f"made.{suffix}")
    assert ended.code == 0, ended.err
    beside = suffix in ("dsl", "uai")
    form = f"{suffix} cannot hold all names of variables and states: they are in made.names.json, which is read with it"
    assert (form in ended.err) == beside == (tmp_path / "made.names.json").exists()
    ended = herd("network", "convert", f"made.{suffix}", "-o", "read.h5")
    assert ended.code == 0, ended.err
    assert (f"made.{suffix}: names of variables and states are read from made.names.json" in ended.err) == beside
    same(str(tmp_path / "given.h5"), str(tmp_path / "read.h5"))


def test_names_are_lost_on_standard_output_with_a_warning(herd, tmp_path):
    (tmp_path / "n.bif").write_text(NAMES)
    ended = herd("network", "convert", "n.bif", "--format", "uai")
    assert ended.code == 0
    told = "uai cannot hold all names of variables and states, so they are lost; with -o FILE they go into a second file"
    assert f"network: warning: {told}\n" in ended.err


def test_names_lie_beside_packed_files_too(herd, tmp_path):
    (tmp_path / "n.bif").write_text(NAMES)
    assert herd("network", "convert", "n.bif", "-o", "n.uai").code == 0
    (tmp_path / "n.uai.gz").write_bytes(gzip.compress((tmp_path / "n.uai").read_bytes()))
    ended = herd("ups-infer", "n.uai.gz", "--evidence", "light on=yes", "--format", "csv")
    assert ended.code == 0, ended.err
    assert ended.out.decode().splitlines()[1:] == ['"light on",1,0,,"yes; no"', '"b",0.2,0.3,0.5,"1; 0; > 10, high"']
    (tmp_path / "n.names.json").write_text('{"variables": []}')
    ended = herd("ups-infer", "n.uai")
    assert ended.code == 65
    assert ended.err == (
        "herd ups-infer: n.names.json: has names for 0 variables, but the network has 2 variables\nhint: if this file belongs to "
        "another network, move it to another folder\n"
    )


def test_a_network_without_names_warns_of_names_that_lie_there(herd, tmp_path):
    (tmp_path / "m.names.json").write_text('{"variables": []}')
    ended = herd("network", "grid", "--grid-rows", "2", "--grid-columns", "2", "-o", "m.uai")
    assert ended.code == 0
    assert "warning: m.names.json exists already, so its names will be read with this network" in ended.err


@pytest.mark.parametrize("typed", [["e.txt"], ["light on=yes"], ['"light on"=yes'], ["light on=yes", "b=> 10, high"]])
def test_evidence_is_a_file_or_a_pair(herd, tmp_path, typed):
    (tmp_path / "n.bif").write_text(NAMES)
    (tmp_path / "e.txt").write_text("light on=yes\n")
    ended = herd("ups-infer", "n.bif", *(word for text in typed for word in ("--evidence", text)), "--format", "csv")
    assert ended.code == 0, ended.err
    assert ended.out.decode().splitlines()[1] == '"light on",1,0,,"yes; no"'


def test_evidence_of_files_and_pairs_must_agree(herd, tmp_path):
    (tmp_path / "n.bif").write_text(NAMES)
    (tmp_path / "e.txt").write_text("light on=yes\n")
    ended = herd("ups-infer", "n.bif", "--evidence", "e.txt", "--evidence", "light on=no")
    assert (ended.code, ended.err) == (2, "herd ups-infer: --evidence gives light on two states, yes and no\n")
    ended = herd("ups-infer", "n.bif", "--evidence", "e.txt", "--evidence", "e.txt")
    assert ended.code == 2
    assert "--evidence names two files, e.txt and e.txt" in ended.err
    ended = herd("ups-infer", "n.bif", "--evidence", "lihgt on=no")
    assert ended.code == 65
    assert ended.err == "herd ups-infer: --evidence: there is no variable 'lihgt on'\nhint: did you mean 'light on'?\n"


def test_an_empty_file_is_no_evidence(herd, tmp_path):
    (tmp_path / "n.bif").write_text(NAMES)
    (tmp_path / "e.txt").write_text("")
    ended = herd("ups-infer", "n.bif", "--evidence", "e.txt", "--format", "csv")
    assert ended.code == 0, ended.err
    assert float(ended.out.decode().splitlines()[1].split(",")[1]) == pytest.approx(0.3, rel=1e-12)


def test_states_that_are_numbers_say_how_they_are_read(herd, tmp_path):
    (tmp_path / "n.bif").write_text(NAMES)
    ended = herd("ups-infer", "n.bif", "--evidence", "b=1", "--format", "csv")
    assert ended.code == 0
    assert "ups-infer: evidence: b=1 is read as the state named 1, not as state number 1, which is 0\n" in ended.err


def test_evidence_typed_is_in_the_history(herd, tmp_path):
    (tmp_path / "n.bif").write_text(NAMES)
    assert herd("ups-infer", "n.bif", "--evidence", "light on=yes", "-o", "out.h5").code == 0
    ended = herd("check", "--rerun", "out.h5", "--input", "n.bif")
    assert ended.code == 0, ended.err
    assert load(str(tmp_path / "out.h5")).history[-1]["parameters"]["evidence_states"] == ["light on=yes"]


def test_rows_of_nan_are_filled_where_that_is_asked_for(herd, tmp_path):
    (tmp_path / "n.bif").write_text(NAN)
    ended = herd("ups-infer", "n.bif", "--format", "csv")
    assert ended.code == 65
    assert ended.err == (
        "herd ups-infer: n.bif: the table of b has NaN in 1 of its 2 rows, the first for light on=no\nhint: use --missing-rows uniform: "
        "bnlearn writes NaN for states of the parents that its data lack\n"
    )
    ended = herd("ups-infer", "n.bif", "--missing-rows", "uniform", "--evidence", "light on=no", "--format", "csv")
    assert ended.code == 0
    assert "ups-infer: n.bif: 1 row of NaN in 1 table replaced by uniform distributions\n" in ended.err
    np.testing.assert_allclose(np.array(ended.out.decode().splitlines()[2].split(",")[1:4], dtype=float), 1 / 3, rtol=1e-12)
    assert herd("network", "convert", "n.bif", "--missing-rows", "uniform", "-o", "n.xdsl").code == 0
    (tmp_path / "rows.csv").write_text("light on,b\nno,1\n")
    for command in (("eval", "n.bif", "--data", "rows.csv"), ("sample", "n.bif", "-o", "s.csv"), ("info", "n.bif")):
        refused = herd(*command)
        assert refused.code == 65
        assert "n.bif: the table of b has NaN in 1 of its 2 rows, the first for light on=no" in refused.err
        ended = herd(*command, "--missing-rows", "uniform")
        assert ended.code == 0, ended.err
        assert "n.bif: 1 row of NaN in 1 table replaced by uniform distributions\n" in ended.err
    found = json.loads(herd("eval", "n.bif", "--data", "rows.csv", "--missing-rows", "uniform", "--format", "json").out)
    (row,) = found["rows"] if isinstance(found, dict) else found
    np.testing.assert_allclose(row["log_likelihood"], np.log(0.7 / 3), rtol=1e-12)


def test_latin_letters_of_older_programs(herd, tmp_path):
    xml = '<?xml version="1.0" encoding="ISO-8859-1"?><BIF><NETWORK><NAME>n</NAME><VARIABLE TYPE="nature"><NAME>Größe</NAME>'
    xml += "<OUTCOME>klein</OUTCOME><OUTCOME>groß</OUTCOME></VARIABLE><DEFINITION><FOR>Größe</FOR><TABLE>.25 .75</TABLE></DEFINITION>"
    (tmp_path / "n.xml").write_bytes((xml + "</NETWORK></BIF>").encode("latin-1"))
    (tmp_path / "n.net").write_bytes('net {} node G { states = ("klein" "groß"); } potential (G) { data = (.25 .75); }'.encode("latin-1"))
    for name, variable in (("n.xml", "Größe"), ("n.net", "G")):
        ended = herd("ups-infer", name, "--query", f"joint:{variable}", "--format", "csv")
        assert ended.code == 0, ended.err
        assert ended.out.decode().splitlines()[2] == '"groß",0.75'


def test_an_unknown_suffix_names_the_formats_of_networks(herd, tmp_path):
    ended = herd("network", "grid", "-o", "n.foo")
    assert (ended.code, ended.err) == (
        2,
        "herd network: n.foo: '.foo' is not a format that herd writes\n"
        "hint: known formats: .h5, .uai, .fg, .bif, .xmlbif, .net, .xdsl, .dsl\n",
    )


@pytest.mark.parametrize("link", [False, True])
def test_a_file_that_holds_no_names_is_not_replaced_by_names(herd, tmp_path, link):
    (tmp_path / "n.bif").write_text(NAMES)
    if link:
        (tmp_path / "made.names.json").symlink_to("n.bif")  # the input
    else:
        (tmp_path / "made.names.json").write_text("my notes\n")
    kept = (tmp_path / "made.names.json").read_text()
    told = (
        "made.names.json: is not a file of names, but names of the network may have to be written there\n"
        "hint: move it away, or choose another name than made.uai\n"
    )
    ended = herd("network", "convert", "n.bif", "-o", "made.uai")
    assert (ended.code, ended.err) == (73, f"herd network: {told}")
    assert (tmp_path / "made.names.json").read_text() == kept
    assert not (tmp_path / "made.uai").exists()
    (tmp_path / "rows.csv").write_text("a,b\nyes,no\nno,no\nyes,yes\nno,yes\n")
    ended = herd("fit-mrf", "rows.csv", "--smoothing", "1", "-o", "made.uai")
    assert (ended.code, ended.err) == (73, f"herd fit-mrf: {told}")


def test_names_of_another_network_are_replaced(herd, tmp_path):
    (tmp_path / "n.bif").write_text(NAMES)
    (tmp_path / "made.names.json").write_text('{"variables": [{"name": "a"}]}')
    assert herd("network", "convert", "n.bif", "-o", "made.uai").code == 0
    assert "light on" in (tmp_path / "made.names.json").read_text()


def test_no_names_are_written_next_to_a_device(herd, tmp_path):
    (tmp_path / "n.bif").write_text(NAMES)
    os.mkfifo(tmp_path / "pipe.uai")
    reader = os.open(tmp_path / "pipe.uai", os.O_RDONLY | os.O_NONBLOCK)
    ended = herd("network", "convert", "n.bif", "-o", "pipe.uai")
    content = os.read(reader, 10)
    os.close(reader)
    assert (ended.code, content) == (0, b"BAYES\n2\n2 "), ended.err
    assert "network: warning: uai cannot hold all names of variables and states, so they are lost" in ended.err
    assert not (tmp_path / "pipe.names.json").exists()
