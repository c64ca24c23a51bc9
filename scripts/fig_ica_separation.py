"""Fig. 4.5 and 4.6 of Teh (2003): how well 16 mixed recordings are separated, during learning and at its end.

    python scripts/fig_ica_separation.py DATA RESULTS [--runs N] [--mixings instamix,random]

DATA is the set of 88,436 × 16 samples of music.  HMC is `herd ica --algorithm ebm`, one proposal of 30 leapfrog steps; EQUIL
draws from the model, EXACT is Bell and Sejnowski's gradient.  2,000 iterations each at rates .05, .025, .005, .0025 and
.0005, batches of 100, momentum .9, ZCA whitening.  Run s has the seed s, for its initial filters, batches and random mixing.
Every run is one line of RESULTS/ica-separation.csv, so that an interrupted figure goes on where it stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import tempfile
from pathlib import Path

import numpy as np

from herdcli import artifacts
from herdcli.cli.main import main as main_of_herd
from herdcli.ica.model import ICA

ALGORITHMS = {"HMC": "--algorithm ebm --leapfrog 30", "EQUIL": "--algorithm equil", "EXACT": "--algorithm infomax --gradient exact"}
RATES = "0.05x2000,0.025x2000,0.005x2000,0.0025x2000,0.0005x2000"
COMMON = f"--expert logistic --density logistic --whiten zca --initial-scale 0.1 --momentum 0.9 --batch-size 100 --rates {RATES}"
ITERATIONS = list(range(250, 10_001, 250))  # at which the distance is kept
COLOURS = {"HMC": "tab:blue", "EQUIL": "tab:orange", "EXACT": "tab:green"}

Runs = dict[tuple[str, str, int], np.ndarray]


def run(data: Path, mixing: str, algorithm: str, seed: int) -> np.ndarray:
    """The Amari distance at ITERATIONS of one fit."""
    with tempfile.TemporaryDirectory() as folder:
        target = f"{folder}/model.h5"
        options = f"{ALGORITHMS[algorithm]} {COMMON} --mix {mixing} --seed {seed} -q -o {target}"
        with contextlib.suppress(SystemExit):  # `herd ica` in this process, which then has its libraries loaded
            main_of_herd(["ica", str(data), *options.split()])
        value: ICA = artifacts.load(target).value
    return np.interp(ITERATIONS, value.trace.iteration, value.trace.amari)


def load(path: Path) -> Runs:
    """The runs that were done."""
    if not path.exists():
        return {}
    with path.open() as file:
        rows = list(csv.reader(file))[1:]
    return {(row[0], row[1], int(row[2])): np.array(row[3:], dtype=float) for row in rows if len(row) == 3 + len(ITERATIONS)}


def compute(arguments: argparse.Namespace, path: Path) -> Runs:
    """Every run asked for: the stored ones and the missing, algorithm by algorithm, seed by seed."""
    done = load(path)
    if not path.exists():
        path.write_text(",".join(["mixing", "algorithm", "seed", *(f"t{t}" for t in ITERATIONS)]) + "\n")
    for seed in range(arguments.runs):
        for mixing in arguments.mixings.split(","):
            for algorithm in ALGORITHMS:
                if (mixing, algorithm, seed) not in done:
                    done[mixing, algorithm, seed] = run(arguments.data, mixing, algorithm, seed)
                    with path.open("a") as file:
                        line = [mixing, algorithm, str(seed), *(f"{value:.4f}" for value in done[mixing, algorithm, seed])]
                        file.write(",".join(line) + "\n")
    return done


def draw(runs: Runs, mixings: list[str], folder: Path) -> None:
    """Fig. 4.5, means over runs during learning, and 4.6, boxes of the last distances: a panel for each mixing."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    curves, along = plt.subplots(1, len(mixings), figsize=(4.5 * len(mixings), 3.2), squeeze=False, layout="constrained")
    boxes, across = plt.subplots(1, len(mixings), figsize=(3.2 * len(mixings), 3.2), squeeze=False, layout="constrained")
    for mixing, line, box in zip(mixings, along[0], across[0], strict=True):
        groups = {name: np.array([trace for key, trace in sorted(runs.items()) if key[:2] == (mixing, name)]) for name in ALGORITHMS}
        for name, traces in groups.items():
            line.plot(ITERATIONS, traces.mean(axis=0), label=f"{name} ({len(traces)} runs)", color=COLOURS[name], linewidth=1.2)
        line.set(xlabel="iteration", ylabel="Amari distance", title=mixing, yscale="log")
        line.grid(alpha=0.3, which="both")
        line.legend(fontsize=8)
        box.boxplot([traces[:, -1] for traces in groups.values()], tick_labels=list(groups), whis=1.5, flierprops={"marker": "+"})
        box.set(ylabel="Amari distance", title=mixing)
        box.grid(alpha=0.3, axis="y")
    for figure, name in ((curves, "ica-fig4-5.png"), (boxes, "ica-fig4-6.png")):
        figure.savefig(folder / name, dpi=110, metadata={"Software": None})


def table(runs: Runs, mixings: list[str]) -> str:
    """Markdown: median and quartiles of the last distances."""
    lines = ["| mixing | algorithm | runs | median | lower quartile | upper quartile |", "|---|---|---|---|---|---|"]
    for mixing in mixings:
        for name in ALGORITHMS:
            last = [trace[-1] for key, trace in runs.items() if key[:2] == (mixing, name)]
            low, middle, high = np.percentile(last, [25, 50, 75])
            lines.append(f"| {mixing} | {name} | {len(last)} | {middle:.2f} | {low:.2f} | {high:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Fig. 4.5 and 4.6 of Teh (2003).")
    parser.add_argument("data", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--mixings", default="instamix,random")
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    arguments.results.mkdir(parents=True, exist_ok=True)
    runs = compute(arguments, arguments.results / "ica-separation.csv")
    mixings = arguments.mixings.split(",")
    draw(runs, mixings, arguments.results)
    print(table(runs, mixings), end="")


if __name__ == "__main__":
    main()
