"""Commands of `herd`, each in a process of its own that is forked from one that has loaded the program already.

A command of a second spends a third of it on starting Python and loading; the scripts of chapters 5 and 6 run some thousands.  What a
command is given, writes and answers is as it is from a shell: arguments, a folder, stdin, stdout, stderr and an exit code of its own.
The process it is forked from runs one command at a time, loads after each what that had to load, and computes nothing; each thread that
asks has one.  They end with the script, which waits for them, so that their processor time is its own.  Where forking is not safe (macOS)
each command starts from nothing.
"""

from __future__ import annotations

import atexit
import gc
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

_own = threading.local()
_every: list[subprocess.Popen[str]] = []


def run(words: Sequence[str], folder: Path | None = None, stdin: str | None = None, errors: bool = False) -> tuple[int, str, str]:
    """Exit code, stdout and, if `errors` are asked for, stderr of `herd WORDS`, run in a folder; `stdin` is what it can read there."""
    if sys.platform != "linux":
        line = [sys.executable, "-m", "herdcli", *words]
        how = {"stderr": subprocess.PIPE if errors else None, "input": stdin or "", "text": True, "check": False}
        done = subprocess.run(line, cwd=folder, stdout=subprocess.PIPE, **how)
        return done.returncode, done.stdout, done.stderr or ""
    if (server := getattr(_own, "server", None)) is None:
        server = _own.server = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        _every.append(server)
    with TemporaryDirectory() as kept:
        given, written, told = (Path(kept) / name for name in ("in", "out", "err"))
        if stdin is not None:
            given.write_text(stdin, encoding="utf-8")
        files = [os.devnull if stdin is None else str(given), str(written), str(told) if errors else None]
        print(json.dumps({"words": list(words), "folder": str(folder or Path.cwd()), "files": files}), file=server.stdin, flush=True)
        answer = server.stdout.readline()
        if not answer:
            sys.exit(f"the process that runs commands has ended: exit code {server.wait()}")
        return int(answer), written.read_text(encoding="utf-8"), told.read_text(encoding="utf-8") if errors else ""


@atexit.register
def _end() -> None:
    for server in _every:
        server.stdin.close()
        server.wait()


def _serve() -> None:
    """Fork for each line of stdin, and answer with the exit code."""
    from herdcli.cli.main import BLAS_VARIABLES

    os.environ.update(dict.fromkeys(BLAS_VARIABLES, "1"))  # as a command does for itself, before anything loads NumPy
    fork = multiprocessing.get_context("fork")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command's to answer
    for line in sys.stdin:
        loaded: list[str] = []
        reading, writing = fork.Pipe(duplex=False)
        gc.freeze()  # what is there is no child's to search, nor to copy
        child = fork.Process(target=_command, args=(json.loads(line), writing))
        child.start()
        writing.close()
        with suppress(EOFError):  # a command that was killed tells nothing
            loaded = reading.recv()
        child.join()
        print(child.exitcode, flush=True)
        for name in loaded:
            with suppress(Exception):  # what cannot be loaded by its name the next command loads itself
                import_module(name)


def _command(asked: dict[str, Any], modules: Connection) -> None:
    """The command itself; the names of the modules that it loaded go to a pipe before it ends."""
    from herdcli.cli.main import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    flags = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)
    for number, (file, how) in enumerate(zip(asked["files"], flags, strict=True)):
        if file is not None:
            opened = os.open(file, how, 0o600)
            os.dup2(opened, number)
            os.close(opened)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)  # multiprocessing has made it the null device
    os.chdir(asked["folder"])
    known = set(sys.modules)
    try:
        main(asked["words"])
    finally:
        modules.send(sorted(set(sys.modules) - known))


if __name__ == "__main__":
    _serve()
