"""Templates of two slices as processes: `herd network unroll` and `herd ups-infer --slices`."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

UMBRELLA = """network weather { }
variable rain_0 { type discrete [ 2 ] { yes, no }; }
variable umbrella_0 { type discrete [ 2 ] { yes, no }; }
variable rain_t { type discrete [ 2 ] { yes, no }; }
variable umbrella_t { type discrete [ 2 ] { yes, no }; }
probability ( rain_0 ) { table 0.5, 0.5; }
probability ( umbrella_0 | rain_0 ) { (yes) 0.9, 0.1; (no) 0.2, 0.8; }
probability ( rain_t | rain_0 ) { (yes) 0.7, 0.3; (no) 0.3, 0.7; }
probability ( umbrella_t | rain_t ) { (yes) 0.9, 0.1; (no) 0.2, 0.8; }
"""

P_YES_NO = 0.5 * 0.9 * (0.7 * 0.1 + 0.3 * 0.8) + 0.5 * 0.2 * (0.3 * 0.1 + 0.7 * 0.8)


@pytest.fixture
def weather(tmp_path):
    (tmp_path / "w.bif").write_text(UMBRELLA)
    (tmp_path / "rows.csv").write_text("umbrella\nyes\nyes\n")


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text.decode())))


@pytest.mark.parametrize(
    ("task", "rain"),
    [
        ("filtering", [0.9 / 1.1, 0.8833570412517781]),  # Russell & Norvig, Artificial Intelligence, sec. 14.2
        ("smoothing", [0.8833570412517781, 0.8833570412517781]),
        ("lag:1", [0.8833570412517781, 0.8833570412517781]),
        ("prediction:1", [0.3 + 0.4 * 0.9 / 1.1, 0.3 + 0.4 * 0.8833570412517781]),
    ],
)
def test_the_umbrella_world(herd, weather, task, rain):
    done = herd("ups-infer", "w.bif", "--evidence-rows", "rows.csv", "--slices", task, "--format", "csv")
    assert done.code == 0
    found = rows_of(done.out)
    assert list(found[0]) == ["rain=yes", "rain=no", "umbrella=yes", "umbrella=no", "log_z"]
    np.testing.assert_allclose([float(row["rain=yes"]) for row in found], rain, rtol=1e-12)
    both = 0.5 * 0.9 * (0.7 * 0.9 + 0.3 * 0.2) + 0.5 * 0.2 * (0.3 * 0.9 + 0.7 * 0.2)
    assert sum(float(row["log_z"]) for row in found) == pytest.approx(np.log(both), rel=1e-12)


def test_a_slice_without_evidence_is_minus_one_where_there_is_one_column(herd, weather, tmp_path):
    (tmp_path / "gap.csv").write_text("umbrella\nyes\n-1\nyes\n")
    done = herd("ups-infer", "w.bif", "--evidence-rows", "gap.csv", "--slices", "filtering", "--format", "csv")
    assert "empty lines are skipped in a table of one column: write -1 for a slice without evidence" in done.err
    found = [float(row["rain=yes"]) for row in rows_of(done.out)]
    np.testing.assert_allclose(found[:2], [0.9 / 1.1, 0.3 + 0.4 * 0.9 / 1.1], rtol=1e-12)
    assert float(rows_of(done.out)[1]["log_z"]) == pytest.approx(0.0, abs=1e-12)


def test_unroll_makes_the_network_of_all_slices(herd, weather, tmp_path):
    assert herd("network", "unroll", "w.bif", "--steps", "2", "-o", "u.bif").code == 0
    evidence = ("--evidence", "umbrella_0=yes", "--evidence", "umbrella_1=yes")
    found = rows_of(herd("ups-infer", "u.bif", *evidence, "--format", "csv").out)
    assert [row["variable"] for row in found] == ["rain_0", "umbrella_0", "rain_1", "umbrella_1"]
    np.testing.assert_allclose([float(row["p0"]) for row in found], [0.8833570412517781, 1, 0.8833570412517781, 1], rtol=1e-12)


@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        (
            ["w.bif", "--slices", "filtering"],
            2,
            "--slices needs the rows of the slices\nhint: use --evidence-rows FILE, a row for each slice",
        ),
        (["w.bif", "--slices", "filter", "--evidence-rows", "rows.csv"], 2, "is none of filtering, prediction:K, lag:L, smoothing"),
        (
            ["w.bif", "--slices", "smoothing", "--evidence-rows", "rows.csv", "--query", "mpe"],
            2,
            "--slices does not work with --query, --evidence",
        ),
        (
            ["w.bif", "--slices", "smoothing", "--evidence-rows", "rows.csv", "--algorithm", "bp"],
            2,
            "--slices works only with junction trees, not with --algorithm bp",
        ),
        (
            ["plain.uai", "--slices", "smoothing", "--evidence-rows", "rows.csv"],
            65,
            "plain.uai: a template of two time slices needs named variables, but this network has no names\n"
            "hint: end the names of variables of the first slice in _0",
        ),
    ],
)
def test_what_slices_are_not_asked_of(herd, weather, tmp_path, given, code, told):
    (tmp_path / "plain.uai").write_text("MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 2 3 4\n")
    done = herd("ups-infer", *given)
    assert done.code == code
    assert told in done.err


def test_unroll_takes_templates_alone(herd, tmp_path):
    (tmp_path / "plain.uai").write_text("MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 2 3 4\n")
    done = herd("network", "unroll", "plain.uai", "-o", "u.uai")
    assert done.code == 65
    assert "plain.uai: a template of two time slices needs named variables, but this network has no names" in done.err


@pytest.mark.parametrize(
    "words",
    [
        ["grid", "--rows", "9999999999999", "--columns", "9999999"],
        ["tree", "--nodes", "99999999999999"],
        ["random", "--nodes", "99999999999999"],
        ["unroll", "w.bif", "--steps", "99999999999999"],
    ],
    ids=lambda words: words[0],
)
def test_networks_that_no_memory_holds_are_refused_at_once(herd, weather, words):
    done = herd("network", *words, "-o", "u.h5")
    assert done.code == 65
    assert "would take" in done.err
    assert "hint: raise --max-memory if the machine has it" in done.err


def test_a_variable_with_the_usual_name_of_labels_is_evidence(herd, tmp_path):
    (tmp_path / "w.bif").write_text(UMBRELLA.replace("umbrella", "Y"))
    (tmp_path / "rows.csv").write_text("Y\nyes\nno\n")
    ended = herd("ups-infer", "w.bif", "--slices", "filtering", "--evidence-rows", "rows.csv", "--format", "csv")
    assert ended.code == 0, ended.err
    assert "labels" not in ended.err
    np.testing.assert_allclose(sum(float(row["log_z"]) for row in rows_of(ended.out)), np.log(P_YES_NO), rtol=0, atol=1e-12)
