"""apply --explain-row ROW as a process: terms by name that add up to the score, and one-line refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

from herdcli.artifacts import load

VW = b"1 |a red:2 blue |b x\n-1 |a green blue\n1 |a red\n-1 |b y\n" * 5


@pytest.fixture
def table(herd, tmp_path):
    """A function to the rows of --explain-row."""

    def rows(*words: str) -> list[dict[str, object]]:
        made = herd("apply", *words, "-o", "e.json")
        assert made.code == 0, made.err
        return json.loads((tmp_path / "e.json").read_text())

    return rows


def test_hashed_names_are_those_of_the_text(herd, tmp_path, table):
    (tmp_path / "t.vw").write_bytes(VW)
    assert herd("nherd-train", "t.vw", "-q", "-o", "m.h5").code == 0
    rows = table("m.h5", "t.vw", "--explain-row", "1")
    assert {row["feature"] for row in rows} == {"a^red", "a^blue", "b^x", "(bias)", "(score)"}
    *terms, score = rows
    assert sum(row["contribution"] for row in terms) == pytest.approx(score["contribution"], rel=1e-12)
    assert all(row["contribution"] == pytest.approx(row["value"] * row["weight"], rel=1e-12) for row in terms)
    sizes = [abs(row["contribution"]) for row in terms[:-1]]
    assert sizes == sorted(sizes, reverse=True)


def test_columns_have_their_names_and_the_small_terms_are_one_line(herd, tmp_path, table):
    random = np.random.default_rng(0)
    X = random.standard_normal((60, 30))
    X[59, 7] = 9.0  # of the column that decides
    head = ",".join(f"column {k}" for k in range(30)) + ",y\n"
    (tmp_path / "d.csv").write_text(head + "".join(",".join(map(repr, row)) + f",{int(row[7] > 0)}\n" for row in X.tolist()))
    assert herd("nherd-train", "d.csv", "-q", "-o", "m.h5").code == 0
    rows = table("m.h5", "d.csv", "--explain-row", "60")
    assert (rows[0]["feature"], len(rows)) == ("column 7", 23)
    assert [row["feature"] for row in rows[20:]] == ["(10 others)", "(bias)", "(score)"]
    assert sum(row["contribution"] for row in rows[:-1]) == pytest.approx(rows[-1]["contribution"], rel=1e-12)
    ended = herd("apply", "m.h5", "d.csv", "--explain-row", "60")
    assert "example 60: what favours class " in ended.err
    assert ended.out.decode().split()[:5] == ["feature", "value", "weight", "contribution", "deviation"]


def test_numbers_are_explained(herd, tmp_path, table):
    text = "".join(f"{3 * k % 7} 1:{k % 5} 2:{k % 3 + 1}\n" for k in range(50)).encode()
    (tmp_path / "t.svm").write_bytes(text)
    assert herd("nherd-train", "--task", "regression", "t.svm", "-q", "-o", "m.h5").code == 0
    rows = table("m.h5", "t.svm", "--explain-row", "4")
    assert {row["feature"] for row in rows} == {"feature 1", "feature 2", "(bias)", "(score)"}
    assert herd("apply", "m.h5", "t.svm", "-q", "-o", "p.h5").code == 0
    assert rows[-1]["contribution"] == pytest.approx(load(str(tmp_path / "p.h5")).value.X[3, 0], rel=1e-12)


def test_what_cannot_be_explained_is_told(herd, tmp_path):
    def refused(*words):
        ended = herd(*words)
        return ended.code, ended.err.splitlines()[0]

    (tmp_path / "t.svm").write_bytes(b"1 1:1\n-1 2:1\n" * 10)
    assert herd("nherd-train", "t.svm", "-q", "-o", "m.h5").code == 0
    assert herd("nherd-train", "t.svm", "-q", "--kernel", "gaussian", "-o", "k.h5").code == 0
    assert herd("data", "digits", "-o", "d.h5").code == herd("em", "d.h5", "--components", "2", "-q", "-o", "em.h5").code == 0
    assert refused("apply", "k.h5", "t.svm", "--explain-row", "1") == (
        65,
        "herd apply: k.h5: --explain-row needs weights for features, but a kernel model has none",
    )
    assert refused("apply", "m.h5", "t.svm", "--explain-row", "21") == (
        65,
        "herd apply: t.svm: has 20 examples, but --explain-row asks for number 21",
    )
    assert refused("apply", "m.h5", "t.svm", "--explain-row", "0")[0] == 2
    assert refused("apply", "m.h5", "t.svm", "--explain-row", "1", "--want", "classes") == (
        2,
        "herd apply: --explain-row and --want exclude each other",
    )
    assert refused("apply", "m.h5", "t.svm", "--explain-row", "1", "-o", "e.h5") == (
        2,
        "herd apply: e.h5: --explain-row can only write a table as text",
    )
    assert refused("apply", "em.h5", "d.h5", "--explain-row", "1") == (
        2,
        "herd apply: --explain-row is for models made by herd nherd-train, not for a mixture",
    )
