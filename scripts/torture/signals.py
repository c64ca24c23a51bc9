"""(c) Signals at the boundaries of a run and at random times, the run gone on with until it ends: the bytes are those of a run left alone.

A boundary is right behind a saved checkpoint, before and behind the writing of the result, and before the checkpoint goes away.
"""

from __future__ import annotations

import os
import shlex
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import corpus
from .forked_trials import Outcome, enter, herd, linked

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP, signal.SIGSTOP)
MOST = 12  # kills of one run
AT_BOUNDARIES = 0.75  # of the kills; the others come at a random time


class Kills:
    """Trial i is command i mod C, killed and gone on with again and again; in the first round each signal
    that ends it is at the next boundary."""

    seconds = 1000  # a trial of many runs may take

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.whole: dict[str, tuple[bytes, int, float]] = {}  # bytes of the result, boundaries, seconds

    def _left_alone(self, name: str) -> tuple[bytes, int, float]:
        """What a run that nobody stops makes, the boundaries it passes and the seconds it takes."""
        if name not in self.whole:
            own, began = Path(tempfile.mkdtemp(dir=self.folder.parent)), time.monotonic()
            linked(self.folder, own)
            code, seen, text = self._run(_line(corpus.LONG[name]), own, 0, -1, 0.0)
            if code:
                raise RuntimeError(f"{corpus.LONG[name]}: exit {code}: {text}")
            self.whole[name] = (own / "out.h5").read_bytes(), seen, time.monotonic() - began
        return self.whole[name]

    def __call__(self, number: int, own: Path) -> Iterator[Outcome]:
        linked(self.folder, own)
        name, turn = list(corpus.LONG)[number % len(corpus.LONG)], number // len(corpus.LONG)
        line, (whole, seen, seconds) = _line(corpus.LONG[name]), self._left_alone(name)
        random = np.random.default_rng([self.seed, number])
        told, code = [], 1
        for link in range(seen + 2 if not turn else int(random.integers(1, MOST + 1))):
            by = int(SIGNALS[(number + link) % (len(SIGNALS) - 1) if not turn else random.integers(len(SIGNALS))])
            bounded = not turn or random.random() < AT_BOUNDARIES
            at = 1 if not turn else int(random.integers(1, max(2, seen // 3))) if bounded else -1
            code, _, text = self._run(f"{line} --resume", own, by, at, float(random.random() * seconds))
            told.append(f"{signal.Signals(by).name} {f'at boundary {at}' if at > 0 else 'at some time'}: {code}")
            if code == 0 and by != signal.SIGSTOP:
                break
            yield Outcome(number, name, "stopped")
            if code not in (0, 75, -by, 128 + by):
                yield Outcome(number, f"{name}: {'; '.join(told)}", "wrong", f"exit {code}: {text[:800]}")
                return
            if code == 0:
                break
        if code != 0:
            code, _, text = self._run(f"{line} --resume", own, 0, -1, 0.0)
        same = (own / "out.h5").exists() and (own / "out.h5").read_bytes() == whole
        left = [path.name for path in own.iterdir() if "herd-tmp" in path.name or path.name == "run.state"]
        good = code == 0 and same and not left
        detail = "" if good else f"exit {code}, same {same}, left {left}: {text[:600]}"
        yield Outcome(number, f"{name}: {'; '.join(told)}", "ran" if good else "wrong", detail)

    def _run(self, line: str, folder: Path, by: int, at: int, wait: float) -> tuple[int, int, str]:
        """Exit code (negative: by a signal), boundaries passed and stderr of a run that gets a signal at a boundary or after a time."""
        told = os.memfd_create("told")
        child = os.fork()
        if child == 0:
            enter(folder)
            passed = _counted(by, at)
            code, text = herd(shlex.split(line))
            os.write(told, f"{passed[0]}\n{text}".encode())
            os._exit(code)
        if by and at < 0:
            time.sleep(wait)
            os.kill(child, by)
        if by == signal.SIGSTOP:
            stopped = at > 0 and os.WIFSTOPPED(status := os.waitpid(child, os.WUNTRACED)[1])
            if at < 0 or stopped:
                time.sleep(0.01)
                os.kill(child, signal.SIGCONT)
                status = os.waitpid(child, 0)[1]
        else:
            status = os.waitpid(child, 0)[1]
        code = os.waitstatus_to_exitcode(status)
        passed, _, text = os.pread(told, 1 << 16, 0).decode().partition("\n")
        os.close(told)
        return code, int(passed or 0), text


def _line(line: str) -> str:
    return f"{line} --checkpoint run.state --every 1 -o out.h5"


def _counted(by: int, at: int) -> list[int]:
    """Count the boundaries that are passed from now on; the signal comes at number `at`."""
    from herdcli import artifacts

    passed = [0]

    def here() -> None:
        passed[0] += 1
        if by and passed[0] == at:
            os.kill(os.getpid(), by)

    def bounded(function: Any, *, before: bool, after: bool) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            if before:
                here()
            made = function(*given, **named)
            if after:
                here()
            return made

        return call

    module: Any = artifacts
    module.save_checkpoint = bounded(artifacts.save_checkpoint, before=False, after=True)
    module.save = bounded(artifacts.save, before=True, after=True)
    module.remove_checkpoint = bounded(artifacts.remove_checkpoint, before=True, after=False)
    return passed
