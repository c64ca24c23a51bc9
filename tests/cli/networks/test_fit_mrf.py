"""`herd fit-mrf`: data to networks to figures, other constraints than rows, and the exact words about bad input."""

from __future__ import annotations

import json

import click
import numpy as np
import pytest

from herdcli.artifacts import load

MOMENTS = """{"cardinality": [2, 2, 2], "names": ["a", "b", "c"], "clusters": [
  {"scope": ["a", "b"], "marginal": [0.4, 0.1, 0.2, 0.3]}, {"scope": ["b", "c"], "marginal": [0.5, 0.1, 0.1, 0.3]}]}"""


def figures(herd, *arguments):
    ended = herd("eval", *arguments, "--format", "json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def table(x: np.ndarray, names: str) -> str:
    return f"{names}\n" + "".join(",".join(map(str, row)) + "\n" for row in x.tolist())


@pytest.fixture
def states(tmp_path):
    """states.csv: 90 rows of a column of three states and two of two, and their array."""
    random = np.random.default_rng(0)
    a = random.integers(0, 3, 90)
    x = np.column_stack([a, (a > 0) ^ (random.random(90) < 0.2), random.integers(0, 2, 90)]).astype(int)
    (tmp_path / "states.csv").write_text(table(x, "a,b,c"))
    return x


def test_a_pipe_from_digits_to_test_likelihoods(herd, digits, tmp_path):
    assert herd("fit-mrf", digits, "--smoothing", "1", "-o", "tree.h5").code == 0
    ended = herd("fit-mrf", digits, "--structure", "grid", "--smoothing", "1", "-o", "grid.h5")
    assert "values from 0.4 of the value range upwards are read as 1 (--threshold)" in ended.err
    assert "64 variables, 112 clusters, ups-jt, " in ended.err
    tree, grid = figures(herd, "tree.h5", "grid.h5")
    assert tree["scaling_updates"] == 63 * tree["iterations"]
    assert tree["propagation_updates"] == 2 * 62 * tree["iterations"]
    assert grid["marginal_error_max"] < 1e-8
    for row in (tree, grid):
        assert row["converged"] == 1
        assert -26 < row["log_likelihood"] < -15
        assert abs(row["train_log_likelihood"] - row["log_likelihood"]) < 1
    fit = load(str(tmp_path / "grid.h5")).value.fit
    assert (fit.algorithm, fit.rows, fit.holdout.shape[1], len(fit.residual_trace)) == ("ups-jt", 1078, 64, fit.iterations)


def test_columns_of_whole_numbers_are_states(herd, states, tmp_path):
    ended = herd("fit-mrf", "states.csv", "--structure", "full", "--split", "1,0,0", "--smoothing", "0", "-o", "n.h5")
    assert ended.code == 0, ended.err
    made = load(str(tmp_path / "n.h5")).value
    assert made.cardinality.tolist() == [3, 2, 2]
    assert made.names == ["a", "b", "c"]
    (p,) = [target for scope, target in made.fit.targets(made.cardinality) if scope == (0, 1)]
    expected = np.array([[np.mean((states[:, 0] == i) & (states[:, 1] == j)) for j in (0, 1)] for i in range(3)])
    assert np.abs(p - expected).max() < 1e-15


def test_every_algorithm_runs_and_the_exact_ones_agree(herd, states):
    exact = ("ups-jt", "effective-ipf", "ipf", "gis", "iis", "gradient")
    others = ("loopy-is", "cvm", "pseudo-likelihood")
    start = ["fit-mrf", "states.csv", "--structure", "full", "--smoothing", "1", "-q"]
    for name in (*exact, *others):
        ended = herd(*start, "--algorithm", name, "-o", f"{name}.h5")
        assert ended.code == 0, ended.err
    rows = figures(herd, *(f"{name}.h5" for name in (*exact, *others)), "--reference", "ups-jt.h5")
    assert all(row["joint_l1"] < 1e-6 for row in rows[: len(exact)])
    assert all(row["kl"] < 0.05 for row in rows)
    assert rows[-1]["joint_l1"] > 1e-4


def test_structures_of_files_and_induction(herd, states, tmp_path):
    (tmp_path / "pairs.txt").write_text("# who knows whom\na b\nx1 2\n")
    (tmp_path / "all.txt").write_text("a, b, c\n")
    for options in (["--edges", "pairs.txt"], ["--clusters", "all.txt"], ["--structure", "independent", "--induce", "2"]):
        ended = herd("fit-mrf", "states.csv", *options, "--smoothing", "1", "--split", "1,0,0", "-o", "n.h5")
        assert ended.code == 0, ended.err
        scopes = [scope for scope, _ in load(str(tmp_path / "n.h5")).value.factors()]
        assert scopes == {"--edges": [(0, 1), (1, 2)], "--clusters": [(0, 1, 2)], "--structure": scopes}[options[0]]
    assert "2 pairs added, the first a and b; gains from 0." in ended.err
    assert scopes[0] == (0, 1)
    assert len(scopes) == 2


def test_moments_in_the_place_of_rows(herd, tmp_path):
    (tmp_path / "m.json").write_text(MOMENTS)
    ended = herd("fit-mrf", "--moments", "m.json", "-o", "n.h5")
    assert ended.code == 0, ended.err
    marginals = herd("ups-infer", "n.h5", "--format", "mar").out.split()[2:]
    assert [float(word) for word in marginals] == pytest.approx([2, 0.5, 0.5, 2, 0.6, 0.4, 2, 0.6, 0.4], abs=1e-9)
    row = figures(herd, "n.h5")[0]
    assert row["log_likelihood"] is row["train_log_likelihood"] is None
    assert row["marginal_l1"] < 1e-9


def test_nearest_to_a_base(herd, tmp_path):
    (tmp_path / "m.json").write_text(MOMENTS)
    (tmp_path / "base.uai").write_text("MARKOV\n3\n2 2 2\n1\n2 0 2\n4\n9 1 1 9\n")
    ended = herd("fit-mrf", "--moments", "m.json", "--base", "base.uai", "--format", "uai")
    assert ended.code == 0, ended.err
    (tmp_path / "n.uai").write_bytes(ended.out)
    assert herd("fit-mrf", "--moments", "m.json", "-q", "-o", "plain.h5").code == 0
    near, far = (figures(herd, "plain.h5", "--reference", name)[0] for name in ("plain.h5", "n.uai"))
    assert near["kl"] < 1e-12
    assert far["kl"] > 0.1
    lines = ended.out.split(b"\n")
    assert b"2 0 2" in lines
    assert any(line.split() == [b"9.0", b"1.0", b"1.0", b"9.0"] for line in lines)


def test_features_are_averaged_over_rows(herd, states, tmp_path):
    (tmp_path / "f.json").write_text('[{"scope": ["a", "b"], "features": [[0, 0, 0, 1, 0, 2]]}, {"scope": ["c"], "features": [0, 1]}]')
    ended = herd("fit-mrf", "states.csv", "--feature-clusters", "f.json", "--split", "1,0,0", "-o", "n.h5")
    assert ended.code == 0, ended.err
    words = [float(word) for word in herd("ups-infer", "n.h5", "--format", "mar").out.split()[2:]]
    assert abs(words[-1] - states[:, 2].mean()) < 1e-9


def test_zeros_are_told_and_smoothing_fills_them(herd, tmp_path):
    (tmp_path / "z.csv").write_text("a,b\n" + "0,0\n1,1\n" * 20)
    plain = herd("fit-mrf", "z.csv", "--split", "1,0,0", "--smoothing", "0", "-o", "n.h5")
    assert "2 of 4 joint states of the clusters occur in no training row and get probability 0 (--smoothing 1 avoids this)" in plain.err
    assert herd("fit-mrf", "z.csv", "--split", "1,0,0", "-o", "s.h5").err.count("probability 0") == 0  # one row of smoothing
    assert load(str(tmp_path / "s.h5")).value.fit.targets(np.array([2, 2]))[0][1][0, 1] == pytest.approx(0.25 / 41)


def test_same_bytes_and_checkpoints_change_nothing(herd, digits, tmp_path):
    run = ["fit-mrf", digits, "--algorithm", "gradient", "--expectations", "cd", "--iterations", "5", "-q"]
    assert herd(*run, "-o", "a.h5").code == herd(*run, "--checkpoint", "c", "--every", "2", "-o", "b.h5").code == 0
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["small.h5", "--structure", "star"], 2, "Invalid value for '--structure': 'star' is none of chow-liu, chow-liu+random:P,R, grid"),
        (["small.h5", "--structure", "chow-liu+random:2,6"], 2, "'chow-liu+random:2,6' is none of"),
        (["small.h5", "--structure", "grid"], 2, "--structure grid needs images, that is rows with an image_shape"),
        (["small.h5", "--structure", "full", "--edges", "e.txt"], 2, "--structure and --edges exclude each other"),
        (["small.h5", "--edges", "three.txt"], 65, "three.txt: line 1 has 3 variables, but an edge has 2"),
        (["small.h5", "--edges", "far.txt"], 65, "far.txt: line 2: there is no variable 9: the 6 variables are numbered 0 to 5"),
        (["small.h5", "--edges", "empty.txt"], 65, "empty.txt: has no variables"),
        (["small.h5", "--edges", "none.txt"], 66, "none.txt: there is no such file"),
        (
            ["small.h5", "--algorithm", "linear-response", "--structure", "chow-liu"],
            2,
            "--algorithm linear-response needs a factor for every pair of variables",
        ),
        (["small.h5", "--base", "two.uai"], 2, "--base must have the 6 variables of the data, with as many states, but has 2 variables"),
        (["small.h5", "--moments", "m.json"], 2, "--moments replaces DATA"),
        (["--moments", "m.json", "--structure", "full"], 2, "--moments already defines the clusters, so --structure is not possible"),
        (
            ["--moments", "m.json", "--algorithm", "pseudo-likelihood"],
            2,
            "--algorithm pseudo-likelihood needs rows, but --moments has none",
        ),
        (["--moments", "m.json", "--induce", "3"], 2, "--induce needs rows, but --moments has none"),
        (["--moments", "clash.json"], 65, "clusters 0 and 1 contradict each other: their marginals of b differ by 0.1"),
        (
            ["--moments", "sum.json"],
            65,
            "sum.json: the marginal of cluster 0 is not a distribution: values must be at least 0 and sum to 1 (they sum to 1.1)",
        ),
        (["--moments", "far.txt"], 65, "far.txt: is not JSON text ("),
        (["--moments", "list.json"], 65, "list.json: must be a JSON object with 'cardinality' and 'clusters'"),
        (["halves.csv", "--values", "states"], 65, "halves.csv: column 'b' has 0.5 in line 2; states are whole numbers"),
        (["small.h5", "--split", "0,.5,.5"], 2, "'0,.5,.5' does not describe a split"),
        (["small.h5", "--structure", "full", "--max-memory", "1k", "--values", "states"], 65, "more than the 1 kB allowed"),
        (
            ["digits.h5", "--structure", "full"],
            65,
            "allowed\nhint: use --algorithm loopy-is, cvm or pseudo-likelihood, which need no junction tree",
        ),
    ],
)
def test_bad_input(herd, small, digits, tmp_path, arguments, code, message):
    (tmp_path / "three.txt").write_text("0 1 2\n")
    (tmp_path / "far.txt").write_text("0 1\n2 9\n")
    (tmp_path / "empty.txt").write_text("# nothing\n")
    (tmp_path / "two.uai").write_text("MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 2 3 4\n")
    (tmp_path / "m.json").write_text(MOMENTS)
    (tmp_path / "clash.json").write_text(MOMENTS.replace("0.5, 0.1, 0.1, 0.3", "0.6, 0.1, 0.1, 0.2"))
    (tmp_path / "sum.json").write_text(MOMENTS.replace("0.4, 0.1, 0.2, 0.3", "0.5, 0.1, 0.2, 0.3"))
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "halves.csv").write_text("a,b\n1,0.5\n0,1\n")
    ended = herd("fit-mrf", *arguments)
    assert ended.code == code, ended.err
    assert message in ended.err
    assert ended.out == b""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("none.h5 --edges e.txt --clusters c.txt", "--edges and --clusters exclude each other"),
        ("none.h5 --moments m.json", "--moments replaces DATA\nhint: leave out none.h5"),
        ("--moments m.json --clusters c.txt", "--moments already defines the clusters, so --clusters is not possible"),
        ("--moments m.json --feature-clusters f.json", "--feature-clusters needs rows, but --moments has none"),
        ("none.h5 --algorithm cvm --regions r.txt --max-clique 3", "--regions and --max-clique exclude each other"),
        ("none.h5 --algorithm bayes --base b.uai", "--algorithm bayes does not work with --base\nhint: --network FILE gives the parents"),
        (
            "none.h5 --algorithm bayes --max-clique 3",
            "--algorithm bayes does not work with --max-clique\nhint: --network FILE gives the parents",
        ),
        ("none.h5 --algorithm bayes --network n.bif --structure chow-liu", "--network and --structure exclude each other"),
        (
            "none.h5 --algorithm bayes --structure l1:2",
            "--algorithm bayes does not work with --structure l1\n"
            "hint: use --structure chow-liu, independent, hill-climb, or --network FILE",
        ),
    ],
)
def test_contradictions_are_refused_before_files_are_read(herd, arguments, message):
    ended = herd("fit-mrf", *arguments.split())
    assert (ended.code, ended.err.count("fit-mrf:")) == (2, 1)
    assert message in ended.err


