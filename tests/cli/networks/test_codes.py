"""Whole numbers in columns are names of states: no state that no row has, and evidence in the words of the data."""

from __future__ import annotations

import random

import numpy as np
import pytest

from herdcli.artifacts import load

SPLIT = ("--split", "1,0,0")


def write(path, names: list[str], codes: list[list[int]], rows: int = 60, seed: int = 0) -> list[tuple[int, ...]]:
    """A table whose columns have these codes; a value depends on the one before it."""
    draw = random.Random(seed)
    made = []
    for _ in range(rows):
        row = [draw.choice(codes[0])]
        for own in codes[1:]:
            row.append(own[row[-1] % len(own)] if draw.random() < 0.6 else draw.choice(own))
        made.append(tuple(row))
    path.write_text("\n".join([",".join(names), *(",".join(map(str, row)) for row in made), ""]))
    return made


CASES = {
    "likert": (["q1", "q2"], [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]),
    "gap": (["a", "b"], [[1, 2, 3], [10, 20]]),
    "negative": (["u", "v", "w"], [[-1, 0, 1], [-1, 1], [-2, -1, 0, 1, 2]]),
    "large": (["zip", "n"], [[1001, 1002, 90210], [0, 1, 2]]),
    "years": (["year", "on"], [[1999, 2000], [0, 1]]),
    "two": (["a", "b"], [[-1, 1], [-1, 1]]),
    "counted": (["a", "b"], [[1, 2], [1, 2]]),
}


@pytest.mark.parametrize("algorithm", [(), ("--algorithm", "bayes"), ("--algorithm", "bayes", "--structure", "hill-climb"),
                                       ("--algorithm", "pseudo-likelihood")])  # fmt: skip
@pytest.mark.parametrize("case", CASES)
def test_codes_are_states_and_nothing_else_is(herd, tmp_path, case, algorithm):
    names, codes = CASES[case]
    rows = write(tmp_path / "t.csv", names, codes)
    ended = herd("fit-mrf", "t.csv", *algorithm, "--smoothing", "0", *SPLIT, "-o", "t.h5")
    assert ended.code == 0, ended.err
    model = load(str(tmp_path / "t.h5")).value
    assert [model.states_of(i) for i in range(model.count)] == [[str(code) for code in sorted(own)] for own in codes]
    assert "numbers are names of states: " in ended.err
    ended = herd("ups-infer", "t.h5", "--query", f"joint:{names[0]}", "--format", "csv")
    shares = [float(line.split(",")[1]) for line in ended.out.decode().splitlines()[1:]]
    if "pseudo-likelihood" not in algorithm:
        np.testing.assert_allclose(shares, [sum(row[0] == code for row in rows) / len(rows) for code in sorted(codes[0])], atol=1e-8)


@pytest.mark.parametrize("case", CASES)
def test_bif_of_data_takes_evidence_in_the_words_of_the_data(herd, tmp_path, case):
    names, codes = CASES[case]
    rows = write(tmp_path / "t.csv", names, codes)
    assert herd("fit-mrf", "t.csv", "--algorithm", "bayes", "--smoothing", "0", *SPLIT, "-o", "t.bif").code == 0
    last = max(codes[0])
    ended = herd("ups-infer", "t.bif", "--evidence", f"{names[0]}={last}", "--query", f"joint:{names[1]}", "--format", "csv")
    assert ended.code == 0, ended.err
    found = dict(line.replace('"', "").split(",") for line in ended.out.decode().splitlines()[1:])
    given = [row for row in rows if row[0] == last]
    expected = {str(code): sum(row[1] == code for row in given) / len(given) for code in codes[1]}
    assert {code: float(p) for code, p in found.items()} == pytest.approx(expected, abs=1e-9)
    ended = herd("ups-infer", "t.bif", "--evidence-rows", "t.csv", "-o", "rows.csv")
    assert ended.code == 0, ended.err


def test_columns_of_places_have_no_names(herd, tmp_path):
    write(tmp_path / "t.csv", ["a", "b"], [[0, 1, 2], [0, 1]])
    ended = herd("fit-mrf", "t.csv", "-o", "t.h5")
    assert ended.code == 0
    assert "names of states" not in ended.err
    model = load(str(tmp_path / "t.h5")).value
    assert (model.states, model.cardinality.tolist()) == (None, [3, 2])


def test_a_column_of_one_code_has_one_state(herd, tmp_path):
    write(tmp_path / "t.csv", ["a", "b", "c"], [[7], [1, 2], [0, 2]])
    for more in ((), ("--algorithm", "bayes"), ("--structure", "full")):
        ended = herd("fit-mrf", "t.csv", *more, *SPLIT, "-o", "t.h5")
        assert ended.code == 0, ended.err
        assert load(str(tmp_path / "t.h5")).value.states == ["7", "1", "2", "0", "2"]
        assert herd("ups-infer", "t.h5", "--format", "csv").out.decode().splitlines()[1] == '"a",1,,"7"'


