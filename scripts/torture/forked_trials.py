"""Many short trials of `herd` in forked children of one process that has imported it, so that a crash ends one child and no more.

A lane is a process that deals its trials to children, a batch each; a child writes the number of a trial before it begins it and
the outcome after it, so that the lane knows which trial a signal ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import selectors
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

BATCH = 512
PROCESSOR_SECONDS = 30  # one trial may take; on a busy machine this is much longer by the clock
SECONDS = 300  # by the clock, for a trial that waits for something
ADDRESSES = 6 << 30  # bytes of address space of a child
STRAY = re.compile(r"\.py:\d+: \w*Warning|Traceback \(most recent call last\)|internal error|AddressSanitizer|runtime error:")


@dataclass(frozen=True)
class Outcome:
    """What became of a command.  verdict: ran, refused, stopped (by a signal), or a fault: crashed, hung, traceback, warned, wrong."""

    trial: int
    what: str
    verdict: str
    detail: str = ""

    @property
    def fault(self) -> bool:
        """Is it one that must not be?"""
        return self.verdict not in ("ran", "refused", "stopped")

    def line(self) -> bytes:
        """As a line for a pipe; what is no fault needs no words."""
        told = [self.what, self.verdict, self.detail] if self.fault else ["", self.verdict, ""]
        return (json.dumps([self.trial, *told]) + "\n").encode()


Trial = Callable[[int, Path], Iterator[Outcome]]  # number and an empty folder -> outcomes


def herd(arguments: list[str]) -> tuple[int, str]:
    """Run a command in this process: exit code and what stands on stderr."""
    from herdcli.cli.main import main

    os.ftruncate(2, 0)
    os.lseek(2, 0, os.SEEK_SET)
    code: object = 0
    try:
        main(arguments)
    except SystemExit as ended:
        code = ended.code
    with contextlib.suppress(OSError, AttributeError):  # the program drops a stdout that is full
        sys.stderr.flush()
        sys.stdout.flush()
    text = os.pread(2, 1 << 16, 0).decode(errors="replace")
    return (code if isinstance(code, int) else 0 if code is None else 1), text


def judged(code: int, text: str) -> str:
    """The verdict on a command by its exit code and stderr."""
    if code == 70 or "Traceback" in text:
        return "traceback"
    if STRAY.search(text):
        return "warned"
    return "ran" if code == 0 else "refused"


def silent_streams() -> None:
    """stdin empty, stdout nowhere, stderr a file in memory that `herd` reads back."""
    nothing, memory = os.open(os.devnull, os.O_RDWR), os.memfd_create("stderr")
    for number, descriptor in ((0, nothing), (1, nothing), (2, memory)):
        os.dup2(descriptor, number)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115


def enter(folder: Path, temporary: Path | None = None) -> None:
    """A child that is about to run one command goes into its folder, with a stderr of its own that `herd` reads, for so long at most."""
    os.chdir(folder)
    tempfile.tempdir = str(temporary or folder)
    os.dup2(os.memfd_create("stderr"), 2)
    signal.alarm(SECONDS)


def linked(folder: Path, own: Path) -> None:
    """Links to every file of a folder, where they are not there yet."""
    there = set(os.listdir(own))
    for entry in os.scandir(folder):
        if entry.name not in there:
            os.symlink(entry.path, own / entry.name)


def emptied(own: Path, kept: str = "victims") -> None:
    """Nothing in a folder but its links and one folder."""
    for entry in list(os.scandir(own)):
        if entry.name == kept:
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        elif not entry.is_symlink():
            os.unlink(entry.path)


def _child(trial: Trial, numbers: list[int], pipe: int, root: Path, until: float) -> None:
    """Do the trials one after another in one folder, telling of each, until the time is up."""
    silent_streams()
    warnings.simplefilter("always", RuntimeWarning)
    if "verify_asan" not in os.environ.get("ASAN_OPTIONS", ""):
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    folder = Path(tempfile.mkdtemp(dir=root))
    tempfile.tempdir = str(folder)
    os.chdir(folder)
    for number in numbers:
        if time.monotonic() > until:
            break
        os.write(pipe, f"{number}\n".encode())
        signal.setitimer(signal.ITIMER_PROF, getattr(trial, "seconds", PROCESSOR_SECONDS))
        signal.alarm(getattr(trial, "seconds", SECONDS))
        for outcome in trial(number, folder):
            os.write(pipe, outcome.line())
            if time.monotonic() > until:
                break
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        emptied(folder)
    os.chdir(root)
    shutil.rmtree(folder, ignore_errors=True)


def _batch(trial: Trial, numbers: list[int], root: Path, until: float) -> Iterator[Outcome]:
    """The outcomes of a batch; after a crash the rest of it goes on in another child."""
    while numbers:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            code = 3
            try:
                os.close(reader)
                _child(trial, numbers, writer, root, until)
                code = 0
            except BaseException as error:  # a fault of the torture itself
                told = "".join(traceback.format_exception(error))
                os.write(writer, Outcome(-1, "the torture itself", "wrong", told[-1500:]).line())
            os._exit(code)
        os.close(writer)
        begun = None
        with open(reader, "rb") as pipe:
            for line in pipe:
                found = json.loads(line)
                if isinstance(found, int):
                    begun = found
                    yield Outcome(found, "", "begun")
                else:
                    yield Outcome(*found)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 0 and (begun == numbers[-1] or time.monotonic() > until):
            return
        verdict = "hung" if status in (-signal.SIGALRM, -signal.SIGPROF) else "crashed"
        yield Outcome(-1 if begun is None else begun, "", verdict, f"the child ended with {status}")
        numbers = numbers[numbers.index(begun) + 1 :] if begun in numbers else []


def _lane(trial: Trial, numbers: Iterator[int], out: int, root: Path, until: float) -> None:
    while time.monotonic() < until:
        batch = list(islice(numbers, BATCH))
        if not batch:
            return
        for outcome in _batch(trial, batch, root, until):
            os.write(out, outcome.line())


def outcomes(trial: Trial, numbers: range, root: Path, *, jobs: int, seconds: float) -> Iterator[Outcome]:
    """The outcomes of trials, in the order in which they end; no trial begins after so many seconds."""
    until, readers, lanes = time.monotonic() + seconds, selectors.DefaultSelector(), []
    for lane in range(jobs):
        reader, writer = os.pipe()
        lanes.append(os.fork())
        if lanes[-1] == 0:
            with contextlib.suppress(BaseException):
                os.close(reader)
                _lane(trial, iter(numbers[lane::jobs]), writer, root, until)
            os._exit(0)
        os.close(writer)
        readers.register(reader, selectors.EVENT_READ, b"")
    while readers.get_map():
        for key, _ in readers.select():
            piece = os.read(key.fd, 1 << 16)
            *lines, rest = (key.data + piece).split(b"\n")
            yield from (Outcome(*json.loads(line)) for line in lines)
            readers.modify(key.fd, selectors.EVENT_READ, rest)
            if not piece:
                readers.unregister(key.fd)
                os.close(key.fd)
    for lane in lanes:
        os.waitpid(lane, 0)


def import_everything() -> None:
    """What the children need, imported once, with one BLAS thread as in the program."""
    import pkgutil
    from importlib import import_module

    from herdcli.cli.main import _limit_blas_threads

    _limit_blas_threads()
    import pyarrow.parquet  # noqa: F401

    import herdcli

    for library in ("sklearn.decomposition", "picard"):  # else the opening of their modules would be failed, one by one
        with contextlib.suppress(ImportError):
            import_module(library)
    for module in pkgutil.walk_packages(herdcli.__path__, "herdcli."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                import_module(module.name)
    _spare()


def _spare() -> None:
    """What every command would find out anew, asked once: BLAS has one thread, and so much memory is free."""
    from herdcli.artifacts import memory_budget
    from herdcli.cli import main

    free = min(4 << 30, memory_budget.available_memory())
    main._limit_blas_threads = lambda: None
    memory_budget.available_memory = lambda: free


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """This process in a folder, with the streams of `silent_streams`, for a while."""
    kept, here, streams = [os.dup(number) for number in range(3)], os.getcwd(), (sys.stdin, sys.stdout, sys.stderr)
    os.chdir(folder)
    silent_streams()
    try:
        yield
    finally:
        os.chdir(here)
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)
        sys.stdin, sys.stdout, sys.stderr = streams