def test_options_of_rows_have_no_effect_on_moments(herd, tmp_path):
    (tmp_path / "m.json").write_text(MOMENTS)
    ended = herd(
        "fit-mrf",
        "--moments",
        "m.json",
        *[
            "--values",
            "two",
            "--induce",
            "0",
            "--smoothing",
            "2",
            "--label",
            "y",
            "--split",
            "1,0,0",
            "--threshold",
            ".5",
            "--range",
            "0,1",
        ],
    )
    assert ended.code == 0, ended.err
    warned = [line for line in ended.err.splitlines() if "has no effect" in line]
    assert sorted(warned) == [
        f"fit-mrf: warning: --{name} has no effect with --moments"
        for name in ("label", "range", "smoothing", "split", "threshold", "values")
    ]


def test_marginals_that_cannot_hold_together_are_a_negative_result(herd, tmp_path):
    (tmp_path / "m.json").write_text(MOMENTS)
    (tmp_path / "base.uai").write_text("MARKOV\n3\n2 2 2\n1\n2 0 1\n4\n1 0 0 1\n")
    ended = herd("fit-mrf", "--moments", "m.json", "--base", "base.uai")
    assert ended.code == 1
    assert (
        "no distribution has these marginals: cluster 0 (a, b) gives probability to states that other clusters, or the base, forbid"
        in ended.err
    )


