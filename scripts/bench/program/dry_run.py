"""How near `herd ups-infer --dry-run` comes to the time and memory of the run itself.

    HERD_DATA=DIR python scripts bench/program/dry_run [--only WORD]

A line a network and question: seconds and megabytes that were told, those that the run took (wall clock and processor, by one thread),
their ratios, and what the dry run took itself.  What is told is for a machine with nothing else to do, where wall clock and processor
time are the same; on a busy one compare it with the processor's.  Networks are made (`herd network`), read from $HERD_DATA/networks, or
from pgmpy's wheel where that is installed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from shared.real_data import FOLDER

HERD = (sys.executable, "-m", "herdcli")
BYTES = {"bytes": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
MADE = {  # name -> words of herd network, of herd ups-infer
    "grid 10x10 sw5": ("grid --rows 10 --columns 10 --sigma-w 5", ""),
    "grid 20x20 sw5, 10M": ("grid --rows 20 --columns 20 --sigma-w 5", "--max-memory 10M"),
    "grid 30x30 sw1, 100M": ("grid --rows 30 --columns 30 --sigma-w 1", "--max-memory 100M"),
    "grid 30x30 sw5": ("grid --rows 30 --columns 30 --sigma-w 5", ""),
    "grid 60x60 sw2": ("grid --rows 60 --columns 60 --sigma-w 2", ""),
    "grid 40x40 sw1": ("grid --rows 40 --columns 40 --sigma-w 1", ""),
    "grid 20x20 sw2, exact": ("grid --rows 20 --columns 20 --sigma-w 2", ""),
    "lattice 10x10": ("grid --rows 10 --columns 10 --sigma-w 1", "--algorithm frontier"),
    "lattice 16x16": ("grid --rows 16 --columns 16 --sigma-w 1", "--algorithm frontier"),
    "lattice 18x18": ("grid --rows 18 --columns 18 --sigma-w 1", "--algorithm frontier"),
    "lattice 60x18": ("grid --rows 60 --columns 18 --sigma-w 1", "--algorithm frontier"),
    "lattice 20x20": ("grid --rows 20 --columns 20 --sigma-w 1", "--algorithm frontier"),
    "lattice 40x20": ("grid --rows 40 --columns 20 --sigma-w 1", "--algorithm frontier"),
    "random 200 sw2": ("random --nodes 200 --sigma-w 2", ""),
    "random 2000 sw1": ("random --nodes 2000 --sigma-w 1", ""),
    "random 100000 sw1": ("random --nodes 100000 --sigma-w 1", ""),
    "random 335000 bp": ("random --nodes 335000", "--algorithm bp"),
}
READ = {  # name of an instance -> further words
    "Grids_11": "--max-memory 10M", "Grids_12": "--max-memory 300k", "Segmentation_11": "--max-memory 300k",
    "Pedigree_11": "--max-memory 300k",
    "Promedus_24": "", "Promedus_30": "", "DBN_11": "", "ObjectDetection_11": "", "CSP_11": "", "linkage_16": "", "Alchemy_11": "",
}  # fmt: skip
WHEEL = {"link": "", "munin": "", "munin1": "", "diabetes": "", "mildew": "", "barley": "", "water": "", "pigs": "", "andes": ""}
LOG_Z = ("link", "munin", "munin1", "diabetes", "mildew", "Pedigree_11", "linkage_16")


def run(*words: str) -> tuple[str, float, float, float]:
    """stdout, wall seconds, seconds of the processor and megabytes of a command of herd."""
    started = time.monotonic()
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen([*HERD, *words], stdout=out, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        wall = time.monotonic() - started
        out.seek(0)
        text = out.read().decode(errors="replace")
    if status:
        raise SystemExit(f"herd {' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}")
    return text, wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def compare(name: str, words: list[str], target: str) -> None:
    """Print what was told of a line and what it took."""
    text, _, tried, _ = run(*words, "--threads", "1", "--dry-run")
    found = re.search(r"about (\S+) s and (\S+) (\w+) of memory", text)
    if found is None:
        raise SystemExit(f"{name}: {text}")
    seconds, size = float(found[1]), float(found[2]) * BYTES[found[3]] / 1e6
    _, wall, cpu, peak = run(*words, "--threads", "1", "-o", target)
    limits = text.partition(": ")[2].partition(" step")[0]
    print(
        f"{name:28s} told {seconds:7.2f} s {size:7.0f} MB; true {wall:7.2f} s ({cpu:6.2f} CPU) {peak:7.0f} MB; "
        f"told/true {seconds / wall:5.2f} ({seconds / cpu:5.2f} of CPU), {size / peak:5.2f}; dry run {tried:.2f} CPU s; {limits}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="names that have this word")
    only = parser.parse_args().only
    folder = find_spec("pgmpy")
    wheel = (
        Path(str(folder.submodule_search_locations[0]), "utils", "example_models") if folder and folder.submodule_search_locations else None
    )
    with tempfile.TemporaryDirectory() as scratch:
        target = str(Path(scratch, "out"))
        for name, (network, words) in MADE.items():
            if only in name:
                made = str(Path(scratch, "network.h5"))
                run("network", *network.split(), "--seed", "0", "-o", made)
                compare(name, ["ups-infer", made, *words.split()], target)
        for name, words in READ.items():
            path = FOLDER / "networks" / f"{name}.uai"
            if only in name and path.exists():
                evidence = ["--evidence", f"{path}.evid"] if Path(f"{path}.evid").exists() else []
                compare(name, ["ups-infer", str(path), *evidence, *words.split()], target)
                if name in LOG_Z:
                    compare(f"{name} log-z", ["ups-infer", str(path), *evidence, "--query", "log-z", "--format", "pr"], target)
        for name, words in WHEEL.items() if wheel else ():
            path = Path(str(wheel), f"{name}.bif.gz")
            if only in name and path.exists():
                compare(name, ["ups-infer", str(path), *words.split()], target)
                if name in LOG_Z:
                    compare(f"{name} log-z", ["ups-infer", str(path), "--query", "log-z", "--format", "pr"], target)


if __name__ == "__main__":
    main()
