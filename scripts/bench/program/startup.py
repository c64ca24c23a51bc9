"""What `--help` costs beside Click alone, and what commands cost beside an older checkout, in CPU time.

    python scripts bench/program/startup
    python scripts bench/program/startup --before PYTHON [--runs 21] [--only fit-rbm,herd] [--instructions]

Times are CPU seconds of whole processes (`wait4`), the least of many runs taken in turns: what is above the least is other load.

help      `herd --help` over `python -c 'import click'`, and `herd COMMAND --help` of every command.       bars: 1.3, 1.6
commands  each command on a small input, over the same command of the interpreter PYTHON, which has an older herd: the ratio of
          the medians of interleaved runs, and of the least.                                               bar: 1.05
          --instructions counts what valgrind sees executed instead, on one thread: once, for other load does not change it.

Exits 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from herdcli.cli.main import COMMANDS

CACHE = tempfile.TemporaryDirectory()  # of compiled modules
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
    "PYTHONPYCACHEPREFIX": CACHE.name,
    "OPENBLAS_NUM_THREADS": "1",
}
INPUTS = """
data digits -o digits.h5
network grid --rows 6 --columns 6 --seed 1 -o grid.h5
fit-rbm digits.h5 --hidden 16 --epochs 1 -q -o model.h5
convert digits.h5 -o rows.svm
nherd-train rows.svm -q -o classifier.h5
nherd-train rows.svm -q --C 1 -o other.h5
herd digits.h5 --hidden 8 --iterations 20 -q -o herd.h5
"""
RUNS = {  # command -> a run of a second or so on real digits, or a small grid
    "fit-rbm": "fit-rbm digits.h5 --hidden 32 --epochs 2 -q",
    "herd": "herd digits.h5 --hidden 16 --iterations 60 -q",
    "kernel-herd": "kernel-herd digits.h5 -m 60 -q",
    "nherd-train": "nherd-train rows.svm -q",
    "ups-infer": "ups-infer grid.h5 -q",
    "ups-infer ups": "ups-infer grid.h5 --algorithm ups -q",
    "fit-mrf": "fit-mrf digits.h5 --threshold 0.5 --smoothing 1 -q",
    "ica": "ica digits.h5 --whiten pca --components 16 -q",
    "network": "network grid --grid-rows 20 --grid-columns 20 -q",
    "sample": "sample model.h5 --count 50 -q",
    "eval": "eval model.h5 -q",
    "eval classifier": "eval classifier.h5 -q",
    "apply": "apply model.h5 digits.h5 -q",
    "convert": "convert digits.h5 -q",
    "convert svmlight": "convert rows.svm -q",
    "merge": "merge classifier.h5 other.h5 -q",
    "info": "info model.h5",
    "check": "check digits.h5",
}


def seconds(command: list[str], folder: str) -> float:
    """CPU seconds, user and system, of a process and its children; modules are compiled once, as they are where herd is installed."""
    with open(os.devnull, "wb") as nowhere:
        child = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=nowhere, stderr=subprocess.PIPE)
        assert child.stderr is not None
        told = child.stderr.read()
        _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {child.returncode}\n{told.decode()}")
    return used.ru_utime + used.ru_stime


def instructions(command: list[str], folder: str) -> float:
    """Millions of instructions of a process, as valgrind counts them."""
    seconds(command, folder)  # compiles what is not yet
    with tempfile.NamedTemporaryFile("r") as log:
        options = ["--tool=callgrind", "--callgrind-out-file=/dev/null", f"--log-file={log.name}"]
        seconds(["valgrind", *options, *command], folder)
        return int(log.read().rpartition("Collected :")[2].split()[0]) / 1e6


def help_ratios(runs: int) -> dict[str, tuple[float, float]]:
    """name -> (CPU time of its --help over that of `import click`, bar)."""
    herd = [sys.executable, str(Path(sys.executable).with_name("herd"))]
    commands = {"": [sys.executable, "-c", "import click"], "herd --help": [*herd, "--help"]}
    commands |= {f"herd {name} --help": [*herd, name, "--help"] for name in COMMANDS}
    least = dict.fromkeys(commands, float("inf"))
    for _ in range(runs):
        for name, command in commands.items():
            least[name] = min(least[name], seconds(command, "/"))
    base = least.pop("")
    return {name: (found / base, 1.3 if name == "herd --help" else 1.6) for name, found in least.items()}


def command_ratios(before: str, runs: int, only: set[str], cost: Callable[[list[str], str], float]) -> dict[str, tuple[float, float]]:
    """name -> (median of this herd's costs over the other's, the same of the least)."""
    sides = [[python, str(Path(python).with_name("herd"))] for python in (sys.executable, before)]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for line in INPUTS.strip().splitlines():
            seconds([*sides[1], *line.split()], folder)
        for name, line in RUNS.items():
            if only and name not in only:
                continue
            output = [] if name in ("info", "check") else ["-o", "out.tsv" if name.startswith("eval") else "out.h5"]
            times: tuple[list[float], list[float]] = ([], [])
            for turn in range(runs):
                for at in (0, 1) if turn % 2 else (1, 0):
                    times[at].append(cost([*sides[at], *line.split(), *output], folder))
            ours, theirs = times
            by_median, by_least = statistics.median(ours) / statistics.median(theirs), min(ours) / min(theirs)
            found[name] = by_median, by_least
            told = f"{min(ours):8.3f}, before {min(theirs):8.3f}: {by_median:.3f} of medians, {by_least:.3f} of least"
            print(f"{name:18} {told}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--before", metavar="PYTHON", help="an interpreter with an older herd")
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--only", default="", metavar="NAME,…", help="these commands alone, and no help")
    parser.add_argument("--instructions", action="store_true", help="count instructions under valgrind instead of time")
    asked = parser.parse_args()
    missed = 0
    if asked.instructions:
        ENVIRONMENT["HERD_THREADS"], asked.runs = "1", 1
    elif not asked.only:
        for name, (ratio, bar) in help_ratios(asked.runs).items():
            missed += ratio > bar
            print(f"{name:26} {ratio:5.2f} × import click   bar {bar}   {'met' if ratio <= bar else 'MISSED'}", flush=True)
    if asked.before:
        ratios = command_ratios(
            asked.before, asked.runs, set(filter(None, asked.only.split(","))), instructions if asked.instructions else seconds
        )
        slow = {name: both for name, both in ratios.items() if min(both) > 1.05}
        print(f"{len(ratios) - len(slow)} of {len(ratios)} within 5 %; slower: {', '.join(slow) or 'none'}")
        missed += len(slow)
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