def test_rows_with_gaps_have_codes_too(herd, tmp_path):
    rows = write(tmp_path / "t.csv", ["a", "b"], [[-1, 3], [10, 20, 40]])
    rows[3], rows[5] = (rows[3][0], ""), ("", rows[5][1])
    (tmp_path / "t.csv").write_text("\n".join(["a,b", *(f"{a},{b}" for a, b in rows), ""]))
    ended = herd("fit-mrf", "t.csv", "--algorithm", "bayes", *SPLIT, "-o", "t.h5")
    assert ended.code == 0, ended.err
    assert load(str(tmp_path / "t.h5")).value.states == ["-1", "3", "10", "20", "40"]


@pytest.mark.parametrize("structure", [(), ("--clusters", "c.txt")])
def test_shards_keep_the_states_that_rows_have(herd, tmp_path, structure):
    write(tmp_path / "t.csv", ["a", "b", "c"], [[1, 2, 3], [0, 4], [1, 3, 5, 9]], rows=9000)
    (tmp_path / "c.txt").write_text("a b c\n")
    assert herd("fit-mrf", "t.csv", *structure, "--smoothing", "1", "-o", "whole.h5").code == 0
    for part in ("1", "2"):
        ended = herd("fit-mrf", "t.csv", *structure, "--smoothing", "1", "--shard", f"{part}/2", "-o", f"{part}.h5")
        assert ended.code == 0, ended.err
    ended = herd("merge", "1.h5", "2.h5", "-o", "merged.h5")
    assert ended.code == 0, ended.err
    assert (tmp_path / "merged.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()
    assert load(str(tmp_path / "merged.h5")).value.states == ["1", "2", "3", "0", "4", "1", "3", "5", "9"]


def test_many_different_numbers_are_no_codes(herd, tmp_path):
    write(tmp_path / "t.csv", ["a", "b"], [list(range(0, 700, 7)), [0, 1]], rows=400)
    ended = herd("fit-mrf", "t.csv", "--values", "states", "-o", "t.h5")
    assert (ended.code, ended.err) == (
        65,
        "herd fit-mrf: t.csv: column 'a' has 98 different numbers, but a variable can have at most 64 states\n"
        "hint: to read grey values as on or off, use --values two with --range LO,HI and --threshold F\n",
    )
    (tmp_path / "h.csv").write_text("a,b\n1.5,2\n2,1\n")
    ended = herd("fit-mrf", "h.csv", "--values", "states", "-o", "t.h5")
    assert ended.err.startswith("herd fit-mrf: h.csv: column 'a' has 1.5 in line 2; states are whole numbers\n")


@pytest.mark.parametrize("words", [("False", "True"), ("false", "true")])
@pytest.mark.parametrize("algorithm", ["bayes", "ups-jt", "pseudo-likelihood"])
def test_true_and_false_are_states_of_these_names(herd, tmp_path, algorithm, words):
    rows = [(k % 3 == 0, k % 2) for k in range(24)]
    (tmp_path / "t.csv").write_text("on,n\n" + "".join(f"{words[on]},{n}\n" for on, n in rows))
    ended = herd("fit-mrf", "t.csv", "--algorithm", algorithm, "--smoothing", "0", *SPLIT, "-o", "t.h5")
    assert ended.code == 0, ended.err
    model = load(str(tmp_path / "t.h5")).value
    assert [model.states_of(i) for i in range(2)] == [["False", "True"], ["0", "1"]]
    for word in ("True", words[1]):
        ended = herd("ups-infer", "t.h5", "--evidence", f"on={word}", "--query", "joint:on", "--format", "csv")
        assert ended.code == 0, ended.err
        assert ended.out.decode().splitlines()[-1] == '"True",1'
    ended = herd("ups-infer", "t.h5", "--evidence-rows", "t.csv", "-o", "rows.csv")
    assert ended.code == 0, ended.err
    assert herd("eval", "t.h5", "--data", "t.csv").code == 0


def test_true_and_false_of_parquet_that_is_read_by_parts_have_their_names(herd, tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from herdcli.artifacts.rows import lazy_matrix

    monkeypatch.setattr(lazy_matrix, "LEAST", 1)
    pq.write_table(pa.table({"on": [True, False, True, True], "off": [False, True, False, False]}), tmp_path / "t.parquet")
    ended = herd("fit-mrf", "t.parquet", *SPLIT, "-o", "t.h5")
    assert ended.code == 0, ended.err
    assert load(str(tmp_path / "t.h5")).value.states == ["False", "True", "False", "True"]


def test_evidence_of_a_state_that_is_no_truth_is_refused(herd, tmp_path):
    (tmp_path / "t.csv").write_text("on,n\n" + "True,1\nFalse,0\n" * 4)
    assert herd("fit-mrf", "t.csv", *SPLIT, "-o", "t.h5").code == 0
    ended = herd("ups-infer", "t.h5", "--evidence", "on=yes", "--format", "pr")
    assert ended.code == 65
    assert ended.err == "herd ups-infer: --evidence: on has no state 'yes'\nhint: its states are False, True\n"