def test_what_does_not_converge_is_told(herd, states):
    run = ["fit-mrf", "states.csv", "--structure", "full", "--iterations", "1", "--tolerance", "1e-12"]
    warned = herd(*run, "-o", "n.h5")
    assert warned.code == 0
    assert "fit-mrf: warning: ups-jt did not converge in 1 iterations: the residual is " in warned.err
    assert herd(*run, "--on-nonconvergence", "error").code == 1


def test_options_without_effect_are_told(herd, small):
    ended = herd("fit-mrf", small, "--max-clique", "3", "--l2", "1", "--chains", "5", "-o", "n.h5")
    for option in ("max-clique", "l2", "chains"):
        assert f"warning: --{option} has no effect with --algorithm ups-jt" in ended.err


def test_choices_are_those_of_the_topic():
    from herdcli.cli.fit_mrf import request as fit_mrf_request
    from herdcli.markov.learning import learners as learning

    assert sorted(fit_mrf_request.ALGORITHMS) == sorted(learning.ALGORITHMS)


def test_evidence_in_rows(herd, tmp_path):
    (tmp_path / "two.uai").write_text("MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 2 3 4\n")
    (tmp_path / "e.csv").write_text("x1\n0\n-1\n1\n")
    ended = herd("ups-infer", "two.uai", "--evidence-rows", "e.csv", "-o", "m.csv")
    assert ended.code == 0, ended.err
    lines = (tmp_path / "m.csv").read_text().splitlines()
    assert lines[0] == "x0=0,x0=1,x1=0,x1=1,log_z"
    values = [[float(word) for word in line.split(",")] for line in lines[1:]]
    expected = [[0.25, 0.75, 1, 0, np.log(4)], [0.3, 0.7, 0.4, 0.6, np.log(10)], [1 / 3, 2 / 3, 0, 1, np.log(6)]]
    assert np.abs(np.array(values) - expected).max() < 1e-12
    piped = herd("ups-infer", "two.uai", "--evidence-rows", "e.csv", "--format", "csv")
    assert piped.out == (tmp_path / "m.csv").read_bytes()
    refused = herd("ups-infer", "two.uai", "--evidence-rows", "e.csv", "-o", "m.mar")
    assert refused.code == 2
    assert "marginals of --evidence-rows cannot be written as mar\nhint: use --format hdf5, csv, parquet" in refused.err
    refused = herd("ups-infer", "two.uai", "--evidence-rows", "e.csv", "--algorithm", "bp")
    assert refused.code == 2
    assert "--evidence-rows works only with a junction tree, not with --algorithm bp" in refused.err


