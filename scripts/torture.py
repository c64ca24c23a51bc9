"""Hostile files, failing calls, kills, races and broken texts against every command: nothing may crash, nothing be lost.

    python scripts/torture.py --seconds 120            all parts, the same trials each time
    python scripts/torture.py --part mutants --first 7 --count 1

Parts: mutants.  A fault is printed as it is found, with the number that makes it again; the table at the end counts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from torture import corpus, lanes, mutants

PARTS = {"mutants": mutants.Mutants}
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
    lanes.import_everything()
    parts = options.part or list(PARTS)
    with tempfile.TemporaryDirectory(prefix="torture-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        folder, root = Path(name) / "files", Path(name) / "trials"
        folder.mkdir()
        root.mkdir()
        for line in [*corpus.make(folder), *corpus.make_checkpoints(folder)]:
            print(f"left out: {line}", flush=True)
        faults, rows = 0, []
        for part in parts:
            trial, counts, trials, began = PARTS[part](folder, options.seed), Counter[str](), set(), time.monotonic()
            numbers = range(options.first, options.first + options.count)
            for outcome in lanes.outcomes(trial, numbers, root, jobs=options.jobs, seconds=options.seconds / len(parts)):
                counts[outcome.verdict] += 1
                trials.add(outcome.trial)
                if outcome.fault:
                    faults += 1
                    print(f"{part} {outcome.trial} {outcome.verdict}: {outcome.what}\n    {outcome.detail.strip()[:700]}", flush=True)
            rows.append((part, len(trials), counts, time.monotonic() - began))
    print("\n| part | trials | commands | refused | ran | faults | seconds |\n|---|---|---|---|---|---|---|")
    for part, count, counts, seconds in rows:
        wrong = sum(counts.values()) - counts["ran"] - counts["refused"]
        print(f"| {part} | {count} | {sum(counts.values())} | {counts['refused']} | {counts['ran']} | {wrong} | {seconds:.0f} |")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
