"""herd network describe, and queries that the graph answers."""

from __future__ import annotations

import json

import pytest

BIF = """network n {}
variable a { type discrete [ 2 ] { yes, no }; }
variable b { type discrete [ 2 ] { yes, no }; }
variable c { type discrete [ 3 ] { x, y, z }; }
probability ( a ) { table .5 .5; }
probability ( b ) { table .5 .5; }
probability ( c | a, b ) { default .2 .3 .5; }
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "n.bif").write_text(BIF)


def test_a_description_as_json_and_as_a_table(herd, files, tmp_path):
    ended = herd("network", "describe", "n.bif")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert found["edges"] == [["a", "c"], ["b", "c"]]
    assert found["moral_edges"] == [["a", "b"], ["a", "c"], ["b", "c"]]
    assert found["treewidth"] == {"at_least": 2, "at_most": 2}
    assert found["nodes"][0] == {
        "name": "a", "states": ["yes", "no"], "parents": [], "children": ["c"], "markov_blanket": ["b", "c"], "ancestors": [],
        "descendants": ["c"], "moral_neighbours": ["b", "c"],
    }  # fmt: skip
    ended = herd("network", "describe", "n.bif", "-o", "d.csv")
    assert ended.code == 0, ended.err
    lines = (tmp_path / "d.csv").read_text().splitlines()
    assert lines[0] == "variable,parents,children,markov_blanket,ancestors,descendants,moral_neighbours,states"
    assert lines[3] == '"c","a, b","","a, b","a, b","","a, b",3'
    assert "3 variables, 2 edges, moral graph of 3, treewidth 2" in ended.err


def test_networks_without_directions_have_neighbours(herd, tmp_path):
    (tmp_path / "m.uai").write_text("MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 2 3 4\n")
    found = json.loads(herd("network", "describe", "m.uai").out)
    assert found["directed"] is False
    assert "edges" not in found
    assert found["nodes"] == [{"name": "x0", "states": 2, "neighbours": ["x1"]}, {"name": "x1", "states": 2, "neighbours": ["x0"]}]


@pytest.mark.parametrize(
    ("query", "more", "rows"),
    [
        ("dsep:a,b", (), ['"a","b","","",1']),
        ("dsep:a,b|c", (), ['"a","b","c","a – c – b",0']),
        ("dsep:a,b", ("--evidence", "c=x"), ['"a","b","c","a – c – b",0']),
        ("independent:a", (), ['"a","b","","",1', '"a","c","","a – c",0']),
    ],
)
def test_queries_of_the_graph(herd, files, query, more, rows):
    ended = herd("ups-infer", "n.bif", "--query", query, *more, "--format", "csv")
    assert ended.code == 0, ended.err
    assert ended.out.decode().splitlines() == ["variable,other,given,trail,separated", *rows]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ups-infer", "n.bif", "--query", "dsep:a,a"), "--query dsep names a twice, or it is in the evidence"),
        (("ups-infer", "n.bif", "--query", "dsep:a,b|a"), "--query dsep names a twice, or it is in the evidence"),
        (("network", "describe", "n.bif", "--format", "bif"), "herd network describe cannot write bif"),
        (("network", "convert", "n.bif", "--format", "json"), "herd network convert cannot write json"),
    ],
)
def test_what_cannot_be_asked(herd, files, words, message):
    ended = herd(*words)
    assert ended.code == 2
    assert message in ended.err
