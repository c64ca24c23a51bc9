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
    assert "herd ups-infer: no state has a probability: " in ended.err
    assert ended.err.endswith("hint: the evidence is x0=0, x2=1\n")
    assert ended.out == b""


@pytest.mark.parametrize("query", QUERIES)
def test_impossible_evidence_is_told_by_every_query(herd, copies, query):
    ended = herd("ups-infer", "copies.uai", "--evidence", "e.evid", "--query", query, "--format", "csv")
    assert ended.code == 1, ended.err
    assert "herd ups-infer: no state has a probability: " in ended.err
    assert ended.err.endswith("hint: the evidence is x0=0, x2=1\n")


def test_unknown_states_and_variables_are_named(herd, tmp_path):
    (tmp_path / "p.bif").write_text(BIF)
    for line, message in (
        ("rain=maybe", "rain has no state 'maybe'"),
        ("snow=no", "there is no variable 'snow'"),
        ("wet=2", "the evidence gives wet the state 2, it has 2"),
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
        ("MARKOV\n2\n2 2\n1\n2 0 1\n4\n0 0 0 0\n", "factor 0 is zero everywhere, so no state has a probability"),
        (
            f"MARKOV\n80\n{states}\n1\n80 {scope}\n4\n1 2 3 4\n",
            "line 6, token 1: factor 0 has 4 values, its scope has 1208925819614629174706176 states (2 × 2 × 2 × 2 × 2 × 2 × … of 80)",
        ),
        (f"MARKOV\n70\n{many}\n1\n70 {' '.join(map(str, range(70)))}\n1\n1\n", "factor 0 has 70 variables, at most 60 can be handled"),
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

    run("network", "grid", "--rows", "577", "--columns", "577", "-o", "g.h5")
    said, _ = run("ups-infer", "g.h5", "--algorithm", "bp", "--dry-run")
    told = float(re.search(r"and ([\d.]+) MB of memory", said)[1])
    _, peak = run("ups-infer", "g.h5", "--algorithm", "bp", "-o", "b.h5")
    assert 1 / 1.5 < told / peak < 1.5


def test_messages_go_where_there_is_room_and_the_answer_is_the_same(herd):
    """In memory, made twice, in a file; told by a dry run; refused where even one clique does not fit."""
    assert herd("network", "grid", "--rows", "14", "--columns", "14", "--sigma-w", "2", "-o", "g.h5").code == 0
    answers = {}
    for limit, told in (
        ("1G", "2^20.6 table cells\n"),
        ("3M", "2^20.6 table cells: its messages are made twice, to keep 2.39 MB of them at a time\n"),
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
    assert herd("network", "grid", "--rows", "17", "--columns", "17", "-o", "g.h5").code == 0
    running = start_process("ups-infer", "g.h5", "--algorithm", "junction-tree", "--max-memory", "12M", "-o", "o.h5")
    told = running.stderr.readline()
    assert b"its messages are kept in a file of " in told
    running.kill()
    running.wait()
    assert list(scratch.iterdir()) == []


def test_threads_change_no_byte_of_an_exact_answer(herd):
    assert herd("network", "grid", "--rows", "15", "--columns", "15", "--sigma-w", "3", "-o", "g.h5").code == 0
    known = herd("ups-infer", "g.h5", "--format", "mar", "-j", "1").out
    assert herd("ups-infer", "g.h5", "--format", "mar", "-j", "2").out == known
