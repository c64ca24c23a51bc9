"""--trace FILE.jsonl: a line a step with the figure that matters."""

from __future__ import annotations

import json

import pytest

from herdcli.cli.frame.run import trace_file


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("error 0.125", {"error": 0.125}),
        ("residual 1.2e-05, log Z 3.5", {"residual": 1.2e-05, "log_Z": 3.5}),
        ("gap nan", {"gap": None}),
        ("warming up", {"figure": "warming up"}),
        ("", {}),
    ],
)
def test_figures_are_parsed(text, found):
    assert trace_file.parse_progress_numbers(text) == found


@pytest.mark.parametrize(
    ("command", "figure"),
    [
        (["fit-rbm", "--hidden", "2", "--epochs", "1"], "error"),
        (["herd", "--hidden", "2", "--iterations", "20"], None),
        (["em", "--components", "2", "--iterations", "3", "--starts", "1"], None),
        (["regress", "--l2", "0.1"], "objective"),
        (["fit-rbm", "--layers", "3,2", "--epochs", "2"], "error"),
        (["em", "--model", "kmeans", "--components", "3", "--minibatch", "4"], "squared_error"),
        (["ica", "--components", "5", "--iterations", "4"], "log_likelihood"),
        (["nherd-train"], "error"),
        (["kernel-herd", "-m", "12"], "MMD"),
        (["fit-mrf", "--smoothing", "1", "--algorithm", "gradient", "--iterations", "4"], "objective"),
    ],
)
def test_every_loop_writes_a_line_a_step(herd, digits, tmp_path, command, figure):
    assert herd(command[0], digits, *command[1:], "--trace", "t.jsonl", "-o", "m.h5").code == 0
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert lines
    assert all(line["run"] for line in lines)
    steps = [line["step"] for line in lines if line["run"] == lines[-1]["run"]]
    assert steps == sorted(steps)
    assert any(set(line) - {"run", "step", "of"} for line in lines)
    assert all(isinstance(line["of"], int | None) for line in lines)
    assert figure is None or any(figure in line for line in lines)


def test_a_trace_that_cannot_be_written_is_told(herd, digits):
    ended = herd("regress", digits, "--trace", "no/such/t.jsonl", "-o", "m.h5")
    assert ended.code == 73
    assert ended.err.endswith("herd regress: no/such/t.jsonl: the folder no/such does not exist\nhint: mkdir -p no/such\n")
    ended = herd("regress", digits, "--trace", "/dev/full", "-o", "m.h5", "-q")
    assert (ended.code, ended.err) == (74, "herd regress: /dev/full: writing failed (No space left on device)\n")


def test_no_clobber_keeps_a_trace_except_of_the_run_that_is_resumed(herd, digits, tmp_path):
    (tmp_path / "t.jsonl").write_text("kept\n")
    fit = ["fit-rbm", digits, "--hidden", "2", "--epochs", "1", "-q", "-n", "--trace", "t.jsonl"]
    told = "herd fit-rbm: t.jsonl: exists already, and --no-clobber is set\nhint: remove it, choose another name, or drop --no-clobber\n"
    for more in ([], ["--dry-run"]):
        ended = herd(*fit, *more, "-o", "m.h5")
        assert (ended.code, ended.err) == (73, told)
    assert (tmp_path / "t.jsonl").read_text() == "kept\n"
    assert not (tmp_path / "m.h5").exists()
    (tmp_path / "t.jsonl").unlink()
    assert herd(*fit, "-o", "m.h5").code == 0


def test_a_dry_run_checks_the_trace_and_writes_none(herd, digits, tmp_path):
    ended = herd("fit-rbm", digits, "--hidden", "2", "--epochs", "1", "--dry-run", "--trace", "no/such/t.jsonl", "-o", "m.h5")
    says = "herd fit-rbm: no/such/t.jsonl: the folder no/such does not exist\nhint: mkdir -p no/such\n"
    assert (ended.code, ended.err.endswith(says)) == (73, True), ended.err
    (tmp_path / "t.jsonl").write_text("kept\n")
    assert herd("fit-rbm", digits, "--hidden", "2", "--epochs", "1", "--dry-run", "--trace", "t.jsonl", "-o", "m.h5").code == 0
    assert (tmp_path / "t.jsonl").read_text() == "kept\n"
