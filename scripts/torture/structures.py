"""(f) Artifacts and checkpoints whose HDF5 structure is changed, sealed again: no command opens what they name, takes much memory, crashes.

`surgery` has the changes.  Trial i changes file i mod F: one place in one way, and in every fourth trial a second place too; in every
twelfth the file is sealed as another kind or version.  `check` reads it, then two others of the commands that read such a file.
"""

from __future__ import annotations

import os
import shlex
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

from herdcli.artifacts.sealed import seal_header
from herdcli.kinds import CHECKPOINT, KINDS

from . import corpus, surgery
from .forked_trials import Outcome, herd, judged, linked
from .mutants import places
from .watching import ACCESS, ATTRIB, CREATE, DELETE, MEMORY, MODIFY, MOVED, OPEN, Watch, controls, peak, reset_peak, strays, victims

SECOND, RELABELED = 4, 12  # every how-many-eth trial
CHANGED = MODIFY | ATTRIB | MOVED | CREATE | DELETE
FURTHER = ("info EVIL --format json", "eval EVIL -o out2.h5", "check --seal-only EVIL", "seal EVIL")
REPORT, REPORTED = "eval EVIL --report out.html", 48  # takes as long as ten others: in every how-many-eth trial of a file
OF_DATA = (
    "convert EVIL -o out.csv",
    "convert EVIL -o out.npz",
    "convert EVIL -o out.parquet",
    "fit-rbm EVIL --hidden 2 --epochs 1 -o out.h5",
)
TRIED = 8  # ways, until one can be applied


class Watched:
    """A folder of trials with victims in it, and what is asked of every command that runs there."""

    def __init__(self, folder: Path, own: Path) -> None:
        linked(folder, own)
        if not (own / surgery.VICTIMS).is_dir():  # left by the trial before, untouched
            victims(own / surgery.VICTIMS)
        self.own, self.watch, self.touched = own, Watch(), False
        self.watch.add(folder, CHANGED)
        self.watch.add(own / surgery.VICTIMS, ACCESS | OPEN | CHANGED)

    def tried(self, number: int, what: str, line: str) -> Outcome:
        """Run a command; the outcome, with whatever it did that it must not do."""
        shown = os.memfd_create("stdout")
        kept = os.dup(1)
        os.dup2(shown, 1)
        before = reset_peak()
        self.touched |= bool(self.watch.events())  # by what made the file
        try:
            code, text = herd(shlex.split(line))
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        taken, out = peak() - before, os.pread(shown, 1 << 20, 0)
        os.close(shown)
        verdict = judged(code, text)
        events = self.watch.events()
        self.touched |= bool(events)
        found = [*events, *(f"{name} is left" for name in strays(self.own))]
        if taken > MEMORY:
            found.append(f"took {taken / 1e6:.0f} MB")
        steering = None if " --format json" in line or " -o " in line else controls(out + text.encode())
        if steering:
            found.append(f"prints {steering}")
        if found and verdict in ("ran", "refused"):
            verdict, text = "wrong", f"{'; '.join(found)} ({code}) {text}"
        return Outcome(number, f"{what}: {line}", verdict, text if len(text) < 1500 else f"{text[:300]} … {text[-1200:]}")

    def close(self) -> None:
        """Give up watching; the next trial has new victims where these were touched."""
        os.close(self.watch.descriptor)
        if self.touched:
            shutil.rmtree(self.own / surgery.VICTIMS)


class Structures:
    """Trial i changes file i mod F."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.files = sorted(path for path in folder.iterdir() if path.suffix in (".h5", ".ck"))
        self.places: dict[str, list[str]] = {}
        for path in self.files:
            with h5py.File(path) as file:
                self.places[path.name] = [place for place in places(file) if "@" in place or place in file]

    def __call__(self, number: int, own: Path) -> Iterator[Outcome]:
        watched = Watched(self.folder, own)
        source, turn = self.files[number % len(self.files)], number // len(self.files)
        random = np.random.default_rng([self.seed, zlib.crc32(source.name.encode()), number])
        evil = own / f"evil{source.suffix}"
        done = self._changed(source, evil, random, number)
        lines = list(_lines(source, evil.name))
        first, others = lines[0], lines[1:]
        chosen = [first, *(others[(turn * 2 + k) % len(others)] for k in range(2))] if others else [first]
        if source.suffix == ".h5" and turn % REPORTED == zlib.crc32(source.name.encode()) % REPORTED:
            chosen.append(REPORT.replace("EVIL", evil.name))
        for line in dict.fromkeys(chosen):
            yield watched.tried(number, f"{source.name}: {done}", line)
        watched.close()

    def _changed(self, source: Path, evil: Path, random: np.random.Generator, number: int) -> str:
        """Write the changed file; what was changed."""
        known, done = self.places[source.name], list[str]()
        for _ in range(TRIED):
            shutil.copyfile(source, evil)
            place = known[int(random.integers(len(known)))]
            done = [_applied(evil, place, random)]
            if not done[0].startswith("("):
                break
        if number // len(self.files) % SECOND == 0:
            done.append(_applied(evil, known[int(random.integers(len(known)))], random))
        with h5py.File(source) as file:
            kind = str(file.attrs["kind"])
        if number // len(self.files) % RELABELED == 1:
            kind = (*KINDS, CHECKPOINT, "none")[int(random.integers(len(KINDS) + 2))]
            done.append(f"sealed as {kind}")
            with h5py.File(evil, "r+") as file:
                if random.random() < 0.8:
                    file.attrs["kind"] = kind
                    file.attrs["kind-version"] = int(random.integers(1, 4))
        seal_header.write_seal(evil, kind)
        return "; ".join(done)


def _applied(path: Path, place: str, random: np.random.Generator) -> str:
    """Change a place of a file in one of its ways; what was done, in brackets where nothing was."""
    try:
        with h5py.File(path, "r+") as file:
            if "@" not in place and place not in file:
                return f"({place} is gone)"
            ways = surgery.changes(file, place)
            change = ways[int(random.integers(len(ways)))]
            return f"{place} {change(file, place, random)}"
    except (ValueError, TypeError, OSError, RuntimeError, KeyError, OverflowError, IndexError, MemoryError, AttributeError) as error:
        return f"({place} {type(error).__name__} {error})"[:120]


def _lines(source: Path, evil: str) -> Iterator[str]:
    """The commands that read such a file, the first for every trial."""
    if source.suffix == ".ck":
        yield f"{corpus.LONG[source.stem]} --checkpoint {evil} --every 100000 --resume -o out.h5"
        yield f"check {evil}"
        yield f"info {evil}"
        return
    lines = [*corpus.EVERYWHERE, *corpus.READ.get(source.name, ()), *FURTHER]
    if source.name in ("bin.h5", "real.h5") or "dataset" in source.name:
        lines += OF_DATA
    for line in lines:
        yield line.replace("EVIL", evil)
