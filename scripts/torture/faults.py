"""(b) The N-th call of a function of the system fails, N from 1 until there is no N-th: outputs are whole or absent, nothing else changes.

The functions are those of shim.h, which is compiled and loaded before libc; mmap is that of files, since without one it is malloc, and
the libraries may end the process where that fails.  A trial is one command and one function; each N is a
run in a child of its own, since a library whose call failed may keep what it held.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

from . import corpus
from .forked_trials import Outcome, enter, herd, judged, linked

ERRORS = {
    "write": (errno.ENOSPC, errno.EIO),
    "pwrite": (errno.ENOSPC, errno.EIO),
    "fsync": (errno.EIO, errno.ENOSPC),
    "rename": (errno.EACCES, errno.EIO),
    "open": (errno.EMFILE, errno.EACCES, errno.EIO),
    "ftruncate": (errno.EIO, errno.ENOSPC),
    "fchmod": (errno.EPERM, errno.EIO),
    "close": (errno.EIO, errno.ENOSPC),
    "sendfile": (errno.EIO, errno.EINVAL),
    "unlink": (errno.EACCES, errno.EIO),
    "mmap": (errno.ENOMEM,),
}
MOST = 400  # calls of one function that are failed in one run
EXPORTS = (
    "convert bin.h5 -o out.csv",
    "convert bin.h5 -o out.csv.gz",
    "convert bin.h5 -o out.parquet",
    "convert bin.h5 -o out.npz",
    "convert bin.h5 -o out.npy",
    "convert bin.h5 -o out.svm",
    "convert bin.h5",
    "data digits -o out.h5",
    "eval rbm.h5 -o out.json",
    "eval rbm.h5 -o out.csv",
    "eval rbm.h5 --report out.html",
    "eval rbm.h5",
    "info rbm.h5",
    "completion bash",
    "check --rerun bin.h5 --input rows.csv",
    "ups-infer network.h5 --algorithm ups -o out.mar",
    "network grid --grid-rows 3 --grid-columns 3 -o out.fg",
    "kernel-herd points.csv -m 4 -o out.csv",
    "em real.h5 --components 2 --on-disk -o out.h5",
    "em points.csv --components 2 --checkpoint run.ck --every 2 -o out.h5",
    "sample classes.h5 --count 3 --burn-in 3 --thin 1 -o out.csv",
    "sample rbm.h5 --given given.csv --count 2 --burn-in 3 -o out.h5",
    "sample chain.h5 --given steps.csv --count 2 -o out.h5",
    "merge herding1.h5 herding2.h5 -o out.h5",
)
EVERY = 3  # steps between checkpoints
SPREAD = 1_000_003  # a prime


def lines() -> list[str]:
    """Every command and output that is tried: exports, what reads each file, what makes each file, and all that has checkpoints."""
    reading = [line.replace("EVIL", name) for name, read in corpus.READ.items() for line in read]
    made = [f"{line} -o out.h5" for line in corpus.MADE.values()]
    kept = [f"{line} --checkpoint run.ck --every {EVERY} -o out.h5" for line in corpus.LONG.values()]
    return list(dict.fromkeys([*EXPORTS, *reading, *made, *kept]))


def library(folder: Path) -> Path:
    """shim.h, compiled into a folder."""
    made = folder / "shim.so"
    source = Path(__file__).with_name("shim.h")
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-w", "-shared", "-fPIC", "-x", "c", "-o", made, source, "-ldl"], check=True)
    return made


class Faults:
    """Trial i is a command and a function with one of its errors; each pair once, those of one function far apart."""

    seconds = 1000  # a trial of many runs may take

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.lines = lines()
        self.pairs = [(call, error) for call, errors in ERRORS.items() for error in errors]
        self.shim = ctypes.CDLL(None)

    @property
    def count(self) -> int:
        """Trials in all."""
        return len(self.lines) * len(self.pairs)

    def __call__(self, number: int, own: Path) -> Iterator[Outcome]:
        if number >= self.count:
            return
        place = number * SPREAD % self.count  # a run that ends early has tried some of every function and of every command
        call, error = self.pairs[place // len(self.lines)]
        line = self.lines[place % len(self.lines)]
        whole = self._run(line, own / "whole", "", 0, error)
        if whole[0] != 0:
            yield Outcome(number, f"{line}: not run", "wrong", whole[1])
            return
        for nth in range(1, MOST):
            folder = own / str(nth)
            code, text, fired = self._run(line, folder, call, nth, error)
            if not fired:
                return
            wrong = self._wrong(code, folder, own / "whole", call)
            verdict = "crashed" if code < 0 else judged(code, text) if not wrong else "wrong"
            yield Outcome(number, f"{line}: {call} {nth} {errno.errorcode[error]}: exit {code}", verdict, wrong or text[:1200])

    def _run(self, line: str, folder: Path, call: str, nth: int, error: int) -> tuple[int, str, bool]:
        """Exit code, stderr, and whether the call failed, of a run in a child; `folder` is left as the run left it."""
        folder.mkdir()
        linked(self.folder, folder)
        if call and "-o out" in line:
            (folder / line.rpartition(" ")[2]).write_bytes(b"old")
        told = os.memfd_create("told")
        child = os.fork()
        if child == 0:
            (folder / "tmp").mkdir()
            enter(folder, folder / "tmp")
            os.dup2(os.open("stdout", os.O_CREAT | os.O_WRONLY), 1)
            if call:
                self.shim.torture_arm(call.encode(), ctypes.c_long(nth), error)
            code, text = herd(shlex.split(line))
            fired = bool(call) and self.shim.torture_counted() >= nth
            self.shim.torture_arm(b"", ctypes.c_long(0), 0)
            os.write(told, bytes([fired]) + text.encode())
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found = os.pread(told, 1 << 16, 0)
        os.close(told)
        return code, found[1:].decode(), code < 0 or found[:1] == b"\x01"

    def _wrong(self, code: int, folder: Path, whole: Path, call: str) -> str:
        """What is not as it must be in the folder of a failed run, in a few words."""
        given = {path.name for path in self.folder.iterdir()}
        for name in given:
            if not (folder / name).is_symlink():
                return f"the input {name} is gone"
        for path in [*folder.iterdir(), *(folder / "tmp").iterdir()]:
            if path.name in given or path.name in ("tmp", "stdout"):
                continue
            same = (whole / path.name).exists() and path.read_bytes() == (whole / path.name).read_bytes()
            if path.name.startswith("out"):
                if not same and (code == 0 or path.read_bytes() != b"old"):
                    return f"{path.name} is neither whole nor what was there"
            elif path.suffix == ".ck":
                if self._damaged(path):
                    return f"the checkpoint {path.name} is damaged"
            elif call != "unlink":
                return f"{path.name} was left"
        if code == 0 and (folder / "stdout").read_bytes() != (whole / "stdout").read_bytes():
            return "stdout is not whole, and the exit code is 0"
        return ""

    def _damaged(self, path: Path) -> bool:
        from herdcli.artifacts.sealed import sealing

        return sealing.check_file(str(path), seal_only=True).code != 0
