"""`herd fit-mrf --algorithm bayes` and `--structure l1` as processes: BIF out, gaps, hidden variables, and the words of refusals."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

HIDDEN = """network u { }
variable h { type discrete [ 2 ] { on, off }; }
variable a { type discrete [ 2 ] { no, yes }; }
variable b { type discrete [ 2 ] { no, yes }; }
probability ( h ) { table 0.5, 0.5; }
probability ( a | h ) { (on) 0.5, 0.5; (off) 0.5, 0.5; }
probability ( b | h ) { (on) 0.5, 0.5; (off) 0.5, 0.5; }
"""
FOUR = "a,b,split\n0,0,0\n0,0,0\n0,1,0\n1,1,0\n"


@pytest.fixture
def tables(tmp_path):
    random = np.random.default_rng(0)
    a = random.random(300) < 0.4
    b = random.random(300) < 0.2 + 0.6 * a
    rows = np.column_stack([a, b]).astype(int)
    lines = [",".join("" if random.random() < 0.2 else str(value) for value in row) for row in rows]
    (tmp_path / "gaps.csv").write_text("\n".join(["a,b", *(line if line != "," else "0,1" for line in lines)]) + "\n")
    (tmp_path / "full.csv").write_text("\n".join(["a,b", *(f"{i},{j}" for i, j in rows)]) + "\n")
    (tmp_path / "hidden.bif").write_text(HIDDEN)
    (tmp_path / "four.csv").write_text(FOUR)


def test_tables_are_written_as_bif(herd, tables):
    line = ("fit-mrf", "four.csv", "--split-column", "split", "--algorithm", "bayes", "--format", "bif")
    ended = herd(*line, "--smoothing", "0")
    assert ended.code == 0, ended.err
    assert "2 variables, 1 edges, counts, log-likelihood" in ended.err
    assert b"probability ( a ) {\n  table 0.75, 0.25;" in ended.out
    assert b"(0) 0.6666666666666666, 0.3333333333333333;\n  (1) 0.0, 1.0;" in ended.out
    smooth = herd(*line, "--smoothing", "4").out
    assert b"(0) 0.6, 0.4;" in smooth  # (2 + 1)/(3 + 2)


def test_rows_that_no_training_row_is_like_are_possible_without_any_option(herd, tables, tmp_path):
    plain = herd("fit-mrf", "four.csv", "--split-column", "split", "--algorithm", "bayes", "--format", "bif").out
    assert b"(1) 0.16666666666666666, 0.8333333333333334;" in plain  # (0 + 1/4)/(1 + 1/2): one pseudo-row over both variables
    rows = ["a,b", *["0,0", "0,1", "1,1", "1,1"] * 5, *["0,0", "0,1", "1,0", "1,1"]]
    (tmp_path / "held.csv").write_text("\n".join(rows) + "\n")
    assert herd("fit-mrf", "held.csv", "--algorithm", "bayes", "--split", "20,0,4", "-o", "held.h5").code == 0
    shown = herd("eval", "held.h5").out.decode()
    assert "impossible rows" not in shown
    assert "-inf" not in shown


def test_long_searches_for_pairs_show_how_far_they_are(monkeypatch):
    from herdcli.algorithm import run_algorithm
    from herdcli.markov.learning import l1_selection

    x = (np.random.default_rng(0).random((40, 4)) < 0.5).astype(float)
    seen: list[str] = []
    made = run_algorithm(
        l1_selection.PenalisedRegressions(x, np.full(40, 1 / 40)), watch=lambda now: seen.append(f"{now.step}/{now.bound} {now.figure}")
    )
    assert seen[0].startswith("1/20 0 pairs")
    assert len(seen) == len(made.penalty) == 20
    halves: list[int] = []
    run_algorithm(
        l1_selection.StabilitySelection(x, np.full(40, 1 / 40), 3, 0, made.penalty[:2]), watch=lambda now: halves.append(now.step)
    )
    assert halves == [1, 2, 3]


def test_gaps_and_hidden_variables_are_learned_by_em(herd, tables, tmp_path):
    ended = herd("fit-mrf", "gaps.csv", "--algorithm", "bayes", "--tolerance", "1e-6", "-o", "g.h5")
    assert ended.code == 0, ended.err
    assert "rows lack values: the tables are fitted by EM" in ended.err
    assert herd("eval", "g.h5").out.decode().splitlines()[1].split("\t")[-1] == "ok"
    ended = herd(
        "fit-mrf", "gaps.csv", "--algorithm", "bayes", "--network", "hidden.bif", "--smoothing", "1", "--tolerance", "1e-4", "-o", "h.h5"
    )
    assert "1 variable is hidden: the tables are fitted by EM" in ended.err
    with h5py.File(tmp_path / "h.h5") as file:
        assert file["cardinality"][:].tolist() == [2, 2, 2]
        assert (file["fit/residual_trace"][:] >= -1e-12).all()


def test_the_path_of_regressions_is_a_table(herd, tables, tmp_path):
    ended = herd("fit-mrf", "full.csv", "--structure", "l1", "--path", "p.csv", "-o", "l.h5")
    assert ended.code == 0, ended.err
    assert "l1: 1 pairs selected, penalty" in ended.err
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert lines[0] == "penalty,score,first,second,weight_first,weight_second"
    assert all(float(line.split(",")[4]) > 0 for line in lines[1:])
    again = herd("fit-mrf", "full.csv", "--structure", "stability:6", "-o", "s.h5")
    assert "stability: 1 pairs selected, each in at least 75% of 6 random halves of the rows" in again.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["gaps.csv"], 65, "or use --algorithm bayes, which handles missing values by EM"),
        (
            ["full.csv", "--network", "hidden.bif"],
            2,
            "--network gives the parents of a Bayesian network, so it needs --algorithm bayes\nhint: add",
        ),
        (["full.csv", "--structure", "hill-climb"], 2, "hint: use --algorithm bayes"),
        (["full.csv", "--algorithm", "bayes", "--structure", "full"], 2, "--algorithm bayes does not work with --structure full"),
        (["full.csv", "--algorithm", "bayes", "--induce", "2"], 2, "--algorithm bayes does not work with --induce"),
        (["full.csv", "--path", "p.csv"], 2, "--path works only with --structure l1 or stability: it writes their path of penalties"),
        (["full.csv", "--structure", "l1:-3"], 2, "'l1:-3' has a penalty that is not a number from 0 upwards"),
        (["numbers.csv", "--algorithm", "bayes", "--network", "grid.uai"], 65, "grid.uai: is not a Bayesian network"),
        (["odd.csv", "--algorithm", "bayes", "--network", "hidden.bif"], 65, "odd.csv: column 'z' is not a variable of the network"),
        (["large.csv", "--algorithm", "bayes", "--network", "hidden.bif"], 65, "column 'a' has state 2, but the network's variable has 2"),
        (["three.csv", "--structure", "l1"], 2, "--structure l1 needs two-state variables, but a has 3 states"),
        (["half.csv", "--algorithm", "bayes"], 65, "column 'b' has 0.5 in line 2; states are whole numbers"),
    ],
)
def test_what_cannot_be_learned(herd, tables, tmp_path, arguments, code, message):
    (tmp_path / "grid.uai").write_text("MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 2 3 4\n")
    (tmp_path / "numbers.csv").write_text("x0,x1\n0,1\n1,1\n0,0\n1,0\n0,1\n")
    (tmp_path / "odd.csv").write_text("z,b\n0,1\n1,1\n0,0\n1,0\n0,1\n")
    (tmp_path / "large.csv").write_text("a,b\n0,1\n2,1\n0,0\n1,0\n0,1\n")
    (tmp_path / "three.csv").write_text("a,b\n0,1\n2,1\n0,0\n1,0\n0,1\n")
    (tmp_path / "half.csv").write_text("a,b\n,0.5\n1,1\n0,0\n1,0\n0,1\n")
    ended = herd("fit-mrf", *arguments, "-o", "x.h5")
    assert ended.code == code, ended.err
    assert message in ended.err
