"""MNIST with 500 hidden units: log-likelihood of the test rows against the processor time of learning, beside PyTorch and `rbms`.

    python scripts papers/fig_mnist FOLDER [--largest 100] [--seeds 3] [--programs herd,torch,rbms] [--temperatures 10000]

Makes mnist (.csv, and .png by the extra `plot`) in FOLDER; runs that the table there has are left out, and a program that is not
installed with one line.  Rows are those of mnist.h5, drawn once as bits by `herd convert --binarize stochastic`.

Every number of epochs is a run of its own, whose rate falls to 0 by its end (that of `rbms` is constant); the chains take `sweeps` Gibbs
sweeps an update.  `cpu_seconds` is for herd what the whole of `fit-rbm` took of one core, for the others what their updates alone took
(mnist_peers.py).  All models are judged alike, by annealing there and back, `herd eval --data --likelihood ais --reverse`.  What says
whether to believe it: `effective_chains` of those there, the way back, which errs to the other side, and `conservative` (RAISE), which errs
downwards and is left empty where enough chains count.  Published is −86.3, after CD-25 (Salakhutdinov & Murray 2008), on bits of their own.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from shared.figure_pipeline import Row, herd, pyplot, read_csv, replace, timed, write_csv
from shared.real_data import path

LEARNING = ("--hidden", 500, "--algorithm", "pcd", "--batch-size", 100, "--momentum", 0.5, "--learning-rate", 0.05, "--weight-decay", 1e-4)
RATES = {"torch": 0.05, "rbms": 0.1}  # herd's; ten times its own, which leaves −193 nats after four epochs
NEEDS = {"herd": "herdcli", "torch": "torch", "rbms": "rbms"}
RUNS = {"herd": ((4, 1), (15, 1), (100, 1), (100, 5)), "torch": ((4, 1), (15, 1)), "rbms": ((4, 1),)}  # epochs, sweeps
JUDGED = {
    "log_likelihood": "log_likelihood",
    "low": "log_likelihood_low",
    "high": "log_likelihood_high",
    "effective_chains": "effective_chains",
    "temperatures": "temperatures",
    "back": "log_likelihood_reverse",
    "back_se": "log_likelihood_reverse_se",
    "conservative": "log_likelihood_conservative",
}
PUBLISHED = -86.34


def learned(rows: Path, model: Path, program: str, epochs: int, sweeps: int, seed: int) -> float:
    """Processor seconds of one run, whose model is left in a file without rows of its own."""
    weights = model.with_suffix(".npz")
    if program == "herd":
        fitted = model.with_suffix(".fit.h5")
        seconds = timed(
            "fit-rbm", rows, *LEARNING, "--epochs", epochs, "--gibbs-steps", sweeps, "--seed", seed, "-j", 1, "-q", "-o", fitted
        )
        weights = model.with_suffix(".safetensors")
        herd("convert", fitted, "-q", "-o", weights)
        fitted.unlink()
    else:
        script = Path(__file__).with_name("mnist_peers.py")
        line = [sys.executable, script, program, rows, weights, "--epochs", epochs, "--seed", seed, "--rate", RATES[program]]
        line += ["--centred"] if program == "rbms" else []
        said = subprocess.run([str(word) for word in line], check=True, stdout=subprocess.PIPE, text=True).stdout
        seconds = json.loads(said.splitlines()[-1])["seconds"]
    herd("convert", weights, "--to", "rbm", "-q", "-o", model)
    weights.unlink()
    return float(seconds)


def measured(folder: Path, rows: Path, program: str, epochs: int, sweeps: int, seed: int, temperatures: int) -> Row:
    """The row of one run; model and seconds are kept beside the table, so that a judgement can be made again."""
    model = folder / f"{program}-{epochs}-{sweeps}-{seed}.h5"
    kept = model.with_suffix(".json")
    if not (model.exists() and kept.exists()):
        seconds = learned(rows, model, program, epochs, sweeps, seed)
        replace(kept, json.dumps({"cpu_seconds": seconds}) + "\n")
    how = ("--likelihood", "ais", "--reverse", "--temperatures", temperatures)
    (found,) = json.loads(herd("eval", model, "--data", rows, *how, "-j", 1, "-q", "--format", "json"))
    row = {"program": program, "epochs": epochs, "sweeps": sweeps, "seed": seed, "cpu_seconds": json.loads(kept.read_text())["cpu_seconds"]}
    return row | {name: found.get(column) for name, column in JUDGED.items()}


def run(row: Row) -> tuple[str, int, int, int]:
    """Program, epochs, sweeps and seed of a row."""
    return str(row["program"]), int(row["epochs"]), int(row["sweeps"]), int(row["seed"])


def draw(rows: list[Row], target: Path) -> None:
    """A line through the means of each program, from what annealing says (points) to what the way back says (the other end of each bar)."""
    figure, axes = pyplot().subplots(figsize=(7, 4.5), layout="constrained")
    for number, program in enumerate(dict.fromkeys(row["program"] for row in rows)):
        own = [row for row in rows if row["program"] == program]
        seconds, there, back = (np.array([float(row[name]) for row in own]) for name in ("cpu_seconds", "log_likelihood", "back"))
        which = [run(row)[1:3] for row in own]
        same = [np.array([one == each for one in which]) for each in dict.fromkeys(which)]
        axes.plot(seconds, there, ".", color=f"C{number}")
        axes.plot(seconds, back, "_", color=f"C{number}")
        axes.vlines(seconds, np.minimum(there, back), np.maximum(there, back), color=f"C{number}", lw=0.8)
        line = [(seconds[at].mean(), (there + back)[at].mean() / 2) for at in same]
        axes.plot(*zip(*line, strict=True), color=f"C{number}", label=program)
    axes.axhline(PUBLISHED, color="grey", lw=0.8, ls="--", label="CD-25, Salakhutdinov & Murray (2008)")
    axes.set(xscale="log", xlabel="processor seconds of learning", ylabel="log-likelihood of test rows, nats")
    axes.legend(fontsize=8)
    figure.savefig(target, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--largest", type=int, default=100, metavar="N", help="epochs of the longest runs")
    parser.add_argument("--seeds", type=int, default=3, metavar="N")
    parser.add_argument("--programs", default=",".join(RUNS))
    parser.add_argument("--temperatures", type=int, default=10000, metavar="N")
    asked = parser.parse_args()
    folder, table = asked.folder, asked.folder / "mnist.csv"
    folder.mkdir(parents=True, exist_ok=True)
    bits = folder / "rows.h5"
    if not bits.exists():
        herd("convert", path("mnist.h5"), "--binarize", "stochastic", "-q", "-o", bits)
    rows = read_csv(table)
    for program in asked.programs.split(","):
        if importlib.util.find_spec(NEEDS[program]) is None:
            print(f"{program} is left out: pip install {NEEDS[program]}", file=sys.stderr)
            continue
        for epochs, sweeps in RUNS[program]:
            for seed in range(asked.seeds if epochs <= asked.largest else 0):
                if (program, epochs, sweeps, seed) not in map(run, rows):
                    rows.append(measured(folder, bits, program, epochs, sweeps, seed, asked.temperatures))
                    rows.sort(key=lambda row: (list(RUNS).index(run(row)[0]), *run(row)[1:]))
                    write_csv(table, rows)
                    rows = read_csv(table)
    draw(rows, folder / "mnist.png")


if __name__ == "__main__":
    main()
