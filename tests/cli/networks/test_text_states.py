"""`herd fit-mrf` of columns of text: one variable each, its levels the states, whose names go wherever names go."""

from __future__ import annotations

import random

import numpy as np
import pytest

from herdcli.artifacts import load

NOTE = "text columns read as states: colour (3 levels), wet (2 levels)\n"


def lines(count: int = 90, gap: str = "") -> list[str]:
    draw = random.Random(0)
    colours = [draw.choice(["red", "blue", "green"]) for _ in range(count)]
    wet = ["yes" if (colour == "red") ^ (draw.random() < 0.2) else "no" for colour in colours]
    rows = [f"{colour},{k % 4},{there}" for k, (colour, there) in enumerate(zip(colours, wet, strict=True))]
    if gap:
        rows[7] = gap
    return ["colour,n,wet", *rows, ""]


def counted(rows: list[str], *columns: int) -> dict[tuple[str, ...], int]:
    found: dict[tuple[str, ...], int] = {}
    for row in rows:
        key = tuple(row.split(",")[column] for column in columns)
        found[key] = found.get(key, 0) + 1
    return found


def test_a_column_of_text_is_one_variable_with_named_states(herd, tmp_path):
    (tmp_path / "t.csv").write_text("\n".join(lines()))
    ended = herd("fit-mrf", "t.csv", "--structure", "full", "--smoothing", "0", "--split", "1,0,0", "-o", "t.h5")
    assert ended.code == 0, ended.err
    assert NOTE in ended.err
    model = load(str(tmp_path / "t.h5")).value
    assert model.names == ["n", "colour", "wet"]
    assert model.states == ["0", "1", "2", "3", "blue", "green", "red", "no", "yes"]
    assert herd("ups-infer", "t.h5", "--query", "joint:colour,wet", "-o", "joint.csv").code == 0
    given = counted(lines()[1:-1], 0, 2)
    titles, *rows = [line.replace('"', "").split(",") for line in (tmp_path / "joint.csv").read_text().splitlines()]
    assert titles == ["colour", "wet", "probability"]
    assert [tuple(row[:2]) for row in rows] == [(colour, wet) for colour in ("blue", "green", "red") for wet in ("no", "yes")]
    np.testing.assert_allclose([float(row[2]) for row in rows], [given.get((row[0], row[1]), 0) / 90 for row in rows], atol=1e-9)


def test_tables_of_a_network_are_found_by_the_names_of_states(herd, tmp_path):
    (tmp_path / "t.csv").write_text("\n".join(lines()))
    bif = (
        "network t { }\nvariable wet { type discrete [ 2 ] { yes, no }; }\n"
        "variable colour { type discrete [ 3 ] { red, green, blue }; }\nvariable n { type discrete [ 4 ] { 0, 1, 2, 3 }; }\n"
        "probability ( colour ) { table .3, .3, .4; }\nprobability ( n ) { table .25, .25, .25, .25; }\n"
        "probability ( wet | colour ) { (red) .5, .5; (green) .5, .5; (blue) .5, .5; }\n"
    )
    (tmp_path / "t.bif").write_text(bif)
    ended = herd("fit-mrf", "t.csv", "--algorithm", "bayes", "--network", "t.bif", "--split", "1,0,0", "--smoothing", "0", "-o", "made.h5")
    assert ended.code == 0, ended.err
    model = load(str(tmp_path / "made.h5")).value
    assert model.states[:2] == ["yes", "no"]
    assert herd("ups-infer", "made.h5", "--query", "joint:wet,colour", "-o", "joint.csv").code == 0
    given = counted(lines()[1:-1], 2, 0)
    expected = [given.get((wet, colour), 0) / 90 for wet in ("yes", "no") for colour in ("red", "green", "blue")]
    np.testing.assert_allclose(np.genfromtxt(tmp_path / "joint.csv", delimiter=",", names=True)["probability"], expected, atol=1e-9)
    (tmp_path / "t.bif").write_text(bif.replace("green", "teal"))
    ended = herd("fit-mrf", "t.csv", "--algorithm", "bayes", "--network", "t.bif", "-o", "other.h5")
    assert ended.code == 65
    says = "t.csv: 'green' of column 'colour' (33 rows) is not one of its states: red, teal, blue\n"
    assert ended.err.endswith(says)


def test_empty_cells_of_text_are_gaps_for_em(herd, tmp_path):
    (tmp_path / "t.csv").write_text("\n".join(lines(gap=",3,yes")))
    ended = herd("fit-mrf", "t.csv", "--algorithm", "bayes", "--structure", "chow-liu", "--split", "1,0,0", "-o", "t.h5")
    assert ended.code == 0, ended.err
    assert "1 of 90 rows lack values: the tables are fitted by EM\n" in ended.err


