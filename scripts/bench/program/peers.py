"""Each job of the table against the programs that people use for it, in turns: processor seconds and memory.

    python scripts bench/program/peers FOLDER [--peers VENV/bin/python] [--rows words-2,kmeans] [--runs 5] [-o results/peers.md]

--rows runs some of the rows alone; FOLDER keeps the inputs, and the figures of each row, from which the page is made anew: rows that do
not run now keep their last figures.  Needs the data sets r8, newsgroups20, mnist and networks (`herd data`).

Every figure is the median of --runs runs, herd and its peers in turns, one thread each.  `whole` is the processor time of the process
with its imports and its reading of files, `inside` that of the fit alone: `fit` of the peer, `Session.run` of herd.  A row's ratio is
herd's inside over that of the fastest peer; where a part cannot be told apart, of the whole.  Rows where herd loses come first.
bench/program/peer_fits.py has the peers' programs, bench/program/growth.py measures growth in rows and columns.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np
from shared.real_data import FOLDER as DATA

ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "NUMEXPR")}
INSIDE = Path(__file__).with_name("command_time.py")
PEER_FITS = Path(__file__).with_name("peer_fits.py")
LIMIT = 1800  # seconds of a run


@dataclass(frozen=True)
class Job:
    """A row of the table: what is run, on which input, against what.

    prepare  writes the input in a folder that is there and returns its path.  herd  words of the command; {0} is the input, {1} a file
    for the result.  peers  by name, the words for peer_fits.py.  goal  what the page says beside the figures.  other  words of a second
    command of herd, in the place of a peer.
    """

    title: str
    prepare: Callable[[Path], Path]
    herd: str
    peers: dict[str, str] = field(default_factory=dict)
    goal: str = ""
    other: str = ""
    wall: bool = False  # the ratio is that of wall times
    threads: bool = False  # whether herd may use more than one


def words(folder: Path, classes: int) -> Path:
    """R8 as svmlight text, of two classes (the first against the others) or of all eight."""
    path = folder / f"r8-{classes}.svm"
    if not path.exists():
        with h5py.File(DATA / "r8_bow.h5") as file:
            values, columns, starts = (file["X"][name][:] for name in ("data", "indices", "indptr"))
            y = file["y"][:]
        labels = (y == y[0]).astype(int) if classes == 2 else y
        with path.open("w") as text:
            for row, label in enumerate(labels.tolist()):
                own = slice(starts[row], starts[row + 1])
                entries = sorted(zip(columns[own].tolist(), values[own].tolist(), strict=True))
                text.write(" ".join([str(label), *(f"{column + 1}:{value:g}" for column, value in entries)]) + "\n")
    return path


def digits(folder: Path, kind: str) -> Path:
    """10,000 digits of MNIST between 0 and 1 with their labels, or their pixels in two states."""
    path = folder / f"mnist-{kind}.npz"
    if not path.exists():
        with h5py.File(DATA / "mnist.h5") as file:
            X, y = file["X"][:10_000].astype(np.float32), file["y"][:10_000]
        X /= X.max()
        np.savez(path, **({"X": X, "y": y} if kind == "labelled" else {"X": (X > 0.5).astype(np.int8)}))
    return path


def clusters(folder: Path) -> Path:
    """100,000 rows of 50 columns about 100 centres, which overlap."""
    path = folder / "clusters.npy"
    if not path.exists():
        random = np.random.default_rng(0)
        centres = random.normal(size=(100, 50))
        np.save(path, centres[random.integers(100, size=100_000)] + random.normal(size=(100_000, 50)))
    return path


def alarm(folder: Path) -> Path:
    """The network alarm, as BIF."""
    path = folder / "alarm.bif"
    if not path.exists():
        path.write_bytes(gzip.decompress((DATA / "networks" / "alarm.bif.gz").read_bytes()))
    return path


def grid(folder: Path) -> Path:
    """A grid of a million two-state variables."""
    path = folder / "grid.h5"
    if not path.exists():
        command = ["network", "grid", "--grid-rows", "1000", "--grid-columns", "1000", "--sigma-w", ".5", "-o", str(path)]
        subprocess.run([sys.executable, "-m", "herdcli", *command], check=True)
    return path


def data_set(name: str) -> Callable[[Path], Path]:
    """A data set as `herd data` has downloaded it."""
    return lambda folder: DATA / name


def logistic(l2: str) -> dict[str, str]:
    """Scikit-learn's solvers, as they are, and to a gradient of 1e-8 (herd's objective is within 1e-14 of its minimum)."""
    return {
        f"scikit-learn, {solver}{told}": f"logistic {{0}} {l2} {solver} {tolerance}"
        for solver in ("lbfgs", "newton-cg")
        for told, tolerance in (("", "1e-4"), (", tol 1e-8", "1e-8"))
    }


KMEANS = "em {0} --model kmeans --components 100 --iterations 20 --tolerance 0 --split 1,0,0 -j 1 -o {1}"
CD = "fit-rbm {0} --algorithm cd --gibbs-steps 1 --hidden 100 --batch-size 20 --epochs 5 --split 1,0,0 -o {1}"
KERNEL = "kernel-herd {0} -m 300 -o {1}"
JOBS = {
    "words-2": Job(
        "`regress` of words: R8, two classes, l2 1e-3",
        lambda folder: words(folder, 2),
        "regress {0} --l2 1e-3 --split 1,0,0 -o {1}",
        logistic("1e-3"),
        "inside ≤ .3 s, ≤ 250 MB",
    ),
    "words-8": Job(
        "`regress` of words: R8, eight classes, l2 1e-3",
        lambda folder: words(folder, 8),
        "regress {0} --l2 1e-3 --split 1,0,0 -o {1}",
        logistic("1e-3"),
        "inside ≤ 1.5 s, ≤ 300 MB",
    ),
    "softmax": Job(
        "softmax, MNIST 10,000 × 784, l2 .01",
        lambda folder: digits(folder, "labelled"),
        "regress {0} --family softmax --l2 .01 --split 1,0,0 -o {1}",
        logistic(".01"),
        "≤ 4 s",
    ),
    "cd": Job(
        "`fit-rbm`, CD-1, 100 hidden units, batches of 20, 5 epochs of 10,000 × 784",
        lambda folder: digits(folder, "bits"),
        CD + " -j 1",
        {"scikit-learn": "rbm {0} sklearn 5", "torch": "rbm {0} torch 5"},
        "≤ 1 s (.2 s an epoch)",
    ),
    "kmeans": Job(
        "k-means, 100,000 × 50, K = 100, 20 iterations",
        clusters,
        KMEANS,
        {"scikit-learn": "kmeans {0} sklearn", "faiss": "kmeans {0} faiss"},
        "whole ≤ 1.0 s",
    ),
    "alarm": Job("marginals of alarm", alarm, "ups-infer {0} -o {1}", {"pyAgrum": "marginals {0}"}, "≤ 1.2 × pyAgrum"),
    "bp": Job("BP on a grid of 1000 × 1000", grid, "ups-infer {0} --algorithm bp -j 1 -o {1}", goal="≤ 2.5 s, ≤ 400 MB"),
    "cd-threads": Job(
        "`-j 2`, `fit-rbm`, batches of 20",
        lambda folder: digits(folder, "bits"),
        CD + " -j 2",
        goal="wall ≤ .55 of `-j 1`",
        other=CD + " -j 1",
        wall=True,
        threads=True,
    ),
    "kernel-threads": Job(
        "`-j 2`, `kernel-herd` of 300 atoms, 100,000 × 50",
        clusters,
        KERNEL + " -j 2",
        goal="wall ≤ .55 of `-j 1`",
        other=KERNEL + " -j 1",
        wall=True,
        threads=True,
    ),
    "pt": Job("`fit-rbm` of words by `pt`: R8, an epoch", data_set("r8_bow.h5"), "fit-rbm {0} --algorithm pt --epochs 1 -j 1 -o {1}"),
    "cluster": Job(
        "`--cluster local:2` beside one process: k-means of 100,000 × 50",
        clusters,
        KMEANS.replace("-j 1", "--cluster local:2"),
        goal="≤ 2 s more",
        other=KMEANS,
        threads=True,
    ),
}


@dataclass(frozen=True)
class Usage:
    """Processor seconds of a process and of its fit (None if it does not tell), wall seconds, and the peak in MB."""

    whole: float
    inside: float | None
    wall: float
    peak: float


# A process counts the memory of the one that starts it as its own: a small one starts it.
LAUNCHER = """
import json, os, sys, time
started = time.perf_counter()
silent = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=silent)
_, status, used = os.wait4(pid, 0)
seconds = used.ru_utime + used.ru_stime, time.perf_counter() - started
print(json.dumps([os.waitstatus_to_exitcode(status), *seconds, used.ru_maxrss / 1024]), file=sys.stderr)
"""


def measure(command: list[str], environment: dict[str, str]) -> Usage | None:
    """Run a command; None if it fails."""
    launch = [sys.executable, "-I", "-S", "-c", LAUNCHER, *command]
    ended = subprocess.run(
        launch, capture_output=True, text=True, errors="replace", env=os.environ | environment, timeout=LIMIT, check=False
    )
    code, whole, wall, peak = json.loads(ended.stderr.strip().rpartition("\n")[2])
    if code not in (0, 3):  # 3: not converged, as asked
        return None
    last = ended.stdout.strip().rpartition("\n")[2]
    return Usage(whole, json.loads(last).get("inside") if last.startswith("{") else None, wall, peak)


def medians(runs: list[Usage]) -> Usage:
    """The median of each figure."""
    inside = [run.inside for run in runs if run.inside is not None]
    whole, wall, peak = (statistics.median(getattr(run, name) for run in runs) for name in ("whole", "wall", "peak"))
    return Usage(whole, statistics.median(inside) if inside else None, wall, peak)


def run_job(job: Job, folder: Path, peers: str | None, runs: int) -> dict[str, dict[str, float | None]]:
    """Run herd and the peers in turns; the medians by name."""
    path, result = job.prepare(folder), folder / "result.h5"
    # Installed programs have byte code; without it herd would be compiled anew in every run from a checkout whose folders have none.
    environment = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")} | ({} if job.threads else ONE_THREAD)

    def herd(line: str) -> list[str]:
        return [sys.executable, str(INSIDE), *line.format(path, result).split()]

    commands = {"herd": herd(job.herd)}
    if job.other:
        commands["herd, one process" if "--cluster" in job.herd else "herd, -j 1"] = herd(job.other)
    if peers:
        commands |= {name: [peers, str(PEER_FITS), *line.format(path).split()] for name, line in job.peers.items()}
    found: dict[str, list[Usage]] = {name: [] for name in commands}
    measure(commands["herd"], environment)  # writes the byte code
    for _ in range(runs):
        for name, command in commands.items():
            result.unlink(missing_ok=True)
            usage = measure(command, environment)
            if usage is not None:
                found[name].append(usage)
    return {name: vars(medians(usages)) for name, usages in found.items() if usages}


def ratio(job: Job, found: dict[str, dict[str, float | None]]) -> tuple[float, str]:
    """Herd's time over that of the fastest other, and its name; 0 where there is none."""
    own, others = found["herd"], {name: usage for name, usage in found.items() if name != "herd"}
    if not others:
        return 0.0, ""

    def compared(usage: dict[str, float | None]) -> float:
        if job.wall:
            return usage["wall"] or 0.0
        both = own["inside"] is not None and all(other["inside"] is not None for other in others.values())
        return (usage["inside"] if both and not job.other else usage["whole"]) or 0.0

    fastest = min(others, key=lambda name: compared(others[name]))
    return compared(own) / max(compared(others[fastest]), 1e-9), fastest


