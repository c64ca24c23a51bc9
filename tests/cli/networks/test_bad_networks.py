"""Networks and evidence that cannot be: every algorithm and query says so in one line, with its exit code."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

# x0 = x1 and x1 = x2: no factor alone shows that x0 = 0, x2 = 1 is impossible.
COPIES = "MARKOV\n3\n2 2 2\n2\n2 0 1\n2 1 2\n4\n1 0 0 1\n4\n1 0 0 1\n"
BIF = """network "a b" { property version "1.0; really"; property author x; }
// comment with { braces }
variable rain { type discrete [ 2 ] { "yes, sir", no }; property position = (0, 0); }
variable wet { type discrete[2] {yes,no}; }
/* two
 lines */
probability ( rain ) { property note = "a } b"; table 0.2, 0.8; }
probability ( wet | rain ) { default 0.3, 0.7; ("yes, sir") 0.9, 0.1; }
"""
ALGORITHMS = [
    "auto",
    "junction-tree",
    "enumerate",
    "bp",
    "ups",
    "double-loop",
    "gbp",
    "structured-mean-field",
    "gibbs",
    "tree-reweighted",
    "tree-ep",
    "loop-corrected",
    "mean-field",
]
QUERIES = ["mpe", "log-z", "bounds", "mmap:1", "joint:1"]


@pytest.fixture
def copies(tmp_path):
    (tmp_path / "copies.uai").write_text(COPIES)
    (tmp_path / "e.evid").write_text("2 0 0 2 1\n")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_impossible_evidence_is_told_by_every_algorithm(herd, copies, algorithm):
    ended = herd("ups-infer", "copies.uai", "--evidence", "e.evid", "--algorithm", algorithm, "--format", "mar")
    assert ended.code == 1, ended.err
    assert "herd ups-infer: every joint state has probability 0: " in ended.err
    assert ended.err.endswith("hint: the evidence is x0=0, x2=1\n")
    assert ended.out == b""


@pytest.mark.parametrize("query", QUERIES)
def test_impossible_evidence_is_told_by_every_query(herd, copies, query):
    ended = herd("ups-infer", "copies.uai", "--evidence", "e.evid", "--query", query, "--format", "csv")
    assert ended.code == 1, ended.err
    assert "herd ups-infer: every joint state has probability 0: " in ended.err
    assert ended.err.endswith("hint: the evidence is x0=0, x2=1\n")


def test_unknown_states_and_variables_are_named(herd, tmp_path):
    (tmp_path / "p.bif").write_text(BIF)
    for line, message in (
        ("rain=maybe", "rain has no state 'maybe'\nhint: its states are yes, sir, no\n"),
        ("rain=²", "rain has no state '²'"),
        ("x²=no", "there is no variable 'x²'"),
        ("² 0 0", "is not an evidence file: no pairs of variable and state can be read from it"),
        ("snow=no", "there is no variable 'snow'"),
        ("wet=2", "the evidence gives wet the state 2, but its states are 0 to 1"),
    ):
        (tmp_path / "m.evid").write_text(line + "\n")
        ended = herd("ups-infer", "p.bif", "--evidence", "m.evid")
        assert ended.code == 65
        assert f"herd ups-infer: m.evid: {message}" in ended.err


def test_properties_comments_and_defaults_of_bif_are_read(herd, tmp_path):
    (tmp_path / "p.bif").write_text(BIF)
    words = herd("ups-infer", "p.bif", "--format", "mar").out.split()
    assert [float(word) for word in words[2:]] == pytest.approx([2, 0.2, 0.8, 2, 0.42, 0.58])
    again = herd("network", "convert", "p.bif", "--format", "bif").out.decode()
    assert 'variable rain {\n  type discrete [ 2 ] { "yes, sir", no };' in again


def test_a_factor_of_zeros_and_huge_scopes_are_refused_in_a_line(herd, tmp_path):
    states = " ".join(["2"] * 80)
    scope = " ".join(map(str, range(80)))
    many = " ".join(["1"] * 70)
    for text, message in (
        ("MARKOV\n2\n2 2\n1\n2 0 1\n4\n0 0 0 0\n", "factor 0 is zero everywhere, so every state has probability 0"),
        (
            f"MARKOV\n80\n{states}\n1\n80 {scope}\n4\n1 2 3 4\n",
            "line 6, token 1: factor 0 has 4 values, but its variables have 1208925819614629174706176 joint states (2 × 2 × 2 × 2 × 2 × "
            "2 × … of 80)",
        ),
        (f"MARKOV\n70\n{many}\n1\n70 {' '.join(map(str, range(70)))}\n1\n1\n", "factor 0 has 70 variables, but herd handles at most 60"),
    ):
        (tmp_path / "bad.uai").write_text(text)
        ended = herd("ups-infer", "bad.uai")
        assert ended.code == 65
        assert f"herd ups-infer: bad.uai: {message}\n" in ended.err


@pytest.mark.slow
def test_the_memory_of_a_million_factors_is_told_within_half(tmp_path):
    def run(*words: str) -> tuple[str, float]:
        """stderr and stdout, and the peak of resident memory in MB, of a process of its own."""
        with (tmp_path / "told").open("w+") as told:
            process = subprocess.Popen([sys.executable, "-m", "herdcli", *words], cwd=tmp_path, stderr=told, stdout=told)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            told.seek(0)
            text = told.read()
        assert process.returncode == 0, text
        return text, usage.ru_maxrss / 1000

    run("network", "grid", "--grid-rows", "577", "--grid-columns", "577", "-o", "g.h5")
    said, _ = run("ups-infer", "g.h5", "--algorithm", "bp", "--dry-run")
    told = float(re.search(r"and ([\d.]+) MB of memory", said)[1])
    _, peak = run("ups-infer", "g.h5", "--algorithm", "bp", "-o", "b.h5")
    assert 1 / 1.5 < told / peak < 1.5


def test_messages_go_where_there_is_room_and_the_answer_is_the_same(herd):
    """In memory, made twice, in a file; told by a dry run; refused where even one clique does not fit."""
    assert herd("network", "grid", "--grid-rows", "14", "--grid-columns", "14", "--sigma-w", "2", "-o", "g.h5").code == 0
    answers = {}
    for limit, told in (
        ("1G", "2^20.6 table cells\n"),
        ("3M", "2^20.6 table cells: its messages are computed twice, to keep 2.39 MB of them at a time\n"),
        ("2M", "2^20.6 table cells: its messages are kept in a file of 6.55 MB in $TMPDIR\n"),
    ):
        line = ["ups-infer", "g.h5", "--algorithm", "junction-tree", "--max-memory", limit, "--format", "mar"]
        made = herd(*line)
        assert f"ups-infer: the junction tree, treewidth 14 and {told}" in made.err
        answers[limit] = made.out
        planned = herd(*line, "--dry-run")
        assert f"ups-infer: the junction tree, treewidth 14 and {told}" in planned.err
        assert planned.out.startswith(b"junction-tree: 8 steps, about ") or planned.out.startswith(b"junction-tree: at most 8 steps")
    assert answers["1G"].startswith(b"MAR\n196 2 ")
    assert len(set(answers.values())) == 1
    refused = herd("ups-infer", "g.h5", "--algorithm", "junction-tree", "--max-memory", "1M")
    assert refused.code == 65
    assert "g.h5: the junction tree, treewidth 14 and 2^20.6 table cells, would take 2.39 MB, more than the 1 MB allowed\n" in refused.err


def test_a_run_that_is_killed_leaves_no_messages(herd, start_process, scratch):
    assert herd("network", "grid", "--grid-rows", "17", "--grid-columns", "17", "-o", "g.h5").code == 0
    running = start_process("ups-infer", "g.h5", "--algorithm", "junction-tree", "--max-memory", "12M", "-o", "o.h5")
    told = running.stderr.readline()
    assert b"its messages are kept in a file of " in told
    running.kill()
    running.wait()
    assert list(scratch.iterdir()) == []


def test_threads_change_no_byte_of_an_exact_answer(herd):
    assert herd("network", "grid", "--grid-rows", "15", "--grid-columns", "15", "--sigma-w", "3", "-o", "g.h5").code == 0
    known = herd("ups-infer", "g.h5", "--format", "mar", "-j", "1").out
    assert herd("ups-infer", "g.h5", "--format", "mar", "-j", "2").out == known


NUMBERED = """network n { }
variable X1 { type discrete [ 2 ] { 1, 2 }; }
variable X2 { type discrete [ 3 ] { 5, 10, 20 }; }
probability ( X1 ) { table 0.2, 0.8; }
probability ( X2 | X1 ) { (1) 0.5, 0.25, 0.25; (2) 0.1, 0.2, 0.7; }
"""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x1=2", "there is no variable 'x1'\nhint: did you mean 'X1'?"),  # not X2, the variable of number 1
        ("1=2", "there is no variable '1'\nhint: its variables are X1, X2"),
        ("X2=1", "X2 has no state '1'\nhint: its states are 5, 10, 20"),  # not 10, the state of number 1
        ("X1=0", "X1 has no state '0'\nhint: its states are 1, 2"),
    ],
)
def test_a_number_stands_for_nothing_where_names_are_other_numbers(herd, tmp_path, line, message):
    (tmp_path / "n.bif").write_text(NUMBERED)
    (tmp_path / "n.evid").write_text(line + "\n")
    ended = herd("ups-infer", "n.bif", "--evidence", "n.evid", "--format", "mar")
    assert (ended.code, ended.out, ended.err) == (65, b"", f"herd ups-infer: n.evid: {message}\n")


def test_a_table_of_numbers_that_are_no_names_is_refused(herd, tmp_path):
    (tmp_path / "n.bif").write_text(NUMBERED)
    (tmp_path / "rows.csv").write_text("X2\n1\n")
    ended = herd("ups-infer", "n.bif", "--evidence-rows", "rows.csv")
    assert (ended.code, ended.out) == (65, b"")
    assert ended.err == "herd ups-infer: rows.csv: '1' of column 'X2' (1 row) is not one of its states: 5, 10, 20\n"


def test_labels_of_a_factor_graph_that_skip_numbers_are_names(herd, tmp_path):
    (tmp_path / "f.fg").write_text("1\n\n2\n1 3\n2 2\n4\n0 1\n1 2\n2 3\n3 4\n")
    for word, code in (("x1=0", 0), ("1 1 0", 65)):
        (tmp_path / "f.evid").write_text(word + "\n")
        assert herd("ups-infer", "f.fg", "--evidence", "f.evid", "--format", "mar").code == code


@pytest.mark.parametrize("option", ["--observe", "--soft-evidence"])
def test_what_is_given_twice_is_refused(herd, copies, option):
    ended = herd("ups-infer", "copies.uai", option, "x1=.5,.5", option, "1=.1,.9", "--format", "mar")
    assert (ended.code, ended.out) == (2, b"")
    assert f"{option} names x1 twice\nhint: give each variable only one {option}\n" in ended.err


@pytest.mark.parametrize("algorithm", ["double-loop", "gbp"])
def test_networks_without_factors_have_regions_too(herd, tmp_path, algorithm):
    (tmp_path / "empty.uai").write_text("MARKOV\n2\n2 4\n0\n")
    ended = herd("ups-infer", "empty.uai", "--algorithm", algorithm, "--format", "mar")
    assert (ended.code, ended.out) == (0, b"MAR\n2 2 0.5 0.5 4 0.25 0.25 0.25 0.25\n")


RAIN = 'probability ( rain ) { property note = "a } b"; table 0.2, 0.8; }'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0.2, 0.8", "0.2, 0.9", "line 7: a row of the table of rain sums to 1.1, not to 1"),
        ("0.2, 0.8", "1e-400, 1", "line 7: '1e-400' is too small for float64 and would become 0, which means an impossible state"),
        ("{yes,no}", "{no,no}", "line 4: variable wet has two states with the name 'no'"),
        (RAIN, "", "variable rain has no probability block"),
        (RAIN, RAIN + RAIN, "line 7: variable rain has a second probability block"),
        ("0.9, 0.1;", '0.9, 0.1; ("yes, sir") 0.1, 0.9;', "line 8: a row of wet is given twice"),
        (RAIN, "probability ( rain | wet ) { default 0.2, 0.8; }",
         "the parents form a cycle: rain ← wet ← rain\nhint: remove or reverse one of these edges: a Bayesian network has no cycle"),
    ],
)  # fmt: skip
def test_bif_that_is_no_bayesian_network_is_refused(herd, tmp_path, old, new, message):
    """Each was answered before, with marginals of something else."""
    (tmp_path / "p.bif").write_text(BIF.replace(old, new))
    ended = herd("ups-infer", "p.bif", "--format", "mar")
    assert (ended.code, ended.out, ended.err) == (65, b"", f"herd ups-infer: p.bif: {message}\n")


def test_a_quoted_address_is_no_comment_of_bif(herd, tmp_path):
    (tmp_path / "p.bif").write_text(BIF.replace("author x", 'author "http://x.org"').replace("a } b", "/* http://y.org"))
    words = herd("ups-infer", "p.bif", "--format", "mar").out.split()
    assert [float(word) for word in words[2:]] == pytest.approx([2, 0.2, 0.8, 2, 0.42, 0.58])


def test_bif_is_not_written_of_what_it_cannot_hold(herd, tmp_path):
    """Two conditional distributions that are each other's parents."""
    (tmp_path / "c.uai").write_text("MARKOV\n2\n2 2\n2\n2 0 1\n2 1 0\n4\n.1 .9 .4 .6\n4\n.3 .7 .8 .2\n")
    ended = herd("network", "convert", "c.uai", "-o", "c.bif")
    assert (ended.code, (tmp_path / "c.bif").exists()) == (65, False)
    assert "its factors form a cycle\nhint: write UAI or HDF5: -o FILE.uai\n" in ended.err


