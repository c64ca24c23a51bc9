"""What cannot end well is refused before the work, not after hours of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("place", "code", "says"),
    [
        ("missing/run.state", 73, "missing/run.state: the folder missing does not exist\nhint: mkdir -p missing\n"),
        ("other.h5", 73, "other.h5: is an existing file that is not a checkpoint\nhint: give another file name to --checkpoint\n"),
        ("small.h5", 2, "small.h5: --checkpoint would overwrite this input\nhint: name another file: --checkpoint FILE\n"),
        ("-", 2, "--checkpoint needs the name of a file\nhint: --checkpoint FILE; ./- is a file that is called -\n"),
        ("/dev/null", 73, "/dev/null: is not a regular file, so it cannot hold a checkpoint\nhint: give a file name: --checkpoint FILE\n"),
        ("./out.h5", 2, "out.h5: this file is named by both -o and --checkpoint\nhint: give the checkpoint a name of its own\n"),
    ],
)
def test_a_place_for_checkpoints_that_cannot_be_used_is_refused_before_learning(
    herd: Callable, quick: Callable, small: Path, place: str, code: int, says: str
) -> None:
    before = small.read_bytes()
    small.with_name("other.h5").write_bytes(before)
    ended = herd(*quick("small.h5", "-o", "out.h5", "--checkpoint", place, "--every", "1"))
    assert (ended.code, ended.out) == (code, b"")
    assert ended.err.endswith(f"herd fit-rbm: {says}")
    assert not (small.parent / "out.h5").exists()
    assert small.read_bytes() == before


@pytest.mark.parametrize("variable", ["HERD_THREADS", "SLURM_CPUS_PER_TASK"])
@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "²", "2(x3)"])
def test_a_variable_that_is_no_number_of_threads_is_named(herd: Callable, quick: Callable, small: Path, variable: str, text: str) -> None:
    ended = herd(*quick("small.h5"), env={variable: text})
    assert (ended.code, ended.out) == (2, b"")
    assert f"{variable}='{text}' is not a number of threads" in ended.err


HUGE = "1 2147483646:1\n0 1:1\n" * 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["huge.svm"], "huge.svm: learning 1 × 2147483646 × 4 weights would take 172 GB, more than the 500 MB allowed"),
        (["wide.svm"], "wide.svm: learning 1 × 20000000 × 4 weights would take 1.6 GB, more than the 500 MB allowed"),
        (
            ["small.h5", "--hidden", "1000000000"],
            "small.h5: learning 1 × 6 × 1000000000 weights would take 112 GB, more than the 500 MB allowed",
        ),
        (["small.h5", "--epochs", "1000000000"], "small.h5: learning 1 × 6 × 4 weights would take 8 GB, more than the 500 MB allowed"),
        (
            ["small.h5", "--algorithm", "pcd", "--chains", "1000000000"],
            "small.h5: learning 1 × 6 × 4 weights would take 16 GB, more than the 500 MB allowed",
        ),
    ],
)
def test_work_that_would_not_fit_into_memory_is_refused(
    herd: Callable, quick: Callable, small: Path, arguments: list[str], says: str
) -> None:
    (small.parent / "huge.svm").write_text(HUGE)
    (small.parent / "wide.svm").write_text(HUGE.replace("2147483646", "20000000"))
    ended = herd(*quick(*arguments, "-o", "out.h5", "--max-memory", "500M"))
    assert (ended.code, ended.err) == (65, f"herd fit-rbm: {says}\nhint: raise --max-memory if the machine has it\n")
    assert not (small.parent / "out.h5").exists()


@pytest.mark.parametrize("place", ["missing/table.tsv", "missing/report.h5"])
def test_eval_looks_at_its_output_before_its_input(herd: Callable, place: str) -> None:
    ended = herd("eval", "-o", place, stdin=b"not an artifact")
    assert (ended.code, ended.err) == (73, f"herd eval: {place}: the folder missing does not exist\nhint: mkdir -p missing\n")


def test_eval_keeps_what_is_there_with_no_clobber(herd: Callable, model: Path) -> None:
    (model.parent / "table.json").write_text("before")
    ended = herd("eval", "model.h5", "-n", "-o", "table.json")
    assert ended.code == 73
    assert (model.parent / "table.json").read_text() == "before"