def page(results: dict[str, dict[str, dict[str, float | None]]], machine: str) -> str:
    """The page: rows where herd loses first."""

    def number(x: float | None) -> str:
        return "" if x is None else f"{x:.2f}"

    ordered = sorted((name for name in results if "herd" in results[name]), key=lambda name: -ratio(JOBS[name], results[name])[0])
    compared = [name for name in ordered if not JOBS[name].other and len(results[name]) > 1]
    lost = [JOBS[name].title for name in compared if ratio(JOBS[name], results[name])[0] > 1]
    lines = ["# Beside other programs", ""]
    lines.append(f"herd loses {len(lost)} of {len(compared)} comparisons{': ' + '; '.join(lost) if lost else ''}.")
    lines += [
        "",
        "Processor seconds (wall seconds for `-j 2`) and MB, medians of runs in turns, by `scripts/bench/program/peers.py`. " + machine,
        "",
    ]
    lines += ["| job | program | whole | inside | wall | MB | herd ÷ fastest | goal |", "|---|---|---|---|---|---|---|---|"]
    for name in ordered:
        share, fastest = ratio(JOBS[name], results[name])
        for who, usage in results[name].items():
            first = who == "herd"
            cells = [JOBS[name].title if first else "", who, *(number(usage[key]) for key in ("whole", "inside", "wall"))]
            cells += [f"{usage['peak']:.0f}", f"{share:.2f} ({fastest})" if first and fastest else "", JOBS[name].goal if first else ""]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peers", help="a Python that has scikit-learn, torch, pyAgrum or faiss")
    parser.add_argument("--rows", default=",".join(JOBS), help="names of rows")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    kept = options.folder / "peers.json"
    results = json.loads(kept.read_text()) if kept.exists() else {}
    for name in options.rows.split(","):
        results[name] = run_job(JOBS[name], options.folder, options.peers, options.runs)
        kept.write_text(json.dumps(results, indent=1))
        for who, usage in results[name].items():
            print(name, who, *(f"{key} {value:.2f}" for key, value in usage.items() if value is not None), flush=True)
    machine = f"{os.cpu_count()} processors; load at the end {os.getloadavg()[0]:.1f}."
    if options.output:
        options.output.write_text(page(results, machine), encoding="utf-8")


if __name__ == "__main__":
    main()