@pytest.mark.parametrize("word", ["1e-400", "-0.03e-330", "0.01E-322"])
def test_numbers_that_no_float64_holds_are_not_taken_for_zeros(herd, tmp_path, word):
    (tmp_path / "s.uai").write_text(f"MARKOV\n1\n2\n1\n1 0\n2\n{word} 1\n")
    ended = herd("ups-infer", "s.uai", "--format", "mar")
    message = f"line 7, token 1: '{word}' is too small for float64 and would become 0, which means an impossible state"
    hint = "write 0 if the state is impossible, or multiply all values of the factor by a power of ten"
    assert (ended.code, ended.out, ended.err) == (65, b"", f"herd ups-infer: s.uai: {message}\nhint: {hint}\n")
    (tmp_path / "s.uai").write_text("MARKOV\n1\n2\n1\n1 0\n2\n0e-400 1\n")
    assert herd("ups-infer", "s.uai", "--format", "mar").out == b"MAR\n1 2 0.0 1.0\n"


def test_bounds_of_a_network_without_a_possible_state(herd, tmp_path):
    """Each pair must differ, of three variables of two states: propagation of zeros does not see it, mini-buckets do."""
    (tmp_path / "odd.uai").write_text("MARKOV\n3\n2 2 2\n3\n2 0 1\n2 1 2\n2 0 2\n" + "4\n0 1 1 0\n" * 3)
    ended = herd("ups-infer", "odd.uai", "--query", "bounds")
    assert ended.code == 1
    assert ended.err.startswith(
        "herd ups-infer: every joint state has probability 0: the evidence and the zeros of the factors contradict each other"
    )
