"""How long commands compute between two looks at signals, and how fast SIGTERM ends them, with sizes at which their steps are long.

    python scripts bench/program/signals results/signals.tsv
    python scripts bench/program/signals results/signals.tsv --only em,ica

Python handles a signal between two of its instructions.  A timer sends one each 20 ms while a command runs; the longest CPU time of the
main thread between two of them is the time that a compiled loop, or a call of NumPy or LAPACK, does not look.  CPU time does not depend
on what else the machine does.  A line has the command, the longest time, the whole CPU time, and the functions that were running.
Then the command is run again, without the timer, and gets SIGTERM after a third of its CPU time: the column has the CPU seconds that it
uses until it ends, and its exit code.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

HERD = str(Path(sys.executable).with_name("herd"))
LONGEST = 1.0  # seconds
WATCHED = """
import json, os, signal, sys, time, traceback
longest, last = [0.0, ""], [time.thread_time()]

def look(number, frame):
    now = time.thread_time()
    if now - last[0] > longest[0]:
        calls = traceback.extract_stack(frame)[-3:]
        longest[:] = now - last[0], " < ".join(f"{os.path.basename(call.filename)}:{call.lineno} {call.name}" for call in reversed(calls))
    last[0] = time.thread_time()

from herdcli.cli.main import main
signal.signal(signal.SIGALRM, look)
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
try:
    main(sys.argv[2:])
except SystemExit as error:
    signal.setitimer(signal.ITIMER_REAL, 0)
    look(0, sys._getframe())
    with open(sys.argv[1], "w") as file:
        json.dump({"code": error.code, "longest": longest[0], "where": longest[1], "cpu": time.process_time()}, file)
