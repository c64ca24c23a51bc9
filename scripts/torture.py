"""Hostile files, failing calls, kills, races and broken texts against every command: nothing may crash, nothing be lost.

    python scripts/torture.py --seconds 120            all parts, the same trials each time
    python scripts/torture.py --part mutants --first 7 --count 1

Parts: mutants, parsers, faults, kills, races.
A fault is printed as it is found, with the number that makes it again; the table at the end counts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from torture import corpus, faults, kills, lanes, mutants, parsers, races

PARTS: dict[str, Callable[[Path, int], lanes.Trial]] = {
    "mutants": mutants.Mutants,
    "parsers": parsers.Parsers,
    "faults": faults.Faults,
    "kills": kills.Kills,
    "races": races.Races,
}
MANY = 10_000_000


def main() -> int:
    """Run the parts asked for, print faults and the table; 1 if there are faults."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--part", choices=sorted(PARTS), action="append", help="only this part; may be repeated")
    parser.add_argument("--seconds", type=float, default=60, help="for all parts together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    parser.add_argument("--count", type=int, default=MANY, help="how many trials at most")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    parts = options.part or list(PARTS)
    if "faults" in parts and "shim.so" not in os.environ.get("LD_PRELOAD", ""):  # loaded before libc: the program begins again
        with tempfile.TemporaryDirectory() as name:
            preload = f"{faults.library(Path(name))} {os.environ.get('LD_PRELOAD', '')}".strip()
            return subprocess.run([sys.executable, *sys.argv], env=os.environ | {"LD_PRELOAD": preload}, check=False).returncode
    lanes.import_everything()
    with tempfile.TemporaryDirectory(prefix="torture-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        folder, root = Path(name) / "files", Path(name) / "trials"
        folder.mkdir()
        root.mkdir()
        for line in [*corpus.make(folder), *corpus.make_checkpoints(folder)]:
            print(f"left out: {line}", flush=True)
        wrong, rows = 0, []
        for part in parts:
            trial, counts, trials, began = PARTS[part](folder, options.seed), Counter[str](), set(), time.monotonic()
            numbers = range(options.first, options.first + options.count)
            for outcome in lanes.outcomes(trial, numbers, root, jobs=options.jobs, seconds=options.seconds / len(parts)):
                counts[outcome.verdict] += 1
                trials.add(outcome.trial)
                if outcome.fault:
                    wrong += 1
                    print(f"{part} {outcome.trial} {outcome.verdict}: {outcome.what}\n    {outcome.detail.strip()[:700]}", flush=True)
            rows.append((part, len(trials), counts, time.monotonic() - began))
    print("\n| part | trials | commands | refused | ran | faults | seconds |\n|---|---|---|---|---|---|---|")
    for part, count, counts, seconds in rows:
        bad = sum(counts.values()) - counts["ran"] - counts["refused"]
        print(f"| {part} | {count} | {sum(counts.values())} | {counts['refused']} | {counts['ran']} | {bad} | {seconds:.0f} |")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
