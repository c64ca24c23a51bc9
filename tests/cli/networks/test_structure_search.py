"""fit-mrf --structure hill-climb: scores, known edges and the support of edges in bootstrap samples."""

from __future__ import annotations

import csv
import random

import pytest

BAYES = ("fit-mrf", "t.csv", "--algorithm", "bayes", "--structure", "hill-climb", "--split", "1,0,0")


@pytest.fixture
def table(tmp_path):
    draw = random.Random(1)
    lines = ["a,b,c"]
    for _ in range(300):
        a = draw.randrange(2)
        b = a if draw.random() < 0.85 else 1 - a
        lines.append(f"{a},{b},{draw.randrange(2)}")
    (tmp_path / "t.csv").write_text("\n".join([*lines, ""]))


@pytest.mark.parametrize("score", ["bic", "bdeu", "k2"])
def test_scores_of_structures(herd, table, score):
    ended = herd(*BAYES, "--score", score, "-o", "t.h5")
    assert ended.code == 0, ended.err
    assert f"fit-mrf: hill-climb: 1 edges chosen by --score {score}\n" in ended.err


def test_known_edges(herd, table, tmp_path):
    (tmp_path / "req.txt").write_text("c -> a\n")
    (tmp_path / "forb.txt").write_text("a b\nb a\n")
    ended = herd(*BAYES, "--required-edges", "req.txt", "--forbidden-edges", "forb.txt", "-o", "t.bif")
    assert ended.code == 0, ended.err
    text = (tmp_path / "t.bif").read_text()
    assert "probability ( a | c )" in text
    assert "probability ( b )" in text


@pytest.mark.parametrize("header", ["from,to", "Parent,Child", '"from","to"'])
def test_edges_in_a_table_with_titles(herd, table, tmp_path, header):
    (tmp_path / "req.csv").write_text(f"{header}\nc,a\n")
    ended = herd(*BAYES, "--required-edges", "req.csv", "-o", "t.bif")
    assert ended.code == 0, ended.err
    assert "probability ( a | c" in (tmp_path / "t.bif").read_text()


def test_titles_that_are_variables_are_an_edge(herd, tmp_path):
    (tmp_path / "t.csv").write_text("from,to\n" + "0,1\n1,0\n0,0\n" * 10)
    (tmp_path / "req.csv").write_text("from,to\n")
    ended = herd(*BAYES, "--required-edges", "req.csv", "-o", "t.bif")
    assert ended.code == 0, ended.err
    assert "probability ( to | from )" in (tmp_path / "t.bif").read_text()


def test_support_of_edges(herd, table, tmp_path):
    ended = herd(*BAYES, "--bootstrap", "20", "--support", "s.csv", "-o", "t.h5")
    assert ended.code == 0, ended.err
    assert "20 bootstrap samples; every edge is in at least half of the samples\n" in ended.err
    first, *_ = csv.DictReader((tmp_path / "s.csv").open())
    assert {first["parent"], first["child"]} == {"a", "b"}
    assert float(first["either_direction"]) == 1.0
    again = herd(*BAYES, "--bootstrap", "20", "--support", "s2.csv", "-o", "t2.h5")
    assert again.code == 0
    assert (tmp_path / "s.csv").read_bytes() == (tmp_path / "s2.csv").read_bytes()


@pytest.mark.parametrize(
    ("words", "told", "code"),
    [
        (("--support", "s.csv"), "--support works only with --bootstrap: it writes how often the samples have each edge", 2),
        (("--required-edges", "bad.txt"), "bad.txt: line 1: there is no variable 'z'", 65),
        (("--equivalent-rows", "5"), "--equivalent-rows", 0),
    ],
)
def test_what_does_not_fit(herd, table, tmp_path, words, told, code):
    (tmp_path / "bad.txt").write_text("z a\n")
    ended = herd(*BAYES, *words, "-o", "t.h5")
    assert ended.code == code
    assert told in ended.err