"""
# Files that are made once, of rows.h5 (20,000 x 500 numbers), wide.h5 (2,500 x 2,000), long.h5 (200,000 x 2) and two.h5 (20,000 x 100
# two-state columns).
MADE = {
    "rbm.h5": "fit-rbm two.h5 --hidden 24 --epochs 1",
    "grid.h5": "network grid --grid-rows 20 --grid-columns 20",
    "dense.h5": "network random --nodes 60 --mean-degree 9",
    "linear.h5": "nherd-train rows.h5",
    "clique.h5": "network random --nodes 24 --mean-degree 23",  # one clique of 2^24 states
    "rbm25.h5": "fit-rbm few.h5 --hidden 25 --epochs 1",  # log Z sums over 2^25 states
}
RUNS = [
    "nherd-train rows.h5 --covariance full",
    "nherd-train rows.h5 --kernel gaussian --budget 1000",
    "regress rows.h5 --target y",
    "regress rows.h5 --target y --gls ar1 --iterations 3",
    "regress rows.h5 --target y --hidden 50 --iterations 3",
    "kernel-herd rows.h5 -m 500",
    "kernel-herd rows.h5 -m 300 --rule min-norm-point",
    "em rows.h5 --components 20 --iterations 2",
    "em rows.h5 --components 20 --iterations 2 --bayes",
    "em rows.h5 --model fa --components 20 --iterations 2",
    "em rows.h5 --model pca --components 20",
    "em rows.h5 --model kmeans --components 50 --iterations 3",
    "em rows.h5 --model ppca --components 20 --iterations 2",
    "em rows.h5 --model hmm --components 20 --iterations 2",
    "em long.h5 --model hmm --components 100 --iterations 1",
    "em long.h5 --model lds --components 8 --iterations 2",
    "em wide.h5 --model pca --components 20",
    "em wide.h5 --model fa --components 5 --iterations 2",
    "em rows.h5 --model lds --components 20 --iterations 2",
    "ica rows.h5 --iterations 3",
    "ica rows.h5 --algorithm infomax",
    "ica rows.h5 --algorithm ebm --filters 800 --iterations 3",
    "fit-rbm rows.h5 --units gaussian --standardize --hidden 1000 --batch-size all --epochs 2",
    "fit-rbm two.h5 --hidden 1000 --batch-size all --epochs 2 --algorithm pt",
    "herd two.h5 --hidden 1000 --iterations 100 --burn-in 10",
    "fit-mrf two.h5 --structure complete --algorithm pseudo-likelihood",
    "ups-infer grid.h5 --algorithm junction-tree",
    "ups-infer clique.h5 --algorithm junction-tree",
    "ups-infer clique.h5 --query mpe",
    "ups-infer grid.h5 --algorithm frontier",
    "ups-infer grid.h5 --query mpe",
    "ups-infer grid.h5 --algorithm gibbs --sweeps 5000",
    "ups-infer grid.h5 --algorithm bp",
    "ups-infer dense.h5 --algorithm mean-field",
    "ups-infer dense.h5 --algorithm gbp --iterations 20",
    "ups-infer dense.h5 --query mpe",
    "sample rbm.h5 --count 100000 --burn-in 100",
    "apply rbm.h5 two.h5",
    "apply linear.h5 rows.h5",
    "eval rbm.h5 --data two.h5",
    "eval rbm25.h5 --data few.h5",
    "eval linear.h5 --data rows.h5",
    "convert rows.h5 --format csv",
]


def write(folder: Path) -> None:
    """The tables."""
    random = np.random.default_rng(0)
    X = random.standard_normal((20_000, 500), dtype=np.float32)
    X[:, :50] += 2 * random.integers(0, 2, len(X))[:, None]
    with h5py.File(folder / "rows.h5", "w") as file:
        file["X"], file["y"] = X, (X[:, :5].sum(axis=1) > 5).astype(np.int64)
    with h5py.File(folder / "wide.h5", "w") as file:
        file["X"] = random.standard_normal((2_500, 2_000), dtype=np.float32)
    with h5py.File(folder / "long.h5", "w") as file:
        file["X"] = random.standard_normal((200_000, 2), dtype=np.float32)
    for name, shape in (("few", (200, 30)), ("two", (20_000, 100))):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["X"] = (random.random(shape) < 0.3).astype(np.uint8)


def watched(words: list[str], folder: Path) -> dict[str, object]:
    """The exit code of a command, its longest time between two looks, the place, and its CPU time."""
    told = folder / "told.json"
    told.unlink(missing_ok=True)
    subprocess.run([sys.executable, "-c", WATCHED, str(told), *words], cwd=folder, capture_output=True, check=False)
    found: dict[str, object] = json.loads(told.read_text())
    return found


def stopped(words: list[str], folder: Path, after: float) -> tuple[float, int]:
    """The CPU seconds from SIGTERM, sent after so many, to the end of a command, and its exit code."""
    child = subprocess.Popen([HERD, *words], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    used = 0.0
    while used < after and os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        time.sleep(0.02)
        used = cpu_seconds(child.pid)
    child.send_signal(signal.SIGTERM)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime - used, child.returncode


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process until now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Measure, write the table; 1 if a command does not look for longer than LONGEST."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--only", default="", help="beginnings of command lines")
    parser.add_argument("--keep", type=Path, help="a folder for the files, which are used again")
    given = parser.parse_args()
    wanted = [part for part in given.only.split(",") if part]
    late = 0
    with tempfile.TemporaryDirectory() as made, given.table.open("w") as table:
        folder = given.keep or Path(made)
        folder.mkdir(exist_ok=True)
        if not (folder / "two.h5").exists():
            write(folder)
        chosen = [line for line in RUNS if not wanted or any(line.startswith(part) for part in wanted)]
        for name, line in MADE.items():
            if not (folder / name).exists() and any(name in each.split() for each in chosen):
                subprocess.run([HERD, *shlex.split(line), "-q", "-o", name], cwd=folder, check=True)
        print("command\texit\tlongest_s\tcpu_s\tafter_sigterm_s\texit\twhere", file=table, flush=True)
        for line in chosen:
            words = [*shlex.split(line), "-q", "-o", "out.h5"]
            found = watched(words, folder)
            longest, cpu = float(str(found["longest"])), float(str(found["cpu"]))
            after, code = stopped(words, folder, cpu / 3)
            late += longest > LONGEST or after > LONGEST + 0.5
            figures = [line, str(found["code"]), f"{longest:.2f}", f"{cpu:.1f}", f"{after:.2f}", str(code), str(found["where"])]
            print("\t".join(figures), file=table, flush=True)
    return int(late > 0)


if __name__ == "__main__":
    sys.exit(main())
