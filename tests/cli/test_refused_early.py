"""What cannot end well is refused before the work, not after hours of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("place", "code", "says"),
    [
        ("missing/run.state", 73, "missing/run.state: the folder missing does not exist\nhint: mkdir -p missing\n"),
        ("small.h5", 73, "small.h5: exists and is no checkpoint\nhint: name another file with --checkpoint\n"),
        ("-", 73, "-: is no regular file, so no checkpoint can be kept there\nhint: --checkpoint FILE\n"),
        ("/dev/null", 73, "/dev/null: is no regular file, so no checkpoint can be kept there\nhint: --checkpoint FILE\n"),
        ("./out.h5", 2, "out.h5: is named by both -o and --checkpoint\nhint: give the checkpoint a name of its own\n"),
    ],
)
def test_a_place_for_checkpoints_that_cannot_be_used_is_refused_before_learning(
    herd: Callable, quick: Callable, small: Path, place: str, code: int, says: str
) -> None:
    before = small.read_bytes()
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
