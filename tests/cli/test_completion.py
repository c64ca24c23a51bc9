"""Completion as a shell asks for it, and in an interactive bash."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from herdcli.cli.main import cli
from herdcli.numerics import kernel_names
from herdcli.rbm.units import FAMILIES

HERD = Path(sys.executable).with_name("herd")


def told(*line: str) -> list[tuple[str, str]]:
    """Type and value of what is offered for the last word."""
    found = ShellComplete(cli, {}, "herd", "_HERD_COMPLETE").get_completions(list(line[:-1]), line[-1])
    return [(item.type, item.value) for item in found]


@pytest.mark.parametrize(
    "line",
    [
        ("eval", "dig"),
        ("eval", "--data", "dig"),
        ("fit-rbm", "dig"),
        ("fit-rbm", "--below", "dig"),
        ("apply", "model.h5", "dig"),
        ("nherd-train", "--continue", "dig"),
        ("eval", "-o", "dig"),
        ("merge", "a.h5", "dig"),
        ("ups-infer", "dig"),
    ],
)
def test_files_are_completed_by_the_shell(line: tuple[str, ...]) -> None:
    assert told(*line) == [("file", "dig")]


def test_known_values_are_offered() -> None:
    assert ("plain", "gaussian") in told("fit-rbm", "--visible-units", "g")
    assert told("kernel-herd", "--kernel", "gau") == [("plain", "gaussian")]
    assert told("kernel-herd", "--target", "uni") == [("plain", "uniform")]


def test_offered_values_are_taken() -> None:
    offered = {value.rstrip(":") for _, value in told("fit-rbm", "--visible-units", "")}
    assert offered == {name.partition(":")[0] for name in FAMILIES}
    for _, name in told("kernel-herd", "--kernel", ""):
        kernel_names.parse(name)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_a_file(tmp_path: Path, scratch: Path) -> None:
    (tmp_path / "digits.h5").touch()
    env = os.environ | {"PATH": f"{HERD.parent}:{os.environ['PATH']}", "TERM": "xterm", "TMPDIR": str(scratch)}
    script = subprocess.run([HERD, "completion", "bash"], capture_output=True, env=env, check=True).stdout
    (tmp_path / "herd.bash").write_bytes(script)
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], env | {"PS1": "ready> "})
    try:
        _until(terminal, b"ready> ")
        os.write(terminal, b"source herd.bash\n")
        _until(terminal, b"ready> ")
        os.write(terminal, b"herd eval digits.h\t")
        _until(terminal, b"digits.h5 ")
    finally:
        os.close(terminal)
        os.waitpid(process, 0)


def _until(terminal: int, text: bytes) -> None:
    """Read from a terminal until a text appears; fail after half a minute."""
    seen, end = b"", time.monotonic() + 30
    while text not in seen:
        ready, _, _ = select.select([terminal], [], [], max(0.0, end - time.monotonic()))
        assert ready, seen
        seen += os.read(terminal, 4096)
