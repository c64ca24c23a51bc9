"""(d) Two runs at once with one output, one checkpoint or one lock: what is there in the end is one of the two results, whole."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .forked_trials import Outcome, enter, herd, judged, linked

PAIRS = (
    ("convert rows.csv -o out.h5", "convert points.csv --label label -o out.h5"),
    ("convert rows.csv -o out.csv", "convert points.csv --label label -o out.csv"),
    ("convert rows.csv -n -o out.h5", "convert points.csv --label label -n -o out.h5"),
    ("convert rows.csv --lock run.lock -o out.h5", "convert points.csv --label label --lock run.lock -o out.h5"),
    *(
        (line, line)
        for line in (
            "em points.csv --components 2 --checkpoint run.state --every 1 -o out.h5",
            "fit-rbm bin.h5 --hidden 3 --epochs 2 --checkpoint run.state --every 1 --resume -o out.h5",
        )
    ),
)
ALLOWED = {0, 73, 75}  # done; there already under -n; held by the other


class Races:
    """Trial i is pair i mod P; the second begins a moment after the first."""

    seconds = 1000  # a trial of many runs may take

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.whole: dict[str, bytes] = {}

    def __call__(self, number: int, own: Path) -> Iterator[Outcome]:
        pair = PAIRS[number % len(PAIRS)]
        linked(self.folder, own)
        out = own / pair[0].rpartition(" ")[2]
        for line in pair:
            if line not in self.whole:
                self._wait(self._start(line, own))
                self.whole[line] = out.read_bytes()
                out.unlink()
        random = np.random.default_rng([self.seed, number])
        first = self._start(pair[0], own)
        time.sleep(float(random.random()) * 0.05)
        ended = [self._wait(run) for run in (first, self._start(pair[1], own))]
        codes = [code for code, _ in ended]
        found = out.read_bytes() if out.exists() else b""
        left = [path.name for path in own.iterdir() if "herd-tmp" in path.name or path.suffix == ".state"]
        wrong = "" if found in {self.whole[line] for line in pair} else "the output is neither of the two"
        wrong = wrong or (f"left {left}" if left else "") or ("" if 0 in codes and set(codes) <= ALLOWED else f"exit codes {codes}")
        verdicts = [judged(code, text) for code, text in ended]
        bad = next((verdict for verdict in verdicts if verdict not in ("ran", "refused")), "ran")
        yield Outcome(
            number, f"{pair[0]} | {pair[1]}: {codes}", "wrong" if wrong else bad, wrong + "".join(text[:600] for _, text in ended)
        )

    def _start(self, line: str, folder: Path) -> tuple[int, int]:
        told = os.memfd_create("told")
        child = os.fork()
        if child == 0:
            enter(folder)
            code, text = herd(shlex.split(line))
            os.write(told, text.encode())
            os._exit(code)
        return child, told

    def _wait(self, run: tuple[int, int]) -> tuple[int, str]:
        code = os.waitstatus_to_exitcode(os.waitpid(run[0], 0)[1])
        text = os.pread(run[1], 1 << 16, 0).decode()
        os.close(run[1])
        return code, text