@pytest.mark.parametrize(
    ("options", "gap", "code", "says"),
    [
        (
            ("--threshold", ".5"),
            "",
            2,
            "--threshold is for columns of numbers, but text columns are states already\n"
            "hint: leave text columns out: --categorical none\n",
        ),
        (
            ("--missing", "mean"),
            ",3,yes",
            65,
            "t.csv: column 'colour' is text and has missing values; --missing mean fills only columns of numbers\n"
            "hint: use --missing drop, or use --algorithm bayes, which handles missing values by EM\n",
        ),
        (
            ("--split", ".6,.2,.2"),
            "teal,3,yes",
            65,
            "t.csv: 'teal' of column 'colour' (1 row) is not one of its states: blue, green, red\n",
        ),
        (
            ("--base", "net.uai"),
            "",
            65,
            "t.csv: the columns have different states from those that the network of --base names\nhint: give --base in a format that "
            "names states, such as BIF\n",
        ),
    ],
)
def test_what_text_cannot_be(herd, tmp_path, options, gap, code, says):
    rows = lines(gap=gap)
    if gap.startswith("teal"):
        rows = [rows[0] + ",split", *(f"{row},{'test' if k == 7 else 'train'}" for k, row in enumerate(rows[1:-1])), ""]
        options = ()
    (tmp_path / "t.csv").write_text("\n".join(rows))
    (tmp_path / "net.uai").write_text("MARKOV\n3\n4 3 2\n0\n")
    ended = herd("fit-mrf", "t.csv", *options, "-o", "t.h5")
    assert (ended.code, ended.err[-len(says) :]) == (code, says), ended.err


ASIA = (
    "network t { }\nvariable smoke { type discrete [ 2 ] { yes, no }; }\nvariable cough { type discrete [ 3 ] { dry, wet, none }; }\n"
    "probability ( smoke ) { table .25, .75; }\nprobability ( cough | smoke ) { (yes) .2, .3, .5; (no) .1, .1, .8; }\n"
)


def test_rows_of_evidence_are_read_by_the_names_of_states(herd, tmp_path):
    """An empty cell is no evidence, also where most are, and places of states are taken as before."""
    (tmp_path / "t.bif").write_text(ASIA)
    (tmp_path / "named.csv").write_text("cough,smoke\n,yes\n,\nwet,\n,\n")
    (tmp_path / "placed.csv").write_text("cough,smoke\n-1,0\n,\n1,-1\n-1,-1\n")
    for name in ("named", "placed"):
        ended = herd("ups-infer", "t.bif", "--evidence-rows", f"{name}.csv", "-q", "-o", f"{name}.out.csv")
        assert (ended.code, ended.err) == (0, "")
    assert (tmp_path / "named.out.csv").read_bytes() == (tmp_path / "placed.out.csv").read_bytes()
    found = np.genfromtxt(tmp_path / "named.out.csv", delimiter=",", skip_header=1)
    title = (tmp_path / "named.out.csv").read_text().partition("\n")[0]
    assert title == "smoke=yes,smoke=no,cough=dry,cough=wet,cough=none,log_z"
    np.testing.assert_allclose(found[0, :5], [1, 0, 0.2, 0.3, 0.5], atol=1e-12)
    np.testing.assert_allclose(found[2, :5], [0.5, 0.5, 0, 1, 0], atol=1e-12)  # .25 · .3 = .75 · .1
    np.testing.assert_allclose(found[:, 5], np.log([0.25, 1, 0.15, 1]), atol=1e-12)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("smoke\nmaybe\n", "'maybe' of column 'smoke' (1 row) is not one of its states: yes, no"),
        ("smoke,cough\nyes,3\nno,0\n", "line 2 gives cough the state 3, but its states are 0 to 2 (−1: unknown)"),
    ],
)
def test_rows_of_evidence_with_states_that_are_none(herd, tmp_path, rows, message):
    (tmp_path / "t.bif").write_text(ASIA)
    (tmp_path / "e.csv").write_text(rows)
    ended = herd("ups-infer", "t.bif", "--evidence-rows", "e.csv", "-o", "m.csv")
    assert ended.code == 65
    assert message in ended.err


def test_none_is_the_name_of_a_state(herd, tmp_path):
    """Networks have states that are called None (no damage); a table of their rows has the same states."""
    rows = [f"{('None', 'mild', 'severe')[k % 3]},{('yes', 'no')[k // 3 % 2]}" for k in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["damage,wet", *rows, "NA,yes", ""]))
    for words, told in ((("--algorithm", "bayes"), "1 of 61 rows lack values"), (("--missing", "drop"), "dropped 1 of 61 rows")):
        ended = herd("fit-mrf", "t.csv", *words, "--split", "1,0,0", "-o", "t.h5")
        assert ended.code == 0, ended.err
        assert told in ended.err
        assert load(str(tmp_path / "t.h5")).value.states == ["None", "mild", "severe", "no", "yes"]
