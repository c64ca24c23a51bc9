"""A disk, a quota or a limit that ends in the middle of a file: one line, exit code 74, nothing left and no crash."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest


def limited(size: int) -> Callable[[], None]:
    """For a child process: no file may grow beyond `size` bytes."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("size", [0, 600, 2048, 5000, 9000, 20_000, 25_000])
@pytest.mark.parametrize("checkpoint", [[], ["--checkpoint", "run.state", "--every", "1"]], ids=["output", "checkpoint"])
def test_no_room_for_an_artifact(
    herd_command: Path, herd_environment: Callable, tmp_path: Path, small: Path, checkpoint: list[str], size: int
) -> None:
    command = [herd_command, "fit-rbm", "small.h5", "--hidden", "1000", "--epochs", "3", "-q", "-o", "out.h5", *checkpoint]
    done = subprocess.run(
        command, cwd=tmp_path, env=herd_environment(), preexec_fn=limited(size), capture_output=True, text=True, timeout=120, check=False
    )
    name = "run.state" if checkpoint else "out.h5"
    assert (done.returncode, done.stdout, done.stderr) == (74, "", f"herd fit-rbm: {name}: writing failed (File too large)\n")
    assert [path.name for path in tmp_path.iterdir()] == ["small.h5"]


def test_no_room_for_rows_that_are_read_in_blocks(herd_command: Path, herd_environment: Callable, tmp_path: Path) -> None:
    """Rows of text go into a file without a name, which is told of as any other."""
    (tmp_path / "rows.csv").write_text("a,b,c\n" + "0,1,0\n" * 4000)
    command = [herd_command, "fit-rbm", "rows.csv", "--on-disk", "--hidden", "2", "--epochs", "1", "-q", "-o", "out.h5"]
    done = subprocess.run(
        command, cwd=tmp_path, env=herd_environment(), preexec_fn=limited(9000), capture_output=True, text=True, timeout=120, check=False
    )
    told = (
        "herd fit-rbm: a file of rows in $TMPDIR: writing failed (File too large)\nhint: free some disk space, or set TMPDIR to a "
        "folder with "
        "enough space\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (74, "", told)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]
