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
from herdcli.quadrature.kernels import kernel_parsing
from herdcli.rbm.units import TABLE

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
    assert told("kernel-herd", "--distribution", "uni") == [("plain", "uniform")]


def test_offered_values_are_taken() -> None:
    offered = {value.rstrip(":") for _, value in told("fit-rbm", "--visible-units", "")}
    assert offered == set(TABLE)
    for _, name in told("kernel-herd", "--kernel", ""):
        kernel_parsing.parse_kernel(name)


# shell -> how it is started, the lines that load the completion script
SHELLS = {
    "bash": (["--norc", "--noprofile", "-i"], ["source herd.script"]),
    "zsh": (["-f", "-i"], ["autoload -U compinit; compinit -u -D; source herd.script"]),
}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("typed", "completed"), [("herd eval digits.h", b"digits.h5"), ("herd kernel-herd --kernel gau", b"gaussian")])
def test_a_shell_completes(shell, typed, completed, tmp_path: Path, scratch: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    options, setup = SHELLS[shell]
    (tmp_path / "digits.h5").touch()
    env = os.environ | {"PATH": f"{HERD.parent}:{os.environ['PATH']}", "TERM": "xterm", "TMPDIR": str(scratch), "HOME": str(tmp_path)}
    script = subprocess.run([HERD, "completion", shell], capture_output=True, env=env, check=True).stdout
    (tmp_path / "herd.script").write_bytes(script)
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        os.execvpe(shell, [shell, *options], env | {"PS1": "ready> ", "PROMPT": "ready> "})
    try:
        _until(terminal, b"ready> ")
        for line in setup:
            os.write(terminal, line.encode() + b"\r")
            _until(terminal, b"ready> ")
        os.write(terminal, f"{typed}\t".encode())
        _until(terminal, completed)
    finally:
        os.close(terminal)
        os.kill(process, 9)
        os.waitpid(process, 0)


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
@pytest.mark.parametrize(("typed", "completed"), [("herd eval digits.h", "digits.h5"), ("herd kernel-herd --kernel gau", "gaussian")])
def test_fish_completes(typed, completed, tmp_path: Path, scratch: Path) -> None:
    """Fish says itself what it would offer, without a terminal."""
    (tmp_path / "digits.h5").touch()
    env = os.environ | {"PATH": f"{HERD.parent}:{os.environ['PATH']}", "TMPDIR": str(scratch), "HOME": str(tmp_path)}
    script = subprocess.run([HERD, "completion", "fish"], capture_output=True, env=env, check=True).stdout
    (tmp_path / "herd.fish").write_bytes(script)
    line = f"source herd.fish; complete -C '{typed}'"
    ended = subprocess.run(["fish", "--no-config", "-c", line], capture_output=True, text=True, env=env, cwd=tmp_path, check=True)
    assert ended.stdout.split() == [completed]


def _until(terminal: int, text: bytes) -> None:
    """Read from a terminal until a text appears; fail after half a minute."""
    seen, end = b"", time.monotonic() + 30
    while text not in seen:
        ready, _, _ = select.select([terminal], [], [], max(0.0, end - time.monotonic()))
        assert ready, seen
        seen += os.read(terminal, 4096)
