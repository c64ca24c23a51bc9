"""(c) Signals at every checkpoint and at random times, the run gone on with until it ends: the bytes are those of a run left alone."""

from __future__ import annotations

import os
import shlex
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from . import corpus
from .lanes import SECONDS, Outcome, herd

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP, signal.SIGSTOP)
MOST = 3  # kills of one run


class Kills:
    """Trial i: command i mod C, a signal, and a checkpoint (half of the trials) or a time."""

    seconds = 1000  # a trial of many runs may take

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.lines = {name: line for name, line in corpus.LONG.items() if (folder / f"{name}.ck").exists()}
        self.whole: dict[str, tuple[bytes, int, float]] = {}

    def __call__(self, number: int, own: Path) -> Iterator[Outcome]:
        name = list(self.lines)[number % len(self.lines)]
        for path in self.folder.iterdir():
            (own / path.name).symlink_to(path)
        line = f"{self.lines[name]} --checkpoint run.state --every 1 -o out.h5"
        if name not in self.whole:
            began = time.monotonic()
            code, saves, text = self._run(line, own, 0, -1, 0.0)
            self.whole[name] = (own / "out.h5").read_bytes() if code == 0 else b"", saves, time.monotonic() - began
            (own / "out.h5").unlink(missing_ok=True)
            if code:
                yield Outcome(number, line, "wrong", text)
                return
        whole, saves, seconds = self.whole[name]
        random = np.random.default_rng([self.seed, number])
        told = []
        for _ in range(int(random.integers(1, MOST + 1))):
            by = int(SIGNALS[random.integers(len(SIGNALS))])
            at = int(random.integers(1, saves + 2)) if random.random() < 0.5 and saves else -1
            wait = float(random.random() * 1.1 * seconds)
            code, _, text = self._run(f"{line} --resume", own, by, at, wait)
            told.append(f"{signal.Signals(by).name} {f'at save {at}' if at > 0 else f'after {wait:.3f} s'}: {code}")
            if code == 0:
                break
            if code not in (75, -by, 128 + by):
                yield Outcome(number, f"{name}: {'; '.join(told)}", "wrong", f"exit {code}: {text[:800]}")
                return
        if code != 0:
            code, _, text = self._run(f"{line} --resume", own, 0, -1, 0.0)
        same = (own / "out.h5").exists() and (own / "out.h5").read_bytes() == whole
        left = [path.name for path in own.iterdir() if "herd-tmp" in path.name or path.name == "run.state"]
        good = code == 0 and same and not left
        yield Outcome(
            number, f"{name}: {'; '.join(told)}", "ran" if good else "wrong", f"exit {code}, same {same}, left {left}: {text[:600]}"
        )

    def _run(self, line: str, folder: Path, by: int, at: int, wait: float) -> tuple[int, int, str]:
        """Exit code (negative: by a signal), checkpoints saved and stderr of a run that gets a signal at a save or after a time."""
        told = os.memfd_create("told")
        child = os.fork()
        if child == 0:
            os.chdir(folder)
            tempfile.tempdir = str(folder)
            os.dup2(os.memfd_create("stderr"), 2)
            signal.alarm(SECONDS)
            saves = _counted(by if by != signal.SIGSTOP else 0, at)
            code, text = herd(shlex.split(line))
            os.write(told, f"{saves[0]}\n{text}".encode())
            os._exit(code)
        if by and at < 0:
            time.sleep(wait)
            os.kill(child, by)
            if by == signal.SIGSTOP:
                time.sleep(0.02)
                os.kill(child, signal.SIGCONT)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        saves, _, text = os.pread(told, 1 << 16, 0).decode().partition("\n")
        os.close(told)
        return code, int(saves or 0), text


def _counted(by: int, at: int) -> list[int]:
    """Count the checkpoints that are saved from now on; the signal comes right after number `at`."""
    from herdcli import artifacts

    saves, save = [0], artifacts.save_checkpoint

    def counting(path: str, state: object, digest: str) -> None:
        save(path, state, digest)
        saves[0] += 1
        if by and saves[0] == at:
            os.kill(os.getpid(), by)

    artifacts.save_checkpoint = counting
    return saves
