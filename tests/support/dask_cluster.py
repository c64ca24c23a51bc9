"""A Dask scheduler and workers of this machine, each a process of its own, ended with the tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

HERD = Path(sys.executable).parent / "herd"


@dataclass
class Dask:
    """A scheduler's address and the processes, the scheduler the first."""

    folder: Path
    address: str
    tls: list[str] = field(default_factory=list)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def begin(self, module: str, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        """`python -m distributed.cli.MODULE WORDS`."""
        with open(self.folder / "dask.log", "ab") as log:
            command = [sys.executable, "-m", f"distributed.cli.{module}", *words, *self.tls]
            made = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=os.environ | environment | {"DASK_TEMPORARY_DIRECTORY": str(self.folder)},
                start_new_session=True,
            )
        self.processes.append(made)
        return made

    def worker(self, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        """A worker of one thread."""
        common = ["--no-nanny", "--nthreads", "1", "--host", "127.0.0.1", "--no-dashboard", "--local-directory", str(self.folder)]
        return self.begin("dask_worker", self.address, *common, *words, **environment)

    def end(self) -> None:
        """Kill what is left."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


@contextmanager
def running(folder: Path, workers: int = 2, tls: list[str] | None = None) -> Iterator[Dask]:
    """A scheduler that listens where the system gave it a port, and so many workers.  Raises TimeoutError where it does not begin."""
    made, told = Dask(folder, "", tls or []), folder / "scheduler.json"
    try:
        where = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(told)]
        scheduler = made.begin("dask_scheduler", *where, "--no-dashboard", "--protocol", "tls" if tls else "tcp")
        made.address = _address(told, scheduler, folder / "dask.log")
        for _ in range(workers):
            made.worker()
        yield made
    finally:
        made.end()


def _address(told: Path, scheduler: subprocess.Popen[bytes], log: Path) -> str:
    """What a scheduler says of itself once it listens.  Raises TimeoutError, with its log, where it does not."""
    until = time.monotonic() + 60
    while scheduler.poll() is None and time.monotonic() < until:
        with suppress(FileNotFoundError, ValueError):  # not there, or not whole
            return str(json.loads(told.read_text())["address"])
        time.sleep(0.05)
    raise TimeoutError(log.read_text())


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    err: str


def herd(folder: Path, *words: object, **how: object) -> Done:
    """A command to its end."""
    command = [str(HERD), *map(str, words)]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=120, **how)  # type: ignore[call-overload]
    return Done(done.returncode, done.stderr)


def disturbed(folder: Path, when: Callable[[], bool], what: Callable[[int], None], *words: object) -> Done:
    """A command to its end, to which, or around which, something is done once a condition holds.  what  gets its process id."""
    command = [str(HERD), *map(str, words)]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while not when() and process.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.01)
        what(process.pid)
        _, err = process.communicate(timeout=90)
    return Done(process.returncode, err)


def children(pid: int) -> list[int]:
    """Worker processes that a command has begun."""
    listed = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True, check=False).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if "herdcli.cluster.worker_process" in line]


def kill(pid: int) -> None:
    """kill -9."""
    os.kill(pid, signal.SIGKILL)
