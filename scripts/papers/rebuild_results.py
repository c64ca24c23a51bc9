"""`make results` from nothing on one commit, stage by stage: what each took, and whether it comes out as what is committed.

    python scripts papers/rebuild_results again                          every stage that has not ended yet, into again/
    python scripts papers/rebuild_results again --only faces --seconds 900  this one, stopped after so long; the next call goes on with it
    python scripts papers/rebuild_results again --quick                  the stages of `make quick` in place of those of `make results`
    python scripts papers/rebuild_results again --write results/again.md the page of what has been run so far, and no more

A stage is run by `make`, in a process group of its own; after it FOLDER/record.csv has a line more: commit, seconds, processor seconds,
peak memory of its largest process (this one's at least), and whether the stage ended, was stopped or failed.  A tree with changes that are
not committed is refused, and so is a folder that another commit has begun: its files would not be those of one commit.  The page gives for
each file its SHA-256, and how it differs from the one that the commit has in results/.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from shared.figure_pipeline import Row, read_csv, replace, write_csv

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("numpy", "scipy", "h5py", "matplotlib")
SHOWN = 16  # hexadecimal digits of a digest on the page


def git(*arguments: str) -> str:
    """What git says of this tree."""
    return subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def commit() -> str:
    """The commit of this tree; ends the program where files differ from it."""
    changed = git("status", "--porcelain", "--untracked-files=no")
    if changed:
        sys.exit(f"files differ from the commit; commit or restore them first:\n{changed}")
    return git("rev-parse", "HEAD")


def stages(folder: Path, quick: bool) -> dict[str, list[Path]]:
    """Stage -> its files, as make knows them."""
    lines = subprocess.run(
        ["make", "--no-print-directory", "-s", "stages", f"RESULTS={folder}"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    found: dict[str, list[Path]] = {}
    for line in lines.splitlines():
        kind, name, *files = line.split()
        if kind == ("quick:" if quick else "results:"):
            found[name] = [Path(file) for file in files]
    return found


def run(target: Path, folder: Path, limit: float | None) -> tuple[Row, int]:
    """`make TARGET` with its resources, stopped after `limit` seconds or by SIGINT or SIGTERM, whose number comes with the row, else 0."""
    began = time.monotonic()
    process = subprocess.Popen(["make", str(target), f"RESULTS={folder}"], cwd=ROOT, start_new_session=True)
    stopped: list[int] = []  # numbers of signals, 0 of the time that is over

    def stop(number: int = 0, frame: object = None) -> None:
        stopped.append(number)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)

    timer = threading.Timer(limit or threading.TIMEOUT_MAX, stop)
    timer.daemon = True
    timer.start()
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        _, status, used = os.wait4(process.pid, 0)
    finally:
        timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)
    code = os.waitstatus_to_exitcode(status)
    return {
        "seconds": round(time.monotonic() - began, 1),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mb": round(used.ru_maxrss / 1024),
        "end": "ended" if code == 0 else "stopped" if stopped else f"failed with exit code {code}",
    }, max(stopped, default=0)


def recorded(folder: Path, head: str) -> list[Row]:
    """The sessions so far; ends the program where they are of another commit."""
    rows = read_csv(folder / "record.csv")
    others = {row["commit"] for row in rows} - {head}
    if others:
        sys.exit(f"{folder} was begun with commit {others.pop()}, and this is {head}: name another folder, or check that one out")
    return rows


def again(folder: Path, quick: bool, only: list[str] | None, limit: float | None) -> int:
    """Run what has not ended; 1 if a stage failed, 128 and the number of a signal."""
    head, failed = commit(), 0
    (ROOT / folder).mkdir(parents=True, exist_ok=True)
    rows = recorded(ROOT / folder, head)
    known = stages(folder, quick)
    for name in only or known:
        if name not in known:
            sys.exit(f"there is no stage '{name}' (known: {', '.join(known)})")
        title = f"quick {name}" if quick else name
        if any(row["stage"] == title and row["end"] == "ended" for row in rows):
            continue
        begun = datetime.now(UTC).isoformat(timespec="seconds")
        found, number = run(known[name][0], folder, limit)
        row = {"stage": title, "commit": head, "begun": begun, **found}
        rows.append(row)
        write_csv(ROOT / folder / "record.csv", rows)
        print(
            f"{title}: {row['end']} after {row['seconds']} s, {row['processor_seconds']} s of processors, {row['peak_mb']} MB", flush=True
        )
        failed |= row["end"].startswith("failed")
        if number:
            return 128 + number
    return failed


def committed(head: str, short: Path) -> bytes | None:
    """A file of results/ at that commit."""
    found = subprocess.run(["git", "show", f"{head}:results/{short}"], cwd=ROOT, capture_output=True, check=False)
    return None if found.returncode else found.stdout


def difference(made: Path, kept: bytes | None) -> str:
    """How a file differs from the committed one."""
    if kept is None:
        return "not committed"
    if made.read_bytes() == kept:
        return "the same"
    if made.suffix != ".csv":
        return "differs"
    first, second = read_csv(made), read_csv(kept.decode())
    if len(first) != len(second) or not first or list(first[0]) != list(second[0]):
        return f"differs: {len(first)} rows, committed {len(second)}"
    apart = [(name, relative(a[name], b[name])) for a, b in zip(first, second, strict=True) for name in a if a[name] != b[name]]
    columns, most = ", ".join(dict.fromkeys(name for name, _ in apart)), max((by for _, by in apart), default=0.0)
    return f"differs in {len(apart)} of {len(first) * len(first[0])} fields ({columns}), the largest by {most:.1g} of itself"


def relative(one: str, other: str) -> float:
    """By how much two fields differ, as a share of the larger; 1 for what are no numbers."""
    try:
        a, b = float(one), float(other)
    except ValueError:
        return 1.0
    if a == b:
        return 0.0  # 0 and -0, 1 and 1.0
    return abs(a - b) / max(abs(a), abs(b)) if math.isfinite(a) and math.isfinite(b) else 1.0


def page(folder: Path) -> str:
    """The page of FOLDER's record and files."""
    rows = read_csv(ROOT / folder / "record.csv")
    if not rows:
        sys.exit(f"{folder} has no record.csv: python scripts papers/rebuild_results {folder}")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)
    full = stages(folder, quick=False)
    ended = {row["stage"] for row in rows if row["end"] == "ended"}
    missing = [name for name in full if name not in ended]
    lines = [
        "<!-- made by scripts/papers/rebuild_results.py --write; edit that -->",
        "",
        "# Made again from nothing",
        "",
        f"Commit `{rows[0]['commit']}`, {datetime.fromisoformat(rows[0]['begun']):%Y-%m-%d}, Python {sys.version.split()[0]}, {versions},",
        f"{os.cpu_count()} processors that had other work to do as well: seconds by the clock say less than those of the processors.",
        f"{len(full) - len(missing)} of {len(full)} stages of `make results` have ended; {told(rows, missing)}",
        "",
        "| stage | calls | seconds | of processors | peak MB | |",
        "|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["stage"] for row in rows):
        own = [row for row in rows if row["stage"] == name]
        seconds, used = (sum(float(row[key]) for row in own) for key in ("seconds", "processor_seconds"))
        peak = max(int(row["peak_mb"]) for row in own)
        lines.append(f"| {name} | {len(own)} | {seconds:,.0f} | {used:,.0f} | {peak} | {own[-1]['end']} |")
    lines += [
        "",
        "Files, the first digits of their SHA-256, and how they differ from those that this commit has in results/:",
        "",
        "| file | SHA-256 | |",
        "|---|---|---|",
    ]
    for name in full:
        for file in full[name] if name in ended else ():
            short = file.relative_to(folder)
            digest = hashlib.sha256((ROOT / file).read_bytes()).hexdigest()[:SHOWN]
            lines.append(f"| {short} | `{digest}` | {difference(ROOT / file, committed(rows[0]['commit'], short))} |")
    return "\n".join(lines) + "\n"


def told(rows: list[Row], missing: list[str]) -> str:
    """What is missing, in words."""
    begun = {row["stage"] for row in rows}
    if not missing:
        return "nothing is missing."
    listed = ", ".join(f"{name} (begun)" if name in begun else name for name in missing)
    return f"missing: {listed}. What each takes is told in [docs/results.md](../docs/results.md)."


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="relative to the project; in place of results/")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", metavar="STAGE")
    parser.add_argument("--seconds", type=float, help="stop a stage that has not ended after so long")
    parser.add_argument("--write", type=Path, help="the page of what has been run")
    asked = parser.parse_args()
    if asked.write:
        replace(asked.write, page(asked.folder))
        return 0
    return again(asked.folder, asked.quick, asked.only, asked.seconds)


if __name__ == "__main__":
    sys.exit(main())
