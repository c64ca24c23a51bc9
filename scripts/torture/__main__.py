"""Hostile files, failing calls, kills, races and broken texts against every command: nothing may crash, nothing be lost.

    python scripts torture --check                  all parts, the same trials on every machine: about two minutes on two cores
    python scripts torture --seconds 3600           as many trials as there is time for
    python scripts torture --part mutants --first 7 --count 1
    python scripts torture --seconds 3600 --write   the table, into results/torture.md
    python scripts torture --part structures --part histories --count 50000 --record slices.jsonl
    python scripts torture --sum slices.jsonl --write   the rows of all slices that were recorded, which must not overlap

With --record the parts take turns, a slice of trials each, and a slice is recorded when it is done: stop the script when you like, and the
same command goes on where the record ends.  --count is then the number of the last trial.  --sum tells which commit had which findings.

Parts: mutants, parsers, faults, kills, races, structures, histories, foreign.
A fault is printed as it is found, with the number that makes it again; the table at the end counts.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from shared.script_paths import script

from torture import corpus, faults, foreign, forked_trials, histories, mutants, parsers, races, signals, structures, table

PARTS: dict[str, Callable[[Path, int], forked_trials.Trial]] = {
    "mutants": mutants.Mutants,
    "parsers": parsers.Parsers,
    "faults": faults.Faults,
    "kills": signals.Kills,
    "races": races.Races,
    "structures": structures.Structures,
    "histories": histories.Histories,
    "foreign": foreign.ForeignFiles,
}
SHARES = {
    "mutants": 0.4,
    "parsers": 0.06,
    "faults": 0.16,
    "kills": 0.12,
    "races": 0.02,
    "structures": 0.12,
    "histories": 0.08,
    "foreign": 0.04,
}  # of the time
CHECK = {
    "mutants": (4000, 1),
    "parsers": (1500, 1),
    "faults": (60, 71),
    "kills": (24, 1),
    "races": (36, 1),
    "structures": (700, 1),
    "histories": (300, 1),
    "foreign": (560, 1),
}  # trials, and each how-many-eth
MANY = 10_000_000
SLICE = 250  # trials between two lines of --record


@dataclass
class Count:
    """What a part has done."""

    trials: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)


def trial_numbers(part: str, options: argparse.Namespace) -> range:
    """The numbers of the trials of a part."""
    count, step = CHECK[part] if options.check else (options.count, 1)
    return range(options.first, options.first + count * step, step)


def tortured(part: str, trial: forked_trials.Trial, numbers: range, root: Path, options: argparse.Namespace, seconds: float) -> Count:
    """Run trials of a part, print the faults, count; no trial begins after so many seconds."""
    began, done = time.monotonic(), Count()
    for outcome in forked_trials.outcomes(trial, numbers, root, jobs=options.jobs, seconds=seconds):
        if outcome.verdict == "begun":
            done.trials += 1
            continue
        done.verdicts[outcome.verdict] += 1
        if outcome.fault:
            done.findings.append(f"{part} {outcome.trial} {outcome.verdict}: {outcome.what}\n    {outcome.detail.strip()[:1500]}")
            print(done.findings[-1], flush=True)
    done.seconds = time.monotonic() - began
    return done


def recorded_slices(trials: dict[str, forked_trials.Trial], root: Path, options: argparse.Namespace) -> dict[str, Count]:
    """Run slices of the parts in turn and record each, from where the record ends; what all of them have done."""
    until, infinite = time.monotonic() + options.seconds, float("inf")
    table.commit()  # that of now: files may change while it runs
    following = {part: table.following(options.record, part, options.seed, options.first) for part in trials}
    while time.monotonic() < until:
        open_parts = [part for part in trials if following[part] < options.first + options.count]
        if not open_parts:
            break
        part = min(open_parts, key=following.__getitem__)
        first = following[part]
        following[part] = min(first + SLICE, options.first + options.count)
        done = tortured(part, trials[part], range(first, following[part]), root, options, infinite)
        numbers = (options.seed, first, following[part] - first)
        table.record(options.record, part, numbers, (done.trials, done.verdicts, done.seconds), done.findings)
    return sum_of(options.record)


def sum_of(path: Path) -> dict[str, Count]:
    """What all recorded slices have done; prints how many trials each commit had, and how many findings."""
    for line in table.by_commit(path):
        print(line)
    return {part: Count(*counts) for part, counts in table.recorded(path).items()}


def main() -> int:
    """Run the parts asked for, print faults and the table; 1 if there are faults."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--part", choices=sorted(PARTS), action="append", help="only this part; may be repeated")
    parser.add_argument("--check", action="store_true", help="a fixed number of trials of each part, however long they take")
    parser.add_argument("--seconds", type=float, help="for all parts together; 60 without --count")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    parser.add_argument("--count", type=int, default=MANY, help="how many trials at most")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="put the rows of the parts that were run into results/torture.md")
    parser.add_argument("--record", type=Path, metavar="FILE", help="append a line for each slice of trials, and go on from there")
    parser.add_argument("--sum", type=Path, metavar="FILE", help="run nothing; add up the lines of --record")
    options = parser.parse_args()
    if options.sum:
        return finish(sum_of(options.sum), options)
    if options.seconds is None or options.check:
        options.seconds = float("inf") if options.check or options.count < MANY else 60.0
    parts = options.part or list(PARTS)
    if "faults" in parts and "shim.so" not in os.environ.get("LD_PRELOAD", ""):  # loaded before libc: the program begins again
        with tempfile.TemporaryDirectory() as name:
            preload = f"{faults.library(Path(name))} {os.environ.get('LD_PRELOAD', '')}".strip()
            line = [sys.executable, *script("torture"), *sys.argv[1:]]
            return subprocess.run(line, env=os.environ | {"LD_PRELOAD": preload}, check=False).returncode
    forked_trials.import_everything()
    with tempfile.TemporaryDirectory(prefix="torture-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        folder, root = Path(name) / "files", Path(name) / "trials"
        folder.mkdir()
        root.mkdir()
        left_out = corpus.make(folder) + (corpus.make_checkpoints(folder) if {"mutants", "structures"} & set(parts) else [])
        for line in left_out:
            print(f"left out: {line}", flush=True)
        gc.collect()
        gc.freeze()  # what is imported is neither searched nor copied by the children
        trials = {part: PARTS[part](folder, options.seed) for part in parts}
        if options.record:
            done = recorded_slices(trials, root, options)
        else:
            whole = sum(SHARES[part] for part in parts)
            done = {
                part: tortured(part, trial, trial_numbers(part, options), root, options, options.seconds * SHARES[part] / whole)
                for part, trial in trials.items()
            }
    return finish(done, options) or bool(left_out)


def finish(done: dict[str, Count], options: argparse.Namespace) -> int:
    """Print the table, and put it into the page with --write; 1 if there are faults."""
    rows = {part: table.row(part, count.trials, count.verdicts, count.seconds) for part, count in done.items()}
    print("\n" + table.text(rows), flush=True)
    if options.write:
        table.write(rows)
    return int(any(table.faults(count.verdicts) for count in done.values()))


if __name__ == "__main__":
    sys.exit(main())