def test_defaults_are_those_of_the_topic():
    from dataclasses import fields

    from herdcli.cli.main import COMMANDS, cli
    from herdcli.markov.learning.learners import LearningSettings

    assert "fit-mrf" in COMMANDS
    options = {param.name: param.default for param in cli.get_command(click.Context(cli), "fit-mrf").params}
    shared = [
        field for field in fields(LearningSettings) if field.name in options and field.name not in ("regions", "max_clique", "double_loop")
    ]
    assert len(shared) >= 10
    assert {field.name: options[field.name] for field in shared} == {field.name: field.default for field in shared}


def test_a_text_ends_the_run_as_an_artifact_does(herd, states, tmp_path):
    run = ["fit-mrf", "states.csv", "--smoothing", "1", "--checkpoint", "c.h5", "--every", "1", "-o", "n.uai"]
    ended = herd(*run)
    assert (ended.code, (tmp_path / "c.h5").exists()) == (0, False)
    assert (tmp_path / "n.uai").read_bytes().startswith(b"MARKOV")
    assert herd(*run, "-n").code == 73


def test_a_range_without_effect_is_told(herd, states, tmp_path):
    (tmp_path / "m.json").write_text(MOMENTS)
    told = "fit-mrf: warning: --range has no effect with"
    assert f"{told} --moments\n" in herd("fit-mrf", "--moments", "m.json", "--range", "0,1").err
    assert f"{told} --values states\n" in herd("fit-mrf", "states.csv", "--smoothing", "1", "--values", "states", "--range", "0,2").err
